"""What links are worth today, and what they carry: the spreading term of recall (DESIGN §3, "Score").

A link was made with a weight, and nothing changes that but another statement. How strong it is today also
depends on what its ends have been through: its weight times the strengths of both, 1 at most, where the
strength of a block with first-hand outcomes α, β is √(2(α+1)/(α+β+2)). The root's inside is twice the chance
that the block works next time by Laplace's rule of succession: 1 without outcomes, towards 2 with good ones,
towards 0 with bad ones. So outcomes at either end strengthen or weaken a link, at most to twice its weight;
taking outcomes back (forgetting, another rule) takes their effect back exactly; and no event of one block
changes what is stored of another.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from loremesh.node.columns import OwnViews
from loremesh.node.links import Links
from loremesh.node.ownstate import OwnState
from loremesh.node.score import Links as Spread
from loremesh.sync.fixed import ONE

Floats = NDArray[np.float32]

HEAVY: Final = 0.5
"""Above this base weight a link could pass 1 with the best of outcomes at both ends."""


def strengths(own: OwnViews, length: int) -> Floats:
    """How much outcomes make of the links of each row, float32[length], in (0, √2): the formula above."""
    alpha = own.self_a[:length].astype(np.float32)
    mass = own.self_b[:length].astype(np.float32)
    mass += alpha
    mass += np.float32(2 * ONE)
    alpha += np.float32(ONE)
    alpha *= np.float32(2.0)
    alpha /= mass
    return np.sqrt(alpha, out=alpha)


class Graph:
    """All links as recall spreads over them, made anew when they have changed."""

    def __init__(self) -> None:
        self._of: Links | None = None
        self._changes = -1
        self._spread: Spread | None = None

    def spread(self, own: OwnState, length: int) -> Spread:
        """The links with today's strengths, over rows 0 … length-1."""
        links = own.links
        if self._spread is None or self._of is not links or self._changes != links.changes:
            edges = links.edges()
            weight = edges.weight_fx.astype(np.float32)
            weight /= np.float32(ONE)
            begins = np.flatnonzero(np.diff(edges.row, prepend=-1))
            heavy = np.flatnonzero(weight > HEAVY)
            self._spread = Spread(
                edges.row[begins], begins, edges.other, weight, heavy, edges.row[heavy], weight[:0]
            )
            self._of, self._changes = links, links.changes
        return structs.replace(
            self._spread, strength=strengths(own.columns.views(max(length, own.columns.length)), length)
        )
