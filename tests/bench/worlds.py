"""Worlds whose blocks have a true utility, for the benches of Memory Worth: episodes, and who judges them.

A `Mind` is a memory that takes outcomes and says what it makes of them: `Folded` is the node's own makers of
events and its fold, without a disk; `Whole` is a node, asked through `Node` alone. The same outcomes give the
same numbers in both, to the last bit; the benches run one seed through both and say whether that held.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from loremesh.node import evidence
from loremesh.node.attribution import Episodes
from loremesh.node.clock import ActiveClock
from loremesh.node.companions import held_back
from loremesh.node.events import EPISODE_BYTES, FrameName
from loremesh.node.fold import apply, apply_home
from loremesh.node.judging import own_cells
from loremesh.node.node import Node
from loremesh.node.ownstate import OwnState
from loremesh.node.worth import Worths, base_of, worths
from loremesh.sync.rows import Contexts

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BLOCKS: Final = 100
K: Final = 5
FLIPPED: Final = 0.1
"""Share of outcomes that are reported the wrong way round."""

SHARED_MEMORY: Final = Path("/dev/shm")
"""Homes for thousands of durable outcomes go here where it is: what is measured is not the disk."""


class Mind(Protocol):
    """A memory of blocks numbered from 0 that takes outcomes."""

    async def outcome(self, blocks: Sequence[int], signal: float, context: str = "") -> None:
        """How it went with these blocks."""
        ...

    async def worth(self) -> Floats:
        """Worth of every block, [n]; 0.5 for one without outcomes."""
        ...

    async def corrected(self) -> Floats:
        """Worth less what was to be expected, [n]."""
        ...


class Folded:
    """The fold alone. `known`: base rates by context that are told, not estimated."""

    def __init__(self, blocks: int = BLOCKS, known: Mapping[str, float] = {}) -> None:
        self.state = OwnState(bytes(32), Contexts())
        self.clock = ActiveClock(0.0, 1_750_000_000_000)
        self.blocks = blocks
        self._known = known
        apply_home(self.state, evidence.incarnation(self.clock, bytes(16), "created"))

    async def outcome(self, blocks: Sequence[int], signal: float, context: str = "") -> None:
        """One event per block, folded."""
        for row, event in evidence.outcome_of_blocks(self.state, self.clock, blocks, signal, context=context):
            apply(self.state, row, event)

    async def worth(self) -> Floats:
        """From the columns."""
        seen = self.state.columns.views(max(self.blocks, self.state.columns.length))
        alpha = seen.self_a[: self.blocks].astype(np.float64)
        mass = alpha + seen.self_b[: self.blocks]
        worth: Floats = np.divide(alpha, mass, out=np.full(self.blocks, 0.5), where=mass > 0)
        return worth

    async def corrected(self) -> Floats:
        """By the node's arithmetic."""
        return self.filled(self.worths().corrected)

    def worths(self) -> Worths:
        """All that is said of the blocks with outcomes."""
        cells = own_cells(self.state)
        found = ((self.state.contexts.find(label), rate) for label, rate in self._known.items())
        known = {context: rate for context, rate in found if context is not None}
        return worths(cells, base_of(cells), known)

    def filled(self, values: Floats) -> Floats:
        """`values` of the blocks with outcomes, 0 for the others."""
        result = np.zeros(self.blocks)
        result[self.worths().row] = values
        return result

    def recall(
        self, wanted: Sequence[int], share: float, random: np.random.Generator
    ) -> tuple[bytes, list[int]]:
        """An episode of the first K wanted blocks, as `using.recall` makes one: `share` of diversity."""
        key = random.bytes(EPISODE_BYTES)
        apart = held_back(self.state.episodes.values(), wanted[:K], key, share)
        rows = [row for row in wanted if row != apart][:K]
        hits = evidence.recall_hits(self.clock, key, [(row, 1.0) for row in rows], FrameName.ATTENTION)
        for row, event in hits:
            apply(self.state, row, event)
        return key, rows

    def finish(self, episode: bytes, signal: float) -> None:
        """The episode's outcome."""
        for row, event in evidence.outcome_of_episode(self.state, self.clock, episode, signal):
            apply(self.state, row, event)


class Whole:
    """A node's memory of blocks that it has learned, `ids` in their order."""

    def __init__(self, node: Node, ids: Sequence[str]) -> None:
        self.node = node
        self.ids = list(ids)

    async def outcome(self, blocks: Sequence[int], signal: float, context: str = "") -> None:
        """By `Node.outcome`."""
        await self.node.outcome(signal, blocks=[self.ids[block] for block in blocks], context=context)

    async def worth(self) -> Floats:
        """By `Node.worth`."""
        found = {one.block: one.worth for one in await self.node.worth()}
        return np.array([found.get(block, 0.5) for block in self.ids])

    async def corrected(self) -> Floats:
        """By `Node.worth`."""
        found = {one.block: one.corrected for one in await self.node.worth()}
        return np.array([found.get(block, 0.0) for block in self.ids])


def rank_correlation(one: Floats, other: Floats) -> float:
    """Spearman's, ties sharing their mean rank."""
    return float(np.corrcoef(_ranks(one), _ranks(other))[0, 1])


def _ranks(values: Floats) -> Floats:
    _, at, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: Floats = (ends - (counts - 1) / 2.0)[at]
    return ranks


def some(random: np.random.Generator, count: int, among: int, k: int = K) -> Ints:
    """`count` draws of k distinct numbers below `among`, uniform, [count, k]."""
    return np.argpartition(random.random((count, among)), k, axis=1)[:, :k].astype(np.int64)


def as_episodes(blocks: Ints, signal: Floats) -> Episodes:
    """Judged episodes of k blocks each, without a context."""
    count, k = blocks.shape
    start = np.arange(0, count * k + 1, k, dtype=np.int64)
    return Episodes(signal, np.ones(count), np.zeros(count, np.int64), start, blocks.ravel())


def travelling(
    random: np.random.Generator, utility: Floats, episodes: int, independence: float
) -> tuple[Ints, Floats]:
    """Episodes in which blocks 0 and 1 come together, but for a share where only one of them does.

    The other places are filled with random blocks; the outcome is good with the mean utility, and FLIPPED of
    the outcomes are wrong.
    """
    fillers = some(random, episodes, len(utility) - 2) + 2
    blocks = fillers.copy()
    blocks[:, 0] = random.integers(0, 2, episodes)
    both = random.random(episodes) >= independence
    blocks[both, 0], blocks[both, 1] = 0, 1
    good = random.random(episodes) < utility[blocks].mean(axis=1)
    return blocks, (good ^ (random.random(episodes) < FLIPPED)).astype(np.float64)
