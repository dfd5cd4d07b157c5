"""Growable columns whose slots are found by key and by row: what `Registers` and `Providers` stand on."""

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

_NONE = -1
_EMPTY = -1
_REMOVED = -2


def grown(column: Column, used: int, need: int) -> Column:
    """The column itself when it holds `need` slots, else one of twice the length that begins like it."""
    if need <= len(column):
        return column
    longer = np.zeros(max(2 * len(column), need), column.dtype)
    longer[:used] = column[:used]
    return longer


class RowSlots:
    """Hands out slots for keys (row, tag), found again by key or by row.

    By key: a hash table of slot numbers, at most half full, worked on a batch at a time. Probing goes on by
    1, 2, 3 … buckets, which reaches all of them in a table of 2ⁿ and makes no long runs: a batch takes as
    many steps as its unluckiest key.
    (A dict would do the same at five times the memory, and rebuild slowly when a home is opened.)
    By row: the slots of a row are chained, `head[row]` → slot → `next[slot]` → … → -1.
    """

    def __init__(self) -> None:
        self.used = 0
        self.row: Smalls = np.zeros(FIRST_CAPACITY, np.int32)  # by slot, -1 when free
        self.tag: Ints = np.zeros(FIRST_CAPACITY, np.int64)
        self._next: Smalls = np.zeros(FIRST_CAPACITY, np.int32)
        self._head: Smalls = np.full(FIRST_CAPACITY, _NONE, np.int32)  # by row
        self._free: list[int] = []
        self._table: Smalls = np.full(2 * FIRST_CAPACITY, _EMPTY, np.int32)
        self._filled = 0  # buckets that are not empty, removed ones included

    def __len__(self) -> int:
        """Slots in use."""
        return self.used - len(self._free)

    def live(self) -> Ints:
        """The slots in use, ascending."""
        return np.flatnonzero(self.row[: self.used] >= 0)

    def find(self, rows: Ints, tags: Ints) -> Ints:
        """The slot of each key, -1 where there is none."""
        buckets = self._buckets(rows, tags)
        return np.where(buckets >= 0, self._table[buckets], _NONE).astype(np.int64)

    def allocate(self, rows: Ints, tags: Ints) -> Ints:
        """One new slot for each of these distinct, unknown keys."""
        count = len(rows)
        reused = [self._free.pop() for _ in range(min(count, len(self._free)))]
        need = self.used + count - len(reused)
        self.row = grown(self.row, self.used, need)
        self.tag = grown(self.tag, self.used, need)
        self._next = grown(self._next, self.used, need)
        slots = np.concatenate([np.array(reused, np.int64), np.arange(self.used, need, dtype=np.int64)])
        self.used = need
        if count:
            self.row[slots], self.tag[slots] = rows, tags
            self._chain(rows, slots)
            self._enter(slots)
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
        """Free every slot of a row; returns them, their tags still readable."""
        slots = self.select(np.array([row], np.int64))
        if len(slots):
            self._table[self._buckets(self.row[slots].astype(np.int64), self.tag[slots])] = _REMOVED
            self._head[row] = _NONE
            self.row[slots] = _NONE
            self._free.extend(slots.tolist())
        return slots

    def _scan(self, rows: Ints) -> Ints:
        wanted = np.zeros(len(self._head), np.bool_)
        wanted[rows[(rows >= 0) & (rows < len(wanted))]] = True
        live = self.live()
        return live[wanted[self.row[live]]]

    def _chain(self, rows: Ints, slots: Ints) -> None:
        rows_before = len(self._head)
        self._head = grown(self._head, rows_before, int(rows.max()) + 1)
        self._head[rows_before:] = _NONE
        order = np.argsort(rows, kind="stable")
        by_row, chained = rows[order], slots[order]
        first = starts(by_row)
        last = np.empty(len(first), np.bool_)
        last[:-1], last[-1] = first[1:], True
        # Inside a run each slot points at the one after it; the last at what the row had before.
        self._next[chained[:-1]] = chained[1:]
        self._next[chained[last]] = self._head[by_row[last]]
        self._head[by_row[first]] = chained[first]

    def _enter(self, slots: Ints) -> None:
        if 2 * (self._filled + len(slots)) > len(self._table):
            slots = self.live()
            size = len(self._table)
            while 2 * len(slots) > size // 2:  # at most a quarter full, so that it lasts
                size *= 2
            self._table = np.full(size, _EMPTY, np.int32)
            self._filled = 0
        self._filled += len(slots)
        mask = len(self._table) - 1
        at = _mixed(self.row[slots].astype(np.int64), self.tag[slots]) & mask
        step = 0
        while len(slots):
            free = self._table[at] == _EMPTY
            self._table[at[free]] = slots[free]
            lost = (self._table[at] != slots).nonzero()[0]  # taken before, or by another of this batch
            step += 1
            slots, at = slots[lost], (at[lost] + step) & mask

    def _buckets(self, rows: Ints, tags: Ints) -> Ints:
        """The bucket of each key, -1 where there is none."""
        mask = len(self._table) - 1
        found = np.full(len(rows), _NONE, np.int64)
        at = _mixed(rows, tags) & mask
        looking = np.arange(len(rows))
        step = 0
        while True:
            slots = self._table[at]
            on = (slots != _EMPTY).nonzero()[0]
            if not len(on):
                return found
            looking, at, slots = looking[on], at[on], slots[on]
            same = (self.row[slots] == rows[looking]) & (self.tag[slots] == tags[looking]) & (slots >= 0)
            found[looking[same]] = at[same]
            on = (~same).nonzero()[0]
            step += 1
            looking, at = looking[on], (at[on] + step) & mask


def starts(ordered: Ints) -> Flags:
    """Where each run of equal values begins."""
    first = np.empty(len(ordered), np.bool_)
    first[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return first


def _mixed(rows: Ints, tags: Ints) -> Ints:
    """A well-spread non-negative number per key (SplitMix64's finalizer)."""
    z = rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + tags.astype(np.uint64)
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return (z >> np.uint64(1)).astype(np.int64)
