"""The hash table and chains under the columns, against a dict."""

from collections.abc import Sequence

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from loremesh.sync.slots import CHAIN_STEPS, FIRST_CAPACITY, RowSlots

Key = tuple[int, int]


def columns(keys: Sequence[Key]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([key[0] for key in keys], np.int64), np.array([key[1] for key in keys], np.int64)


class SlotsAgainstADict(RuleBasedStateMachine):
    """Keys allocated and rows dropped in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.slots = RowSlots()
        self.model: dict[Key, int] = {}

    @rule(keys=st.sets(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=8))
    def allocate(self, keys: set[Key]) -> None:
        new = [key for key in sorted(keys) if key not in self.model]
        made = self.slots.allocate(*columns(new)).tolist()
        assert not set(made) & set(self.model.values())
        self.model.update(zip(new, made, strict=True))

    @rule(row=st.integers(0, 6))
    def drop(self, row: int) -> None:
        freed = sorted(slot for key, slot in self.model.items() if key[0] == row)
        assert sorted(self.slots.drop(row).tolist()) == freed
        self.model = {key: slot for key, slot in self.model.items() if key[0] != row}

    @invariant()
    def finds_what_the_dict_finds(self) -> None:
        keys = [(row, tag) for row in range(-1, 7) for tag in range(-1, 4)]
        assert self.slots.find(*columns(keys)).tolist() == [self.model.get(key, -1) for key in keys]
        assert self.slots.live().tolist() == sorted(self.model.values())
        assert len(self.slots) == len(self.model)
        for row in range(7):
            of_row = sorted(slot for key, slot in self.model.items() if key[0] == row)
            assert sorted(self.slots.select(np.array([row])).tolist()) == of_row


SlotsAgainstADict.TestCase.settings = settings(max_examples=40, stateful_step_count=20)
TestSlotsAgainstADict = SlotsAgainstADict.TestCase


def test_growing_loses_nothing() -> None:
    slots, keys = RowSlots(), [(row, tag) for row in range(5 * FIRST_CAPACITY) for tag in (0, 1 << 40)]
    made = np.concatenate([slots.allocate(*columns(keys[i : i + 777])) for i in range(0, len(keys), 777)])
    assert slots.find(*columns(keys)).tolist() == made.tolist()
    assert (slots.find(*columns([(row, 7) for row in range(1000)])) == -1).all()


def test_removed_keys_do_not_fill_the_table_up() -> None:
    slots = RowSlots()
    for row in range(3 * FIRST_CAPACITY):
        slots.allocate(*columns([(row, 1)]))
        assert slots.drop(row).tolist() == [0]
    assert (slots.used, len(slots)) == (1, 0)
    assert slots.find(*columns([(3, 1)])).tolist() == [-1]


def test_removing_some_hides_none_of_the_keys_that_had_to_move_on() -> None:
    slots, keys = RowSlots(), [(row, 0) for row in range(FIRST_CAPACITY)]
    made = slots.allocate(*columns(keys))
    for row in range(0, FIRST_CAPACITY, 2):
        slots.drop(row)
    assert slots.find(*columns(keys[1::2])).tolist() == made[1::2].tolist()
    assert (slots.find(*columns(keys[::2])) == -1).all()


def test_a_row_with_more_slots_than_steps_is_found_whole_and_alone() -> None:
    slots = RowSlots()
    many = slots.allocate(*columns([(4, tag) for tag in range(3 * CHAIN_STEPS)]))
    other = slots.allocate(*columns([(3, tag) for tag in range(2 * CHAIN_STEPS)]))
    assert sorted(slots.select(np.array([4])).tolist()) == many.tolist()
    assert sorted(slots.select(np.array([3, 9])).tolist()) == other.tolist()
    assert len(slots.drop(4)) == 3 * CHAIN_STEPS
