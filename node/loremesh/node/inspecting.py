"""The use case `explain`: what memory, links and log say of one block, put together."""

from __future__ import annotations

from msgspec import structs

from loremesh.node import neighbours
from loremesh.node.episodes import last_episodes
from loremesh.node.explaining import NameOf, explain
from loremesh.node.ground import Ground
from loremesh.node.results import Explanation


async def inspect(ground: Ground, block: str, name_of: NameOf) -> Explanation:
    """Why a block stands where it stands. Raises UsageError, UnknownThing."""

    async def work() -> Explanation:
        await ground.refresh()
        row = ground.memory.row_named(block)
        episodes = await last_episodes(ground, row)
        linked = neighbours.neighbours(ground.memory, row)
        texts = await ground.store.texts([row, *(edge.other for edge, _ in linked)])
        found = explain(ground.memory, row, texts[row], ground.hour(), name_of, episodes)
        return structs.replace(found, neighbours=neighbours.told(ground.memory, row, linked, texts))

    return await ground.exclusive(work)
