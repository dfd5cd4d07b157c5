"""What a rater's ratings are worth, judged by the outcomes that the rated blocks had later.

A rating is evidence before the first outcome: r·K for and (1−r)·K against, as if K outcomes had been seen.
With that in the prior, a block's own outcomes are beta-binomial, and the chance of what happened is the
product of the forecasts α/(α+β) made before each outcome, each having seen those before it. K is what makes
that most likely (maximum of the marginal likelihood, empirical Bayes). It is the forecast that recall itself
uses, so that a rater who always says too much gets as little as that is worth.

Only numbers here; the log is read elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.node.fitting import SURE, clustered_mean, log_loss
from loremesh.node.raters import MAX_MULTIPLIER_FX
from loremesh.sync.fixed import ONE

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAX_EACH: Final = 8
"""Outcomes of a block that are looked at, after its first rating: by then they say more than a rating can."""

MIN_BLOCKS: Final = 50
"""Rated blocks with a later outcome, below which an interval round K spans nearly all there is."""
MIN_RARER: Final = 10.0
"""Outcomes of the rarer kind, for the same reason."""

MAX_WORTH: Final = 16.0
"""Outcomes that one rating may count as, at most: whoever rates, a few weeks of use overrule it."""

MAX_MULTIPLIER: Final = MAX_MULTIPLIER_FX / ONE
"""What the fold takes; ratings stated with next to no weight stay below their worth."""

FOLDS: Final = 5
"""Parts of the blocks, each forecast with what the other four say."""

LIKELY: Final = 1.353
"""Nats below the best, within which K is believed: half of the 90 % quantile of χ² with one degree."""

GRID: Final = 32
SECTIONS: Final = 12
ROUNDS: Final = 2
"""Steps of the search for the least: a grid, golden sections between its best neighbours, and rounds by turns
over two numbers. Ten times finer than what is known of K."""

CLIP: Final = 1e-6
MIN_GAIN: Final = 0.002
"""Nats per outcome below which another weight is not worth an event: a third of a percent of not knowing."""
SAME: Final = 0.02
"""A multiplier this near to the one in force is the one in force."""


class Stated(msgspec.Struct, frozen=True, eq=False):
    """One rater's evidence as stated, before outcomes: places among the outcomes [k], α and β [k]."""

    at: Ints
    alpha: Floats
    beta: Floats


class Cases(msgspec.Struct, frozen=True, eq=False):
    """Judged outcomes of rated blocks, [m] each, those of a block in order.

    `block` numbers the blocks by when they were first rated. `alpha` and `beta`: all but ratings that spoke
    for and against the block before the outcome. `raters`: what the ratings did.
    """

    block: Ints
    signal: Floats
    weight: Floats
    alpha: Floats
    beta: Floats
    raters: Mapping[str, Stated]


class Calibration(msgspec.Struct, frozen=True):
    """What the outcomes say of one rater. Worths are in outcomes per rating.

    `multiplier` is what the stated evidence is to be multiplied with, `before` what it was. `low` and `high`
    hold the worth with 90 %. `gain`: held-out log loss won per outcome against the weight before, with its
    lower and upper 95 % bounds, `gain_first` that of each block's first. `noise`: what levelling all ratings
    at their mean would win at the weight before. `tells`: what the ratings win for forecasts that know
    besides
    how things go on the whole; so what they tell of one block over another. `bias`: mean rating less mean
    outcome.
    """

    rater: str
    blocks: int
    outcomes: int
    rarer: float
    multiplier: float
    before: float
    worth: float
    worth_before: float
    low: float
    high: float
    loss_before: float
    loss_after: float
    gain: float
    gain_at_least: float
    gain_at_most: float
    gain_first: float
    noise: float
    noise_at_least: float
    tells: float
    tells_at_least: float
    bias: float
    correlation: float

    @property
    def informed(self) -> bool:
        """Whether the ratings tell one block from another, beyond chance."""
        return self.tells_at_least > 0.0

    @property
    def enough(self) -> bool:
        """Whether there are blocks and outcomes enough to judge by."""
        return self.blocks >= MIN_BLOCKS and self.rarer >= MIN_RARER

    @property
    def better(self) -> bool:
        """Whether held-out outcomes are forecast better with it, beyond chance, first ones no worse, and it
        is another weight.

        A weight of nothing is also better where what the ratings say makes forecasts worse, beyond chance,
        and nothing speaks for their mass.
        """
        moved = abs(self.multiplier - self.before) > SAME * max(self.before, SAME)
        silenced = self.multiplier == 0.0 and self.noise_at_least > 0.0 and self.gain_at_most >= 0.0
        gained = self.gain_at_least > 0.0 and self.gain >= MIN_GAIN
        return self.enough and moved and self.gain_first >= 0.0 and (gained or silenced)


