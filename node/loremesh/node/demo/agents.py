"""An agent: it asks its memory, tries what it is told, and says how that went. Through its node's door."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from loremesh.node import params as p
from loremesh.node import verbs
from loremesh.node.client import Door
from loremesh.node.demo.corpus import Fact
from loremesh.node.demo.tasks import Checker, Task
from loremesh.node.results import Explanation, PeerSeen, Recalled, Status

HITS: Final = 5
TRIES: Final = 3
"""Hits an agent tries at work before it gives the task up."""
BATCH: Final = 512


class Answer(msgspec.Struct, frozen=True):
    """One examination question as it was answered: whether the first hit was right, and what recall gave."""

    right: bool
    within: bool
    """Whether one of the first TRIES hits was."""
    known: bool
    """Whether any block that answers it was at hand."""
    task: Task
    recalled: Recalled


class Agent:
    """One agent and its node. `name` is its home's; it calls only what `checker` has."""

    def __init__(self, name: str, door: Door, checker: Checker) -> None:
        self.name = name
        self.door = door
        self._checker = checker

    def learn(self, facts: Sequence[Fact], space: str | None = None) -> list[str]:
        """Hold these texts, shared into `space` where one is given; their block ids."""
        ids = []
        share = [space] if space else []
        for start in range(0, len(facts), BATCH):
            texts = [fact.text for fact in facts[start : start + BATCH]]
            learned = self.door.call(verbs.LEARN_MANY, p.LearnMany(texts, share=share))
            ids += [one.block for one in learned]
        return ids

    def consolidate(self) -> int:
        """Embed and rate what waits; how many blocks still wait."""
        return self.door.call(verbs.CONSOLIDATE, p.Consolidate()).waiting

    def recall(self, task: Task) -> Recalled:
        """What the memory says to a task."""
        return self.door.call(verbs.RECALL, p.Recall(task.question, "task", task.context, HITS))

    def work(self, task: Task) -> bool:
        """Do a task: try hits in order until one works, and tell how each did. Whether the first worked."""
        hits = self.recall(task).hits
        for place, hit in enumerate(hits[:TRIES]):
            right = self._checker.solves(hit.text, task)
            self.outcome([hit.block], 1.0 if right else 0.0, task.context)
            if right:
                return place == 0
        return False

    def outcome(self, blocks: Sequence[str], signal: float, context: str) -> None:
        """Say how well blocks worked."""
        self.door.call(verbs.OUTCOME, p.Outcome(signal, blocks=list(blocks), context=context))

    def examine(self, tasks: Sequence[Task], held: frozenset[str] | None = None) -> list[Answer]:
        """Answer with the first hit, and learn nothing from it. `held`: names at hand, None for all."""
        answers = []
        for task in tasks:
            recalled = self.recall(task)
            right = [self._checker.solves(hit.text, task) for hit in recalled.hits[:TRIES]]
            known = held is None or not held.isdisjoint(task.solvers)
            answers.append(Answer(right[:1] == [True], any(right), known, task, recalled))
        return answers

    def explain(self, block: str) -> Explanation:
        """A block's numbers by source."""
        return self.door.call(verbs.EXPLAIN, p.Explain(block))

    def status(self) -> Status:
        """The node at a glance."""
        return self.door.call(verbs.STATUS, p.Nothing())

    def peers(self) -> Mapping[str, PeerSeen]:
        """The peers it sees, by their own names."""
        return {peer.name: peer for peer in self.door.call(verbs.PEERS, p.Page())}

    def revoke(self, peer: str, why: str) -> None:
        """Let a peer count for nothing from now on."""
        self.door.call(verbs.TRUST_REVOKE, p.TrustRevoke(peer, why))
