"""Token buckets: what they admit, how they fill, and what is charged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loremesh.sync.fixed import ONE
from loremesh.sync.limits import Bucket, Budgets, Meter, amounts, drawn, level, meter, open_again_s
from loremesh.sync.outcomes import Charge, Limit

METER = Meter(per_s=2.0, burst=10.0)


def test_a_bucket_above_zero_admits_any_frame_and_goes_into_debt() -> None:
    bucket = drawn(drawn(None, METER, 0.0, 9.5), METER, 0.0, 100.0)
    assert bucket == Bucket(-99.5, 0.0)
    assert open_again_s(bucket, METER, 0.0) == pytest.approx(50.25)
    assert level(bucket, METER, 50.25) == pytest.approx(1.0)


def test_a_bucket_fills_with_time_up_to_its_burst() -> None:
    bucket = drawn(None, METER, 0.0, 10.0)
    assert level(bucket, METER, 1.5) == 3.0
    assert level(bucket, METER, 1000.0) == 10.0


def test_a_clock_that_goes_back_fills_nothing() -> None:
    assert level(Bucket(1.0, 100.0), METER, 50.0) == 1.0


def test_a_meter_that_never_fills_never_opens_again() -> None:
    assert open_again_s(Bucket(0.0, 0.0), Meter(0.0, 5.0), 1.0) == float("inf")
    assert open_again_s(None, Meter(1.0, 0.0), 1.0) == float("inf")


@given(
    st.lists(st.tuples(st.floats(0, 5), st.floats(0.01, 50)), max_size=30),
    st.floats(0.1, 10),
    st.floats(1, 100),
)
def test_what_passes_is_at_most_the_burst_the_rate_and_one_frame(
    steps: list[tuple[float, float]], rate: float, burst: float
) -> None:
    of, bucket, now_s, taken, largest = Meter(rate, burst), None, 0.0, 0.0, 0.0
    for pause_s, amount in steps:
        now_s += pause_s
        if open_again_s(bucket, of, now_s) <= now_s:
            bucket = drawn(bucket, of, now_s, amount)
            taken, largest = taken + amount, max(largest, amount)
    assert taken <= burst + rate * now_s + largest + 1e-6


@given(st.floats(-1000, 0), st.floats(0.01, 100), st.floats(1, 100))
def test_a_bucket_admits_when_it_says_it_will(debt: float, rate: float, burst: float) -> None:
    bucket, of = Bucket(debt, 0.0), Meter(rate, burst)
    opens_s = open_again_s(bucket, of, 0.0)
    assert opens_s > 0
    assert level(bucket, of, opens_s) > 0


def test_a_data_frame_is_charged_by_what_it_brings() -> None:
    assert amounts(Charge("p", 500, 3 * ONE // 2, 0), control=False) == {
        Limit.BYTES: 500, Limit.FRAMES: 1, Limit.MASS: 1.5,
    }  # fmt: skip
    assert amounts(Charge("p", 500, 0, 4), control=False) == {
        Limit.BYTES: 500,
        Limit.FRAMES: 1,
        Limit.BLOCKS: 4,
    }


def test_a_control_frame_draws_on_its_own_bucket_only_and_own_frames_on_none() -> None:
    assert amounts(Charge("p", 500), control=True) == {Limit.CONTROL: 1}
    assert amounts(Charge("p", 500, ONE, 1, exempt=True), control=False) == {}


def test_every_limit_but_the_stock_has_a_meter() -> None:
    for limit in set(Limit) - {Limit.QUARANTINE}:
        assert meter(Budgets(), limit).per_s > 0
