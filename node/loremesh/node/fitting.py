"""Fitting the weights of a rule set to what happened: likelihood with a prior, judged on later events.

The likelihood is that of retrievability as a forecast: before each judged outcome the set says R, and the
outcome's signal says how it went. Weights move on a logarithmic scale by Fisher scoring, the derivatives
being differences of whole replays. Any set with `free` weights can be fitted: it is only called, never
looked into.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.node.rules import (
    START_DIFFICULTY,
    START_STABILITY_H,
    Pasts,
    RuleSet,
)

Floats = NDArray[np.float64]

CLIP: Final = 1e-3
"""A forecast is held this far from 0 and 1: an outcome in the very moment of the last one has R = 1, and
being certain would cost everything."""

PRIOR_SPREAD: Final = 0.5
"""Standard deviation of ln(weight / published weight) before any event was seen: a factor of 1.6 either way.
With few events the published weights stand, with thousands the events speak."""

TRAIN_SHARE: Final = 0.8
"""Part of the judged outcomes, the earlier ones, that the fit sees; the later ones judge it."""

MIN_TRAINED: Final = 200
MIN_HELD_OUT: Final = 50
"""Judged outcomes below which ten weights cannot be told from chance."""

MIN_EACH: Final = 10.0
"""Held-out successes, and failures, below which the interval means nothing: to forecast ever less of what
happens once in a hundred times looks like a gain until it happens."""

SURE: Final = 1.645
"""Standard errors by which a fit must forecast better: 95 % one-sided."""

MAX_ROUNDS: Final = 15
SMALLEST_GAIN: Final = 1e-5
"""Rounds of scoring, and the gain in nats per outcome below which another round is not worth it."""
NUDGE: Final = 1e-3
"""Step of the difference quotients in ln(weight): far above rounding, far below what bends."""
DAMPING: Final = (0.0, 0.1, 1.0, 10.0, 100.0, 1000.0)
"""Parts of its diagonal that are added to the curvature (Levenberg and Marquardt) until a step is better."""


class Happened(msgspec.Struct, frozen=True, gc=False):
    """One event of a block. `judged`: its weight as evidence for a fit, 0 for what is not judged.

    `signal` is None for learning and rating, which refresh; `raised`: learning raises S to what it starts
    with; `stands`: S and D that an aggregate begins with. `n`: its place in time among all events.
    """

    n: int
    hour: float
    elapsed_h: float
    signal: float | None
    fraction: float = 1.0
    judged: float = 0.0
    raised: bool = False
    stands: tuple[float, float] | None = None


Blocks = Sequence[Sequence[Happened]]
"""The events of each block, in order."""


class Forecasts(msgspec.Struct, frozen=True, eq=False):
    """R before each judged outcome, [m] each: its place in time, block, forecast, signal and weight."""

    n: NDArray[np.int64]
    block: NDArray[np.int64]
    recall: Floats
    signal: Floats
    weight: Floats


class Loss(msgspec.Struct, frozen=True):
    """Mean log loss in nats per outcome: of the weights before and after, and of always saying the mean."""

    before: float
    after: float
    base_rate: float


class Fit(msgspec.Struct, frozen=True):
    """What a fit found. `gain`: held-out log loss won per outcome, `gain_at_least` its lower 95 % bound.

    `rarer`: held-out successes or failures, whichever are fewer. `blocks` and the two counts are of judged
    outcomes.
    """

    weights: tuple[float, ...]
    trained: int
    held_out: int
    blocks: int
    rounds: int
    train_loss: Loss
    held_out_loss: Loss
    gain: float
    gain_at_least: float
    rarer: float

    @property
    def better(self) -> bool:
        """Whether held-out events are forecast better, beyond chance."""
        return self.gain_at_least > 0.0 and self.rarer >= MIN_EACH


def forecasts(rules: RuleSet, blocks: Blocks, until: int | None = None) -> Forecasts:
    """What the rules forecast of every judged outcome placed before `until`, in the order of the blocks."""
    starts = [start for _, start in rules.history]
    step, touch = rules.step, rules.touch
    told: list[tuple[int, int, float, float, float, float, float]] = []
    pasts: list[list[float]] = []
    for number, block in enumerate(blocks):
        stability_h, difficulty, past = START_STABILITY_H, START_DIFFICULTY, list(starts)
        for event in block:
            if until is not None and event.n >= until:
                break
            signal = event.signal
            if event.stands is not None:
                (stability_h, difficulty), past = event.stands, list(starts)
                if rules.resume is not None:
                    rules.resume(past, stability_h)
                continue
            if signal is None:
                if event.raised:
                    stability_h = max(stability_h, START_STABILITY_H)
                if touch is not None:
                    touch(past, event.hour)
                continue
            if event.judged > 0.0:
                told.append((event.n, number, event.elapsed_h, stability_h, event.hour, signal, event.judged))
                if starts:
                    pasts.append(list(past))
            stability_h, difficulty = step(
                stability_h, difficulty, signal, event.fraction, event.elapsed_h, event.hour, past
            )
    table = np.array(told, np.float64).reshape(-1, 7)
    n, block_, elapsed_h, stability, hour, signals, weight = (column.copy() for column in table.T)
    remembered = Pasts(hour, tuple(np.array(pasts).reshape(-1, len(starts)).T)) if starts else None
    recall = rules.retrievability(elapsed_h, stability, remembered)
    return Forecasts(
        n.astype(np.int64), block_.astype(np.int64), np.clip(recall, CLIP, 1.0 - CLIP), signals, weight
    )


def log_loss(recall: Floats, signal: Floats) -> Floats:
    """-s·ln R - (1-s)·ln(1-R), nats, [m]."""
    return -(signal * np.log(recall) + (1.0 - signal) * np.log1p(-recall))


def judged_outcomes(blocks: Blocks) -> NDArray[np.int64]:
    """The places in time of all judged outcomes, ascending."""
    return np.array(sorted(event.n for block in blocks for event in block if event.judged > 0.0), np.int64)


def enough(blocks: Blocks) -> bool:
    """Whether there are judged outcomes enough to fit and to judge by."""
    count = len(judged_outcomes(blocks))
    return count * TRAIN_SHARE >= MIN_TRAINED and count * (1.0 - TRAIN_SHARE) >= MIN_HELD_OUT


def fit(
    rules: RuleSet,
    published: tuple[float, ...],
    blocks: Blocks,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Fit:
    """Weights for `rules` that forecast the earlier judged outcomes best, and what they do to later ones.

    `rules` are those in use; `published` are the weights that the prior draws to. The later outcomes, the
    last fifth, play no part in the fit; they are forecast from the state that all events before them made.
    """
    if rules.reweighted is None:
        raise ValueError(f"the rules {rules.name} have no weights to fit")
    judged = judged_outcomes(blocks)
    cut = int(judged[int(len(judged) * TRAIN_SHARE)])
    weights, rounds = fitted_weights(rules, published, blocks, cut, progress)
    before, after = forecasts(rules, blocks), forecasts(rules.reweighted(weights), blocks)
    later = before.n >= cut
    gains = log_loss(before.recall, before.signal) - log_loss(after.recall, after.signal)
    gain, error = clustered_mean(gains[later], before.weight[later], before.block[later])
    mean = float(np.average(before.signal[~later], weights=before.weight[~later]))
    return Fit(
        weights,
        int((~later).sum()),
        int(later.sum()),
        len(np.unique(before.block)),
        rounds,
        _loss(before, after, ~later, mean),
        _loss(before, after, later, mean),
        gain,
        gain - SURE * error,
        min(float(before.signal[later].sum()), float((1.0 - before.signal[later]).sum())),
    )


def fitted_weights(
    rules: RuleSet,
    published: tuple[float, ...],
    blocks: Blocks,
    until: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[tuple[float, ...], int]:
    """The weights that forecast the judged outcomes before `until` best, and the rounds that it took.

    Minimises Σ weight·log loss + Σ θ²/(2·PRIOR_SPREAD²), θ = ln(weight/published), over the free weights.
    """
    make = rules.reweighted
    if make is None:
        raise ValueError(f"the rules {rules.name} have no weights to fit")
    at = np.array([free.index for free in rules.free])
    base = np.array([published[index] for index in at])
    low = np.log(np.array([free.low for free in rules.free]) / base)
    high = np.log(np.array([free.high for free in rules.free]) / base)

    def weights_at(theta: Floats) -> tuple[float, ...]:
        weights = list(published)
        for index, value in zip(at.tolist(), (base * np.exp(theta)).tolist(), strict=True):
            weights[index] = value
        return tuple(weights)

    def seen(theta: Floats) -> Forecasts:
        return forecasts(make(weights_at(theta)), blocks, until)

    def cost(theta: Floats, told: Forecasts) -> float:
        prior = float(theta @ theta) / (2.0 * PRIOR_SPREAD**2)
        return float(told.weight @ log_loss(told.recall, told.signal)) + prior

    theta = np.zeros(len(at))
    now = seen(theta)
    least = cost(theta, now)
    size = max(float(now.weight.sum()), 1.0)
    for number in range(MAX_ROUNDS):
        progress(number, MAX_ROUNDS)
        slopes = np.empty((len(at), len(now.recall)))
        for place in range(len(at)):
            # A difference to the inside, where the weight stands at its upper bound.
            nudge = NUDGE if theta[place] + NUDGE <= high[place] else -NUDGE
            aside = theta.copy()
            aside[place] += nudge
            slopes[place] = (seen(aside).recall - now.recall) / nudge
        spread = now.weight / (now.recall * (1.0 - now.recall))
        gradient = slopes @ (spread * (now.recall - now.signal)) + theta / PRIOR_SPREAD**2
        curvature = (slopes * spread) @ slopes.T + np.eye(len(at)) / PRIOR_SPREAD**2
        was = least
        for damping in DAMPING:
            damped = curvature + damping * np.diag(np.diag(curvature))
            there = np.clip(theta - np.linalg.solve(damped, gradient), low, high)
            then = seen(there)
            found = cost(there, then)
            if found < least:
                theta, now, least = there, then, found
                break
        if was - least < SMALLEST_GAIN * size:
            return weights_at(theta), number + 1
    return weights_at(theta), MAX_ROUNDS


def clustered_mean(values: Floats, weight: Floats, cluster: NDArray[np.int64]) -> tuple[float, float]:
    """Weighted mean and its standard error, when values of one cluster (a block) are not independent."""
    total = float(weight.sum())
    mean = float(weight @ values) / total
    clusters, at = np.unique(cluster, return_inverse=True)
    if len(clusters) < 2:
        return mean, math.inf
    sums = np.bincount(at, weight * (values - mean))
    error = math.sqrt(float(sums @ sums) * len(clusters) / (len(clusters) - 1)) / total
    return mean, error


def _loss(before: Forecasts, after: Forecasts, part: NDArray[np.bool_], mean: float) -> Loss:
    signal, weight = before.signal[part], before.weight[part]
    always = np.full(len(signal), min(max(mean, CLIP), 1.0 - CLIP))
    return Loss(
        *(
            float(np.average(log_loss(recall, signal), weights=weight))
            for recall in (before.recall[part], after.recall[part], always)
        )
    )
