"""Faults 30 to 33, met where a user meets them: times, names, scripts, files of one's own, replies' sizes."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from loremesh.node.errors import NodeError
from loremesh.node.exchange.files import export_to, import_from
from loremesh.node.exchange.giving import PAGE_TEXT_BYTES
from loremesh.node.exchange.lines import ExportPage
from loremesh.node.extract import tokens
from loremesh.node.node import Node
from loremesh.node.paging import BYTES_PER_TOKEN
from loremesh.node.params import Attribute, DueWithin, Events, Page, Params, Worth
from loremesh.node.verbs import VERBS
from loremesh.sync.content import MAX_TEXT_BYTES
from loremesh.sync.errors import InvalidInput
from tests.node.doors.program import made
from tests.node.exchange.homes_with_files import live, taken_apart
from tests.node.guests import guest_in
from tests.node.homes import Homes, effective, faultless

ZONES = ("EAST-14", "WEST3:30")
"""Fourteen hours ahead of UTC, and three and a half behind it, in the form that needs no list of zones."""


def test_fault_30_times_are_utc_whoever_shows_or_carries_them(tmp_path: Path) -> None:
    """A log shown, exported and taken in under one time zone is the same under another."""
    program = made(tmp_path)
    east, west = (program.with_environ(TZ=zone) for zone in ZONES)
    before_ms = time.time_ns() // 1_000_000
    east.ask("learn", "Restart the indexer after a schema change")
    after_ms = time.time_ns() // 1_000_000
    shown = [one.run("events").out for one in (east, west)]
    assert shown[0] == shown[1]
    files = tmp_path / "east.jsonl", tmp_path / "west.jsonl"
    for one, file in zip((east, west), files, strict=True):
        one.ask("export", str(file))
    assert files[0].read_bytes() == files[1].read_bytes()
    (learned,) = [line for line in taken_apart(files[0].read_bytes()) if line.get("kind") == "learn"]
    assert before_ms <= learned["wall_ms"] <= after_ms
    moment = datetime.fromtimestamp(learned["wall_ms"] / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert moment.encode() in shown[0]


NAMES = ("n" * 300, "../../escaped", "/escaped", "con\\..\\escaped", "🚀" * 300)


async def test_fault_31_names_never_become_paths(homes: Homes, tmp_path: Path) -> None:
    """Spaces, tags and contexts called like paths, or 300 characters long, leave the files as they were."""
    async with homes.create("alice") as node:
        block = (await node.learn("Restart the indexer")).block
        before = files_below(tmp_path)
        taken, refusals = 0, []
        for name in NAMES:
            for work in (
                node.space_create(name),
                node.learn("Restart the queue", tags=[name]),
                node.outcome(1.0, blocks=[block], context=name),
            ):
                try:
                    await work
                    taken += 1
                except (NodeError, InvalidInput) as refused:
                    refusals.append(str(refused))
        assert taken >= 3
        assert max(map(len, refusals)) < 1_000, "of a long name its beginning is told"
        assert files_below(tmp_path) == before
        await faultless(node)


def test_fault_31_a_file_that_cannot_be_called_so_is_a_failure_that_names_it(tmp_path: Path) -> None:
    """An export under a name that no file system takes says so in one line, and leaves nothing behind."""
    program = made(tmp_path)
    before = files_below(tmp_path)
    refused = program.run("--json", "export", str(tmp_path / ("f" * 300)))
    assert refused.code == 1
    assert "f" * 20 in refused.error["error"]
    assert files_below(tmp_path) == before


def files_below(root: Path) -> set[Path]:
    """What there is, but for the log and what SQLite keeps while it works."""
    return {path for path in root.rglob("*") if "log" not in path.parts and "memory.db-" not in path.name}


SCRIPTS = {
    "重启索引器": ("模式变更后重启索引器", "每晚备份数据库", "证书到期前更新"),
    "резервная копия": ("Проверь резервная копия ночью", "Обнови сертификат", "Перезапусти очередь"),
    "バックアップ": ("バックアップを毎晩確認する", "証明書を更新する", "索引を再起動する"),
    "สำรองข้อมูล": ("ตรวจสอบการสำรองข้อมูลทุกคืน", "ต่ออายุใบรับรอง", "เริ่มดัชนีใหม่"),
}


@pytest.mark.parametrize("query", SCRIPTS)
async def test_fault_31_scripts_without_spaces_are_found_by_their_words(homes: Homes, query: str) -> None:
    """Before anything is embedded, the text that has the query's words comes first, by them."""
    texts = SCRIPTS[query]
    async with homes.create("alice") as node:
        await node.learn_many(texts[::-1])  # the one looked for last: nothing is carried over from it
        hits = (await node.recall(query, k=3)).hits
        assert hits[0].text == texts[0]
        assert hits[0].parts["sim"] > 2.0 * max(hit.parts["sim"] for hit in hits[1:])


