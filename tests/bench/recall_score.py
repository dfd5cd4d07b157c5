"""Speed of scoring at 100,000 × 384, the query's vector given: all terms of the score against bare numpy.

Bare means (`bare.top`): the spine's formula written straight down over ready float arrays and one float32
matrix, plus a plain tantivy query. Real text (windows of 25 words from the standard library's sources),
random vectors: the arithmetic does not care. Both sides alternate within one process. With `turns`, every
text is a turn of one of two speakers whom the questions name, half of the home each: the worst case for
labels.

Run as `python -m tests.bench.recall_score [BLOCKS] [turns]`.
"""

import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.node.finding import similarity
from loremesh.node.lexical import LexicalIndex
from loremesh.node.matrix import VectorMatrix
from loremesh.node.order import LearningOrder
from loremesh.node.score import Terms, rank, recall_frame, utility_terms
from loremesh.sync.fixed import ONE
from tests.bench.bare import Columns, K, PlainIndex, top
from tests.bench.figures import Figure, Report, at_most, table

BLOCKS: Final = 100_000
DIMENSION: Final = 384
WORDS: Final = 25
QUERIES: Final = 60
TARGET: Final = 1.5

SPEAKERS: Final = ("Ada", "Grace")

QUESTIONS: Final = (
    "how do I close a socket after a timeout",
    "parse the header of an email message",
    "which exception is raised when the file does not exist",
    "convert a datetime to another time zone",
    "compare two dictionaries with equal keys",
    "start a thread and wait until it ends",
)


class Home(msgspec.Struct, frozen=True):
    """What recall computes from, and the same for the bare side."""

    matrix: VectorMatrix
    index: LexicalIndex
    order: LearningOrder
    columns: Columns
    plain: PlainIndex
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


def build(blocks: int, turns: bool, random: np.random.Generator) -> Home:
    """A home of that many blocks; a third of them known only from one of three peers."""
    matrix, index = VectorMatrix(DIMENSION), LexicalIndex()
    for start in range(0, blocks, 10_000):
        vectors = random.standard_normal((min(10_000, blocks - start), DIMENSION), dtype=np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        matrix.set(range(start, start + len(vectors)), vectors)
    texts = list(windows(blocks))
    if turns:
        texts = [f"{SPEAKERS[row % 2]}: {text}" for row, text in enumerate(texts)]
    index.add(range(blocks), texts)
    order = LearningOrder()
    for row in range(blocks):
        order.append(row, row / 1000)
    foreign = random.integers(0, 3, blocks, dtype=np.int32)
    foreign[random.random(blocks) > 1 / 3] = -1
    alpha, beta = random.integers(1 << 15, 1 << 22, (2, blocks))
    elapsed_h, stability_h = random.random(blocks) * 500.0, random.random(blocks) * 1000.0 + 2.4
    importance = random.random(blocks)
    plain = [matrix.vector(row) for row in range(blocks)]
    return Home(
        matrix=matrix,
        index=index,
        order=order,
        columns=Columns(
            np.array(plain, np.float32), alpha / ONE, beta / ONE, elapsed_h, stability_h, importance
        ),
        plain=PlainIndex(texts),
        alpha=alpha,
        beta=beta,
        elapsed_h=elapsed_h,
        stability_h=stability_h,
        importance=importance,
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


def compare(blocks: int, turns: bool) -> tuple[float, float]:
    """Median seconds of ours and of bare."""
    random = np.random.default_rng(7)
    home = build(blocks, turns, random)
    mine: list[float] = []
    theirs: list[float] = []
    for number in range(QUERIES):
        question = QUESTIONS[number % len(QUESTIONS)]
        if turns:
            question = f"{SPEAKERS[number % 2]}, {question}?"
        vector = random.standard_normal(DIMENSION, dtype=np.float32)
        vector /= np.linalg.norm(vector)
        started = time.perf_counter()
        top(home.columns, home.plain, question, vector)
        between = time.perf_counter()
        ours(home, question, vector)
        theirs.append(between - started)
        mine.append(time.perf_counter() - between)
    return median(mine), median(theirs)


def report(blocks: int = BLOCKS, turns: tuple[bool, ...] = (False, True)) -> Report:
    """Both medians and their ratio, for texts as they are and for turns of two speakers."""
    figures = []
    for each in turns:
        mine, theirs = compare(blocks, each)
        of = "turns of two speakers" if each else "texts"
        figures.append(at_most(f"{of}: ours against bare, p50", mine / theirs, TARGET, "×"))
        figures.append(Figure("ours (bare)", f"{mine * 1e3:.2f} ({theirs * 1e3:.2f}) ms"))
    how = " ".join((__doc__ or "").partition("\n\nRun as")[0].split())
    return Report(f"Scoring at {blocks:,} × {DIMENSION}", how, figures)


async def measure(scratch: Path) -> Report:
    """`report` as `tests.bench.run` asks for it."""
    return report()


def main(arguments: list[str]) -> int:
    """Prints the figures; fails when a target is missed."""
    blocks = next((int(argument) for argument in arguments if argument.isdigit()), BLOCKS)
    found = report(blocks, ("turns" in arguments,))
    print(table(found))
    return 0 if all(figure.met is not False for figure in found.figures) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
