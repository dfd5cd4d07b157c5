"""Retrieval quality on LoCoMo turns: R@10 and MRR of words, vectors, both, and all of `sim` (DESIGN §3).

Protocol: one memory per turn, "Speaker: text"; a memory per conversation, which learned its turns in order,
each session by itself; the questions of categories 1 to 4 that name evidence. R@10 is the share of a
question's evidence turns among the first ten, averaged over questions; MRR is the mean of 1/rank of the first
evidence turn, 0 when none is found at all.

"hybrid" is cosine and BM25 alone (`hybrid_sim`); "sim" is what recall uses (`finding.similarity`). What each
step gives, with intervals: `quality.py`.

Run as `python -m tests.bench.locomo [EMBEDDER]…`, default minilm and hashing.
"""

import asyncio
import json
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.node.embed.registry import open_embedder
from loremesh.node.finding import similarity
from loremesh.node.lexical import LexicalIndex
from loremesh.node.matrix import VectorMatrix
from loremesh.node.order import LearningOrder
from loremesh.node.ports import Embedder
from loremesh.node.score import hybrid_sim
from tests.bench.figures import Figure, Report, table

DATA: Final = Path(__file__).parents[3] / "shared" / "data" / "locomo" / "locomo_half.json"
CATEGORIES: Final = frozenset({1, 2, 3, 4})
K: Final = 10
EMBEDDERS: Final = ("minilm", "hashing")


class Question(msgspec.Struct, frozen=True):
    """A question and the rows of the turns that answer it."""

    text: str
    evidence: frozenset[int]


class Conversation(msgspec.Struct, frozen=True):
    """The turns of one conversation with their sessions, and what is asked about them."""

    turns: list[str]
    sessions: list[int]
    questions: list[Question]


class Quality(msgspec.Struct):
    """Share of evidence found and reciprocal rank, by question."""

    recall: list[float] = msgspec.field(default_factory=list)
    reciprocal: list[float] = msgspec.field(default_factory=list)

    def take(self, sim: NDArray[np.float32], evidence: frozenset[int]) -> None:
        """Counts one ranking; rows with a similarity of 0 are not found."""
        order = np.argsort(-sim, kind="stable")
        order = order[sim[order] > 0.0]
        self.recall.append(len(evidence.intersection(order[:K].tolist())) / len(evidence))
        ranks = np.flatnonzero(np.isin(order, list(evidence)))
        self.reciprocal.append(1.0 / (int(ranks[0]) + 1) if len(ranks) else 0.0)

    def __str__(self) -> str:
        return f"{np.mean(self.recall):.3f}   {np.mean(self.reciprocal):.3f}"


def read(path: Path = DATA) -> list[Conversation]:
    """The conversations of the data set; an evidence entry that is not the id of a turn is dropped."""
    conversations = []
    for sample in json.loads(path.read_text(encoding="utf-8")):
        turns: list[str] = []
        sessions: list[int] = []
        row_of: dict[str, int] = {}
        names = [name for name in sample["conversation"] if re.fullmatch(r"session_\d+", name)]
        for number, session in enumerate(sorted(names, key=lambda name: int(name.split("_")[1]))):
            for turn in sample["conversation"][session]:
                row_of[turn["dia_id"]] = len(turns)
                turns.append(f"{turn['speaker']}: {turn['text']}")
                sessions.append(number)
        questions = []
        for asked in sample["qa"]:
            evidence = frozenset(row_of[turn] for turn in asked.get("evidence", []) if turn in row_of)
            if asked["category"] in CATEGORIES and evidence:
                questions.append(Question(asked["question"], evidence))
        conversations.append(Conversation(turns, sessions, questions))
    return conversations


def learning_order(sessions: list[int]) -> LearningOrder:
    """Rows learned one after another, a session an active hour."""
    order = LearningOrder()
    for row, session in enumerate(sessions):
        order.append(row, float(session))
    return order


async def measure(conversations: list[Conversation], embedder: Embedder) -> tuple[dict[str, Quality], float]:
    """Quality by method, and texts embedded per second."""
    quality = {"words": Quality(), "vectors": Quality(), "hybrid": Quality(), "sim": Quality()}
    texts, seconds = 0, 0.0
    for conversation in conversations:
        size = len(conversation.turns)
        index = LexicalIndex()
        index.add(range(size), conversation.turns)
        order = learning_order(conversation.sessions)
        matrix = VectorMatrix(embedder.fingerprint.dimension)
        started = time.perf_counter()
        matrix.set(range(size), await embedder.embed(conversation.turns))
        seconds += time.perf_counter() - started
        texts += size
        asked = await embedder.embed([question.text for question in conversation.questions], query=True)
        nothing = np.zeros(size, dtype=np.float32)
        none = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32))
        every = np.ones(size, dtype=np.bool_)
        for question, vector in zip(conversation.questions, asked, strict=True):
            cosine = matrix.cosine(vector, size)
            words = index.search(question.text)
            quality["words"].take(hybrid_sim(nothing, *words), question.evidence)
            quality["vectors"].take(hybrid_sim(cosine, *none), question.evidence)
            quality["hybrid"].take(hybrid_sim(cosine, *words), question.evidence)
            quality["sim"].take(similarity(index, order, question.text, cosine, every), question.evidence)
    return quality, texts / seconds


async def report(names: Sequence[str]) -> Report:
    """Quality by embedder and method. Without the data set there is only a figure that says so."""
    title, how = "Retrieval on LoCoMo turns", " ".join((__doc__ or "").partition("\n\nRun as")[0].split())
    if not DATA.exists():
        return Report(title, how, [Figure("skipped", f"there is no {DATA.name}")])
    conversations = read()
    figures = [Figure("questions", f"{sum(len(one.questions) for one in conversations)}")]
    for name in names:
        embedder = await open_embedder(name, os.environ)
        quality, rate = await measure(conversations, embedder)
        await embedder.close()
        figures += [
            Figure(f"{name}, {method}: R@10 and MRR", str(found)) for method, found in quality.items()
        ]
        figures.append(Figure(f"{name}, texts embedded per second", f"{rate:.0f}"))
    return Report(title, how, figures)


async def both(scratch: Path) -> Report:
    """`report` of both offline embedders, as `tests.bench.run` asks for it."""
    return await report(EMBEDDERS)


if __name__ == "__main__":
    print(table(asyncio.run(report(sys.argv[1:] or EMBEDDERS))))
