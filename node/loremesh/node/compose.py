"""The composition root: the real adapters, put together from a home's settings."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from loremesh.node.embed.registry import open_embedder, open_former
from loremesh.node.parts import Parts
from loremesh.node.ports import Embedder, Fingerprint
from loremesh.node.providers.budget import Budget
from loremesh.node.providers.registry import open_rater, open_summariser
from loremesh.node.settings import Settings
from loremesh.sync.nats_bus import NatsBus


def real_parts(settings: Settings, environ: Mapping[str, str]) -> Parts:
    """Wall clock, the system's randomness, the embedder, rater and summariser that the settings name, NATS.

    Raises UsageError for a name of a rater or summariser that cannot be right, ServiceError for a key that
    cannot be sent.
    """

    def now_ms() -> int:
        return time.time_ns() // 1_000_000

    async def embedder(dimension: int | None) -> Embedder:
        named = settings.embedder
        return await open_embedder(named.name, environ, key_env=named.api_key_env, dimension=dimension)

    async def former(made_by: Fingerprint) -> Embedder:
        named = settings.embedder
        return await open_former(made_by, named.name, environ, key_env=named.api_key_env)

    asked, rated_by, said_by = settings.services, settings.rater, settings.summariser
    budget = Budget(asked.calls_per_hour, asked.tokens_per_day, now_ms)
    return Parts(
        open_embedder=embedder,
        rater=open_rater(
            rated_by.name, environ, budget, key_env=rated_by.api_key_env, timeout_s=asked.timeout_s
        ),
        now_ms=now_ms,
        monotonic_s=time.monotonic,
        random_bytes=os.urandom,
        open_bus=NatsBus,
        budget=budget,
        open_former=former,
        summariser=open_summariser(
            said_by.name, environ, budget, key_env=said_by.api_key_env, timeout_s=asked.timeout_s
        ),
    )