class _View(msgspec.Struct, frozen=True, eq=False):
    """One rater's outcomes: what else was known, what this rater said, what came, [k] each."""

    alpha: Floats
    beta: Floats
    said_a: Floats
    said_b: Floats
    signal: Floats
    weight: Floats
    block: Ints

    def forecast(self, multiplier: float) -> Floats:
        """u before each outcome."""
        alpha = self.alpha + multiplier * self.said_a
        mass = alpha + self.beta + multiplier * self.said_b
        utility = np.divide(alpha, mass, out=np.full(len(mass), 0.5), where=mass > 0.0)
        clipped: Floats = np.clip(utility, CLIP, 1.0 - CLIP)
        return clipped

    def losses(self, multiplier: float) -> Floats:
        """Log loss of each outcome, nats."""
        return log_loss(self.forecast(multiplier), self.signal)

    def total(self, multiplier: float) -> float:
        return float(self.weight @ self.losses(multiplier))

    def part(self, chosen: NDArray[np.bool_]) -> _View:
        return _View(*(getattr(self, name)[chosen] for name in self.__struct_fields__))

    def mean_rating(self) -> float:
        """How this rater rates, weighed by evidence."""
        return float(self.said_a.sum()) / float((self.said_a + self.said_b).sum())

    def levelled(self, rating: float) -> _View:
        """The same, had every block been rated so."""
        mass = self.said_a + self.said_b
        return msgspec.structs.replace(self, said_a=mass * rating, said_b=mass * (1.0 - rating))

    def centred(self, shift: float) -> _View:
        """The same, had every rating been so much higher (or lower), within 0 and 1."""
        mass = self.said_a + self.said_b
        said_a = np.clip(self.said_a + mass * shift, 0.0, mass)
        return msgspec.structs.replace(self, said_a=said_a, said_b=mass - said_a)

    def with_base(self, mean: float, mass: float) -> _View:
        """The same, had one known besides how things go on the whole, as surely as `mass` outcomes."""
        return msgspec.structs.replace(
            self, alpha=self.alpha + mass * mean, beta=self.beta + mass * (1.0 - mean)
        )


def calibrate(
    cases: Cases,
    multipliers: Mapping[str, float],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Calibration]:
    """What each rater's ratings are worth, those with the most blocks first.

    `multipliers` are in force; a rater is judged with the others at theirs, or at what was found better for
    those before it, so that two who say the same are not believed twice.
    """
    force = dict(multipliers)
    order = sorted(cases.raters, key=lambda rater: (-len(cases.raters[rater].at), rater))
    found = []
    for number, rater in enumerate(order):
        progress(number, len(order))
        one = _of_rater(rater, _seen(cases, rater, force), force.get(rater, 1.0))
        found.append(one)
        if one.better:
            force[rater] = one.multiplier
    progress(len(order), len(order))
    return found


def _seen(cases: Cases, rater: str, force: Mapping[str, float]) -> _View:
    """The outcomes that this rater's ratings came before, with all others' in what else was known."""
    alpha, beta = cases.alpha.copy(), cases.beta.copy()
    for other, stated in cases.raters.items():
        if other != rater:
            alpha[stated.at] += force.get(other, 1.0) * stated.alpha
            beta[stated.at] += force.get(other, 1.0) * stated.beta
    said = cases.raters[rater]
    at = said.at
    return _View(
        alpha[at], beta[at], said.alpha, said.beta, cases.signal[at], cases.weight[at], cases.block[at]
    )


def _of_rater(rater: str, seen: _View, before: float) -> Calibration:
    blocks, number = np.unique(seen.block, return_inverse=True)
    mass = seen.said_a + seen.said_b
    stated = float(mass.mean()) if len(mass) else 0.0
    if stated <= 0.0:
        return _nothing(rater, len(blocks), len(mass), before)
    most = min(max(MAX_WORTH / stated, before), MAX_MULTIPLIER)
    fold = number % FOLDS
    free, told, level, levelled = (np.empty(len(fold)) for _ in range(4))
    for one in range(min(FOLDS, len(blocks))):
        here = fold == one
        others, those = seen.part(~here) if len(blocks) > 1 else seen, seen.part(here)
        free[here] = those.losses(best(others, most))
        rating = others.mean_rating()
        levelled[here] = those.levelled(rating).losses(before)
        mean, alone, besides, heard = _with_base(others, most)
        level[here] = those.with_base(mean, alone).losses(0.0)
        told[here] = those.centred(mean - rating).with_base(mean, besides).losses(heard)
    tells, error = clustered_mean(level - told, seen.weight, seen.block)
    informed = tells - SURE * error > 0.0
    multiplier = best(seen, most) if informed else 0.0
    after = free if informed else seen.losses(0.0)
    was = seen.losses(before)
    gain, gain_error = clustered_mean(was - after, seen.weight, seen.block)
    noise, noise_error = clustered_mean(was - levelled, seen.weight, seen.block)
    low, high = interval(seen, most)
    bias, _ = clustered_mean(seen.said_a / mass - seen.signal, seen.weight, seen.block)
    return Calibration(
        rater=rater,
        blocks=len(blocks),
        outcomes=len(mass),
        rarer=float(min(seen.weight @ seen.signal, seen.weight @ (1.0 - seen.signal))),
        multiplier=multiplier,
        before=before,
        worth=multiplier * stated,
        worth_before=before * stated,
        low=low * stated if informed else 0.0,
        high=high * stated,
        loss_before=float(np.average(was, weights=seen.weight)),
        loss_after=float(np.average(after, weights=seen.weight)),
        gain=gain,
        gain_at_least=gain - SURE * gain_error,
        gain_at_most=gain + SURE * gain_error,
        gain_first=float(np.mean((was - after)[np.unique(seen.block, return_index=True)[1]])),
        noise=noise,
        noise_at_least=noise - SURE * noise_error,
        tells=tells,
        tells_at_least=tells - SURE * error,
        bias=bias,
        correlation=_correlation(seen.said_a / mass, seen.signal, seen.weight),
    )


