"""A match carries over to what was learned just after it, and to nothing else."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loremesh.node.order import CARRIED, REACH, TOGETHER_H, LearningOrder

SIZE = 12


def learned(*steps: tuple[int, float]) -> LearningOrder:
    order = LearningOrder()
    for row, hour in steps:
        order.append(row, hour)
    return order


def carried(order: LearningOrder, matches: dict[int, float]) -> dict[int, float]:
    rows, values = np.array(list(matches), np.int64), np.array(list(matches.values()), np.float32)
    found, result = order.carry(rows, values, SIZE)
    return dict(zip(found.tolist(), result.tolist(), strict=True))


def oracle(steps: list[tuple[int, float]], matches: dict[int, float]) -> dict[int, float]:
    """Each block looks back over those learned before it."""
    result = dict(matches)
    for place, (row, _) in enumerate(steps):
        for back in range(1, min(REACH, place) + 1):
            hours = [hour for _, hour in steps[place - back : place + 1]]
            together = all(abs(b - a) < TOGETHER_H for a, b in pairwise(hours))
            if together and steps[place - back][0] in matches:
                share = CARRIED**back * matches[steps[place - back][0]]
                result[row] = max(result.get(row, 0.0), share)
    return result


def test_a_match_fades_over_the_blocks_learned_after_it() -> None:
    order = learned(*((row, 0.0) for row in range(6)))
    assert carried(order, {1: 2.0}) == pytest.approx(
        {1: 2.0, 2: 2.0 * CARRIED, 3: 2.0 * CARRIED**2, 4: 2.0 * CARRIED**3}
    )


def test_a_better_match_of_its_own_stays() -> None:
    assert carried(learned((0, 0.0), (1, 0.0)), {0: 1.0, 1: 0.9}) == pytest.approx({0: 1.0, 1: 0.9})


def test_nothing_is_carried_over_a_pause() -> None:
    order = learned((0, 1.0), (1, 1.0 + TOGETHER_H), (2, 1.0 + 1.5 * TOGETHER_H))
    assert carried(order, {0: 1.0}) == {0: 1.0}
    assert set(carried(order, {1: 1.0})) == {1, 2}
    assert carried(learned((0, 9.0), (1, 2.0)), {0: 1.0}) == {0: 1.0}


def test_what_was_not_learned_here_neither_gives_nor_takes() -> None:
    """Row 1 came from a peer between two lessons: it has no place in the order, and they stay neighbours."""
    order = learned((0, 0.0), (2, 0.0))
    assert carried(order, {0: 1.0}) == pytest.approx({0: 1.0, 2: CARRIED})
    assert carried(order, {1: 1.0}) == {1: 1.0}


def test_a_forgotten_block_leaves_the_order_as_if_it_had_never_been_learned() -> None:
    order = learned((3, 0.0), (7, 0.1), (5, 0.2))
    assert set(carried(order, {3: 1.0})) == {3, 7, 5}
    order.remove(7)
    order.remove(11)
    assert carried(order, {3: 1.0}) == carried(learned((3, 0.0), (5, 0.2)), {3: 1.0})
    assert len(order) == 2


def test_what_is_learned_after_a_question_follows_in_the_next() -> None:
    order = learned((0, 0.0))
    assert carried(order, {0: 1.0}) == {0: 1.0}
    order.append(1, 0.0)
    assert set(carried(order, {0: 1.0})) == {0, 1}


def test_an_empty_order_changes_nothing() -> None:
    assert carried(LearningOrder(), {4: 0.5}) == {4: 0.5}
    assert carried(LearningOrder(), {}) == {}


@given(
    st.permutations(range(SIZE)),
    st.lists(st.sampled_from([0.0, 0.1, 0.3]), min_size=SIZE, max_size=SIZE),
    st.integers(0, SIZE),
    st.dictionaries(st.integers(0, SIZE - 1), st.floats(0.125, 8.0, width=32), max_size=5),
)
def test_carrying_is_what_looking_back_gives(
    rows: list[int], waits: list[float], count: int, matches: dict[int, float]
) -> None:
    steps = list(zip(rows, np.cumsum(waits).tolist(), strict=True))[:count]
    assert carried(learned(*steps), matches) == pytest.approx(oracle(steps, matches), rel=1e-6)


def test_an_export_gives_the_same_order_again() -> None:
    order = learned((3, 0.0), (7, 0.1), (5, 2.0))
    again = LearningOrder.load(order.export())
    assert carried(again, {3: 1.0, 5: 1.0}) == carried(order, {3: 1.0, 5: 1.0})
    again.append(1, 2.1)
    assert set(carried(again, {5: 1.0})) == {5, 1}


@pytest.mark.parametrize("name", ["row", "hour"])
def test_a_damaged_export_is_refused(name: str) -> None:
    whole = learned((3, 0.0)).export()
    for damaged in (
        {other: column for other, column in whole.items() if other != name},
        {**whole, name: np.zeros(2, whole[name].dtype)},
        {**whole, name: np.zeros(1, np.float32)},
    ):
        with pytest.raises(ValueError, match="order"):
            LearningOrder.load(damaged)


def test_what_comes_before_a_block_is_what_would_be_carried_on_to_it() -> None:
    """The nearest first, no further than the reach and not across a pause; of blocks not learned, nothing."""
    order = LearningOrder()
    for row, hour in enumerate([0.0, 0.1, 5.0, 5.1, 5.2, 5.3, 5.4]):
        order.append(row, hour)
    assert order.before(6, 0.5, 3) == [(5, 0.5), (4, 0.25), (3, 0.125)]
    assert order.before(3, 0.5, 3) == [(2, 0.5)]
    assert (order.before(2), order.before(9)) == ([], [])
    for row in range(7):
        for other, share in order.before(row):
            rows, values = order.carry(np.array([other]), np.ones(1, np.float32), 7)
            assert dict(zip(rows.tolist(), values.tolist(), strict=True))[row] == pytest.approx(share)
