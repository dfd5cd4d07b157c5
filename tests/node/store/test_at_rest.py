"""What a byte search finds in the files of a home: nothing learned, no block id, no vector, no name."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from loremesh.crypto.atrest import HomeKeys
from loremesh.node.store import Checkpoint, Store
from loremesh.node.store.checkpoint import Part
from tests.node.store.doubles import (
    FEED,
    MODEL,
    event_of,
    files_of,
    fill,
    filled_home,
    found_in,
    frame_of,
    home_keys,
    id_of,
    opened_file,
    text_of,
    vectors_of,
)
from tests.node.store.killed import killed_home

ROWS = range(6)


def needles() -> dict[str, bytes]:
    """Everything that went in by `fill`, whole and in pieces, in the forms it could lie about in."""
    texts = {f"text {row}": text_of(row).encode() for row in ROWS}
    pieces = {f"piece {word}": word.encode() for word in ("quinces", "lemon and rose", "Ärger über Öl")}
    wide = {f"wide text {row}": text_of(row).encode("utf-16-le") for row in ROWS}
    ids = {f"id {row}": id_of(row) for row in ROWS}
    hexes = {f"hex id {row}": id_of(row).hex().encode() for row in ROWS}
    heads = {f"half id {row}": id_of(row)[:16] for row in ROWS}
    vectors = {f"vector {row}": vectors_of(ROWS)[row].tobytes()[:16] for row in ROWS}
    events = {
        "event": event_of(0).payload,
        "home event": b"about no block",
        "frame": frame_of(1).payload[:20],
    }
    names = {
        "header": frame_of(1).header,
        "origin": FEED.origin,
        "space": FEED.space,
        "model": MODEL.encode(),
    }
    records = {"record's name": b"space/one", "record": b"second"}
    return texts | pieces | wide | ids | hexes | heads | vectors | events | names | records


async def test_a_byte_search_finds_nothing_while_open_and_after_closing(tmp_path: Path) -> None:
    """Database, write-ahead log, checkpoint, lock: all of them, with the log full of fresh pages."""
    store = await Store.create(tmp_path, home_keys())
    await fill(store)
    ids, words = b"".join(map(id_of, ROWS)), text_of(1).encode()
    parts: dict[str, Part] = {"ids": ids, "vectors": vectors_of(ROWS), "words": words}
    assert await store.write_checkpoint(Checkpoint(store.position, "rules of thumb", parts))
    assert len(files_of(tmp_path)["memory.db-wal"]) > 8192
    assert found_in(tmp_path, needles()) == []
    await store.close()
    assert sorted(files_of(tmp_path)) == ["checkpoint", "lock", "memory.db"]
    assert found_in(tmp_path, needles() | {"rules": b"rules of thumb"}) == []


async def test_a_byte_search_finds_nothing_after_a_kill(tmp_path: Path) -> None:
    """The write-ahead log that a killed process leaves is sealed as the database is."""
    killed_home(tmp_path, "fill")
    assert len(files_of(tmp_path)["memory.db-wal"]) > 8192
    assert found_in(tmp_path, needles()) == []


def test_the_search_would_find_what_it_looks_for(tmp_path: Path) -> None:
    """The needles are what they should be: planted, each is found."""
    for at, needle in enumerate(needles().values()):
        (tmp_path / f"{at}").write_bytes(b"before" + needle + b"after")
    assert {line.rsplit(" in ", 1)[0] for line in found_in(tmp_path, needles())} == set(needles())


def windows_of(home: Path) -> set[bytes]:
    """Every stretch of 16 bytes within a stored blob of a closed home."""
    with opened_file(home) as connection:
        blobs = [
            bytes(value)
            for (table,) in connection.execute(
                "SELECT name FROM sqlite_schema WHERE type = 'table'"
            ).fetchall()
            for row in connection.execute(f"SELECT * FROM {table}")
            for value in row
            if isinstance(value, bytes)
        ]
    return {blob[at : at + 16] for blob in blobs for at in range(max(1, len(blob) - 15))}


async def test_one_text_in_two_homes_shows_no_likeness(tmp_path: Path) -> None:
    """Sealing is random and ids are keyed: two homes with the same in them share no stretch of 16 bytes."""
    windows = []
    for name, root_key in (("one", bytes(32)), ("two", bytes(31) + b"1"), ("three", bytes(32))):
        home = tmp_path / name
        home.mkdir()
        async with await Store.create(home, HomeKeys(root_key)) as store:
            await fill(store)
        windows.append(windows_of(home))
    assert windows[0] & windows[1] == set()
    assert len(windows[0] & windows[2]) == len(ROWS) + 2, "under one key the keyed ids alone are the same"


async def test_only_numbers_and_sizes_show_without_the_keys(tmp_path: Path) -> None:
    """What does show is named in the README: a new table or column has to be thought about there."""
    await filled_home(tmp_path)
    with opened_file(tmp_path) as connection:
        shown = {
            f"{table}.{name}"
            for (table,) in connection.execute(
                "SELECT name FROM sqlite_schema WHERE type = 'table'"
            ).fetchall()
            for _, name, kind, *_ in connection.execute(f"PRAGMA table_info({table})")
            if kind == "INTEGER"
        }
    readme = Path(__file__).parents[3] / "node/loremesh/node/store/README.md"
    (line,) = [line for line in readme.read_text().splitlines() if line.startswith("In clear: ")]
    assert shown == {name.strip(" `.") for name in line.removeprefix("In clear: ").split(",")}


def test_vectors_are_unlike_one_another() -> None:
    """Or the search for one of them would prove little."""
    assert len(np.unique(vectors_of(ROWS))) == vectors_of(ROWS).size
