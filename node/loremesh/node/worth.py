"""Memory Worth: what a block's own outcomes say of it, by context and in all (DESIGN §1, "worth").

Worth is α/(α+β) of first-hand outcomes: no prior, no rating, no peer. Beside it stand what makes it fair to
act on:

- an interval: the middle 90 % of Beta(α+½, β+½) (Jeffreys' prior), so that few outcomes say little;
- a recent window: the same counts, in which an outcome fades by 1 % with each later one of the block in the
  same context, so that a memory that went stale is seen within a hundred uses;
- the correction for difficulty: worth against what was to be expected where the block was used. The base rate
  of a context is what all other blocks' outcomes there come to, or what it is known to be; the expectation
  weighs the contexts by the block's own evidence, and `corrected` is the mean residual.

From these a block is high-value, uncertain, mixed or low-value, and deprecating or restoring it is proposed.
Pure arithmetic over columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.node.beta import quantile
from loremesh.sync.fixed import ONE
from loremesh.sync.rows import CONTEXT_BITS

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

CONTEXT_MASK: Final = (1 << CONTEXT_BITS) - 1

CREDIBLE: Final = 0.90
"""Mass of every interval here: each end is then a bound that holds with 95 %."""

MIN_MASS: Final = 8.0
"""Outcomes below which a block is uncertain, and below which others' outcomes are no base rate to compare
with: with eight, all of them failures, the interval ends at 0.21; with four it would end at 0.37."""

MIDDLE: Final = 0.5
"""Worth above which a block helps more often than not: what one without outcomes has."""

DEPRECATE_BELOW: Final = 0.40
"""The interval of a block that is to be deprecated ends below this; that of one to be restored begins above
MIDDLE. What lies between is left as it is, so that no block goes back and forth."""

BASE_PRIOR: Final = 2.0
"""Mass, half good, that a context's base rate starts with."""

RECENT_DECAY: Final = 0.99
"""Per outcome of a block in a context, in the recent window: half of it is the last 69. With it a memory that
fails from one day on is seen at 0.08 where the long counts still say 0.17 (`tests/bench/worth.py`)."""

Z: Final = 1.6448536269514722
"""The standard normal's 95 % quantile: half the width of an interval in standard deviations."""


class Kind(Enum):
    """What to make of a block.

    UNCERTAIN: fewer than MIN_MASS outcomes. LOW: it fails more often than not, and more often than others do
    where it is used. HIGH: it does better than others where it is used, or helps more often than not and no
    worse than others do. MIXED: enough outcomes and neither; look at its contexts one by one.
    """

    HIGH = "high-value"
    UNCERTAIN = "uncertain"
    MIXED = "mixed"
    LOW = "low-value"


class Trend(Enum):
    """How the recent window stands to all outcomes: apart only where the intervals are."""

    STEADY = "steady"
    FALLING = "falling"
    RISING = "rising"


class Cells(msgspec.Struct, frozen=True, eq=False):
    """First-hand evidence by block and context, [n] each: (row, context) distinct and ascending.

    α and β in outcomes (not fixed point); `recent_*` those of the recent window.
    """

    row: Ints
    context: Ints
    alpha: Floats
    beta: Floats
    recent_alpha: Floats
    recent_beta: Floats

    def only(self, chosen: Flags) -> Cells:
        """The chosen ones."""
        return Cells(*(column[chosen] for column in msgspec.structs.astuple(self)))


class Worths(msgspec.Struct, frozen=True, eq=False):
    """Worth and what belongs to it, [n] each, by ascending row.

    `expected` is what the contexts' base rates come to for the block, `corrected` worth less that, with the
    ends of its interval. `compared`: enough of the block's evidence is from where others were used too.
    """

    row: Ints
    alpha: Floats
    beta: Floats
    worth: Floats
    low: Floats
    high: Floats
    recent: Floats
    recent_low: Floats
    recent_high: Floats
    expected: Floats
    corrected: Floats
    corrected_low: Floats
    corrected_high: Floats
    compared: Flags

    def trend(self, at: int) -> Trend:
        """Whether the block at this place does otherwise of late."""
        if self.recent_high[at] < self.low[at]:
            return Trend.FALLING
        if self.recent_low[at] > self.high[at]:
            return Trend.RISING
        return Trend.STEADY

    def judged(self, at: int) -> tuple[float, float]:
        """The interval to judge it by: the recent one where that is apart from the long one."""
        if self.trend(at) is Trend.STEADY:
            return float(self.low[at]), float(self.high[at])
        return float(self.recent_low[at]), float(self.recent_high[at])

    def kind(self, at: int) -> Kind:
        """What to make of the block at this place."""
        if self.alpha[at] + self.beta[at] < MIN_MASS:
            return Kind.UNCERTAIN
        low, high = self.judged(at)
        if not self.compared[at]:
            above, below, no_worse = low > MIDDLE, high < MIDDLE, True
        else:
            moved = 0.0 if self.trend(at) is Trend.STEADY else float(self.recent[at] - self.worth[at])
            above = float(self.corrected_low[at]) + moved > 0.0
            below = float(self.corrected_high[at]) + moved < 0.0
            no_worse = not below
        if above or (low > MIDDLE and no_worse):
            return Kind.HIGH
        if below and high < MIDDLE:
            return Kind.LOW
        return Kind.MIXED


class Base(msgspec.Struct, frozen=True, eq=False):
    """What all outcomes of a context come to: `contexts` ascending, int64[c], α and β in outcomes."""

    contexts: Ints
    alpha: Floats
    beta: Floats


