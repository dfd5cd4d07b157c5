"""Recall within a budget, and what else tells of summaries: levels, sources, trust, limits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from loremesh.node.errors import UnknownThing, UsageError
from loremesh.node.extract import tokens
from loremesh.node.node import Node
from loremesh.node.results import Recalled
from tests.node.guests import Guest, guest_in, take
from tests.node.homes import effective, faultless
from tests.node.tier_homes import (
    CONFIG_TIERS,
    INDEXER,
    LONE,
    QUOTA,
    TierHomes,
    block_of,
    summaries,
)


@pytest.fixture
def tiers(tmp_path: Path) -> TierHomes:
    return TierHomes(tmp_path)


@pytest.fixture
async def node(tiers: TierHomes) -> AsyncIterator[Node]:
    """A home with two groups, and one block that belongs to neither."""
    async with tiers.create("home") as node:
        await node.learn_many([*INDEXER, *QUOTA, LONE])
        await node.consolidate()
        yield node


async def test_plain_recall_knows_of_no_summary(node: Node) -> None:
    """The same hits with the same scores as before, by every frame; none is a summary."""
    queries = ("restart the indexer", "quota form", "cats", "who takes two days")
    frames = ("self", "attention", "task", "simulate")

    async def all_hits() -> list[list[tuple[str, float]]]:
        found = [await node.recall(query, frame=frame, k=20) for query in queries for frame in frames]
        assert all(one.above == [] and one.budget is None and one.tokens == 0 for one in found)
        return [[(hit.block, hit.score) for hit in one.hits] for one in found]

    before, numbers = await all_hits(), await effective(node)
    await node.summarise()
    assert await all_hits() == before
    assert await effective(node) == numbers


async def test_recall_within_a_budget_keeps_to_it_and_names_levels_and_sources(node: Node) -> None:
    """Whole items, tokens as counted, summaries with what they stand for; blocks alone are an episode."""
    await node.summarise()
    for budget in (1, 20, 60, 100, 150, 300, 2_000):
        found = await node.recall("how is the indexer restarted?", budget_tokens=budget)
        assert found.budget == budget
        items = [(one.text, one.tokens) for one in found.hits]
        items += [(one.text, one.tokens) for one in found.above]
        assert found.tokens == sum(size for _, size in items) <= budget
        assert all(size == tokens(text) for text, size in items)
        assert [hit.score for hit in found.hits] == sorted((hit.score for hit in found.hits), reverse=True)
        assert all(hit.text in [*INDEXER, *QUOTA, LONE] for hit in found.hits), "originals, verbatim"
    assert (len(found.hits), found.above) == (9, []), "all blocks fit: nothing is said twice"
    tight = await node.recall("how is the indexer restarted?", budget_tokens=80)
    assert [one.level for one in tight.above] == ["abstract"]
    (abstract,) = tight.above
    assert sorted(abstract.sources) == sorted(block_of(node, text) for text in INDEXER)
    assert (abstract.trust, abstract.summariser) == (1.0, "watched")
    taken = await node.outcome(1.0, episode=tight.episode)
    assert taken.blocks == [hit.block for hit in tight.hits]
    wide = await node.recall("how is the indexer restarted?", budget_tokens=200, k=1)
    assert (len(wide.hits), [one.level for one in wide.above][:1]) == (1, ["summary"])


@pytest.mark.parametrize("budget", [0, -1, 1_000_001, 10**30, True, 5.0, "100"])
async def test_a_budget_that_cannot_be_is_refused(node: Node, budget: int) -> None:
    """By name and value, before anything is logged."""
    rows = node.ground.store.position.n
    with pytest.raises(UsageError, match="budget_tokens"):
        await node.recall("indexer", budget_tokens=budget)
    assert node.ground.store.position.n == rows


async def test_a_summary_takes_no_outcome_and_cannot_be_decided_about(node: Node) -> None:
    """It is no block: outcome, confirm, deprecate, forget and links do not know it."""
    await node.summarise()
    found = await node.recall("indexer", budget_tokens=80)
    name = found.above[0].block
    for ask in (
        node.outcome(1.0, blocks=[name]),
        node.confirm([name]),
        node.deprecate(name, why="no"),
        node.forget(name),
        node.worth(block=name),
        node.connect(name, block_of(node, LONE)),
        node.rescore([name]),
    ):
        with pytest.raises(UnknownThing, match="no block"):
            await ask
    assert (await node.explain(name)).block == name


async def test_explain_names_the_summaries_of_a_block_and_the_sources_of_a_summary(node: Node) -> None:
    """Both ways, with text, level, trust and who made it; a lone block is in none."""
    await node.summarise()
    block = block_of(node, INDEXER[0])
    above = (await node.explain(block)).summaries
    assert [one.level for one in above] == ["abstract", "summary"]
    assert all(block in one.sources and one.shown and one.trust == 1.0 and one.text for one in above)
    assert (await node.explain(block_of(node, LONE))).summaries == []
    told = await node.explain(above[1].block[:12])
    assert (told.status, told.held, told.text) == ("summary", False, above[1].text)
    assert [one.sources for one in told.summaries] == [above[1].sources]
    with pytest.raises(UnknownThing):
        await node.explain("0" * 12)


async def test_the_log_tells_what_was_summarised_by_whom(node: Node) -> None:
    """One event for each text, with the blocks it is made from."""
    await node.summarise()
    events = [event for event in await node.events() if event.kind == "summarise"]
    assert sorted(str(event.detail["level"]) for event in events) == ["abstract", "summary", "summary"]
    blocks = {block_of(node, text) for text in [*INDEXER, *QUOTA]}
    for event in events:
        sources = event.detail["sources"]
        assert isinstance(sources, list)
        assert set(map(str, sources)) <= blocks
        assert event.detail["summariser"] == "watched"


async def with_guest(node: Node, guest: Guest, *texts: str) -> None:
    """A peer's blocks come in and are embedded."""
    await take(node, guest.blocks(*texts))
    await node.consolidate()


