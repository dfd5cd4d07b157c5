"""Random walks of whole nodes that share: whatever they do, the log is whole and says what is in use."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from loremesh.node.errors import NodeError
from loremesh.node.node import Node
from loremesh.sync.content import block_id
from loremesh.sync.memory_bus import Faults
from tests.node.homes import Homes, Team, effective, fact, faultless

NAMES = ("alice", "bob", "carol")
BAD_BUS = Faults(drop=0.05, duplicate=0.1, reorder=0.2, unsure=0.1)


class Walk:
    """A team that does things at random."""

    def __init__(self, team: Team, random: Random, *, forgetting: bool) -> None:
        self.team = team
        self.random = random
        self.forgetting = forgetting
        self.forgot = 0

    async def step(self) -> None:
        random, team = self.random, self.team
        team.homes.pass_minutes(random.choice([0, 0, 1, 12, 50]))
        name = random.choice(NAMES)
        node, text = team[name], fact(random.randrange(25))
        block = block_id(text).hex()
        try:
            match random.randrange(12):
                case 0 | 1:
                    await node.learn(text, tags=random.choice([(), ("ops",)]), share=["team"])
                case 2:
                    await node.learn(f"  {text} \n", share=random.choice([[], ["team"]]))
                case 3:
                    await node.outcome(random.random(), blocks=[block], context=random.choice(["", "deploy"]))
                case 4 | 5:
                    recalled = await node.recall(text, frame=random.choice(["task", "attention"]), k=4)
                    await node.outcome(random.choice([0.0, 1.0]), episode=recalled.episode)
                case 6:
                    await node.confirm([block])
                case 7:
                    await node.consolidate(limit=random.choice([None, 3]))
                case 8:
                    peer = team[random.choice([one for one in NAMES if one != name])].peer_id
                    if random.random() < 0.3:
                        await node.trust_revoke(peer)
                    else:
                        await node.trust_set(peer, random.random())
                case 9:
                    known = sorted(await effective(node))
                    if self.forgetting and known:
                        await node.forget(random.choice(known))
                        self.forgot += 1
                case _:
                    await self.reopen(name)
        except NodeError:
            pass  # of a block or episode that is not there: the walk takes what comes

    async def reopen(self, name: str) -> None:
        """Close and open again; the numbers are the same before and after."""
        team = self.team
        node = team[name]
        await node.stop()
        before = await effective(node)
        await team.leave(name)
        if self.random.random() < 0.5:
            (team.homes.path(name) / "checkpoint").unlink()
        async with team.homes.open(name) as node:
            assert await effective(node) == before
            if self.random.random() < 0.3:
                await faultless(node)
        await team.open(name)


async def walk(root: Path, seed: int, *, forgetting: bool, steps: int = 60) -> None:
    random = Random(seed)
    async with Team(Homes(root, BAD_BUS, seed)) as team:
        await team.found(*NAMES)
        walking = Walk(team, random, forgetting=forgetting)
        for _ in range(steps):
            await walking.step()
        team.homes.hub.faults = Faults()
        if forgetting:
            assert walking.forgot
            for node in team.nodes.values():
                await node.settle()
        else:
            await team.alike()
        for node in list(team.nodes.values()):
            await node.stop()
            await faultless(node)
            await same_after_everything(team.homes, node)


async def same_after_everything(homes: Homes, node: Node) -> None:
    """Trust up and down again leaves nothing behind."""
    before = await effective(node)
    for peer in await node.peers():
        await node.trust_set(peer.peer, 1.0)
        await node.trust_set(peer.peer, peer.trust)
    assert await effective(node) == before


@pytest.mark.parametrize("seed", [1, 2])
async def test_replay_is_clean_and_all_are_alike_after_anything(tmp_path: Path, seed: int) -> None:
    await walk(tmp_path, seed, forgetting=False)


@pytest.mark.parametrize("seed", [3, 4])
async def test_replay_is_clean_after_anything_and_forgetting(tmp_path: Path, seed: int) -> None:
    await walk(tmp_path, seed, forgetting=True)
