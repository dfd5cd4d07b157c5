"""Export and import of a home that was compacted: sums take the place of what they stand for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from loremesh.node.actr import LAST
from loremesh.node.errors import UsageError
from loremesh.node.exchange.files import export_to, import_from
from loremesh.node.node import Node
from loremesh.node.replaying import rebuild
from loremesh.node.rulebook import get_rules
from loremesh.sync.errors import InvalidInput
from tests.node.exchange.homes_with_files import exported, live, put_together, taken_apart
from tests.node.homes import CONFIG, Homes, effective, faultless


@pytest.fixture
def homes(tmp_path: Path) -> Homes:
    return Homes(tmp_path / "homes")


@pytest.fixture
async def alice(homes: Homes) -> AsyncIterator[Node]:
    """A home that has lived, of which the older outcomes are there in sum."""
    async with homes.create("alice") as node:
        await worn(node, homes, await live(node, homes))
        assert (await node.compact(keep=3)).blocks > 2
        yield node


async def worn(node: Node, homes: Homes, blocks: list[str]) -> None:
    """Some blocks used a good deal more, by name: no episode waits for these outcomes."""
    for number in range(15):
        homes.pass_minutes(11)
        await node.outcome(number % 3 / 2, blocks=blocks[:4], context=("", "deploy")[number % 2])


def counters(node: Node) -> dict[str, tuple[int, int, float]]:
    own, memory = node.ground.memory.own.columns, node.ground.memory
    return {
        memory.block_hex(row): (own.positives[row], own.negatives[row], own.stability_h[row])
        for row in range(own.length)
    }


async def test_a_round_trip_through_an_empty_home_is_the_identity(
    homes: Homes, alice: Node, tmp_path: Path
) -> None:
    """The same bytes come out again, the numbers are the same; a second import changes nothing."""
    first = await exported(alice, tmp_path / "first")
    assert sum(line.get("kind") == "aggregate" for line in taken_apart(first)) > 2
    async with homes.create("bob") as bob:
        took = await import_from(bob, tmp_path / "first")
        assert took.counts.events_new > 0
        assert await effective(bob) == await effective(alice)
        assert counters(bob) == counters(alice)
        assert not len(bob.ground.memory.own.registers), "what came from a file never travels"
        assert await exported(bob, tmp_path / "second") == first
        position = bob.ground.store.position
        assert (await import_from(bob, tmp_path / "first")).counts.events_new == 0
        assert bob.ground.store.position == position
        await faultless(bob)


async def test_a_sum_takes_the_place_of_what_came_before_it(homes: Homes, tmp_path: Path) -> None:
    """A home with the single outcomes of an earlier file counts nothing twice, and ends as one without."""
    async with homes.create("alice") as alice, homes.create("bob") as bob, homes.create("eve") as eve:
        blocks = await live(alice, homes)
        await worn(alice, homes, blocks)
        await export_to(alice, tmp_path / "early")
        await worn(alice, homes, blocks)
        await export_to(alice, tmp_path / "whole")
        assert (await alice.compact(keep=0)).blocks > 2
        await export_to(alice, tmp_path / "summed")
        await import_from(bob, tmp_path / "early")
        await import_from(bob, tmp_path / "summed")
        await import_from(eve, tmp_path / "whole")

        def evidence(node: Node) -> dict[str, tuple[int, int]]:
            own, memory = node.ground.memory.own.columns, node.ground.memory
            return {
                memory.block_hex(row): (own.imported_a[row], own.imported_b[row]) for row in range(own.length)
            }

        assert evidence(bob) == evidence(eve)
        contexts = [
            {block: (await node.explain(block)).contexts for block in evidence(node)} for node in (bob, eve)
        ]
        assert contexts[0] == contexts[1]
        again = await import_from(bob, tmp_path / "whole")
        assert evidence(bob) == evidence(eve)
        assert again.counts.events_new == 0 or evidence(bob) == evidence(eve)
        await faultless(bob)


async def test_own_outcomes_here_keep_the_course_they_made(homes: Homes, alice: Node, tmp_path: Path) -> None:
    """A sum that comes to a block with outcomes of this home adds its evidence and moves nothing else."""
    await export_to(alice, tmp_path / "file")
    line = next(
        one for one in taken_apart((tmp_path / "file").read_bytes()) if one.get("kind") == "aggregate"
    )
    text = next(
        one["text"]
        for one in taken_apart((tmp_path / "file").read_bytes())
        if one["line"] == "block" and one["id"] == line["block"]
    )
    async with homes.create("bob") as bob:
        block = (await bob.learn(text)).block
        await bob.outcome(1.0, blocks=[block])
        own = bob.ground.memory.own.columns
        before = own.stability_h[0], own.difficulty[0], own.positives[0], own.self_a[0]
        await import_from(bob, tmp_path / "file")
        assert (own.stability_h[0], own.difficulty[0], own.positives[0], own.self_a[0]) == before
        assert own.imported_a[0] + own.imported_b[0] > 0
        await faultless(bob)


@pytest.mark.parametrize(
    ("field", "value", "what"),
    [
        ("outcomes", -1, "outcomes"),
        ("positives", 2**40, "positives"),
        ("difficulty", 11.0, "difficulty"),
        ("stability_h", 1e12, "stability_h"),
        ("stamps_h", [], "differ in length"),
        ("labels", ["no such context"], "contexts"),
        ("versions", [-1], "versions"),
        ("incarnations", ["00"], "incarnations"),
        ("alpha", "much", "alpha"),
        ("alpha", [2.0**21], "alpha"),
        ("recent", [1.0], "differ in length"),
        ("history", [0.0] * 65, "remembered"),
        ("forgetting", "x" * 300, "forgetting"),
        ("t_last_h", "late", "t_last_h"),
        ("first_ms", 10**17, "first_ms"),
        ("surprise", 1, "surprise"),
    ],
)
async def test_a_sum_that_cannot_be_is_refused_and_nothing_is_written(
    homes: Homes, alice: Node, tmp_path: Path, field: str, value: Any, what: str
) -> None:
    """By name, before anything of the file is taken in."""
    await export_to(alice, tmp_path / "file")
    told = taken_apart((tmp_path / "file").read_bytes())
    line = next(one for one in told if one.get("kind") == "aggregate")
    given = line["detail"].get(field)
    many = isinstance(value, list) and len(value) == 1 and isinstance(given, list) and field != "recent"
    line["detail"][field] = value * len(given) if many else value
    put_together(tmp_path / "other", told)
    async with homes.create("bob") as bob:
        position = bob.ground.store.position
        with pytest.raises((InvalidInput, UsageError), match=what):
            await import_from(bob, tmp_path / "other")
        assert bob.ground.store.position == position


@pytest.mark.parametrize(
    ("model", "history"),
    [("hlr", [-1e308, 0.0]), ("sm2", [1e308, 2.5]), ("sm2@00000000", [-1.0, 2.5]), ("actr", [1e10] * 11)],
)
async def test_what_a_model_is_to_remember_has_bounds(
    homes: Homes, alice: Node, tmp_path: Path, model: str, history: list[float]
) -> None:
    """Counts no fewer than none and hours of this world, for a model that is not in use as well: no home can
    be made one that ranks nothing, or that cannot be opened.
    """
    await export_to(alice, tmp_path / "file")
    told = taken_apart((tmp_path / "file").read_bytes())
    for line in told:
        if line.get("kind") == "aggregate":
            line["detail"]["forgetting"], line["detail"]["history"] = model, history
    put_together(tmp_path / "other", told)
    async with homes.create("bob") as bob:
        position = bob.ground.store.position
        with pytest.raises((InvalidInput, UsageError), match="history"):
            await import_from(bob, tmp_path / "other")
        assert bob.ground.store.position == position


async def test_hours_that_another_model_remembers_are_those_of_this_home(
    homes: Homes, tmp_path: Path
) -> None:
    """A home that does not use the model replays it with the uses as long ago as they are in the file."""
    async with homes.create("alice", f'[memory]\nrules = "actr"\n{CONFIG}') as alice:
        blocks = await live(alice, homes)
        await worn(alice, homes, blocks)
        assert (await alice.compact(keep=0)).blocks > 2
        await export_to(alice, tmp_path / "file")
        rows = [alice.ground.memory.row_named(block) for block in blocks]
        hour = alice.ground.clock.hour
        ages = [hour - alice.ground.memory.own.history.past(row)[LAST] for row in rows]
    async with homes.create("bob") as bob:
        for _ in range(200):
            homes.pass_minutes(20)
            await bob.learn("what bob knows")
        await import_from(bob, tmp_path / "file")
        own, memory = bob.ground.identity.public, bob.ground.memory
        other = (await rebuild(bob.ground.store, own, get_rules("actr"))).own
        rows = [memory.sync.index.row(bytes.fromhex(block)) or 0 for block in blocks]
        hour = bob.ground.clock.hour
        assert [hour - other.history.past(row)[LAST] for row in rows] == pytest.approx(ages)


async def test_a_sum_makes_no_block_older_than_it_is_here(homes: Homes, tmp_path: Path) -> None:
    """Rated here, and used there long before that: the block's last event is still the rating."""
    async with homes.create("alice") as alice, homes.create("bob") as bob:
        blocks = await live(alice, homes)
        await export_to(alice, tmp_path / "single")
        await worn(alice, homes, blocks)
        assert (await alice.compact(keep=0)).blocks > 2
        for number in range(30):
            homes.pass_minutes(20)
            await alice.learn(f"what else alice knows, {number}")
        await export_to(alice, tmp_path / "summed")
        await import_from(bob, tmp_path / "single")
        assert (await bob.rescore(blocks)).rated
        last_h, rows = bob.ground.memory.own.columns.t_last_h, range(len(blocks))
        rated_h = [last_h[row] for row in rows]
        assert (await import_from(bob, tmp_path / "summed")).counts.events_new
        assert [last_h[row] for row in rows] == rated_h
        await faultless(bob)
