"""Half-life regression (Settles & Meeder 2016, "A Trainable Spaced Repetition Model for Language Learning").

p = 2^(-Δ/h), h = 2^(θ·x) with the paper's features of a student and a word: √(1 + right) and √(1 + wrong),
counted. Elapsed time plays no part in how h grows, only in how recall fades.
"""

from __future__ import annotations

import math
from typing import Final

from loremesh.node.rules import (
    MAX_STABILITY_H,
    MIN_STABILITY_H,
    Free,
    Past,
    RuleSet,
    exponential_curve,
)

WEIGHTS: Final = (2.4142, 2.4142)
"""θ for right and wrong. The paper trains its own and prints none without its words' effects: here the first
success doubles the half-life and the first failure halves it (1/(√2 - 1)); `doctor fit` does the rest."""

BOUNDS: Final = (0.01, 12.0)
"""From next to nothing up to a thirtyfold half-life after one success."""

RIGHT, WRONG = 0, 1


def half_life_regression(weights: tuple[float, ...] = WEIGHTS) -> RuleSet:
    """The set with θ = `weights`, (right, wrong); the second is subtracted.

    S is h·log₂(1/0.9), so that R(S) = 0.9, and R = 2^(-t/h) = 0.9^(t/S). It moves with the features:
    ln S' = ln S + ln 2·(θ₀·Δ√(1+right) - θ₁·Δ√(1+wrong)), which is the paper's h from where S stood when the
    counting began. An outcome counts as `signal`·`fraction` right and the rest of `fraction` wrong. There is
    no difficulty: D stays.
    """
    right_weight, wrong_weight = (weight * math.log(2.0) for weight in weights)

    def step(
        stability_h: float,
        difficulty: float,
        signal: float,
        fraction: float,
        _elapsed_h: float,
        _hour: float = 0.0,
        past: Past | None = None,
        /,
    ) -> tuple[float, float]:
        right, wrong = past if past is not None else (0.0, 0.0)
        right_after, wrong_after = right + fraction * signal, wrong + fraction * (1.0 - signal)
        gained = right_weight * (math.sqrt(1.0 + right_after) - math.sqrt(1.0 + right))
        lost = wrong_weight * (math.sqrt(1.0 + wrong_after) - math.sqrt(1.0 + wrong))
        if past is not None:
            past[RIGHT], past[WRONG] = right_after, wrong_after
        moved = stability_h * math.exp(gained - lost)
        return min(max(moved, MIN_STABILITY_H), MAX_STABILITY_H), difficulty

    return RuleSet(
        "hlr",
        step,
        exponential_curve()[1],
        weights,
        (Free(RIGHT, *BOUNDS), Free(WRONG, *BOUNDS)),
        half_life_regression,
        (("right", 0.0), ("wrong", 0.0)),
    )
