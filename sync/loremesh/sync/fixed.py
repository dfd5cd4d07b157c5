"""Fixed-point numbers: evidence, trust and weights as integer multiples of 2⁻¹⁶ (DESIGN §1).

Sums of integers are exact and do not depend on their order, so that two nodes which hold the same evidence
hold the same numbers. A float is rounded once, on its way in.
"""

import math

from loremesh.sync.errors import InvalidInput

ONE = 1 << 16
"""The fixed-point integer that stands for 1.0."""

MAX_MASS = 1 << 20
"""The largest raw mass of one register, in outcomes (DESIGN §4, "Combine")."""

MAX_FX = MAX_MASS * ONE
"""`MAX_MASS` as a fixed-point integer, 2³⁶: products with a cap below 2²⁷ still fit 63 bits."""


def to_fx(x: float, field: str) -> int:
    """The fixed-point integer nearest to `x`, halves to even.

    Raises InvalidInput, naming `field`, for NaN, infinities, negative numbers and more than `MAX_MASS`.
    """
    if not math.isfinite(x) or x < 0 or x > MAX_MASS:
        raise InvalidInput(field, f"is {x!r}; it must be a finite number from 0 to {MAX_MASS}")
    # Scaling by a power of two is exact and round() takes halves to even, so this rounds once.
    return round(x * ONE)


def unit_to_fx(x: float, field: str) -> int:
    """As `to_fx`, for a share, trust or multiplier: refuses what is above 1 as well."""
    if not math.isfinite(x) or x < 0 or x > 1:
        raise InvalidInput(field, f"is {x!r}; it must be a finite number from 0 to 1")
    return round(x * ONE)


def from_fx(i: int) -> float:
    """The float a fixed-point integer stands for; exact up to 2⁵³."""
    return i / ONE
