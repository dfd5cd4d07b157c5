"""Who rated which block how, and what a rating of each rater counts: part of own state, a fold of own events.

A rating's evidence is kept as it was stated, summed by block and rater. What counts of it is the sum times
the rater's multiplier, rounded once; so a multiplier holds for ratings before it and after it alike, and
setting it back to one brings back every number to the bit.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loremesh.sync.fixed import ONE

Ints = NDArray[np.int64]

RATER_BITS: Final = 12
MAX_RATERS: Final = 1 << RATER_BITS
"""Names kept apart; files may bring any number. All beyond them count as one, without a multiplier."""

OTHERS: Final = ""
"""The name of that one, and of ratings whose event names nobody."""

MAX_MULTIPLIER_FX: Final = 1024 * ONE
"""A bound for arithmetic; what a recalibration may set is far less."""

_HALF: Final = ONE // 2
_LOW: Final = ONE - 1


class Raters:
    """Stated ratings by block and rater, in fixed point, and the multipliers in force (fixed point, by name).

    A rater without a multiplier counts as stated.
    """

    __slots__ = ("_alpha", "_beta", "_free", "_key", "_names", "_number", "_slot_of", "multipliers")

    def __init__(self) -> None:
        self.multipliers: dict[str, int] = {}
        self._names = [OTHERS]
        self._number = {OTHERS: 0}
        self._slot_of: dict[int, int] = {}  # row << RATER_BITS | rater
        self._free: list[int] = []
        self._key = array("q")
        self._alpha = array("q")
        self._beta = array("q")

    def add(self, row: int, rater: str, alpha_fx: int, beta_fx: int) -> tuple[int, int]:
        """A rating of the block; by how much that changes what counts of this rater's, α and β."""
        number = self._number.get(rater)
        if number is None:
            number = self._named(rater)
        key = row << RATER_BITS | number
        slot = self._slot_of.get(key)
        if slot is None:
            slot = self._place(key)
        alpha, beta = self._alpha[slot], self._beta[slot]
        self._alpha[slot], self._beta[slot] = alpha + alpha_fx, beta + beta_fx
        multiplier = self.multipliers.get(self._names[number])
        if multiplier is None:
            return alpha_fx, beta_fx
        return (
            counted(alpha + alpha_fx, multiplier) - counted(alpha, multiplier),
            counted(beta + beta_fx, multiplier) - counted(beta, multiplier),
        )

    def weigh(self, rater: str, multiplier_fx: int) -> tuple[Ints, Ints, Ints]:
        """From now on this rater's evidence counts so many times; (rows, changes of α, of β), [n] each."""
        before = self.multipliers.get(rater, ONE)
        number = self._number.get(rater)
        if number is None:
            number = self._named(rater)
        if not number:  # those without a name of their own count as stated
            return (np.zeros(0, np.int64),) * 3
        self.multipliers.pop(rater, None)
        if multiplier_fx != ONE:
            self.multipliers[rater] = multiplier_fx
        keys = np.array(self._key, np.int64)
        slots = np.flatnonzero((keys >= 0) & (keys & (MAX_RATERS - 1) == number))
        alpha, beta = np.array(self._alpha, np.int64)[slots], np.array(self._beta, np.int64)[slots]
        return (
            keys[slots] >> RATER_BITS,
            all_counted(alpha, multiplier_fx) - all_counted(alpha, before),
            all_counted(beta, multiplier_fx) - all_counted(beta, before),
        )

    def of(self, row: int) -> list[tuple[str, int, int]]:
        """(rater, α, β as stated) of the block, by name."""
        found = []
        for number, name in enumerate(self._names):
            slot = self._slot_of.get(row << RATER_BITS | number)
            if slot is not None:
                found.append((name, self._alpha[slot], self._beta[slot]))
        return sorted(found)

    def rows_of(self, rater: str) -> Ints:
        """The rows that this rater rated."""
        number = self._number.get(rater, -1)
        keys = np.array(self._key, np.int64)
        found: Ints = keys[(keys >= 0) & (keys & (MAX_RATERS - 1) == number)] >> RATER_BITS
        return found

    def drop(self, row: int) -> None:
        """Forget the ratings of the block in `row`."""
        for number in range(len(self._names)):
            slot = self._slot_of.pop(row << RATER_BITS | number, None)
            if slot is not None:
                self._key[slot] = -1
                self._alpha[slot] = self._beta[slot] = 0
                self._free.append(slot)

    def _named(self, rater: str) -> int:
        if len(self._names) == MAX_RATERS:
            return 0
        self._names.append(rater)
        self._number[rater] = len(self._names) - 1
        return len(self._names) - 1

    def _place(self, key: int) -> int:
        if self._free:
            slot = self._free.pop()
            self._key[slot] = key
        else:
            slot = len(self._key)
            self._key.append(key)
            self._alpha.append(0)
            self._beta.append(0)
        self._slot_of[key] = slot
        return slot

    def names(self) -> list[str]:
        """All names ever seen, by number; the first stands for those that nobody or too many gave."""
        return list(self._names)

    def export(self) -> dict[str, NDArray[np.generic]]:
        """All ratings by ascending row and name: `row`, `rater` (number), `alpha`, `beta`."""
        keys = np.array(self._key, np.int64)
        slots = np.flatnonzero(keys >= 0)
        row, rater = keys[slots] >> RATER_BITS, keys[slots] & (MAX_RATERS - 1)
        place = np.argsort(np.argsort(np.array(self._names)))  # of each number, among the names in order
        order = np.lexsort((place[rater], row))
        return {
            "row": row[order],
            "rater": rater[order],
            "alpha": np.array(self._alpha, np.int64)[slots][order],
            "beta": np.array(self._beta, np.int64)[slots][order],
        }

    @classmethod
    def load(cls, names: list[str], multipliers: Mapping[str, int], exported: Mapping[str, object]) -> Raters:
        """What `names`, `multipliers` and `export` gave, again. Raises ValueError for what they cannot be."""
        loaded = cls()
        columns = []
        for name in ("row", "rater", "alpha", "beta"):
            column = exported.get(name)
            if not isinstance(column, np.ndarray) or column.ndim != 1 or column.dtype != np.int64:
                raise ValueError(f"the ratings' {name} is missing or of another form")
            columns.append(column)
        row, rater, alpha, beta = columns
        if any(len(column) != len(row) for column in columns) or names[:1] != [OTHERS]:
            raise ValueError("the ratings do not hang together")
        if len(rater) and not 0 <= int(rater.min()) <= int(rater.max()) < len(names) <= MAX_RATERS:
            raise ValueError("a rating is by a rater without a name")
        loaded._names = list(names)
        loaded._number = {name: number for number, name in enumerate(names)}
        loaded.multipliers = dict(multipliers)
        keys = (row << RATER_BITS | rater).tolist()
        loaded._slot_of = {key: slot for slot, key in enumerate(keys)}
        loaded._key = array("q", keys)
        loaded._alpha = array("q", alpha.tobytes())
        loaded._beta = array("q", beta.tobytes())
        return loaded

    def told(self) -> list[bytes | dict[str, int]]:
        """Multipliers and ratings as equal states tell them alike: raters by name, not by number."""
        exported = self.export()
        named = [self._names[number].encode() for number in exported["rater"].tolist()]
        columns = (exported[name].tobytes() for name in ("row", "alpha", "beta"))
        return [self.multipliers, b"\0".join(named), *columns]


def counted(stated_fx: int, multiplier_fx: int) -> int:
    """What of a sum counts, rounded once, to the nearest."""
    return stated_fx if multiplier_fx == ONE else (stated_fx * multiplier_fx + _HALF) // ONE


def all_counted(stated_fx: Ints, multiplier_fx: int) -> Ints:
    """The same of many, [n]; in two halves, so that no product overflows."""
    if multiplier_fx == ONE:
        return stated_fx
    return (stated_fx // ONE) * multiplier_fx + ((stated_fx & _LOW) * multiplier_fx + _HALF) // ONE
