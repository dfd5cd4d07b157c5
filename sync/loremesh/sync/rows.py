"""Small local numbers for long names: blocks have rows, contexts have indexes.

Columns are addressed by them. They are local to one home and never travel.
"""

from collections.abc import Iterable, Sequence
from itertools import repeat

import numpy as np

from loremesh.sync.errors import InvalidInput
from loremesh.sync.slots import Ints

ID_BYTES = 32
"""A block id is a SHA-256."""

MAX_ROWS = 1 << 31
"""Rows are int32 in the columns."""

CONTEXT_BITS = 20
"""Bits of a context's index inside a register's key."""

MAX_CONTEXTS = 1 << CONTEXT_BITS
"""Distinct context labels one home can know; about 150 MB of labels when full."""

_GAP = bytes(ID_BYTES)


class RowClash(ValueError):
    """A block id or a row that is already taken by another one."""


class BlockIndex:
    """Block id ↔ row. Rows are given out in order and never given out again: a removed one stays a gap."""

    def __init__(self) -> None:
        self._row_of: dict[bytes, int] = {}
        self._ids: list[bytes] = []

    def __len__(self) -> int:
        """Rows given out so far, gaps included."""
        return len(self._ids)

    def __contains__(self, block_id: bytes) -> bool:
        return block_id in self._row_of

    @property
    def known(self) -> int:
        """Blocks that have a row: the length without the gaps."""
        return len(self._row_of)

    def row(self, block_id: bytes) -> int | None:
        return self._row_of.get(block_id)

    def rows(self, ids: Sequence[bytes]) -> Ints:
        """int64[len(ids)]: the row of each id, -1 where it has none."""
        return np.fromiter(map(self._row_of.get, ids, repeat(-1)), np.int64, len(ids))

    def ensure(self, ids: Sequence[bytes], found: Ints | None = None) -> Ints:
        """int64[len(ids)]: the row of each id; an unknown one gets the next row.

        `found` is what `rows(ids)` gave, where the caller has just asked.
        """
        found = self.rows(ids) if found is None else found.copy()
        unknown = np.flatnonzero(found < 0)
        if len(unknown):
            start = len(self._ids)
            fresh = self._extend([ids[i] for i in unknown.tolist()])
            if fresh == len(unknown):
                found[unknown] = np.arange(start, start + fresh)
            else:  # some id stands in `ids` more than once
                found = self.rows(ids)
        return found

    def place(self, block_id: bytes, row: int) -> None:
        """Give `block_id` exactly this row, as the store recorded it; rows jumped over become gaps.

        Raises RowClash when either is already taken by another.
        """
        if row < 0 or row >= MAX_ROWS:
            raise InvalidInput("row", f"is {row}; it must be from 0 to {MAX_ROWS - 1}")
        _check_id(block_id)
        held = self._row_of.get(block_id)
        if held == row:
            return
        if held is not None:
            raise RowClash(f"block {block_id.hex()} has row {held}; it cannot also have row {row}")
        if row < len(self._ids) and self._ids[row]:
            raise RowClash(f"row {row} is taken by block {self._ids[row].hex()}")
        self.reserve(row + 1)
        self._ids[row] = block_id
        self._row_of[block_id] = row

    def reserve(self, rows: int) -> None:
        """See to it that `len()` is at least `rows`, with gaps: rows given out before must not return."""
        if rows > len(self._ids):
            self._ids.extend([b""] * (rows - len(self._ids)))

    def id(self, row: int) -> bytes:
        """The id at a row, b"" for a gap. Raises IndexError for a row that was never given out."""
        if row < 0:
            raise IndexError(row)
        return self._ids[row]

    def ids(self, rows: Iterable[int]) -> list[bytes]:
        known = self._ids
        return [known[row] for row in rows]

    def remove(self, row: int) -> None:
        """Leave a gap at `row`."""
        block_id = self.id(row)
        if block_id:
            del self._row_of[block_id]
            self._ids[row] = b""

    def export(self) -> bytes:
        """All rows in order, 32 bytes each, a gap as zeros."""
        return b"".join(block_id or _GAP for block_id in self._ids)

    @classmethod
    def load(cls, exported: bytes) -> "BlockIndex":
        """What `export` gave, again. Raises ValueError for anything else."""
        if len(exported) % ID_BYTES:
            raise ValueError(
                f"an exported block index of {len(exported)} bytes is not whole ids of {ID_BYTES}"
            )
        index = cls()
        for start in range(0, len(exported), ID_BYTES):
            block_id = exported[start : start + ID_BYTES]
            index._ids.append(b"" if block_id == _GAP else block_id)
        index._row_of = {block_id: row for row, block_id in enumerate(index._ids) if block_id}
        if len(index._row_of) != sum(map(bool, index._ids)):
            raise ValueError("an exported block index names one block twice")
        return index

    def _extend(self, ids: list[bytes]) -> int:
        fresh = dict.fromkeys(ids)  # in order, each once
        if set(map(len, fresh)) != {ID_BYTES} or _GAP in fresh:
            for block_id in fresh:
                _check_id(block_id)
        start = len(self._ids)
        if start + len(fresh) > MAX_ROWS:
            raise InvalidInput("row", f"{start} is not below {MAX_ROWS}: this home is full")
        self._row_of.update(zip(fresh, range(start, start + len(fresh)), strict=True))
        self._ids.extend(fresh)
        return len(fresh)


class Contexts:
    """Context label ↔ index. Index 0 is '', no context given."""

    def __init__(self, limit: int = MAX_CONTEXTS) -> None:
        if not 1 <= limit <= MAX_CONTEXTS:
            raise InvalidInput("limit", f"is {limit}; it must be from 1 to {MAX_CONTEXTS}")
        self._limit = limit
        self._labels = [""]
        self._index_of = {"": 0}

    def __len__(self) -> int:
        return len(self._labels)

    def find(self, label: str) -> int | None:
        return self._index_of.get(label)

    def room_for(self, labels: Iterable[str]) -> bool:
        """Whether `ensure` would succeed for all of these; ask before anything is changed."""
        return len(self._labels) + len(set(labels) - self._index_of.keys()) <= self._limit

    def ensure(self, label: str) -> int:
        """The label's index; a new label gets the next one. Raises InvalidInput when there is no room."""
        found = self._index_of.get(label)
        if found is None:
            found = len(self._labels)
            if found >= self._limit:
                raise InvalidInput(
                    "context", f"{label!r} would be label {found + 1}; a home knows {self._limit} at most"
                )
            self._labels.append(label)
            self._index_of[label] = found
        return found

    def label(self, index: int) -> str:
        """Raises IndexError for an index that was never given out."""
        if index < 0:
            raise IndexError(index)
        return self._labels[index]

    def labels(self) -> tuple[str, ...]:
        """All labels by index; the first is ''."""
        return tuple(self._labels)

    @classmethod
    def load(cls, labels: Sequence[str], limit: int = MAX_CONTEXTS) -> "Contexts":
        """The table that `labels` came from. Raises ValueError when it cannot have been one."""
        if not labels or labels[0] != "" or len(set(labels)) != len(labels):
            raise ValueError("a list of contexts starts with '' and names each label once")
        contexts = cls(limit)
        for label in labels[1:]:
            contexts.ensure(label)
        return contexts


def _check_id(block_id: bytes) -> None:
    if len(block_id) != ID_BYTES or block_id == _GAP:
        raise InvalidInput("block id", f"is {block_id.hex()!r}; it must be {ID_BYTES} bytes, not all zero")
