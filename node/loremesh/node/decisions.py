"""Decisions about blocks, folded: who deprecated or restored what and why, on what evidence."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from loremesh.node.columns import OwnColumns, Withdrawn
from loremesh.node.events import Deprecate, Restore


class Decision(msgspec.Struct, frozen=True, array_like=True):
    """The last decision about a block. `alpha_fx` and `beta_fx`: its first-hand evidence at the time."""

    withdrawn: Withdrawn
    why: str
    who: str
    hour: float
    wall_ms: int
    alpha_fx: int
    beta_fx: int


class Decisions:
    """The last decision about each block that there was one about, by row."""

    __slots__ = ("_last",)

    def __init__(self, last: Iterable[tuple[int, Decision]] = ()) -> None:
        self._last = dict(last)

    def apply(self, columns: OwnColumns, row: int, event: Deprecate | Restore) -> None:
        """Fold a decision: the column says whether and how the block is out of recall, this why."""
        columns.ensure(row + 1)
        withdrawn = Withdrawn.DEPRECATED if isinstance(event, Deprecate) else Withdrawn.NO
        columns.withdrawn[row] = withdrawn
        self._last[row] = Decision(
            withdrawn,
            event.why,
            event.who,
            event.hour,
            event.wall_ms,
            columns.self_a[row],
            columns.self_b[row],
        )

    def of(self, row: int) -> Decision | None:
        """The last decision about the block, None when there was none."""
        return self._last.get(row)

    def drop(self, row: int) -> None:
        """Forget the block."""
        self._last.pop(row, None)

    def export(self) -> list[tuple[int, Decision]]:
        """All of them, by ascending row; what the constructor takes."""
        return sorted(self._last.items())
