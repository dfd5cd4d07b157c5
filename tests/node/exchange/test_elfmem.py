"""elfmem's memories: counts, times, tags, edges and outcomes come over; what is wrong stops everything."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loremesh.node.errors import UsageError
from loremesh.node.exchange.elfmem import split
from loremesh.node.exchange.elfmem_tables import ElfBlock, read_elfmem
from loremesh.node.exchange.files import import_elfmem
from loremesh.node.node import Node
from loremesh.node.results import Explanation
from loremesh.sync.content import block_id
from loremesh.sync.fixed import ONE
from tests.node.exchange.elfmem_files import BLOCK, Row, block, database, without
from tests.node.homes import Homes, effective, faultless

SHARED = Path(__file__).parents[4] / "shared" / "data" / "elfmem"
TEXT = str(BLOCK["content"])
ROUNDING = 2.0 / ONE
"""Both counts are rounded once."""

pytestmark = pytest.mark.filterwarnings("error")


def shared(name: str) -> Path:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{path} is not there: it comes with the shared data, not with the repository")
    return path


@pytest.fixture
def homes(tmp_path: Path) -> Homes:
    return Homes(tmp_path / "homes")


@pytest.fixture
async def node(homes: Homes) -> AsyncIterator[Node]:
    async with homes.create("alice") as node:
        yield node
        await faultless(node)


async def seen(node: Node, text: str) -> Explanation:
    return await node.explain(block_id(text).hex())


def evidence(about: Explanation) -> tuple[float, float]:
    """What counts as outcomes that came from files."""
    found = [claim for claim in about.sources if claim.source == "imported"]
    return sum(claim.alpha for claim in found), sum(claim.beta for claim in found)


# databases that elfmem wrote


@pytest.mark.parametrize("name", ["elfmem-v3.db", "elfmem-v9.db"])
async def test_the_mean_is_kept_and_the_evidence_is_without_the_pseudo_observation(
    node: Node, name: str
) -> None:
    """For every block: mean = confidence, evidence = counts less the alignment, not below 0."""
    path = shared(name)
    await import_elfmem(node, path)
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        rows = [dict(row) for row in connection.execute("SELECT * FROM blocks WHERE status != 'archived'")]
        tags: dict[str, set[str]] = {}
        for of, tag in connection.execute("SELECT block_id, tag FROM block_tags"):
            tags.setdefault(of, set()).add(tag)
        edges = connection.execute("SELECT from_id, to_id, weight FROM edges").fetchall()
    assert len(rows) == 24
    texts = {row["id"]: row["content"] for row in rows}
    for row in rows:
        about = await seen(node, row["content"])
        c, e = row["confidence"], row["outcome_evidence"]
        alpha = row.get("success_count", c * (1 + e))
        beta = row.get("failure_count", (1 - c) * (1 + e))
        aligned = 0.5 if row["self_alignment"] is None else row["self_alignment"]
        assert about.utility == pytest.approx(c, abs=ROUNDING)
        assert evidence(about) == pytest.approx(
            (max(alpha - aligned, 0), max(beta - 1 + aligned, 0)), abs=ROUNDING
        )
        assert about.stability_h == pytest.approx(1 / row["decay_lambda"])
        assert set(about.tags) == tags.get(row["id"], set())
        promoted = row["self_alignment"] is not None
        assert about.status == ("active" if promoted else "pending")
        assert about.importance == (aligned if promoted else 0.5)
    own, memory = node.ground.memory.own, node.ground.memory
    for one, other, weight in edges:
        if one in texts and other in texts:
            here, there = (memory.row_named(block_id(texts[of]).hex()) for of in (one, other))
            assert {edge.other: edge.weight_fx for edge in own.links.of(here)}[there] / ONE == pytest.approx(
                weight, abs=ROUNDING
            )


async def test_outcomes_come_as_events_with_their_times(node: Node) -> None:
    """Signal, weight, who judged, and when; they are not counted a second time."""
    await import_elfmem(node, shared("elfmem-v9.db"))
    about = await seen(node, "Postgres needs pgbouncer above 100 concurrent clients.")
    told = [
        (event.detail["signal"], event.detail["weight"], event.detail["context"], event.wall_ms)
        for event in await node.events(about.block)
        if event.kind == "outcome"
    ]
    assert told == [(0.95, 1.0, "test_suite", 1796031835689), (1.0, 2.0, "brier", 1796031835715)]
    assert evidence(about) == pytest.approx((2.95, 0.05), abs=ROUNDING)
    (learned,) = [event for event in await node.events(about.block) if event.kind == "learn"]
    assert learned.wall_ms == 1796031834753


async def test_what_is_left_out_is_said(node: Node) -> None:
    """With the reason, and by number."""
    took = await import_elfmem(node, shared("elfmem-v9.db"))
    said = "\n".join(took.remarks)
    for words in (
        "24 of 25 blocks",
        "1 archived blocks",
        "embeddings by mock",
        "2 contradictions",
        "1 const",
    ):
        assert words in said
    assert (await node.recall("This block will be forgotten")).hits[0].text != "This block will be forgotten."
    took = await import_elfmem(node, shared("elfmem-v9.db"), archived=True)
    assert (took.counts.blocks_new, took.counts.blocks_known) == (1, 24)


@pytest.mark.parametrize("name", ["elfmem-v3.db", "elfmem-v9.db", "bundle-v2.json"])
async def test_importing_twice_changes_nothing(node: Node, homes: Homes, name: str) -> None:
    """Not a row, even after hours of use in between."""
    await import_elfmem(node, shared(name))
    homes.pass_minutes(20)
    await node.recall("pgbouncer")
    before, numbers = node.ground.store.position.n, await effective(node)
    took = await import_elfmem(node, shared(name))
    assert (took.counts.events_new, took.counts.blocks_new) == (0, 0)
    assert (node.ground.store.position.n, await effective(node)) == (before, numbers)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_a_bundle_and_its_database_are_not_counted_twice(node: Node, order: tuple[int, int]) -> None:
    """The database says exactly what a bundle has to estimate: its counts stay, or take their place."""
    files = [shared("elfmem-v9.db"), shared("bundle-v2.json")]
    for at in order:
        await import_elfmem(node, files[at])
    about = await seen(node, "Python 3.11 is the minimum supported version.")
    assert (about.alpha, about.beta) == pytest.approx((3.5, 1.0), abs=ROUNDING)
    assert evidence(about) == pytest.approx((2.9, 0.6), abs=ROUNDING)
    assert [event.kind for event in await node.events(about.block)].count("outcome") == 1
    rows = node.ground.store.position.n
    for path in files:
        await import_elfmem(node, path)
    assert node.ground.store.position.n == rows


async def test_a_bundle_keeps_means_and_takes_one_observation_out(node: Node) -> None:
    """It does not say how promotion rated: the mass is known, its split is the block's own mean."""
    path = shared("bundle-v2.json")
    await import_elfmem(node, path)
    for told in json.loads(path.read_text("utf-8"))["blocks"]:
        about = await seen(node, told["content"])
        assert about.utility == pytest.approx(told["confidence"], abs=ROUNDING)
        mass = told["success_count"] + told["failure_count"]
        assert sum(evidence(about)) == pytest.approx(max(mass - 1, 0), abs=ROUNDING)
        assert set(about.tags) == set(told["tags"])


