"""Compaction of a whole home: every number stays, the log becomes short, and nothing else notices."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from loremesh.node.errors import NodeError
from loremesh.node.events import Aggregate, Outcome, RecallHit, decode_own
from loremesh.node.node import Node
from loremesh.node.replaying import rebuild, registers_by_id
from loremesh.node.rulebook import get_rules
from loremesh.node.snapshot import differences
from loremesh.node.store.errors import DiskFull, StoreError
from loremesh.node.store.store import Store
from tests.node.homes import (
    CONFIG,
    Homes,
    Team,
    effective,
    fact,
    faultless,
    positions,
)

ROOT = Path(__file__).parents[2]

RULES = ("fsrs5", "fsrs6+bkt", "actr", "hlr", "sm2+beta-decay", "survey", "exponential")


def with_rules(rules: str) -> str:
    return f'[memory]\nrules = "{rules}"\n{CONFIG}'


async def worked(node: Node, homes: Homes, rounds: int = 30, first: int = 0) -> list[str]:
    """Four blocks used in several ways; their ids."""
    blocks = [(await node.learn(fact(number))).block for number in range(4)]
    await node.consolidate()
    for number in range(first, first + rounds):
        homes.pass_minutes(7 + number)
        some = blocks[: 1 + number % 3]
        await node.outcome(number % 3 / 2, blocks=some, context=("", "deploy")[number % 2])
        found = await node.recall("restart the indexer", k=2)
        if number % 2:
            await node.outcome(float(number % 4 > 1), episode=found.episode)
        await node.confirm(blocks[:1])
        if number == 12:
            await node.deprecate(blocks[2], why="wrong")
    return blocks


async def rows_left(node: Node, block: str) -> int:
    """Outcomes and recalls of the block that are left one by one."""
    row = node.ground.memory.row_named(block)
    found = [decode_own(one.payload) for one in await node.ground.store.events(row) if one.payload]
    return sum(isinstance(event, Outcome | RecallHit) for event in found)


@pytest.mark.parametrize("rules", RULES)
async def test_a_compacted_home_is_what_its_twin_is(tmp_path: Path, rules: str) -> None:
    """Live, from the log, from the checkpoint, and after more work: bit for bit a home never compacted."""
    compacted, twin = Homes(tmp_path / "compacted"), Homes(tmp_path / "twin")
    async with (
        compacted.create("alice", with_rules(rules)) as node,
        twin.create("alice", with_rules(rules)) as other,
    ):
        blocks = await worked(node, compacted)
        await worked(other, twin)
        before = await node.ground.store.event_counts()
        done = await node.compact(keep=5)
        assert done.aggregated > 50
        assert done.rows_before == sum(count for _, count in before)
        assert done.rows_after == sum(count for _, count in await node.ground.store.event_counts())
        assert done.rows_before - done.rows_after == done.aggregated
        assert (done.blocks, done.uneven) == (2, 0)
        assert differences(node.ground.memory.own, other.ground.memory.own) == []
        await faultless(node)
    async with compacted.open("alice") as node, twin.open("alice") as other:
        await worked(node, compacted, 12, 30)
        await worked(other, twin, 12, 30)
        again = await node.compact(keep=0)
        assert again.aggregated > 10
        assert differences(node.ground.memory.own, other.ground.memory.own) == []
        assert await effective(node) == await effective(other)
        await faultless(node)
        checkpoint = node.ground.store.paths.checkpoint
    checkpoint.unlink()
    async with compacted.open("alice") as node:
        fold = await rebuild(node.ground.store, node.ground.identity.public, node.ground.memory.own.rules)
        assert differences(node.ground.memory.own, fold.own) == []
        seen = await node.explain(blocks[0])
        assert seen.summed is not None
        assert seen.summed.outcomes > 60


async def test_a_checkpoint_from_before_stands_for_the_compacted_log(tmp_path: Path) -> None:
    """Compaction drops none: opening folds only what came after it, and finds what was in use."""
    homes = Homes(tmp_path)
    async with homes.create("alice") as node:
        await worked(node, homes)
        assert await node.ground.checkpoint()
        await worked(node, homes, 9, 30)
        held = node.ground.store.paths.checkpoint.read_bytes()
        await node.compact(keep=0)
        before = await effective(node)
    (homes.path("alice") / "checkpoint").write_bytes(held)
    async with homes.open("alice") as node:
        assert await effective(node) == before
        await faultless(node)


async def test_a_dry_run_tells_and_changes_nothing(tmp_path: Path) -> None:
    """Not a byte of the database; and what it tells is what then happens."""
    homes = Homes(tmp_path)
    async with homes.create("alice") as node:
        await worked(node, homes)
        told = await node.compact(keep=5, dry_run=True)
        position = node.ground.store.position
        assert (await node.ground.store.verify()).aggregated == 0
        assert node.ground.store.position == position
        steps: list[tuple[int, int]] = []
        done = await node.compact(keep=5, progress=lambda at, total: steps.append((at, total)))
        assert (told.aggregated, told.blocks, told.rows_after, told.most_after) == (
            done.aggregated,
            done.blocks,
            done.rows_after,
            done.most_after,
        )
        assert told.bytes_after < told.bytes_before
        assert steps == sorted(steps)
        assert steps[-1][0] == steps[-1][1]
        assert "attribution" in done.note


async def test_the_newest_and_the_young_stay(tmp_path: Path) -> None:
    """`keep` of each block, and whatever is not older than asked."""
    homes = Homes(tmp_path)
    async with homes.create("alice") as node:
        blocks = await worked(node, homes)
        assert (await node.compact(older_h=1e6)).aggregated == 0
        assert (await node.compact(keep=10_000)).aggregated == 0
        assert (await node.compact(keep=0, older_h=3.0)).aggregated > 0
        hour = node.ground.clock.hour
        row = node.ground.memory.row_named(blocks[0])
        events = [decode_own(one.payload) for one in await node.ground.store.events(row) if one.payload]
        kept = [event for event in events if isinstance(event, Outcome) and not event.episode]
        assert kept
        assert all(event.hour > hour - 3.0 for event in kept)
        await node.compact(keep=12)
        assert await rows_left(node, blocks[0]) >= 12
        await faultless(node)


async def test_an_episode_that_waits_still_takes_one_outcome(tmp_path: Path) -> None:
    """After compaction and a replay without checkpoint: the same again is a no-op, another one an error."""
    homes = Homes(tmp_path)
    async with homes.create("alice") as node:
        await worked(node, homes)
        judged = (await node.recall("restart the indexer", k=2)).episode
        await node.outcome(1.0, episode=judged)
        waiting = (await node.recall("restart the indexer", k=2)).episode
        await node.compact(keep=0)
    (homes.path("alice") / "checkpoint").unlink()
    async with homes.open("alice") as node:
        assert not (await node.outcome(1.0, episode=judged)).recorded
        with pytest.raises(NodeError, match="already took the outcome"):
            await node.outcome(0.0, episode=judged)
        assert (await node.outcome(0.0, episode=waiting)).recorded
        await faultless(node)


async def test_a_space_hears_nothing_of_it(tmp_path: Path) -> None:
    """No frame, the same registers, versions and stamps; peers' trust is taken out as from a twin."""
    homes = Homes(tmp_path)
    async with Team(homes) as team:
        await team.found("alice", "bob")
        blocks = []
        for number in range(3):
            blocks.append((await team["alice"].learn(fact(number), share=["team"])).block)
        await team.alike()
        for number in range(24):
            homes.pass_minutes(9)
            await team["alice"].outcome(number % 3 / 2, blocks=blocks[:2])
            await team["bob"].outcome(number % 2, blocks=blocks[1:])
        await team.alike()
        before = registers_by_id(team["alice"].ground.memory), positions(team["alice"])
        done = await team["alice"].compact(keep=0)
        assert done.aggregated > 20
        await team.alike()
        assert (registers_by_id(team["alice"].ground.memory), positions(team["alice"])) == before
        await faultless(team["alice"])
        trusted = await effective(team["alice"])
        await team["alice"].trust_revoke(team["bob"].peer_id, why="to see")
        assert await effective(team["alice"]) != trusted
        await team["alice"].trust_set(team["bob"].peer_id, 0.5, why="back")
        assert await effective(team["alice"]) == trusted
        await team["alice"].outcome(1.0, blocks=blocks[:1])
        await team.alike()
        assert registers_by_id(team["bob"].ground.memory)[0][8] > 0
        await faultless(team["bob"])


