"""Damage of every kind is found and named, and what is not damaged stays readable."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from loremesh.node.store import Cut, Damaged, HomeEvent, NewBlock, State, Store, StoreError, Verified
from loremesh.node.store.ledger import load_ledger
from loremesh.node.store.schema import ERASED_KEY
from loremesh.node.store.verify import FAULTS_MAX, verify
from tests.node.store.doubles import (
    DIMENSION,
    FEED,
    MODEL,
    filled_home,
    home_keys,
    id_of,
    opened_file,
    rows_of,
    tamper,
    verified,
)

FLIPS = 150


async def eventful_home(home: Path) -> Path:
    """`filled_home`, then block 5 forgotten (log rows 6, 16), frame row 8 cut, frame row 9 pruned."""
    await filled_home(home)
    async with await Store.open(home, home_keys()) as store:
        await store.forget(5, [Cut(8, b"less")], mark=b"mark")
        await store.prune([9])
    return home


def names(found: Verified) -> list[str]:
    """Where the faults are."""
    return [fault.where for fault in found.faults]


async def test_a_sound_home_has_no_faults_and_is_counted(tmp_path: Path) -> None:
    """Rows by what became of them, and blocks."""
    found = await verified(await eventful_home(tmp_path))
    assert found == Verified(16, 12, 1, 1, 2, 0, 0, 5, [], 0)


SWAP_ROWS = (
    "UPDATE log SET n = 99 WHERE n = 2",
    "UPDATE log SET n = 2 WHERE n = 4",
    "UPDATE log SET n = 4 WHERE n = 99",
)
SWAP_CONTENTS = (
    "CREATE TABLE aside AS SELECT * FROM log WHERE n IN (2, 4)",
    "UPDATE log SET (ref, body, digest) = (SELECT ref, body, digest FROM aside WHERE n = 6 - log.n)"
    " WHERE n IN (2, 4)",
    "DROP TABLE aside",
)
SWAP_FRAMES = tuple(
    sql.replace("SET n = 2", "SET n = 8")
    .replace("n = 2", "n = 8")
    .replace("SET n = 4", "SET n = 10")
    .replace("n = 4", "n = 10")
    for sql in SWAP_ROWS
)
ADD_ROW = (
    "INSERT INTO log SELECT 17, kind, ref, number, slot, state, header, body, digest FROM log WHERE n = 15",
)


@pytest.mark.parametrize(
    ("statements", "where", "what"),
    [
        pytest.param(
            SWAP_ROWS, ["log row 2", "log row 4"], "belongs to another place", id="two rows swapped"
        ),
        pytest.param(SWAP_CONTENTS, ["log row 2", "log row 4"], "belongs to another", id="contents swapped"),
        pytest.param(SWAP_FRAMES, ["log row 8", "log row 10"], "belongs to another", id="two frames swapped"),
        pytest.param(["DELETE FROM log WHERE n = 5"], ["log row 5"], "missing", id="one dropped"),
        pytest.param(
            ["DELETE FROM log WHERE n BETWEEN 2 AND 4"], ["log rows 2 to 4"], "missing", id="some dropped"
        ),
        pytest.param(["DELETE FROM log WHERE n = 1"], ["log row 1"], "missing", id="the first dropped"),
        pytest.param(
            ["DELETE FROM log WHERE n > 13"], ["log rows 14 to 16"], "ends at row 13", id="tail cut"
        ),
        pytest.param(["DELETE FROM log"], ["log rows 1 to 16"], "ends at row 0", id="all gone"),
        pytest.param(ADD_ROW, ["log row 17"], "goes on to row 17", id="one added"),
        pytest.param(["DELETE FROM head"], ["head"], "missing", id="no head"),
        pytest.param(["DELETE FROM record WHERE rowid_is_not_there"], [], "", id="nothing"),
        pytest.param(["DELETE FROM record"], ["record"], "missing", id="records gone"),
        pytest.param(["DELETE FROM forgotten"], ["record"], "missing", id="forgotten gone"),
        pytest.param(
            ["DELETE FROM feed"], ["log row 8", "log row 9", "log row 10"], "feed 1", id="feed gone"
        ),
        pytest.param(
            ["DELETE FROM block WHERE row = 2"],
            ["log row 3", "log row 13", "block row 2", "erasable slot 2"],
            "missing",
            id="block with events gone",
        ),
        pytest.param(
            ["DELETE FROM erasable WHERE slot = 2"],
            ["log row 3", "log row 13", "block row 2"],
            "key is missing",
            id="key gone",
        ),
        pytest.param(
            ["UPDATE block SET kid = zeroblob(16) WHERE row = 2"], ["block row 2"], "keyed id", id="other id"
        ),
        pytest.param(
            [
                "PRAGMA writable_schema = ON",
                "UPDATE sqlite_schema SET sql = 'CREATE INDEX log_event ON log (ref) WHERE kind = 2'"
                " WHERE name = 'log_event'",
            ],
            ["memory.db"],
            "SQLite finds",
            id="an index that disagrees",
        ),
        pytest.param(["DELETE FROM embedding"], [], "", id="embeddings gone, which can be computed again"),
    ],
)
async def test_damage_is_found_and_named(
    tmp_path: Path, statements: list[str], where: list[str], what: str
) -> None:
    """By row where a row explains it; what is not named is still read as it was."""
    await eventful_home(tmp_path)
    async with await Store.open(tmp_path, home_keys()) as store:
        before = {row.n: row for row in await rows_of(store)}
    tamper(tmp_path, *(sql for sql in statements if "rowid_is_not_there" not in sql))
    found = await verified(tmp_path)
    assert set(where) <= set(names(found))
    assert bool(found.faults) == bool(where)
    assert all(fault.what for fault in found.faults)
    assert any(what in fault.what for fault in found.faults) or not where
    async with await Store.open(tmp_path, home_keys(), salvage=True) as store:
        named = " ".join(names(found))
        for row in await rows_of(store, salvage=True):
            if row.state is State.DAMAGED:
                assert f"log row {row.n}" in named
            elif row.n in before:
                assert row == before[row.n]


async def test_any_bit_of_any_column_is_found(tmp_path: Path) -> None:
    """Every row of every table, every column, a bit at the start, in the middle and at the end."""
    named_by = {
        "head": ("head",),
        "erasable": ("log row", "block row", "erasable slot"),
        "block": ("block", "log row", "erasable slot"),
        "embedding": ("block row",),
        "model": ("model", "block row"),
        "feed": ("feed", "log row"),
        "log": ("log row", "memory.db", "erasable slot"),
        "forgotten": ("forgotten row", "record"),
        "record": ("record",),
    }
    cases = 0
    with opened_file(await eventful_home(tmp_path)) as file:
        tables = [name for (name,) in file.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        assert sorted(tables) == sorted(named_by)
        for table in tables:
            for change, key, statement in list(_changes(file, table)):
                file.execute("BEGIN")
                try:
                    file.execute(statement, (change, key))
                except sqlite3.IntegrityError:
                    continue  # head.id has only one value
                else:
                    found = verify(file, load_ledger(file, home_keys(), salvage=True))
                finally:
                    file.execute("ROLLBACK")
                said = f"{statement} with {change!r} and {key!r}: {found.faults}"
                assert found.faults, said
                assert any(name.startswith(named_by[table]) for name in names(found)), said
                cases += 1
        assert verify(file, load_ledger(file, home_keys(), salvage=False)).faults == []
    assert cases > 500


def _changes(file: sqlite3.Connection, table: str) -> Iterator[tuple[object, object, str]]:
    """(other value, key, statement that sets it) for every column of every row that means something."""
    columns = [column[1] for column in file.execute(f"PRAGMA table_info({table})")]
    for row in file.execute(f"SELECT * FROM {table}"):
        if table == "erasable" and ERASED_KEY in row:
            continue
        for column, value in zip(columns, row, strict=True):
            for change in _others(value, nullable=column not in {"n", "row", "no", "slot", "id"}):
                yield change, row[0], f"UPDATE {table} SET {column} = ? WHERE {columns[0]} = ?"


def _others(value: object, *, nullable: bool) -> list[object]:
    if isinstance(value, int):
        return [value ^ 1, value ^ 2, value ^ 1 << 20] + [None] * nullable
    if isinstance(value, bytes):
        places = sorted({0, len(value) // 2, len(value) - 1})
        return [value[:at] + bytes([value[at] ^ 1 << at % 8]) + value[at + 1 :] for at in places]
    return [1, b"x"]


async def test_any_byte_of_the_file_is_found_or_means_nothing(tmp_path: Path) -> None:
    """Flipped bits in the file itself: an error of the store, or a fault named, or all still as it was."""
    original = await eventful_home(tmp_path / "original")
    async with await Store.open(original, home_keys()) as store:
        before = await _all(store)
    body = (original / "memory.db").read_bytes()
    chance = random.Random(3)
    harmless = 0
    used = [at for at, byte in enumerate(body) if byte]
    for at in chance.sample(used, FLIPS):
        home = tmp_path / "copy"
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(original, home)
        changed = bytearray(body)
        changed[at] ^= 1 << chance.randrange(8)
        (home / "memory.db").write_bytes(changed)
        try:
            if (await verified(home)).faults:
                continue
            async with await Store.open(home, home_keys()) as store:
                assert await _all(store) == before, f"byte {at} of the file"
            harmless += 1
        except StoreError:
            continue
    assert harmless < FLIPS // 4


async def _all(store: Store) -> tuple[object, ...]:
    (batch,) = [batch async for batch in store.scan_blocks(MODEL, DIMENSION)]
    blocks = (batch.rows.tolist(), batch.ids, batch.texts, batch.vector_rows.tolist(), batch.vectors.tolist())
    frames = await store.frames(FEED, 1, 9)
    return await rows_of(store), blocks, await store.records(), frames, store.forgotten_mark(id_of(5))


async def test_an_older_head_with_newer_rows_is_found(tmp_path: Path) -> None:
    """And a newer head with older rows: the head and the log's last row must fit."""
    await filled_home(tmp_path)
    with opened_file(tmp_path) as connection:
        (old,) = connection.execute("SELECT body FROM head").fetchone()
    async with await Store.open(tmp_path, home_keys()) as store:
        await store.append([HomeEvent(b"newer")] * 2)
    with opened_file(tmp_path) as connection:
        (new,) = connection.execute("SELECT body FROM head").fetchone()
        connection.execute("UPDATE head SET body = ?", (old,))
    found = await verified(tmp_path)
    assert [(fault.where, "it is older" in fault.what) for fault in found.faults] == [
        ("log rows 17 to 18", True)
    ]
    with pytest.raises(Damaged, match="goes on to row 18"):
        await Store.open(tmp_path, home_keys())
    with opened_file(tmp_path) as connection:
        connection.execute("UPDATE head SET body = ?", (new,))
        connection.execute("DELETE FROM log WHERE n > 16")
    assert names(await verified(tmp_path)) == ["log rows 17 to 18"]
    with pytest.raises(Damaged, match="cut off"):
        await Store.open(tmp_path, home_keys())


