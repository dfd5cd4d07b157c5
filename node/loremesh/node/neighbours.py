"""The neighbours of one block, for people: with what each link is worth today, and what it was made with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from loremesh.node.graph import strengths
from loremesh.node.links import Edge
from loremesh.node.memory import Memory
from loremesh.node.results import Neighbour
from loremesh.sync.fixed import ONE

MAX_NEIGHBOURS: Final = 16
"""Neighbours that `explain` tells of, the strongest: a screenful. Similarity gives a block 32 at most."""

BEGINNING: Final = 160
"""Characters of a neighbour's text: what fits two lines of a terminal."""


def neighbours(memory: Memory, row: int) -> list[tuple[Edge, float]]:
    """The links of `row` to blocks that can be recalled, with what each is worth today, strongest first."""
    edges = memory.own.links.of(row)
    own = memory.own.columns.views(max(memory.length, memory.own.columns.length))
    readable = memory.readable()
    strength = strengths(own, np.array([row, *(edge.other for edge in edges)], np.int64)).tolist()
    found = [
        (edge, min(edge.weight_fx / ONE * strength[0] * other, 1.0))
        for edge, other in zip(edges, strength[1:], strict=True)
        if readable[edge.other]
    ]
    return sorted(found, key=lambda one: (-one[1], memory.sync.index.id(one[0].other)))[:MAX_NEIGHBOURS]


def told(
    memory: Memory, row: int, found: Sequence[tuple[Edge, float]], texts: Mapping[int, str]
) -> list[Neighbour]:
    """The neighbours of `row` as people see them; `texts` by row."""
    vector = None if memory.matrix is None else memory.matrix.vector(row)
    neighbours_ = []
    for edge, weight in found:
        other = None if memory.matrix is None else memory.matrix.vector(edge.other)
        neighbours_.append(
            Neighbour(
                block=memory.block_hex(edge.other),
                weight=weight,
                base=edge.weight_fx / ONE,
                kind="by hand" if edge.by_hand else "similar",
                similarity=None if vector is None or other is None else float(vector @ other),
                text=texts.get(edge.other, "")[:BEGINNING],
            )
        )
    return neighbours_
