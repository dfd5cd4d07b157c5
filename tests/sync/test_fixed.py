"""Fixed-point numbers: rounded once, halves to even, and nothing that could poison a sum gets in."""

import math
from decimal import ROUND_HALF_EVEN, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loremesh.sync.errors import InvalidInput
from loremesh.sync.fixed import MAX_FX, MAX_MASS, ONE, from_fx, to_fx, unit_to_fx


@given(st.floats(0, MAX_MASS))
def test_a_float_is_rounded_once_halves_to_even(x: float) -> None:
    assert to_fx(x, "weight") == int((Decimal(x) * ONE).quantize(Decimal(1), ROUND_HALF_EVEN))


@given(st.integers(0, MAX_FX))
def test_every_fixed_point_number_survives_the_way_out_and_in(i: int) -> None:
    assert to_fx(from_fx(i), "weight") == i


@pytest.mark.parametrize("x", [math.nan, math.inf, -math.inf, -1e-300, -5.0, 1e9, MAX_MASS + 1e-9])
def test_a_number_out_of_bounds_is_refused_naming_the_field(x: float) -> None:
    with pytest.raises(InvalidInput, match="alpha"):
        to_fx(x, "alpha")


@pytest.mark.parametrize("x", [math.nan, -0.1, 1.0000001, 2.0])
def test_a_share_above_one_or_below_zero_is_refused_naming_the_field(x: float) -> None:
    with pytest.raises(InvalidInput, match="trust"):
        unit_to_fx(x, "trust")


def test_a_share_is_in_65536ths() -> None:
    assert [unit_to_fx(x, "trust") for x in (0.0, 0.5, 1.0)] == [0, ONE // 2, ONE]
