"""rescore, connect, due and confirm through a whole node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from loremesh.node.errors import Conflict, Unavailable, UnknownThing, UsageError
from loremesh.node.node import Node
from loremesh.node.ports import Ratings
from loremesh.sync.errors import InvalidInput
from tests.node.guests import guest_in, take
from tests.node.homes import CONFIG, Homes, fact, faultless
from tests.sync.world import Row

LONG_USE = CONFIG + "[memory]\nidle_gap_h = 1000\n"
"""All time that passes is use."""


class Moods:
    """A rater that says what it is told to, and notes what it was asked about."""

    name = "moods"

    def __init__(self) -> None:
        self.says: float | None = 0.25
        self.stopped = False
        self.asked: list[str] = []

    async def rate(self, texts: Sequence[str]) -> Ratings:
        self.asked += texts
        why = "the service is away" if self.says is None else ""
        return Ratings([self.says] * len(texts), why, self.stopped)

    async def close(self) -> None:
        """Nothing to let go of."""


def given(node: Node, rater: Moods | None) -> None:
    node.ground.parts = msgspec.structs.replace(node.ground.parts, rater=rater)


async def learned(node: Node, count: int) -> list[str]:
    return [one.block for one in await node.learn_many([fact(number) for number in range(count)])]


# rescore


async def test_a_second_rating_adds_evidence_and_refreshes_importance(node: Node) -> None:
    """What the first rating and outcomes said stays; the event tells the rater; other blocks do not move."""
    one, other = await learned(node, 2)
    await node.consolidate()
    await node.outcome(1.0, blocks=[one])
    before, beside = await node.explain(one), await node.explain(other)
    rater = Moods()
    given(node, rater)
    done = await node.rescore([one])
    assert (done.rated, done.unrated, done.rater) == (1, 0, "moods")
    assert [(told.block, told.rating, told.before) for told in done.found] == [(one, 0.25, 0.75)]
    after = await node.explain(one)
    assert (after.alpha, after.beta) == (before.alpha + 0.125, before.beta + 0.375)
    assert (after.importance, after.stability_h) == (0.25, before.stability_h)
    assert await node.explain(other) == beside
    assert rater.asked == [fact(0)]
    event = (await node.events(one))[-1]
    assert (event.kind, event.detail["rater"]) == ("rescore", "moods")
    await node.rescore([one, one[:12]])
    assert (await node.explain(one)).alpha == before.alpha + 0.25, "named twice is asked about once"
    await faultless(node)


async def test_a_block_that_was_never_rated_gets_its_first_rating(node: Node) -> None:
    """As consolidation would give it: it is active then."""
    (block,) = await learned(node, 1)
    given(node, Moods())
    await node.rescore([block])
    assert [event.kind for event in await node.events(block)] == ["learn", "consolidate"]
    assert (await node.explain(block)).status == "active"


async def test_no_answer_moves_nothing_and_is_told(node: Node) -> None:
    """Neither a rating, a neutral guess nor an event; nobody is asked once the service failed for all."""
    blocks = await learned(node, 70)
    await node.consolidate()
    before = await node.explain(blocks[0])
    rater = Moods()
    rater.says, rater.stopped = None, True
    given(node, rater)
    done = await node.rescore(blocks)
    assert (done.rated, done.unrated, done.why, done.found) == (0, 70, "the service is away", [])
    assert len(rater.asked) == 64, "the second batch is not tried"
    assert await node.explain(blocks[0]) == before


async def test_a_block_forgotten_while_the_rater_thinks_is_not_rated(node: Node) -> None:
    """The others are; nothing is written of the one that is gone."""
    one, gone = await learned(node, 2)

    class Slow(Moods):
        async def rate(self, texts: Sequence[str]) -> Ratings:
            await node.forget(gone)
            return await super().rate(texts)

    given(node, Slow())
    done = await node.rescore([gone, one])
    assert (done.rated, done.unrated, [told.block for told in done.found]) == (1, 1, [one])
    await faultless(node)


async def test_old_ratings_are_rated_again_the_oldest_first(homes: Homes) -> None:
    """Only those older than asked for and in recall; stopped half-way, the rest is done by the next run."""
    async with homes.create("alice", LONG_USE) as node:
        rater = Moods()
        given(node, rater)
        first = await learned(node, 3)
        await node.consolidate()
        homes.pass_minutes(60 * 10)
        (young,) = [one.block for one in await node.learn_many([fact(9)])]
        await node.consolidate()
        homes.pass_minutes(60)
        (unrated,) = [one.block for one in await node.learn_many([fact(10)])]
        await node.archive(first[2])
        rater.asked.clear()
        seen: list[tuple[int, int]] = []
        done = await node.rescore(all_older_than_h=5.0, progress=lambda at, of: seen.append((at, of)))
        assert rater.asked == [fact(10), fact(0), fact(1)]
        assert (done.rated, seen) == (3, [(3, 3)])
        assert (await node.rescore(all_older_than_h=5.0)).rated == 0
        assert [told.block for told in (await node.rescore(all_older_than_h=0.5)).found] == [young]
        assert (await node.explain(unrated)).importance == 0.25
        await faultless(node)
    async with homes.open("alice") as node:
        given(node, rater)
        assert (await node.rescore(all_older_than_h=0.5)).rated == 0, "when it was rated is kept"


async def test_what_cannot_be_rated_again_is_refused(homes: Homes) -> None:
    """Nothing or too much named, an age that is none, blocks of peers, and a home without a rater."""
    async with homes.create("alice") as node:
        (block,) = await learned(node, 1)
        wrongs: tuple[dict[str, Any], ...] = (
            {},
            {"blocks": [block], "all_older_than_h": 1.0},
            {"blocks": [block] * 257},
            {"all_older_than_h": float("nan")},
            {"all_older_than_h": -1.0},
        )
        for wrong in wrongs:
            with pytest.raises(UsageError):
                await node.rescore(**wrong)
        with pytest.raises(UnknownThing):
            await node.rescore(["ab" * 32])
        bob = await guest_in(node, "bob", 1.0)
        await take(node, bob.blocks("Only bob knows"))
        (hit,) = [hit for hit in (await node.recall("bob")).hits if hit.text == "Only bob knows"]
        with pytest.raises(Conflict, match="peers only"):
            await node.rescore([hit.block])
        given(node, None)
        with pytest.raises(Unavailable, match="no rater"):
            await node.rescore([block])


# connect


async def test_a_link_by_hand_is_made_changed_and_taken_away(homes: Homes) -> None:
    """Seen from both ends, kept over a restart; the same again is a no-op that says so."""
    async with homes.create("alice") as node:
        one, other = await learned(node, 2)
        made = await node.connect(one[:12], other, weight=0.5)
        assert (made.block, made.other) == (one, other)
        assert (made.weight, made.before, made.changed) == (0.5, 0.0, True)
        assert not (await node.connect(other, one, weight=0.5)).changed
        assert [event.kind for event in await node.events(one)] == ["learn", "connect"]
        rows = [node.ground.memory.row_named(block) for block in (one, other)]
        assert [edge.weight_fx / 2**16 for edge in node.ground.memory.own.links.of(rows[1])] == [0.5]
        await faultless(node)
    async with homes.open("alice") as node:
        assert (await node.connect(one, other, weight=0.75)).before == 0.5
        gone = await node.connect(one, other, weight=0.0)
        assert (gone.weight, gone.before, gone.changed) == (0.0, 0.75, True)
        assert node.ground.memory.own.links.of(rows[0]) == []
        assert not (await node.connect(one, other, weight=0.0)).changed
        assert (await node.connect(one, other)).weight == 1.0
        await faultless(node)


async def test_a_link_by_hand_is_by_hand_though_it_says_what_is_so(node: Node) -> None:
    """With the weight that similarity proposed, and where two that were never linked are kept apart."""
    one, two, three = [
        (await node.learn(f"Restart the indexer after a schema change{end}")).block
        for end in ("", " at night", " by day")
    ]
    await node.consolidate(limit=1)
    assert (await node.connect(one, two, weight=0.0)).changed
    assert not (await node.connect(two, one, weight=0.0)).changed
    await node.consolidate()
    seen = {link.block: link for link in (await node.explain(three)).neighbours}
    assert seen.keys() == {one, two}, "and the first two were kept apart"
    assert (await node.connect(three, one, weight=seen[one].base)).changed
    seen = {link.block: link for link in (await node.explain(three)).neighbours}
    assert (seen[one].kind, seen[two].kind) == ("by hand", "similar")
    await faultless(node)


async def test_what_cannot_be_linked_is_refused(node: Node) -> None:
    """A block with itself, one not known, a weight out of bounds."""
    one, other = await learned(node, 2)
    with pytest.raises(InvalidInput, match="itself"):
        await node.connect(one, one)
    with pytest.raises(UnknownThing):
        await node.connect(one, "ab" * 32)
    for weight in (-0.1, 1.1, float("nan")):
        with pytest.raises(InvalidInput, match="weight"):
            await node.connect(one, other, weight=weight)
    assert [event.kind for event in await node.events(one)] == ["learn"]


# due


async def test_what_fades_and_matters_most_is_due_first(homes: Homes) -> None:
    """Of blocks worth keeping: R below 0.9 within the horizon, by utility · importance · loss of R; what is
    useless, put away or fresh is not there.
    """
    async with homes.create("alice", LONG_USE) as node:
        rater = Moods()
        given(node, rater)
        good, better, poor, away, fresh, dull = await learned(node, 6)
        rater.says = 0.75
        await node.consolidate()
        rater.says = 0.25
        await node.rescore([dull])
        for block, signal, times in ((good, 1.0, 1), (better, 1.0, 1), (poor, 0.0, 4), (dull, 1.0, 4)):
            for _ in range(times):
                await node.outcome(signal, blocks=[block])
        await node.archive(away)
        for _ in range(4):
            homes.pass_minutes(60 * 40)
            await node.outcome(1.0, blocks=[fresh])
        await node.outcome(1.0, blocks=[better], weight=0.0)  # touches it, so that it has faded less
        homes.pass_minutes(60 * 5)
        await node.recall("something else")
        found = await node.due(horizon_h=30.0)
        assert (found.horizon_h, found.count, found.context) == (30.0, 2, "")
        assert [one.block for one in found.blocks] == [better, good]
        first, second = found.blocks
        seen = await node.explain(better)
        assert first.text == fact(1)
        assert first.utility == pytest.approx(seen.utility)
        assert (first.importance, first.retrievability) == (seen.importance, seen.retrievability)
        assert (first.to_90_h, first.to_50_h) == (seen.to_90_h, seen.to_50_h)
        assert (first.utility_low, first.utility_high) == (seen.utility_low, seen.utility_high)
        for one in found.blocks:
            fall = one.retrievability - one.retrievability_then
            assert one.loss == pytest.approx(one.utility * one.importance * fall)
        assert first.loss > second.loss
        assert (await node.due(horizon_h=30.0, limit=1)).blocks == [first]
        assert (await node.due(horizon_h=30.0, limit=1)).count == 2
        assert await node.due(horizon_h=30.0) == found, "reading it moves nothing"
        await node.outcome(1.0, blocks=[better])
        assert better not in [one.block for one in (await node.due(horizon_h=1.0)).blocks]


async def test_due_in_a_context_goes_by_what_helped_there(homes: Homes) -> None:
    """A block that helps in one context and fails in the other is due in the one alone."""
    async with homes.create("alice", LONG_USE) as node:
        (block,) = await learned(node, 1)
        for _ in range(9):
            await node.outcome(1.0, blocks=[block], context="deploy")
            await node.outcome(0.0, blocks=[block], context="legal-review")
        homes.pass_minutes(60 * 400)
        await node.recall("something else")
        assert [one.block for one in (await node.due(context="deploy")).blocks] == [block]
        assert (await node.due(context="legal-review")).blocks == []
        assert (await node.due(context="never used")).blocks == (await node.due()).blocks


async def test_a_horizon_or_limit_that_cannot_be_is_refused(node: Node) -> None:
    """With the value and what it takes."""
    wrongs: tuple[dict[str, Any], ...] = (
        {"horizon_h": 0.0},
        {"horizon_h": float("inf")},
        {"limit": 0},
        {"limit": 1001},
    )
    for wrong in wrongs:
        with pytest.raises(UsageError):
            await node.due(**wrong)
    with pytest.raises(InvalidInput, match="context"):
        await node.due(context="c" * 65)
    assert (await node.due()).blocks == []


# confirm


async def test_a_confirm_counts_in_its_context(node: Node) -> None:
    """Small evidence, in the context it names and in no other."""
    (block,) = await learned(node, 1)
    await node.confirm([block], context="deploy")
    assert {label: round(a, 3) for label, (a, _) in (await node.explain(block)).contexts.items()} == {
        "deploy": 0.1
    }
    with pytest.raises(InvalidInput, match="context"):
        await node.confirm([block], context="c" * 65)


# promotion


async def test_promotion_keeps_every_count(homes: Homes) -> None:
    """Evidence of peers, outcomes and links from before a block was learned, rated and rated again here are
    all there afterwards, and in the registers that peers see.
    """
    async with homes.create("alice") as node:
        bob = await guest_in(node, "bob", 1.0)
        text = fact(0)
        await take(node, bob.blocks(text), bob.evidence(Row(text, 6, 2), Row(text, 1, 1, 2, "deploy")))
        (hit,) = (await node.recall("Rule")).hits
        await node.outcome(1.0, blocks=[hit.block], weight=2.0, context="deploy")
        other = (await node.learn(fact(1))).block
        await node.connect(hit.block, other)
        before = await node.explain(hit.block)
        assert (before.held, before.alpha, before.beta) == (False, 9.0, 3.0)
        assert (await node.learn(text)).created
        learned_ = await node.explain(hit.block)
        assert (learned_.alpha, learned_.beta) == (9.5, 3.5)
        assert learned_.stability_h >= before.stability_h
        await node.consolidate()
        await node.rescore([hit.block])
        after = await node.explain(hit.block)
        assert (after.alpha, after.beta) == (9.5 + 0.75, 3.5 + 0.25)
        assert after.contexts == before.contexts == {"": (6.0, 2.0), "deploy": (3.0, 1.0)}
        by_source = {one.source: (one.counted_alpha, one.counted_beta) for one in after.sources}
        assert by_source == {
            "prior": (0.5, 0.5),
            "ratings": (0.75, 0.25),
            "self": (2.0, 0.0),
            bob.id: (7.0, 3.0),
        }
        row = node.ground.memory.row_named(hit.block)
        own = node.ground.memory.own.registers
        held = own.held(own.live())
        assert [(int(a) / 2**16, int(b)) for a, b in zip(held.alpha, held.beta, strict=True)] == [(2.0, 0)]
        assert [edge.other for edge in node.ground.memory.own.links.of(row)] != []
        await faultless(node)
