"""Frames: ways of weighing a recall. The four of DESIGN §3, a preset to compare with, a home's own, mixtures.

A frame is a value (`score.RecallFrame`): weights, what the terms are scaled by, how recency fades. So an own
frame can say what a built-in one says, and a mixture of frames is a frame again: the score is linear in the
weights, hence Σ share · score of each part is the score by Σ share · weights of each part. Of a mixture's
links the neighbours' scores are those in the mixture.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from enum import Enum
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.node.errors import UsageError
from loremesh.node.frametable import MAX_WEIGHT, FrameSettings
from loremesh.node.params import MAX_MIXED
from loremesh.node.score import FRAMES, Floats, RecallFrame, Terms
from loremesh.node.weighed import FrameSeen

TERMS: Final = ("sim", "utility", "retrievability", "importance", "explore")
"""What a frame gives a weight to, in the order in which it is summed and shown."""

LINKS: Final = "links"
"""The term of a frame that asks the links: what the best neighbour lends."""

MAX_FRAMES: Final = 32
"""Own frames of one home: more than people keep apart."""
MAX_NAME_CHARACTERS: Final = 32
NAME: Final = re.compile(rf"[a-z][a-z0-9_-]{{0,{MAX_NAME_CHARACTERS - 1}}}")
"""What an own frame may be called: nothing that the notation of a mixture could be taken for."""
MAX_FRAME_NAME: Final = MAX_MIXED * (MAX_NAME_CHARACTERS + 16)
"""Characters of a mixture's name at most, which the event of each hit keeps: its parts, each with `=`, a
share of six digits, and a comma."""

FrameAsked = str | Mapping[str, float]
"""How a frame is asked for: by name, as a mixture "task=0.7,self=0.3", or as {"task": 0.7, "self": 0.3}."""

PARK: Final = RecallFrame(
    "park",
    sim=1 / 3,
    utility=0.0,
    retrievability=1 / 3,
    importance=1 / 3,
    explore=0.0,
    min_max=True,
    hourly_decay=0.995,
)
"""Recency + importance + relevance, to compare with: Park et al. 2023, "Generative Agents: Interactive
Simulacra of Human Behavior", §4.1 (arXiv:2304.03442). Recency is 0.995 to the hours since a memory was last
accessed; each of the three is scaled min-max to [0, 1] over what can be handed out, and all weigh alike.

