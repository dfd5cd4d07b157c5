"""Growable columns whose slots are found by row: what `Registers` and `Providers` stand on."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Smalls = NDArray[np.int32]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Column = TypeVar("Column", Ints, Smalls, Floats)

FIRST_CAPACITY = 1024
"""Slots of an empty table; it doubles from there, so that adding stays linear."""

CHAIN_STEPS = 64
"""Links `select` follows before it scans the row column instead. A step costs about 5 µs, a scan about 1 ms
for a million slots: a block on which everybody reports costs one scan, not a step per report."""


def grown(column: Column, used: int, need: int) -> Column:
    """The column itself when it holds `need` slots, else one of twice the length that begins like it."""
    if need <= len(column):
        return column
    longer = np.zeros(max(2 * len(column), need), column.dtype)
    longer[:used] = column[:used]
    return longer


class RowSlots:
    """Hands out slots and chains the slots of a row: `head[row]` → slot → `next[slot]` → … → -1."""

    def __init__(self) -> None:
        self.used = 0
        self.row: Smalls = np.zeros(FIRST_CAPACITY, np.int32)  # by slot, -1 when free
        self._next: Smalls = np.zeros(FIRST_CAPACITY, np.int32)
        self._head: Smalls = np.full(FIRST_CAPACITY, -1, np.int32)  # by row
        self._free: list[int] = []

    def __len__(self) -> int:
        """Slots in use."""
        return self.used - len(self._free)

    def live(self) -> Ints:
        """The slots in use, ascending."""
        return np.flatnonzero(self.row[: self.used] >= 0)

    def allocate(self, rows: Ints) -> Ints:
        """One new slot per entry of `rows` (repeats allowed)."""
        count = len(rows)
        reused = [self._free.pop() for _ in range(min(count, len(self._free)))]
        fresh = count - len(reused)
        need = self.used + fresh
        self.row = grown(self.row, self.used, need)
        self._next = grown(self._next, self.used, need)
        slots = np.concatenate([np.array(reused, np.int64), np.arange(self.used, need, dtype=np.int64)])
        self.used = need
        if count:
            rows_before = len(self._head)
            self._head = grown(self._head, rows_before, int(rows.max()) + 1)
            self._head[rows_before:] = -1
            self.row[slots] = rows
            order = np.argsort(rows, kind="stable")
            by_row, chained = rows[order], slots[order]
            first = np.empty(count, np.bool_)
            first[0] = True
            np.not_equal(by_row[1:], by_row[:-1], out=first[1:])
            last = np.append(first[1:], True)
            # Inside a run each slot points at the one after it; the last at what the row had before.
            self._next[chained[:-1]] = chained[1:]
            self._next[chained[last]] = self._head[by_row[last]]
            self._head[by_row[first]] = chained[first]
        return slots

    def select(self, rows: Ints) -> Ints:
        """The slots of these distinct rows, in no particular order."""
        at = self._head[rows[(rows >= 0) & (rows < len(self._head))]]
        at = at[at >= 0]
        found: list[Smalls] = []
        for _ in range(CHAIN_STEPS):
            if not len(at):
                break
            found.append(at)
            at = self._next[at]
            at = at[at >= 0]
        else:
            if len(at):
                return self._scan(rows)
        return np.concatenate(found).astype(np.int64) if found else np.empty(0, np.int64)

    def drop(self, row: int) -> Ints:
        """Free every slot of a row; returns them."""
        slots = self.select(np.array([row], np.int64))
        if len(slots):
            self._head[row] = -1
            self.row[slots] = -1
            self._next[slots] = -1
            self._free.extend(slots.tolist())
        return slots

    def _scan(self, rows: Ints) -> Ints:
        wanted = np.zeros(len(self._head), np.bool_)
        wanted[rows[(rows >= 0) & (rows < len(wanted))]] = True
        live = self.live()
        return live[wanted[self.row[live]]]
