"""Simulated raters get the weight that what they say is worth; chance and too little data change nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from loremesh.node.calibration import (
    MAX_WORTH,
    MIN_BLOCKS,
    Calibration,
    Cases,
    calibrate,
    cases_of,
)

Floats = NDArray[np.float64]
Says = Callable[[Floats, np.random.Generator], Floats]

STATED = 0.5
"""Outcomes that a rating states: the default of `rating_weight`."""


def worth_four(theta: Floats, random: np.random.Generator) -> Floats:
    """Beta-distributed round the truth as if four outcomes had been seen."""
    return random.beta(4.0 * theta + 1e-3, 4.0 * (1.0 - theta) + 1e-3)


def noisy(theta: Floats, random: np.random.Generator) -> Floats:
    return np.clip(theta + random.normal(0.0, 0.25, len(theta)), 0.0, 1.0)


def flattering(theta: Floats, _: np.random.Generator) -> Floats:
    return 0.6 + 0.4 * theta


def useless(theta: Floats, random: np.random.Generator) -> Floats:
    return random.uniform(0.0, 1.0, len(theta))


def inverted(theta: Floats, _: np.random.Generator) -> Floats:
    return 1.0 - theta


def constant(theta: Floats, _: np.random.Generator) -> Floats:
    return np.full(len(theta), 0.8)


def world(
    says: dict[str, Says],
    blocks: int = 600,
    outcomes: int = 5,
    seed: int = 0,
    shape: tuple[float, float] = (1.0, 1.0),
) -> Cases:
    """Blocks whose chance of success is Beta(shape), the default prior, and what each rater says of them."""
    random = np.random.default_rng(seed)
    theta = random.beta(*shape, size=blocks)
    said = {name: how(theta, random) for name, how in says.items()}
    taken = []
    for block in range(blocks):
        alpha = beta = 0.5
        stated = [(name, STATED * r[block], STATED * (1.0 - r[block])) for name, r in said.items()]
        for _ in range(outcomes):
            signal = float(random.random() < theta[block])
            taken.append((block, signal, 1.0, alpha, beta, stated))
            alpha, beta = alpha + signal, beta + 1.0 - signal
    return cases_of(taken)


def judged(says: Says, seed: int = 0, blocks: int = 600) -> Calibration:
    (found,) = calibrate(world({"rater": says}, blocks, seed=seed), {})
    return found


@pytest.mark.parametrize("seed", range(3))
def test_a_rating_as_good_as_four_outcomes_is_found_to_be_worth_about_four(seed: int) -> None:
    """The likeliest worth is near the truth, inside its interval, and held-out outcomes bear it out."""
    found = judged(worth_four, seed)
    assert found.better
    assert 2.8 <= found.worth <= 5.2
    assert found.low <= found.worth <= found.high
    assert found.low >= 2.0
    assert found.multiplier == pytest.approx(found.worth / STATED)
    assert found.loss_after < found.loss_before
    assert found.gain == pytest.approx(found.loss_before - found.loss_after)
    assert 0.0 < found.gain_at_least < found.gain


def test_a_rater_that_knows_is_believed_up_to_the_bound_and_no_further() -> None:
    """Even one that says the very chance is overruled by some weeks of use."""
    found = judged(lambda theta, _: theta)
    assert found.better
    assert found.worth == pytest.approx(MAX_WORTH)


@pytest.mark.parametrize("seed", range(3))
def test_noise_costs_weight(seed: int) -> None:
    """A noisy rater is worth more than as stated, and less than a better one."""
    found = judged(noisy, seed)
    assert found.better
    assert STATED < found.worth < judged(worth_four, seed).worth


@pytest.mark.parametrize("seed", range(3))
def test_a_rater_that_flatters_is_believed_little_though_it_knows(seed: int) -> None:
    """Its order is perfect and its level is not: forecasts can use little of it. The bias is told."""
    found = judged(flattering, seed)
    assert found.worth < 1.2
    assert found.bias == pytest.approx(0.3, abs=0.05)
    assert found.informed


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("says", [useless, inverted])
def test_ratings_that_tell_nothing_or_the_contrary_count_for_nothing(says: Says, seed: int) -> None:
    """Pure noise, and a rater that has it the wrong way round."""
    found = judged(says, seed)
    assert found.better
    assert (found.multiplier, found.worth, found.low) == (0.0, 0.0, 0.0)
    assert not found.informed
    if says is inverted:
        assert found.correlation < -0.3
        assert found.gain_at_least > 0.0


def test_useless_ratings_whose_mean_helps_are_not_silenced_by_chance() -> None:
    """Where things mostly go well, 0.8 for everything forecasts better than no rating: told, and kept."""
    (found,) = calibrate(world({"rater": constant}, shape=(4.0, 1.0)), {})
    assert not found.informed
    assert not found.better
    assert found.gain_at_most < 0.0


@pytest.mark.parametrize("seed", range(3))
def test_the_weight_in_force_is_left_alone_once_it_is_right(seed: int) -> None:
    """Weighing again what was just weighed changes nothing."""
    cases = world({"rater": worth_four}, seed=seed)
    (found,) = calibrate(cases, {})
    (again,) = calibrate(cases, {"rater": found.multiplier})
    assert not again.better
    assert again.multiplier == pytest.approx(found.multiplier, rel=0.02)
    assert again.before == found.multiplier


def test_a_rater_that_was_silenced_can_come_back() -> None:
    """A weight of nothing is a weight in force like any other."""
    (found,) = calibrate(world({"rater": worth_four}), {"rater": 0.0})
    assert found.better
    assert 2.8 <= found.worth <= 5.2
    assert found.worth_before == 0.0


def test_two_that_say_the_same_are_not_believed_twice() -> None:
    """An echo of a rater adds nothing once the rater is weighed."""
    random = np.random.default_rng(7)
    echo: list[Floats] = []

    def first(theta: Floats, _: np.random.Generator) -> Floats:
        echo.append(worth_four(theta, random))
        return echo[0]

    found = calibrate(world({"a": first, "b": lambda theta, _: echo[0]}), {})
    weights = {one.rater: one.worth if one.better else one.worth_before for one in found}
    assert 2.8 <= sum(weights.values()) <= 5.5


def test_a_good_rater_is_told_from_a_useless_one_on_the_same_blocks() -> None:
    """Each is judged with the other's ratings in what else was known."""
    found = {one.rater: one for one in calibrate(world({"good": worth_four, "bad": useless}), {})}
    assert found["good"].better
    assert found["good"].worth > 2.0
    assert found["bad"].multiplier == 0.0


