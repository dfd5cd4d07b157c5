"""The composite score of recall (DESIGN §3, "Score"): pure arithmetic over columns.

score = w_sim·sim + w_util·u + w_ret·R + w_imp·importance + κ·√v (+ w_graph·what the best neighbour lends),
every term in [0, 1]. Whole columns are computed in float32; the few rows at the top are then scored again in
float64, so that order and ties are those of the exact sum of the parts that are shown.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from loremesh.node.errors import UsageError

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]

DENSE_SHARE: Final = 0.6
"""Part of `sim` that the cosine gives; the lexical part gives the rest (DESIGN §3; chosen on
the LoCoMo conversations)."""

LABEL_LIFT: Final = 0.25
"""How much of what `sim` lacks to 1 a block gains when the query names its label: about what one more word in
common gives."""

BACKOFF_MASS: Final = 4.0
"""Mass (outcomes) by which a context's evidence is drawn to the block's total: after four outcomes in the
context these and the total count alike. Fewer would let one lucky outcome rule, more would hide what contexts
are for."""

FOREIGN_SHARE: Final = 0.5
"""Largest part of the k hits from blocks that only one and the same foreign principal knows (DESIGN §3)."""

SPREADING: Final = 0.25
"""Weight of what linked blocks lend where `simulate` asks what else would matter. A proposed link carries a
third of a lead, so a block next to the best hit gains up to a twelfth of what that one is ahead by: it comes
up before blocks that have as much to do with the query by themselves, and before no others. The most that
costs nothing on the LoCoMo conversations and on the notes on them (tests/bench/QUALITY.md)."""

_FX: Final = np.float32(2.0**-16)
_NUDGE: Final = np.float32(2.0**-60)
"""Makes 0/0 one half; far below the last bit of any mass that is not zero (these are at least 2⁻¹⁶)."""

_FLOAT32_SLACK: Final = np.float32(4e-6)
"""Twice the error of a float32 composite: six products and five sums of values up to 1, 2⁻²⁴ each, with
room."""


class RecallFrame(Struct, frozen=True):
    """The weights of one way of asking (DESIGN §3), which sum to 1 without `graph`.

    `own_only`: blocks known only from peers stay out. `min_max`: each term is scaled to [0, 1] over the
    eligible rows before it is weighed. `hourly_decay`: what recency fades by per active hour, in place of
    retrievability by the rules; None for these. `graph`: weight of what the best neighbour lends, which is
    added.
    """

    name: str
    sim: float
    utility: float
    retrievability: float
    importance: float
    explore: float
    own_only: bool = False
    min_max: bool = False
    hourly_decay: float | None = None
    graph: float = 0.0


FRAMES: Final[dict[str, RecallFrame]] = {
    frame.name: frame
    for frame in (
        RecallFrame("self", 0.30, 0.10, 0.15, 0.40, 0.05, own_only=True),
        RecallFrame("attention", 0.55, 0.15, 0.20, 0.05, 0.05),
        RecallFrame("task", 0.40, 0.30, 0.15, 0.10, 0.05),
        RecallFrame("simulate", 0.45, 0.15, 0.20, 0.15, 0.05, graph=SPREADING),
    )
}


def recall_frame(name: str) -> RecallFrame:
    """The frame of that name. Raises UsageError that lists the names."""
    try:
        return FRAMES[name]
    except KeyError:
        raise UsageError(f"frame {name!r} is unknown", f"use one of {', '.join(FRAMES)}") from None


def spreading(frame: RecallFrame, weight: float | None) -> RecallFrame:
    """The frame with this weight of what linked blocks lend; its own where none is given.

    Raises UsageError for a weight outside [0, 1].
    """
    if weight is None:
        return frame
    if not 0.0 <= weight <= 1.0:
        raise UsageError(f"graph is {weight!r}", "give a weight from 0 to 1; 0 leaves the links out")
    return replace(frame, graph=float(weight))


class ContextEvidence(Struct, frozen=True):
    """Effective evidence of one context: distinct `rows` with their α and β, fixed point (2⁻¹⁶), int64[m]."""

    rows: Rows
    alpha: NDArray[np.int64]
    beta: NDArray[np.int64]


class Terms(Struct, frozen=True):
    """The unweighted terms of every row, float32[n] each, in [0, 1]. `explore` is √v."""

    sim: Floats
    utility: Floats
    retrievability: Floats
    importance: Floats
    explore: Floats


class Parts(Struct, frozen=True):
    """The unweighted terms of one hit; `links` is what its best neighbour lends, 0 unless links were asked
    for.
    """

    sim: float
    utility: float
    retrievability: float
    importance: float
    explore: float
    links: float = 0.0


class Ranked(Struct, frozen=True):
    """One hit: local row, score and the terms it is the weighted sum of."""

    row: int
    score: float
    parts: Parts


def hybrid_sim(
    cosine: Floats,
    rows: Rows,
    bm25: Floats,
    eligible: NDArray[np.bool_] | None = None,
    dense: float = DENSE_SHARE,
) -> Floats:
    """`sim`, float32[n]: dense · cosine clipped to [0, 1] + (1 − dense) · BM25 over the query's best BM25.

    `cosine` is float32[n], 0 where a row has no vector; `rows` (distinct) and `bm25` are the lexical hits,
    every other row's lexical part is 0. The best BM25 is that of the `eligible` rows (bool[n]): what cannot
    be returned does not set the scale for what can.
    """
    sim = np.clip(cosine, 0.0, 1.0)
    sim *= np.float32(dense)
    if eligible is not None and len(rows):
        kept = eligible[rows]
        rows, bm25 = rows[kept], bm25[kept]
    best = bm25.max(initial=np.float32(0.0))
    if best > 0.0:
        sim[rows] += bm25 * (np.float32(1.0 - dense) / best)
    return sim


def lift_named(sim: Floats, rows: Rows, share: Floats, lift: float = LABEL_LIFT) -> Floats:
    """`sim` with the distinct `rows` lifted, in place: those whose label the query names.

    s becomes s + lift · share · (1 − s), `share` (float32[m], in [0, 1]) being the part of the label that the
    query has. Nothing leaves [0, 1], and no other row moves.
    """
    kept = sim[rows]
    sim[rows] = kept + np.float32(lift) * share * (np.float32(1.0) - kept)
    return sim


def utility_terms(
    alpha: NDArray[np.int64],
    beta: NDArray[np.int64],
    context: ContextEvidence | None = None,
    backoff: float = BACKOFF_MASS,
) -> tuple[Floats, Floats]:
    """Utility u = α/(α+β) and √v, v = αβ/((α+β)²(α+β+1)) = u(1−u)/(α+β+1), float32[n] each.

    α and β are fixed point (2⁻¹⁶); without any evidence u is 0.5. With a context given, its evidence a, b is
    used and backed off to the total: u_c = (a + m·u)/(a + b + m), and v is that of Beta(a + m·u, b +
    m·(1−u)), m = `backoff` > 0.
    """
    positive = alpha.astype(np.float32)
    positive *= _FX
    mass = (alpha + beta).astype(np.float32)
    mass *= _FX
    positive += _NUDGE
    utility = np.divide(positive, mass + np.float32(2.0) * _NUDGE, out=positive)
    if context is not None:
        if not backoff > 0.0:
            raise ValueError(f"backoff must be a mass above 0, not {backoff}")
        m = np.float32(backoff)
        mass.fill(m)
        a = context.alpha.astype(np.float32) * _FX
        mass[context.rows] += a + context.beta.astype(np.float32) * _FX
        utility[context.rows] = (a + m * utility[context.rows]) / mass[context.rows]
    mass += np.float32(1.0)
    explore = np.subtract(np.float32(1.0), utility)
    explore *= utility
    explore /= mass
    return utility, np.sqrt(explore, out=explore)


def composite(frame: RecallFrame, terms: Terms) -> Floats:
    """The weighted sum of the terms, float32[n], without links. Raises ValueError naming a term with NaN or
    ±∞.
    """
    total = terms.sim * np.float32(frame.sim)
    product = np.empty_like(total)
    for weight, term in (
        (frame.utility, terms.utility),
        (frame.retrievability, terms.retrievability),
        (frame.importance, terms.importance),
        (frame.explore, terms.explore),
    ):
        np.multiply(term, np.float32(weight), out=product)
        total += product
    if not np.isfinite(total).all():
        bad = [name for name in terms.__struct_fields__ if not np.isfinite(getattr(terms, name)).all()]
        raise ValueError(f"term {bad[0] if bad else 'sum'} is not finite in some row")
    return total


def links_term(
    frame: RecallFrame, terms: Terms, eligible: NDArray[np.bool_], lent: Callable[[Floats], Floats]
) -> Floats:
    """The links' term of every row, float32[n]: what `lent` says for the scores before links, 0 for rows that
    are not eligible.
    """
    scores = composite(frame, terms)
    scores[~eligible] = 0.0
    return lent(scores)


def rank(
    frame: RecallFrame,
    terms: Terms,
    k: int,
    *,
    eligible: NDArray[np.bool_],
    block_id: Callable[[int], bytes],
    sole_principal: NDArray[np.int32] | None = None,
    foreign_share: float = FOREIGN_SHARE,
    lent: Callable[[Floats], Floats] | None = None,
) -> list[Ranked]:
    """The k best eligible rows: higher score first, then lower block id. That order is total.

    `sole_principal` (int32[n]) names the one foreign principal that a row is known from, −1 for any other
    row; at most max(1, ⌊k · foreign_share⌋) hits are taken per such principal (one at least, or a node that
    knows only what one peer told it would find nothing with k = 1). The next best of others take the places.
    `lent` is asked, where the frame has a weight for it, what linked blocks lend to each row (float32[n]): it
    is given the scores before links, 0 for ineligible rows.
    """
    if k < 1:
        raise UsageError(f"k is {k}", "ask for at least one hit")
    scores = composite(frame, terms)
    scores[~eligible] = 0.0
    links = None if lent is None or not frame.graph else lent(scores)
    if links is not None:
        scores += np.float32(frame.graph) * links
    scores[~eligible] = -np.inf

    quota = max(1, int(k * foreign_share))
    taken: dict[int, int] = {}
    chosen: list[Ranked] = []
    while len(chosen) < k:
        # Twice as many as are missing: then a peer that fills its quota rarely costs a second round.
        wanted = (k - len(chosen)) * 2
        rows = _shortlist(scores, wanted)
        exact = exact_scores(frame, terms, rows, links)
        candidates = sorted(zip((-exact).tolist(), map(block_id, rows.tolist()), rows.tolist(), strict=True))
        for negative, _, row in candidates[:wanted]:
            scores[row] = -np.inf
            principal = -1 if sole_principal is None else int(sole_principal[row])
            if principal >= 0:
                if taken.get(principal, 0) == quota:
                    continue
                taken[principal] = taken.get(principal, 0) + 1
            chosen.append(Ranked(row, -negative, _parts(terms, links, row)))
            if len(chosen) == k:
                break
        if len(candidates) < wanted:
            break
        if sole_principal is not None:
            # A flood costs one pass per principal, however many rows it has.
            full = [principal for principal, count in taken.items() if count == quota]
            scores[np.isin(sole_principal, full)] = -np.inf
    return chosen


def _shortlist(scores: Floats, wanted: int) -> Rows:
    """Rows among which the `wanted` best by exact score are, with every tie; fewer when fewer are left."""
    floor = np.float32(-np.inf)
    if wanted < len(scores):
        place = len(scores) - wanted
        floor = np.partition(scores, place)[place] - _FLOAT32_SLACK
    # Comparing with −∞ takes in the rows that are out, hence the second condition.
    return np.flatnonzero((scores >= floor) & (scores > -np.inf))


def exact_scores(
    frame: RecallFrame, terms: Terms, rows: Rows, links: Floats | None = None
) -> NDArray[np.float64]:
    """The score of `rows` in float64, summed in the order in which the parts are shown."""
    total = np.zeros(len(rows), dtype=np.float64)
    for weight, term in (
        (frame.sim, terms.sim),
        (frame.utility, terms.utility),
        (frame.retrievability, terms.retrievability),
        (frame.importance, terms.importance),
        (frame.explore, terms.explore),
        (frame.graph, links),
    ):
        if term is not None:
            total += weight * term[rows].astype(np.float64)
    return total


def _parts(terms: Terms, links: Floats | None, row: int) -> Parts:
    return Parts(
        sim=float(terms.sim[row]),
        utility=float(terms.utility[row]),
        retrievability=float(terms.retrievability[row]),
        importance=float(terms.importance[row]),
        explore=float(terms.explore[row]),
        links=0.0 if links is None else float(links[row]),
    )