async def test_forgetting_takes_the_sum_too(tmp_path: Path) -> None:
    """The aggregate goes with the key; the log stays whole, and a re-learned block begins anew."""
    homes = Homes(tmp_path)
    async with homes.create("alice") as node:
        blocks = await worked(node, homes)
        await node.compact(keep=0)
        row = node.ground.memory.row_named(blocks[0])
        await node.forget(blocks[0])
        verified = await node.ground.store.verify()
        assert verified.faults == []
        assert await node.ground.store.event_counts() == [
            one for one in await node.ground.store.event_counts() if one[0] != row
        ]
        async for page in node.ground.store.scan():
            assert all(one.payload is None for one in page if one.row == row)
        await faultless(node)
        learned = await node.learn(fact(0))
        assert learned.created
        assert (await node.explain(learned.block)).summed is None
        await faultless(node)


async def test_nothing_of_a_block_is_readable_in_any_file(tmp_path: Path) -> None:
    """Not its text, its contexts, its id: neither what went nor what stands for it."""
    homes = Homes(tmp_path)
    async with homes.create("alice") as node:
        text = "the zanzibarian certificate expires"
        block = (await node.learn(text)).block
        for number in range(40):
            homes.pass_minutes(5)
            await node.outcome(number % 2, blocks=[block], context="quarterdeck")
        await node.compact(keep=0)
        await node.ground.checkpoint()
        files = {path: path.read_bytes() for path in homes.path("alice").rglob("*") if path.is_file()}
        assert any(path.name == "memory.db" for path in files)
        for word in (b"zanzibarian", b"quarterdeck", bytes.fromhex(block), block.encode()):
            assert not [path for path, body in files.items() if word in body]


