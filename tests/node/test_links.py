"""Links as columns: the same as a plain dict, whatever is done in whatever order."""

import time

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loremesh.node import links as links_module
from loremesh.node.links import Links

ROWS = 7


class Plain:
    """The slow, obvious way: a dict by unordered pair."""

    def __init__(self) -> None:
        self.pairs: dict[frozenset[int], tuple[int, bool]] = {}
        self.looked: set[int] = set()

    def do(self, verb: str, one: int, other: int, weight_fx: int) -> None:
        pair = frozenset((one, other))
        match verb:
            case "connect":
                self.pairs[pair] = (weight_fx, True)
            case "propose":
                if not self.pairs.get(pair, (0, False))[1]:
                    self.pairs[pair] = (weight_fx, False)
            case "look":
                self.looked.add(one)
            case "drop":
                self.pairs = {pair: held for pair, held in self.pairs.items() if one not in pair}
                self.looked.discard(one)
            case "read":
                pass
            case _:
                raise ValueError(verb)

    def of(self, row: int) -> list[tuple[int, int, bool]]:
        return sorted(
            (other, *held)
            for pair, held in self.pairs.items()
            if row in pair and held[0]
            for other in pair - {row}
        )

    def held(self) -> set[frozenset[int]]:
        return {pair for pair, (weight_fx, by_hand) in self.pairs.items() if weight_fx or by_hand}


def do(links: Links, verb: str, one: int, other: int, weight_fx: int) -> None:
    match verb:
        case "connect":
            links.connect(one, other, weight_fx)
        case "propose":
            links.propose(one, other, weight_fx)
        case "look":
            links.note_looked(one)
        case "drop":
            links.drop(one)
        case "read":
            links.edges()
        case _:
            raise ValueError(verb)


work = st.lists(
    st.tuples(
        st.sampled_from(["connect", "propose", "propose", "propose", "look", "drop", "read"]),
        st.integers(0, ROWS - 1),
        st.integers(0, ROWS - 1),
        st.sampled_from([0, 0, 1, 655, 65_536]),
    ).filter(lambda step: step[1] != step[2]),
    max_size=60,
)


def alike(links: Links, plain: Plain) -> None:
    """Every way of looking at the links says what the dict says."""
    assert [[msgspec.structs.astuple(edge) for edge in links.of(row)] for row in range(ROWS)] == [
        plain.of(row) for row in range(ROWS)
    ]
    assert {frozenset((a, b)) for a in range(ROWS) for b in range(ROWS) if a != b and links.known(a, b)} == (
        plain.held()
    )
    assert list(links.rows()) == sorted({row for pair in plain.held() for row in pair})
    assert len(links) == sum(1 for weight_fx, _ in plain.pairs.values() if weight_fx)
    assert set(np.flatnonzero(links.looked(ROWS)).tolist()) == plain.looked
    edges = links.edges()
    assert list(zip(edge_rows(edges.row), edge_rows(edges.other), edges.weight_fx.tolist(), strict=True)) == [
        (row, other, weight_fx) for row in range(ROWS) for other, weight_fx, _ in plain.of(row)
    ]


def edge_rows(rows: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]") -> list[int]:
    found: list[int] = rows.tolist()
    return found


@settings(max_examples=200, deadline=None)
@given(work, st.sampled_from([1, 3, 2_048]))
def test_links_are_what_a_plain_dict_would_hold(steps: list[tuple[str, int, int, int]], waiting: int) -> None:
    """However many pairs wait to be sorted in, and after a round through the checkpoint's columns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(links_module, "WAITING_MIN", waiting)
        links, plain = Links(), Plain()
        for step in steps:
            do(links, *step)
            plain.do(*step)
        alike(links, plain)
        alike(Links.load(links.export()), plain)


@settings(max_examples=100, deadline=None)
@given(work)
def test_the_same_links_give_the_same_bytes(steps: list[tuple[str, int, int, int]]) -> None:
    """Whether they came by a long way or by the shortest, so that two folds can be compared."""
    links, plain = Links(), Plain()
    for step in steps:
        do(links, *step)
        plain.do(*step)
    short = Links()
    for pair, (weight_fx, by_hand) in plain.pairs.items():
        one, other = sorted(pair, reverse=True)
        (short.connect if by_hand else short.propose)(one, other, weight_fx)
    for row in plain.looked:
        short.note_looked(row)
    assert {name: column.tobytes() for name, column in short.export().items()} == {
        name: column.tobytes() for name, column in links.export().items()
    }


def test_what_was_made_by_hand_outlasts_any_proposal() -> None:
    """Also that two blocks are kept apart."""
    links = Links()
    links.connect(1, 2, 40_000)
    links.connect(3, 1, 0)
    for other in (2, 3):
        links.propose(other, 1, 20_000)
        links.propose(1, other, 0)
    assert [msgspec.structs.astuple(edge) for edge in links.of(1)] == [(2, 40_000, True)]


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("one", None),
        ("other", np.zeros(1, np.int64)),
        ("weight_fx", np.zeros((1, 1), np.int32)),
        ("hand", np.zeros(2, np.uint8)),
        ("other", np.array([1], np.uint32)),
    ],
)
def test_columns_that_do_not_go_together_are_refused(
    name: str, column: "np.ndarray[tuple[int, ...], np.dtype[np.generic]] | None"
) -> None:
    """Missing, of another type, shape or length, or a block linked to itself: the log is folded instead."""
    links = Links()
    links.propose(1, 2, 5)
    exported = links.export()
    if column is None:
        del exported[name]
    else:
        exported[name] = column
    with pytest.raises(ValueError, match="links"):
        Links.load(exported)


def test_forgetting_many_blocks_costs_their_links_and_not_all_there_are() -> None:
    """A log in which much was forgotten is replayed in little more than the time of one that kept it."""
    links = Links()
    for row in range(20_000):
        for step in range(1, 6):
            links.propose(row, row + step, 5)
    links.edges()
    begun = time.process_time()
    for row in range(20_000, 20_050):
        links.propose(row, row + 10, 5)
        links.edges()
    sorting_in = (time.process_time() - begun) / 50
    begun = time.process_time()
    for row in range(1_000):
        links.drop(row)
    assert (time.process_time() - begun) / 1_000 < sorting_in / 5
    assert (links.of(999), links.degree(1_000)) == ([], 5)