def cells(
    keys: Ints, alpha_fx: Ints, beta_fx: Ints, recent_keys: Ints, recent_a_fx: Floats, recent_b_fx: Floats
) -> Cells:
    """Evidence by block and context out of two tables, fixed point: own registers (one row per incarnation)
    and the recent window. Keys are row << CONTEXT_BITS | context.
    """
    distinct, at = np.unique(np.concatenate([keys, recent_keys]), return_inverse=True)
    sums = np.zeros((4, len(distinct)))
    for column, where, values in (
        (0, at[: len(keys)], alpha_fx),
        (1, at[: len(keys)], beta_fx),
        (2, at[len(keys) :], recent_a_fx),
        (3, at[len(keys) :], recent_b_fx),
    ):
        np.add.at(sums[column], where, values / ONE)
    return Cells(distinct >> CONTEXT_BITS, distinct & CONTEXT_MASK, *sums)


def base_of(cells: Cells) -> Base:
    """Everybody's evidence by context."""
    contexts, at = np.unique(cells.context, return_inverse=True)
    return Base(
        contexts,
        np.bincount(at, cells.alpha, len(contexts)).astype(np.float64),
        np.bincount(at, cells.beta, len(contexts)).astype(np.float64),
    )


def worths(cells: Cells, base: Base, known: Mapping[int, float]) -> Worths:
    """Worth by block over these cells, held against `base` (which may be of more cells than these).

    `known`: base rates in [0, 1] by context that are not to be estimated. A block's own evidence is left out
    of the base rate that it is held against.
    """
    rows, at = np.unique(cells.row, return_inverse=True)

    def summed(values: Floats) -> Floats:
        return np.bincount(at, values, len(rows)).astype(np.float64)

    mass = cells.alpha + cells.beta
    alpha, beta, total = summed(cells.alpha), summed(cells.beta), summed(mass)
    rate, spread, others = _rates(cells, base, known)
    expected = summed(mass * rate) / total
    error = np.sqrt(summed((mass * spread) ** 2)) / total
    worth = alpha / total
    low, high = interval(alpha, beta)
    recent_a, recent_b = summed(cells.recent_alpha), summed(cells.recent_beta)
    recent_low, recent_high = interval(recent_a, recent_b)
    return Worths(
        row=rows,
        alpha=alpha,
        beta=beta,
        worth=worth,
        low=low,
        high=high,
        recent=recent_a / (recent_a + recent_b),
        recent_low=recent_low,
        recent_high=recent_high,
        expected=expected,
        corrected=worth - expected,
        corrected_low=worth - expected - np.hypot(worth - low, Z * error),
        corrected_high=worth - expected + np.hypot(high - worth, Z * error),
        compared=summed(np.where(others >= MIN_MASS, mass, 0.0)) >= 0.5 * total,
    )


def interval(alpha: Floats, beta: Floats) -> tuple[Floats, Floats]:
    """The middle 90 % of Beta(α+½, β+½), both ends; equal counts are looked up once."""
    pairs, at = np.unique(np.stack([alpha, beta]), axis=1, return_inverse=True)
    at = at.ravel()
    tail = 0.5 * (1.0 - CREDIBLE)
    return (
        quantile(tail, pairs[0] + 0.5, pairs[1] + 0.5)[at],
        quantile(1.0 - tail, pairs[0] + 0.5, pairs[1] + 0.5)[at],
    )


def _rates(cells: Cells, base: Base, known: Mapping[int, float]) -> tuple[Floats, Floats, Floats]:
    """Per cell: what others come to in its context, the standard deviation of that, and others' mass.

    The corrected interval joins both errors as Newcombe does for a difference of proportions (Statistics in
    Medicine 17, 1998, method 10): each side the root of the summed squares of the distances.
    """
    where = np.searchsorted(base.contexts, cells.context)
    alpha = np.maximum(base.alpha[where] - cells.alpha, 0.0)
    mass = alpha + np.maximum(base.beta[where] - cells.beta, 0.0)
    rate = (alpha + 0.5 * BASE_PRIOR) / (mass + BASE_PRIOR)
    spread = np.sqrt(rate * (1.0 - rate) / (mass + BASE_PRIOR + 1.0))
    for context, value in known.items():
        here = cells.context == context
        rate[here], spread[here], mass[here] = value, 0.0, np.inf
    return rate, spread, mass


class Proposal(Enum):
    """What a block's worth asks for."""

    NONE = ""
    DEPRECATE = "deprecate"
    RESTORE = "restore"


class Evidence(msgspec.Struct, frozen=True):
    """Outcomes for and against."""

    alpha: float
    beta: float


def proposal(found: Worths, at: int, deprecated: bool, since: Evidence | None) -> Proposal:
    """What the worth of the block at this place asks for, with hysteresis.

    `since`: evidence since the last decision about it, None when there was none. After a decision it takes
    MIN_MASS new outcomes, and it is these that are judged: a block given another chance has one.
    """
    kind, (low, high) = found.kind(at), found.judged(at)
    if since is not None:
        if since.alpha + since.beta < MIN_MASS:
            return Proposal.NONE
        lows, highs = interval(np.array([since.alpha]), np.array([since.beta]))
        low, high = float(lows[0]), float(highs[0])
    if deprecated:
        return Proposal.RESTORE if low > MIDDLE else Proposal.NONE
    return Proposal.DEPRECATE if kind is Kind.LOW and high < DEPRECATE_BELOW else Proposal.NONE
