"""Ratings by rater: whatever comes in whatever order, what counts is the stated sum times the weight."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loremesh.node.events import Consolidate, Recalibrated, Rescore
from loremesh.node.fold import apply_home
from loremesh.node.ownstate import FoldError, OwnState
from loremesh.node.raters import MAX_MULTIPLIER_FX, MAX_RATERS, OTHERS, Raters, all_counted, counted
from loremesh.node.rules import FSRS5
from loremesh.node.snapshot import differences, export_state, load_state
from loremesh.sync.fixed import ONE
from loremesh.sync.rows import Contexts
from tests.node.agents import Agent

names = st.sampled_from(["specificity-1", "openai:m@host prompt 1", "by hand", ""])
amounts = st.integers(0, 100 * ONE)
weights = st.one_of(st.sampled_from([0, ONE, 2 * ONE]), st.integers(0, 40 * ONE))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("rate"), st.integers(0, 4), names, amounts, amounts),
        st.tuples(st.just("weigh"), names, weights),
        st.tuples(st.just("forget"), st.integers(0, 4)),
    ),
    max_size=40,
)


@given(steps)
def test_what_counts_is_each_raters_sum_times_its_weight_rounded_once(
    done: list[tuple[object, ...]],
) -> None:
    """Against ten plain lines, whatever the order of ratings, weights and forgetting."""
    raters = Raters()
    held = {row: [0, 0] for row in range(5)}
    stated: dict[tuple[int, str], list[int]] = {}
    force: dict[str, int] = {}
    for step in done:
        match step:
            case ("rate", int(row), str(name), int(a), int(b)):
                more = raters.add(row, name, a, b)
                held[row][0] += more[0]
                held[row][1] += more[1]
                known = stated.setdefault((row, name), [0, 0])
                known[0] += a
                known[1] += b
            case ("weigh", str(name), int(weight)):
                for row, a, b in zip(
                    *(column.tolist() for column in raters.weigh(name, weight)), strict=True
                ):
                    held[row][0] += a
                    held[row][1] += b
                if name:
                    force[name] = weight
            case ("forget", int(row)):
                raters.drop(row)
                held[row] = [0, 0]
                stated = {key: value for key, value in stated.items() if key[0] != row}
            case _:
                raise AssertionError(step)
    for row in range(5):
        for place in (0, 1):
            assert held[row][place] == sum(
                (sums[place] * force.get(name, ONE) + ONE // 2) // ONE
                for (of, name), sums in stated.items()
                if of == row
            )
        assert raters.of(row) == sorted((name, *sums) for (of, name), sums in stated.items() if of == row)
    again = Raters.load(raters.names(), raters.multipliers, raters.export())
    assert again.told() == raters.told()
    assert [again.of(row) for row in range(5)] == [raters.of(row) for row in range(5)]


@given(st.lists(st.integers(0, 1 << 50), max_size=20), st.integers(0, MAX_MULTIPLIER_FX))
def test_many_are_counted_as_one_by_one_and_no_product_overflows(stated: list[int], weight: int) -> None:
    """Far beyond any sum of ratings that a home could hold."""
    assert all_counted(np.array(stated, np.int64), weight).tolist() == [
        counted(one, weight) for one in stated
    ]


def test_the_order_in_which_raters_were_met_does_not_show() -> None:
    """States that differ in numbering alone are equal; another rater's rating is a difference."""
    one, other, third = Raters(), Raters(), Raters()
    one.add(0, "a", 5, 6)
    one.add(1, "b", 7, 8)
    other.add(1, "b", 7, 8)
    other.add(0, "a", 5, 6)
    third.add(0, "b", 5, 6)
    third.add(1, "a", 7, 8)
    assert one.told() == other.told()
    assert one.told() != third.told()


