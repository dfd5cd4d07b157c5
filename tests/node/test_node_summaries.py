"""Summaries in a whole home: made a group at a time, out of view with a source, destroyed with it."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest

from loremesh.node import summarising
from loremesh.node.events import Summarise, decode_own
from loremesh.node.exchange.files import export_to, import_from
from loremesh.node.extract import tokens
from loremesh.node.node import Node
from loremesh.node.store.values import Kind
from loremesh.node.tier_results import Summarised
from loremesh.sync.errors import InvalidInput
from tests.node.exchange.homes_with_files import put_together, taken_apart
from tests.node.guests import guest_in
from tests.node.homes import faultless
from tests.node.tier_homes import (
    CONFIG_TIERS,
    INDEXER,
    LONE,
    QUOTA,
    TierHomes,
    block_of,
    stored_texts,
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


async def shown(node: Node, query: str = "restart the indexer", budget: int = 300) -> dict[str, list[str]]:
    """Text by level of what a recall puts above its hits; the hits are kept out by the budget's share."""
    found = await node.recall(query, budget_tokens=budget, k=1)
    by_level: dict[str, list[str]] = {}
    for text in found.above:
        by_level.setdefault(text.level, []).append(text.text)
    return by_level


async def test_similar_blocks_get_a_summary_and_large_groups_an_abstract(node: Node) -> None:
    """Two groups, each said in fewer tokens, in sentences of its blocks; the lone block is in none."""
    done = await node.summarise()
    assert (done.examined, done.written, done.failed) == (9, 2, 0)
    assert (done.summaries, done.abstracts) == (2, 1)
    assert sorted(map(len, summaries(node.ground).values())) == [3, 5]
    raw = {text: tokens(text) for text in [*INDEXER, *QUOTA, LONE]}
    made = [text for text in await stored_texts(node) if text not in raw]
    assert len(made) == 3
    for text in made:
        assert any(word in text for word in ("indexer", "uota"))
        assert all(f"{sentence.rstrip('.')}." in " ".join(raw) for sentence in text.split(". "))
    status = await node.status()
    assert (status.summaries, status.abstracts) == (2, 1)
    assert (status.blocks, status.held, status.embedded, status.waiting) == (9, 9, 9, 0)
    await faultless(node)


async def test_a_second_run_has_nothing_to_do(node: Node, tiers: TierHomes) -> None:
    """No block is looked at twice, nothing is asked, nothing is logged."""
    await node.summarise()
    asked, rows = len(tiers.summariser.asked), node.ground.store.position.n
    done = await node.summarise()
    assert (done.examined, done.written) == (0, 0)
    assert (len(tiers.summariser.asked), node.ground.store.position.n) == (asked, rows)


async def test_one_new_block_has_one_group_said_again(node: Node, tiers: TierHomes) -> None:
    """Only it is looked at and only its group is summarised, in place; after a restart too."""
    await node.summarise()
    before = summaries(node.ground)
    await node.learn("Mailbox quota is raised by the desk for team west. Send form 14.")
    await node.consolidate()
    tiers.summariser.asked.clear()
    done = await node.summarise()
    assert (done.examined, done.written) == (1, 1)
    asked = tiers.summariser.asked
    assert all("Mailbox quota" in text for texts in asked for text in texts)
    assert {len(texts) for texts in asked} == {4}
    after = summaries(node.ground)
    assert before.keys() == after.keys()
    assert sorted(map(len, after.values())) == [4, 5]
    assert done.abstracts == 2, "four members have an abstract"
    await faultless(node)