@pytest.mark.parametrize("name", ["elfmem-v9.db", "bundle-v2.json"])
async def test_a_dry_run_and_an_import_leave_the_file_alone(node: Node, tmp_path: Path, name: str) -> None:
    """Read only: no byte changes, and nothing appears beside it, in a directory that cannot be written."""
    inside = tmp_path / "theirs"
    inside.mkdir()
    path = inside / name
    path.write_bytes(shared(name).read_bytes())
    before, rows = path.read_bytes(), node.ground.store.position.n
    path.chmod(0o400)
    inside.chmod(0o500)
    looked = await import_elfmem(node, path, dry_run=True)
    assert node.ground.store.position.n == rows
    took = await import_elfmem(node, path)
    assert took.counts == looked.counts
    assert (path.read_bytes(), os.listdir(inside)) == (before, [name])
    inside.chmod(0o700)


# the counts


@given(
    alpha=st.floats(0, 1000),
    beta=st.floats(0, 1000),
    aligned=st.one_of(st.none(), st.floats(0, 1)),
    exact=st.booleans(),
)
def test_prior_and_evidence_add_up_to_the_counts(
    alpha: float, beta: float, aligned: float | None, exact: bool
) -> None:
    """Whatever is taken out as no outcome stays in the sum, so the mean stays; nothing is below 0."""
    elf = ElfBlock("a", "text", False, [], alpha, beta, aligned, exact, -1.0, 0.0, 0)
    parts = split(elf)
    assert parts.prior_a_fx + parts.alpha_fx == round(alpha * ONE)
    assert parts.prior_b_fx + parts.beta_fx == round(beta * ONE)
    assert min(parts.prior_a_fx, parts.prior_b_fx, parts.alpha_fx, parts.beta_fx) >= 0
    assert parts.prior_a_fx + parts.prior_b_fx <= ONE + 1