def test_names_beyond_the_bound_count_as_stated_and_share_a_place() -> None:
    """A file full of raters costs no more than the bound, and cannot be given a weight."""
    raters = Raters()
    for number in range(MAX_RATERS + 10):
        raters.add(0, f"rater {number}", ONE, 0)
    assert len(raters.names()) == MAX_RATERS
    assert (OTHERS, 11 * ONE, 0) in raters.of(0)
    assert len(raters.weigh(f"rater {MAX_RATERS + 5}", 0)[0]) == 0
    assert raters.multipliers == {}
    assert len(raters.weigh("rater 7", 0)[0]) == 1


@pytest.mark.parametrize("broken", ["row", "rater", "alpha", "beta"])
def test_a_checkpoint_without_ratings_by_rater_is_refused(broken: str) -> None:
    """One written before there were any is folded again from the log."""
    raters = Raters()
    raters.add(0, "a", 5, 6)
    with pytest.raises(ValueError, match="ratings"):
        Raters.load(
            raters.names(), {}, {name: column for name, column in raters.export().items() if name != broken}
        )
    with pytest.raises(ValueError, match="rater"):
        Raters.load([OTHERS], {}, raters.export())


def weighed(rater: str, multiplier: float) -> Recalibrated:
    return Recalibrated(0.0, 1_700_000_000_000, rater, round(multiplier * ONE))


def rated(agent: Agent) -> None:
    for row in range(3):
        agent.learn(row)
        agent.tell(row, Consolidate(0.5, 1_700_000_000_000, 0.8, ONE // 2, 26_214, 6_554, "model"))
    agent.tell(1, Rescore(0.6, 1_700_000_000_000, 0.1, ONE // 2, 3_277, 29_491, "other"))
    agent.outcome(0, 1, signal=1.0)


def sums(state: OwnState) -> list[tuple[int, int]]:
    views = state.columns.views()
    return list(zip(views.alpha_fx().tolist(), views.beta_fx().tolist(), strict=True))


def test_a_weight_moves_evidence_alone_and_one_brings_back_every_number() -> None:
    """Importance, S, D, t_last and registers stay; taken back, the state is the twin's to the bit."""
    agent, twin = Agent(), Agent()
    rated(agent)
    rated(twin)
    before = sums(agent.state)
    agent.note(weighed("model", 3.0))
    assert [a - b for (a, _), (b, _) in zip(sums(agent.state), before, strict=True)] == [2 * 26_214] * 3
    found = differences(agent.state, twin.state)
    assert sorted(one.split(" differ")[0] for one in found) == [
        "column rated_a",
        "column rated_b",
        "ratings by rater",
    ]
    agent.tell(2, Rescore(0.7, 1_700_000_000_000, 0.5, ONE // 2, ONE // 4, ONE // 4, "model"))
    twin.tell(2, Rescore(0.7, 1_700_000_000_000, 0.5, ONE // 2, ONE // 4, ONE // 4, "model"))
    assert agent.state.columns.rated_a[2] == 3 * (26_214 + ONE // 4)
    agent.note(weighed("model", 1.0))
    assert differences(agent.state, twin.state) == []


def test_a_weight_told_first_or_last_is_the_same() -> None:
    """It holds for the whole log: the fold's order of ratings and weights does not matter."""
    first, last = Agent(), Agent()
    first.note(weighed("model", 0.37))
    rated(first)
    rated(last)
    last.note(weighed("model", 0.37))
    assert differences(first.state, last.state) == []
    again = load_state(export_state(last.state), Contexts(), FSRS5)
    assert differences(first.state, again) == []
    first.forget(0)
    assert first.state.raters.of(0) == []
    assert first.state.columns.rated_a[0] == 0


def test_a_weight_that_cannot_be_is_refused_and_changes_nothing() -> None:
    """Negative, or beyond what arithmetic holds."""
    agent, twin = Agent(), Agent()
    rated(agent)
    rated(twin)
    for bad in (-1, MAX_MULTIPLIER_FX + 1):
        with pytest.raises(FoldError, match="cannot count"):
            apply_home(agent.state, Recalibrated(1.0, 0, "model", bad))
    assert differences(agent.state, twin.state) == []
