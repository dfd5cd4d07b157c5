"""Recall within spaces and tags: exact, echoed, and nothing where the limit is empty."""

from __future__ import annotations

import numpy as np
import pytest

from loremesh.node.errors import UnknownThing, UsageError
from loremesh.node.lexical import LexicalIndex
from loremesh.node.node import Node
from loremesh.node.results import Recalled
from loremesh.sync.content import normalise
from tests.node.guests import Guest, take
from tests.node.homes import Homes, fact, faultless


@pytest.fixture
async def scoped(node: Node) -> Node:
    """Blocks with tags, in two spaces, in both, and private."""
    await node.space_create("team")
    await node.space_create("team-ops")
    await node.learn("The queue is red", tags=["color", "ops"], share=["team"])
    await node.learn("The queue is blue", tags=["color"], share=["team-ops"])
    await node.learn("The queue is long", tags=["ops"], share=["team", "team-ops"])
    await node.learn("The queue is private", tags=["colors"])
    await node.learn("The queue has no tag")
    return node


def said(found: Recalled) -> set[str]:
    return {hit.text.removeprefix("The queue ").removeprefix("is ") for hit in found.hits}


@pytest.mark.parametrize(
    ("tags", "texts"),
    [
        (None, {"red", "blue", "long", "private", "has no tag"}),
        ([], set()),
        (["color"], {"red", "blue"}),
        (["colors"], {"private"}),
        (["col"], set()),
        (["Color"], set()),
        (["color", "ops"], {"red", "blue", "long"}),
        (["  color\n", "color"], {"red", "blue"}),
        (["unheard-of"], set()),
    ],
)
async def test_tags_limit_a_recall_to_blocks_that_have_any_of_them(
    scoped: Node, tags: list[str] | None, texts: set[str]
) -> None:
    """Exact, in the normal form that learning gave them; what held is echoed."""
    found = await scoped.recall("queue", k=10, tags=tags)
    assert said(found) == texts
    assert found.tags == (None if tags is None else list(dict.fromkeys(map(normalise, tags))))
    assert found.spaces is None


@pytest.mark.parametrize(
    ("spaces", "texts"),
    [
        ([], set()),
        (["team"], {"red", "long"}),
        (["team-ops"], {"blue", "long"}),
        (["team-ops", "team", "team"], {"red", "blue", "long"}),
    ],
)
async def test_spaces_limit_a_recall_to_blocks_in_any_of_them(
    scoped: Node, spaces: list[str], texts: set[str]
) -> None:
    """By name or by id; private blocks are in none; the answer says which spaces they were."""
    ids = {space.name: space.space for space in await scoped.spaces()}
    for asked in (spaces, [ids[name] for name in spaces]):
        found = await scoped.recall("queue", k=10, spaces=asked)
        assert said(found) == texts
        assert found.spaces == {ids[name]: name for name in spaces}


async def test_both_limits_hold_together(scoped: Node) -> None:
    """A block has to be within the spaces and have one of the tags."""
    assert said(await scoped.recall("queue", k=10, spaces=["team"], tags=["ops"])) == {"red", "long"}
    assert said(await scoped.recall("queue", k=10, spaces=["team-ops"], tags=["ops"])) == {"long"}
    assert said(await scoped.recall("queue", k=10, spaces=[], tags=["ops"])) == set()


@pytest.mark.parametrize("named", ["tea", "team-op", "TEAM", "", " team", "*"])
async def test_a_space_that_is_not_there_is_an_error_and_no_empty_answer(scoped: Node, named: str) -> None:
    """No prefix, no other case, and nothing logged."""
    before = (await scoped.status()).log_rows
    with pytest.raises(UnknownThing, match="no space"):
        await scoped.recall("queue", spaces=["team", named])
    assert (await scoped.status()).log_rows == before


@pytest.mark.parametrize(
    ("limits", "error"),
    [
        ({"tags": "ops"}, "tags is one text"),
        ({"spaces": "team"}, "spaces is one text"),
        ({"tags": [""]}, "tag ''"),
        ({"tags": ["x" * 65]}, "tag 'x"),
        ({"tags": ["a\0b"]}, "tag"),
        ({"tags": [7]}, "a tag is a int"),
        ({"tags": [f"t{n}" for n in range(257)]}, "257 tags"),
    ],
)
async def test_a_limit_that_cannot_be_is_refused(
    node: Node, limits: dict[str, list[str]], error: str
) -> None:
    """Named, with what to give instead: a text is not taken for a list of its characters."""
    with pytest.raises(UsageError, match=error) as caught:
        await node.recall("queue", **limits)  # type: ignore[arg-type]
    assert caught.value.hint


async def test_what_a_peer_gave_into_a_space_is_within_it_while_it_counts(homes: Homes) -> None:
    """A block known from a peer belongs to the space it came through, and its tags here are ours alone."""
    async with homes.create("alice") as node:
        bob = Guest("bob", (await node.space_create("team", member_trust=1.0)).token)
        await node.space_create("other")
        await take(node, bob.admitted(), bob.blocks("The queue is drained", "The queue is ours"))
        await node.learn("The queue is ours")
        assert said(await node.recall("queue", spaces=["team"])) == {"drained", "ours"}
        assert said(await node.recall("queue", spaces=["other"])) == set()
        await node.trust_set(bob.id, 0.0)
        assert said(await node.recall("queue", spaces=["team"])) == set()
        assert said(await node.recall("queue")) == {"ours"}
        await faultless(node)


async def test_what_is_out_of_scope_neither_fills_nor_scales_the_answer(homes: Homes) -> None:
    """A narrow scope finds its best block by its words though a thousand others match them better."""
    async with homes.create("alice") as node:
        await node.learn_many([f"queue queue {n}" for n in range(1_100)])
        await node.learn(f"The queue is mentioned late in {fact(3)} and {fact(4)}", tags=["ops"])
        (hit,) = (await node.recall("queue", tags=["ops"])).hits
        assert hit.parts["sim"] == pytest.approx(0.4)


def test_a_lexical_search_among_some_rows_counts_only_those_to_its_limit() -> None:
    """Rows that are out take no places."""
    index = LexicalIndex()
    index.add(range(5), ["queue queue", "queue", "queue and more", "other", "queue queue queue"])
    among = np.array([False, True, True, True, False])
    rows, _ = index.search("queue", limit=2, among=among)
    assert rows.tolist() == [1, 2]


async def test_a_scoped_episode_takes_its_outcome(scoped: Node) -> None:
    """And one that nothing is within is an episode without blocks, which says so."""
    found = await scoped.recall("queue", tags=["color"])
    taken = await scoped.outcome(1.0, episode=found.episode)
    assert set(taken.blocks) == {hit.block for hit in found.hits}