def test_fault_31_a_console_in_another_code_page_shows_what_was_learned(tmp_path: Path) -> None:
    """Emoji, Cyrillic and Chinese go in and come out byte for byte where the console is said to be cp1252."""
    program = made(tmp_path).with_environ(
        LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", PYTHONIOENCODING="cp1252"
    )
    text = "Перезапусти 重启索引器 🚀"
    program.ask("learn", text.encode())
    shown = program.run("recall", "重启".encode())
    assert (shown.code, shown.err) == (0, b"")
    assert text.encode() in shown.out


async def test_fault_32_ones_own_export_is_known_and_another_home_gets_it_whole(
    homes: Homes, tmp_path: Path
) -> None:
    """Into the home it is of: not a row. Into another, a month later and twice: every number and time."""
    file, again = tmp_path / "own.jsonl", tmp_path / "again.jsonl"
    async with homes.create("alice") as alice, homes.create("bob") as bob:
        blocks = await live(alice, homes)
        await alice.deprecate(blocks[0], why="wrong")
        await export_to(alice, file)
        rows, numbers = alice.ground.store.position.n, await effective(alice)
        took = await import_from(alice, file)
        assert (took.counts.events_new, took.counts.blocks_new) == (0, 0)
        assert (alice.ground.store.position.n, await effective(alice)) == (rows, numbers)
        homes.pass_minutes(30 * 24 * 60)
        await import_from(bob, file)
        held = bob.ground.store.position.n
        await import_from(bob, file)
        assert bob.ground.store.position.n == held
        assert await effective(bob) == numbers
        for block in blocks:
            assert await happened(bob, block) == await happened(alice, block)
        await export_to(bob, again)
        assert again.read_bytes() == file.read_bytes()
        for node in (alice, bob):
            await faultless(node)


async def happened(node: Node, block: str) -> list[tuple[str, int]]:
    """What the log says of a block, and when it was."""
    return [(event.kind, event.wall_ms) for event in await node.events(block)]


LONG = 24
"""Blocks of a long text each: half a megabyte together, as much as 120,000 tokens."""
BUDGET = 20_000


async def lived_at_length(homes: Homes, node: Node) -> None:
    """Long texts, each judged in several contexts; some peers, spaces and changes of trust."""
    texts = [f"Rule {n}: " + f"restart indexer number {n}, then wait. " * 550 for n in range(LONG)]
    blocks = [one.block for one in await node.learn_many(texts, tags=["a tag of some length"])]
    for number in range(9):
        guest = await guest_in(node, f"peer number {number}")
        await node.trust_set(guest.id, 0.5, why="met at the last release, and " * 20)
    for number in range(30):
        homes.pass_minutes(2)
        some = blocks[number % 3 :: 2]
        await node.outcome(float(number % 4 > 0), blocks=some, context=("deploy", "review")[number % 2])


def after_last(params: Events, page: list[object]) -> Events:
    return msgspec.structs.replace(params, after=getattr(page[-1], "n"))  # noqa: B009


def skipped(params: Page | Worth, page: list[object]) -> Page | Worth:
    return msgspec.structs.replace(params, skip=params.skip + len(page))


