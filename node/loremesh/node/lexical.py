"""The lexical index: BM25 over the blocks' texts, in memory only, so that nothing readable reaches the disk.

tantivy holds the index. Texts and queries are composed (NFC) first. English words are stemmed; Chinese,
Japanese kana and Thai, which are written without spaces, are indexed by single characters.

tantivy goes on counting a deleted text in its statistics until it merges segments, and then only estimates
the length of what is left. Therefore nothing is ever deleted from an index here: after `remove`, the next
search builds a new index from the texts that remain, and scores are to the bit those of an index that never
had the others. That costs about 17 µs per remaining text, once for any number of removals.
"""

import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import tantivy
from numpy.typing import NDArray

SEARCH_LIMIT: Final = 1_000
"""How many texts a query may give a lexical part to (DESIGN §3)."""

MAX_QUERY_TERMS: Final = 128
"""Distinct terms of a query that are looked up, the first ones: a query may be a whole document of 64 KiB,
and every term costs time."""

MAX_ROW: Final = 2**31
"""Rows are small local numbers; the record of which are held is as long as the largest."""

_WRITER_BYTES: Final = 32_000_000
"""tantivy's budget for texts not yet committed; above it, they become a segment of their own."""

_TIE_MARGIN: Final = 512
"""Hits fetched beyond the limit, so that texts tied across it are usually all seen at once."""

_UNSPACED: Final = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}"
_TOKENS: Final = rf"[{_UNSPACED}]|[\p{{L}}\p{{M}}\p{{N}}--[{_UNSPACED}]]+"


class LexicalIndex:
    """Texts by local row number. Not safe for threads that use it at the same time."""

    def __init__(self) -> None:
        self._schema = (
            tantivy.SchemaBuilder()
            .add_integer_field("row", stored=True, fast=True)
            .add_text_field("text", stored=True, tokenizer_name="words", index_option="freq")
            .build()
        )
        self._analyzer = (
            tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.regex(_TOKENS))
            .filter(tantivy.Filter.lowercase())
            .filter(tantivy.Filter.ascii_fold())
            .filter(tantivy.Filter.stemmer("english"))
            .build()
        )
        self._held = bytearray()
        self._count = 0
        self._removed: set[int] = set()
        self._uncommitted = False
        self._start()

    def __len__(self) -> int:
        """How many rows are in the index."""
        return self._count

    def add(self, rows: Iterable[int], texts: Iterable[str]) -> None:
        """Texts to be found by the next search. A row that is already in keeps the text it has.

        Raises ValueError for a row out of range or when there are not as many rows as texts.
        """
        for row, text in zip(rows, texts, strict=True):
            if not 0 <= row < MAX_ROW:
                raise ValueError(f"row {row} is not in 0 … {MAX_ROW - 1}")
            if row >= len(self._held):
                self._held.extend(bytes(max(row + 1 - len(self._held), len(self._held))))
            if not self._held[row]:
                if row in self._removed:
                    self._rebuild()  # or the old text of this row could not be told from the new one
                self._write(row, text)
                self._held[row] = 1
                self._count += 1

    def remove(self, rows: Iterable[int]) -> None:
        """Rows to be in no later search and in no statistics; rows that are not in the index are passed
        over.
        """
        for row in rows:
            if 0 <= row < len(self._held) and self._held[row]:
                self._held[row] = 0
                self._count -= 1
                self._removed.add(row)

    def commit(self) -> None:
        """Makes what was added and removed show in searches; every search does so by itself."""
        if self._removed:
            self._rebuild()
        if self._uncommitted:
            self._writer.commit()
            self._index.reload()
            self._uncommitted = False

    def search(self, query: str, limit: int = SEARCH_LIMIT) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The best `limit` rows (int64) with any of the query's words, and their BM25 (float32), best first.

        Texts with equal BM25 are ordered by row, also across the limit: what is found does not depend on the
        order in which texts came. A query without words finds nothing.
        """
        if limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit}")
        self.commit()
        words = self._analyzer.analyze(unicodedata.normalize("NFC", query))
        terms = list(dict.fromkeys(words))[:MAX_QUERY_TERMS]
        searcher = self._index.searcher()
        if not terms or not searcher.num_docs:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
        any_term = tantivy.Query.boolean_query(
            [(tantivy.Occur.Should, tantivy.Query.term_query(self._schema, "text", t, "freq")) for t in terms]
        )
        reach = limit + _TIE_MARGIN
        while True:
            hits = searcher.search(any_term, reach, count=False).hits
            if len(hits) < reach or hits[limit - 1][0] != hits[-1][0]:
                break
            reach *= 4
        bm25 = np.fromiter((hit[0] for hit in hits), dtype=np.float32, count=len(hits))
        rows = np.array(searcher.fast_field_values("row", [hit[1] for hit in hits]), dtype=np.int64)
        order = np.lexsort((rows, -bm25))[:limit]
        return rows[order], bm25[order]

    def _start(self) -> None:
        """Begins with an empty index."""
        self._index = tantivy.Index(self._schema)
        self._index.register_tokenizer("words", self._analyzer)
        self._index.config_reader("manual")
        self._writer = self._index.writer(_WRITER_BYTES, 1)
        self._uncommitted = False

    def _write(self, row: int, text: str) -> None:
        document = tantivy.Document()
        document.add_integer("row", row)
        document.add_text("text", unicodedata.normalize("NFC", text))
        self._writer.add_document(document)
        self._uncommitted = True

    def _rebuild(self) -> None:
        """A new index with the texts of the old one, less the removed rows."""
        removed, self._removed = self._removed, set()
        if self._uncommitted:
            self._writer.commit()
            self._index.reload()
        old = self._index.searcher()
        self._start()
        for row, text in _stored(old):
            if row not in removed:
                self._write(row, text)


def _stored(searcher: tantivy.Searcher) -> Iterator[tuple[int, str]]:
    """Row and text of everything in an index."""
    if searcher.num_docs:
        for _, address in searcher.search(tantivy.Query.all_query(), searcher.num_docs, count=False).hits:
            document = searcher.doc(address)
            yield document["row"][0], document["text"][0]
