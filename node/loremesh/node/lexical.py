"""The lexical index: BM25 over the blocks' texts, in memory only, so that nothing readable reaches the disk.

A query goes by the words that say what it is about: function words count only when there are no others. A
text's label, what stands before its first colon ("Ada: the tests are green"), is indexed once more by itself,
since who said a thing is asked for by name. All is taken in normal form: the same block in other bytes is
found alike.

The postings are our own (`postings`): tantivy's BM25 has fixed constants that suit long texts, and it goes on
counting what was deleted until it merges. Here a removed text counts in nothing from then on: scores are to
the bit those of an index that never had it.
"""

import re
from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loremesh.node.analysis import Analyzer
from loremesh.node.postings import Postings
from loremesh.sync.content import normalise

SEARCH_LIMIT: Final = 1_000
"""How many texts a query may give a lexical part to (DESIGN §3)."""

MAX_QUERY_TERMS: Final = 128
"""Distinct terms of a query that are looked up, the first ones: a query may be a whole document of 64 KiB,
and every term costs time."""

MAX_ROW: Final = 2**31
"""Rows are small local numbers; the record of which are held is as long as the largest."""

MAX_LABEL_CHARACTERS: Final = 40
MAX_LABEL_WORDS: Final = 4
"""How long a label may be: the name of somebody or something, not a sentence that ends in a colon."""

_LABEL: Final = re.compile(rf"([^:]{{1,{MAX_LABEL_CHARACTERS}}}): ")


class LexicalIndex:
    """Texts by local row number. Not safe for threads that use it at the same time."""

    def __init__(self) -> None:
        self._analyzer = Analyzer()
        self._texts = Postings()
        self._labels = Postings()

    def __len__(self) -> int:
        """How many rows are in the index."""
        return len(self._texts)

    def add(self, rows: Iterable[int], texts: Iterable[str]) -> None:
        """Texts to be found by the next search. A row that is already in keeps the text it has.

        Raises ValueError for a row out of range or when there are not as many rows as texts.
        """
        for row, text in zip(rows, texts, strict=True):
            if not 0 <= row < MAX_ROW:
                raise ValueError(f"row {row} is not in 0 … {MAX_ROW - 1}")
            if self._texts.has(row):
                continue
            self._texts.add(row, self._analyzer.words(text))
            if ":" in text and (label := label_of(normalise(text))):
                words = self._analyzer.content_words(label)
                if 0 < len(words) <= MAX_LABEL_WORDS:
                    self._labels.add(row, words)

    def remove(self, rows: Iterable[int]) -> None:
        """Rows to be in no later search and in no statistics; rows that are not in the index are passed
        over.
        """
        for row in rows:
            self._texts.remove(row)
            self._labels.remove(row)

    def search(
        self, query: str, limit: int = SEARCH_LIMIT, among: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The best `limit` rows (int64) with any of the query's words, and their BM25 (float32), best first.

        Texts with equal BM25 are ordered by row, also across the limit: what is found does not depend on the
        order in which texts came. A query without words finds nothing. Only rows
        `among` which it is (bool[n], n above every row) are found, and count to the limit.
        """
        if limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit}")
        rows, bm25 = self._texts.bm25(self._terms(query))
        if among is not None:
            inside = among[rows]
            rows, bm25 = rows[inside], bm25[inside]
        if len(rows) > limit:
            kept = bm25 >= np.partition(bm25, len(bm25) - limit)[len(bm25) - limit]
            rows, bm25 = rows[kept], bm25[kept]
        order = np.lexsort((rows, -bm25))[:limit]
        return rows[order], bm25[order]

    def named(self, query: str) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Rows (int64, ascending) with a label that the query names, and what share of the label's words it
        has (float32, in (0, 1]).
        """
        return self._labels.coverage(self._terms(query))

    def _terms(self, query: str) -> list[str]:
        """The query's distinct terms that are looked up."""
        normal = normalise(query)
        terms = self._analyzer.content_words(normal) or self._analyzer.words(normal)
        return list(dict.fromkeys(terms))[:MAX_QUERY_TERMS]


def label_of(text: str) -> str:
    """What a text in normal form begins with up to a colon and a space, when that is short; '' otherwise.

    >>> label_of("Ada: the tests are green"), label_of("See https://example.org: it moved")
    ('Ada', '')
    """
    found = _LABEL.match(text)
    return found.group(1) if found else ""