def test_too_few_blocks_or_too_few_failures_change_nothing() -> None:
    """However well it looks: below the bounds there is no telling."""
    few = judged(worth_four, blocks=MIN_BLOCKS - 1)
    assert not few.enough
    assert not few.better
    (sure,) = calibrate(world({"rater": worth_four}, shape=(1e4, 1.0)), {})
    assert sure.blocks == 600
    assert not sure.enough
    assert not sure.better


def test_no_useless_rater_is_raised_by_chance() -> None:
    """Over twenty small worlds no noise gets more weight than it stated."""
    for seed in range(20):
        found = judged(useless, seed, blocks=80)
        assert not (found.better and found.multiplier > 1.0)


def test_the_slow_and_obvious_likelihood_agrees() -> None:
    """The likeliest weight is that of ten plain lines over a fine grid."""
    cases = world({"rater": worth_four}, blocks=120, outcomes=3, seed=5)
    (found,) = calibrate(cases, {})

    def cost(multiplier: float) -> float:
        stated = cases.raters["rater"]
        total = 0.0
        for at in range(len(cases.signal)):
            alpha = cases.alpha[at] + multiplier * stated.alpha[at]
            beta = cases.beta[at] + multiplier * stated.beta[at]
            forecast = alpha / (alpha + beta)
            total -= float(np.log(forecast if cases.signal[at] else 1.0 - forecast))
        return total

    grid = np.linspace(0.0, 32.0, 641)
    assert found.multiplier == pytest.approx(grid[int(np.argmin([cost(one) for one in grid]))], abs=0.1)


def test_nothing_rated_is_nothing_to_weigh() -> None:
    """No outcomes: no raters; ratings stated without weight: nothing to multiply."""
    assert calibrate(cases_of([]), {}) == []
    (found,) = calibrate(cases_of([(0, 1.0, 1.0, 0.5, 0.5, [("rater", 0.0, 0.0)])]), {})
    assert (found.multiplier, found.better, found.enough) == (1.0, False, False)


def test_progress_is_told_by_rater() -> None:
    """From none to all of them."""
    seen: list[tuple[int, int]] = []
    calibrate(world({"a": noisy, "b": noisy}, blocks=60), {}, lambda done, total: seen.append((done, total)))
    assert seen == [(0, 2), (1, 2), (2, 2)]
