"""The Beta distribution's distribution function and quantiles, for credible intervals. Arrays in, arrays out.

The continued fraction is that of the incomplete beta function (NIST Digital Library of Mathematical
Functions, 8.17.22), evaluated by the modified Lentz algorithm.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

MAX_TERMS: Final = 10_000
"""Terms of the continued fraction: some √max(a, b) are needed, and a register holds 2²⁰ outcomes."""

MAX_STEPS: Final = 100
"""Steps towards a quantile. Newton's take five to ten; halving the bracket, where they leave it, fifty."""

NEAR: Final = 1e-6
"""Relative size of the last step, from either end of [0, 1]."""

_TINY: Final = 1e-300
_CLOSE: Final = 1e-11


def cdf(x: ArrayLike, a: ArrayLike, b: ArrayLike) -> Floats:
    """P(X ≤ x) for X ~ Beta(a, b), elementwise; a, b > 0 and x in [0, 1]."""
    x_, a_, b_ = (np.array(one, np.float64) for one in np.broadcast_arrays(x, a, b))
    return _cdf(x_, a_, b_, _log_beta(a_, b_))


def quantile(p: float, a: ArrayLike, b: ArrayLike) -> Floats:
    """The x with P(X ≤ x) = p for X ~ Beta(a, b), elementwise; a, b > 0 and 0 < p < 1."""
    shapes = np.broadcast_arrays(a, b)
    a_, b_ = (np.array(one, np.float64).ravel() for one in shapes)
    log_beta = _log_beta(a_, b_)
    mean = a_ / (a_ + b_)
    spread = np.sqrt(mean * (1.0 - mean) / (a_ + b_ + 1.0))
    found = np.clip(mean + NormalDist().inv_cdf(p) * spread, 0.01 * mean, 1.0 - 0.01 * (1.0 - mean))
    low, high = np.zeros_like(a_), np.ones_like(a_)
    open_ = np.arange(len(a_))
    for _ in range(MAX_STEPS):
        x, shape_a, shape_b, log_b = found[open_], a_[open_], b_[open_], log_beta[open_]
        over = _cdf(x, shape_a, shape_b, log_b) - p
        low[open_] = np.where(over < 0.0, x, low[open_])
        high[open_] = np.where(over < 0.0, high[open_], x)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            density = np.exp((shape_a - 1.0) * np.log(x) + (shape_b - 1.0) * np.log1p(-x) - log_b)
            step = x - over / density
        inside = np.isfinite(step) & (step >= low[open_]) & (step <= high[open_])
        moved = np.where(inside, step, 0.5 * (low[open_] + high[open_]))
        found[open_] = moved
        # Newton's steps double the digits: the error left is the square of the last step.
        open_ = open_[np.abs(moved - x) > NEAR * np.minimum(moved, 1.0 - moved) + _TINY]
        if not len(open_):
            break
    return found.reshape(shapes[0].shape)


def _log_beta(a: Floats, b: Floats) -> Floats:
    values = [
        math.lgamma(one) + math.lgamma(other) - math.lgamma(one + other)
        for one, other in zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)
    ]
    return np.array(values, np.float64).reshape(a.shape)


def _cdf(x: Floats, a: Floats, b: Floats, log_beta: Floats) -> Floats:
    # The fraction converges fast below the mean; above it the complement's does.
    swap = x > (a + 1.0) / (a + b + 2.0)
    x_, a_, b_ = np.where(swap, 1.0 - x, x), np.where(swap, b, a), np.where(swap, a, b)
    with np.errstate(divide="ignore", invalid="ignore"):
        front = np.exp(a_ * np.log(x_) + b_ * np.log1p(-x_) - log_beta) / a_
    part = np.where(x_ > 0.0, front / _fraction(x_, a_, b_), 0.0)
    return np.where(swap, 1.0 - part, part)


def _fraction(x: Floats, a: Floats, b: Floats) -> Floats:
    """The continued fraction's value, 1 + d₁/(1 + d₂/(1 + …))."""
    value = np.ones_like(x)
    c, d = np.ones_like(x), np.zeros_like(x)
    for term in range(1, MAX_TERMS):
        m = term // 2
        if term % 2 == 0:
            numerator = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        else:
            numerator = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        d = 1.0 + numerator * d
        d = 1.0 / np.where(np.abs(d) < _TINY, _TINY, d)
        c = 1.0 + numerator / c
        c = np.where(np.abs(c) < _TINY, _TINY, c)
        value *= c * d
        if bool((np.abs(c * d - 1.0) <= _CLOSE).all()):
            break
    return value
