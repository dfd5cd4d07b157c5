"""Homes that summarise: two groups of texts, a text in neither, and a summariser that is watched."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec

from loremesh.node.errors import Unavailable
from loremesh.node.extract import Extractive
from loremesh.node.ground import Ground
from loremesh.node.node import Node, NodeContext
from loremesh.node.parts import Parts
from loremesh.node.ports import Summariser
from loremesh.sync.content import block_id
from tests.node.homes import CONFIG, CountingEmbedder, Homes

CONFIG_TIERS = CONFIG + "[tiers]\nthreshold = 0.5\nabstract_from = 4\nmost = 8\nshare = 0.5\n"

INDEXER = [
    f"Restart the indexer after a schema change of cluster {name}. The indexer stalls otherwise. Ask {who}."
    for name, who in (("red", "Ada"), ("blue", "Bob"), ("green", "Cem"), ("black", "Dee"), ("white", "Eve"))
]
QUOTA = [
    f"Mailbox quota is raised by the desk for team {name}. A quota request takes two days. Send form {form}."
    for name, form in (("north", 11), ("south", 12), ("east", 13))
]
LONE = "Cats sleep in the server room."


class Watched:
    """The extractive summariser, which notes what it is asked and fails on purpose.

    `away`: it cannot be reached. `mute`: it has no answer. `cancel_at`: the call at which the run is ended.
    """

    name = "watched"

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.away = False
        self.mute = False
        self.long = False
        self.cancel_at = 0

    async def summarise(self, texts: Sequence[str], budget: int) -> str | None:
        self.asked.append(list(texts))
        if self.away:
            raise Unavailable("the model is away", "wait")
        if len(self.asked) == self.cancel_at:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)
        if self.long:
            return "word " * 8 * budget
        return None if self.mute else await Extractive().summarise(texts, budget)

    async def close(self) -> None:
        pass


class TierHomes(Homes):
    """Homes whose vectors can tell texts apart, and whose summariser is watched."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.embedder = CountingEmbedder(256)
        self.summariser = Watched()

    def parts(self, name: str) -> Parts:
        given: Summariser = self.summariser
        return msgspec.structs.replace(super().parts(name), summariser=given)

    def create(self, name: str, config: str = CONFIG_TIERS) -> NodeContext:
        return super().create(name, config)


def block_of(node: Node, text: str) -> str:
    """The id of a block with this text."""

    return block_id(text).hex()


def summaries(ground: Ground) -> dict[int, tuple[int, ...]]:
    """Sources by the row of each summary, abstracts left out."""
    tiers = ground.memory.own.tiers
    return {row: tier.sources for row in tiers.summaries() if (tier := tiers.get(row)) is not None}


async def stored_texts(node: Node) -> list[str]:
    """Everything that can be read of the store's blocks, whatever the memory makes of it."""
    found: list[str] = []
    async for batch in node.ground.store.scan_blocks():
        found += [text for text in batch.texts if text is not None]
    return found
