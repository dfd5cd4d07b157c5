"""Rating what waits for it: asking the rater, recording its answers, and when to ask again about the rest.

A rating that is not given leaves the block as it was. Who asked by hand is always answered; a node that goes
on by itself waits longer each time, so that a service which fails is not asked in a loop and costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from loremesh.node import evidence
from loremesh.node.providers.budget import Budget, Spent
from loremesh.node.records import decode_record, encode_record
from loremesh.node.store.store import Store

if TYPE_CHECKING:
    from loremesh.node.ground import Ground

SPENT_KEY: Final = "spent"

FIRST_WAIT_MS: Final = 60_000
LONGEST_WAIT_MS: Final = 24 * 3_600_000
"""Before a running node asks again: a minute, then twice as long each time, up to a day."""

MAX_WAITING: Final = 100_000
"""Blocks whose wait is kept; of more the earliest are asked about again at once."""


class Turns:
    """When a running node asks about which blocks again. Kept while the home is open."""

    def __init__(self) -> None:
        self._waits: dict[int, tuple[int, int]] = {}  # row → (how long in ms, until when)
        self._all: tuple[int, int] = (0, 0)

    def due(self, rows: Sequence[int], now_ms: int) -> list[int]:
        """Which of the rows may be asked about now."""
        if now_ms < self._all[1]:
            return []
        return [row for row in rows if row not in self._waits or self._waits[row][1] <= now_ms]

    def answered(self, rows: Sequence[int], unanswered: Sequence[int], stopped: bool, now_ms: int) -> None:
        """These rows have a rating, those were asked about in vain; `stopped`: the service itself failed."""
        for row in rows:
            self._waits.pop(row, None)
        if stopped:
            self._all = _longer(self._all, now_ms)
            return
        if rows:
            self._all = (0, 0)
        for row in unanswered:
            self._waits[row] = _longer(self._waits.pop(row, (0, 0)), now_ms)
        while len(self._waits) > MAX_WAITING:
            del self._waits[next(iter(self._waits))]


def _longer(wait: tuple[int, int], now_ms: int) -> tuple[int, int]:
    wait_ms = min(max(2 * wait[0], FIRST_WAIT_MS), LONGEST_WAIT_MS)
    return wait_ms, now_ms + wait_ms


class RatingRun:
    """The rating that one consolidation does. `patient`: only of what it is the turn of.

    `rated` and `unrated` count blocks, the latter with those not asked about once the service had failed;
    `why` says why, '' when there is nothing to say.
    """

    def __init__(self, ground: Ground, patient: bool) -> None:
        self._ground = ground
        self._patient = patient
        self._stopped = False
        self.rated = 0
        self.unrated = 0
        self.why = ""

    def worthwhile(self, rows: Sequence[int]) -> list[int]:
        """Of rows that wait, those to be embedded or linked, and those to be rated whose turn it is."""
        memory, due = self._ground.memory, set(self._due(rows))
        matrix = memory.matrix
        if matrix is None:
            return list(rows)
        unlinked = memory.unlinked() & (self._ground.settings.graph.links > 0)
        return [row for row in rows if not matrix.has(row) or unlinked[row] or row in due]

    async def rate(self, rows: Sequence[int], texts: Mapping[int, str]) -> None:
        """Ask for ratings of those of `rows` that are held and have none, and record what is answered."""
        ground = self._ground
        rater, columns = ground.parts.rater, ground.memory.own.columns
        lacking = self._due(
            [row for row in rows if row < columns.length and columns.held[row] and not columns.rated[row]]
        )
        if rater is None or not lacking:
            return
        if self._stopped:
            self.unrated += len(lacking)
            return
        found = await rater.rate([texts[row] for row in lacking])
        given = [(row, rating) for row, rating in zip(lacking, found.values, strict=True)]
        events = [(row, rating) for row, rating in given if rating is not None]
        self.rated += await ground.exclusive(lambda: _record(ground, events, rater.name))
        none = [row for row, rating in given if rating is None]
        self.unrated += len(none)
        self.why = found.why or self.why
        self._stopped = found.stopped
        ground.turns.answered([row for row, _ in events], none, found.stopped, ground.parts.now_ms())

    def _due(self, rows: Sequence[int]) -> list[int]:
        if not self._patient:
            return list(rows)
        return self._ground.turns.due(rows, self._ground.parts.now_ms())


async def _record(ground: Ground, given: Sequence[tuple[int, float]], rater: str) -> int:
    """Ratings by row as events, where the block is still here and still unrated; how many. Locked."""
    own, clock, weight = ground.memory.own, ground.stamp(), ground.settings.memory.rating_weight
    events = [
        (row, evidence.rating(own, clock, row, rating, weight, rater))
        for row, rating in given
        if ground.memory.has_content(row) and not own.columns.rated[row]
    ]
    records = spending(ground.parts.budget)
    if events or records:
        await ground.record(events, records=records)
    return len(events)


def spending(budget: Budget | None) -> dict[str, bytes | None]:
    """The record to keep of what was spent since it was last kept; empty when nothing was."""
    return {SPENT_KEY: encode_record(budget.spent())} if budget is not None and budget.changed else {}


async def restore_spending(store: Store, budget: Budget | None) -> None:
    """Count what was spent before the home was closed."""
    kept = await store.record(SPENT_KEY)
    if budget is not None and kept is not None:
        budget.go_on_from(decode_record(kept, Spent))
