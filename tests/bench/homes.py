"""Homes to measure: sealed, of real text, with synthetic vectors, made once per run in a scratch place."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.node import evidence
from loremesh.node.compose import real_parts
from loremesh.node.events import Event
from loremesh.node.node import Node
from loremesh.node.opening import encode_fingerprint
from loremesh.node.parts import Parts
from loremesh.node.ports import Embedder, Fingerprint
from loremesh.node.settings import Settings
from tests.bench.passages import passages

BLOCKS: Final = 100_000
DIMENSION: Final = 384
PASSPHRASE: Final = "a passphrase for benches"
MODEL: Final = Fingerprint("bench", "1", DIMENSION)
BATCH: Final = 10_000
LINKS: Final = 5
"""Links that each block proposes, as many as consolidation does at most."""
JUDGED: Final = 10_000
"""Blocks that have outcomes, so that utilities and stabilities differ."""

QUESTIONS: Final = (
    "how do I close a socket after a timeout",
    "parse the header of an email message",
    "which exception is raised when the file does not exist",
    "convert a datetime to another time zone",
    "compare two dictionaries with equal keys",
    "start a thread and wait until it ends",
)


class Given:
    """An embedder that gives the vector it was handed: for recall with the query's vector given."""

    fingerprint = MODEL

    def __init__(self, vector: NDArray[np.float32]) -> None:
        self.vector = vector

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
        """The same vector for every text."""
        return np.repeat(self.vector[None], len(texts), axis=0)

    async def close(self) -> None:
        """Nothing to let go of."""


def parts_with(given: Given) -> Parts:
    """The real outside world, but for the embedder."""

    async def open_embedder(dimension: int | None) -> Embedder:
        return given

    return msgspec.structs.replace(real_parts(Settings(), {}), open_embedder=open_embedder)


def unit_vectors(count: int, random: np.random.Generator) -> NDArray[np.float32]:
    """Random unit vectors, float32[count, DIMENSION]: the arithmetic does not care what they mean."""
    vectors = random.standard_normal((count, DIMENSION), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


async def link(node: Node, rows: Sequence[int], random: np.random.Generator) -> None:
    """Links of each of these rows to LINKS of all before it, at the weights that consolidation gives."""
    clock = node.ground.stamp()
    events: list[tuple[int, Event]] = []
    for row in rows:
        others = (
            random.choice(row, min(LINKS, row), replace=False).tolist()
            if row < 1_000
            else (np.unique(random.integers(0, row, LINKS)).tolist())
        )
        weights = (0.3 + 0.2 * random.random(len(others))).tolist()
        events.append((row, evidence.linked(clock, row, list(zip(others, weights, strict=True)))))

    async def work() -> None:
        await node.ground.record(events)

    await node.ground.exclusive(work)


async def large_home(scratch: Path, blocks: int = BLOCKS) -> Path:
    """A home of that many blocks with vectors, each linked to LINKS others by chance, a tenth of them with
    outcomes; made at the first call.
    """
    home = scratch / f"home-{blocks}"
    if home.exists():
        return home
    random = np.random.default_rng(7)
    parts = parts_with(Given(unit_vectors(1, random)[0]))
    async with Node.create(home, passphrase=PASSPHRASE, parts=parts) as node:
        learned = await node.learn_many(passages(blocks))
        for start in range(0, blocks, BATCH):
            vectors = unit_vectors(min(BATCH, blocks - start), random)
            rows = list(range(start, start + len(vectors)))
            await node.ground.store.set_embeddings(rows, vectors, encode_fingerprint(MODEL))
            await link(node, rows, random)
        ids = [one.block for one in learned]
        judged = random.permutation(blocks)[: JUDGED * blocks // BLOCKS].tolist()
        for start in range(0, len(judged), 100):
            some = [ids[at] for at in judged[start : start + 100]]
            signal, context = float(random.random()), ("", "deploy")[start // 100 % 2]
            await node.outcome(signal, blocks=some, context=context)
    return home
