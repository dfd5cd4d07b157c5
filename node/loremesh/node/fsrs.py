"""FSRS-5 and FSRS-6 as published, in days: the forgetting curve, stability after an outcome, difficulty.

Weights and formulas: py-fsrs 5.1.3 / FSRS-5 (19 weights) and py-fsrs 6.3.2 / FSRS-6 (21 weights; the same
formulas for reviews on different days, and a decay of its own). Of their rules this uses the review formulas
at Good and at Again; the initial values and the same-day rules have no place here (DESIGN §3).
"""

from __future__ import annotations

import math
from typing import Final

Weights = tuple[float, ...]

FSRS5: Final[Weights] = (
    0.40255, 1.18385, 3.173, 15.69105, 7.1949, 0.5345, 1.4604, 0.0046, 1.54575, 0.1192,
    1.01925, 1.9395, 0.11, 0.29605, 2.2698, 0.2315, 2.9898, 0.51655, 0.6621,
)  # fmt: skip

FSRS6: Final[Weights] = (
    0.212, 1.2931, 2.3065, 8.2956, 6.4133, 0.8334, 3.0194, 0.001, 1.8722, 0.1666, 0.796,
    1.4835, 0.0614, 0.2629, 1.6483, 0.6014, 1.8729, 0.5425, 0.0912, 0.0658, 0.1542,
)  # fmt: skip

DECAY: Final = 20
"""Index of FSRS-6's decay: R = (1 + F·t/S)^-w20, F = 0.9^(-1/w20) - 1."""

USED: Final = (6, 8, 9, 10, 11, 12, 13, 14, 17)
"""Indices of the weights that matter here. w18 only scales w17; the others serve what is left out."""

BOUNDS: Final = {
    6: (0.05, 4.0), 8: (0.1, 4.5), 9: (0.005, 0.8), 10: (0.05, 3.5), 11: (0.05, 5.0), 12: (0.001, 0.25),
    13: (0.005, 0.9), 14: (0.05, 4.0), 17: (0.005, 2.0), DECAY: (0.1, 0.8),
}  # fmt: skip
"""Bounds of those weights, near the ones that the FSRS optimiser keeps them in; all above 0."""

FACTOR: Final = 19.0 / 81.0
"""F of the curve R = (1 + F·t/S)^-0.5. It makes R(S) = 0.9, as "stability" means."""
MIN_STABILITY_DAYS: Final = 0.1
"""The package's own floor (5.1.3); it keeps S^-w9 and t/S finite."""
MAX_STABILITY_DAYS: Final = 36_500.0
"""A hundred years, the scheduler's own maximal interval: products of S stay finite whatever is folded."""
MIN_DIFFICULTY: Final = 1.0
MAX_DIFFICULTY: Final = 10.0


def after_success(w: Weights, stability_days: float, difficulty: float, recall: float) -> float:
    """Stability in days after a success at *good*, recalled with probability `recall`."""
    damped = (11.0 - difficulty) * math.pow(stability_days, -w[9])
    return stability_days * (1.0 + math.exp(w[8]) * damped * math.expm1(w[10] * (1.0 - recall)))


def after_failure(w: Weights, stability_days: float, difficulty: float, recall: float) -> float:
    """Stability in days after a lapse, never above the formula's own cap S/e^(w17·w18)."""
    grown = math.pow(stability_days + 1.0, w[13]) - 1.0
    lapsed = w[11] * math.pow(difficulty, -w[12]) * grown * math.exp(w[14] * (1.0 - recall))
    return min(lapsed, stability_days / math.exp(w[17] * w[18]))


def difficulty_after(w: Weights, difficulty: float, signal: float, fraction: float) -> float:
    """Difficulty after an outcome of `signal` in [0, 1], moved by `fraction` in [0, 1] of the full step.

    ΔD = -w6·(s-0.5)·2, damped by (10-D)/9, clamped to [1, 10]; no mean reversion (DESIGN §3).
    """
    step = -w[6] * (signal - 0.5) * 2.0 * (MAX_DIFFICULTY - difficulty) / 9.0
    return min(max(difficulty + fraction * step, MIN_DIFFICULTY), MAX_DIFFICULTY)
