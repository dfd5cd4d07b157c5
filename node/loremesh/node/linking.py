"""Linking: what was embedded is compared with everything held here, and its nearest become its neighbours.

Only blocks held here are linked, and only to such: a peer's texts steer nothing. For each block this is done
once, when it has its vector; one that comes later looks at all that were there before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.node import evidence
from loremesh.node.ground import Ground
from loremesh.node.matrix import VectorMatrix
from loremesh.node.memory import Memory
from loremesh.node.nearest import nearest
from loremesh.node.proposing import CANDIDATES, Proposing


class _Search(msgspec.Struct, frozen=True, eq=False):
    """What is to be compared, taken down while nothing else went on: the comparing goes on beside others."""

    matrix: VectorMatrix
    rows: NDArray[np.int64]
    vectors: NDArray[np.float32]
    pieces: list[NDArray[np.float32]]
    linkable: NDArray[np.bool_]


async def link(ground: Ground, rows: Sequence[int]) -> int:
    """Propose links for those of `rows` that wait for it; the number of links proposed.

    A power cut may take the last proposals with it; they are then made again.
    """
    count = ground.settings.graph.links

    async def begin() -> _Search | None:
        if not count:
            return None
        await ground.refresh()
        return _begin(ground.memory, rows)

    search = await ground.exclusive(begin)
    if search is None:
        return 0
    found = await asyncio.to_thread(
        nearest,
        search.vectors,
        search.rows,
        search.pieces,
        search.linkable,
        CANDIDATES * count,
        ground.settings.graph.threshold,
    )

    async def work() -> int:
        await ground.refresh()  # frames came in while it was compared
        memory = ground.memory
        if memory.matrix is not search.matrix:
            return 0  # other vectors are in use by now: they are compared when it is their turn
        linkable, unlinked = memory.linkable(), memory.unlinked()
        proposing = Proposing(memory.own.links, count)
        events = []
        proposed = 0
        for row, near in zip(search.rows.tolist(), found, strict=True):
            if not unlinked[row]:
                continue
            for proposal in proposing.propose(row, [(other, cos) for other, cos in near if linkable[other]]):
                event = evidence.linked(ground.stamp(), proposal.row, proposal.links, looked=proposal.looked)
                events.append((proposal.row, event))
                proposed += sum(1 for weight_fx in event.weights_fx if weight_fx)
        if events:
            await ground.record(events, durable=False)
        return proposed

    return await ground.exclusive(work)


def _begin(memory: Memory, rows: Sequence[int]) -> _Search | None:
    matrix = memory.matrix
    if matrix is None:
        return None
    waiting = memory.unlinked()
    here = np.array([row for row in rows if waiting[row]], np.int64)
    if not len(here):
        return None
    vectors = [matrix.vector(row) for row in here.tolist()]
    return _Search(
        matrix,
        here,
        np.array([vector for vector in vectors if vector is not None], np.float32),
        matrix.pieces(memory.length),
        memory.linkable(),
    )
