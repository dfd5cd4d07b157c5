"""Attribution: of the blocks in an episode, which made it go well (beyond association, issue "Memory Worth").

Worth credits a block with every outcome it was present at. Here the outcome is regressed on which blocks
were present and on the context, over all judged episodes at once: y = base of the context + Σ effects of
the blocks present + noise. Contexts are fixed effects (both sides are centred within each). Effects are
drawn to zero by ridge regression with λ = σ²/τ²: the posterior of a normal prior of standard deviation τ.
They are told against a usual block in the same place, for an episode has places to fill.
So a block that only ever came with a good one (hitchhiker), or only where tasks are easy (easy rider), is
told from one that helps (anchor), or that helps where tasks are hard (specialist).

It remains regression on what happened: blocks that were never apart cannot be told apart, and a cause that no
block and no context stands for stays hidden.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.node.worth import Z, interval

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MAX_BLOCKS: Final = 1_000
"""Blocks with effects of their own: those in the most episodes. The decomposition takes a second then, and
some 30 MB; what is left out counts as noise."""

MAX_CONTEXTS: Final = 1_000
"""Contexts with a base of their own, those with the most episodes; all others share one."""

MIN_EPISODES: Final = 8
"""A block in fewer episodes has no effect of its own, as it is uncertain by worth (`worth.MIN_MASS`)."""

SPREAD: Final = 0.25
"""τ: effects of up to 25 points are nothing unusual. It is wide on purpose and not estimated: the likeliest τ
of a short log is near zero, and every effect would be declared to be none for want of data."""

MAX_STEPS: Final = 20
"""Steps in which σ² settles; mostly it stands after four."""

SMALL: Final = 1e-9
"""Squares below this are none: outcomes that never vary."""

LEAST_EFFECT: Final = 0.03
"""An effect of less than three points is none, however clear: centring and shrinking leave as much."""

OWN_AT_MOST: Final = 0.5
"""Part of an association that may be the block's own where it is called one without cause."""

COIN: Final = 0.25
"""The variance of a coin, as one more squared residual: without it outcomes that happened to fit would be
without noise."""

MAX_PAIRS: Final = 4_000_000
"""Pairs of blocks in the same episode that are counted at a time (100 MB)."""


class Role(Enum):
    """What a block is to the outcomes of the episodes it is in.

    ANCHOR: it helps. SPECIALIST: it helps, though episodes with it go worse than others. BURDEN: it harms.
    HITCHHIKER: episodes with it go better, by what it comes with. EASY_RIDER: they go better, by where it is
    used. BYSTANDER: they go worse, and it is not the cause. UNCLEAR: none of this can be said.
    """

    ANCHOR = "anchor"
    SPECIALIST = "specialist"
    BURDEN = "burden"
    HITCHHIKER = "hitchhiker"
    EASY_RIDER = "easy rider"
    BYSTANDER = "bystander"
    UNCLEAR = "unclear"


class Source(Enum):
    """What explains an association that the block does not cause."""

    NOTHING = ""
    CONTEXT = "context"
    COMPANY = "company"


class Episodes(msgspec.Struct, frozen=True, eq=False):
    """Judged episodes: signal, weight and context (any numbers), [e] each; the blocks of episode i are
    rows[start[i]:start[i + 1]], distinct.
    """

    signal: Floats
    weight: Floats
    context: Ints
    start: Ints
    rows: Ints


class Range(msgspec.Struct, frozen=True, eq=False):
    """An estimate with the ends of its 90 % interval, [n] each."""

    value: Floats
    low: Floats
    high: Floats


