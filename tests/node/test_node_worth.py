"""Worth, decisions and attribution through a whole node."""

from __future__ import annotations

from pathlib import Path

import pytest

from loremesh.node.errors import UnknownThing, UsageError
from loremesh.node.exchange.files import export_to, import_from
from loremesh.node.node import Node
from tests.node.guests import Guest, take
from tests.node.homes import CONFIG, Homes, fact, faultless
from tests.sync.world import Row

DIVERSE = CONFIG + "[memory]\ndiversity = 1.0\n"
KNOWN = CONFIG + "[memory.base_rates]\nhard = 0.1\n"


@pytest.fixture
def homes(tmp_path: Path) -> Homes:
    return Homes(tmp_path)


async def learned(node: Node, count: int) -> list[str]:
    return [one.block for one in await node.learn_many([fact(number) for number in range(count)])]


async def used(node: Node, block: str, good: int, bad: int, context: str = "") -> None:
    for number in range(good + bad):
        await node.outcome(float(number < good), blocks=[block], context=context)


async def test_worth_is_first_hand_by_context_and_survives_a_restart(homes: Homes) -> None:
    """Neither prior, rating nor peer counts; a block's contexts add up to its total."""
    async with homes.create("alice") as node:
        one, two = await learned(node, 2)
        await node.consolidate()
        guest = Guest("bob", (await node.space_create("team", member_trust=1.0)).token)
        await take(node, guest.admitted(), guest.blocks(fact(0)), guest.evidence(Row(fact(0), 30, 0)))
        await used(node, one, 2, 1)
        await used(node, one, 0, 3, "deploy")
        before = await node.worth()
        assert [(seen.block, seen.alpha, seen.beta, seen.worth) for seen in before] == [
            (one, 2.0, 4.0, 1 / 3)
        ]
        assert before[0].text == fact(0)
        assert before[0].low < 1 / 3 < before[0].high
        by_context = await node.worth(block=one)
        assert [(seen.context, seen.alpha, seen.beta) for seen in by_context] == [
            (None, 2.0, 4.0),
            ("", 2.0, 1.0),
            ("deploy", 0.0, 3.0),
        ]
        assert [seen.worth for seen in await node.worth(context="deploy")] == [0.0]
        assert await node.worth(context="never used") == []
        assert [(seen.worth, seen.kind) for seen in await node.worth(block=two)] == [(0.5, "uncertain")]
        await faultless(node)
    async with homes.open("alice") as node:
        assert await node.worth() == before


async def test_the_recent_window_fades_by_use_and_is_in_the_checkpoint(homes: Homes) -> None:
    """λ = 0.99 per outcome in a context, after a restart as before."""
    async with homes.create("alice") as node:
        (block,) = await learned(node, 1)
        await used(node, block, 20, 20)
        (seen,) = await node.worth()
        await faultless(node)
    good = sum(0.99 ** (39 - at) for at in range(20))
    every = sum(0.99 ** (39 - at) for at in range(40))
    assert seen.recent == pytest.approx(good / every)
    assert (seen.worth, seen.trend) == (0.5, "steady")
    async with homes.open("alice") as node:
        await used(node, block, 0, 1)
        assert (await node.worth())[0].recent == pytest.approx(0.99 * good / (0.99 * every + 1.0))


async def test_a_deprecated_block_leaves_recall_and_comes_back_with_everything(homes: Homes) -> None:
    """Its log, evidence and text stay; both decisions are events; so it is after a restart."""
    async with homes.create("alice") as node:
        bad, other = await learned(node, 2)
        await used(node, bad, 1, 2)
        before = await node.explain(bad)
        decided = await node.deprecate(bad[:12], why="wrong since v2")
        assert (decided.block, decided.withdrawn, decided.changed) == (bad, "deprecated", True)
        assert not (await node.deprecate(bad, why="again")).changed
        assert [hit.block for hit in (await node.recall("Rule", k=5)).hits] == [other]
        assert (await node.explain(bad)).status == "deprecated"
        assert (await node.explain(bad)).alpha == before.alpha
        await node.outcome(1.0, blocks=[bad])
        await faultless(node)
    async with homes.open("alice") as node:
        assert [hit.block for hit in (await node.recall("Rule", k=5)).hits] == [other]
        assert (await node.restore(bad)).changed
        assert not (await node.restore(bad)).changed
        assert {hit.block for hit in (await node.recall("Rule", k=5)).hits} == {bad, other}
        assert (await node.explain(bad)).alpha == before.alpha + 1.0
        kinds = [event.kind for event in await node.events(bad)]
        assert [kind for kind in kinds if kind in ("deprecate", "restore")] == ["deprecate", "restore"]
        why = [event.detail["why"] for event in await node.events(bad) if event.kind == "deprecate"]
        assert why == ["wrong since v2"]
        await faultless(node)


async def test_a_decision_needs_a_reason_and_a_block_that_is_here(homes: Homes) -> None:
    async with homes.create("alice") as node:
        (block,) = await learned(node, 1)
        with pytest.raises(UsageError, match="without a reason"):
            await node.deprecate(block, why=" ")
        with pytest.raises(UnknownThing):
            await node.deprecate("ab" * 32, why="not here")
        with pytest.raises(UsageError, match="by context"):
            await node.worth(block=block, candidates=True)
        assert (await node.explain(block)).status == "pending"