@pytest.mark.parametrize(
    ("verb", "params", "onward"),
    [
        ("events", Events(limit=1000), after_last),
        ("worth", Worth(), skipped),
        ("peers", Page(), skipped),
        ("trust_log", Page(), skipped),
        ("space_list", Page(), skipped),
        ("frames", Page(), skipped),
    ],
)
async def test_fault_33_lists_come_in_pages_of_whole_items_within_the_budget(
    homes: Homes, verb: str, params: Params, onward: Callable[[Params, list[object]], Params]
) -> None:
    """At every door's verb: no page is larger than asked for, and together they are all there is, uncut."""
    async with homes.create("alice") as node:
        await lived_at_length(homes, node)
        everything = await VERBS[verb].run(node, msgspec.structs.replace(params, budget=1_000_000), None)
        size = len(msgspec.json.encode(everything))
        budget = min(BUDGET, size // BYTES_PER_TOKEN // 2)
        asked = msgspec.structs.replace(params, budget=budget)
        pages = [await VERBS[verb].run(node, asked, None)]
        while pages[-1]:
            asked = onward(asked, pages[-1])
            pages.append(await VERBS[verb].run(node, asked, None))
        assert [item for page in pages for item in page] == everything
        assert len(pages) > 2
        for page in pages:
            assert len(msgspec.json.encode(page)) <= budget * BYTES_PER_TOKEN + 1
        (first,) = await VERBS[verb].run(node, msgspec.structs.replace(params, budget=1), None)
        assert first == everything[0], "one whole item comes however small the budget is"


@pytest.mark.parametrize(
    ("verb", "params", "field"),
    [("attribute", Attribute(), "found"), ("due", DueWithin(limit=1000, horizon_h=900.0), "blocks")],
)
async def test_fault_33_what_comes_first_is_told_within_the_budget(
    homes: Homes, verb: str, params: Params, field: str
) -> None:
    """Where only the first ones are asked for, these are whole, and the answer says of how many."""
    async with homes.create("alice") as node:
        await lived_at_length(homes, node)
        everything = await VERBS[verb].run(node, params, None)
        within = await VERBS[verb].run(node, msgspec.structs.replace(params, budget=BUDGET), None)
        found, few = getattr(everything, field), getattr(within, field)
        assert 0 < len(few) < len(found)
        assert few == found[: len(few)]
        assert msgspec.structs.replace(within, **{field: found}) == everything


async def test_fault_33_pages_of_an_export_stay_far_below_what_a_client_takes(homes: Homes) -> None:
    """Eight megabytes of the longest texts there can be: no page has more than four, and all are there."""
    async with homes.create("alice") as node:
        longest = [f"{n:03} ".ljust(MAX_TEXT_BYTES, "x") for n in range(128)]
        await node.learn_many(longest)
        found, cursor, pages = [], "", 0
        while True:
            page = await VERBS["export_page"].run(node, ExportPage(cursor), None)
            assert len(msgspec.json.encode(page)) <= PAGE_TEXT_BYTES + 2 * MAX_TEXT_BYTES
            found += [block.text for block in page.blocks]
            pages, cursor = pages + 1, page.cursor
            if not cursor:
                break
        assert found == longest
        assert pages >= 3


def test_fault_33_the_program_takes_a_budget_and_says_how(tmp_path: Path) -> None:
    """`--budget` bounds what the command prints; what cannot be a budget is refused naming it."""
    program = made(tmp_path)
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join(f"Restart indexer number {n}" for n in range(40)))
    program.ask("learn", "--lines", str(lines))
    assert len(program.run("--json", "events").out) > 2_000
    assert len(program.run("--json", "events", "--budget", "500").out) <= 2_000 + 2
    refused = program.run("--json", "events", "--budget", "1000001")
    assert (refused.code, "budget is 1000001" in refused.error["error"]) == (2, True)


async def test_fault_33_a_recall_hands_out_whole_texts_within_its_budget(homes: Homes) -> None:
    """What was 120,000 tokens for the asking is as many whole texts as fit, the best of them first."""
    async with homes.create("alice") as node:
        await lived_at_length(homes, node)
        everything = await node.recall("restart indexer", k=LONG)
        within = await node.recall("restart indexer", k=LONG, budget_tokens=BUDGET)
        assert sum(tokens(hit.text) for hit in everything.hits) > 5 * BUDGET
        assert 0 < len(within.hits) < LONG
        assert sum(tokens(hit.text) for hit in within.hits) <= BUDGET
        texts = {hit.block: hit.text for hit in everything.hits}
        assert all(hit.text == texts[hit.block] for hit in within.hits)
