"""Recall without any of loremesh around it: the composite in plain numpy, and a plain tantivy index.

What does not depend on the query is prepared: the matrix is one float32 array, the columns are ready floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
import tantivy
from numpy.typing import NDArray

K: Final = 10
HITS: Final = 1_000
"""Texts that a query gives a lexical part to (DESIGN §3)."""


class PlainIndex:
    """BM25 over texts by row: any of the query's words, English stems, tantivy's own scores."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._schema = (
            tantivy.SchemaBuilder()
            .add_integer_field("row", fast=True)
            .add_text_field("text", tokenizer_name="words", index_option="freq")
            .build()
        )
        self._analyzer = (
            tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.regex(r"[\p{L}\p{M}\p{N}]+"))
            .filter(tantivy.Filter.lowercase())
            .filter(tantivy.Filter.stemmer("english"))
            .build()
        )
        self._index = tantivy.Index(self._schema)
        self._index.register_tokenizer("words", self._analyzer)
        writer = self._index.writer(num_threads=1)
        for row, text in enumerate(texts):
            document = tantivy.Document()
            document.add_integer("row", row)
            document.add_text("text", text)
            writer.add_document(document)
        writer.commit()
        self._index.reload()

    def search(self, question: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Rows and BM25 of the best HITS."""
        any_term = tantivy.Query.boolean_query(
            [
                (tantivy.Occur.Should, tantivy.Query.term_query(self._schema, "text", term, "freq"))
                for term in self._analyzer.analyze(question)
            ]
        )
        searcher = self._index.searcher()
        hits = searcher.search(any_term, HITS, count=False).hits
        rows = searcher.fast_field_values("row", [address for _, address in hits])
        return np.array(rows, np.int64), np.array([score for score, _ in hits], np.float64)


class Columns(msgspec.Struct, frozen=True, eq=False):
    """Of every row: vector (float32[n, dimension]), α and β, hours since the last event, S, importance."""

    matrix: NDArray[np.float32]
    alpha: NDArray[np.float64]
    beta: NDArray[np.float64]
    elapsed_h: NDArray[np.float64]
    stability_h: NDArray[np.float64]
    importance: NDArray[np.float64]


def top(columns: Columns, index: PlainIndex, question: str, vector: NDArray[np.float32]) -> list[int]:
    """The K best rows of the frame `attention`, best first."""
    rows, bm25 = index.search(question)
    sim = 0.6 * np.clip(columns.matrix @ vector, 0.0, 1.0)
    sim[rows] += 0.4 * bm25 / bm25.max(initial=1e-9)
    alpha, beta = columns.alpha, columns.beta
    utility = alpha / (alpha + beta)
    variance = alpha * beta / ((alpha + beta) ** 2 * (alpha + beta + 1.0))
    retrievability = (1.0 + 19 / 81 * columns.elapsed_h / columns.stability_h) ** -0.5
    score = (
        0.55 * sim
        + 0.15 * utility
        + 0.20 * retrievability
        + 0.05 * columns.importance
        + 0.05 * np.sqrt(variance)
    )
    best = np.argpartition(score, -K)[-K:]
    ordered: list[int] = best[np.argsort(-score[best])].tolist()
    return ordered