async def test_candidates_come_and_go_with_hysteresis(homes: Homes) -> None:
    """Proposed when it fails more than others; gone once decided; restored, it has a fresh chance."""
    async with homes.create("alice") as node:
        bad, good = await learned(node, 2)
        await used(node, good, 14, 2)
        await used(node, bad, 1, 15)
        proposed = [(one.block, one.proposal) for one in await node.worth(candidates=True)]
        assert proposed == [(bad, "deprecate")]
        await node.deprecate(bad, why="fails")
        assert await node.worth(candidates=True) == []
        await used(node, bad, 12, 0)
        assert [one.proposal for one in await node.worth(candidates=True)] == ["restore"]
        await node.restore(bad)
        assert await node.worth(candidates=True) == []
        await used(node, bad, 0, 7)
        assert await node.worth(candidates=True) == []
        await used(node, bad, 0, 6)
        assert [one.proposal for one in await node.worth(candidates=True)] == ["deprecate"]


async def test_a_decision_is_no_use_of_the_memory(homes: Homes) -> None:
    """It leaves the active clock where it was, with a restart and without."""
    hours = []
    for name, restart in (("alice", False), ("bob", True)):
        async with homes.create(name) as node:
            (block,) = await learned(node, 1)
            homes.pass_minutes(20)
            await node.deprecate(block, why="wrong")
            assert (await node.status()).hour == 0.0
            homes.pass_minutes(5)
            if not restart:
                await node.recall("Rule")
                hours.append((await node.status()).hour)
        if restart:
            async with homes.open(name) as node:
                await node.recall("Rule")
                hours.append((await node.status()).hour)
    assert hours == [pytest.approx(25 / 60)] * 2


async def test_a_decision_goes_into_a_file_and_comes_out_of_it(homes: Homes, tmp_path: Path) -> None:
    async with homes.create("alice") as node:
        bad, other = await learned(node, 2)
        await node.deprecate(bad, why="wrong since v2")
        await export_to(node, tmp_path / "all.jsonl")
    async with homes.create("bob") as node:
        await import_from(node, tmp_path / "all.jsonl")
        assert [hit.block for hit in (await node.recall("Rule")).hits] == [other]
        assert (await node.explain(bad)).status == "deprecated"
        await faultless(node)


async def test_a_known_base_rate_is_read_from_the_settings(homes: Homes) -> None:
    async with homes.create("alice", KNOWN) as node:
        one, two = await learned(node, 2)
        await used(node, one, 3, 7, "hard")
        await used(node, two, 9, 1, "hard")
        assert {seen.expected for seen in await node.worth()} == {0.1}


async def test_a_forgotten_block_leaves_neither_worth_nor_decision(homes: Homes) -> None:
    async with homes.create("alice") as node:
        (block,) = await learned(node, 1)
        await used(node, block, 1, 9)
        await node.deprecate(block, why="fails")
        await node.forget(block)
        assert await node.worth() == []
        await node.learn(fact(0))
        assert [hit.block for hit in (await node.recall("Rule")).hits] == [block]
        await faultless(node)


async def test_recall_parts_a_habitual_pair_and_says_which_it_held_back(homes: Homes) -> None:
    """With a share of one every recall does, once the two were judged together eight times; the next best
    block takes the place.
    """
    async with homes.create("alice", DIVERSE) as node:
        await learned(node, 3)
        for _ in range(8):
            found = await node.recall("Rule indexer deploy", k=2)
            assert found.held_back == ""
            await node.outcome(1.0, episode=found.episode)
        pair = {hit.block for hit in found.hits}
        parted = await node.recall("Rule indexer deploy", k=2)
        assert parted.held_back in pair
        rest = {hit.block for hit in parted.hits}
        assert (len(rest), len(rest & pair)) == (2, 1)
        await faultless(node)


async def test_attribution_reads_the_log_and_calls_out_what_only_comes_along(homes: Homes) -> None:
    """A block used on easy tasks alone is associated with success and is not its cause; confirmations and
    weightless outcomes say nothing; one context can be asked for.
    """
    async with homes.create("alice") as node:
        rider, one, two = await learned(node, 3)
        for context, rate, pairs in (
            ("easy", 0.8, ([rider, one], [rider, two], [one, two])),
            ("hard", 0.2, ([one], [two], [one, two])),
        ):
            for pair in pairs:
                for number in range(20):
                    await node.outcome(float(number < 20 * rate), blocks=pair, context=context)
        await node.confirm([rider])
        await node.outcome(0.0, blocks=[rider], weight=0.0)
        found = await node.attribute()
        assert (found.episodes, found.contexts, found.blocks) == (120, 2, 3)
        assert found.success == pytest.approx(0.5)
        called = {one.block: one for one in found.found}
        assert called[rider].association[1] > 0.0
        assert (called[rider].role, called[rider].without_cause) == ("easy rider", True)
        assert called[rider].explained_by == "context"
        assert called[rider].text == fact(0)
        assert (await node.attribute(context="hard")).episodes == 60
        assert len((await node.attribute(limit=1)).found) == 1
        episode = (await node.recall("Rule", context="hard")).episode
        await node.outcome(1.0, episode=episode)
        assert (await node.attribute(context="hard")).episodes == 61


async def test_nothing_judged_attributes_nothing(homes: Homes) -> None:
    async with homes.create("alice") as node:
        assert (await node.attribute()).found == []
