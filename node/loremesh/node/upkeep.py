"""What a running node does by itself: consolidate, summarise, bound the events of a block, and keep the
checkpoint near the log's end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import structlog

from loremesh.node.consolidating import BATCH_BLOCKS, consolidate
from loremesh.node.ground import Ground

log = structlog.get_logger(__name__)

T = TypeVar("T")

STEP_BLOCKS: Final = BATCH_BLOCKS * 4
"""Blocks that one round of background consolidation takes on."""

LONGEST_PAUSE_S: Final = 60.0
"""Between two rounds that fail; the pause doubles up to it."""


async def keep_up(
    ground: Ground,
    bound: Callable[[], Awaitable[object]],
    summarise: Callable[[], Awaitable[str]],
    trouble: Callable[[str], None],
) -> None:
    """Consolidate whenever something waits, and bound what grew, until cancelled. `summarise` says what it
    could not do, '' for nothing. `trouble` is told what went wrong last, '' when it is over.
    """
    pause_s = ground.settings.sharing.consolidate_every_s
    failures = 0
    while True:
        await asyncio.sleep(min(pause_s * 2**failures, max(LONGEST_PAUSE_S, pause_s)))
        failed: list[str] = []
        done = await _tried(failed, lambda: consolidate(ground, limit=STEP_BLOCKS, patient=True))
        await _tried(failed, ground.checkpoint_if_due)
        await _tried(failed, bound)
        unsaid = await _tried(failed, summarise) if ground.settings.tiers.background else ""
        failures = min(failures + 1, 8) if failed else 0
        if failed:
            trouble(failed[0])
        elif done is not None and done.why:
            trouble(f"not rated: {done.why}")
        elif unsaid:
            trouble(f"not summarised: {unsaid}")
        elif done is not None and (done.rated or not done.waiting):
            trouble("")


async def _tried(failed: list[str], work: Callable[[], Awaitable[T]]) -> T | None:
    """What `work` gives; None where it fails, which is said in `failed` and must not hold up the others: a
    service that is away is no reason for a log without bounds.
    """
    try:
        return await work()
    except Exception as error:
        failed.append(str(error))
        log.warning("upkeep_failed", error=str(error))
        return None
