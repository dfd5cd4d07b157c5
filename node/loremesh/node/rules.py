"""Rule sets as values: how stability and difficulty move with an outcome, and how recall fades.

A rule set is two functions and a name. The fold, recall and replay take whatever set they are given and
never ask for its name; a further set is one more value in `RULE_SETS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.node import fsrs
from loremesh.node.errors import UsageError

HOURS_PER_DAY: Final = 24.0
START_STABILITY_H: Final = 24.0
START_DIFFICULTY: Final = 5.0
MIN_STABILITY_H: Final = fsrs.MIN_STABILITY_DAYS * HOURS_PER_DAY
MAX_STABILITY_H: Final = fsrs.MAX_STABILITY_DAYS * HOURS_PER_DAY

_NO_STABILITY_H: Final = 1e-6
"""Stands in for a stability of 0 (nothing known): R is then 0 for all but no time at all."""

Step = Callable[[float, float, float, float, float], tuple[float, float]]
"""(stability_h, difficulty, signal, fraction, elapsed_h) → (stability_h, difficulty)."""

Curve = Callable[[float, float], float]
"""(elapsed, stability), one unit of time → R in [0, 1]."""

Curves = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]
"""(elapsed_h[n], stability_h[n]) → R[n] in [0, 1]; a negative elapsed time counts as none."""

Move = Callable[[fsrs.Weights, float, float, float], float]
"""(weights, stability_days, difficulty, R) → stability_days after a success, or after a failure."""


class RuleSet(msgspec.Struct, frozen=True):
    """One way to forget. Values of this type are compared by identity of their functions, never by name."""

    name: str
    step: Step
    """Scalar, for the fold."""
    retrievability: Curves
    """Vectorised, for recall."""


def stepper(weights: fsrs.Weights, recall: Curve, success: Move, failure: Move) -> Step:
    """A step from a curve and two moves, with what all sets here share (DESIGN §3).

    Both targets are floored; between them, and for a fraction of a step, S moves geometrically:
    ln S' = ln S + f·(s·ln(S⁺/S) + (1-s)·ln(S⁻/S)), so that near-equal signals give near-equal S. The result
    lies in [MIN_STABILITY_H, MAX_STABILITY_H]; signal, fraction in [0, 1]; elapsed_h ≥ 0.
    """
    low, high = fsrs.MIN_STABILITY_DAYS, fsrs.MAX_STABILITY_DAYS

    def step(
        stability_h: float, difficulty: float, signal: float, fraction: float, elapsed_h: float
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


def power_curve(factor: float) -> tuple[Curve, Curves]:
    """R(t) = (1 + factor·t/S)^-0.5, scalar and vectorised."""

    def scalar(elapsed: float, stability: float) -> float:
        return 1.0 / math.sqrt(1.0 + factor * elapsed / stability)

    def vectorised(elapsed_h: NDArray[np.float64], stability_h: NDArray[np.float64]) -> NDArray[np.float64]:
        fading = np.divide(np.maximum(elapsed_h, 0.0), np.maximum(stability_h, _NO_STABILITY_H))
        fading *= factor
        fading += 1.0
        np.sqrt(fading, out=fading)
        return np.reciprocal(fading, out=fading)

    return scalar, vectorised


def exponential_curve() -> tuple[Curve, Curves]:
    """R(t) = 0.9^(t/S): Ebbinghaus' curve with stability in the same meaning, R(S) = 0.9."""
    rate = math.log(0.9)

    def scalar(elapsed: float, stability: float) -> float:
        return math.exp(rate * elapsed / stability)

    def vectorised(elapsed_h: NDArray[np.float64], stability_h: NDArray[np.float64]) -> NDArray[np.float64]:
        fading = np.divide(np.maximum(elapsed_h, 0.0), np.maximum(stability_h, _NO_STABILITY_H))
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


def _rule_set(name: str, curve: tuple[Curve, Curves], failure: Move) -> RuleSet:
    scalar, vectorised = curve
    return RuleSet(name, stepper(fsrs.FSRS5, scalar, fsrs.after_success, failure), vectorised)


FSRS5: Final = _rule_set("fsrs5", power_curve(fsrs.FACTOR), fsrs.after_failure)
"""The default, and what is published whatever set the node uses."""
SURVEY: Final = _rule_set("survey", power_curve(0.5), survey_failure)
EXPONENTIAL: Final = _rule_set("exponential", exponential_curve(), fsrs.after_failure)

RULE_SETS: Final = {rules.name: rules for rules in (FSRS5, SURVEY, EXPONENTIAL)}


def get_rules(name: str) -> RuleSet:
    """The rule set called `name`. Raises UsageError listing the names there are."""
    try:
        return RULE_SETS[name]
    except KeyError:
        raise UsageError(
            f"there are no rules named {name!r}", hint=f"choose one of: {', '.join(sorted(RULE_SETS))}"
        ) from None
