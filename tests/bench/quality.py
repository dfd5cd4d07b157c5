"""What raises retrieval quality on LoCoMo, and by how much: the account behind QUALITY.md.

Through the functions that recall uses, with the default embedder: each step from the spine's hybrid to all of
`sim`, each step by itself, each left out; constants chosen on four conversations and measured on the fifth;
two controls, the same turns learned in an order that means nothing, and the data set's own notes on its
sessions (third person, no labels) in place of turns; and what the graph term does.

A gain's interval is the middle 95 % of 2,000 paired resamplings of the questions within each conversation. It
does not cover that other conversations may be of another kind: for that see the figures by conversation.

Run as `python -m tests.bench.quality`; embedding takes a minute or two.
"""

import asyncio
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from loremesh.node.consolidating import BATCH_BLOCKS
from loremesh.node.embed.registry import open_embedder
from loremesh.node.graph import lent
from loremesh.node.lexical import LexicalIndex
from loremesh.node.nearest import nearest
from loremesh.node.order import CARRIED, REACH, LearningOrder
from loremesh.node.ownstate import OwnState
from loremesh.node.ports import Embedder
from loremesh.node.postings import K1, B
from loremesh.node.proposing import CANDIDATES, Proposing
from loremesh.node.score import (
    DENSE_SHARE,
    FRAMES,
    LABEL_LIFT,
    RecallFrame,
    Terms,
    composite,
    hybrid_sim,
    lift_named,
)
from loremesh.sync.fixed import ONE
from loremesh.sync.rows import Contexts
from tests.bench.locomo import CATEGORIES, DATA, Conversation, Quality, Question, learning_order, read

LINKS_TRIED: Final = ((5, 0.6), (3, 0.6), (10, 0.6), (5, 0.5), (5, 0.7))
"""Links a block and threshold; the first are what consolidation does."""
RESAMPLINGS: Final = 2_000
SHUFFLES: Final = 3


class Recipe(msgspec.Struct, frozen=True):
    """How `sim` is made. The defaults are what recall does."""

    content_words: bool = True
    k1: float = K1
    b: float = B
    dense: float = DENSE_SHARE
    carried: float = CARRIED
    reach: int = REACH
    lift: float = LABEL_LIFT


SPINE: Final = Recipe(content_words=False, k1=1.2, b=0.75, carried=0.0, lift=0.0)
STEPS: Final[tuple[tuple[str, dict[str, float]], ...]] = (
    ("content words only", {"content_words": True}),
    ("k1 0.9, b 0.4", {"k1": K1, "b": B}),
    ("labels", {"lift": LABEL_LIFT}),
    ("carried over", {"carried": CARRIED}),
)
GRID: Final = {
    "dense": (0.5, 0.6, 0.7),
    "carried": (0.5, 0.6, 0.7, 0.8, 0.9),
    "lift": (0.0, 0.15, 0.25, 0.35),
}


class Prepared(msgspec.Struct, frozen=True):
    """A memory ready to be asked: `cosine` is float32[questions, rows], `vectors` float32[rows, ·]."""

    index: LexicalIndex
    order: LearningOrder
    cosine: NDArray[np.float32]
    questions: list[Question]
    vectors: NDArray[np.float32]


async def prepared(conversation: Conversation, embedder: Embedder) -> Prepared:
    """The conversation embedded and indexed."""
    index = LexicalIndex()
    index.add(range(len(conversation.turns)), conversation.turns)
    vectors = await embedder.embed(conversation.turns)
    asked = await embedder.embed([question.text for question in conversation.questions], query=True)
    order = learning_order(conversation.sessions)
    return Prepared(index, order, asked @ vectors.T, conversation.questions, vectors)


def quality(memory: Prepared, recipe: Recipe) -> Quality:
    """Recall and reciprocal rank of every question."""
    taken = Quality()
    for question, sim in similarities(memory, recipe):
        taken.take(sim, question.evidence)
    return taken


def similarities(memory: Prepared, recipe: Recipe) -> Iterator[tuple[Question, NDArray[np.float32]]]:
    """Every question, and `sim` of every row with it."""
    for question, cosine in zip(memory.questions, memory.cosine, strict=True):
        index = memory.index
        # Behind the index's back: it has no switch for what is not an option.
        words = index._terms(question.text)
        if not recipe.content_words:
            words = list(dict.fromkeys(index._analyzer.words(question.text)))
        rows, bm25 = index._texts.bm25(words, recipe.k1, recipe.b)
        if recipe.carried:
            rows, bm25 = memory.order.carry(rows, bm25, len(cosine), recipe.carried, recipe.reach)
        sim = hybrid_sim(cosine, rows, bm25, dense=recipe.dense)
        yield question, lift_named(sim, *index.named(question.text), recipe.lift)