def best(seen: _View, most: float) -> float:
    """The multiplier from 0 to `most` that makes the outcomes most likely."""
    return _least(seen.total, most)


def _with_base(seen: _View, most: float) -> tuple[float, float, float, float]:
    """How things go on the whole, as the mean and the mass that forecast best without the ratings; and the
    mass and the multiplier that forecast best with them.
    """
    mean = float(np.average(seen.signal, weights=seen.weight))
    seen = seen.centred(mean - seen.mean_rating())
    mass = _least(partial(_cost_of_base, seen, mean, 0.0), MAX_WORTH)
    besides, multiplier = mass, 0.0
    for _ in range(ROUNDS):
        multiplier = best(seen.with_base(mean, besides), most)
        besides = _least(partial(_cost_of_base, seen, mean, multiplier), MAX_WORTH)
    return mean, mass, besides, multiplier


def _cost_of_base(seen: _View, mean: float, multiplier: float, mass: float) -> float:
    return seen.with_base(mean, mass).total(multiplier)


def _least(cost: Callable[[float], float], most: float) -> float:
    """Where from 0 to `most` the cost is least: the best of a grid, then golden section round it."""
    grid = _grid(most)
    costs = [cost(one) for one in grid]
    at = int(np.argmin(costs))
    low, high = grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)]
    ratio = (5.0**0.5 - 1.0) / 2.0
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = cost(left), cost(right)
    for _ in range(SECTIONS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = cost(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = cost(right)
    middle = (low + high) / 2.0
    return middle if cost(middle) < costs[at] else grid[at]


def interval(seen: _View, most: float) -> tuple[float, float]:
    """Between which multipliers the likelihood is within LIKELY of its best, to the grid's fineness."""
    grid = np.unique(np.append(_grid(most), best(seen, most)))
    totals = np.array([seen.total(one) for one in grid.tolist()])
    within = np.flatnonzero(totals <= totals.min() + LIKELY)
    return float(grid[within[0]]), float(grid[within[-1]])


def _grid(most: float) -> list[float]:
    """0, and steps of equal ratio up to `most`: a weight is known by its size, not its last digit."""
    return [0.0, *np.geomspace(most / 1000.0, most, GRID).tolist()]


def _correlation(rating: Floats, signal: Floats, weight: Floats) -> float:
    total = float(weight.sum())
    if not total:
        return 0.0
    left, right = rating - weight @ rating / total, signal - weight @ signal / total
    spread = float(np.sqrt((weight @ left**2) * (weight @ right**2)))
    return float(weight @ (left * right)) / spread if spread > 0.0 else 0.0


def _nothing(rater: str, blocks: int, outcomes: int, before: float) -> Calibration:
    """Of a rater whose ratings were stated without any weight: there is nothing to multiply."""
    zero = 0.0
    return Calibration(
        rater, blocks, outcomes, zero, before, before, *(zero for _ in Calibration.__struct_fields__[6:])
    )


def cases_of(
    taken: Sequence[tuple[int, float, float, float, float, Sequence[tuple[str, float, float]]]],
) -> Cases:
    """Cases out of (block, signal, weight, α, β, [(rater, α, β as stated)]) per outcome, in order."""
    table = np.array([one[:5] for one in taken], np.float64).reshape(-1, 5)
    said: dict[str, list[tuple[int, float, float]]] = {}
    for at, one in enumerate(taken):
        for rater, a, b in one[5]:
            said.setdefault(rater, []).append((at, a, b))
    raters = {}
    for rater, rows in said.items():
        stated = np.array(rows, np.float64)
        raters[rater] = Stated(stated[:, 0].astype(np.int64), stated[:, 1].copy(), stated[:, 2].copy())
    signal, weight, alpha, beta = (table[:, column].copy() for column in range(1, 5))
    return Cases(table[:, 0].astype(np.int64), signal, weight, alpha, beta, raters)
