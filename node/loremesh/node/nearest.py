"""The blocks most similar to each of some blocks: exact cosines, a slab of rows at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]

SLAB_ROWS: Final = 8_192
"""Rows compared at a time: 64 blocks against so many are 2 MB of cosines, whatever the home holds."""

CROWDED: Final = 4
"""Times as many candidates as are wanted, above which a slab is cut to its best before they are sorted."""


def nearest(
    vectors: Floats,
    rows: Rows,
    pieces: Sequence[Floats],
    eligible: NDArray[np.bool_],
    count: int,
    floor: float,
) -> list[list[tuple[int, float]]]:
    """For each of `rows` the `count` most similar eligible other rows: (row, cosine), best first.

    `vectors`: float32[m, d], unit vectors of `rows` (int64[m]). `pieces`: float32[·, d] each, all vectors by
    row, one piece behind the other. `eligible`: bool[n]. Below a cosine of `floor` nothing counts. Of equal
    ones the lower row comes first, except where a slab is crowded with them.
    """
    best = _Best(rows, count, floor)
    first = 0
    for piece in pieces:
        for start in range(0, len(piece), SLAB_ROWS):
            slab = piece[start : start + SLAB_ROWS]
            allowed = eligible[first + start : first + start + len(slab)]
            if allowed.any():  # what has no vector yet is not worth a product
                best.take(_cosines(slab[: len(allowed)], vectors), first + start, allowed)
        first += len(piece)
    return best.found()


def _cosines(slab: Floats, vectors: Floats) -> Floats:
    """float32[rows of the slab, m]. One vector is multiplied as a vector: for more than one BLAS rearranges
    the slab first, which takes several times as long.
    """
    product: Floats = (slab @ vectors[0])[:, None] if len(vectors) == 1 else slab @ vectors.T
    return product


class _Best:
    """The best candidates so far, flat: whose they are (place in `rows`), which row, and how similar."""

    def __init__(self, rows: Rows, count: int, floor: float) -> None:
        self._rows, self._count = rows, count
        self._floor = np.full(len(rows), floor, np.float32)
        self._whose = np.empty(0, np.int64)
        self._other = np.empty(0, np.int64)
        self._cosine = np.empty(0, np.float32)

    def take(self, cosines: Floats, first: int, allowed: NDArray[np.bool_]) -> None:
        """Cosines of a slab of rows, from `first` on, with every one of `rows`."""
        inside = np.flatnonzero((self._rows >= first) & (self._rows < first + len(allowed)))
        cosines[self._rows[inside] - first, inside] = -np.inf  # nobody is its own neighbour
        hits = cosines >= self._floor
        if np.count_nonzero(hits) > CROWDED * self._count * len(self._rows) and len(allowed) > self._count:
            cosines[~allowed] = -np.inf
            at = np.argpartition(cosines, -self._count, axis=0)[-self._count :].reshape(-1)
            whose = np.tile(np.arange(len(self._rows)), self._count)
            real = cosines[at, whose] >= self._floor[whose]
        else:
            at, whose = np.nonzero(hits)
            real = allowed[at]
        at, whose = at[real], whose[real]
        if not len(whose):
            return
        self._whose = np.concatenate([self._whose, whose])
        self._other = np.concatenate([self._other, at + first])
        self._cosine = np.concatenate([self._cosine, cosines[at, whose]])
        self._cut()

    def _cut(self) -> None:
        """Keep the best `count` of each; what comes later has to be better than the last of them."""
        order = np.lexsort((self._other, -self._cosine, self._whose))
        whose = self._whose[order]
        begins = np.searchsorted(whose, np.arange(len(self._rows)))
        place = np.arange(len(order)) - begins[whose]
        kept = order[place < self._count]
        last = order[place == self._count - 1]
        self._floor[self._whose[last]] = np.nextafter(self._cosine[last], np.float32(np.inf))
        self._whose, self._other, self._cosine = self._whose[kept], self._other[kept], self._cosine[kept]

    def found(self) -> list[list[tuple[int, float]]]:
        lists: list[list[tuple[int, float]]] = [[] for _ in self._rows]
        for whose, other, cosine in zip(
            self._whose.tolist(), self._other.tolist(), self._cosine.tolist(), strict=True
        ):
            lists[whose].append((other, cosine))
        return lists
