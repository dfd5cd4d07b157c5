"""Rule sets as values: how stability and difficulty move with an outcome, how recall fades, what use proves.

A rule set is functions, their weights, and what they remember of each block. The fold, recall and replay take
whatever set they are given and never ask for its name. Here are the sets of the FSRS family, which need
nothing but S and D; the others are in `hlr`, `sm2` and `actr`, and `rulebook` knows them all by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.node import fsrs
from loremesh.node.utility import BETA, Utility

HOURS_PER_DAY: Final = 24.0
START_STABILITY_H: Final = 24.0
START_DIFFICULTY: Final = 5.0
MIN_STABILITY_H: Final = fsrs.MIN_STABILITY_DAYS * HOURS_PER_DAY
MAX_STABILITY_H: Final = fsrs.MAX_STABILITY_DAYS * HOURS_PER_DAY

NO_STABILITY_H: Final = 1e-30
"""Stands in for a stability of 0 (nothing known): R is then 0 for all but no time at all."""

Past = list[float]
"""What a rule set remembers of one block: an item per entry of its `history`. A step writes into it."""


class Step(Protocol):
    """What one outcome does to a block."""

    def __call__(
        self,
        stability_h: float,
        difficulty: float,
        signal: float,
        fraction: float,
        elapsed_h: float,
        hour: float = 0.0,
        past: Past | None = None,
        /,
    ) -> tuple[float, float]:
        """Stability in hours and difficulty after it.

        `signal` and `fraction` in [0, 1]; `elapsed_h` ≥ 0 since the block's last event, which is now `hour`.
        `past` is brought up to date; None stands for a block nothing is remembered of.
        """


Touch = Callable[[Past, float], None]
"""(past, hour): the block was learned or rated at that active hour."""

Resume = Callable[[Past, float], None]
"""(past, stability_h): a block that nothing is remembered of has come to that stability by another model."""

Curve = Callable[[float, float], float]
"""(elapsed, stability), one unit of time → R in [0, 1]."""


class Pasts(msgspec.Struct, frozen=True, eq=False):
    """What is remembered of many blocks at the active hour `hour` (or each at its own, float64[n]): a column
    float64[n] per entry of `history`.
    """

    hour: float | NDArray[np.float64]
    columns: tuple[NDArray[np.float64], ...]


class Curves(Protocol):
    """How recall fades, for many blocks."""

    def __call__(
        self,
        elapsed_h: NDArray[np.float64],
        stability_h: NDArray[np.float64],
        pasts: Pasts | None = None,
        /,
    ) -> NDArray[np.float64]:
        """R[n] in [0, 1] after `elapsed_h`[n] without an event; a negative elapsed time counts as none."""


Move = Callable[[fsrs.Weights, float, float, float], float]
"""(weights, stability_days, difficulty, R) → stability_days after a success, or after a failure."""


class Free(msgspec.Struct, frozen=True):
    """A weight that a fit may move: its index, and the bounds it stays in (0 < low < high)."""

    index: int
    low: float
    high: float


class RuleSet(msgspec.Struct, frozen=True):
    """One way to forget, and one way to read evidence. Compared by its functions and weights, never by name.

    `history`: the name and starting value of each number remembered per block besides S and D, none for most
    sets. `free`: the weights that have an effect here; `reweighted` makes the same set with others.
    """

    name: str
    step: Step
    """Scalar, for the fold."""
    retrievability: Curves
    """Vectorised, for recall."""
    weights: tuple[float, ...] = ()
    free: tuple[Free, ...] = ()
    reweighted: Callable[[tuple[float, ...]], RuleSet] | None = None
    history: tuple[tuple[str, float], ...] = ()
    touch: Touch | None = None
    resume: Resume | None = None
    utility: Utility = BETA


def stepper(weights: fsrs.Weights, recall: Curve, success: Move, failure: Move) -> Step:
    """A step from a curve and two moves, with what all sets here share (DESIGN §3).

    Both targets are floored; between them, and for a fraction of a step, S moves geometrically:
    ln S' = ln S + f·(s·ln(S⁺/S) + (1-s)·ln(S⁻/S)), so that near-equal signals give near-equal S. The result
    lies in [MIN_STABILITY_H, MAX_STABILITY_H]; signal, fraction in [0, 1]; elapsed_h ≥ 0.
    """
    low, high = fsrs.MIN_STABILITY_DAYS, fsrs.MAX_STABILITY_DAYS

    def step(
        stability_h: float,
        difficulty: float,
        signal: float,
        fraction: float,
        elapsed_h: float,
        _hour: float = 0.0,
        _past: Past | None = None,
        /,
    ) -> tuple[float, float]:
        days = stability_h / HOURS_PER_DAY
        chance = recall(elapsed_h, stability_h)
        shift = 0.0
        if signal > 0.0:
            shift = signal * math.log(max(success(weights, days, difficulty, chance), low) / days)
        if signal < 1.0:
            shift += (1.0 - signal) * math.log(max(failure(weights, days, difficulty, chance), low) / days)
        moved = min(max(days * math.exp(fraction * shift), low), high)
        return moved * HOURS_PER_DAY, fsrs.difficulty_after(weights, difficulty, signal, fraction)

    return step


def root_curve(factor: float) -> tuple[Curve, Curves]:
    """R(t) = (1 + factor·t/S)^-0.5, scalar and vectorised."""

    def scalar(elapsed: float, stability: float) -> float:
        return 1.0 / math.sqrt(1.0 + factor * elapsed / stability)

    def vectorised(
        elapsed_h: NDArray[np.float64], stability_h: NDArray[np.float64], _: Pasts | None = None, /
    ) -> NDArray[np.float64]:
        fading = np.divide(np.maximum(elapsed_h, 0.0), np.maximum(stability_h, NO_STABILITY_H))
        fading *= factor
        fading += 1.0
        np.sqrt(fading, out=fading)
        return np.reciprocal(fading, out=fading)

    return scalar, vectorised


def power_curve(decay: float) -> tuple[Curve, Curves]:
    """R(t) = (1 + F·t/S)^-decay with the F that makes R(S) = 0.9, scalar and vectorised (FSRS-6)."""
    factor = math.pow(0.9, -1.0 / decay) - 1.0

    def scalar(elapsed: float, stability: float) -> float:
        return math.pow(1.0 + factor * elapsed / stability, -decay)

    def vectorised(
        elapsed_h: NDArray[np.float64], stability_h: NDArray[np.float64], _: Pasts | None = None, /
    ) -> NDArray[np.float64]:
        fading = np.divide(np.maximum(elapsed_h, 0.0), np.maximum(stability_h, NO_STABILITY_H))
        fading *= factor
        fading += 1.0
        return np.power(fading, -decay, out=fading)

    return scalar, vectorised


def exponential_curve() -> tuple[Curve, Curves]:
    """R(t) = 0.9^(t/S): Ebbinghaus' curve with stability in the same meaning, R(S) = 0.9."""
    rate = math.log(0.9)

    def scalar(elapsed: float, stability: float) -> float:
        return math.exp(rate * elapsed / stability)

    def vectorised(
        elapsed_h: NDArray[np.float64], stability_h: NDArray[np.float64], _: Pasts | None = None, /
    ) -> NDArray[np.float64]:
        fading = np.divide(np.maximum(elapsed_h, 0.0), np.maximum(stability_h, NO_STABILITY_H))
        fading *= rate
        return np.exp(fading, out=fading)

    return scalar, vectorised


