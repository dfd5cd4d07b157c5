"""Speed of scoring at 100,000 × 384, the query's vector given: `score`, `matrix` and `lexical` against bare
numpy.

Bare means: the same formula written straight down over ready float arrays and one float32 matrix, the top ten
by argpartition, plus the query of a plain tantivy index (BM25, any of the words, English stems) for a
thousand hits. Real text (windows of 25 words from the
standard library's sources), random vectors: the arithmetic does not care. Both sides alternate within one
process.

Run as `python tests/bench/recall_score.py [BLOCKS]`.
"""

import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Final

import msgspec
import numpy as np
import tantivy
from numpy.typing import NDArray

from loremesh.node.finding import similarity
from loremesh.node.lexical import SEARCH_LIMIT, LexicalIndex
from loremesh.node.matrix import VectorMatrix
from loremesh.node.order import LearningOrder
from loremesh.node.score import Terms, rank, recall_frame, utility_terms

BLOCKS: Final = 100_000
DIMENSION: Final = 384
WORDS: Final = 25
K: Final = 10
QUERIES: Final = 60
TARGET: Final = 1.5

QUESTIONS: Final = (
    "how do I close a socket after a timeout",
    "parse the header of an email message",
    "which exception is raised when the file does not exist",
    "convert a datetime to another time zone",
    "compare two dictionaries with equal keys",
    "start a thread and wait until it ends",
)


class PlainIndex:
    """What a lexical query costs by itself: tantivy in memory, asked for any of the query's stems."""

    def __init__(self, texts: Iterable[str]) -> None:
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

    def hits(self, question: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Rows and BM25 of the best thousand."""
        any_term = tantivy.Query.boolean_query(
            [
                (tantivy.Occur.Should, tantivy.Query.term_query(self._schema, "text", term, "freq"))
                for term in self._analyzer.analyze(question)
            ]
        )
        searcher = self._index.searcher()
        hits = searcher.search(any_term, SEARCH_LIMIT, count=False).hits
        rows = searcher.fast_field_values("row", [address for _, address in hits])
        return np.array(rows, np.int64), np.array([score for score, _ in hits], np.float64)


class Home(msgspec.Struct, frozen=True):
    """What recall computes from, and a plain index of the same texts."""

    matrix: VectorMatrix
    index: LexicalIndex
    order: LearningOrder
    plain_index: PlainIndex
    alpha: NDArray[np.int64]
    beta: NDArray[np.int64]
    elapsed_h: NDArray[np.float64]
    stability_h: NDArray[np.float64]
    importance: NDArray[np.float64]
    foreign: NDArray[np.int32]
    ids: list[bytes]


def windows(count: int) -> Iterator[str]:
    """Texts of WORDS words each from the sources of the standard library, as many as asked for."""
    made = 0
    while made < count:
        for path in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
            if "site-packages" in path.parts or "test" in path.parts:
                continue
            words = path.read_text(encoding="utf-8", errors="replace").split()
            for start in range(0, len(words) - WORDS, WORDS):
                yield " ".join(words[start : start + WORDS])
                made += 1
                if made == count:
                    return


def build(blocks: int, random: np.random.Generator) -> Home:
    """A home of that many blocks; a third of them known only from one of three peers."""
    matrix, index = VectorMatrix(DIMENSION), LexicalIndex()
    for start in range(0, blocks, 10_000):
        vectors = random.standard_normal((min(10_000, blocks - start), DIMENSION), dtype=np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        matrix.set(range(start, start + len(vectors)), vectors)
    texts = list(windows(blocks))
    index.add(range(blocks), texts)
    order = LearningOrder()
    for row in range(blocks):
        order.append(row, row / 1000)
    foreign = random.integers(0, 3, blocks, dtype=np.int32)
    foreign[random.random(blocks) > 1 / 3] = -1
    return Home(
        matrix=matrix,
        index=index,
        order=order,
        plain_index=PlainIndex(texts),
        alpha=random.integers(1 << 15, 1 << 22, blocks),
        beta=random.integers(1 << 15, 1 << 22, blocks),
        elapsed_h=random.random(blocks) * 500.0,
        stability_h=random.random(blocks) * 1000.0 + 2.4,
        importance=random.random(blocks),
        foreign=foreign,
        ids=[int(number).to_bytes(32, "big") for number in random.permutation(blocks)],
    )


def ours(home: Home, question: str, vector: NDArray[np.float32]) -> list[int]:
    """All of recall's scoring."""
    size = len(home.ids)
    eligible = np.ones(size, dtype=np.bool_)
    utility, explore = utility_terms(home.alpha, home.beta)
    retrievability = (1.0 / np.sqrt(home.elapsed_h / home.stability_h * (19 / 81) + 1.0)).astype(np.float32)
    terms = Terms(
        sim=similarity(home.index, home.order, question, home.matrix.cosine(vector, size), eligible),
        utility=utility,
        retrievability=retrievability,
        importance=home.importance.astype(np.float32),
        explore=explore,
    )
    ranked = rank(
        recall_frame("attention"),
        terms,
        K,
        eligible=eligible,
        block_id=home.ids.__getitem__,
        sole_principal=home.foreign,
    )
    return [hit.row for hit in ranked]


def bare(
    home: Home, matrix: NDArray[np.float32], question: str
) -> Callable[[NDArray[np.float32]], list[int]]:
    """The same without any of loremesh around it; what does not depend on the query is prepared."""
    alpha, beta = home.alpha * 2.0**-16, home.beta * 2.0**-16

    def once(vector: NDArray[np.float32]) -> list[int]:
        rows, bm25 = home.plain_index.hits(question)
        sim = 0.6 * np.clip(matrix @ vector, 0.0, 1.0)
        sim[rows] += 0.4 * bm25 / bm25.max()
        utility = alpha / (alpha + beta)
        variance = alpha * beta / ((alpha + beta) ** 2 * (alpha + beta + 1.0))
        retrievability = (1.0 + 19 / 81 * home.elapsed_h / home.stability_h) ** -0.5
        score = (
            0.55 * sim
            + 0.15 * utility
            + 0.20 * retrievability
            + 0.05 * home.importance
            + 0.05 * np.sqrt(variance)
        )
        top = np.argpartition(score, -K)[-K:]
        best: list[int] = top[np.argsort(-score[top])].tolist()
        return best

    return once


def main(blocks: int) -> int:
    """Prints both medians and their ratio; fails above TARGET."""
    random = np.random.default_rng(7)
    home = build(blocks, random)
    matrix = np.array([home.matrix.vector(row) for row in range(blocks)], dtype=np.float32)
    mine: list[float] = []
    theirs: list[float] = []
    for number in range(QUERIES):
        question = QUESTIONS[number % len(QUESTIONS)]
        vector = random.standard_normal(DIMENSION, dtype=np.float32)
        vector /= np.linalg.norm(vector)
        reference = bare(home, matrix, question)
        started = time.perf_counter()
        reference(vector)
        between = time.perf_counter()
        ours(home, question, vector)
        theirs.append(between - started)
        mine.append(time.perf_counter() - between)
    ratio = median(mine) / median(theirs)
    print(f"scoring {blocks} x {DIMENSION}: {median(mine) * 1e3:.2f} ms, bare {median(theirs) * 1e3:.2f} ms")
    print(f"ratio {ratio:.2f} (target: at most {TARGET})")
    return 0 if ratio <= TARGET else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else BLOCKS))
