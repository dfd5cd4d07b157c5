"""What fits into a budget of tokens: whole items, the best blocks, and abstracts of what has no room."""

from hypothesis import given
from hypothesis import strategies as st

from loremesh.node.descending import Chosen, Group, Item, choose


def blocks(*sizes: int, principal: int = -1) -> list[Item]:
    return [Item(row, size, principal) for row, size in enumerate(sizes)]


def test_without_groups_the_best_blocks_that_fit_are_handed_out() -> None:
    """In their order, whole; one that has no room is passed over, a smaller one behind it is taken."""
    assert choose(blocks(40, 70, 30, 50, 20), [], 100, 0.1, 1.0) == Chosen([0, 2, 4], [], 90)


def test_what_has_no_room_is_told_by_the_abstract_of_its_group() -> None:
    """Two blocks of a group are beyond the budget: its abstract takes room from the last block."""
    group = Group((3, 4), (Item(100, 10), Item(101, 60)))
    assert choose(blocks(30, 30, 30, 30, 30), [group], 100, 0.1, 1.0) == Chosen([0, 1, 2], [100], 100)


def test_an_abstract_becomes_the_summary_where_there_is_room() -> None:
    """What is left when the blocks are placed goes to saying more."""
    group = Group((3, 4), (Item(100, 10), Item(101, 25)))
    assert choose(blocks(30, 30, 200, 300, 300), [group], 100, 0.1, 1.0) == Chosen([0, 1], [101], 85)


def test_a_group_of_blocks_that_are_all_handed_out_is_not_told_again() -> None:
    """Its abstract gives its room back, and a block takes it."""
    fits = Group((0, 1), (Item(100, 10), Item(101, 20)))
    assert choose(blocks(30, 30, 30), [fits], 100, 0.1, 1.0) == Chosen([0, 1, 2], [], 90)
    # With both abstracts taken the second block has no room, so both of the first group have.
    small, large = Group((2, 3), (Item(100, 8),)), Group((4, 5), (Item(102, 2),))
    ranked = blocks(50, 45, 6, 6, 40, 40)
    assert choose(ranked, [small, large], 100, 0.5, 1.0) == Chosen([0, 2, 3], [102], 64)
    assert choose(ranked, [small], 100, 0.5, 1.0) == Chosen([0, 1], [], 95), "as without any"


def test_one_block_of_a_group_that_has_no_room_brings_no_abstract() -> None:
    """An abstract stands for several."""
    group = Group((0, 3), (Item(100, 5),))
    assert choose(blocks(30, 30, 30, 30), [group], 95, 0.1, 1.0) == Chosen([0, 1, 2], [], 90)


def test_summaries_keep_to_their_share_of_the_budget() -> None:
    """The group with most of what was missed, narrowly, comes first; the share holds one."""
    groups = [Group((5, 6, 7), (Item(100, 8),)), Group((3, 4), (Item(101, 8),))]
    found = choose(blocks(*[30] * 8), groups, 100, 0.1, 1.0)
    assert (found.above, found.blocks) == ([101], [0, 1, 2])
    assert choose(blocks(*[30] * 8), groups, 100, 0.0, 1.0).above == []


def test_one_foreign_principal_takes_at_most_its_share_of_the_tokens() -> None:
    """Blocks and summaries of one principal together; its first item is let through."""
    flood = [Item(0, 30, 7), Item(1, 30, 7), Item(2, 30), Item(3, 30, 7), Item(4, 10, 7)]
    assert choose(flood, [], 100, 0.1, 0.5).blocks == [0, 2, 4]
    assert choose([Item(0, 80, 7), Item(1, 10, 7)], [], 100, 0.1, 0.5).blocks == [0]


def test_no_more_blocks_than_asked_for_and_summaries_of_the_others() -> None:
    """What is beyond the number counts as without room."""
    group = Group((1, 2), (Item(100, 10),))
    assert choose(blocks(30, 30, 30), [group], 100, 0.1, 1.0, 1) == Chosen([0], [100], 40)


sizes = st.integers(1, 60)
rows = st.lists(st.builds(lambda size, who: (size, who), sizes, st.integers(-1, 2)), max_size=12)
parts = st.lists(st.tuples(st.sets(st.integers(0, 11), min_size=2, max_size=5), sizes, sizes), max_size=4)


@given(rows, parts, st.integers(1, 200), st.floats(0, 1))
def test_the_budget_holds_and_nothing_comes_twice(
    ranked: list[tuple[int, int]], groups: list[tuple[set[int], int, int]], budget: int, share: float
) -> None:
    """Whatever there is: whole items, tokens as counted, one form of a group at most, the order kept."""
    items = [Item(row, size, who) for row, (size, who) in enumerate(ranked)]
    made = [
        Group(tuple(sorted(sources)), (Item(100 + 2 * at, least), Item(101 + 2 * at, least + more)))
        for at, (sources, least, more) in enumerate(groups)
    ]
    found = choose(items, made, budget, share, 0.5)
    size = {item.row: item.tokens for item in [*items, *(form for group in made for form in group.forms)]}
    assert sum(size[row] for row in [*found.blocks, *found.above]) == found.tokens <= budget
    assert found.blocks == sorted(set(found.blocks))
    assert len({row // 2 for row in found.above}) == len(found.above)
    foreign = [sum(size[row] for row in found.blocks if items[row].principal == who) for who in range(3)]
    assert all(
        total <= budget * 0.5 or sum(items[row].principal == who for row in found.blocks) == 1
        for who, total in enumerate(foreign)
    )
