"""Whole homes weigh their raters: an event that holds for all of the log, and is taken back exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np
import pytest

from loremesh.node import evidence
from loremesh.node.errors import UsageError
from loremesh.node.exchange.files import export_to, import_from
from loremesh.node.node import Node
from loremesh.node.parts import Parts
from loremesh.node.ports import Ratings
from loremesh.node.replaying import registers_by_id
from tests.node.homes import CONFIG, Homes, effective, fact, faultless

BLOCKS = 240


class Says:
    """A rater under test: a rating per text, by a name of its own."""

    def __init__(self, name: str, ratings: dict[str, float]) -> None:
        self.name = name
        self.ratings = ratings

    async def rate(self, texts: Sequence[str]) -> Ratings:
        return Ratings([self.ratings.get(text) for text in texts])

    async def close(self) -> None:
        pass


def chances(seed: int = 3) -> dict[str, float]:
    """How often each text helps."""
    random = np.random.default_rng(seed)
    return {fact(n): float(chance) for n, chance in enumerate(random.random(BLOCKS))}


@pytest.fixture
def rated(homes: Homes, monkeypatch: pytest.MonkeyPatch) -> Callable[[Says], Homes]:
    """Homes whose rater is this one, from the next opening on."""
    plain = homes.parts

    def by(rater: Says) -> Homes:
        def parts(name: str) -> Parts:
            return msgspec.structs.replace(plain(name), rater=rater)

        monkeypatch.setattr(homes, "parts", parts)
        return homes

    return by


By = Callable[[Says], Homes]


async def use(node: Node, truth: dict[str, float], rounds: int = 4, seed: int = 5) -> None:
    """Outcomes of all blocks, as often good as each text helps."""
    random = np.random.default_rng(seed)
    ids = {text: (await node.learn(text)).block for text in truth}
    for _ in range(rounds):
        went = {text: float(random.random() < chance) for text, chance in truth.items()}
        for signal in (0.0, 1.0):
            named = [ids[text] for text in truth if went[text] == signal]
            for start in range(0, len(named), 200):
                await node.outcome(signal, blocks=named[start : start + 200])


async def worked(homes: Homes, truth: dict[str, float]) -> None:
    async with homes.create("alice") as node:
        await node.learn_many(list(truth))
        assert (await node.consolidate()).rated == len(truth)
        await use(node, truth)


async def test_a_rater_that_knows_weighs_more_for_old_ratings_and_new_and_back_again(rated: By) -> None:
    """Dry run, weighing, restart with and without checkpoint, more ratings, and every number as it was."""
    truth = chances()
    more = {fact(1_000 + n): 0.9 for n in range(3)}
    homes = rated(Says("honest", truth | more))
    await worked(homes, truth)
    async with homes.open("alice") as node:
        before, stated = await effective(node), registers_by_id(node.ground.memory)
        told = await node.recalibrate(keep=False)
        assert not told.changed
        assert "not kept, as asked" in told.raters[0].why
        assert await effective(node) == before
        seen: list[tuple[int, int]] = []
        found = await node.recalibrate(progress=lambda done, total: seen.append((done, total)))
        assert found.changed
        assert seen[-1] == (1, 1)
        (one,) = found.raters
        assert (one.rater, one.kept, one.blocks) == ("honest", True, BLOCKS)
        assert one.multiplier == told.raters[0].multiplier > 4.0
        assert one.worth_low <= one.worth <= one.worth_high
        assert one.loss_after < one.loss_before
        after = await effective(node)
        assert {block: numbers[2:] for block, numbers in after.items()} == {
            block: numbers[2:] for block, numbers in before.items()
        }
        assert after != before
        assert registers_by_id(node.ground.memory) == stated
        event = (await node.events(limit=1_000, after=node.ground.store.position.n - 1))[-1]
        assert event.kind == "recalibrated"
        assert event.detail["rater"] == "honest"
        assert event.detail["multiplier"] == one.multiplier
        await faultless(node)
        again = await node.recalibrate()
        assert not again.changed
        assert "refused" in again.raters[0].why
    for checkpoint in (True, False):
        if not checkpoint:
            (homes.path("alice") / "checkpoint").unlink()
        async with homes.open("alice") as node:
            assert await effective(node) == after
            await faultless(node)
    async with homes.open("alice") as node:
        await node.learn_many(list(more))
        await node.consolidate()
        block = (await node.learn(fact(1_000))).block
        (claim,) = [claim for claim in (await node.explain(block)).sources if claim.source == "ratings"]
        assert (claim.name, claim.trust) == ("honest", one.multiplier)
        assert claim.alpha == pytest.approx(0.45, abs=1e-4)
        assert claim.counted_alpha == pytest.approx(0.45 * one.multiplier, abs=1e-3)
        assert (await node.explain(block)).importance == 0.9
        for text in more:
            await node.forget((await node.learn(text)).block)
        back = await node.revert_calibration()
        assert (back.changed, back.reverted, back.raters[0].multiplier) == (True, True, 1.0)
        assert await effective(node) == before
        await faultless(node)
        with pytest.raises(UsageError, match="as they were stated"):
            await node.revert_calibration()
    (homes.path("alice") / "checkpoint").unlink()
    async with homes.open("alice") as node:
        assert await effective(node) == before


async def test_a_weight_that_came_after_the_checkpoint_holds_at_the_next_opening(rated: By) -> None:
    """The event is read behind the checkpoint, and every block it concerns is combined anew."""
    truth = chances()
    homes = rated(Says("honest", truth))
    await worked(homes, truth)
    path = homes.path("alice") / "checkpoint"
    kept = path.read_bytes()
    async with homes.open("alice") as node:
        assert (await node.recalibrate()).changed
        after = await effective(node)
    path.write_bytes(kept)
    async with homes.open("alice") as node:
        assert await effective(node) == after
        await faultless(node)


async def test_what_a_weighed_home_is_and_one_that_replays_it_are_twins(rated: By) -> None:
    """A rater that has it the wrong way round counts for nothing: as if it had never stated any weight."""
    truth = chances()
    wrong = {text: 1.0 - chance for text, chance in truth.items()}
    homes = rated(Says("inverted", wrong))
    await worked(homes, truth)
    async with homes.open("alice") as node:
        found = await node.recalibrate()
        (one,) = found.raters
        assert (one.kept, one.multiplier) == (True, 0.0)
        assert "go against how things went" in one.why
        silenced = await effective(node)
        await faultless(node)
    async with homes.create("twin", CONFIG + "[memory]\nrating_weight = 0.0\n") as node:
        await node.learn_many(list(truth))
        await node.consolidate()
        await use(node, truth)
        assert {block: numbers[:2] for block, numbers in (await effective(node)).items()} == {
            block: numbers[:2] for block, numbers in silenced.items()
        }


async def test_two_raters_are_weighed_apart_though_both_rated_the_same_blocks(rated: By) -> None:
    """Rescored by another: the good one gains, the noise goes; explain shows both with their weights."""
    truth = chances()
    random = np.random.default_rng(11)
    noise = {text: float(random.random()) for text in truth}
    homes = rated(Says("honest", truth))
    async with homes.create("alice") as node:
        ids = {one: (await node.learn(one)).block for one in truth}
        await node.consolidate()
        ground = node.ground

        async def rescore() -> None:
            rows = {text: ground.memory.row_named(block) for text, block in ids.items()}
            await ground.record(
                [
                    (
                        rows[text],
                        evidence.rating(ground.memory.own, ground.stamp(), rows[text], r, 1.5, "noise"),
                    )
                    for text, r in noise.items()
                ]
            )

        await ground.exclusive(rescore)
        await use(node, truth, rounds=5)
        found = {one.rater: one for one in (await node.recalibrate()).raters}
        assert found["honest"].multiplier > 2.0
        assert found["noise"].multiplier == 0.0
        assert found["noise"].kept
        about = await node.explain(ids[fact(0)])
        claims = {claim.name: claim for claim in about.sources if claim.source == "ratings"}
        assert claims["noise"].alpha > 0.0
        assert claims["noise"].counted_alpha == 0.0
        assert claims["honest"].counted_alpha > claims["honest"].alpha
        assert about.importance == noise[fact(0)]
        await faultless(node)
        assert {one.rater for one in (await node.revert_calibration()).raters} == {"honest", "noise"}
        await faultless(node)


async def test_too_little_is_refused_with_how_much_it_takes(rated: By) -> None:
    """Nothing rated; one block; implicit outcomes, which judge nothing: no event is written."""
    truth = {fact(0): 0.5}
    homes = rated(Says("honest", truth))
    async with homes.create("alice") as node:
        assert (await node.recalibrate()).raters == []
        block = (await node.learn(fact(0))).block
        await node.outcome(1.0, blocks=[block])  # before the rating: says nothing about it
        await node.consolidate()
        await node.confirm([block])
        rows = node.ground.store.position.n
        assert (await node.recalibrate()).raters == []
        await node.outcome(0.5, blocks=[block])
        (one,) = (await node.recalibrate()).raters
        assert (one.kept, one.blocks, one.outcomes) == (False, 1, 1)
        assert "it takes 50" in one.why
        assert node.ground.store.position.n == rows + 1


async def test_a_weight_stays_in_the_home_that_found_it(rated: By) -> None:
    """An export holds ratings as stated: elsewhere they count as stated, until they are weighed there."""
    truth = chances()
    homes = rated(Says("honest", truth))
    await worked(homes, truth)
    async with homes.open("alice") as node:
        plain = await effective(node)
        await node.recalibrate()
        path = homes.root / "alice.jsonl"
        await export_to(node, path)
        assert "ecalibrated" not in path.read_text()
    async with homes.create("bob") as node:
        await import_from(node, path)
        assert node.ground.memory.own.raters.multipliers == {}
        assert {block: numbers[:2] for block, numbers in (await effective(node)).items()} == {
            block: numbers[:2] for block, numbers in plain.items()
        }
        await faultless(node)


async def test_a_rater_of_next_to_no_weight_gets_no_more_than_a_log_can_hold(rated: By) -> None:
    """Ratings that are the truth and state a two-hundredth: what is set can be folded, now and ever after."""
    truth = {text: float(chance > 0.5) for text, chance in chances().items()}
    homes = rated(Says("honest", truth))
    async with homes.create("alice", "[memory]\nrating_weight = 0.005\n" + CONFIG) as node:
        await node.learn_many(list(truth))
        await node.consolidate()
        await use(node, truth)
        (one,) = (await node.recalibrate()).raters
        assert (one.kept, one.multiplier) == (True, 1024.0)
        await faultless(node)
    (homes.path("alice") / "checkpoint").unlink()
    async with homes.open("alice") as node:
        assert node.ground.memory.own.raters.multipliers == {"honest": 1024 << 16}
