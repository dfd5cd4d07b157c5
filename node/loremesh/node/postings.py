"""Postings: which rows have which terms, how often, and how well they match by BM25. In memory, exact.

Rows that were removed count in no score and no statistic from then on; their postings go when the removed
make up a good part of all, or when one of those rows comes back.
"""

import math
from array import array
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

K1: Final = 0.9
B: Final = 0.4
"""How soon a repeated term stops adding, and how much a long text is held against it. The defaults of the
Anserini toolkit (Yang, Fang and Lin, SIGIR 2017): lower than the usual 1.2 and 0.75, as short texts ask."""

_SWEEP_SHARE: Final = 0.1
"""Part of the rows that may be removed ones before their postings are taken out: a pass over every term."""


class Postings:
    """Terms of texts by local row number. Rows and terms come as they are: distinct rows, analysed terms."""

    def __init__(self) -> None:
        self._of: defaultdict[str, array[int]] = defaultdict(partial(array, "i"))
        """By term: the row of every occurrence (int32), those of one row side by side. Adding a text is then
        one append per word, which is much of what opening a home takes; counting is left to the query."""
        self._lengths = np.zeros(64, dtype=np.float32)  # whole numbers, exact up to 2²⁴
        self._held = np.zeros(64, dtype=np.bool_)
        self._count = 0
        self._terms = 0
        self._removed: set[int] = set()

    def __len__(self) -> int:
        """How many rows there are."""
        return self._count

    def has(self, row: int) -> bool:
        """Whether `row` is in."""
        return 0 <= row < len(self._held) and bool(self._held[row])

    def add(self, row: int, terms: Sequence[str]) -> None:
        """The terms of a row that is not in yet."""
        if row in self._removed:
            self._sweep()  # or the old postings of this row could not be told from the new ones
        if row >= len(self._held):
            more = max(row + 1, 2 * len(self._held)) - len(self._held)
            self._lengths = np.concatenate((self._lengths, np.zeros(more, np.float32)))
            self._held = np.concatenate((self._held, np.zeros(more, np.bool_)))
        occurrences = self._of
        for term in terms:
            occurrences[term].append(row)
        self._held[row] = True
        self._lengths[row] = len(terms)
        self._count += 1
        self._terms += len(terms)

    def remove(self, row: int) -> None:
        """Takes a row out; nothing happens when it is not in."""
        if self.has(row):
            self._held[row] = False
            self._count -= 1
            self._terms -= int(self._lengths[row])
            self._removed.add(row)

    def bm25(
        self, terms: Sequence[str], k1: float = K1, b: float = B
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Rows with any of the distinct `terms`, ascending, and their BM25 (float32, above 0).

        Σ idf · f·(k1 + 1) / (f + k1·(1 − b + b·length/mean length)) over the terms, with f the term's count
        in the text and idf = ln(1 + (N − n + ½)/(n + ½)), n of N texts having it (Robertson and Zaragoza,
        2009; the idf of Lucene, which is never negative).
        """
        self._settle()
        scores = np.zeros(len(self._held), dtype=np.float32)
        by_length = np.float32(k1 * b * self._count / max(self._terms, 1))
        for term in terms:
            rows, frequencies = self._find(term)
            if not len(rows):
                continue
            idf = math.log1p((self._count - len(rows) + 0.5) / (len(rows) + 0.5))
            matched = frequencies.astype(np.float32)
            norm = self._lengths[rows]
            norm *= by_length
            norm += np.float32(k1 * (1.0 - b))
            norm += matched
            matched *= np.float32(idf * (k1 + 1.0))
            matched /= norm
            scores[rows] += matched
        found = np.flatnonzero(scores > 0.0)  # of flags: five times as fast as of floats
        return found, scores[found]

    def coverage(self, terms: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Rows with any of the distinct `terms`, ascending, and what part of the row's own terms those are.

        Counts repetitions; float32 in (0, 1].
        """
        self._settle()
        counts = np.zeros(len(self._held), dtype=np.float32)
        for term in terms:
            rows, frequencies = self._find(term)
            counts[rows] += frequencies
        found = np.flatnonzero(counts > 0.0)
        return found, np.minimum(counts[found] / self._lengths[found], np.float32(1.0))

    def _find(self, term: str) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Distinct rows that have the term, and how often; to be let go of before the next change."""
        held = self._of.get(term)
        rows = np.empty(0, np.int32) if held is None else np.frombuffer(held, np.int32)
        if self._removed:
            rows = rows[self._held[rows]]
        first = np.ones(len(rows), np.bool_)
        np.not_equal(rows[1:], rows[:-1], out=first[1:])
        starts = np.flatnonzero(first)
        return rows[starts], np.diff(starts, append=len(rows))

    def _settle(self) -> None:
        """Sweeps when it is worth a pass over every term."""
        if len(self._removed) > _SWEEP_SHARE * self._count:
            self._sweep()

    def _sweep(self) -> None:
        """Takes out the postings of removed rows, and terms that no row is left of."""
        self._removed = set()
        for term, held in list(self._of.items()):
            rows = np.frombuffer(held, np.int32)
            kept = self._held[rows]
            if not kept.any():
                del self._of[term]
            elif not kept.all():
                self._of[term] = array("i", rows[kept].tobytes())