def survey_failure(w: fsrs.Weights, stability_days: float, difficulty: float, recall: float) -> float:
    """The survey's failure formula w11·D^-w12·S^-w13·(e^(w14·(1-R)) - 1), in days.

    It is 0 at R = 1 and falls with S (DESIGN §8), and divides by zero at S = 0: S is floored before, the
    result after (by `stepper`).
    """
    floored = max(stability_days, fsrs.MIN_STABILITY_DAYS)
    return (
        w[11] * math.pow(difficulty, -w[12]) * math.pow(floored, -w[13]) * math.expm1(w[14] * (1.0 - recall))
    )


def _family(
    name: str,
    curve: Callable[[fsrs.Weights], tuple[Curve, Curves]],
    failure: Move,
    published: fsrs.Weights,
    free: tuple[int, ...],
) -> RuleSet:
    """The set of that name with its published weights; `reweighted` gives it others."""

    def made(weights: fsrs.Weights) -> RuleSet:
        scalar, vectorised = curve(weights)
        return RuleSet(
            name,
            stepper(weights, scalar, fsrs.after_success, failure),
            vectorised,
            weights,
            tuple(Free(index, *fsrs.BOUNDS[index]) for index in free),
            made,
        )

    return made(published)


FSRS5: Final = _family("fsrs5", lambda _: root_curve(fsrs.FACTOR), fsrs.after_failure, fsrs.FSRS5, fsrs.USED)
"""The default, and what is published whatever set the node uses."""
SURVEY: Final = _family("survey", lambda _: root_curve(0.5), survey_failure, fsrs.FSRS5, fsrs.USED[:-1])
EXPONENTIAL: Final = _family(
    "exponential", lambda _: exponential_curve(), fsrs.after_failure, fsrs.FSRS5, fsrs.USED
)
FSRS6: Final = _family(
    "fsrs6",
    lambda weights: power_curve(weights[fsrs.DECAY]),
    fsrs.after_failure,
    fsrs.FSRS6,
    (*fsrs.USED, fsrs.DECAY),
)
