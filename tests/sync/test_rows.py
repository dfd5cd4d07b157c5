"""Rows and context numbers: given out in order, never twice, and the same again after a checkpoint."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loremesh.sync.errors import InvalidInput
from loremesh.sync.rows import BlockIndex, Contexts, RowClash


def block(n: int) -> bytes:
    return (n + 1).to_bytes(32, "big")


def test_ids_get_the_next_row_once() -> None:
    index = BlockIndex()
    assert index.ensure([block(5), block(3), block(5)]).tolist() == [0, 1, 0]
    assert index.ensure([block(3), block(9)]).tolist() == [1, 2]
    assert (len(index), index.known, index.id(2)) == (3, 3, block(9))


def test_an_unknown_id_has_no_row() -> None:
    index = BlockIndex()
    index.ensure([block(1)])
    assert index.rows([block(2), block(1)]).tolist() == [-1, 0]
    assert index.row(block(2)) is None
    assert block(2) not in index


def test_a_removed_row_is_a_gap_and_is_never_given_out_again() -> None:
    index = BlockIndex()
    index.ensure([block(0), block(1)])
    index.remove(1)
    assert (index.id(1), index.row(block(1)), len(index), index.known) == (b"", None, 2, 1)
    assert index.ensure([block(1)]).tolist() == [2]


def test_placing_leaves_gaps_and_refuses_a_taken_row_or_id() -> None:
    index = BlockIndex()
    index.place(block(7), 3)
    index.place(block(7), 3)
    assert (len(index), index.id(0), index.row(block(7))) == (4, b"", 3)
    index.place(block(1), 0)
    with pytest.raises(RowClash, match="row 3 is taken"):
        index.place(block(8), 3)
    with pytest.raises(RowClash, match="has row 3"):
        index.place(block(7), 5)


def test_reserved_rows_are_not_given_out() -> None:
    index = BlockIndex()
    index.reserve(4)
    index.reserve(2)
    assert index.ensure([block(1)]).tolist() == [4]


@pytest.mark.parametrize("odd", [b"", b"x" * 31, bytes(32)])
def test_what_is_no_block_id_gets_no_row(odd: bytes) -> None:
    with pytest.raises(InvalidInput, match="block id"):
        BlockIndex().ensure([odd])
    with pytest.raises(InvalidInput, match="block id"):
        BlockIndex().place(odd, 0)


@given(st.lists(st.integers(0, 30), max_size=30), st.sets(st.integers(0, 30)))
def test_an_exported_index_is_the_same_again(blocks: list[int], removed: set[int]) -> None:
    index = BlockIndex()
    index.ensure([block(n) for n in blocks])
    for row in removed:
        if row < len(index):
            index.remove(row)
    again = BlockIndex.load(index.export())
    assert (len(again), again.known) == (len(index), index.known)
    assert [again.id(row) for row in range(len(again))] == [index.id(row) for row in range(len(index))]
    assert (
        again.rows([block(n) for n in range(31)]).tolist()
        == index.rows([block(n) for n in range(31)]).tolist()
    )


@pytest.mark.parametrize("odd", [b"x" * 33, block(1) * 2])
def test_a_damaged_export_is_refused(odd: bytes) -> None:
    with pytest.raises(ValueError, match="block index"):
        BlockIndex.load(odd)


def test_a_row_never_given_out_has_no_id() -> None:
    with pytest.raises(IndexError):
        BlockIndex().id(0)
    with pytest.raises(IndexError):
        BlockIndex().id(-1)


class TestContexts:
    def test_no_context_is_number_zero(self) -> None:
        contexts = Contexts()
        assert (contexts.ensure(""), contexts.ensure("deploy"), contexts.ensure("deploy")) == (0, 1, 1)
        assert (contexts.label(1), contexts.find("legal"), len(contexts)) == ("deploy", None, 2)

    def test_a_full_table_refuses_a_new_label_and_says_so_beforehand(self) -> None:
        contexts = Contexts(limit=2)
        contexts.ensure("deploy")
        assert contexts.room_for(["deploy", ""])
        assert not contexts.room_for(["deploy", "legal"])
        with pytest.raises(InvalidInput, match="'legal'"):
            contexts.ensure("legal")
        assert contexts.ensure("deploy") == 1

    def test_labels_loaded_again_keep_their_numbers(self) -> None:
        contexts = Contexts()
        for label in ("b", "a"):
            contexts.ensure(label)
        assert Contexts.load(contexts.labels()).find("a") == 2

    @pytest.mark.parametrize("odd", [[], ["deploy"], ["", "a", "a"]])
    def test_labels_that_were_no_table_are_refused(self, odd: list[str]) -> None:
        with pytest.raises(ValueError, match="contexts"):
            Contexts.load(odd)

    def test_a_negative_number_is_no_label(self) -> None:
        with pytest.raises(IndexError):
            Contexts().label(-1)
