"""Rule sets in whole homes: each opens, replays and goes on alike; weights are fitted and taken back."""

import numpy as np
import pytest

from loremesh.node.errors import UsageError
from loremesh.node.fits import happened
from loremesh.node.fitting import Happened, forecasts
from loremesh.node.node import Node
from loremesh.node.replaying import registers_by_id
from loremesh.node.rulebook import RULE_SETS, get_rules, with_weights
from loremesh.node.rules import FSRS5
from tests.node.homes import CONFIG, Homes, effective, fact, faultless

WALL = CONFIG + "[memory]\nclock = 'wall'\n"
TRUTH = with_weights(
    FSRS5, tuple(value * (0.2 if index in (8, 10) else 1.0) for index, value in enumerate(FSRS5.weights))
)
"""What the outcomes of the tests below come from: S grows far less than published."""


async def work(homes: Homes, node: Node, blocks: int = 70, rounds: int = 8) -> None:
    """Outcomes as TRUTH forecasts them, with waits that grow; in a context every other round."""
    random = np.random.default_rng(3)
    learned = [one.block for one in await node.learn_many([fact(n) for n in range(blocks)])]
    past = [[Happened(0, 0.0, 0.0, None)] for _ in learned]
    hour = 0.0
    for number in range(rounds):
        wait_h = 40.0 * 1.7**number
        hour += wait_h
        homes.pass_minutes(60.0 * wait_h)
        signals = []
        for one in past:
            one.append(Happened(number + 1, hour, wait_h, 1.0, 1.0, 1.0))
            signal = float(random.random() < forecasts(TRUTH, [one]).recall[-1])
            one[-1] = Happened(number + 1, hour, wait_h, signal, 1.0, 1.0)
            signals.append(signal)
        for signal in (0.0, 1.0):
            named = [block for block, went in zip(learned, signals, strict=True) if went == signal]
            if named:
                await node.outcome(signal, blocks=named, context="deploy" if number % 2 else "")


async def ranked(node: Node) -> list[tuple[str, float]]:
    return [(hit.block, hit.score) for hit in (await node.recall("indexer", context="deploy", k=20)).hits]


@pytest.mark.parametrize("name", [*RULE_SETS, "beta-decay:0.9", "bkt", "actr+bkt"])
async def test_a_home_under_any_rules_opens_replays_and_goes_on_alike(homes: Homes, name: str) -> None:
    """With and without a checkpoint, and after a forgotten block; what would be published is the same."""
    stated = []
    for home, rules in (("plain", "fsrs5"), ("other", name)):
        async with homes.create(home, WALL + f"rules = '{rules}'\n") as node:
            await work(homes, node, blocks=12, rounds=4)
            await node.forget((await ranked(node))[0][0])
            stated.append(
                {
                    (row, context): (alpha, beta, stability_h)
                    for row, context, alpha, beta, stability_h in _stated(node)
                }
            )
            numbers, hits = await effective(node), await ranked(node)
            await faultless(node)
        for checkpoint in (True, False):
            if not checkpoint:
                (homes.path(home) / "checkpoint").unlink()
            async with homes.open(home) as node:
                assert node.ground.memory.own.rules.name == get_rules(rules).name
                assert await effective(node) == numbers
                assert await ranked(node) == hits
                await faultless(node)
    assert stated[0].keys() == stated[1].keys()


def _stated(node: Node) -> list[tuple[int, int, int, int, float]]:
    registers = node.ground.memory.own.registers
    held = registers.held(registers.live())
    columns = (held.row, held.context, held.alpha, held.beta, held.stability_h)
    return list(zip(*(column.tolist() for column in columns), strict=True))


async def test_replay_under_other_rules_tells_what_moves_and_how_far(homes: Homes) -> None:
    """Utility under decay, retrievability under activation: both sides are shown, nothing is changed."""
    async with homes.create("alice", WALL) as node:
        await work(homes, node, blocks=12, rounds=5)
        homes.pass_minutes(6_000)
        few = [hit.block for hit in (await node.recall("indexer", k=4)).hits]
        await node.outcome(0.0, blocks=few)
        homes.pass_minutes(600)
        numbers = await effective(node)
        under = await node.replay(rules="actr+beta-decay:0.5")
        assert (under.ok, under.rules, under.ranked) == (True, "actr+beta-decay:0.5", 12)
        assert 0 < len(under.moved) == under.elsewhere <= 12
        assert -1.0 <= under.rank_correlation < 1.0
        assert any(moved.utility != moved.utility_under_rules for moved in under.moved)
        assert any(moved.retrievability != moved.retrievability_under_rules for moved in under.moved)
        same = await node.replay(rules="fsrs5")
        assert (same.moved, same.elsewhere, same.rank_correlation) == ([], 0, 1.0)
        assert await effective(node) == numbers