# schemas nobody has seen


async def test_an_unknown_older_schema_is_read_by_its_columns(node: Node, tmp_path: Path) -> None:
    """Nothing but ids and texts: blocks without evidence, whose time of learning is not made up."""
    path = database(tmp_path / "old.db", [{"content": TEXT, "id": "a1"}], config={})
    took = await import_elfmem(node, path)
    about = await seen(node, TEXT)
    assert (about.alpha, about.beta, about.status, evidence(about)) == (0.5, 0.5, "pending", (0, 0))
    assert "schema 1" in took.remarks[0]
    assert any("do not say when" in remark for remark in took.remarks)
    assert {event.wall_ms for event in await node.events(about.block)} == {0}


async def test_an_unknown_newer_schema_is_read_by_its_columns(node: Node, tmp_path: Path) -> None:
    """More columns, in another order, more tables, a version far ahead: what is known is taken."""
    rows = [{"mood": "blue", **dict(reversed(BLOCK.items())), "embedding": b"\x00" * 8}]
    path = database(
        tmp_path / "new.db",
        rows,
        {"schema_version": "47", "total_active_hours": "10"},
        block_tags=[{"weight": 1, "tag": "ops", "block_id": "a1"}],
        dreams=[{"id": 1}],
    )
    took = await import_elfmem(node, path)
    about = await seen(node, TEXT)
    assert about.utility == pytest.approx(0.65, abs=ROUNDING)
    assert about.tags == ["ops"]
    assert evidence(about) == pytest.approx((2.0, 1.0), abs=ROUNDING)
    assert "schema 47" in took.remarks[0]


async def test_counts_before_schema_4_come_from_confidence(node: Node, tmp_path: Path) -> None:
    """c(1+e) and (1-c)(1+e), where there are no counts."""
    row = {**without("success_count", "failure_count", confidence=0.75), "outcome_evidence": 3.0}
    await import_elfmem(node, database(tmp_path / "v3.db", [row]))
    about = await seen(node, TEXT)
    assert about.utility == pytest.approx(0.75, abs=ROUNDING)
    assert evidence(about) == pytest.approx((3.0 - 0.6, 1.0 - 0.4), abs=ROUNDING)


