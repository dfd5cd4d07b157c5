"""The fifth phase: one node is killed while it publishes, and starts again."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Final

from loremesh.node.demo.agents import Agent
from loremesh.node.demo.hostile import Keys
from loremesh.node.demo.plan import HONEST, SPACE
from loremesh.node.demo.processes import together, wait_until
from loremesh.node.demo.proof import LastLook, look_last
from loremesh.node.demo.results import Crash
from loremesh.node.demo.team import ARRIVE_S, Team, positions
from loremesh.node.errors import NodeError, Unavailable

KILLED: Final = HONEST[2]
BATCH: Final = 4
"""Texts learned and used at a time: publishing goes on while more comes."""
FRAMES_BEFORE: Final = 6
"""Frames of this stretch that the others have when the node is killed: it is in the middle of it."""


def killed_and_restarted(team: Team, keys: Keys) -> Crash:
    """Start the nodes again, work on; kill one while it publishes, start it, and compare all."""
    team.nodes.start(HONEST[0])
    together(team.nodes.start, HONEST[1:])
    team.meet()
    team.work("after")
    team.wait_for_agreement()
    witness, victim = team.agents[0], team.agents[HONEST.index(KILLED)]
    before = _data_number(witness, victim)
    acknowledged: dict[str, int] = {}
    with ThreadPoolExecutor(1) as thread:
        publishing = thread.submit(_publish_until_gone, team, victim, acknowledged)
        try:
            wait_until(
                lambda: publishing.done() or _data_number(witness, victim) >= before + FRAMES_BEFORE,
                "the first frames to come",
                ARRIVE_S,
            )
        finally:
            team.nodes.kill(KILLED)
        publishing.result()
    published = _data_number(witness, victim) - before
    team.say(
        f"{KILLED} was killed (SIGKILL) with {published} frames out; {len(acknowledged)} texts acknowledged"
    )
    begun_s = time.monotonic()
    team.nodes.start(KILLED)
    team.meet()
    witness, victim = team.agents[0], team.agents[HONEST.index(KILLED)]
    wait_until(lambda: _others_know(team, victim, acknowledged), "what was acknowledged to arrive", ARRIVE_S)
    wait_until(lambda: team.common_positions() is not None, "all to hold the same", ARRIVE_S)
    restart_s = time.monotonic() - begun_s
    states = [positions(agent, team.honest_peers()) for agent in team.agents]
    feeds = {feed for state in states for feed in state}
    different = sum(any(state.get(feed) != states[0].get(feed) for state in states) for feed in feeds)
    after = _data_number(witness, victim) - before
    team.nodes.stop_all()
    looks = asyncio.run(_look_at_all(team, keys, acknowledged))
    lost = looks[KILLED].lost
    team.say(
        f"all agree {restart_s:.1f} s after its restart: {len(feeds)} feeds, {different} different; "
        f"{len(acknowledged)} texts acknowledged, {lost} lost"
    )
    return Crash(
        agent=KILLED,
        acknowledged=len(acknowledged),
        lost=lost,
        published_when_killed=published,
        frames_after=after,
        restart_s=restart_s,
        feeds=len(feeds),
        feeds_different=different,
        digests={name: look.digest for name, look in looks.items()},
        faults=sum(look.faults for look in looks.values()),
    )


def _publish_until_gone(team: Team, victim: Agent, acknowledged: dict[str, int]) -> None:
    """Learn, share and use the late texts, and use them again and again, until the node is gone."""
    late = team.plan.late
    for start in count(0, BATCH):
        texts = late[start % len(late) :][:BATCH]
        try:
            blocks = victim.learn(texts, SPACE)
            victim.outcome(blocks, 1.0, "")
        except Unavailable:
            return
        for block in blocks:
            acknowledged[block] = acknowledged.get(block, 0) + 1


def _data_number(witness: Agent, of: Agent) -> int:
    """The number of the last data frame of a peer that the witness holds."""
    held = positions(witness, frozenset({of.door.file.peer}))
    return max((number for (_, _, chain), (number, _) in held.items() if chain == "data"), default=0)


def _others_know(team: Team, victim: Agent, acknowledged: dict[str, int]) -> bool:
    """Whether the other honest nodes have all the evidence that the killed one had acknowledged."""
    for agent in team.agents:
        if agent is victim:
            continue
        for block, outcomes in reversed(acknowledged.items()):
            try:
                sources = agent.explain(block).sources
            except NodeError:
                return False  # it does not know the block yet
            if sum(one.alpha for one in sources if one.source == victim.door.file.peer) < outcomes:
                return False
    return True


async def _look_at_all(team: Team, keys: Keys, acknowledged: dict[str, int]) -> dict[str, LastLook]:
    hostile = keys.identity.public
    return {
        name: await look_last(
            team.nodes.home(name), team.nodes.environ, hostile, acknowledged if name == KILLED else {}
        )
        for name in HONEST
    }
