"""The composition root: the real adapters, put together from a home's settings."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from loremesh.node.embed.registry import open_embedder
from loremesh.node.parts import Parts
from loremesh.node.ports import Embedder
from loremesh.node.rate import SpecificityRater
from loremesh.node.settings import Settings
from loremesh.sync.nats_bus import NatsBus


def real_parts(settings: Settings, environ: Mapping[str, str]) -> Parts:
    """Wall clock, the system's randomness, the embedder that the settings name, the built-in rater, NATS."""

    async def embedder(dimension: int | None) -> Embedder:
        named = settings.embedder
        return await open_embedder(named.name, environ, key_env=named.api_key_env, dimension=dimension)

    return Parts(
        open_embedder=embedder,
        rater=SpecificityRater(),
        now_ms=lambda: time.time_ns() // 1_000_000,
        monotonic_s=time.monotonic,
        random_bytes=os.urandom,
        open_bus=NatsBus,
    )
