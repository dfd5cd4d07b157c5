"""Active time: use counts, silence does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loremesh.node.clock import MS_PER_HOUR, WALL, ActiveClock


def test_use_counts_as_it_passes() -> None:
    """Within the gap every minute counts."""
    clock = ActiveClock(hour=10.0, wall_ms=1_000)
    assert clock.advance(1_000 + MS_PER_HOUR // 4) == 10.25


def test_a_holiday_ages_nothing_beyond_the_gap() -> None:
    """Two idle weeks count no more than two idle hours."""
    fortnight, afternoon = ActiveClock(5.0, 0), ActiveClock(5.0, 0)
    assert fortnight.advance(14 * 24 * MS_PER_HOUR) == afternoon.advance(2 * MS_PER_HOUR) == 5.5


def test_a_wall_clock_set_back_adds_nothing_and_is_followed() -> None:
    """After the step back time goes on from there, instead of standing still until it has caught up."""
    clock = ActiveClock(hour=1.0, wall_ms=10 * MS_PER_HOUR)
    assert clock.advance(2 * MS_PER_HOUR) == 1.0
    assert clock.advance(2 * MS_PER_HOUR + MS_PER_HOUR // 2) == 1.5


def test_wall_mode_counts_idle_hours() -> None:
    """With an infinite gap the clock is a wall clock."""
    clock = ActiveClock(hour=0.0, wall_ms=0, idle_gap_h=WALL)
    assert clock.advance(100 * MS_PER_HOUR) == 100.0


@given(st.lists(st.integers(0, 2**45), max_size=30))
def test_the_hour_never_runs_backwards(walls: list[int]) -> None:
    """Whatever the wall clock does, active hours only grow, by at most the gap at a time."""
    clock = ActiveClock(hour=0.0, wall_ms=2**44)
    for wall_ms in walls:
        before = clock.hour
        assert before <= clock.advance(wall_ms) <= before + clock.idle_gap_h


@pytest.mark.parametrize(("hour", "gap"), [(float("nan"), 0.5), (-1.0, 0.5), (0.0, 0.0), (0.0, float("nan"))])
def test_impossible_clocks_are_refused(hour: float, gap: float) -> None:
    """A clock cannot start from a time that is none, nor without a gap."""
    with pytest.raises(ValueError, match="must be"):
        ActiveClock(hour=hour, wall_ms=0, idle_gap_h=gap)