async def test_a_fit_that_forecasts_better_is_used_logged_and_taken_back_exactly(homes: Homes) -> None:
    """Dry run, fit, restart, revert: S follows; evidence and what is published do not move."""
    async with homes.create("alice", WALL) as node:
        await work(homes, node)
        before, stated = await effective(node), registers_by_id(node.ground.memory)
        told = await node.fit(keep=False)
        assert not told.kept
        assert "as asked" in told.why
        assert await effective(node) == before
        seen: list[tuple[int, int]] = []
        found = await node.fit(progress=lambda done, total: seen.append((done, total)))
        assert found.kept
        assert seen
        assert (found.weights, found.gain) == (told.weights, told.gain)
        assert found.loss_after < found.loss_before
        assert found.weights_before == list(FSRS5.weights)
        after = await effective(node)
        assert after != before
        assert {block: numbers[:2] for block, numbers in after.items()} == {
            block: numbers[:2] for block, numbers in before.items()
        }
        assert registers_by_id(node.ground.memory) == stated
        assert (await node.events(after=0, limit=10_000))[-1].kind == "fitted"
        await faultless(node)
    async with homes.open("alice") as node:
        assert await effective(node) == after
        assert node.ground.memory.own.rules.name.startswith("fsrs5@")
        await faultless(node)
        again = await node.fit()
        assert not again.kept
        assert "refused" in again.why
        back = await node.revert_fit()
        assert (back.reverted, back.weights) == (True, list(FSRS5.weights))
        assert await effective(node) == before
        await faultless(node)
        with pytest.raises(UsageError, match="published"):
            await node.revert_fit()
    (homes.path("alice") / "checkpoint").unlink()
    async with homes.open("alice") as node:
        assert await effective(node) == before
        await faultless(node)


async def test_recall_finds_the_same_texts_after_a_fit(homes: Homes) -> None:
    """The fold is replaced, not the indexes: every block is found, and once."""
    async with homes.create("alice", WALL) as node:
        await work(homes, node)
        found = {hit.block for hit in (await node.recall("indexer", k=200)).hits}
        assert (await node.fit()).kept
        hits = [hit.block for hit in (await node.recall("indexer", k=200)).hits]
        assert set(hits) == found
        assert len(hits) == len(found) == 70
        await node.learn("One more thing about the indexer")
        await faultless(node)


async def test_too_few_outcomes_are_refused_with_how_many_it_takes(homes: Homes) -> None:
    async with homes.create("alice") as node:
        learned = await node.learn("Restart the indexer")
        await node.outcome(1.0, blocks=[learned.block])
        told = await node.fit()
        assert (told.kept, told.trained) == (False, 1)
        assert "a fit needs 250" in told.why


async def test_a_fit_sees_judged_outcomes_and_what_refreshes(homes: Homes) -> None:
    """Learning and rating refresh; an implicit outcome moves S and judges nothing."""
    async with homes.create("alice", WALL) as node:
        learned = await node.learn("Restart the indexer")
        homes.pass_minutes(600)
        await node.consolidate()
        homes.pass_minutes(60)
        await node.confirm([learned.block])
        homes.pass_minutes(120)
        await node.outcome(0.25, blocks=[learned.block], weight=0.5)
        blocks = await happened(node.ground.store, node.ground.memory.sync.own)
    assert [event.signal for event in blocks[0]] == [None, None, 1.0, 0.25]
    assert [event.elapsed_h for event in blocks[0]] == pytest.approx([0.0, 0.0, 1.0, 2.0])
    assert [event.fraction for event in blocks[0]] == pytest.approx([1.0, 1.0, 0.1, 0.5], rel=1e-4)
    assert [event.judged for event in blocks[0]] == [0.0, 0.0, 0.0, 0.5]
