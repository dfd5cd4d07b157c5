"""Asking the rater again: a later rating adds its evidence to what is there and sets importance.

Nothing is overwritten: a second opinion counts beside the first one, and outcomes count beside both. What the
rater has no answer for stays as it is, and the answer says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from loremesh.node import evidence
from loremesh.node.consolidating import BATCH_BLOCKS
from loremesh.node.errors import Conflict, Unavailable, UsageError
from loremesh.node.ground import Ground
from loremesh.node.parts import Progress
from loremesh.node.ports import Rater
from loremesh.node.rating import spending
from loremesh.node.tended import BlockRated, Rescored

MAX_NAMED: Final = 256
"""Blocks named in one request, as in an outcome."""

MAX_TOLD: Final = 100
"""Ratings told one by one; all are counted."""


async def rescore(
    ground: Ground,
    blocks: Sequence[str] = (),
    older_than_h: float | None = None,
    progress: Progress | None = None,
) -> Rescored:
    """Rate these blocks again, or all in recall whose last rating is older than so many active hours, those
    without one included; the oldest rating first, so that a run that was stopped goes on where it was.

    Raises UsageError, UnknownThing, Conflict for a block that is not held here, Unavailable without a rater.
    """
    if (older_than_h is None) == (not blocks):
        raise UsageError(
            "rescore takes blocks, or the age of ratings that are too old, one of the two",
            "name blocks, or give --all-older-than HOURS",
        )
    if len(blocks) > MAX_NAMED:
        raise UsageError(f"{len(blocks)} blocks are named", f"name at most {MAX_NAMED}")
    if older_than_h is not None and not (math.isfinite(older_than_h) and older_than_h >= 0.0):
        raise UsageError(f"an age of {older_than_h!r} cannot be", "give active hours from 0 on")
    rater = ground.parts.rater
    if rater is None:
        raise Unavailable("this home has no rater", "set [rater] name in config.toml")

    async def find() -> list[int]:
        await ground.refresh()
        return _named(ground, blocks) if blocks else _older(ground, older_than_h or 0.0)

    rows = await ground.exclusive(find)
    run = _Run(ground, rater)
    for start in range(0, len(rows), BATCH_BLOCKS):
        await run.rate(rows[start : start + BATCH_BLOCKS])
        if progress is not None:
            progress(min(start + BATCH_BLOCKS, len(rows)), len(rows))
    await ground.checkpoint_if_due()
    return Rescored(run.rated, len(rows) - run.rated, run.why, rater.name, run.told)


def _named(ground: Ground, blocks: Sequence[str]) -> list[int]:
    memory = ground.memory
    rows = list(dict.fromkeys(memory.row_named(block) for block in blocks))
    columns = memory.own.columns
    for row in rows:
        if row >= columns.length or not columns.held[row]:
            raise Conflict(
                f"block {memory.block_hex(row)} is known from peers only, who rate it themselves",
                "learn its text first: then it is held and rated here",
            )
    return rows


def _older(ground: Ground, older_than_h: float) -> list[int]:
    memory = ground.memory
    length = memory.length
    own = memory.own.columns.views(max(length, memory.own.columns.length))
    rated_h = np.where(own.rated[:length] > 0, own.rated_h[:length], -np.inf)
    chosen = memory.readable() & (own.held[:length] > 0) & (ground.hour() - rated_h > older_than_h)
    rows = np.flatnonzero(chosen)
    found: list[int] = rows[np.argsort(rated_h[rows], kind="stable")].tolist()
    return found


class _Run:
    """One run over many blocks. `rated` counts, `told` lists the first, `why` says what went wrong."""

    def __init__(self, ground: Ground, rater: Rater) -> None:
        self._ground = ground
        self._rater = rater
        self._stopped = False
        self.rated = 0
        self.why = ""
        self.told: list[BlockRated] = []

    async def rate(self, rows: Sequence[int]) -> None:
        """Ask about a batch and record the answers, in one transaction. Nobody is asked once all failed."""
        if self._stopped:
            return
        ground = self._ground
        texts = await ground.store.texts(rows)
        here = [row for row in rows if row in texts]  # one may have been forgotten meanwhile
        found = await self._rater.rate([texts[row] for row in here])
        self.why, self._stopped = found.why or self.why, found.stopped
        given = [(row, value) for row, value in zip(here, found.values, strict=True) if value is not None]
        await ground.exclusive(lambda: self._record(given))

    async def _record(self, given: Sequence[tuple[int, float]]) -> None:
        ground = self._ground
        memory, clock, weight = ground.memory, ground.stamp(), ground.settings.memory.rating_weight
        own = memory.own
        kept = [(row, rating) for row, rating in given if memory.has_content(row)]
        before = [own.columns.importance[row] for row, _ in kept]
        events = [
            (row, evidence.rating(own, clock, row, rating, weight, self._rater.name)) for row, rating in kept
        ]
        records = spending(ground.parts.budget)
        if events or records:
            await ground.record(events, records=records)
        self.rated += len(events)
        for (row, rating), was in zip(kept, before, strict=True):
            if len(self.told) < MAX_TOLD:
                self.told.append(BlockRated(memory.block_hex(row), rating, was))
