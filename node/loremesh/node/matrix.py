"""The vectors of all blocks by local row, for exact cosine search by one matrix-vector product per chunk."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

CHUNK_ROWS: Final = 16_384
"""Rows that memory is reserved for at a time (24 MiB at 384 dimensions): growing copies nothing, and the
operating system gives real memory only to rows that are written."""

UNIT_TOLERANCE: Final = 1e-3
"""How far from 1 the length of a vector may be; float32 sums of 10⁴ squares stay well within."""


class VectorMatrix:
    """Unit vectors, float32[dimension], by row number; a row without a vector counts as cosine 0."""

    def __init__(self, dimension: int) -> None:
        if dimension < 1:
            raise ValueError(f"dimension must be at least 1, not {dimension}")
        self.dimension = dimension
        self._chunks: list[NDArray[np.float32]] = []
        self._held: list[NDArray[np.bool_]] = []

    def __len__(self) -> int:
        """How many rows have a vector."""
        return int(sum(held.sum() for held in self._held))

    def set(self, rows: NDArray[np.int64] | Sequence[int], vectors: NDArray[np.float32]) -> None:
        """Gives each of `rows` its vector (float32[n, dimension], unit length); an earlier one is replaced.

        Raises ValueError, and changes nothing, for another shape or length, NaN, ±∞ or a negative row.
        """
        at = np.asarray(rows, dtype=np.int64)
        if vectors.shape != (len(at), self.dimension):
            raise ValueError(f"vectors have shape {vectors.shape}, not {(len(at), self.dimension)}")
        if not len(at):
            return
        if int(at.min()) < 0:
            raise ValueError(f"row {int(at.min())} is negative")
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float32))
        wrong = np.flatnonzero(~(np.abs(lengths - 1.0) <= UNIT_TOLERANCE))
        if len(wrong):
            raise ValueError(f"vector of row {at[wrong[0]]} has length {lengths[wrong[0]]}, not 1")
        while int(at.max()) >= len(self._chunks) * CHUNK_ROWS:
            self._chunks.append(np.zeros((CHUNK_ROWS, self.dimension), dtype=np.float32))
            self._held.append(np.zeros(CHUNK_ROWS, dtype=np.bool_))
        chunk_of, within = np.divmod(at, CHUNK_ROWS)
        for chunk in np.unique(chunk_of).tolist():
            here = chunk_of == chunk
            self._chunks[chunk][within[here]] = vectors[here]
            self._held[chunk][within[here]] = True

    def drop(self, row: int) -> None:
        """Forgets the vector of `row`, overwriting it; nothing happens when there is none."""
        if self.has(row):
            self._chunks[row // CHUNK_ROWS][row % CHUNK_ROWS] = 0.0
            self._held[row // CHUNK_ROWS][row % CHUNK_ROWS] = False

    def has(self, row: int) -> bool:
        """Whether `row` has a vector."""
        return 0 <= row < len(self._held) * CHUNK_ROWS and bool(
            self._held[row // CHUNK_ROWS][row % CHUNK_ROWS]
        )

    def held(self, size: int) -> NDArray[np.bool_]:
        """Which of the rows 0 … size−1 have a vector, bool[size]."""
        found = np.zeros(size, dtype=np.bool_)
        for start, held in zip(range(0, size, CHUNK_ROWS), self._held, strict=False):
            found[start : start + CHUNK_ROWS] = held[: size - start]
        return found

    def vector(self, row: int) -> NDArray[np.float32] | None:
        """A copy of the vector of `row`, None when it has none."""
        return self._chunks[row // CHUNK_ROWS][row % CHUNK_ROWS].copy() if self.has(row) else None

    def cosine(self, query: NDArray[np.float32], size: int) -> NDArray[np.float32]:
        """Cosine of the rows 0 … size−1 with the unit vector `query`, float32[size], 0 where there is no
        vector.

        Raises ValueError when the dimension is another one. The last bits of a cosine depend on numpy's build
        and processor, not on the other rows' vectors.
        """
        if query.shape != (self.dimension,):
            raise ValueError(f"query has shape {query.shape}, not {(self.dimension,)}")
        wanted = np.ascontiguousarray(query, dtype=np.float32)
        cosines = np.zeros(size, dtype=np.float32)
        for start, chunk in zip(range(0, size, CHUNK_ROWS), self._chunks, strict=False):
            stop = min(size, start + CHUNK_ROWS)
            np.dot(chunk[: stop - start], wanted, out=cosines[start:stop])
        return cosines