def notes() -> list[Conversation]:
    """The data set's notes on each session instead of its turns; evidence is any note on an evidence turn."""
    conversations = []
    for sample in json.loads(DATA.read_text(encoding="utf-8")):
        texts: list[str] = []
        sessions: list[int] = []
        about: list[set[str]] = []
        names = sorted(sample["observation"], key=lambda name: int(name.split("_")[1]))
        for number, session in enumerate(names):
            for written in sample["observation"][session].values():
                for text, turns in written:
                    texts.append(text)
                    sessions.append(number)
                    about.append(set(re.findall(r"D\d+:\d+", json.dumps(turns))))
        questions = []
        for asked in sample["qa"]:
            turns = set(asked.get("evidence", []))
            evidence = frozenset(row for row, named in enumerate(about) if named & turns)
            if asked["category"] in CATEGORIES and evidence:
                questions.append(Question(asked["question"], evidence))
        conversations.append(Conversation(texts, sessions, questions))
    return conversations


def shuffled(memory: Prepared, seed: int) -> Prepared:
    """The same blocks, learned in an order that means nothing."""
    order = LearningOrder()
    for row in np.random.default_rng(seed).permutation(memory.cosine.shape[1]).tolist():
        order.append(row, 0.0)
    return msgspec.structs.replace(memory, order=order)


class Found(msgspec.Struct, frozen=True):
    """Figures by question (float64[questions] each), one pair of arrays per conversation."""

    recall: list[NDArray[np.float64]]
    reciprocal: list[NDArray[np.float64]]

    def mean(self) -> tuple[float, float]:
        """R@10 and MRR over all questions."""
        return float(np.concatenate(self.recall).mean()), float(np.concatenate(self.reciprocal).mean())


def over(memories: Sequence[Prepared], recipe: Recipe) -> Found:
    """What a recipe finds in all conversations."""
    taken = [quality(memory, recipe) for memory in memories]
    return Found([np.array(one.recall) for one in taken], [np.array(one.reciprocal) for one in taken])


def interval(
    one: Sequence[NDArray[np.float64]], other: Sequence[NDArray[np.float64]] | None = None
) -> tuple[float, float]:
    """The middle 95 % of resampled means of `one`, or of how far it is above `other`, paired by question."""
    random = np.random.default_rng(11)
    values = [a - b for a, b in zip(one, other, strict=True)] if other is not None else list(one)
    means = []
    for _ in range(RESAMPLINGS):
        drawn = [part[random.integers(0, len(part), len(part))] for part in values]
        means.append(np.concatenate(drawn).mean())
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def line(what: str, found: Found, before: Found | None = None) -> str:
    """One row: figures, and the gain over `before` with its interval."""
    recall, reciprocal = found.mean()
    told = f"{what:<34} {recall:.3f}  {reciprocal:.3f}"
    if before is None:
        (a, b), (c, d) = interval(found.recall), interval(found.reciprocal)
        return f"{told}   [{a:.3f}, {b:.3f}]  [{c:.3f}, {d:.3f}]"
    was = before.mean()
    (a, b), (c, d) = interval(found.recall, before.recall), interval(found.reciprocal, before.reciprocal)
    gains = f"{recall - was[0]:+.3f} [{a:+.3f}, {b:+.3f}]  {reciprocal - was[1]:+.3f} [{c:+.3f}, {d:+.3f}]"
    return f"{told}   {gains}"


def by_conversation(found: Found) -> str:
    """R@10/MRR of each."""
    pairs = zip(found.recall, found.reciprocal, strict=True)
    return "  ".join(f"{recall.mean():.3f}/{reciprocal.mean():.3f}" for recall, reciprocal in pairs)


def left_out(memories: Sequence[Prepared]) -> tuple[Found, list[dict[str, float]]]:
    """Each conversation measured with the constants of GRID that do best (R@10 + MRR) on the others."""
    choices = [dict(zip(GRID, values, strict=True)) for values in product(*GRID.values())]
    tried = [over(memories, msgspec.structs.replace(Recipe(), **choice)) for choice in choices]
    recall, reciprocal, chosen = [], [], []
    for out in range(len(memories)):
        others = [at for at in range(len(memories)) if at != out]
        sums = [
            sum(np.concatenate([part[at] for at in others]).mean() for part in (one.recall, one.reciprocal))
            for one in tried
        ]
        best = int(np.argmax(sums))
        recall.append(tried[best].recall[out])
        reciprocal.append(tried[best].reciprocal[out])
        chosen.append(choices[best])
    return Found(recall, reciprocal), chosen


