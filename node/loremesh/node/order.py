"""The order in which blocks were learned here, and what a query carries over along it.

What an agent learns, it learns in a train of thought: a turn answers the one before, a step follows a step,
and the words that a question has in common with it often stand a block earlier. So a block found by its words
passes a share of its match on to the blocks learned just after it. Only own learning has an order here: what
peers sent, and when, moves nothing.
"""

from array import array
from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

CARRIED: Final = 0.7
"""Share of a lexical match that each next block gets (chosen on the LoCoMo conversations; where the order
means nothing, it costs next to nothing: see tests/bench/QUALITY.md)."""

REACH: Final = 3
"""Blocks it is carried over: then a third is left of it."""

TOGETHER_H: Final = 0.25
"""Active hours between two blocks that are still learned together. Below the shortest silence that ends a
session, which the active clock counts as `idle_gap_h`."""


class LearningOrder:
    """Rows in the order in which they were learned, each with its active hour; a forgotten one is gone."""

    def __init__(self) -> None:
        self._rows = array("q")
        self._hours = array("d")
        self._changes = 0
        self._seen = -1
        self._order = np.empty(0, np.int64)
        self._end = np.empty(0, np.int64)
        self._place = np.empty(0, np.int64)

    def __len__(self) -> int:
        """How many blocks were learned and are not forgotten."""
        return len(self._rows)

    def append(self, row: int, hour: float) -> None:
        """`row`, not learned before, is learned at this active hour."""
        self._rows.append(row)
        self._hours.append(hour)
        self._changes += 1

    def remove(self, row: int) -> None:
        """`row` was forgotten; nothing happens when it was not learned."""
        try:
            at = self._rows.index(row)
        except ValueError:
            return
        del self._rows[at], self._hours[at]
        self._changes += 1

    def export(self) -> dict[str, NDArray[np.generic]]:
        """Copies of both columns, by name."""
        return {"row": np.array(self._rows, np.int64), "hour": np.array(self._hours, np.float64)}

    @classmethod
    def load(cls, exported: Mapping[str, NDArray[np.generic] | bytes]) -> "LearningOrder":
        """What `export` gave, again. Raises ValueError for anything else."""
        rows, hours = exported.get("row"), exported.get("hour")
        if (
            not isinstance(rows, np.ndarray)
            or not isinstance(hours, np.ndarray)
            or rows.dtype != np.int64
            or hours.dtype != np.float64
            or rows.ndim != 1
            or rows.shape != hours.shape
        ):
            raise ValueError("the learning order cannot be taken up: a column is missing or of another form")
        order = cls()
        order._rows.frombytes(rows.tobytes())
        order._hours.frombytes(hours.tobytes())
        return order

    def before(self, row: int, share: float = CARRIED, reach: int = REACH) -> list[tuple[int, float]]:
        """What a match of blocks learned just before `row` in its train is carried on to it by: (row, share),
        nearest first.
        """
        self._settle(row + 1)
        place = int(self._place[row])
        if place < 0:
            return []
        begins = int(np.searchsorted(self._end, self._end[place]))
        places = range(place - 1, max(begins, place - reach) - 1, -1)
        return [(int(self._order[at]), share ** (place - at)) for at in places]

    def carry(
        self,
        rows: NDArray[np.int64],
        values: NDArray[np.float32],
        size: int,
        share: float = CARRIED,
        reach: int = REACH,
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """What distinct `rows` match by (`values`, above 0), carried on: (rows, float32), rows ascending.

        A block learned i places after a match, i ≤ `reach`, in the same train has at least shareⁱ of its
        value; the largest counts, its own included. `size` is above every row.
        """
        carried = np.zeros(size, dtype=np.float32)
        carried[rows] = values
        self._settle(size)
        places = self._place[rows]
        learned = places >= 0
        places, values = places[learned], values[learned]
        end = self._end[places]
        for step in range(1, reach + 1):
            places = places + 1
            inside = places < end
            places, values, end = places[inside], values[inside], end[inside]
            after = self._order[places]
            carried[after] = np.maximum(carried[after], values * np.float32(share**step))
        found = np.flatnonzero(carried > 0.0)  # of flags: five times as fast as of floats
        return found, carried[found]

    def _settle(self, size: int) -> None:
        """Brings what is derived from the order up to date: every row's place (−1: none), and
        where the train of each place ends."""
        if self._seen == self._changes and len(self._place) >= size:
            return
        self._order = np.array(self._rows, np.int64)
        hours = np.array(self._hours, np.float64)
        # An earlier hour (an event from elsewhere) is as far away as a later one.
        begins = np.flatnonzero(np.abs(np.diff(hours)) >= TOGETHER_H) + 1
        ends = np.append(begins, len(hours))
        self._end = np.repeat(ends, np.diff(ends, prepend=0))
        self._place = np.full(max(size, int(self._order.max(initial=-1)) + 1), -1, np.int64)
        self._place[self._order] = np.arange(len(self._order))
        self._seen = self._changes
