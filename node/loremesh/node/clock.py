"""Active time: a clock that runs while this node's agent uses the memory and stands still when it is idle."""

from __future__ import annotations

import math
from typing import Final

import msgspec

MS_PER_HOUR: Final = 3_600_000
IDLE_GAP_H: Final = 0.5
WALL: Final = math.inf


class ActiveClock(msgspec.Struct):
    """Hours of use so far, and the wall time at which they were read.

    `hour`: active hours since the home was created. `wall_ms`: milliseconds since 1970, UTC. `idle_gap_h`:
    how much silence still counts as use; of a longer one only that much counts, so that the clock has no
    step at the gap's end. `WALL` (infinity) makes it a wall clock.

    >>> clock = ActiveClock(hour=0.0, wall_ms=0)
    >>> clock.advance(900_000), clock.advance(900_000 + 30 * 24 * MS_PER_HOUR)
    (0.25, 0.75)
    """

    hour: float
    wall_ms: int
    idle_gap_h: float = IDLE_GAP_H

    def __post_init__(self) -> None:
        if not (math.isfinite(self.hour) and self.hour >= 0.0):
            raise ValueError(f"hour must be finite and at least 0, not {self.hour}")
        if not self.idle_gap_h > 0.0:
            raise ValueError(f"idle_gap_h must be above 0, not {self.idle_gap_h}")

    def advance(self, wall_ms: int) -> float:
        """The active hour at wall time `wall_ms`. A wall clock set back adds nothing and is followed."""
        passed_h = max(0, wall_ms - self.wall_ms) / MS_PER_HOUR
        self.hour += min(passed_h, self.idle_gap_h)
        self.wall_ms = wall_ms
        return self.hour