def put_back(home: Path, old: Path, *statements: str) -> None:
    """Run statements on a home that have its older copy at hand as `old`."""
    with opened_file(home) as connection:
        connection.execute(f"ATTACH '{old / 'memory.db'}' AS old")
        for statement in statements:
            connection.execute(statement)


REVIVE_BLOCK = (
    "INSERT INTO block SELECT * FROM old.block WHERE row = 5",
    "UPDATE erasable SET wrapped = (SELECT wrapped FROM old.erasable AS o WHERE o.slot = erasable.slot)"
    " WHERE slot = (SELECT slot FROM block WHERE row = 5)",
    "REPLACE INTO log SELECT * FROM old.log WHERE n IN (6, 16)",
    "DELETE FROM forgotten",
)


@pytest.mark.parametrize(
    ("statements", "where"),
    [
        pytest.param(REVIVE_BLOCK, {"log", "block", "record"}, id="a forgotten block"),
        pytest.param(
            (
                "UPDATE erasable SET wrapped = (SELECT wrapped FROM old.erasable AS o WHERE o.slot ="
                " erasable.slot) WHERE slot IN (SELECT slot FROM old.log WHERE n = 8)",
                "REPLACE INTO log SELECT * FROM old.log WHERE n = 8",
            ),
            {"log", "erasable slot 10"},
            id="a cut frame",
        ),
        pytest.param(
            (
                "UPDATE erasable SET wrapped = (SELECT wrapped FROM old.erasable AS o WHERE o.slot ="
                " erasable.slot) WHERE slot IN (SELECT slot FROM old.log WHERE n = 9)",
            ),
            {"erasable slot 7"},
            id="an erased key",
        ),
        pytest.param(("REPLACE INTO record SELECT * FROM old.record",), {"record"}, id="a record"),
        pytest.param(
            ("REPLACE INTO block SELECT * FROM old.block WHERE row = 0",), {"block"}, id="a content"
        ),
    ],
)
async def test_a_row_put_back_to_what_it_was_is_found(
    tmp_path: Path, statements: tuple[str, ...], where: set[str]
) -> None:
    """Every byte of it was once right: the sums in the head tell."""
    home, old = tmp_path / "home", tmp_path / "old"
    home.mkdir()
    async with await Store.create(home, home_keys()) as store:
        await store.append([], [NewBlock(0, id_of(0), None)])
    shutil.copytree(home, tmp_path / "first")
    shutil.rmtree(home)
    await filled_home(home)
    async with await Store.open(home, home_keys()) as store:
        await store.append([], [NewBlock(6, id_of(6), None)])
    shutil.copytree(home, old)
    async with await Store.open(home, home_keys()) as store:
        await store.forget(5, [Cut(8, b"less")], mark=b"mark")
        await store.prune([9])
        await store.append([], [NewBlock(6, id_of(6), "now with a text")], records={"note": b"newer"})
    put_back(home, old, *(sql.replace("row = 0", "row = 6") for sql in statements))
    found = await verified(home)
    assert where <= set(names(found)), found.faults