async def test_the_file_becomes_smaller(tmp_path: Path) -> None:
    """By most of what the rows had, and the write-ahead log is empty."""
    homes = Homes(tmp_path)
    async with homes.create(
        "alice", with_rules("fsrs5").replace("[memory]", "[memory]\nevents_per_block = 100000")
    ) as node:
        block = (await node.learn(fact(0))).block
        for _ in range(4_000):
            await node.outcome(1.0, blocks=[block])
        done = await node.compact()
        assert done.most_after < 110
        assert done.bytes_after < 0.62 * done.bytes_before
        assert (homes.path("alice") / "memory.db-wal").stat().st_size == 0
        assert (homes.path("alice") / "memory.db").stat().st_size == done.bytes_after
        await faultless(node)


STEPS_KILLED = (1, 3, 6, 9)


@pytest.mark.parametrize("step", STEPS_KILLED)
async def test_a_kill_at_any_step_loses_nothing(tmp_path: Path, step: int) -> None:
    """A real process, killed while it compacts: the next one finds every number, and finishes."""
    script = "import asyncio, sys; from tests.node.test_node_compacting import be_killed\n"
    script += "asyncio.run(be_killed(sys.argv[1]))"
    said: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            said.append(line.strip())
            if len(said) == 1 + step:
                os.kill(child.pid, signal.SIGKILL)
                break
    assert child.returncode == -signal.SIGKILL
    homes = Homes(tmp_path)
    async with homes.open("alice") as node:
        assert repr(sorted((await effective(node)).items())) == said[0]
        await faultless(node)
        await node.compact(keep=0)
        assert repr(sorted((await effective(node)).items())) == said[0]
        assert await rows_left(node, (await node.learn(fact(0))).block) < 70
        await faultless(node)


async def be_killed(root: str) -> None:
    """In a process of its own: work, say the numbers, and compact in small steps, each of which is told."""
    homes = Homes(Path(root))
    async with homes.create("alice") as node:
        await worked(node, homes)
        print(repr(sorted((await effective(node)).items())), flush=True)
        with patch("loremesh.node.compacting.STEP_ROWS", 16):
            await node.compact(keep=0, progress=lambda at, total: print(at, total, flush=True))
        await asyncio.Event().wait()