def seen(found: Recalled) -> list[tuple[str, str, float]]:
    return [(one.level, one.text, one.trust) for one in found.above]


async def test_a_summary_carries_the_trust_of_its_peer_and_goes_with_it(node: Node) -> None:
    """Own and foreign blocks never mix; revoked, it is out of view at once, exactly; trusted again, back."""
    await node.summarise()
    own = summaries(node.ground)
    guest = await guest_in(node, "bob", trust=0.5)
    theirs = [
        f"Restart the indexer after a schema change of cluster {n}. The indexer stalls otherwise: zoe {n}."
        for n in ("one", "two", "six", "ten")
    ]
    without = await node.recall("restart the indexer", budget_tokens=120)
    await with_guest(node, guest, *theirs)
    assert (await node.summarise()).written == 1
    assert {row: tier for row, tier in summaries(node.ground).items() if row in own} == own

    async def of_bob() -> list[tuple[str, str, float]]:
        found = await node.recall("restart the indexer", budget_tokens=120)
        return [one for one in seen(found) if "zoe" in one[1]]

    with_bob = await of_bob()
    assert [trust for _, _, trust in with_bob] == [0.5]
    alone = await node.recall("restart the indexer", frame="self", budget_tokens=120)
    assert not [one for one in seen(alone) if "zoe" in one[1]], "peers' texts enter no self frame"
    await node.trust_set(guest.id, 0.25)
    assert [trust for _, _, trust in await of_bob()] == [0.25]
    await node.trust_revoke(guest.id)
    revoked = await node.recall("restart the indexer", budget_tokens=120)
    assert await of_bob() == []
    assert seen(revoked) == seen(without)
    assert [hit.block for hit in revoked.hits] == [hit.block for hit in without.hits]
    assert (await node.summarise()).written == 0, "what nobody stands behind is not summarised anew"
    assert summaries(node.ground).keys() > own.keys()
    await node.trust_set(guest.id, 0.5)
    assert await of_bob() == with_bob
    await faultless(node)


async def test_a_peers_block_learned_here_leaves_trust_to_the_others(node: Node) -> None:
    """The least of the sources: held here counts as one, the rest as the peer."""
    guest = await guest_in(node, "bob", trust=0.5)
    theirs = [f"The tide table of pier {n} is printed at dawn. Tide table {n} hangs there." for n in "abcd"]
    await with_guest(node, guest, *theirs)
    await node.summarise()
    for text in theirs[:3]:
        await node.learn(text)
    told = (await node.explain(block_of(node, theirs[0]))).summaries
    assert {one.trust for one in told} == {0.5}
    await node.learn(theirs[3])
    assert {one.trust for one in (await node.explain(block_of(node, theirs[0]))).summaries} == {1.0}


async def test_a_recall_limited_to_tags_tells_no_summary_of_blocks_without_them(node: Node) -> None:
    """All of a summary's sources are within the limit, or it is not told."""
    await node.summarise()
    ask = "how is the indexer restarted?"
    for text in INDEXER[:-1]:
        await node.learn(text, tags=["ops"])
    limited = await node.recall(ask, budget_tokens=80, tags=["ops"], k=1)
    assert (len(limited.hits), limited.above) == (1, [])
    await node.learn(INDEXER[-1], tags=["ops"])
    assert len((await node.recall(ask, budget_tokens=80, tags=["ops"], k=1)).above) == 1


async def test_a_block_that_is_held_back_comes_in_no_summary_either(tmp_path: Path) -> None:
    """To part a habitual pair, the sentences of the one that is left out are left out too."""
    homes = TierHomes(tmp_path)
    config = CONFIG_TIERS.replace("[embedder]", "[memory]\ndiversity = 1.0\n[embedder]")
    async with homes.create("home", config) as node:
        await node.learn_many([*INDEXER, *(text.replace("cluster", "cluster old") for text in INDEXER[:3])])
        await node.consolidate()
        assert (await node.summarise()).abstracts == 1
        ask, told, apart = "how is the indexer restarted?", 0, 0
        for _ in range(24):
            found = await node.recall(ask, budget_tokens=90)
            await node.outcome(1.0, episode=found.episode)
            if found.held_back:
                apart += 1
                assert not [one for one in found.above if found.held_back in one.sources]
            else:
                told += bool(found.above)
        assert apart
        assert told
