"""The Beta distribution against identities that hold exactly."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loremesh.node.beta import cdf, quantile

shapes = st.floats(0.5, 1e6)


@given(st.integers(1, 60), st.integers(1, 60), st.floats(0.0, 1.0))
def test_for_whole_shapes_it_is_a_binomial_tail(a: int, b: int, x: float) -> None:
    """P(X ≤ x) for Beta(a, b) is the chance of a or more successes in a + b - 1 trials of chance x."""
    n = a + b - 1
    tail = math.fsum(math.comb(n, k) * x**k * (1.0 - x) ** (n - k) for k in range(a, n + 1))
    assert float(cdf(x, a, b)) == pytest.approx(tail, abs=1e-10)


@given(st.floats(0.001, 0.999))
def test_for_half_shapes_quantiles_are_those_of_the_arcsine_law(p: float) -> None:
    assert float(quantile(p, 0.5, 0.5)) == pytest.approx(math.sin(0.5 * math.pi * p) ** 2, rel=1e-8)


@given(shapes, shapes, st.sampled_from([0.05, 0.5, 0.95]))
def test_a_quantile_is_where_the_distribution_function_has_that_value(a: float, b: float, p: float) -> None:
    """Also for masses as large as a register holds."""
    assert float(cdf(quantile(p, a, b), a, b)) == pytest.approx(p, abs=1e-7)


def test_arrays_are_worked_on_element_by_element() -> None:
    a, b = np.array([1.0, 8.5, 0.5]), np.array([1.0, 0.5, 8.5])
    alone = [float(quantile(0.05, x, y)) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert quantile(0.05, a, b).tolist() == pytest.approx(alone, rel=1e-9)
    assert alone[0] == pytest.approx(0.05)
