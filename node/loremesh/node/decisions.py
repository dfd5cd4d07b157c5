"""Decisions about blocks, folded: who took which out of recall or brought it back, why, on what evidence.

A block's trail is the last decision about itself, and the revisions after it that put another block in its
place. The last of the trail holds. A revision is an event of the new block and goes with it; the trail is
kept so that forgetting that block leaves the old one as if it had never been revised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from loremesh.node.columns import OwnColumns, Withdrawn
from loremesh.node.events import Archive, Deprecate, Restore, Revise

NO_BLOCK: Final = -1

_WITHDRAWN: Final = {
    Archive: Withdrawn.ARCHIVED,
    Deprecate: Withdrawn.DEPRECATED,
    Restore: Withdrawn.NO,
}


class Decision(msgspec.Struct, frozen=True, array_like=True):
    """One decision about a block. `alpha_fx` and `beta_fx`: its first-hand evidence at the time. `by`: the
    row of the block that took its place, NO_BLOCK where none did.
    """

    withdrawn: Withdrawn
    why: str
    who: str
    hour: float
    wall_ms: int
    alpha_fx: int
    beta_fx: int
    by: int = NO_BLOCK


Trail = list[Decision]


class Decisions:
    """The trail of each block that there was a decision about, by row.

    `moved`: rows that may have left recall or come back since somebody last took note.
    """

    __slots__ = ("_replaced", "_trails", "moved")

    def __init__(self, trails: Iterable[tuple[int, Trail]] = ()) -> None:
        self._trails = {row: list(trail) for row, trail in trails}
        self._replaced: dict[int, set[int]] = {}  # row → rows in whose trails it is
        for row, trail in self._trails.items():
            for one in trail:
                if one.by != NO_BLOCK:
                    self._replaced.setdefault(one.by, set()).add(row)
        self.moved: set[int] = set()

    def apply(self, columns: OwnColumns, row: int, event: Archive | Deprecate | Restore) -> None:
        """Fold a decision about the block itself: it stands before whatever was decided earlier."""
        self._trails[row] = []
        self._add(columns, row, _WITHDRAWN[type(event)], event, NO_BLOCK)

    def supersede(self, columns: OwnColumns, row: int, event: Revise) -> None:
        """Fold a revision: the block in `row` takes the place of the one it names."""
        self._replaced.setdefault(row, set()).add(event.other)
        self._add(columns, event.other, Withdrawn.SUPERSEDED, event, row)

    def _add(
        self,
        columns: OwnColumns,
        row: int,
        withdrawn: Withdrawn,
        event: Archive | Deprecate | Restore | Revise,
        by: int,
    ) -> None:
        columns.ensure(row + 1)
        columns.withdrawn[row] = withdrawn
        own = columns.self_a[row], columns.self_b[row]
        made = Decision(withdrawn, event.why, event.who, event.hour, event.wall_ms, *own, by)
        self._trails.setdefault(row, []).append(made)
        self.moved.add(row)

    def trail(self, row: int) -> Sequence[Decision]:
        """The decisions about the block that may still hold, the last one does."""
        return self._trails.get(row, ())

    def restate(self, row: int, evidence: Mapping[tuple[int, int], tuple[int, int]]) -> None:
        """First-hand evidence at decisions about the block, by their `wall_ms` and `by`, was this."""
        trail = self._trails.get(row, [])
        for place, one in enumerate(trail):
            found = evidence.get((one.wall_ms, one.by))
            if found is not None:
                trail[place] = msgspec.structs.replace(one, alpha_fx=found[0], beta_fx=found[1])

    def of(self, row: int) -> Decision | None:
        """The decision about the block that holds, None when there was none."""
        trail = self._trails.get(row)
        return trail[-1] if trail else None

    def successor(self, row: int) -> int | None:
        """The row of the block that stands in this one's place now, None for a block nothing replaced."""
        held = self.of(row)
        return None if held is None or held.by == NO_BLOCK else held.by

    def newest(self, row: int) -> int:
        """Where a block's revisions lead to in the end; its own row where nothing replaced it."""
        seen = {row}
        while (after := self.successor(row)) is not None and after not in seen:
            seen.add(after)
            row = after
        return row

    def replaced_by(self, row: int) -> list[int]:
        """The rows of the blocks in whose place this one stands now, ascending."""
        return sorted(old for old in self._replaced.get(row, ()) if self.successor(old) == row)

    def rows(self) -> list[int]:
        """Every row that something was decided about."""
        return list(self._trails)

    def drop(self, columns: OwnColumns, row: int) -> None:
        """Forget the block. What it stood in the place of is as it was before."""
        for one in self._trails.pop(row, []):
            if one.by != NO_BLOCK and one.by in self._replaced:
                self._replaced[one.by].discard(row)
        for old in self._replaced.pop(row, ()):
            kept = [one for one in self._trails.get(old, []) if one.by != row]
            if kept:
                self._trails[old] = kept
            else:
                self._trails.pop(old, None)
            columns.withdrawn[old] = kept[-1].withdrawn if kept else Withdrawn.NO
            self.moved.add(old)

    def take_moved(self) -> list[int]:
        """The rows in `moved`, ascending; it is empty afterwards."""
        moved, self.moved = sorted(self.moved), set()
        return moved

    def export(self) -> list[tuple[int, Trail]]:
        """All trails, by ascending row; what the constructor takes."""
        return sorted(self._trails.items(), key=lambda one: one[0])