async def test_what_a_killed_run_had_written_stays_and_the_next_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends at the second group; the first is kept, and the next run asks about the second alone."""
    monkeypatch.setattr(summarising, "BATCH_GROUPS", 1)
    homes = TierHomes(tmp_path)
    config = CONFIG_TIERS.replace("abstract_from = 4", "abstract_from = 99")
    async with homes.create("home", config) as node:
        await node.learn_many([*INDEXER, *QUOTA])
        await node.consolidate()
        homes.summariser.cancel_at = 2
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(node.summarise())
    async with homes.open("home") as node:
        assert len(summaries(node.ground)) == 1
        homes.summariser.cancel_at = 0
        homes.summariser.asked.clear()
        done = await node.summarise()
        assert (done.written, done.summaries, len(homes.summariser.asked)) == (1, 2, 1)
        assert (await node.summarise()).examined == 0
        await faultless(node)


def in_files(root: Path, wanted: Sequence[bytes]) -> list[bytes]:
    """Which of these bytes stand in a file of the home."""
    data = b"\n".join(path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file())
    return [one for one in wanted if one in data]


def sealed_of(home: Path, rows: Sequence[int]) -> list[bytes]:
    """The wrapped keys and the sealed contents of these rows, as they stand in the database."""
    with TemporaryDirectory() as copied, closing(sqlite3.connect(Path(copied) / "memory.db")) as db:
        for path in home.glob("memory.db*"):  # the home's own are locked while it is open
            shutil.copy(path, copied)
        marks = ",".join("?" * len(rows))
        sql = f"SELECT wrapped, content FROM block JOIN erasable USING (slot) WHERE row IN ({marks})"
        return [part for row in db.execute(sql, list(rows)) for part in row]


async def test_forgetting_a_block_destroys_every_text_made_from_it(tiers: TierHomes, node: Node) -> None:
    """Summary and abstract are gone from memory, store and files, keys and all; the next run makes others."""
    await node.summarise()
    ground, home = node.ground, tiers.path("home")
    gone = [row for row, tier in ground.memory.own.tiers.items() if len(tier.sources) == 5]
    assert len(gone) == 2
    sealed = sealed_of(home, gone)
    assert in_files(home, sealed) == sealed
    await node.forget(block_of(node, INDEXER[2]))
    assert in_files(home, sealed) == []
    assert not [text for text in await stored_texts(node) if "indexer" in text and text not in INDEXER]
    assert not [row for row in gone if row in ground.memory.own.tiers or ground.memory.has_content(row)]
    assert (await node.recall("indexer", budget_tokens=60)).above == []
    await faultless(node)
    assert sorted(map(len, summaries(ground).values())) == [3]
    done = await node.summarise()
    assert (done.examined, done.written, done.summaries) == (4, 1, 2)
    assert not [text for text in await stored_texts(node) if "green" in text or "Cem" in text]
    await faultless(node)


@pytest.mark.parametrize("destroyed", range(3))
async def test_a_forgetting_that_was_broken_off_is_finished_at_the_next_opening(
    tiers: TierHomes, node: Node, monkeypatch: pytest.MonkeyPatch, destroyed: int
) -> None:
    """The log says it and so many are destroyed yet: the next opening destroys block and summaries."""
    await node.summarise()
    wanted = [row for row, tier in node.ground.memory.own.tiers.items() if len(tier.sources) == 5]

    sealed = sealed_of(tiers.path("home"), wanted)
    assert len(sealed) == 4
    real, calls = node.ground.store.forget, 0

    async def broken_off(row: int, *given: object, **named: object) -> int:
        nonlocal calls
        calls += 1
        if calls > destroyed:
            raise RuntimeError("broken off")
        return await real(row, *given, **named)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(node.ground.store, "forget", broken_off)
        with pytest.raises(RuntimeError, match="broken off"):
            await node.forget(block_of(node, INDEXER[0]))
    await node.close()
    async with tiers.open("home") as again:
        assert in_files(tiers.path("home"), sealed) == []
        assert not [text for text in await stored_texts(again) if "indexer" in text and text not in INDEXER]
        await faultless(again)


async def test_a_summary_of_a_deprecated_block_is_out_of_view_until_restored(node: Node) -> None:
    """At once, with its abstract; restored with it when no run came between, else made again without it."""
    await node.summarise()
    before = await shown(node)
    assert [text for texts in before.values() for text in texts if "indexer" in text]
    block = block_of(node, INDEXER[1])
    await node.deprecate(block, why="wrong")
    assert not [text for texts in (await shown(node)).values() for text in texts if "indexer" in text]
    assert [one.shown for one in (await node.explain(block)).summaries] == [False, False]
    assert [one.text for one in (await node.explain(block)).summaries] == ["", ""]
    await node.restore(block)
    assert await shown(node) == before
    await node.deprecate(block, why="wrong")
    assert (await node.summarise()).written == 1
    assert sorted(map(len, summaries(node.ground).values())) == [3, 4]
    assert not [text for texts in (await shown(node)).values() for text in texts if "blue" in text]
    await node.restore(block)
    assert (await node.summarise()).written == 1
    assert sorted(map(len, summaries(node.ground).values())) == [3, 5]
    await faultless(node)


async def test_a_failed_call_leaves_the_group_without_a_summary_and_says_so(
    node: Node, tiers: TierHomes
) -> None:
    """Away, mute or endless: nothing is made up, the answer says why, and the next run asks again."""
    for field, why in (("away", "is away"), ("mute", "no summary"), ("long", "no summary")):
        setattr(tiers.summariser, field, True)
        done = await node.summarise()
        setattr(tiers.summariser, field, False)
        assert (done.written, done.failed, done.summaries) == (0, 2, 0)
        assert why in done.trouble
    done = await node.summarise()
    assert (done.written, done.failed, done.trouble) == (2, 0, "")
    await faultless(node)


async def test_a_node_that_is_up_summarises_by_itself_once(tmp_path: Path) -> None:
    """When blocks have come into view; a summariser without an answer is not asked again and again."""
    homes = TierHomes(tmp_path)
    async with homes.create("home") as node:
        await node.learn_many([*INDEXER, *QUOTA])
        await node.consolidate()
        await node._summarising.run_if_due()
        assert len(summaries(node.ground)) == 2
        homes.summariser.mute = True
        await node.learn(INDEXER[0].replace("red", "teal"))
        await node.consolidate()
        asked = len(homes.summariser.asked)
        for _ in range(3):
            assert "no summary" in await node._summarising.run_if_due()
            await node.recall("indexer")
        await node.deprecate(block_of(node, QUOTA[0]), why="no")
        assert "no summary" in await node._summarising.run_if_due()
        assert len(homes.summariser.asked) == asked + 1
        homes.summariser.mute = False
        assert (await node.summarise()).written == 1
        assert await node._summarising.run_if_due() == ""


async def test_a_summariser_that_was_away_is_asked_again_after_a_while(tmp_path: Path) -> None:
    """With nothing new in the home: not at once, then after twice as long, then the group has its summary."""
    homes = TierHomes(tmp_path)
    clock = [0.0]
    async with homes.create("home") as node:
        ground = node.ground
        ground.parts = msgspec.structs.replace(ground.parts, monotonic_s=lambda: clock[0])
        await node.learn_many([*INDEXER, *QUOTA])
        await node.consolidate()
        homes.summariser.away = True
        asked = []
        for clock[0] in (0.0, 59.0, 60.0, 179.0, 180.0):
            assert "is away" in await node._summarising.run_if_due()
            asked.append(len(homes.summariser.asked))
        assert asked == [2, 2, 4, 4, 6]
        homes.summariser.away = False
        clock[0] = 420.0
        assert await node._summarising.run_if_due() == ""
        assert len(summaries(ground)) == 2


async def test_an_export_has_no_summaries_and_a_round_trip_is_the_identity(
    tiers: TierHomes, node: Node, tmp_path: Path
) -> None:
    """The file is to the byte that of the home without them: a home makes its own."""
    plain, after = tmp_path / "plain.jsonl", tmp_path / "after.jsonl"
    await export_to(node, plain)
    await node.summarise()
    await export_to(node, after)
    assert after.read_bytes() == plain.read_bytes()


async def test_a_file_cannot_make_a_block_of_a_summary(node: Node, tmp_path: Path) -> None:
    """Nothing is learned, linked or counted under its id, whoever read that off an answer."""
    await node.summarise()
    (summary, *_) = summaries(node.ground)
    ids = node.ground.memory.block_hex(summary), block_of(node, LONE)
    await export_to(node, tmp_path / "file")
    told = taken_apart((tmp_path / "file").read_bytes())
    for line in told:
        for source in line.get("sources", ()):
            source["origin"] = "ab" * 32
        for name in ("id", "block"):
            if line.get(name) == ids[1]:
                line[name] = ids[0]
                if line["line"] == "block":
                    line["text"] = None
    put_together(tmp_path / "other", told)
    rows = node.ground.store.position.n
    with pytest.raises(InvalidInput, match="is a summary of this home"):
        await import_from(node, tmp_path / "other")
    assert node.ground.store.position.n == rows


async def test_opening_again_knows_the_summaries_with_and_without_a_checkpoint(
    tiers: TierHomes, node: Node
) -> None:
    """From the checkpoint and from the log alone, recall and run are the same."""
    await node.summarise()
    before, rows = await shown(node), summaries(node.ground)
    await node.close()
    for drop in (False, True):
        if drop:
            (tiers.path("home") / "checkpoint").unlink()
        async with tiers.open("home") as again:
            assert summaries(again.ground) == rows
            assert await shown(again) == before
            assert (await again.summarise()).examined == 0
            await faultless(again)


async def test_what_is_learned_while_a_run_is_under_way_is_left_for_the_next(
    node: Node, tiers: TierHomes
) -> None:
    """A block forgotten and one learned between two calls: the home stays sound, the next run goes on."""
    real = tiers.summariser.summarise

    async def meanwhile(texts: Sequence[str], budget: int) -> str | None:
        if len(tiers.summariser.asked) == 0:
            await node.deprecate(block_of(node, QUOTA[0]), why="no")
            await node.forget(block_of(node, INDEXER[0]))
            await node.learn("Mailbox quota is raised by the desk for team west. Send form 14.")
        return await real(texts, budget)

    tiers.summariser.summarise = meanwhile  # type: ignore[method-assign]
    first = await node.summarise()
    assert (first.written, first.summaries) == (0, 0), "a source left while the summariser was asked"
    await node.restore(block_of(node, QUOTA[0]))
    await node.consolidate()
    tiers.summariser.summarise = real  # type: ignore[method-assign]
    done: Summarised = await node.summarise()
    assert done.summaries == 2
    assert sorted(map(len, summaries(node.ground).values())) == [4, 4]
    assert not [text for text in await stored_texts(node) if "red" in text.split() or "Ada" in text]
    await faultless(node)


async def test_summaries_are_never_told_to_a_space(tiers: TierHomes) -> None:
    """Of shared blocks too: no frame of the home's own holds a summary, its id or its event."""
    async with tiers.create("home") as node:
        guest = await guest_in(node, "bob")
        await node.learn_many(INDEXER, share=["space of bob"])
        await node.consolidate()
        await node.summarise()
        assert guest.id
        ids = [node.ground.memory.sync.index.id(row) for row in summaries(node.ground)]
        kinds: set[Kind] = set()
        async for rows in node.ground.store.scan():
            for row in rows:
                kinds.add(row.kind)
                if row.kind is Kind.OWN and row.payload is not None:
                    assert (row.row in node.ground.memory.own.tiers) == isinstance(
                        decode_own(row.payload), Summarise
                    )
                if row.kind is Kind.FRAME and row.payload is not None:
                    assert not [one for one in ids if one in row.payload]
        assert not [row for row in node.ground.touched if row in node.ground.memory.own.tiers]
