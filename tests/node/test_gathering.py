"""Groups of blocks: who comes together, how far, and that nothing but the order of blocks decides."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from loremesh.node.gathering import ALONE, Bounds, Groups

BOUNDS = Bounds(threshold=0.6, least=3, most=4)


def cosines(*at: float) -> NDArray[np.float32]:
    """Cosines of unit vectors in the plane, at these angles in degrees."""
    angles = np.radians(np.array(at))
    found: NDArray[np.float32] = np.cos(angles[:, None] - angles[None, :]).astype(np.float32)
    return found


def placed(table: NDArray[np.float32], scope: list[int] | None = None) -> Groups:
    """All rows placed, in order."""
    n = len(table)
    found = Groups([], np.array(scope or [0] * n, np.int32), BOUNDS)
    for row in range(n):
        if found.group[row] == ALONE:
            found.place(row, table[row], np.ones(n, np.bool_))
    return found


def told(groups: Groups) -> list[list[int]]:
    return [groups.members(at) for at in range(len(groups))]


def test_blocks_that_are_alike_come_together_and_others_stay_alone() -> None:
    """Three within the threshold of the first found a group; a pair further off is too few."""
    groups = placed(cosines(0, 90, 10, 100, 20, 250))
    assert told(groups) == [[0, 2, 4]]
    assert groups.group[[1, 3, 5]].tolist() == [ALONE] * 3


def test_a_new_block_joins_the_group_it_is_most_like_on_average() -> None:
    """Of two groups within reach the nearer one takes it, by the mean over all members."""
    table = cosines(0, 5, 10, 70, 75, 80, 45)
    before = Groups([[0, 1, 2], [3, 4, 5]], np.zeros(7, np.int32), BOUNDS)
    assert before.place(6, table[6], np.ones(7, np.bool_)) == 1
    assert told(before) == [[0, 1, 2], [3, 4, 5, 6]]


def test_the_average_decides_not_the_nearest_member() -> None:
    """A block like one member but unlike the rest is not taken: groups do not grow into chains."""
    groups = Groups([[0, 1, 2]], np.zeros(4, np.int32), Bounds(0.9, 3, 8))
    table = cosines(0, 20, 40, 60)
    assert table[3][2] > 0.9 > table[3][:3].mean()
    assert groups.place(3, table[3], np.ones(4, np.bool_)) == ALONE


def test_a_group_that_is_full_takes_no_more() -> None:
    """Four at most: the fifth stays alone, and a later one may found another group with it."""
    groups = placed(cosines(0, 1, 2, 3, 4, 5, 6))
    assert told(groups) == [[0, 1, 2, 3], [4, 5, 6]]


def test_only_blocks_of_one_scope_come_together() -> None:
    """Own blocks and a peer's never share a summary, however alike they are."""
    groups = placed(cosines(0, 1, 2, 3, 4, 5), scope=[0, 7, 0, 7, 0, 7])
    assert told(groups) == [[0, 2, 4], [1, 3, 5]]
    joined = Groups([[0, 2, 4]], np.array([0, 7, 0, 7, 0, 7], np.int32), Bounds(0.6, 3, 9))
    assert joined.place(1, cosines(0, 1, 2, 3, 4, 5)[1], np.zeros(6, np.bool_)) == ALONE


def test_blocks_that_may_not_be_read_found_no_group() -> None:
    """Only rows that are open are drawn in."""
    groups = Groups([], np.zeros(4, np.int32), BOUNDS)
    open_ = np.array([True, True, False, True])
    groups.place(0, cosines(0, 1, 2, 3)[0], open_)
    assert told(groups) == [[0, 1, 3]]


@given(st.lists(st.integers(0, 359), min_size=1, max_size=24), st.integers(1, 23))
def test_groups_keep_their_bounds_and_grow_only(angles: list[int], cut: int) -> None:
    """From least to most members, each row in one group; who is in a group stays in it as blocks come."""
    table = cosines(*map(float, angles))
    first = min(cut, len(angles))
    before = placed(table[:first, :first])
    after = Groups(told(before), np.zeros(len(angles), np.int32), BOUNDS)
    for row in range(len(angles)):
        if after.group[row] == ALONE:
            after.place(row, table[row], np.ones(len(angles), np.bool_))
    for groups in (before, after):
        sizes = [len(members) for members in told(groups)]
        assert all(BOUNDS.least <= size <= BOUNDS.most for size in sizes)
        assert sum(sizes) == len({row for members in told(groups) for row in members})
    assert all(set(old) <= set(new) for old, new in zip(told(before), told(after), strict=False))
    assert told(placed(table)) == told(placed(table)), "the same blocks in the same order"
