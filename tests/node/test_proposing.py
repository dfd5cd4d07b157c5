"""Which links are proposed: to the most similar, while both ends have room."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loremesh.node.links import Links
from loremesh.node.proposing import DEGREE, SHARE, Proposal, Proposing
from loremesh.sync.fixed import ONE


def fold(links: Links, proposals: list[Proposal]) -> None:
    for proposal in proposals:
        for other, weight in proposal.links:
            links.propose(proposal.row, other, round(weight * ONE))


def hub(cosine: float, degree: int = DEGREE) -> Links:
    """Row 0 with that many links of this cosine, to rows 1, 2 …"""
    links = Links()
    for other in range(1, degree + 1):
        links.propose(0, other, round(cosine * SHARE * ONE))
    return links


def test_the_most_similar_are_linked_at_half_their_cosine() -> None:
    """No more than asked for, best first."""
    (made,) = Proposing(Links(), 2).propose(9, [(4, 0.875), (2, 0.75), (7, 0.625)])
    assert made == Proposal(9, [(4, 0.4375), (2, 0.375)], looked=True)


def test_nothing_similar_is_said_as_well() -> None:
    """So that it is not looked for again."""
    assert Proposing(Links(), 2).propose(9, []) == [Proposal(9, [], looked=True)]


def test_what_is_linked_already_takes_its_place() -> None:
    """By an earlier block of the same batch, by hand, or parted by hand: nothing is proposed for it."""
    links = Links()
    links.connect(9, 4, ONE)
    links.connect(9, 5, 0)
    proposing = Proposing(links, 3)
    proposing.propose(2, [(9, 0.75)])
    (made,) = proposing.propose(9, [(4, 0.9), (5, 0.8), (2, 0.75), (7, 0.7)])
    assert made.links == []


def test_a_full_block_takes_a_stronger_link_for_its_weakest() -> None:
    """Of equally weak ones the latest gives way, as an event of the full block; a weaker one is not made."""
    links = hub(0.6875)
    proposing = Proposing(links, 1)
    assert proposing.propose(50, [(0, 0.6875), (3, 0.625)]) == [Proposal(50, [(3, 0.3125)], looked=True)]
    assert proposing.propose(51, [(0, 0.75)]) == [
        Proposal(0, [(DEGREE, 0.0)], looked=False),
        Proposal(51, [(0, 0.375)], looked=True),
    ]


def test_links_made_by_hand_do_not_give_way() -> None:
    """A block full of them takes no proposal."""
    links = Links()
    for other in range(1, DEGREE + 1):
        links.connect(0, other, 1)
    assert Proposing(links, 1).propose(50, [(0, 1.0)]) == [Proposal(50, [], looked=True)]


def test_a_block_that_others_filled_proposes_only_what_is_stronger() -> None:
    """The bound holds for the block itself as well."""
    links = hub(0.6875)
    made = Proposing(links, 2).propose(0, [(40, 0.75), (41, 0.625)])
    assert made == [Proposal(0, [(DEGREE, 0.0)], looked=False), Proposal(0, [(40, 0.375)], looked=True)]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(1, 30))
def test_no_block_ever_has_more_than_the_bound_by_similarity(seed: int, count: int, batch: int) -> None:
    """However alike all are, in batches of any size; what the batch knew agrees with what it left."""
    import random

    from loremesh.node import proposing as module

    chance = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "DEGREE", 4)
        links = Links()
        for start in range(0, 60, batch):
            proposing = Proposing(links, count)
            proposals = []
            for row in range(start, min(start + batch, 60)):
                others = [(other, chance.choice([0.6, 0.7, 0.8, 0.9])) for other in range(row) if other % 3]
                near = sorted(others, key=lambda one: -one[1])[: 2 * count]
                proposals += proposing.propose(row, near)
            fold(links, proposals)
            assert all(len(links.of(row)) <= 4 for row in range(60))
        looked = [proposal for proposal in proposals if proposal.looked]
        assert len(looked) == len(range(start, 60))
