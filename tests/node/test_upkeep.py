"""What a node that is up does by itself: one thing that fails holds up none of the others."""

from __future__ import annotations

import asyncio

from loremesh.node.upkeep import keep_up
from tests.node.homes import CONFIG, Homes, fact


async def test_an_embedder_that_is_away_holds_up_neither_bounds_nor_summaries(homes: Homes) -> None:
    """The log is bounded and the summaries are made, and what is told is the embedder's failure."""
    done, told = asyncio.Event(), list[str]()
    ran: list[str] = []

    async def bound() -> None:
        ran.append("bound")

    async def summarise() -> str:
        ran.append("summarise")
        return ""

    def trouble(text: str) -> None:
        told.append(text)
        done.set()

    config = CONFIG.replace("consolidate_every_s = 86400", "consolidate_every_s = 0.05")
    async with homes.create("alice", config) as node:
        await node.learn(fact(0))
        homes.embedder.fail_at = fact(0)
        upkeep = asyncio.create_task(keep_up(node.ground, bound, summarise, trouble))
        await asyncio.wait_for(done.wait(), 30)
        upkeep.cancel()
    assert ran[:2] == ["bound", "summarise"]
    assert told[0] == "the embedder fell over"