class Attribution(msgspec.Struct, frozen=True, eq=False):
    """By block, [n] each, rows ascending. All three are differences in success, from -1 to 1.

    `association`: episodes with the block against those without. `in_context`: the same within contexts.
    `effect`: with context and company held equal, against a usual block in its place. `noise`: σ.
    `left_out`: blocks without an effect of their own.
    """

    row: Ints
    episodes: Ints
    association: Range
    in_context: Range
    effect: Range
    noise: float
    left_out: int

    def role(self, at: int) -> tuple[Role, Source]:
        """What the block at this place is, and what explains its association where that is not the block.

        A block helps or harms where its effect's interval is off zero and the effect is worth naming. An
        association is without cause only where it is clear, and where by the effect's interval at most half
        of it is the block's own: too little to tell is UNCLEAR.
        """
        together, low, high = self.association.value[at], self.effect.low[at], self.effect.high[at]
        named = abs(self.effect.value[at]) >= LEAST_EFFECT
        if named and low > 0.0:
            return (Role.ANCHOR if together >= 0.0 else Role.SPECIALIST), Source.NOTHING
        if named and high < 0.0:
            return Role.BURDEN, Source.NOTHING
        good = together > 0.0
        own = high / together if good else low / together if together < 0.0 else 1.0
        if own > OWN_AT_MOST or self.association.low[at] <= 0.0 <= self.association.high[at]:
            return Role.UNCLEAR, Source.NOTHING
        stays = self.in_context.low[at] > 0.0 if good else self.in_context.high[at] < 0.0
        source = Source.COMPANY if stays else Source.CONTEXT
        if not good:
            return Role.BYSTANDER, source
        return (Role.HITCHHIKER if stays else Role.EASY_RIDER), source


def attribute(episodes: Episodes, most: int = MAX_BLOCKS) -> Attribution:
    """Association and effect of the `most` blocks that are in the most episodes."""
    counts = np.bincount(episodes.rows) if len(episodes.rows) else np.zeros(0, np.int64)
    seen = np.flatnonzero(counts)
    often = seen[np.argsort(-counts[seen], kind="stable")]
    kept = np.sort(often[counts[often] >= MIN_EPISODES][:most]).astype(np.int64)
    sums = _sums(episodes, kept)
    association = _association(sums)
    in_context, effect, noise = _effects(sums)
    return Attribution(
        row=kept,
        episodes=counts[kept].astype(np.int64),
        association=association,
        in_context=in_context,
        effect=effect,
        noise=noise,
        left_out=len(seen) - len(kept),
    )


class _Sums(msgspec.Struct, frozen=True, eq=False):
    """Weighted sums over episodes for b blocks and c contexts; weights have the mean 1.

    `together` [b, b]: of pairs present, `present` [c, b], `success` [b]: of the signal where present,
    `mass` and `signal` [c], `squares`: of the squared signal.
    """

    together: Floats
    present: Floats
    success: Floats
    mass: Floats
    signal: Floats
    squares: float


def _sums(episodes: Episodes, kept: Ints) -> _Sums:
    weight = episodes.weight / episodes.weight.mean() if len(episodes.weight) else episodes.weight
    lengths = np.diff(episodes.start)
    of = np.repeat(np.arange(len(lengths)), lengths)
    place = np.searchsorted(kept, episodes.rows)
    place[place == len(kept)] = 0
    known = kept[place] == episodes.rows if len(kept) else np.zeros(len(of), np.bool_)
    of, place = of[known], place[known]
    context = _contexts(episodes.context)
    contexts, blocks = int(context.max(initial=0)) + 1, len(kept)
    present = np.bincount(context[of] * blocks + place, weight[of], contexts * blocks)
    return _Sums(
        together=_together(of, place, weight, blocks),
        present=present.reshape(contexts, blocks).astype(np.float64),
        success=np.bincount(place, (weight * episodes.signal)[of], blocks).astype(np.float64),
        mass=np.bincount(context, weight, contexts).astype(np.float64),
        signal=np.bincount(context, weight * episodes.signal, contexts).astype(np.float64),
        squares=float((weight * episodes.signal**2).sum()),
    )


