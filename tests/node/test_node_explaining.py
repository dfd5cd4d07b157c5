"""explain through a whole node: intervals, the curve to come, and the last episodes."""

from __future__ import annotations

import pytest

from loremesh.node.beta import cdf
from loremesh.node.node import Node
from tests.node.guests import guest_in, take
from tests.node.homes import CONFIG, Homes, fact
from tests.sync.world import Row


async def test_utility_has_an_interval_that_holds_nine_tenths(node: Node) -> None:
    """Of Beta(α, β) as in use, prior and peers included; in a context it is that of worth."""
    bob = await guest_in(node, "bob", 1.0)
    block = (await node.learn(fact(0))).block
    await take(node, bob.blocks(fact(0)), bob.evidence(Row(fact(0), 9, 3)))
    for number in range(12):
        await node.outcome(float(number % 3 > 0), blocks=[block], context="deploy")
    seen = await node.explain(block)
    low, high = cdf([seen.utility_low, seen.utility_high], seen.alpha, seen.beta)
    assert seen.credible == 0.9
    assert (low, high) == (pytest.approx(0.05, abs=1e-6), pytest.approx(0.95, abs=1e-6))
    assert seen.utility_low < seen.utility < seen.utility_high
    worth = next(one for one in await node.worth(block=block) if one.context == "deploy")
    assert set(seen.context_intervals) == set(seen.contexts) == {"", "deploy"}
    assert list(seen.context_intervals["deploy"]) == pytest.approx([worth.low, worth.high])


async def test_a_block_nobody_has_evidence_of_has_a_wide_interval(node: Node) -> None:
    """Known from a peer that states nothing: anything is possible."""
    bob = await guest_in(node, "bob", 1.0)
    await take(node, bob.blocks("Only bob knows"))
    (hit,) = (await node.recall("bob")).hits
    seen = await node.explain(hit.block)
    assert (seen.alpha, seen.beta, seen.utility) == (0.0, 0.0, 0.5)
    assert seen.utility_low == pytest.approx(0.006, abs=1e-3)
    assert seen.utility_high == pytest.approx(0.994, abs=1e-3)


@pytest.mark.parametrize("rules", ["fsrs5", "exponential", "actr"])
async def test_the_curve_to_come_is_that_of_the_rules_in_use(homes: Homes, rules: str) -> None:
    """When R falls to 0.9 and to 0.5 comes true when so many hours have been used."""
    async with homes.create("alice", CONFIG + f'[memory]\nrules = "{rules}"\nidle_gap_h = 1000\n') as node:
        block = (await node.learn(fact(0))).block
        homes.pass_minutes(90)
        await node.outcome(1.0, blocks=[block])
        homes.pass_minutes(30)
        await node.recall("something else entirely")
        before = await node.explain(block)
        assert [ahead for ahead, _ in before.curve] == [1.0, 8.0, 24.0, 72.0, 168.0, 720.0]
        points = [before.retrievability, *(value for _, value in before.curve)]
        assert points == sorted(points, reverse=True)
        assert before.to_90_h is not None
        assert before.to_50_h is not None
        passed = 0.0
        for hours, level in ((before.to_90_h, 0.9), (before.to_50_h, 0.5)):
            homes.pass_minutes(60 * min(hours - passed, 900.0))
            passed += min(hours - passed, 900.0)
            await node.recall("something else entirely")
            seen = await node.explain(block)
            if passed == hours:
                assert seen.retrievability == pytest.approx(level, abs=1e-6)
                assert (seen.to_90_h or 0.0) == pytest.approx(0.0, abs=1e-3)


async def test_the_last_episodes_are_told_with_company_and_outcome(homes: Homes, node: Node) -> None:
    """Newest first: recalls judged and not, blocks named together, confirms; ten at most."""
    block, other = [one.block for one in await node.learn_many([fact(0), fact(1)])]
    first = await node.recall("Rule", context="deploy", frame="task", k=2)
    assert [hit.block for hit in first.hits] in ([block, other], [other, block])
    homes.pass_minutes(5)
    await node.outcome(0.25, episode=first.episode, weight=2.0)
    await node.outcome(1.0, blocks=[block, other], context="legal-review")
    await node.confirm([block], context="deploy")
    waiting = await node.recall("Rule", k=1)
    assert waiting.hits[0].block in (block, other)
    seen = (await node.explain(block)).episodes
    seen = [one for one in seen if one.episode != waiting.episode]
    told = [(one.context, one.frame, one.signal, one.weight, one.implicit, one.companions) for one in seen]
    assert told == [
        ("deploy", "", 1.0, pytest.approx(0.1, abs=1e-4), True, 0),
        ("legal-review", "", 1.0, 1.0, False, 1),
        ("deploy", "task", 0.25, 2.0, False, 1),
    ]
    assert seen[2].episode == first.episode
    assert seen[2].wall_ms < seen[1].wall_ms
    for _ in range(12):
        await node.recall("Rule", k=2)
    seen = (await node.explain(block)).episodes
    assert [(one.signal, one.companions) for one in seen] == [(None, 1)] * 10
    hours = [one.wall_ms for one in seen]
    assert hours == sorted(hours, reverse=True)


async def test_companions_of_a_large_episode_are_all_counted(node: Node) -> None:
    """Also where they are found again in the log alone, and less those forgotten since."""
    blocks = [one.block for one in await node.learn_many([fact(number) for number in range(60)])]
    await node.outcome(1.0, blocks=blocks)
    await node.outcome(0.0, blocks=blocks[:1])
    assert [one.companions for one in (await node.explain(blocks[30])).episodes] == [59]
    assert [one.companions for one in (await node.explain(blocks[0])).episodes] == [0, 59]
