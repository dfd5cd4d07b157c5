"""Three real node processes over a real nats-server converge while one of them is killed again and again."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from loremesh.node import params as p
from loremesh.node import verbs
from loremesh.node.client import DoorClosed, NodeGone
from loremesh.node.results import Status
from loremesh.sync.content import block_id
from tests.node.homes import fact
from tests.sync.nats_server import NatsServer
from tests.system.nodes import NodeProcess, wait

KILLS = 10
BETWEEN_KILLS = 8
"""Verbs that the victim acknowledges between two kills: it dies in the middle of work, not in silence."""
PAUSE_S = 0.02


class Agent(threading.Thread):
    """Learns, shares and judges through one node's door until told to stop, and notes what was acknowledged.

    `acknowledged` counts good outcomes by block; `doubtful` those that were on their way when the node died.
    """

    def __init__(self, node: NodeProcess) -> None:
        super().__init__(name=node.name)
        self.node = node
        self.learned: set[str] = set()
        self.acknowledged: Counter[str] = Counter()
        self.doubtful: Counter[str] = Counter()
        self.done = 0
        self.failure: BaseException | None = None
        self._enough = threading.Event()

    def finish(self) -> None:
        self._enough.set()
        self.join()
        if self.failure is not None:
            raise self.failure

    def run(self) -> None:
        turn = 0
        try:
            while not self._enough.is_set():
                turn += 1
                self._turn(turn)
        except BaseException as failure:
            self.failure = failure

    def _turn(self, turn: int) -> None:
        text = f"{self.node.name}: {fact(turn % 10)}"
        block = block_id(text).hex()
        try:
            self.node.ask(verbs.LEARN, p.Learn(text, share=["team"]))
            self.learned.add(block)
            self.done += 1
            self.node.ask(verbs.OUTCOME, p.Outcome(1.0, blocks=[block]))
        except DoorClosed:
            self._enough.wait(0.02)  # nothing was asked
        except NodeGone:
            self.doubtful[block] += 1
        else:
            self.acknowledged[block] += 1
            self.done += 1
            self._enough.wait(PAUSE_S)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    server = NatsServer(tmp_path / "nats")
    server.start()
    yield server
    server.kill()


def until_done(agent: Agent, verbs_done: int) -> None:
    wait(lambda: agent.done >= verbs_done or not agent.is_alive(), f"{agent.name} has done {verbs_done}")


def told(status: Status) -> tuple[object, ...]:
    """What must be equal everywhere: feed positions, chain hashes, the registers' digest."""
    feeds = sorted((feed.peer, feed.incarnation, feed.chain, feed.number, feed.hash) for feed in status.feeds)
    return feeds, status.registers, status.registers_digest


@pytest.mark.slow
def test_three_nodes_converge_while_one_is_killed_ten_times(tmp_path: Path, server: NatsServer) -> None:
    names = ("ann", "ben", "cat")
    with ThreadPoolExecutor() as pool:
        nodes = list(pool.map(lambda name: NodeProcess(tmp_path, name), names))
        ann, ben, victim = nodes
        try:
            ann.up("--nats", server.url)
            tokens = [ann.ask(verbs.SPACE_CREATE, p.SpaceCreate("team")).token]
            tokens.append(ann.ask(verbs.SPACE_INVITE, p.SpaceInvite("team")).token)
            list(pool.map(lambda node: node.up("--nats", server.url), (ben, victim)))
            for node, token in zip((ben, victim), tokens, strict=True):
                node.ask(verbs.SPACE_JOIN, p.SpaceJoin(token))
            agents = [Agent(node) for node in nodes]
            for agent in agents:
                agent.start()
            work = agents[2]
            for turn in range(1, KILLS + 1):
                until_done(work, turn * BETWEEN_KILLS)
                victim.kill()
                victim.up()
            for agent in agents:
                agent.finish()
            wait(lambda: len({str(told(node.status())) for node in nodes}) == 1, "all hold the same")
            for node in nodes:
                replayed = node.check()
                assert replayed.ok, replayed.faults
            assert_nothing_lost(work, nodes)
        finally:
            for node in nodes:
                node.stop()


def assert_nothing_lost(work: Agent, nodes: list[NodeProcess]) -> None:
    """Every node holds all that the victim acknowledged, and no more than it may have done."""
    victim = nodes[2]
    peer = victim.status().peer
    assert sum(work.acknowledged.values()) > KILLS * BETWEEN_KILLS // 4
    for block in sorted(work.learned):
        least = work.acknowledged[block]
        most = least + work.doubtful[block]
        for node in nodes:
            sources = {one.source: one for one in node.ask(verbs.EXPLAIN, p.Explain(block)).sources}
            claim = sources.get("self" if node is victim else peer)
            assert least <= (claim.alpha if claim else 0.0) <= most, (node.name, block)
