"""Consolidation is incremental: what it costs goes by what is new, whatever is there already."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from loremesh.node import evidence
from loremesh.node.events import Event
from loremesh.node.node import Node
from loremesh.node.opening import encode_fingerprint
from loremesh.node.ports import Ratings
from tests.node.homes import DIMENSION, Homes

BLOCKS = 50_000
BATCH = 5_000


class CountingRater:
    """Rates every text alike, and notes what it was asked about."""

    name = "counting"

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def rate(self, texts: Sequence[str]) -> Ratings:
        self.texts += texts
        return Ratings([0.75] * len(texts))

    async def close(self) -> None:
        """Nothing to let go of."""


async def fill(homes: Homes, node: Node) -> None:
    """As many blocks, each with a vector and a rating and looked at for links, without the hours it takes."""
    ground = node.ground
    await node.learn_many([f"Note {number} of the large memory" for number in range(BLOCKS)])
    random = np.random.default_rng(7)
    for start in range(0, BLOCKS, BATCH):
        rows = list(range(start, start + BATCH))
        vectors = random.standard_normal((BATCH, DIMENSION), dtype=np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        await ground.store.set_embeddings(rows, vectors, encode_fingerprint(homes.embedder.fingerprint))
        clock, own = ground.stamp(), ground.memory.own
        events: list[tuple[int, Event]] = []
        for row in rows:
            events.append((row, evidence.rating(own, clock, row, 0.75, 0.5, "level")))
            events.append((row, evidence.linked(clock, row, ())))
        await ground.record(events)


@pytest.mark.slow
async def test_fault_34_one_new_block_among_fifty_thousand_embeds_and_rates_one_text(homes: Homes) -> None:
    """Counted at the ports, after a restart too; and with nothing new, neither is asked at all."""
    async with homes.create("alice") as node:
        await fill(homes, node)
    rater = CountingRater()
    async with homes.open("alice") as node:
        node.ground.parts = msgspec.structs.replace(node.ground.parts, rater=rater)
        idle = await node.consolidate()
        assert (idle.embedded, idle.rated, idle.waiting) == (0, 0, 0)
        assert (homes.embedder.texts, rater.texts) == ([], [])
        await node.learn("One more note for the large memory")
        seen: list[tuple[int, int]] = []
        done = await node.consolidate(progress=lambda at, of: seen.append((at, of)))
        assert (done.embedded, done.rated, done.waiting) == (1, 1, 0)
        assert homes.embedder.texts == rater.texts == ["One more note for the large memory"]
        assert seen == [(1, 1)]
        status = await node.status()
        assert (status.embedded, status.waiting) == (BLOCKS + 1, 0)
