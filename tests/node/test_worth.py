"""Memory Worth: intervals, the recent window, correction for difficulty, and what they call for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loremesh.node.worth import (
    MIN_MASS,
    Cells,
    Evidence,
    Kind,
    Proposal,
    Trend,
    Worths,
    base_of,
    cells,
    interval,
    proposal,
    worths,
)
from loremesh.sync.fixed import ONE
from loremesh.sync.rows import CONTEXT_BITS

Cell = tuple[int, int, float, float]
Recent = tuple[float, float]


def made(*given_: Cell, recent: dict[int, Recent] | None = None) -> Cells:
    """Cells of (row, context, good, bad); the recent window is all of it unless given by row."""
    columns = np.array(given_, np.float64).T
    row, context = columns[0].astype(np.int64), columns[1].astype(np.int64)
    late = np.array([(recent or {}).get(int(one[0]), one[2:]) for one in given_], np.float64).T
    return Cells(row, context, columns[2], columns[3], late[0], late[1])


def seen(all_: Cells, known: dict[int, float] | None = None) -> Worths:
    return worths(all_, base_of(all_), known or {})


def test_evidence_is_summed_over_incarnations_by_block_and_context() -> None:
    """Two registers of one block and context are one cell; the recent window stands beside."""
    keys = np.array([2 << CONTEXT_BITS | 1, 2 << CONTEXT_BITS, 2 << CONTEXT_BITS | 1], np.int64)
    alpha, beta = np.array([1, 2, 4], np.int64) * ONE, np.array([0, 1, 0], np.int64) * ONE
    recent_keys = keys[[1, 0]]
    found = cells(keys, alpha, beta, recent_keys, np.array([ONE, 3.0 * ONE]), np.array([0.0, ONE]))
    assert (found.row.tolist(), found.context.tolist()) == ([2, 2], [0, 1])
    assert (found.alpha.tolist(), found.beta.tolist()) == ([2.0, 5.0], [1.0, 0.0])
    assert (found.recent_alpha.tolist(), found.recent_beta.tolist()) == ([1.0, 3.0], [0.0, 1.0])


def test_worth_is_the_share_of_good_outcomes_over_all_contexts() -> None:
    found = seen(made((0, 0, 3.0, 1.0), (0, 1, 0.0, 4.0), (1, 0, 1.0, 0.0)))
    assert found.worth.tolist() == [3.0 / 8.0, 1.0]


@given(st.floats(0.0, 1e5), st.floats(0.0, 1e5))
def test_an_interval_holds_the_worth_and_shrinks_with_evidence(good: float, bad: float) -> None:
    """Both ends in [0, 1]; ten times the outcomes, a narrower interval."""
    low, high = (float(end[0]) for end in interval(np.array([good]), np.array([bad])))
    assert 0.0 <= low < high <= 1.0
    more_low, more_high = (float(end[0]) for end in interval(np.array([10 * good]), np.array([10 * bad])))
    assert more_high - more_low <= high - low + 1e-9


def test_ninety_per_cent_intervals_hold_about_ninety_per_cent_of_the_time() -> None:
    """Coverage over many true rates and few outcomes, within what 4,000 draws allow."""
    random = np.random.default_rng(1)
    rate = random.random(4_000)
    good = random.binomial(20, rate).astype(np.float64)
    low, high = interval(good, 20.0 - good)
    assert ((low <= rate) & (rate <= high)).mean() == pytest.approx(0.9, abs=0.02)


def test_the_interval_of_the_residual_holds_the_truth_as_often() -> None:
    """Pairs of blocks in contexts of their own, both estimated from little: in 90 % the true difference lies
    inside, and as often below as above.
    """
    random = np.random.default_rng(2)
    mine, theirs = random.uniform(0.1, 0.9, (2, 4_000))
    good, rest = random.binomial(25, mine).tolist(), random.binomial(40, theirs).tolist()
    pairs = enumerate(zip(good, rest, strict=True))
    found = seen(
        made(
            *(
                cell
                for at, (one, other) in pairs
                for cell in ((2 * at, at, one, 25.0 - one), (2 * at + 1, at, other, 40.0 - other))
            )
        )
    )
    low, high = found.corrected_low[::2], found.corrected_high[::2]
    below, above = (mine - theirs < low).mean(), (mine - theirs > high).mean()
    assert (below, above) == (pytest.approx(0.05, abs=0.015), pytest.approx(0.05, abs=0.015))


def test_few_outcomes_leave_a_block_uncertain_however_they_went() -> None:
    found = seen(made((0, 0, 0.0, MIN_MASS - 1.0), (1, 0, 50.0, 0.0)))
    assert found.kind(0) is Kind.UNCERTAIN
    assert found.kind(1) is Kind.HIGH


def test_a_block_that_fails_more_than_others_do_is_low_and_is_to_be_deprecated() -> None:
    all_ = made((0, 0, 2.0, 30.0), (1, 0, 60.0, 40.0))
    assert seen(all_).kind(0) is Kind.LOW
    assert proposal(seen(all_), 0, False, None) is Proposal.DEPRECATE
    assert proposal(seen(all_), 1, False, None) is Proposal.NONE


def test_a_block_that_fails_where_all_fail_is_not_low() -> None:
    """The task is hard: worth is low, the residual is not, and nothing is proposed."""
    all_ = made((0, 0, 10.0, 90.0), (1, 0, 100.0, 900.0), (2, 1, 800.0, 200.0))
    found = seen(all_)
    assert found.high[0] < 0.2
    assert found.expected[0] == pytest.approx(0.1, abs=0.01)
    assert found.corrected_low[0] < 0.0 < found.corrected_high[0]
    assert found.kind(0) is Kind.MIXED
    assert proposal(found, 0, False, None) is Proposal.NONE


def test_a_specialist_is_high_value_though_it_fails_more_often_than_not() -> None:
    """Better than others where it is used, and worse in all than one that rides on easy tasks."""
    found = seen(made((0, 1, 45.0, 55.0), (1, 1, 150.0, 850.0), (2, 0, 75.0, 25.0), (3, 0, 800.0, 200.0)))
    assert found.worth[0] < found.worth[2]
    assert found.corrected[0] > 0.2 > 0.0 > found.corrected[2]
    assert found.kind(0) is Kind.HIGH


def test_what_does_well_where_everything_does_better_is_mixed() -> None:
    """An easy rider: worth well above one half, and below what was to be expected."""
    found = seen(made((0, 0, 650.0, 350.0), (1, 0, 900.0, 100.0)))
    assert found.low[0] > 0.6
    assert found.kind(0) is Kind.MIXED


def test_where_nothing_else_was_used_worth_alone_decides() -> None:
    """One block in a context of its own: there is nothing to compare with."""
    found = seen(made((0, 0, 1.0, 40.0), (1, 1, 40.0, 1.0)))
    assert found.compared.tolist() == [False, False]
    assert [found.kind(at) for at in range(2)] == [Kind.LOW, Kind.HIGH]


def test_a_blocks_own_outcomes_are_not_what_it_is_held_against() -> None:
    """A block with most of the evidence would else be its own yardstick."""
    found = seen(made((0, 0, 900.0, 100.0), (1, 0, 20.0, 80.0)))
    assert found.expected[0] == pytest.approx((20.0 + 1.0) / 102.0)


def test_a_known_base_rate_is_taken_as_it_is() -> None:
    all_ = made((0, 0, 50.0, 50.0), (0, 1, 50.0, 50.0), (1, 0, 90.0, 10.0))
    found = seen(all_, {0: 0.3, 1: 0.5})
    assert found.expected[0] == pytest.approx(0.4)
    assert found.compared[0]


def test_a_recent_window_apart_from_the_rest_decides() -> None:
    """Long good, of late bad: falling, low-value, to be deprecated; the long counts would not say so."""
    stale = made((0, 0, 500.0, 100.0), (1, 0, 700.0, 300.0), recent={0: (10.0, 80.0)})
    found = seen(stale)
    assert (found.trend(0), found.trend(1)) == (Trend.FALLING, Trend.STEADY)
    assert found.kind(0) is Kind.LOW
    assert proposal(found, 0, False, None) is Proposal.DEPRECATE
    recovered = made((0, 0, 100.0, 500.0), (1, 0, 300.0, 700.0), recent={0: (85.0, 5.0)})
    assert (seen(recovered).trend(0), seen(recovered).kind(0)) == (Trend.RISING, Kind.HIGH)


def test_between_the_two_bounds_nothing_is_proposed() -> None:
    """Hysteresis: low enough to be low-value and not to be deprecated; not good enough to be restored."""
    found = seen(made((0, 0, 44.0, 66.0), (1, 0, 700.0, 300.0)))
    assert found.kind(0) is Kind.LOW
    assert found.high[0] > 0.4
    assert proposal(found, 0, False, None) is Proposal.NONE
    assert proposal(found, 0, True, Evidence(44.0, 66.0)) is Proposal.NONE


@pytest.mark.parametrize(
    ("deprecated", "since", "wanted"),
    [
        (True, Evidence(7.0, 0.0), Proposal.NONE),
        (True, Evidence(20.0, 2.0), Proposal.RESTORE),
        (True, Evidence(11.0, 9.0), Proposal.NONE),
        (False, Evidence(0.0, 7.0), Proposal.NONE),
        (False, Evidence(1.0, 20.0), Proposal.DEPRECATE),
        (False, Evidence(20.0, 1.0), Proposal.NONE),
    ],
)
def test_after_a_decision_only_what_came_since_counts(
    deprecated: bool, since: Evidence, wanted: Proposal
) -> None:
    """A block with a long bad past that was given another chance is judged by its use of it."""
    found = seen(made((0, 0, 5.0, 300.0), (1, 0, 700.0, 300.0)))
    assert proposal(found, 0, deprecated, since) is wanted
