"""The team of the demonstration: three honest agents and a hostile one, each with its own node process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from loremesh.node import params as p
from loremesh.node import verbs
from loremesh.node.demo import hostile
from loremesh.node.demo.agents import Agent, Answer
from loremesh.node.demo.figures import held_names, score, stretches
from loremesh.node.demo.plan import HONEST, HOSTILE, SPACE, Plan
from loremesh.node.demo.processes import Nodes, together, wait_until
from loremesh.node.demo.results import Phase, Stretch

SHARING: Final = "[sharing]\npublish_every_s = 0.1\nhead_every_s = 1.0\nconsolidate_every_s = 1.0\n"
HOSTILE_SETTINGS: Final = SHARING + '[embedder]\nname = "hashing:256"\n'
"""It need not understand what it spoils, and its thrift leaves the processor to the rest."""
ARRIVE_S: Final = 60.0

STILL_S: Final = 0.7
"""Several times what a node waits before it publishes."""

Say = Callable[[str], None]

Positions = dict[tuple[str, str, str], tuple[int, str]]
"""By peer, incarnation and chain: number and hash of the last frame held."""


class Team:
    """The nodes, their agents, and what they have done so far."""

    def __init__(self, plan: Plan, nodes: Nodes, say: Say) -> None:
        self.plan = plan
        self.nodes = nodes
        self.say = say
        self.agents: list[Agent] = []
        self.work_done: list[Stretch] = []
        self.bus = ""
        self._tasks_done = 0
        self._sharing = False

    def assemble(self) -> hostile.Keys:
        """Make the homes, start the nodes, found the space; the keys of the hostile one."""
        settings = [(name, SHARING) for name in HONEST] + [(HOSTILE, HOSTILE_SETTINGS)]
        together(lambda one: self.nodes.create(*one), settings)
        self.bus = self.nodes.start(HONEST[0], "--embedded").bus
        founder = self.nodes.door(HONEST[0])
        tokens = {HONEST[1]: founder.call(verbs.SPACE_CREATE, p.SpaceCreate(SPACE)).token}
        for name in (*HONEST[2:], HOSTILE):
            tokens[name] = founder.call(verbs.SPACE_INVITE, p.SpaceInvite(SPACE)).token
        together(lambda name: self.nodes.start(name, "--nats", self.bus), HONEST[1:])
        for name in HONEST[1:]:
            self.nodes.door(name).call(verbs.SPACE_JOIN, p.SpaceJoin(tokens[name]))
        self.meet()
        keys = asyncio.run(hostile.join(self.nodes.home(HOSTILE), tokens[HOSTILE], self.nodes.environ))
        self.nodes.start(HOSTILE)
        return keys

    def meet(self) -> None:
        """Find the agents' doors, which are others after every start."""
        self.agents = [Agent(name, self.nodes.door(name), self.plan.checker) for name in HONEST]

    def learn(self, space: str | None = None) -> None:
        """Every agent holds its own texts, shared into `space` where one is given."""
        by_name = dict(zip(HONEST, self.plan.hands, strict=True))
        together(lambda agent: agent.learn(by_name[agent.name], space), self.agents)
        self._sharing = self._sharing or space is not None

    def digest(self) -> None:
        """Every agent embeds what it has."""
        together(lambda agent: agent.consolidate(), self.agents)

    def wait_for_blocks(self, least: int) -> None:
        """Until every agent can read at least so many blocks."""
        wait_until(
            lambda: all(agent.status().blocks >= least for agent in self.agents), "blocks to come", ARRIVE_S
        )

    def wait_for_agreement(self) -> None:
        """Until all hold the same of one another and nothing more has come for a while."""
        state: Positions | None = None
        since_s = time.monotonic()

        def still() -> bool:
            nonlocal state, since_s
            now = self.common_positions()
            if now is None or now != state:
                state, since_s = now, time.monotonic()
            return state is not None and time.monotonic() - since_s > STILL_S

        wait_until(still, "the nodes to hold the same of one another", ARRIVE_S)

    def common_positions(self) -> Positions | None:
        """The positions of the honest nodes' feeds, None while the honest nodes hold different ones."""
        states = [positions(agent, self.honest_peers()) for agent in self.agents]
        return states[0] if all(state == states[0] for state in states) else None

    def honest_peers(self) -> frozenset[str]:
        """The honest nodes' peer ids."""
        return frozenset(agent.door.file.peer for agent in self.agents)

    def work(self, phase: str) -> None:
        """All do their tasks of a phase at the same time."""
        tasks = self.plan.work[phase]
        orders = dict(zip(HONEST, tasks, strict=True))
        firsts = together(lambda agent: [agent.work(task) for task in orders[agent.name]], self.agents)
        self.work_done += stretches(phase, self._tasks_done, firsts, self.plan.size.window)
        self._tasks_done += max(len(one) for one in tasks)

    def examine(
        self, key: str, title: str, made_up: frozenset[str] = frozenset()
    ) -> tuple[Phase, list[list[Answer]]]:
        """All answer the same questions, which nobody has worked on; the scores, and every answer."""
        held = {
            name: None if self._sharing else held_names([fact.text for fact in hand])
            for name, hand in zip(HONEST, self.plan.hands, strict=True)
        }
        tasks = self.plan.exercises.examination
        answers = together(lambda agent: agent.examine(tasks, held[agent.name]), self.agents)
        scores = [score(agent.name, mine, made_up) for agent, mine in zip(self.agents, answers, strict=True)]
        everybody = score("all", [answer for mine in answers for answer in mine], made_up)
        self.say(
            f"{title}: {everybody.right} of {everybody.asked} right ({everybody.share:.0%}); "
            + ", ".join(f"{one.agent} {one.share:.0%}" for one in scores)
        )
        return Phase(key, title, scores, everybody), answers


def positions(agent: Agent, peers: frozenset[str]) -> Positions:
    """Number and chain hash of every feed of these peers, as one agent holds them."""
    return {
        (feed.peer, feed.incarnation, feed.chain): (feed.number, feed.hash)
        for feed in agent.status().feeds
        if feed.peer in peers
    }
