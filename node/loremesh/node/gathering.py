"""Which blocks belong together: groups that grow one block at a time, by the cosines of their vectors.

A block joins the group whose members it is most like on average (group average linkage, Manning, Raghavan and
Schütze 2008, §17.3), when that average reaches the threshold and the group has room. Otherwise it founds a
group with the blocks that are in none and that like it, when there are enough; otherwise it is left alone,
for a later one to find. No block that was placed is placed again: one new block costs one row of cosines.
The order of blocks decides, so the same blocks in the same order give the same groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

ALONE: Final = -1
"""The group of a block that is in none."""


class Bounds(msgspec.Struct, frozen=True):
    """`threshold`: the cosine, in (0, 1], from which blocks are alike. `least` and `most`: members."""

    threshold: float
    least: int
    most: int


class Groups:
    """The groups of rows 0 … n-1. `scope` (int[n]): only rows of one scope come together."""

    def __init__(self, groups: Sequence[Sequence[int]], scope: NDArray[np.int32], bounds: Bounds) -> None:
        self.bounds = bounds
        self.group = np.full(len(scope), ALONE, np.int64)
        """By row, the number of its group; ALONE for none."""
        self._scope = scope
        self._members: list[list[int]] = []
        self._size = np.zeros(len(scope) + 1, np.int64)
        self._group_scope = np.zeros(len(scope) + 1, scope.dtype)
        for members in groups:
            self._found(list(members))

    def __len__(self) -> int:
        return len(self._members)

    def members(self, group: int) -> list[int]:
        """The rows of a group, ascending."""
        return sorted(self._members[group])

    def place(self, row: int, cosines: NDArray[np.float32], open_: NDArray[np.bool_]) -> int:
        """The group that `row`, which is in none, comes into; ALONE when it comes into none.

        `cosines` (float32[n]) are its own with every row, `open_` (bool[n]) says which rows may found one.
        """
        joined = self._most_alike(row, cosines)
        if joined != ALONE:
            self._join(joined, [row])
            return joined
        near = open_ & (self.group == ALONE) & (self._scope == self._scope[row])
        near &= cosines >= self.bounds.threshold
        near[row] = False
        found = np.flatnonzero(near)
        if len(found) + 1 < self.bounds.least:
            return ALONE
        best = found[np.lexsort((found, -cosines[found]))][: self.bounds.most - 1]
        return self._found([row, *best.tolist()])

    def _most_alike(self, row: int, cosines: NDArray[np.float32]) -> int:
        count = len(self._members)
        if not count:
            return ALONE
        placed = np.flatnonzero(self.group != ALONE)
        total = np.bincount(self.group[placed], weights=cosines[placed], minlength=count)
        size = self._size[:count]
        mean = total / size
        mean[(size >= self.bounds.most) | (self._group_scope[:count] != self._scope[row])] = -1.0
        best = int(np.argmax(mean))
        return best if mean[best] >= self.bounds.threshold else ALONE

    def _found(self, rows: list[int]) -> int:
        group = len(self._members)
        self._members.append([])
        self._group_scope[group] = self._scope[rows[0]]
        self._join(group, rows)
        return group

    def _join(self, group: int, rows: Sequence[int]) -> None:
        self._members[group] += rows
        self._size[group] += len(rows)
        self.group[list(rows)] = group
