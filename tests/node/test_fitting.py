"""Fitting weights: what is forecast, that a fit finds what made the data, and that chance is refused."""

import numpy as np
import pytest

from loremesh.node.fitting import (
    CLIP,
    Happened,
    clustered_mean,
    enough,
    fit,
    fitted_weights,
    forecasts,
    log_loss,
)
from loremesh.node.rulebook import ACTR, HLR, RULE_SETS, SM2, with_weights
from loremesh.node.rules import FSRS5, FSRS6, RuleSet

every_set = pytest.mark.parametrize("rules", RULE_SETS.values(), ids=list(RULE_SETS))


def made_by(rules: RuleSet, blocks: int, outcomes: int, seed: int = 5) -> list[list[Happened]]:
    """Blocks whose outcomes go as `rules` forecast them: drawn one by one from R."""
    random = np.random.default_rng(seed)
    made = []
    for block in range(blocks):
        hour = float(block)
        events = [Happened(block, hour, 0.0, None)]
        for number in range(outcomes):
            wait_h = float(random.exponential(50.0 * 1.8**number))
            hour += wait_h
            n = blocks * (number + 1) + block
            open_ = [*events, Happened(n, hour, wait_h, 1.0, 1.0, 1.0)]
            recall = forecasts(rules, [open_]).recall[-1]
            events.append(Happened(n, hour, wait_h, float(random.random() < recall), 1.0, 1.0))
        made.append(events)
    return made


@every_set
def test_forecasts_are_what_recall_would_have_read(rules: RuleSet) -> None:
    """Before each judged outcome: R from S, D and the past then; implicit ones move and are not told."""
    events = [
        Happened(1, 0.0, 0.0, None),
        Happened(2, 30.0, 30.0, 1.0, 1.0, 1.0),
        Happened(3, 40.0, 10.0, 1.0, 0.1, 0.0),
        Happened(4, 300.0, 260.0, 0.0, 0.5, 0.5),
        Happened(5, 300.0, 0.0, 1.0, 1.0, 1.0),
    ]
    told = forecasts(rules, [[], events])
    assert told.n.tolist() == [2, 4, 5]
    assert told.block.tolist() == [1, 1, 1]
    assert told.weight.tolist() == [1.0, 0.5, 1.0]
    assert told.signal.tolist() == [1.0, 0.0, 1.0]
    assert told.recall.min() >= CLIP
    assert told.recall.max() <= 1.0 - CLIP
    if not rules.history:
        assert told.recall[2] == 1.0 - CLIP  # no time has passed
    assert forecasts(rules, [events], until=4).n.tolist() == [2]


def test_a_learning_that_raises_stability_is_seen() -> None:
    """Known from peers first, failed, then learned: S is back at a day."""
    failed = [Happened(1, 0.0, 0.0, 0.0, 1.0, 1.0), Happened(2, 1.0, 1.0, None, raised=True)]
    last = Happened(3, 25.0, 24.0, 1.0, 1.0, 1.0)
    told = forecasts(FSRS5, [[*failed, last]])
    assert told.recall[1] == pytest.approx(0.9)
    assert forecasts(FSRS5, [[failed[0], last]]).recall[1] < 0.89


def test_a_fit_finds_what_made_the_data_and_forecasts_later_events_better() -> None:
    """Half the growth per success: the fit's held-out loss comes near that of the weights that made it."""
    weights = tuple(value * (0.4 if index in (8, 11) else 1.0) for index, value in enumerate(FSRS5.weights))
    truth = with_weights(FSRS5, weights)
    blocks = made_by(truth, blocks=300, outcomes=8)
    found = fit(FSRS5, FSRS5.weights, blocks)
    assert found.better
    assert found.gain_at_least > 0.0
    assert (found.trained, found.held_out, found.blocks) == (1920, 480, 300)
    ideal = fit(truth, truth.weights, blocks).held_out_loss.before
    won = (found.held_out_loss.before - found.held_out_loss.after) / (found.held_out_loss.before - ideal)
    assert won > 0.8


@pytest.mark.parametrize("rules", [FSRS5, FSRS6, HLR, SM2, ACTR], ids=lambda rules: str(rules.name))
def test_a_fit_never_leaves_its_own_data_worse(rules: RuleSet) -> None:
    """Any set with weights can be fitted; on what it saw it is at least as good as before."""
    blocks = made_by(FSRS5, blocks=60, outcomes=8)
    found = fit(rules, rules.weights, blocks)
    assert found.train_loss.after <= found.train_loss.before + 1e-9
    for free in rules.free:
        assert free.low * (1 - 1e-9) <= found.weights[free.index] <= free.high * (1 + 1e-9)
    used = {free.index for free in rules.free}
    assert all(
        found.weights[index] == rules.weights[index]
        for index in range(len(rules.weights))
        if index not in used
    )


def test_weights_that_made_the_data_are_not_bettered() -> None:
    """Where the weights in use are the true ones, what a fit gains is chance, and it says so."""
    found = [fit(FSRS5, FSRS5.weights, made_by(FSRS5, 100, 8, seed)) for seed in range(4)]
    assert not any(one.better for one in found)
    assert max(one.gain for one in found) < 0.02


def test_a_gain_that_no_rare_outcome_has_tested_is_not_believed() -> None:
    """All went well: forecasting more of the same looks better, and nothing has proved it."""
    blocks = [
        [Happened(0, 0.0, 0.0, None)]
        + [Happened(number, 30.0 * number, 30.0, 1.0, 1.0, 1.0) for number in range(1, 9)]
        for _ in range(60)
    ]
    found = fit(FSRS5, FSRS5.weights, blocks)
    assert found.gain_at_least > 0.0
    assert found.rarer == 0.0
    assert not found.better


def test_few_events_leave_the_published_weights_nearly_where_they_are() -> None:
    """The prior holds: one outcome of each kind moves no weight by more than a few per cent."""
    blocks = [[Happened(0, 0.0, 0.0, None), Happened(1, 24.0, 24.0, 1.0, 1.0, 1.0)]]
    weights, _ = fitted_weights(FSRS5, FSRS5.weights, blocks)
    assert weights == pytest.approx(FSRS5.weights, rel=0.05)
    assert not enough(blocks)


def test_the_interval_counts_blocks_not_outcomes() -> None:
    """Forty equal values in each of four blocks are four observations."""
    values = np.repeat([1.0, 0.0, 1.0, 0.0], 40)
    mean, error = clustered_mean(values, np.ones(160), np.repeat(np.arange(4), 40))
    assert mean == 0.5
    assert error == pytest.approx(np.sqrt(4 * 0.25 / 3) / 2)
    assert clustered_mean(values, np.ones(160), np.zeros(160, np.int64))[1] == np.inf


def test_the_loss_is_the_surprise_at_what_happened() -> None:
    """-ln R for a success, -ln(1-R) for a failure, between them in between."""
    loss = log_loss(np.array([0.8, 0.8, 0.8]), np.array([1.0, 0.0, 0.5]))
    assert loss.tolist() == pytest.approx([0.22314, 1.60944, 0.91629], abs=1e-5)
