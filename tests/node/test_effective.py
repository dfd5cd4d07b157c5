"""The effective columns, and what they ask of own columns."""

from __future__ import annotations

from pathlib import Path

from tests.node.homes import Homes, fact


async def test_own_columns_stay_as_long_as_there_are_blocks_however_often_a_home_is_opened(
    tmp_path: Path,
) -> None:
    homes = Homes(tmp_path)
    async with homes.create("alice") as node:
        await node.learn_many([fact(n) for n in range(30)])
    for _ in range(3):
        async with homes.open("alice") as node:
            await node.learn("one more of the same")
            await node.outcome(1.0, episode=(await node.recall("indexer")).episode)
            memory = node.ground.memory
            assert memory.own.columns.length == memory.length == 31
