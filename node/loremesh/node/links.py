"""Links between blocks, as columns: which there are, how strong they were made, and who made them.

A link has no direction. One that was made by hand holds, with the weight last stated (0 keeps the two apart),
whatever is proposed for the pair; of proposals the last one holds. All of it is a fold of own events; how
strong a link is today follows from what its ends have been through since (`graph`).

Both directions of every pair stand in one sorted column, so that a block's links lie side by side; what was
stated since it was last sorted waits in a dict. Half a million links take 13 MB so, and 85 as dicts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.node.arrays import Scalar

Ints = NDArray[np.int64]

ROW_BITS: Final = 32
_ROW_MASK: Final = (1 << ROW_BITS) - 1

WAITING_MIN: Final = 2_048
WAITING_SHARE: Final = 8
"""What waits is sorted in when it is more than this many pairs and an eighth of what is sorted: then sorting
costs a constant per link, and what waits stays small beside what does not."""


class Edge(msgspec.Struct, frozen=True):
    """One link of a block, seen from it. `weight_fx` is what it was made with."""

    other: int
    weight_fx: int
    by_hand: bool


class Edges(msgspec.Struct, frozen=True, eq=False):
    """All links, each from both its ends, by row and then by other row; [m] each. Read only."""

    row: Ints
    other: Ints
    weight_fx: NDArray[np.int32]
    by_hand: NDArray[np.bool_]


class Links:
    """Who is linked to whom."""

    __slots__ = ("_hand", "_keys", "_looked", "_stale", "_waiting", "_weight")

    def __init__(self) -> None:
        self._keys = np.empty(0, np.int64)
        self._weight = np.empty(0, np.int32)
        self._hand = np.empty(0, np.uint8)
        self._waiting: dict[int, tuple[int, bool]] = {}
        self._stale = False
        self._looked = bytearray()

    def __len__(self) -> int:
        """How many links there are, each counted once; pairs that are kept apart are none."""
        self._sort_in()
        return int(np.count_nonzero(self._weight)) // 2

    def connect(self, one: int, other: int, weight_fx: int) -> None:
        """The link of two distinct rows, made by hand; weight 0: they are kept apart from now on."""
        key = _key(one, other)
        self._put(key, -1 if key in self._waiting else self._find(key), weight_fx, True)

    def propose(self, one: int, other: int, weight_fx: int) -> None:
        """A link that similarity proposes; weight 0 takes a proposed one back. Hand-made ones stay."""
        key = _key(one, other)
        waiting = self._waiting.get(key)
        at = -1 if waiting is not None else self._find(key)
        _, by_hand = waiting or self._held(at)
        if not by_hand:
            self._put(key, at, weight_fx, False)

    def known(self, one: int, other: int) -> bool:
        """Whether anything holds of the two: a link, or that they are kept apart."""
        key = _key(one, other)
        weight_fx, by_hand = self._waiting.get(key) or self._held(self._find(key))
        return by_hand or weight_fx > 0

    def of(self, row: int) -> list[Edge]:
        """The links of one row, by other row."""
        self._sort_in()
        start, stop = self._span(row)
        return [
            Edge(key & _ROW_MASK, weight_fx, bool(hand))
            for key, weight_fx, hand in zip(
                self._keys[start:stop].tolist(),
                self._weight[start:stop].tolist(),
                self._hand[start:stop].tolist(),
                strict=True,
            )
            if weight_fx
        ]

    def among(self, rows: Ints) -> tuple[Ints, Ints, NDArray[np.int32]]:
        """The links of some rows: (place in `rows`, other row, weight_fx), int64[m], int64[m], int32[m]."""
        self._sort_in()
        spans = [self._span(row) for row in rows.tolist()]
        if not spans:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32)
        other = np.concatenate([self._keys[start:stop] for start, stop in spans]) & _ROW_MASK
        weight = np.concatenate([self._weight[start:stop] for start, stop in spans])
        whose = np.repeat(np.arange(len(spans)), [stop - start for start, stop in spans])
        return whose, other, weight

    def degree(self, row: int) -> int:
        """Of how many others something holds for this row, those that it is kept apart from included."""
        self._sort_in()
        start, stop = self._span(row)
        return stop - start

    def edges(self) -> Edges:
        """All links, from both ends."""
        self._sort_in()
        real = self._weight > 0
        keys, weight, hand = self._keys, self._weight, self._hand
        if not real.all():
            keys, weight, hand = keys[real], weight[real], hand[real]
        return Edges(keys >> ROW_BITS, keys & _ROW_MASK, weight, hand > 0)

    def rows(self) -> Iterator[int]:
        """Every row of which anything holds, ascending."""
        self._sort_in()
        yield from np.unique(self._keys >> ROW_BITS).tolist()

    def note_looked(self, row: int) -> None:
        """Links of this row have been looked for, whether any were found or not."""
        if row >= len(self._looked):
            self._looked.extend(bytes(row + 1 - len(self._looked) + len(self._looked) // 2))
        self._looked[row] = 1

    def looked(self, size: int) -> NDArray[np.bool_]:
        """For which of the rows 0 … size-1 links have been looked for, bool[size], a copy."""
        found = np.zeros(size, np.bool_)
        seen = np.frombuffer(bytes(self._looked[:size]), np.uint8)
        found[: len(seen)] = seen > 0
        return found

    def drop(self, row: int) -> None:
        """The block was forgotten: whatever was said of it and another is gone.

        Its pairs are emptied and go when the columns are sorted next, so that many forgotten one after the
        other cost what their links cost, not what all do.
        """
        self._waiting = {
            key: held for key, held in self._waiting.items() if row not in (key >> ROW_BITS, key & _ROW_MASK)
        }
        start, stop = self._span(row)
        back = self._keys.searchsorted((self._keys[start:stop] & _ROW_MASK) << ROW_BITS | row)
        for pairs in (slice(start, stop), back):
            self._weight[pairs] = 0
            self._hand[pairs] = 0
        self._stale = self._stale or stop > start
        if row < len(self._looked):
            self._looked[row] = 0

    def export(self) -> dict[str, NDArray[np.generic]]:
        """Everything, by name, each pair once, ascending: the same links give the same bytes."""
        self._sort_in()
        one, other = self._keys >> ROW_BITS, self._keys & _ROW_MASK
        once = one < other
        looked = self.looked(len(self._looked))
        return {
            "one": one[once].astype(np.uint32),
            "other": other[once].astype(np.uint32),
            "weight_fx": self._weight[once],
            "hand": self._hand[once],
            "looked": np.flatnonzero(looked).astype(np.uint32),
        }

    @classmethod
    def load(cls, exported: Mapping[str, NDArray[np.generic] | bytes]) -> Links:
        """What `export` gave, again. Raises ValueError naming a column that is missing or of another form."""
        one, other, looked = (_column(exported, name, np.uint32) for name in ("one", "other", "looked"))
        weight, hand = _column(exported, "weight_fx", np.int32), _column(exported, "hand", np.uint8)
        if len({len(one), len(other), len(weight), len(hand)}) != 1 or not (one < other).all():
            raise ValueError("the links cannot be taken up: their columns do not go together")
        links = cls()
        links._add(one.astype(np.int64) << ROW_BITS | other, weight, hand)
        if not (links._keys[:-1] < links._keys[1:]).all():
            raise ValueError("the links cannot be taken up: a pair is there twice")
        seen = np.zeros(int(looked.max()) + 1 if len(looked) else 0, np.uint8)
        seen[looked] = 1
        links._looked = bytearray(seen.tobytes())
        return links

    def _span(self, row: int) -> tuple[int, int]:
        """Where the pairs of a row begin and end."""
        start = int(self._keys.searchsorted(row << ROW_BITS))
        return start, int(self._keys.searchsorted(row << ROW_BITS | _ROW_MASK, side="right"))

    def _held(self, at: int) -> tuple[int, bool]:
        """Weight and maker of a pair that is not waiting, `at` its place or -1."""
        return (0, False) if at < 0 else (int(self._weight[at]), bool(self._hand[at]))

    def _put(self, key: int, at: int, weight_fx: int, by_hand: bool) -> None:
        if at >= 0:
            back = self._find((key & _ROW_MASK) << ROW_BITS | key >> ROW_BITS)
            self._weight[at] = self._weight[back] = weight_fx
            self._hand[at] = self._hand[back] = by_hand
            self._stale = self._stale or not (weight_fx or by_hand)
            return
        self._waiting[key] = (weight_fx, by_hand)
        if len(self._waiting) > max(WAITING_MIN, len(self._keys) // (2 * WAITING_SHARE)):
            self._sort_in()

    def _find(self, key: int) -> int:
        """The place of a directed pair among the sorted ones, -1 where it is not there."""
        at = int(self._keys.searchsorted(key))
        return at if at < len(self._keys) and self._keys[at] == key else -1

    def _sort_in(self) -> None:
        """What waits takes its place, and pairs of which nothing holds any more go."""
        if self._stale:
            holds = (self._weight > 0) | (self._hand > 0)
            self._keys, self._weight, self._hand = self._keys[holds], self._weight[holds], self._hand[holds]
            self._stale = False
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            hold = [(key, weight, hand) for key, (weight, hand) in waiting.items() if weight or hand]
            self._add(
                np.array([key for key, _, _ in hold], np.int64),
                np.array([weight for _, weight, _ in hold], np.int32),
                np.array([hand for _, _, hand in hold], np.uint8),
            )

    def _add(self, keys: Ints, weight: NDArray[np.int32], hand: NDArray[np.uint8]) -> None:
        """New pairs, each once and with the lower row first."""
        both = np.concatenate([keys, (keys & _ROW_MASK) << ROW_BITS | keys >> ROW_BITS])
        order = np.argsort(both)
        both, weight, hand = both[order], np.tile(weight, 2)[order], np.tile(hand, 2)[order]
        if len(self._keys):
            at = np.searchsorted(self._keys, both)
            both = np.insert(self._keys, at, both)
            weight, hand = np.insert(self._weight, at, weight), np.insert(self._hand, at, hand)
        self._keys, self._weight, self._hand = both, weight, hand


def _column(
    exported: Mapping[str, NDArray[np.generic] | bytes], name: str, kind: type[Scalar]
) -> NDArray[Scalar]:
    column = exported.get(name)
    if not isinstance(column, np.ndarray) or column.ndim != 1 or column.dtype != kind:
        raise ValueError(f"column {name} of the links is missing or of another form")
    return column.astype(kind)


def _key(one: int, other: int) -> int:
    """A pair as one number, whichever way round it is named."""
    return (one << ROW_BITS | other) if one < other else (other << ROW_BITS | one)
