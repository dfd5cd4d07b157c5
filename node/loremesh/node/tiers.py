"""Summaries and abstracts, folded: which blocks each stands above, and which of them hold today.

A raw block is a source of at most one summary; an abstract is a shorter form of one summary. All three are
blocks to the store, each sealed under a key of its own. Summaries are made here, from what is here, and are
nobody's evidence: they are not held, so nothing that looks for held blocks or for peers' finds them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Final

import msgspec

from loremesh.node.events import Summarise

MAX_SOURCES: Final = 256
"""Blocks below one summary, whatever the settings say: an event is one row of the log."""


class Level(IntEnum):
    """How far above the raw blocks a text stands."""

    SUMMARY = 1
    ABSTRACT = 2


class Tier(msgspec.Struct, frozen=True, array_like=True):
    """A summary or an abstract: the rows below it, ascending, who made it, and when last.

    `had`: rows that an earlier form was made from, under the same key; forgetting one takes this with it.
    `summary`: of an abstract, the row of its summary, else -1.
    """

    level: Level
    sources: tuple[int, ...]
    had: tuple[int, ...]
    summariser: str
    hour: float
    wall_ms: int
    summary: int = -1


class Tiers:
    """The summaries and abstracts by their own row."""

    __slots__ = ("_above", "_abstract", "_by_row")

    def __init__(self, tiers: Iterable[tuple[int, Tier]] = ()) -> None:
        self._by_row: dict[int, Tier] = {}
        self._above: dict[int, int] = {}
        self._abstract: dict[int, int] = {}
        for row, tier in tiers:
            self._put(row, tier)

    def __len__(self) -> int:
        return len(self._by_row)

    def __contains__(self, row: int) -> bool:
        return row in self._by_row

    def apply(self, row: int, event: Summarise) -> None:
        """Fold one event: the last form of a summary holds. Raises ValueError, and changes nothing, for one
        that cannot be.
        """
        sources, before = event.sources, self._by_row.get(row)
        if event.level not in (Level.SUMMARY, Level.ABSTRACT):
            raise ValueError(f"there is no tier {event.level}")
        if not 0 < len(sources) <= MAX_SOURCES or list(sources) != sorted({*sources}) or sources[0] < 0:
            raise ValueError(f"a summary has 1 to {MAX_SOURCES} sources, ascending, each once")
        if row in sources or any(source in self._by_row for source in sources) or row in self._above:
            raise ValueError(f"row {row} is a block, or one of its sources is a summary")
        if before is not None and (before.level != event.level or before.summary != event.summary):
            raise ValueError(f"the text in row {row} cannot change its tier")
        if event.level == Level.SUMMARY:
            if event.summary != -1 or any(self._above.get(source, row) != row for source in sources):
                raise ValueError(f"a source of row {row} is in another summary already")
        else:
            below = self._by_row.get(event.summary)
            if below is None or below.level is not Level.SUMMARY:
                raise ValueError(f"row {event.summary}, which row {row} is to be shorter than, is no summary")
            if self._abstract.get(event.summary, row) != row:
                raise ValueError(f"the summary in row {event.summary} has another abstract")
        had = {*sources, *(before.had if before is not None else ())}
        if before is not None:
            self._take_out(row)
        self._put(
            row,
            Tier(
                Level(event.level),
                sources,
                tuple(sorted(had)),
                event.summariser,
                event.hour,
                event.wall_ms,
                event.summary,
            ),
        )

    def get(self, row: int) -> Tier | None:
        """The summary or abstract in this row, None when it holds neither."""
        return self._by_row.get(row)

    def items(self) -> Iterable[tuple[int, Tier]]:
        """All of them, by ascending row."""
        return sorted(self._by_row.items())

    def summaries(self) -> list[int]:
        """Rows of the summaries, ascending."""
        return [row for row, tier in sorted(self._by_row.items()) if tier.level is Level.SUMMARY]

    def above(self, row: int) -> int | None:
        """The summary that a block is a source of, None when there is none."""
        return self._above.get(row)

    def abstract_of(self, summary: int) -> int | None:
        """The row of a summary's abstract, made from the same sources; None when there is none."""
        row = self._abstract.get(summary)
        return row if row is not None and self._by_row[row].sources == self._by_row[summary].sources else None

    def abstract_row(self, summary: int) -> int | None:
        """The row of a summary's abstract, also of one that is out of date; None when there never was one."""
        return self._abstract.get(summary)

    def doomed(self, row: int) -> list[int]:
        """Rows of the summaries and abstracts that go when the block in `row` is forgotten: those that are or
        were made from it, and the abstracts of such summaries.

        Abstracts come first, and are to be destroyed first: the event of one is none without its summary's.
        """
        gone = {at for at, tier in self._by_row.items() if row in tier.had or row in (at, tier.summary)}
        gone |= {self._abstract[at] for at in gone if at in self._abstract}
        return sorted(gone, key=lambda at: (-self._by_row[at].level, at))

    def drop(self, row: int) -> None:
        """The block in `row` is forgotten, and with it all that was made from it."""
        for gone in self.doomed(row):
            self._take_out(gone)

    def whole(self, row: int, readable: Callable[[int], bool]) -> bool:
        """Whether a summary or abstract may be shown: every block it was made from may be read, and an
        abstract is not older than its summary.
        """
        tier = self._by_row[row]
        current = tier.level is Level.SUMMARY or self.abstract_of(tier.summary) == row
        return current and all(map(readable, tier.sources))

    def export(self) -> list[tuple[int, Tier]]:
        """All of them, by ascending row; what the constructor takes."""
        return sorted(self._by_row.items())

    def _put(self, row: int, tier: Tier) -> None:
        self._by_row[row] = tier
        if tier.level is Level.SUMMARY:
            self._above.update(dict.fromkeys(tier.sources, row))
        else:
            self._abstract[tier.summary] = row

    def _take_out(self, row: int) -> None:
        tier = self._by_row.pop(row)
        if tier.level is Level.ABSTRACT:
            self._abstract.pop(tier.summary, None)
            return
        for source in tier.sources:
            if self._above.get(source) == row:
                del self._above[source]
