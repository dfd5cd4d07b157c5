"""ACT-R's base-level activation (Anderson & Schooler 1991): recall from when a block was used, not from S.

B = ln Σ wⱼ·tⱼ^-d over the block's uses, tⱼ their age, d = 0.5; e^B is proportional to the odds that the block
is needed now. Of a block's uses the last four are kept exactly; the others count as spread evenly between the
first and the oldest of these four (Petrov 2006, "Computationally efficient approximation of the base-level
learning equation in ACT-R"), Σ ≈ W·(tₙ^(1-d) - tₖ^(1-d)) / ((1-d)(tₙ - tₖ)), which is W·2/(√tₙ + √tₖ) here.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loremesh.node.rules import NO_STABILITY_H, START_STABILITY_H, Free, Past, Pasts, RuleSet

KEPT: Final = 4
"""Uses kept exactly. With one the approximation is within a few percent of the sum; four are cheap."""

WEIGHTS: Final = (START_STABILITY_H, 1.0)
"""Hours after which a block used once has R = 0.9, and the noise s: R = 1/(1 + e^((τ - B)/s)). At s = 1 the
odds of recall are Anderson & Schooler's need odds, and fall with t^-d."""

FIRST, REST, LAST = 0, 1, 2
"""Places in a past: hour of the first use, weight of the uses not kept, hour of the last own event. Then
KEPT pairs (hour, weight), the latest first; weight 0 where there is none."""
TRACES: Final = 3
HISTORY: Final = (
    ("first_h", 0.0),
    ("rest", 0.0),
    ("last_h", 0.0),
    *((f"{name}_{place}", 0.0) for place in range(KEPT) for name in ("use_h", "weight")),
)

_NINE: Final = 9.0
"""Odds of R = 0.9."""


def lay(past: Past, hour: float, weight: float) -> None:
    """Note a use of that weight at `hour`, which is not before the last one."""
    past[LAST] = hour
    if weight <= 0.0:
        return
    if past[TRACES + 1] == 0.0:
        past[FIRST] = hour
    elif past[TRACES] != hour:
        past[REST] += past[-1]
        past[TRACES + 2 :] = past[TRACES:-2]
        past[TRACES + 1] = 0.0
    past[TRACES] = hour
    past[TRACES + 1] += weight


def touch(past: Past, hour: float) -> None:
    """Learning and rating are uses of weight 1."""
    lay(past, hour, 1.0)


def strength(
    hour: float | NDArray[np.float64], columns: tuple[NDArray[np.float64], ...]
) -> NDArray[np.float64]:
    """e^B at `hour` from the pasts in `columns`, float64[n]: Σ w/√t; +∞ where a use is right now."""
    with np.errstate(divide="ignore", invalid="ignore"):
        total = np.zeros_like(columns[FIRST])
        for place in range(TRACES, TRACES + 2 * KEPT, 2):
            age = np.sqrt(np.maximum(hour - columns[place], 0.0))
            total += np.where(columns[place + 1] > 0.0, columns[place + 1] / age, 0.0)
        oldest = np.sqrt(np.maximum(hour - columns[FIRST], 0.0))
        rest = columns[REST]
        total += np.where(rest > 0.0, rest * 2.0 / (oldest + age), 0.0)
    return total


def base_level(weights: tuple[float, ...] = WEIGHTS) -> RuleSet:
    """The set with (hours to R = 0.9 after one use, noise s) = `weights`.

    An outcome is a use of weight `fraction`·`signal`: what failed was not retrieved, and activation knows
    nothing of it. S and D are no part of the model and stay as they were. Where nothing is remembered of a
    block (it is known only from peers) it counts as used once, when its last event was, with a weight that
    gives R(S) = 0.9. Peers' evidence newer than the block's last own event is one more use.
    """
    once_h, noise = weights
    base = 1.0 / math.sqrt(once_h)
    power = 1.0 / noise

    def step(
        stability_h: float,
        difficulty: float,
        signal: float,
        fraction: float,
        elapsed_h: float,
        hour: float = 0.0,
        past: Past | None = None,
        /,
    ) -> tuple[float, float]:
        if past is not None:
            if past[TRACES + 1] == 0.0:
                lay(past, hour - elapsed_h, math.sqrt(stability_h / once_h))
            lay(past, hour, fraction * signal)
        return stability_h, difficulty

    def retrievability(
        elapsed_h: NDArray[np.float64], stability_h: NDArray[np.float64], pasts: Pasts | None = None, /
    ) -> NDArray[np.float64]:
        elapsed = np.maximum(elapsed_h, 0.0)
        with np.errstate(divide="ignore", over="ignore"):
            total = np.sqrt(np.maximum(stability_h, NO_STABILITY_H) / (once_h * elapsed))
            if pasts is not None:
                used = pasts.columns[TRACES + 1] > 0.0
                own = strength(pasts.hour, pasts.columns)
                later = elapsed < pasts.hour - pasts.columns[LAST]
                own += np.where(later, 1.0 / np.sqrt(elapsed), 0.0)
                total = np.where(used, own, total)
            against = np.power(base / total, power)
        fading: NDArray[np.float64] = 1.0 / (1.0 + against / _NINE)
        return fading

    return RuleSet(
        "actr",
        step,
        retrievability,
        weights,
        (Free(0, 0.1, 10_000.0), Free(1, 0.1, 5.0)),
        base_level,
        HISTORY,
        touch,
    )
