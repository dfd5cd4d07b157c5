"""Habitual pairs are parted in a set share of recalls, and no others are touched."""

from __future__ import annotations

import numpy as np
import pytest

from loremesh.node.companions import ENOUGH_APART, HABIT, MAX_WATCHED, MIN_TOGETHER, habits, held_back
from loremesh.node.ownstate import Episode, Taken

GOOD = Taken(1.0, 1 << 16, "")


def past(*rows: int, times: int = MIN_TOGETHER, judged: bool = True) -> list[Episode]:
    return [Episode("", list(rows), [1 << 16] * len(rows), GOOD if judged else None) for _ in range(times)]


def ids(count: int, seed: int = 1) -> list[bytes]:
    random = np.random.default_rng(seed)
    return [random.bytes(16) for _ in range(count)]


def test_a_pair_becomes_a_habit_by_judged_episodes() -> None:
    """Eight of them; episodes that nobody judged say nothing about either, and count for nothing."""
    assert habits(past(1, 2), [1, 2, 3]) == [(1, 2)]
    assert habits(past(1, 2, times=MIN_TOGETHER - 1), [1, 2, 3]) == []
    assert habits(past(1, 2, times=50, judged=False), [1, 2, 3]) == []


def test_a_pair_that_is_often_apart_is_no_habit() -> None:
    together = past(1, 2, times=20)
    assert habits(together + past(1, 3, times=20), [1, 2]) == [(1, 2)], f"{HABIT} of forty are together"
    assert habits(together + past(1, 3, times=21), [1, 2]) == []


def test_a_pair_that_was_apart_often_enough_is_left_alone() -> None:
    """Then outcomes tell the two apart without further cost."""
    together = past(1, 2, times=1_000)
    assert habits(together + past(1, 3, times=ENOUGH_APART - 1), [1, 2]) == [(1, 2)]
    assert habits(together + past(1, 3, times=ENOUGH_APART), [1, 2]) == []


def test_the_set_share_of_recalls_parts_the_pair_and_each_of_the_two_is_held_back() -> None:
    episodes, drawn = past(1, 2), ids(2_000)
    found = [held_back(episodes, [1, 2, 3], one, 0.2) for one in drawn]
    assert sum(one is not None for one in found) / len(found) == pytest.approx(0.2, abs=0.03)
    assert found.count(1) == pytest.approx(found.count(2), abs=70)
    assert found.count(3) == 0


def test_the_episodes_id_decides_everything() -> None:
    """Seeded: the same id over the same past parts the same pair."""
    episodes = past(1, 2) + past(3, 4)
    one = [held_back(episodes, [1, 2, 3, 4], key, 0.5) for key in ids(200)]
    assert one == [held_back(episodes, [1, 2, 3, 4], key, 0.5) for key in ids(200)]
    assert {1, 2, 3, 4} <= set(one), "one pair or one member is never chosen"


def test_nothing_is_held_back_without_a_habit_a_share_or_a_second_hit() -> None:
    assert all(held_back(past(1, 2), [1, 3], one, 1.0) is None for one in ids(50))
    assert all(held_back(past(1, 2), [1, 2], one, 0.0) is None for one in ids(50))
    assert all(held_back(past(1, 2), [1], one, 1.0) is None for one in ids(50))


def test_only_the_best_hits_are_watched() -> None:
    """A long list of hits is no habit, and counting its pairs would take longer than the recall."""
    rows = list(range(200))
    assert len(habits(past(*rows), rows)) == MAX_WATCHED * (MAX_WATCHED - 1) // 2