def _contexts(context: Ints) -> Ints:
    """Contexts numbered from 0, those with the most episodes first; the rest has one number together."""
    _, at, counts = np.unique(context, return_inverse=True, return_counts=True)
    place = np.empty(len(counts), np.int64)
    place[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    return np.minimum(place, MAX_CONTEXTS)[at]


def _together(of: Ints, place: Ints, weight: Floats, blocks: int) -> Floats:
    """Weights of the episodes that two blocks are both in, [b, b]. `of` is ascending."""
    total = np.zeros(blocks * blocks)
    counts = np.bincount(of, minlength=len(weight))
    starts = np.concatenate([[0], np.cumsum(counts)])
    pairs = np.concatenate([[0], np.cumsum(counts * counts)])
    first = 0
    while first < len(weight):
        last = max(int(np.searchsorted(pairs, pairs[first] + MAX_PAIRS, "right")) - 1, first + 1)
        size = counts[first:last]
        left = np.repeat(np.arange(starts[first], starts[last]), np.repeat(size, size))
        within = np.arange(len(left)) - np.repeat(pairs[first:last] - pairs[first], size * size)
        right = np.repeat(starts[first:last], size * size) + within % np.repeat(size, size * size)
        total += np.bincount(place[left] * blocks + place[right], weight[of[left]], blocks * blocks)
        first = last
    return total.reshape(blocks, blocks)


def _association(sums: _Sums) -> Range:
    """Mean signal with the block less the mean without, the interval by Newcombe's method 10 (1998)."""
    with_ = np.diag(sums.together)
    without = sums.mass.sum() - with_
    good, rest = sums.success, sums.signal.sum() - sums.success
    low, high = interval(good, np.maximum(with_ - good, 0.0))
    rest_low, rest_high = interval(np.maximum(rest, 0.0), np.maximum(without - rest, 0.0))
    mean = np.divide(good, with_, out=np.full_like(good, 0.5), where=with_ > 0)
    rest_mean = np.divide(rest, without, out=mean.copy(), where=without > 0)
    value = mean - rest_mean
    return Range(
        value,
        value - np.hypot(mean - low, rest_high - rest_mean),
        value + np.hypot(high - mean, rest_mean - rest_low),
    )


def _effects(sums: _Sums) -> tuple[Range, Range, float]:
    """Within contexts: each block by itself, all of them together, and σ."""
    mass = np.maximum(sums.mass, SMALL)
    share = sums.present / mass[:, None]
    gram = sums.together - sums.present.T @ share
    cross = sums.success - share.T @ sums.signal
    squares = max(sums.squares - float((sums.signal**2 / mass).sum()), SMALL)
    freedom = max(float(sums.mass.sum()) - len(sums.mass), 1.0)
    alone = _alone(np.diag(gram), cross, squares, freedom)
    if not len(cross):
        return alone, alone, 0.0
    values, vectors = np.linalg.eigh(gram)
    values = np.maximum(values, 0.0)
    turned = vectors.T @ cross
    noise = (squares + COIN) / (freedom + 1.0)
    for _ in range(MAX_STEPS):
        kept = values + noise / SPREAD**2
        effect = turned / kept
        left = squares - 2.0 * float(effect @ turned) + float(values @ effect**2)
        before = noise
        noise = (max(left, 0.0) + COIN) / max(freedom + 1.0 - float((values / kept).sum()), 1.0)
        if abs(noise - before) < 1e-9:
            break
    kept = values + noise / SPREAD**2
    value = vectors @ (turned / kept)
    # Against a usual block: how much blocks help at all is not told where all places are always filled.
    usual = _usual(value, np.maximum(np.diag(gram), 0.0))
    against = vectors - usual @ vectors
    value -= usual @ value
    width = Z * np.sqrt(noise * (against**2 @ (1.0 / kept)))
    return alone, Range(value, value - width, value + width), float(np.sqrt(noise))


def _usual(value: Floats, varied: Floats) -> Floats:
    """What to tell effects against, as weights of the blocks: the middle half by effect, each block with how
    much its presence `varied` within contexts. A mean of all would make one very good block show every other
    as bad.
    """
    order = np.argsort(value, kind="stable")
    ends = np.cumsum(varied[order]) / max(float(varied.sum()), SMALL)
    weights = np.empty_like(value)
    weights[order] = 2.0 * np.diff(np.clip(ends, 0.25, 0.75), prepend=0.25)
    return weights


def _alone(own: Floats, cross: Floats, squares: float, freedom: float) -> Range:
    """Each block's difference within contexts, whatever it came with; one never apart from its context has
    none, and an interval of everything.
    """
    told = own > 1e-9
    value = np.divide(cross, own, out=np.zeros_like(own), where=told)
    left = np.maximum(squares - value * cross, SMALL) / max(freedom - 1.0, 1.0)
    width = np.full_like(own, np.inf)
    width[told] = Z * np.sqrt(left[told] / own[told])
    return Range(value, np.maximum(value - width, -1.0), np.minimum(value + width, 1.0))
