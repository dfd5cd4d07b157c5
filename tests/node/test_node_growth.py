"""The limit on a block's growth: compaction by itself, while a node is up and when a home is closed."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import msgspec
import pytest

from loremesh.node import compacting, evidence
from loremesh.node.events import Compacted, decode_home
from loremesh.node.node import Node
from tests.node.homes import CONFIG, HUB_URL, Homes, eventually, fact, faultless


@pytest.mark.slow
async def test_a_block_under_ever_more_outcomes_stays_bounded(tmp_path: Path) -> None:
    """Fifty thousand outcomes in sessions that come and go: what is left of it never passes a bound."""
    homes = Homes(tmp_path)
    most = 400
    config = CONFIG.replace("[sharing]", f"[memory]\nevents_per_block = {most}\n[sharing]")
    async with homes.create("alice", config) as node:
        row = await learned(node)
    largest = 0
    for _ in range(10):
        async with homes.open("alice") as node:
            for _ in range(50):
                await record_outcomes(node, row, 100)
                await node._growth.keep()
                largest = max(largest, dict(await node.ground.store.event_counts())[row])
    async with homes.open("alice") as node:
        assert largest <= most + most // compacting.LOOK_SHARE + 100
        own = node.ground.memory.own
        assert own.columns.positives[row] + own.columns.negatives[row] == 50_000
        await faultless(node)


async def learned(node: Node) -> int:
    """The row of a new block."""
    block = (await node.learn(fact(0))).block
    await node.ground.exclusive(node.ground.refresh)
    return node.ground.memory.row_named(block)


async def record_outcomes(node: Node, row: int, count: int) -> None:
    """As many outcomes of one block in one transaction."""
    ground = node.ground

    async def work() -> None:
        ground.tick()
        one = evidence.outcome_of_blocks(ground.memory.own, ground.clock, [row], 1.0)[0][1]
        made = [msgspec.structs.replace(one, version=one.version + number) for number in range(count)]
        await ground.record([(row, event) for event in made], durable=False)

    await ground.exclusive(work)


async def test_a_node_that_is_up_bounds_its_blocks_by_itself(tmp_path: Path) -> None:
    """In its background loop, without being asked; the log tells that the limit did it."""
    homes = Homes(tmp_path)
    config = CONFIG.replace("consolidate_every_s = 86400", "consolidate_every_s = 0.05")
    config = config.replace("[sharing]", "[memory]\nevents_per_block = 100\n[sharing]")
    async with homes.create("alice", config) as node:
        row = await learned(node)
        await node.start(nats=HUB_URL)
        await record_outcomes(node, row, 150)

        async def bounded() -> bool:
            return dict(await node.ground.store.event_counts())[row] <= 60

        await eventually(bounded, "the block was compacted")
        told = [decode_home(one.payload) for one in await node.ground.store.home_events() if one.payload]
        assert [event.who for event in told if isinstance(event, Compacted)] == [compacting.BY_ITSELF]
        await faultless(node)


async def test_a_home_that_is_closed_bounds_its_blocks(tmp_path: Path) -> None:
    """What a command leaves behind is within the limit, too."""
    homes = Homes(tmp_path)
    config = CONFIG.replace("[sharing]", "[memory]\nevents_per_block = 100\n[sharing]")
    async with homes.create("alice", config) as node:
        row = await learned(node)
        await record_outcomes(node, row, 150)
    async with homes.open("alice") as node:
        assert dict(await node.ground.store.event_counts())[row] <= 60
        await faultless(node)


async def test_a_block_whose_episodes_all_wait_is_not_tried_at_every_look(tmp_path: Path) -> None:
    """Nothing of it can go; it is tried again when it has grown by a look's worth."""
    homes = Homes(tmp_path)
    config = CONFIG.replace("[sharing]", "[memory]\nevents_per_block = 50\n[sharing]")
    async with homes.create("alice", config) as node:
        await node.learn(fact(0))
        for _ in range(60):
            await node.recall("restart the indexer")
        limit = compacting.GrowthLimit(node.ground)
        limit._looked = 0
        assert await limit.keep() == 0
        assert limit.in_vain == {0: 61 + 12}
        for _ in range(12):
            await node.recall("restart the indexer")
        with patch("loremesh.node.compacting.plan", side_effect=AssertionError):
            limit.in_vain = {0: 100}
            assert await limit.keep() == 0
