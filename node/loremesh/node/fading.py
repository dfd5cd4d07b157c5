"""How recall fades from here on if nothing happens: R at hours to come, and when it falls to a level.

The curve is that of the rules in use, whatever they remember. Every rule set's R falls as active hours pass
without an event, so the hour at which it reaches a level is found by halving.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.node.rules import MAX_STABILITY_H, Pasts, RuleSet

Floats = NDArray[np.float64]

MAX_AHEAD_H: Final = MAX_STABILITY_H
"""How far ahead a fall is looked for: the longest stability there is, a hundred years of use."""

_HALVINGS: Final = 60
"""Of the interval of ln(1 + hours): what is left of it is less than the last bit of the hours."""


class Fading(msgspec.Struct, frozen=True, eq=False):
    """Some blocks at the active hour `hour`: what their curves start from, [n] each.

    `t_last_h` is -inf for a block nothing has happened to. `pasts`: what the rules remember, by entry.
    """

    rules: RuleSet
    hour: float
    t_last_h: Floats
    stability_h: Floats
    pasts: tuple[Floats, ...] | None

    def after(self, ahead_h: float | Floats) -> Floats:
        """R[n] in [0, 1] that many active hours from now (one figure for all, or [n])."""
        then = np.broadcast_to(np.asarray(self.hour + ahead_h, np.float64), self.t_last_h.shape)
        pasts = None if self.pasts is None else Pasts(then, self.pasts)
        return self.rules.retrievability(then - self.t_last_h, self.stability_h, pasts)

    def until(self, level: float) -> Floats:
        """Active hours from now until R has fallen to `level`, [n]: 0 where it is there or below already,
        +inf where it is not within MAX_AHEAD_H.
        """
        low = np.zeros(len(self.t_last_h))
        high = np.full(len(self.t_last_h), math.log1p(MAX_AHEAD_H))
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            fallen = self.after(np.expm1(middle)) <= level
            high = np.where(fallen, middle, high)
            low = np.where(fallen, low, middle)
        found: Floats = np.expm1(high)
        found[self.after(0.0) <= level] = 0.0
        found[self.after(MAX_AHEAD_H) > level] = np.inf
        return found
