"""The vectors of all blocks by local row, for exact cosine search by one matrix-vector product per chunk."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

CHUNK_BYTES: Final = 256 * 1024 * 1024
"""Address space reserved at a time (174,720 rows of 384 dimensions). Growing copies nothing, and the
operating system gives real memory only to rows that are written. Large, because every chunk is one product
and so one rendezvous of BLAS's threads, which costs milliseconds on a busy machine."""

_ROW_BLOCK: Final = 64
"""Rows are multiplied in whole blocks of this many: BLAS takes another path for the few rows left over, with
other last bits, and then a cosine would depend on how many rows there are."""

UNIT_TOLERANCE: Final = 1e-3
"""How far from 1 the length of a vector may be; float32 sums of 10⁴ squares stay well within."""


class VectorMatrix:
    """Unit vectors, float32[dimension], by row number; a row without a vector counts as cosine 0."""

    def __init__(self, dimension: int, chunk_bytes: int = CHUNK_BYTES) -> None:
        if dimension < 1:
            raise ValueError(f"dimension must be at least 1, not {dimension}")
        self.dimension = dimension
        self._chunk_rows = max(chunk_bytes // (4 * dimension * _ROW_BLOCK), 1) * _ROW_BLOCK
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
        while int(at.max()) >= len(self._chunks) * self._chunk_rows:
            self._chunks.append(np.zeros((self._chunk_rows, self.dimension), dtype=np.float32))
            self._held.append(np.zeros(self._chunk_rows, dtype=np.bool_))
        chunk_of, within = np.divmod(at, self._chunk_rows)
        for chunk in np.unique(chunk_of).tolist():
            here = chunk_of == chunk
            self._chunks[chunk][within[here]] = vectors[here]
            self._held[chunk][within[here]] = True

    def drop(self, row: int) -> None:
        """Forgets the vector of `row`, overwriting it; nothing happens when there is none."""
        if self.has(row):
            self._chunks[row // self._chunk_rows][row % self._chunk_rows] = 0.0
            self._held[row // self._chunk_rows][row % self._chunk_rows] = False

    def has(self, row: int) -> bool:
        """Whether `row` has a vector."""
        chunk, within = divmod(row, self._chunk_rows)
        return 0 <= chunk < len(self._held) and bool(self._held[chunk][within])

    def held(self, size: int) -> NDArray[np.bool_]:
        """Which of the rows 0 … size−1 have a vector, bool[size]."""
        found = np.zeros(size, dtype=np.bool_)
        for start, held in zip(range(0, size, self._chunk_rows), self._held, strict=False):
            found[start : start + self._chunk_rows] = held[: size - start]
        return found

    def vector(self, row: int) -> NDArray[np.float32] | None:
        """A copy of the vector of `row`, None when it has none."""
        return self._chunks[row // self._chunk_rows][row % self._chunk_rows].copy() if self.has(row) else None

    def pieces(self, size: int) -> list[NDArray[np.float32]]:
        """The vectors of the rows 0 … size−1 as they lie, float32[·, dimension], one piece behind the other.

        Not copied: what is set later shows in them. Rows without a vector are zeros, or not there at the end.
        """
        starts = range(0, size, self._chunk_rows)
        return [chunk[: size - start] for start, chunk in zip(starts, self._chunks, strict=False)]

    def cosine(self, query: NDArray[np.float32], size: int) -> NDArray[np.float32]:
        """Cosine of the rows 0 … size−1 with the unit vector `query`, float32[size], 0 where there is no
        vector.

        Raises ValueError when the dimension is another one. The last bits of a cosine depend on numpy's build
        and the processor, not on the other rows.
        """
        if query.shape != (self.dimension,):
            raise ValueError(f"query has shape {query.shape}, not {(self.dimension,)}")
        wanted = np.ascontiguousarray(query, dtype=np.float32)
        whole = -(-size // _ROW_BLOCK) * _ROW_BLOCK
        cosines = np.zeros(whole, dtype=np.float32)
        for start, chunk in zip(range(0, whole, self._chunk_rows), self._chunks, strict=False):
            stop = min(whole, start + self._chunk_rows)
            np.dot(chunk[: stop - start], wanted, out=cosines[start:stop])
        return cosines[:size]

    def cosines(self, rows: Sequence[int], size: int) -> NDArray[np.float32]:
        """Cosines of the vectors of `rows` with those of rows 0 … size-1, float32[len(rows), size].

        One product for all: much quicker than one by one. A row without a vector has cosine 0 with every row.
        """
        none = np.zeros(self.dimension, np.float32)
        wanted = np.array([none if (held := self.vector(row)) is None else held for row in rows], np.float32)
        found = np.zeros((len(rows), size), np.float32)
        for start, chunk in zip(range(0, size, self._chunk_rows), self._chunks, strict=False):
            stop = min(size, start + self._chunk_rows)
            found[:, start:stop] = wanted.reshape(len(rows), -1) @ chunk[: stop - start].T
        return found
