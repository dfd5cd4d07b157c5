"""SM-2 (Wozniak 1990, "Optimization of learning", chapter 3.2): intervals 1 day, 6 days, then times E-Factor.

SM-2 plans repetitions and says nothing of forgetting; its intervals are read as stabilities, the time until
R = 0.9, and R = 0.9^(t/S), as benchmarks of schedulers do.
"""

from __future__ import annotations

import math
from typing import Final

from loremesh.node.rules import (
    HOURS_PER_DAY,
    MAX_STABILITY_H,
    MIN_STABILITY_H,
    Free,
    Past,
    RuleSet,
    exponential_curve,
)

WEIGHTS: Final = (1.0, 6.0, 2.5)
"""I(1) and I(2) in days, and the E-Factor that a block starts with."""

MIN_EASINESS: Final = 1.3
BEST_GRADE: Final = 5

EASINESS_CHANGE: Final = (0.0, 0.0, 0.0, -0.14, 0.0, 0.1)
"""Change of the E-Factor by grade 0…5: 0.1 - (5-q)(0.08 + (5-q)·0.02), none below 3."""
PASSED: Final = (0.0, 0.0, 0.0, 1.0, 1.0, 1.0)
"""By grade: 1 goes on to the next interval, 0 starts the repetitions from the beginning."""

REPETITIONS, EASINESS = 0, 1


def sm2(weights: tuple[float, ...] = WEIGHTS) -> RuleSet:
    """The set with I(1), I(2) and the first E-Factor given by `weights`.

    The grade is 5·`signal`; between whole grades everything lies between the neighbours' (S geometrically),
    and `fraction` goes that part of the way. Elapsed time plays no part. There is no difficulty beside the
    E-Factor: D stays. A block that another model brought up to S goes on after the longest of the first two
    intervals that S reaches.
    """
    first_h, second_h, easiness_at_first = weights[0] * HOURS_PER_DAY, weights[1] * HOURS_PER_DAY, weights[2]

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
        repetitions, easiness = past if past is not None else (0.0, easiness_at_first)
        passed = _between(PASSED, signal)
        easiness = max(easiness + fraction * _between(EASINESS_CHANGE, signal), MIN_EASINESS)
        longer = _interval_h(repetitions + 1.0, first_h, second_h, stability_h * easiness)
        shift = passed * math.log(longer / stability_h) + (1.0 - passed) * math.log(first_h / stability_h)
        if past is not None:
            past[REPETITIONS] = repetitions + fraction * (passed * (repetitions + 1.0) - repetitions)
            past[EASINESS] = easiness
        moved = stability_h * math.exp(fraction * shift)
        return min(max(moved, MIN_STABILITY_H), MAX_STABILITY_H), difficulty

    def resume(past: Past, stability_h: float) -> None:
        past[REPETITIONS] = 2.0 if stability_h >= second_h else 1.0 if stability_h >= first_h else 0.0

    return RuleSet(
        "sm2",
        step,
        exponential_curve()[1],
        weights,
        (Free(0, 0.1, 10.0), Free(1, 0.5, 60.0), Free(2, MIN_EASINESS, 5.0)),
        sm2,
        (("repetitions", 0.0), ("easiness", easiness_at_first)),
        resume=resume,
    )


def _between(by_grade: tuple[float, ...], signal: float) -> float:
    """The value at the grade 5·signal, linear between whole grades."""
    grade = signal * BEST_GRADE
    low = min(int(grade), BEST_GRADE - 1)
    return by_grade[low] + (grade - low) * (by_grade[low + 1] - by_grade[low])


def _interval_h(repetition: float, first_h: float, second_h: float, later_h: float) -> float:
    """I(n) in hours for n ≥ 1, geometric between whole repetitions; `later_h` from the third on."""
    if repetition >= 3.0:
        return later_h
    if repetition >= 2.0:
        return second_h * math.pow(later_h / second_h, repetition - 2.0)
    return first_h * math.pow(second_h / first_h, repetition - 1.0)
