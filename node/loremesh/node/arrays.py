"""Growable arrays of hot scalars: read and written one by one at Python speed, seen by numpy without a copy.

A numpy scalar costs several times what an `array.array` item costs, and the fold touches a dozen per event.
An `array.array` cannot be resized while numpy looks at it, so those of `columns` are never resized: each is
replaced by a longer one. A view follows writes only until the next growth, so it is to be used at once.
"""

from __future__ import annotations

from array import array
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

FIRST_CAPACITY: Final = 64

Number = TypeVar("Number", int, float)
Scalar = TypeVar("Scalar", bound=np.generic)


def capacity_for(length: int, present: int) -> int:
    """The capacity to grow to: doubled, so that growing costs a constant per row, and at least `length`."""
    return max(length, present * 2, FIRST_CAPACITY)


def grown(old: array[Number], value: Number, capacity: int) -> array[Number]:
    """A copy of `old` with `capacity` items, the new ones equal to `value`; views on `old` stay."""
    item = old[:0]
    item.append(value)
    return old + item * (capacity - len(old))


def view(values: array[int] | array[float], kind: type[Scalar], length: int) -> NDArray[Scalar]:
    """The first `length` items as numpy sees them, read-only, without a copy; `kind` has their layout."""
    seen = np.frombuffer(values, dtype=kind, count=length)
    seen.flags.writeable = False
    return seen