async def test_ages_and_stability_are_active_hours(node: Node, homes: Homes, tmp_path: Path) -> None:
    """Reinforced three active hours before the end there is three hours old here; S = 1/λ."""
    await node.learn("Something of its own")
    homes.pass_minutes(20)
    await node.recall("anything")
    await import_elfmem(node, database(tmp_path / "a.db", [BLOCK]))
    about = await seen(node, TEXT)
    assert about.hour - about.last_event_h == pytest.approx(3.0)
    assert about.stability_h == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("stated", "wall_ms"),
    [
        ("2025-03-01T10:00:00.250000+00:00", 1740823200250),
        ("2025-03-01T12:00:00.250000+02:00", 1740823200250),
        ("2025-03-01 10:00:00", 1740823200000),
        ("2025-03-01T10:00:00Z", 1740823200000),
        (None, 0),
    ],
)
async def test_times_are_utc_whatever_the_zone(
    node: Node, tmp_path: Path, stated: str | None, wall_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of the file is obeyed, that of the reader is not asked (FAULTS 30)."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    await import_elfmem(node, database(tmp_path / "a.db", [block(created_at=stated)]))
    events = await node.events(block_id(TEXT).hex())
    assert [event.wall_ms for event in events if event.kind == "learn"] == [wall_ms]


async def test_a_live_database_is_read_with_its_log(node: Node, tmp_path: Path) -> None:
    """What is committed and not yet checkpointed is there, and the writer goes on undisturbed."""
    path = database(tmp_path / "live.db", [BLOCK])
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        columns = ", ".join(BLOCK)
        late = block(id="b2", content="Written a moment ago")
        writer.execute(
            f"INSERT INTO blocks ({columns}) VALUES ({', '.join('?' * len(late))})", list(late.values())
        )
        writer.commit()
        assert path.with_name("live.db-wal").stat().st_size > 0
        took = await import_elfmem(node, path)
        assert took.counts.blocks_new == 2
        writer.execute("UPDATE blocks SET confidence = 0.1")
        writer.commit()


async def test_a_later_state_adds_what_is_new_and_replaces_counts(node: Node, tmp_path: Path) -> None:
    """The same memory a week later: an outcome more, other counts, not the sum of both."""
    outcomes: list[Row] = [
        {"block_id": "a1", "signal": 1.0, "weight": 1.0, "source": "t", "created_at": "2025-03-02T10:00:00Z"}
    ]
    await import_elfmem(node, database(tmp_path / "a.db", [BLOCK], block_outcomes=outcomes))
    outcomes.append({**outcomes[0], "signal": 0.0, "created_at": "2025-03-09T10:00:00Z"})
    later = database(tmp_path / "b.db", [block(failure_count=2.4)], block_outcomes=outcomes)
    took = await import_elfmem(node, later)
    about = await seen(node, TEXT)
    assert (about.alpha, about.beta) == pytest.approx((2.6, 2.4), abs=ROUNDING)
    assert took.counts.events_new == 2, "one outcome and one statement of counts"
    signals = [e.detail["signal"] for e in await node.events(about.block) if e.kind == "outcome"]
    assert signals == [1.0, 0.0]


async def test_two_blocks_with_one_text_are_one(node: Node, tmp_path: Path) -> None:
    """Their tags together, their evidence added; an edge between them is none."""
    blocks = [block(), block(id="b2", content=f"  {TEXT}\n"), block(id="c3", content="Apart from that")]
    took = await import_elfmem(
        node,
        database(
            tmp_path / "a.db",
            blocks,
            block_tags=[{"block_id": "a1", "tag": "one"}, {"block_id": "b2", "tag": "two"}],
            edges=[
                {"from_id": "a1", "to_id": "b2", "weight": 0.5},
                {"from_id": "b2", "to_id": "c3", "weight": 1.5},
                {"from_id": "c3", "to_id": "gone", "weight": 0.5},
            ],
        ),
    )
    about = await seen(node, TEXT)
    assert (took.counts.blocks_new, about.tags) == (2, ["one", "two"])
    assert evidence(about) == pytest.approx((4.0, 2.0), abs=ROUNDING)
    assert any("2 edges to blocks that are not taken" in remark for remark in took.remarks)
    assert node.ground.memory.own.links.edges().weight_fx.tolist() == [ONE, ONE], (
        "one link, from both its ends"
    )


async def test_blocks_that_cannot_be_are_left_out_and_counted(node: Node, tmp_path: Path) -> None:
    """Empty, too long, with a NUL: elfmem allows them."""
    texts = ("", " \n", "x" * 70_000, "a\0b", TEXT)
    rows = [block(id=f"a{at}", content=text) for at, text in enumerate(texts)]
    took = await import_elfmem(node, database(tmp_path / "a.db", rows))
    assert took.counts.blocks_new == 1
    assert any(remark.startswith("left out: 4 blocks") for remark in took.remarks)


async def test_tags_that_cannot_be_are_left_out_and_counted(node: Node, tmp_path: Path) -> None:
    """Too long, not printable, or beyond the bound of 32."""
    tags = ["x" * 65, "a\x1b[2J", *(f"t{at:02}" for at in range(40))]
    rows = [{"block_id": "a1", "tag": tag} for tag in tags]
    took = await import_elfmem(node, database(tmp_path / "a.db", [BLOCK], block_tags=rows))
    assert len((await seen(node, TEXT)).tags) == 32
    assert any("left out: 10 tags" in remark for remark in took.remarks)


# what is wrong


WRONG: dict[str, tuple[Row, str]] = {
    "a confidence that is a text": (without("success_count", confidence="high"), "confidence is 'high'"),
    "a confidence of 2": (without("success_count", confidence=2.0), "from 0 to 1"),
    "negative counts": (block(failure_count=-5.0), "failure_count is -5.0"),
    "a gigantic count": (block(success_count=1e12), "success_count"),
    "an infinite count": (block(success_count=float("inf")), "finite"),
    "an alignment of 3": (block(self_alignment=3.0), "self_alignment"),
    "a content of bytes": (block(content=b"\xff\xfe"), "content is"),
    "no content": (block(content=None), "content is"),
    "an id that is a number": (block(id=5), "id is '5'"),
    "a time that is none": (block(created_at="yesterday"), "'yesterday'"),
    "a negative decay": (block(decay_lambda=-1.0), "decay_lambda"),
    "an infinite age": (block(last_reinforced_at=float("-inf")), "last_reinforced_at"),
}


async def refused(node: Node, path: Path, why: str) -> None:
    before = node.ground.store.position, node.ground.memory.length
    with pytest.raises(UsageError) as failure:
        await import_elfmem(node, path)
    assert why in str(failure.value)
    assert (node.ground.store.position, node.ground.memory.length) == before


@pytest.mark.parametrize("what", WRONG)
async def test_a_wrong_value_stops_everything(node: Node, tmp_path: Path, what: str) -> None:
    """One bad row behind a good one: nothing of either is written, and the message says which."""
    row, why = WRONG[what]
    rows = [{name: value for name, value in block(id="good", content="Sound").items() if name in row}, row]
    await refused(node, database(tmp_path / "a.db", rows), why)


async def test_wrong_rows_of_other_tables_stop_everything(node: Node, tmp_path: Path) -> None:
    """Outcomes, edges, tags and the settings."""
    tables: list[tuple[dict[str, list[Row]], str]] = [
        ({"block_outcomes": [{"block_id": "a1", "signal": 1.5}]}, "signal is 1.5"),
        ({"block_outcomes": [{"block_id": "a1", "signal": 1.0, "weight": -1.0}]}, "weight"),
        ({"edges": [{"from_id": "a1", "to_id": 7}]}, "to_id"),
        ({"edges": [{"from_id": "a1", "to_id": "a1", "weight": "x"}]}, "weight is 'x'"),
        ({"block_tags": [{"block_id": "a1", "tag": b"ops"}]}, "tag is"),
    ]
    for at, (held, why) in enumerate(tables):
        await refused(node, database(tmp_path / f"{at}.db", [BLOCK], None, **held), why)
    for hours in ("-1", "nan", "a lot"):
        path = database(tmp_path / f"{hours}.db", [BLOCK], {"total_active_hours": hours})
        await refused(node, path, "total_active_hours")


async def test_ids_that_are_there_twice_stop_everything(node: Node, tmp_path: Path) -> None:
    """Which of the two an edge means, nobody could say."""
    rows = [block(), block(content="Another text")]
    await refused(node, database(tmp_path / "a.db", rows), "'a1' is there twice")


async def test_damaged_and_foreign_files_are_refused(node: Node, tmp_path: Path) -> None:
    """Cut off, overwritten, with text that is no UTF-8, another program's, no database at all."""
    whole = database(tmp_path / "a.db", [block(id=f"a{at}", content=f"{TEXT} {at}") for at in range(300)])
    raw = whole.read_bytes()
    broken = tmp_path / "broken.db"
    for damaged in (raw[: len(raw) // 2], raw[:100], raw[:8192] + os.urandom(4096) + raw[12288:]):
        broken.write_bytes(damaged)
        await refused(node, broken, "broken.db cannot be imported")
    with closing(sqlite3.connect(tmp_path / "latin.db")) as connection:
        connection.execute("CREATE TABLE blocks (id, content)")
        connection.execute("INSERT INTO blocks VALUES ('a1', CAST(x'ff41' AS TEXT))")
        connection.commit()
    await refused(node, tmp_path / "latin.db", "latin.db cannot be imported")
    with closing(sqlite3.connect(tmp_path / "view.db")) as connection:
        connection.execute("CREATE VIEW blocks AS SELECT 'a1' AS id, 'text' AS content")
        connection.commit()
    await refused(node, tmp_path / "view.db", "no table blocks")
    for name, content in {
        "text": b"not a database",
        "list.json": b"[1, 2]",
        "empty": b"",
        "cut.json": b'{"version": 2, "blocks": [',
        "numbers.json": b'{"blocks": [1, 2]}',
        "nan.json": b'{"blocks": [{"id": "a", "content": "b", "confidence": NaN}]}',
        "deep.json": b'{"blocks":' + b"[" * 100_000,
    }.items():
        (tmp_path / name).write_bytes(content)
        await refused(node, tmp_path / name, name)


def test_a_database_of_another_name_is_opened_as_it_is(tmp_path: Path) -> None:
    """Names that mean something in a URI are names."""
    path = database(tmp_path / "a?mode=rwc#1 %41.db", [BLOCK])
    assert len(read_elfmem(path).blocks) == 1
