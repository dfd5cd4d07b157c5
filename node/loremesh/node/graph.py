"""What links are worth today, and what the best blocks lend to those they are linked to (DESIGN §3, "Score").

**Today's weight.** A link was made with a weight, and nothing changes that but another statement. How strong
it is today also depends on what its ends have been through: its weight times the strengths of both, at most
1, where the strength of a block with first-hand outcomes α, β is √(2(α+1)/(α+β+2)). The root's inside is
twice the chance that the block works next time by Laplace's rule of succession: 1 without outcomes, towards 2
with good ones, towards 0 with bad ones. So outcomes at either end strengthen or weaken a link, at most to
twice its weight; taking outcomes back (forgetting, another rule) takes their effect back exactly; and no
event of one block changes what is stored of another.

**What is lent.** Spreading activation (Collins & Loftus 1975; Anderson 1983) from the SOURCES best blocks:
each lends its neighbours the lead that its score has over the next best after them, times today's weight of
the link; of several lenders the best counts. The lead and not the score, because a score has parts that have
nothing to do with the query: lent whole, they lift whatever has links over whatever has none
(tests/bench/QUALITY.md has both).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from loremesh.node.columns import OwnViews
from loremesh.node.ownstate import OwnState
from loremesh.sync.fixed import ONE

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]

SOURCES: Final = 8
"""Blocks that lend: about as many as are handed out. With more of them, some that have little to do with the
query lend as well: on the LoCoMo conversations each doubling costs 0.002 to 0.004 of MRR."""


def strengths(own: OwnViews, rows: Rows) -> Floats:
    """How much outcomes make of the links of each of `rows`, float32[m], in (0, √2): the formula above."""
    alpha = own.self_a[rows] + ONE
    mass = own.self_a[rows] + own.self_b[rows] + 2 * ONE
    found: Floats = np.sqrt(2.0 * alpha / mass).astype(np.float32)
    return found


def lent(own: OwnState, scores: Floats, eligible: NDArray[np.bool_]) -> Floats:
    """What the best eligible rows lend to each row, float32[n] in [0, 1], 0 where none of them is linked to.

    `scores` (float32[n], in [0, 1]) are those before links. Costs what the links of SOURCES rows cost,
    however many there are.
    """
    found = np.zeros(len(scores), np.float32)
    rows = np.flatnonzero(eligible)
    among = scores[rows]
    if not len(rows):
        return found
    place = max(len(among) - SOURCES - 1, 0)
    floor = np.partition(among, place)[place]
    sources = rows[among > floor]
    whose, other, weight_fx = own.links.among(sources)
    kept = eligible[other]
    whose, other, weight_fx = whose[kept], other[kept], weight_fx[kept]
    views = own.columns.views(max(len(scores), own.columns.length))
    weight = weight_fx / np.float32(ONE)
    weight *= strengths(views, sources)[whose] * strengths(views, other)
    np.maximum.at(found, other, np.minimum(weight, np.float32(1.0)) * (scores[sources] - floor)[whose])
    return found
