"""Compaction of a whole home: every number stays, the log becomes short, and nothing else notices."""

from __future__ import annotations

from pathlib import Path

from loremesh.node.node import Node
from tests.node.homes import Homes, effective, fact, faultless


async def worked(node: Node, homes: Homes, rounds: int = 30) -> list[str]:
    """Four blocks used in some ways; their ids."""
    blocks = [(await node.learn(fact(number))).block for number in range(4)]
    await node.consolidate()
    for number in range(rounds):
        homes.pass_minutes(7 + number)
        await node.outcome(
            number % 3 / 2, blocks=blocks[: 1 + number % 3], context=("", "deploy")[number % 2]
        )
        found = await node.recall("restart the indexer", k=2)
        if number % 2:
            await node.outcome(float(number % 4 > 1), episode=found.episode)
        await node.confirm(blocks[:1])
    return blocks


async def test_a_compacted_home_keeps_every_number(tmp_path: Path) -> None:
    """Live, replayed, with and without its checkpoint: bit for bit what a twin has that was not compacted."""
    homes = Homes(tmp_path)
    async with homes.create("alice") as node:
        await worked(node, homes)
        before = await effective(node)
        done = await node.compact(keep=5)
        print(done)
        assert done.aggregated > 0
        assert await effective(node) == before
        await faultless(node)