async def test_a_row_of_another_branch_is_found(tmp_path: Path) -> None:
    """It opens and has the right number, but the running hash did not lead through it."""
    home, other = tmp_path / "home", tmp_path / "other"
    await filled_home(home)
    shutil.copytree(home, other)
    for branch, text in ((home, b"what happened"), (other, b"what else could have")):
        async with await Store.open(branch, home_keys()) as store:
            await store.append([HomeEvent(text)])
    put_back(home, other, "REPLACE INTO log SELECT * FROM old.log WHERE n = 17")
    assert names(await verified(home)) == ["log"]
    async with await Store.open(home, home_keys()) as store:
        with pytest.raises(Damaged, match="running hash"):
            await rows_of(store)


async def test_the_whole_database_put_back_is_not_found_by_itself(tmp_path: Path) -> None:
    """It is as it was, once. A note outside the home, and the peers, tell the node (not the store)."""
    home, old = tmp_path / "home", tmp_path / "old"
    await filled_home(home)
    shutil.copytree(home, old)
    async with await Store.open(home, home_keys()) as store:
        await store.append([HomeEvent(b"lost")])
    shutil.rmtree(home)
    shutil.copytree(old, home)
    assert (await verified(home)).faults == []


async def test_reading_stops_at_damage_unless_it_is_to_be_passed_over(tmp_path: Path) -> None:
    """A fold must not go on as if a row had not been; salvage gets all that still opens."""
    await filled_home(tmp_path)
    tamper(
        tmp_path, "UPDATE log SET body = zeroblob(length(body)) WHERE n = 3", "DELETE FROM log WHERE n = 5"
    )
    tamper(tmp_path, "UPDATE block SET content = zeroblob(length(content)) WHERE row = 1")
    async with await Store.open(tmp_path, home_keys()) as store:
        with pytest.raises(Damaged, match="log row 3") as damaged:
            await rows_of(store)
        assert "backup" in damaged.value.hint
        with pytest.raises(Damaged, match="log row 5: it is missing"):
            await rows_of(store, after=3)
        with pytest.raises(Damaged, match="block row 1: its content"):
            [batch async for batch in store.scan_blocks()]
        with pytest.raises(Damaged, match="block row 1"):
            await store.texts([0, 1])
    async with await Store.open(tmp_path, home_keys(), salvage=True) as store:
        rows = await rows_of(store, salvage=True)
        assert [row.n for row in rows] == [n for n in range(1, 17) if n != 5]
        assert [row.n for row in rows if row.state is State.DAMAGED] == [3]
        (batch,) = [batch async for batch in store.scan_blocks(MODEL, DIMENSION, salvage=True)]
        assert batch.rows.tolist() == batch.vector_rows.tolist() == [0, 2, 3, 4, 5]


