"""How recall fades from here on: the curve of the rules in use, and when it falls to a level."""

import math

import numpy as np
import pytest

from loremesh.node.fading import MAX_AHEAD_H, Fading
from loremesh.node.history import History
from loremesh.node.rulebook import RULE_SETS, get_rules
from loremesh.node.rules import RuleSet
from tests.node.agents import Agent

NAMES = [*RULE_SETS, "actr+bkt"]
every_set = pytest.mark.parametrize("rules", [get_rules(name) for name in NAMES], ids=NAMES)


def lived(rules: RuleSet) -> Fading:
    """Three blocks: used often, failed of late, learned and left alone."""
    agent = Agent(rules)
    for row in range(3):
        agent.learn(row)
    for minutes in (20, 25, 30, 15):
        agent.wait(minutes)
        agent.outcome(0)
    agent.outcome(1, signal=0.0)
    agent.wait(10)
    own, hour = agent.state, agent.clock.hour
    seen = own.columns.views(3)
    pasts = own.history.pasts(hour, 3)
    return Fading(own.rules, hour, seen.t_last_h, seen.stability_h, None if pasts is None else pasts.columns)


@every_set
def test_the_hour_found_is_where_the_curve_crosses_the_level(rules: RuleSet) -> None:
    """For every rule set: just before, R is above the level, and there it is at it; or a hundred years of use
    do not bring it there.
    """
    fading = lived(rules)
    for level in (0.95, 0.9, 0.5, 0.1):
        hours = fading.until(level)
        assert (fading.after(MAX_AHEAD_H)[np.isinf(hours)] > level).all()
        hours = np.where(np.isinf(hours), 0.0, hours)
        ahead = hours > 0
        assert ahead.any() or level == 0.1
        assert fading.after(hours)[ahead] == pytest.approx(level, abs=1e-9)
        assert (fading.after(0.999 * hours)[ahead] > level).all()
        assert ((fading.after(0.0) <= level) | ahead | (fading.after(MAX_AHEAD_H) > level)).all()


def test_with_fsrs_recall_is_at_nine_tenths_after_the_stability() -> None:
    """R(S) = 0.9, and R = 0.5 when (1 + 19/81·t/S) is 4, counted from the last event."""
    fading = lived(get_rules("fsrs5"))
    since = fading.hour - fading.t_last_h
    assert fading.until(0.9) == pytest.approx(fading.stability_h - since, rel=1e-9)
    assert fading.until(0.5) == pytest.approx(3 * 81 / 19 * fading.stability_h - since, rel=1e-9)


def test_what_has_fallen_already_and_what_never_falls() -> None:
    """0 for a block below the level or that nothing ever happened to; +inf beyond a hundred years of use."""
    long_ago = Fading(
        get_rules("fsrs5"),
        1000.0,
        np.array([0.0, -math.inf, 1000.0, 1000.0]),
        np.array([24.0, 24.0, MAX_AHEAD_H, MAX_AHEAD_H / 2]),
        None,
    )
    assert long_ago.until(0.9).tolist()[:2] == [0.0, 0.0]
    assert long_ago.until(0.5)[2] == math.inf
    assert long_ago.until(0.9)[3] == pytest.approx(MAX_AHEAD_H / 2, rel=1e-9)
    assert long_ago.after(24.0)[1] == 0.0


def test_the_curve_is_the_one_that_recall_uses_later() -> None:
    """What is foretold for an hour is what the rules say when it has come, also where they remember uses."""
    fading = lived(get_rules("actr"))
    assert fading.pasts is not None
    rules = fading.rules
    history = History(rules.history)
    for row in range(3):
        history.past(row)
        history.keep(row, [float(column[row]) for column in fading.pasts])
    later = fading.hour + 30.0
    then = rules.retrievability(later - fading.t_last_h, fading.stability_h, history.pasts(later, 3))
    assert fading.after(30.0).tolist() == then.tolist()
    assert fading.after(np.array([0.0, 30.0, 30.0]))[1:].tolist() == then[1:].tolist()