@pytest.mark.parametrize("call", [0, 1, 3])
async def test_a_full_disk_stops_it_half_way_and_nothing_is_lost(tmp_path: Path, call: int) -> None:
    """Every number stays at each failing transaction; compacting again does the rest."""
    homes = Homes(tmp_path)
    async with homes.create("alice") as node:
        blocks = await worked(node, homes)
        before = await effective(node)
        real, calls = Store.compact, 0

        async def full(store: Store, *given: object) -> object:
            nonlocal calls
            calls += 1
            if calls > call:
                raise DiskFull(tmp_path)
            return await real(store, *given)  # type: ignore[arg-type]

        with (
            patch.object(Store, "compact", full),
            patch("loremesh.node.compacting.STEP_ROWS", 16),
            pytest.raises(StoreError, match="full"),
        ):
            await node.compact(keep=0)
        assert await effective(node) == before
        await faultless(node)
        done = await node.compact(keep=0)
        assert done.aggregated > 0
        assert await rows_left(node, blocks[0]) < 70
        assert await effective(node) == before
        await faultless(node)


async def test_a_disk_without_room_for_the_copy_leaves_the_file_as_large(tmp_path: Path) -> None:
    """What is compacted is compacted, and the answer says why the file is not smaller."""
    homes = Homes(tmp_path)
    async with homes.create("alice") as node:
        await worked(node, homes)
        with patch.object(Store, "return_space", side_effect=DiskFull(tmp_path)):
            done = await node.compact(keep=0)
        assert done.aggregated > 0
        assert "could not be made smaller" in done.note
        await faultless(node)


async def test_a_log_that_says_something_else_is_left_alone(tmp_path: Path) -> None:
    """Where the fold is not what is in use, nothing goes, and the answer counts the block."""
    homes = Homes(tmp_path)
    async with homes.create("alice") as node:
        blocks = await worked(node, homes)
        row = node.ground.memory.row_named(blocks[0])
        node.ground.memory.own.columns.difficulty[row] += 1e-9
        left = await rows_left(node, blocks[0])
        done = await node.compact(keep=0)
        assert (done.uneven, done.blocks) == (1, 2)
        assert await rows_left(node, blocks[0]) == left


async def test_other_rules_begin_with_the_published_course(tmp_path: Path) -> None:
    """`replay --rules` says of how many blocks; S there goes on from what is published."""
    homes = Homes(tmp_path)
    async with homes.create("alice") as node:
        blocks = await worked(node, homes)
        assert (await node.replay(rules="hlr")).aggregates == 0
        await node.compact(keep=0)
        told = await node.replay(rules="hlr", check=True)
        assert (told.ok, told.aggregates) == (True, 3)
        assert told.aggregated > 50
        other = await rebuild(node.ground.store, node.ground.identity.public, get_rules("hlr+bkt"))
        own = node.ground.memory.own.columns
        row = node.ground.memory.row_named(blocks[0])
        events = [decode_own(one.payload) for one in await node.ground.store.events(row) if one.payload]
        behind = [event for event in events if isinstance(event, Aggregate)]
        assert other.own.columns.published_stability_h[row] == own.published_stability_h[row]
        assert behind[0].published_stability_h == behind[0].stability_h
        assert other.own.tally is not None
        alpha, beta = other.own.tally.totals(row + 1)
        assert alpha[row] + beta[row] == own.self_a[row] + own.self_b[row]
        fitted = await node.fit(keep=False)
        assert fitted.aggregates == 3


async def test_the_log_tells_a_sum(tmp_path: Path) -> None:
    """How many outcomes and recalls, from when to when; rows that gave way to it are named so."""
    homes = Homes(tmp_path)
    async with homes.create("alice") as node:
        block = (await node.learn(fact(0))).block
        first_ms = homes.now_ms
        for number in range(20):
            await node.outcome(number % 2, blocks=[block])
            homes.pass_minutes(1)
        await node.compact(keep=4)
        told = await node.events(block)
        assert [one.kind for one in told] == ["learn", "aggregate"] + ["outcome"] * 4
        assert told[1].detail["outcomes"] == 16
        assert (told[1].detail["from_ms"], told[1].wall_ms) == (first_ms, first_ms + 15 * 60_000)
        assert (told[1].detail["alpha"], told[1].detail["beta"]) == (8.0, 8.0)
        every = [one.kind for one in await node.events()]
        assert every.count("aggregated") == 15
        assert every[-1] == "compacted"
        found = await node.attribute()
        assert found.episodes == 4