async def test_a_replaced_digest_of_a_row_whose_body_is_gone_is_found(tmp_path: Path) -> None:
    """Where nothing is left to hash, what stands in the body's place vouches for the digest."""
    await eventful_home(tmp_path)
    tamper(tmp_path, "UPDATE log SET digest = zeroblob(32) WHERE n IN (6, 8, 9)")
    assert names(await verified(tmp_path)) == ["log row 6", "log row 8", "log row 9"]
    async with await Store.open(tmp_path, home_keys()) as store:
        with pytest.raises(Damaged, match="log row 6"):
            await rows_of(store)


@pytest.mark.parametrize(
    "write",
    [
        lambda store: store.append([HomeEvent(b"x")]),
        lambda store: store.forget(0),
        lambda store: store.prune([8]),
        lambda store: store.append(records={"x": b"y"}),
    ],
)
async def test_a_salvaged_home_is_not_written_to(tmp_path: Path, write: Callable[[Store], object]) -> None:
    """A new head over damage would hide it."""
    await filled_home(tmp_path)
    tamper(tmp_path, "DELETE FROM head")
    async with await Store.open(tmp_path, home_keys(), salvage=True) as store:
        assert len(await rows_of(store, salvage=True)) == 16
        with pytest.raises(Damaged, match="nothing can be written"):
            await write(store)  # type: ignore[misc]
    with pytest.raises(Damaged, match="head is missing"):
        await Store.open(tmp_path, home_keys())


async def test_very_many_faults_are_counted_and_not_all_listed(tmp_path: Path) -> None:
    """A report has a bound."""
    async with await Store.create(tmp_path, home_keys()) as store:
        await store.append([HomeEvent(b"x")] * (FAULTS_MAX + 10))
    tamper(tmp_path, "UPDATE log SET digest = zeroblob(32)")
    found = await verified(tmp_path)
    assert (len(found.faults), found.more_faults) == (FAULTS_MAX, 10)
