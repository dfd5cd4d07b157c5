"""A home's settings: `config.toml`, read once at opening. Every value has a default and a bound.

Nothing secret and nothing learned stands in this file.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from loremesh.crypto.durable import read_small
from loremesh.node.frametable import FrameSettings

CONFIG_NAME = "config.toml"
CONFIG_BYTES_MAX = 64 * 1024
"""Far more than all settings take: what is larger is some other file."""

Positive = Annotated[float, msgspec.Meta(gt=0.0, le=1e6)]
Fraction = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]


class SettingsError(Exception):
    """`config.toml` cannot be used; the message names the field and what it takes."""


class MemorySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How own evidence is weighed. The reasons for the defaults are in `node/SETTINGS.md`."""

    w_init: Annotated[float, msgspec.Meta(ge=0.1, le=100.0)] = 1.0
    rating_weight: Annotated[float, msgspec.Meta(ge=0.0, le=100.0)] = 0.5
    revision_weight: Annotated[float, msgspec.Meta(ge=0.1, le=100.0)] = 2.0
    confirm_weight: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 0.1
    retrieval_weights: Literal["uniform", "score"] = "uniform"
    idle_gap_h: Positive = 0.5
    clock: Literal["active", "wall"] = "active"
    foreign_share: Fraction = 0.5
    context_backoff: Positive = 4.0
    rules: str = "fsrs5"
    diversity: Fraction = 0.1
    base_rates: dict[str, Fraction] = {}
    events_per_block: Annotated[int, msgspec.Meta(ge=50, le=100_000_000)] = 2_000
    outcomes_per_hour: Annotated[int, msgspec.Meta(ge=1, le=10_000_000)] = 100_000


class EmbedderSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`name` as `loremesh.node.embed.registry` reads it: minilm, hashing[:dim], openai:MODEL@URL."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=300)] = "minilm"
    api_key_env: Annotated[str, msgspec.Meta(max_length=100)] = "OPENAI_API_KEY"


class GraphSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Links that consolidation proposes for a block (0: none), from which cosine on."""

    links: Annotated[int, msgspec.Meta(ge=0, le=16)] = 5
    threshold: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 0.6


class RaterSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`name` as `loremesh.node.providers.registry` reads it: specificity, none, openai:MODEL@URL."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=300)] = "specificity"
    api_key_env: Annotated[str, msgspec.Meta(max_length=100)] = "OPENAI_API_KEY"


class SummariserSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`name` as `loremesh.node.providers.registry` reads it: extractive, openai:MODEL@URL."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=300)] = "extractive"
    api_key_env: Annotated[str, msgspec.Meta(max_length=100)] = "OPENAI_API_KEY"


class ServiceSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What language models may be asked in all, and how long one may take (seconds for a read)."""

    calls_per_hour: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 2_000
    tokens_per_day: Annotated[int, msgspec.Meta(ge=0, le=10_000_000_000)] = 2_000_000
    timeout_s: Annotated[float, msgspec.Meta(ge=0.1, le=600.0)] = 30.0


class TierSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When blocks are summarised (see `gathering.Bounds`) and how long summaries are, in `extract.tokens`."""

    background: bool = True
    threshold: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 0.55
    least: Annotated[int, msgspec.Meta(ge=2, le=256)] = 3
    most: Annotated[int, msgspec.Meta(ge=2, le=256)] = 24
    abstract_from: Annotated[int, msgspec.Meta(ge=2, le=256)] = 6
    summary_tokens: Annotated[int, msgspec.Meta(ge=8, le=4096)] = 160
    abstract_tokens: Annotated[int, msgspec.Meta(ge=8, le=4096)] = 40
    share: Fraction = 0.1


class SharingSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The node's side of the bus. Intervals in seconds."""

    publish_every_s: Annotated[float, msgspec.Meta(ge=0.02, le=3600.0)] = 0.5
    head_every_s: Annotated[float, msgspec.Meta(ge=0.1, le=3600.0)] = 5.0
    consolidate_every_s: Annotated[float, msgspec.Meta(ge=0.05, le=86_400.0)] = 2.0
    checkpoint_every_rows: Annotated[int, msgspec.Meta(ge=100, le=100_000_000)] = 20_000


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of `config.toml`; a missing file means the defaults."""

    memory: MemorySettings = MemorySettings()
    embedder: EmbedderSettings = EmbedderSettings()
    graph: GraphSettings = GraphSettings()
    rater: RaterSettings = RaterSettings()
    services: ServiceSettings = ServiceSettings()
    summariser: SummariserSettings = SummariserSettings()
    tiers: TierSettings = TierSettings()
    sharing: SharingSettings = SharingSettings()
    frames: dict[str, FrameSettings] = {}


def read_settings(home: Path) -> Settings:
    """The settings of `home`. Raises SettingsError naming the file, the field and what it takes."""
    path = home / CONFIG_NAME
    try:
        raw = read_small(path, CONFIG_BYTES_MAX + 1)
        text = raw.decode("utf-8")
    except FileNotFoundError:
        return Settings()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"{path} cannot be read: {error}. Mend the file or remove it for the defaults"
        ) from error
    if len(raw) > CONFIG_BYTES_MAX:
        raise SettingsError(f"{path} has more than {CONFIG_BYTES_MAX} bytes. Mend the file or remove it")
    try:
        stated = tomllib.loads(text)
        _check_frames(stated.get("frames"))
        settings = msgspec.convert(stated, Settings)
        if settings.frames:
            from loremesh.node.frames import configured  # needs numpy, which most commands do without

            configured(settings.frames)
        return settings
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, ValueError) as error:
        raise SettingsError(f"{path}: {error}. Mend the field or remove it for its default") from error
    except RecursionError:
        raise SettingsError(f"{path} is nested too deeply. Mend the file or remove it") from None


def _check_frames(tables: object) -> None:
    """Raises ValueError naming the table of an own frame that cannot be; else the message would not."""
    if isinstance(tables, dict):
        for name, table in tables.items():
            try:
                msgspec.convert(table, FrameSettings)
            except msgspec.ValidationError as error:
                raise ValueError(f"[frames.{str(name)[:80]}]: {error}") from None