def tell_steps(memories: Sequence[Prepared]) -> None:
    """From the spine to recall, and each step by itself."""
    spine, recipe = over(memories, SPINE), SPINE
    print(line("the spine's hybrid", spine), "  ", by_conversation(spine), sep="")
    before = spine
    for name, change in STEPS:
        recipe = msgspec.structs.replace(recipe, **change)
        found = over(memories, recipe)
        print(line("+ " + name, found, before))
        before = found
    print(line("recall", before), "  ", by_conversation(before), sep="")
    print(line("  above the spine", before, spine))
    for name, change in STEPS:
        print(line("alone: " + name, over(memories, msgspec.structs.replace(SPINE, **change)), spine))
    for name, change in STEPS:
        back = {field: getattr(SPINE, field) for field in change}
        print(line("without: " + name, over(memories, msgspec.structs.replace(Recipe(), **back)), before))


def tell_controls(memories: Sequence[Prepared], kept: Sequence[Prepared]) -> None:
    """An order that means nothing, and notes instead of turns."""
    plain, ours = Recipe(carried=0.0), Recipe()
    for seed in range(SHUFFLES):
        mixed = [shuffled(memory, seed) for memory in memories]
        print(line(f"order shuffled, seed {seed}", over(mixed, ours), over(mixed, plain)))
    print(line("notes: the spine's hybrid", over(kept, SPINE)))
    print(line("notes: nothing carried over", over(kept, plain), over(kept, SPINE)))
    print(line("notes: recall", over(kept, ours), over(kept, plain)))


def linked(memory: Prepared, count: int, threshold: float) -> OwnState:
    """The links that consolidation proposes, a batch at a time, before anybody judged a block."""
    own = OwnState(bytes(32), Contexts())
    size = len(memory.vectors)
    everything = np.ones(size, np.bool_)
    for start in range(0, size, BATCH_BLOCKS):
        rows = np.arange(start, min(start + BATCH_BLOCKS, size))
        held = everything & (np.arange(size) <= rows[-1])
        vectors = memory.vectors[rows]
        found = nearest(vectors, rows, [memory.vectors], held, CANDIDATES * count, threshold)
        proposing = Proposing(own.links, count)
        for row, near in zip(rows.tolist(), found, strict=True):
            for made in proposing.propose(row, near):
                for other, weight in made.links:
                    own.links.propose(made.row, other, round(weight * ONE))
    return own


def spread_quality(memory: Prepared, own: OwnState, frame: RecallFrame) -> Quality:
    """A frame's ranking of a memory that nobody has used, with its weight for links."""
    taken = Quality()
    recipe = Recipe()
    every = np.ones(memory.cosine.shape[1], np.bool_)
    for question, sim in similarities(memory, recipe):
        flat = np.ones(len(sim), np.float32)
        terms = Terms(sim, flat * 0.5, flat, flat * 0.5, flat * np.float32(0.125**0.5))
        scores = composite(frame, terms)
        if frame.graph:
            scores += np.float32(frame.graph) * lent(own, scores, every)
        taken.take(scores, question.evidence)
    return taken


def tell_links(memories: Sequence[Prepared], what: str) -> None:
    """What the graph term does in the frame `simulate`, at several weights, links a block and thresholds."""
    plain = replace(FRAMES["simulate"], graph=0.0)

    def measured(frame: RecallFrame, links: Sequence[OwnState]) -> Found:
        taken = [spread_quality(memory, of, frame) for memory, of in zip(memories, links, strict=True)]
        return Found([np.array(one.recall) for one in taken], [np.array(one.reciprocal) for one in taken])

    for count, threshold in LINKS_TRIED:
        links = [linked(memory, count, threshold) for memory in memories]
        pairs = sum(len(of.links) for of in links) / sum(len(memory.vectors) for memory in memories)
        before = measured(plain, links)
        if (count, threshold) == LINKS_TRIED[0]:
            print(line(f"{what}: simulate without links", before))
        for weight in (0.25, 0.5, 0.75, 1.0):
            name = f"{what}: {count} from {threshold}, weight {weight}"
            print(
                line(name, measured(replace(plain, graph=weight), links), before),
                f" {pairs:.1f} links a block",
            )


async def main() -> int:
    """Prints the whole account."""
    if not DATA.exists():
        print(f"quality: skipped, there is no {DATA.name} in {DATA.parent}")
        return 0
    embedder = await open_embedder("minilm", os.environ)
    memories = [await prepared(conversation, embedder) for conversation in read()]
    kept = [await prepared(conversation, embedder) for conversation in notes()]
    await embedder.close()
    print(f"{sum(len(memory.questions) for memory in memories)} questions; R@10, MRR, gains or intervals")
    tell_steps(memories)
    found, chosen = left_out(memories)
    print(line("constants from the other four", found), "  ", by_conversation(found), sep="")
    for choice in chosen:
        print("   ", choice)
    tell_controls(memories, kept)
    tell_links(memories, "turns")
    tell_links(kept, "notes")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
