"""The budget of language models holds in every window and over a restart, and says when there is room."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loremesh.node.providers.budget import MAX_TOKENS_A_CALL, Budget, BudgetSpent

HOUR_MS = 3_600_000


class Clock:
    def __init__(self) -> None:
        self.ms = 1_750_000_000_000

    def __call__(self) -> int:
        return self.ms


@given(st.lists(st.tuples(st.integers(0, HOUR_MS // 2), st.integers(0, 40)), max_size=80))
def test_no_hour_has_more_calls_and_no_day_more_tokens_than_allowed(steps: list[tuple[int, int]]) -> None:
    """Whatever window is looked at, what was admitted in it is within the limits."""
    clock = Clock()
    budget = Budget(5, 100, clock)
    admitted: list[tuple[int, int]] = []
    for wait_ms, tokens in steps:
        clock.ms += wait_ms
        try:
            budget.admit(tokens)
        except BudgetSpent:
            continue
        admitted.append((clock.ms, tokens))
    for at, _ in admitted:
        assert sum(at <= other < at + HOUR_MS for other, _ in admitted) <= 5
        assert sum(tokens for other, tokens in admitted if at <= other < at + 24 * HOUR_MS) <= 100


def test_a_spent_budget_says_when_there_is_room_and_then_there_is() -> None:
    """The minutes that the message names are enough, and one less is not."""
    clock = Clock()
    budget = Budget(2, 1000, clock)
    budget.admit(1)
    clock.ms += 10 * 60_000
    budget.admit(1)
    with pytest.raises(BudgetSpent, match="2 calls an hour is used up") as caught:
        budget.admit(1)
    minutes = int(str(caught.value).split(" in ")[1].split()[0])
    assert 50 <= minutes <= 51
    clock.ms += (minutes - 1) * 60_000
    with pytest.raises(BudgetSpent):
        budget.admit(1)
    clock.ms += 60_000
    budget.admit(1)
    assert "config.toml" in caught.value.hint


def test_a_refused_call_counts_nothing() -> None:
    """Asking in vain does not use up what is left for smaller questions."""
    budget = Budget(10, 100, Clock())
    for _ in range(30):
        with pytest.raises(BudgetSpent, match="needs 101"):
            budget.admit(101)
    for _ in range(10):
        budget.admit(10)


def test_what_a_call_really_took_replaces_what_was_reserved_for_it() -> None:
    """A guess that was too high frees the rest; a service's absurd figure counts as the bound."""
    budget = Budget(10, 1000, Clock())
    budget.admit(900)
    with pytest.raises(BudgetSpent):
        budget.admit(200)
    budget.settle(900, 100)
    budget.admit(900)
    wide = Budget(10, 10**10, Clock())
    wide.admit(5)
    wide.settle(5, 10**30)
    assert sum(wide.spent().tokens.values()) == MAX_TOKENS_A_CALL


def test_what_was_spent_counts_on_after_a_restart() -> None:
    """A budget that goes on from another's record refuses what that would have refused."""
    clock = Clock()
    first = Budget(2, 100, clock)
    first.admit(50)
    first.admit(50)
    again = Budget(2, 100, clock)
    again.go_on_from(first.spent())
    with pytest.raises(BudgetSpent):
        again.admit(1)


def test_a_clock_set_back_frees_nothing_and_one_far_ahead_does_not_lock_for_ever() -> None:
    """Ten minutes back: still counted. What a clock years ahead wrote down is passed over."""
    clock = Clock()
    budget = Budget(1, 100, clock)
    budget.admit(1)
    clock.ms -= 10 * 60_000
    with pytest.raises(BudgetSpent):
        budget.admit(1)
    clock.ms -= 1000 * 24 * HOUR_MS
    budget.admit(1)


def test_a_budget_of_nothing_asks_nothing() -> None:
    """Zero calls is a way to say never."""
    with pytest.raises(BudgetSpent):
        Budget(0, 100, Clock()).admit(1)
