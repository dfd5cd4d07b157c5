"""Retrieval quality on LoCoMo turns: R@10 and MRR of words, vectors and both (`sim` of the score).

Protocol: one memory per turn, "Speaker: text"; a memory per conversation; the questions of categories 1 to 4
that name evidence. R@10 is the share of a question's evidence turns among the first ten, averaged over
questions; MRR is the mean of 1/rank of the first evidence turn, 0 when none is found at all.

Run as `python tests/bench/locomo.py [EMBEDDER]…`, default minilm and hashing.
"""

import asyncio
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.node.embed.registry import open_embedder
from loremesh.node.lexical import LexicalIndex
from loremesh.node.matrix import VectorMatrix
from loremesh.node.ports import Embedder
from loremesh.node.score import hybrid_sim

DATA: Final = Path(__file__).parents[3] / "shared" / "data" / "locomo" / "locomo_half.json"
CATEGORIES: Final = frozenset({1, 2, 3, 4})
K: Final = 10


class Question(msgspec.Struct, frozen=True):
    """A question and the rows of the turns that answer it."""

    text: str
    evidence: frozenset[int]


class Conversation(msgspec.Struct, frozen=True):
    """The turns of one conversation, and what is asked about them."""

    turns: list[str]
    questions: list[Question]


class Quality(msgspec.Struct):
    """Sums over questions."""

    recall: float = 0.0
    reciprocal: float = 0.0
    questions: int = 0

    def take(self, sim: NDArray[np.float32], evidence: frozenset[int]) -> None:
        """Counts one ranking; rows with a similarity of 0 are not found."""
        order = np.argsort(-sim, kind="stable")
        order = order[sim[order] > 0.0]
        self.recall += len(evidence.intersection(order[:K].tolist())) / len(evidence)
        ranks = np.flatnonzero(np.isin(order, list(evidence)))
        self.reciprocal += 1.0 / (int(ranks[0]) + 1) if len(ranks) else 0.0
        self.questions += 1

    def __str__(self) -> str:
        return f"{self.recall / self.questions:.3f}   {self.reciprocal / self.questions:.3f}"


def read(path: Path = DATA) -> list[Conversation]:
    """The conversations of the data set; an evidence entry that is not the id of a turn is dropped."""
    conversations = []
    for sample in json.loads(path.read_text(encoding="utf-8")):
        turns: list[str] = []
        row_of: dict[str, int] = {}
        sessions = [name for name in sample["conversation"] if re.fullmatch(r"session_\d+", name)]
        for session in sorted(sessions, key=lambda name: int(name.split("_")[1])):
            for turn in sample["conversation"][session]:
                row_of[turn["dia_id"]] = len(turns)
                turns.append(f"{turn['speaker']}: {turn['text']}")
        questions = []
        for asked in sample["qa"]:
            evidence = frozenset(row_of[turn] for turn in asked.get("evidence", []) if turn in row_of)
            if asked["category"] in CATEGORIES and evidence:
                questions.append(Question(asked["question"], evidence))
        conversations.append(Conversation(turns, questions))
    return conversations


async def measure(conversations: list[Conversation], embedder: Embedder) -> tuple[dict[str, Quality], float]:
    """Quality by method, and texts embedded per second."""
    quality = {"words": Quality(), "vectors": Quality(), "hybrid": Quality()}
    texts, seconds = 0, 0.0
    for conversation in conversations:
        index = LexicalIndex()
        index.add(range(len(conversation.turns)), conversation.turns)
        matrix = VectorMatrix(embedder.fingerprint.dimension)
        started = time.perf_counter()
        matrix.set(range(len(conversation.turns)), await embedder.embed(conversation.turns))
        seconds += time.perf_counter() - started
        texts += len(conversation.turns)
        asked = await embedder.embed([question.text for question in conversation.questions], query=True)
        nothing = np.zeros(len(conversation.turns), dtype=np.float32)
        none = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32))
        for question, vector in zip(conversation.questions, asked, strict=True):
            cosine = matrix.cosine(vector, len(conversation.turns))
            words = index.search(question.text)
            quality["words"].take(hybrid_sim(nothing, *words), question.evidence)
            quality["vectors"].take(hybrid_sim(cosine, *none), question.evidence)
            quality["hybrid"].take(hybrid_sim(cosine, *words), question.evidence)
    return quality, texts / seconds


async def main(names: list[str]) -> int:
    """Prints one line per method and embedder."""
    if not DATA.exists():
        print(f"locomo: skipped, there is no {DATA.name} in {DATA.parent}")
        return 0
    conversations = read()
    asked = sum(len(conversation.questions) for conversation in conversations)
    print(f"LoCoMo: {len(conversations)} conversations, {asked} questions")
    print(f"{'embedder':<12} {'method':<8} {'R@10':<7} {'MRR':<7} texts/s")
    for name in names:
        embedder = await open_embedder(name, os.environ)
        quality, rate = await measure(conversations, embedder)
        await embedder.close()
        for method, figures in quality.items():
            print(f"{name:<12} {method:<8} {figures}   {f'{rate:.0f}' if method != 'words' else ''}")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:] or ["minilm", "hashing"])))
