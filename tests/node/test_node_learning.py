"""Learning through the Python API: what it promises and what it refuses."""

from __future__ import annotations

import pytest

from loremesh.node.errors import UnknownThing, UsageError
from loremesh.node.node import Node
from loremesh.sync.content import block_id
from loremesh.sync.errors import InvalidInput
from tests.node.guests import guest_in, take
from tests.node.homes import effective, fact
from tests.sync.world import Row

NO_EPISODE = "0" * 32


def named(text: str) -> str:
    return block_id(text).hex()


async def test_what_was_learned_is_found_by_the_next_call(node: Node) -> None:
    learned = await node.learn("Restart the indexer after a schema change", tags=["ops"])
    assert learned.created
    (hit,) = (await node.recall("indexer schema")).hits
    assert (hit.block, hit.text, hit.tags) == (
        learned.block,
        "Restart the indexer after a schema change",
        ["ops"],
    )
    assert [(one.source, one.trust) for one in hit.provenance] == [("self", 1.0)]


async def test_learning_again_with_other_white_space_is_a_no_op_that_says_so(node: Node) -> None:
    first = await node.learn("Restart the indexer")
    before = await node.explain(first.block)
    again = await node.learn("  Restart \r\n\tthe   indexer ")
    assert (again.block, again.created) == (first.block, False)
    assert await node.explain(first.block) == before
    assert (await node.status()).blocks == 1


async def test_learning_again_adds_tags_and_spaces_and_no_evidence(node: Node) -> None:
    await node.space_create("team")
    block = (await node.learn("Restart the indexer", tags=["ops"])).block
    before = await effective(node)
    assert not (await node.learn("Restart the indexer", tags=["ops", "night"], share=["team"])).created
    seen = await node.explain(block)
    assert (seen.tags, seen.spaces) == (["ops", "night"], ["team"])
    assert await effective(node) == before
    rows = (await node.status()).log_rows
    await node.learn("Restart the indexer", tags=["night"], share=["team"])
    assert (await node.status()).log_rows == rows, "nothing new, yet something was logged"


async def test_learning_a_peers_block_makes_it_held_and_lowers_nothing(node: Node) -> None:
    bob = await guest_in(node)
    text = "Rotate the certificates in May"
    await take(node, bob.blocks(text), bob.evidence(Row(text, 6, 2, stability_h=500)))
    theirs = await node.explain(named(text))
    assert (theirs.held, theirs.status) == (False, "peers")
    assert (await node.learn(text)).created
    ours = await node.explain(named(text))
    assert ours.held
    assert (ours.alpha, ours.beta) == (theirs.alpha + 0.5, theirs.beta + 0.5)
    assert ours.stability_h >= theirs.stability_h
    assert ours.last_event_h >= theirs.last_event_h


async def test_a_block_learned_here_reads_as_it_was_learned_here(node: Node) -> None:
    bob = await guest_in(node)
    await take(node, bob.blocks("Rotate \n\n the   certificates"))
    await node.learn("Rotate the certificates")
    assert (await node.recall("certificates")).hits[0].text == "Rotate the certificates"


@pytest.mark.parametrize("text", ["", " \n ", "nul \0 in it", "lone \ud800 surrogate", "x" * 65_537])
async def test_a_text_that_cannot_be_a_block_is_refused_by_name(node: Node, text: str) -> None:
    with pytest.raises(InvalidInput, match="text"):
        await node.learn(text)
    assert (await node.status()).blocks == 0


@pytest.mark.parametrize("tags", [["x" * 65], [f"t{n}" for n in range(33)], ["a\0b"], [" "]])
async def test_tags_out_of_bounds_are_refused_and_nothing_is_learned(node: Node, tags: list[str]) -> None:
    with pytest.raises(InvalidInput, match="tag"):
        await node.learn("Restart the indexer", tags=tags)
    assert (await node.status()).blocks == 0


async def test_one_text_in_place_of_a_list_is_refused_by_name_and_nothing_is_learned(node: Node) -> None:
    with pytest.raises(UsageError, match="tags is one text, 'ops'"):
        await node.learn("Restart the indexer", tags="ops")
    with pytest.raises(UsageError, match="share is one text"):
        await node.learn("Restart the indexer", share="team")
    with pytest.raises(UsageError, match="texts is one text"):
        await node.learn_many("Restart the indexer")
    assert (await node.status()).held == 0
    learned = await node.learn("Restart the indexer")
    with pytest.raises(UsageError, match="blocks is one text"):
        await node.outcome(1.0, blocks=learned.block)
    with pytest.raises(UsageError, match="a Learned is no block id"):
        await node.outcome(1.0, blocks=[learned])  # type: ignore[list-item]
    with pytest.raises(UsageError, match="blocks is one text"):
        await node.confirm(learned.block)


async def test_sharing_into_an_unknown_space_is_refused_and_nothing_is_learned(node: Node) -> None:
    with pytest.raises(UnknownThing, match="nowhere"):
        await node.learn("Restart the indexer", share=["nowhere"])
    assert (await node.status()).blocks == 0


async def test_learning_many_answers_each_in_order_and_tells_how_far_it_is(node: Node) -> None:
    await node.learn(fact(3))
    told: list[tuple[int, int]] = []
    texts = [*map(fact, range(600)), f" {fact(0)}"]
    learned = await node.learn_many(texts, tags=["bulk"], progress=lambda done, of: told.append((done, of)))
    assert [one.block for one in learned] == [named(text) for text in texts]
    assert [at for at, one in enumerate(learned) if not one.created] == [3, 600]
    assert told == [(512, 601), (601, 601)]
    assert (await node.status()).blocks == 600
    assert (await node.explain(named(fact(3)))).tags == ["bulk"]


async def test_one_bad_text_among_many_is_named_and_none_is_learned(node: Node) -> None:
    with pytest.raises(InvalidInput, match="text 3"):
        await node.learn_many(["one", "two", " ", "four"])
    assert (await node.status()).blocks == 0