Ours differs in three things that do not belong to the formula: relevance is `sim` (theirs is the cosine
alone); an access is an event that moved the block, counted in active hours, since reading is no evidence
here; and the equal weights sum to 1 where theirs are 1 each, which changes no order."""


class Origin(Enum):
    """Where a frame comes from, as people are told."""

    BUILT_IN = "built in"
    PRESET = "Park et al. 2023"
    CONFIGURED = "config.toml"


class Frames(msgspec.Struct, frozen=True):
    """The frames that one home can be asked in: those there always are, and its own, by name."""

    own: Mapping[str, RecallFrame] = {}

    def named(self, asked: FrameAsked) -> RecallFrame:
        """The frame of that name, or the mixture. Raises UsageError naming what is off in it."""
        if isinstance(asked, str) and "=" not in asked:
            return self._one(asked.strip())
        if not isinstance(asked, str | Mapping):
            raise UsageError(f"frame is a {type(asked).__name__}", "give a name or shares by name")
        return self._mixture(_parts(asked))

    def seen(self) -> list[FrameSeen]:
        """Every frame as people see it: the four, the preset, then own ones by name."""
        of = [(frame, Origin.BUILT_IN) for frame in FRAMES.values()]
        of += [(PARK, Origin.PRESET)]
        of += [(self.own[name], Origin.CONFIGURED) for name in sorted(self.own)]
        return [
            FrameSeen(
                name=frame.name,
                weights=weights_of(frame),
                own_only=frame.own_only,
                min_max=frame.min_max,
                hourly_decay=frame.hourly_decay,
                source=origin.value,
            )
            for frame, origin in of
        ]

    def _one(self, name: str) -> RecallFrame:
        found = FRAMES.get(name) or (PARK if name == PARK.name else self.own.get(name))
        if found is None:
            names = ", ".join([*FRAMES, PARK.name, *sorted(self.own)])
            raise UsageError(
                f"frame {name[:80]!r} is unknown", f"use one of {names}, or a mixture like task=0.7,self=0.3"
            )
        return found

    def _mixture(self, shares: Mapping[str, float]) -> RecallFrame:
        parts = [(self._one(name), share) for name, share in shares.items()]
        first = parts[0][0]
        for other, _ in parts[1:]:
            if (other.min_max, other.hourly_decay) != (first.min_max, first.hourly_decay):
                raise UsageError(
                    f"frames {first.name} and {other.name} cannot be mixed: their terms are not on one scale",
                    "mix frames that agree in min_max and hourly_decay; `loremesh frames` shows them",
                )
        if len(parts) == 1:
            return first
        total = math.fsum(share for _, share in parts)
        mixed = {
            term: math.fsum(share / total * getattr(frame, term) for frame, share in parts) for term in TERMS
        }
        return RecallFrame(
            name=",".join(f"{frame.name}={share / total:.6g}" for frame, share in parts),
            **mixed,
            own_only=all(frame.own_only for frame, _ in parts),
            min_max=first.min_max,
            hourly_decay=first.hourly_decay,
            graph=math.fsum(share / total * frame.graph for frame, share in parts),
        )


def _parts(asked: FrameAsked) -> dict[str, float]:
    """The shares by name, checked: 1 to MAX_MIXED names, each once, each share finite and above 0."""
    pairs: list[tuple[str, str | float]]
    if isinstance(asked, str):
        pairs = [(name.strip(), share) for name, _, share in (p.partition("=") for p in asked.split(","))]
    else:
        pairs = [(str(name).strip(), share) for name, share in asked.items()]
    if not 1 <= len(pairs) <= MAX_MIXED:
        raise UsageError(f"a mixture of {len(pairs)} frames is asked for", f"mix 1 to {MAX_MIXED}")
    shares: dict[str, float] = {}
    for name, given in pairs:
        try:
            share = float(given)
        except (TypeError, ValueError):
            share = math.nan
        if not (math.isfinite(share) and 0.0 < share <= MAX_WEIGHT):
            raise UsageError(
                f"the share {str(given)[:80]!r} of frame {name[:80]!r} cannot be used",
                f"give each frame a number above 0 and at most {MAX_WEIGHT:g}, like task=0.7,self=0.3",
            )
        if name in shares:
            raise UsageError(f"frame {name[:80]!r} is in the mixture twice", "name each frame once")
        shares[name] = share
    return shares


def configured(tables: Mapping[str, FrameSettings]) -> Frames:
    """The frames of these tables and those there always are.

    Raises ValueError naming the table and the field: a name that cannot be or is taken, weights that are all
    zero, too many frames. What each field takes has been checked.
    """
    if len(tables) > MAX_FRAMES:
        raise ValueError(f"{len(tables)} tables [frames.NAME] are more than the {MAX_FRAMES} there can be")
    return Frames({name: _configured(name, table) for name, table in tables.items()})


def _configured(name: str, table: FrameSettings) -> RecallFrame:
    if not NAME.fullmatch(name):
        raise ValueError(
            f"[frames.{name[:80]}]: a frame's name is 1 to {MAX_NAME_CHARACTERS} lower-case letters, digits, "
            "- and _, the first a letter"
        )
    if name in FRAMES or name == PARK.name:
        raise ValueError(f"[frames.{name}]: a frame {name} is there already, and means the same everywhere")
    weights = {term: float(getattr(table, term)) for term in TERMS}
    total = math.fsum(weights.values())
    if total <= 0.0:
        raise ValueError(f"[frames.{name}] gives none of {', '.join(TERMS)} a weight above 0")
    return RecallFrame(
        name=name,
        **{term: weight / total for term, weight in weights.items()},
        own_only=table.own_only,
        min_max=table.min_max,
        hourly_decay=table.hourly_decay,
        graph=float(table.graph),
    )


def weights_of(frame: RecallFrame) -> dict[str, float]:
    """The weights by term, as answers show them; that of the links where they are asked."""
    weights = {term: getattr(frame, term) for term in TERMS}
    return {**weights, LINKS: frame.graph} if frame.graph else weights


def recency(decay: float, age_h: NDArray[np.float64]) -> NDArray[np.float64]:
    """decay^age, float64[n] in [0, 1]; ages in active hours, infinite where there never was an event."""
    faded: NDArray[np.float64] = np.power(decay, np.maximum(age_h, 0.0))
    return faded


def min_max(terms: Terms, eligible: NDArray[np.bool_]) -> Terms:
    """Each term moved and stretched so that the `eligible` rows (bool[n]) span [0, 1]; one half where they
    are all alike. Other rows are cut off at 0 and 1: they are not handed out.
    """
    return Terms(*(_scaled(getattr(terms, name), eligible) for name in Terms.__struct_fields__))


def _scaled(term: Floats, eligible: NDArray[np.bool_]) -> Floats:
    among = term[eligible]
    if not len(among):
        return term
    low, high = among.min(), among.max()
    if high <= low:
        return np.full_like(term, 0.5)
    scaled: Floats = np.clip((term - low) / (high - low), np.float32(0.0), np.float32(1.0))
    return scaled
