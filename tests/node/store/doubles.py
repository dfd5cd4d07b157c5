"""What the tests of the store share: keys, ids, homes with something in them, hands on the file itself."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from loremesh.crypto.atrest import HomeKeys
from loremesh.node.store import Feed, FrameRow, HomeEvent, LogRow, NewBlock, OwnEvent, Store, Verified

ROOT_KEY = bytes(range(32))
MODEL = "hashing 1"
DIMENSION = 8
FEED = Feed(b"S" * 32, b"O" * 32, b"I" * 16, 0)


def home_keys() -> HomeKeys:
    """The same keys at every call."""
    return HomeKeys(ROOT_KEY)


def text_of(row: int) -> str:
    """A text that is like no other, long enough to be searched for."""
    return f"Ripe quinces number {row:05d} taste of lemon and rose: Ärger über Öl {row * row}"


def id_of(row: int) -> bytes:
    """The id that a text's block has."""
    return hashlib.sha256(text_of(row).encode()).digest()


def block_of(row: int) -> NewBlock:
    """The block of `text_of(row)`."""
    return NewBlock(row, id_of(row), text_of(row))


def event_of(row: int, number: int = 0) -> OwnEvent:
    """An event about the block in `row`, with a payload to be searched for."""
    return OwnEvent(row, f"event {number} of row {row}, weighty evidence".encode())


def frame_of(number: int, feed: Feed = FEED) -> FrameRow:
    """A frame with a body to be searched for."""
    return FrameRow(
        feed, number, f"body of frame {number} ".encode() * 20, f"header of frame {number}".encode()
    )


def vectors_of(rows: range) -> npt.NDArray[np.float32]:
    """One vector for each row, like no other."""
    return np.random.default_rng(7).standard_normal((rows.stop, DIMENSION)).astype(np.float32)[rows.start :]


async def fill(store: Store, blocks: int = 6, frames: int = 3) -> None:
    """Blocks with two events and a vector each, a home event, frames, records."""
    rows = range(blocks)
    await store.append([event_of(row) for row in rows], [block_of(row) for row in rows])
    await store.append([HomeEvent(b"an event about no block at all")], durable=False)
    await store.append([frame_of(number) for number in range(1, frames + 1)])
    await store.append([event_of(row, 1) for row in rows], records={"space/one": b"first", "note": b"second"})
    await store.set_embeddings(rows, vectors_of(rows), MODEL)


async def filled_home(home: Path) -> Path:
    """A closed home with what `fill` puts into it: log rows 1–6 own, 7 home, 8–10 frames, 11–16 own."""
    home.mkdir(exist_ok=True)
    async with await Store.create(home, home_keys()) as store:
        await fill(store)
    return home


async def rows_of(store: Store, after: int = 0, *, salvage: bool = False) -> list[LogRow]:
    """All rows of the log."""
    return [row async for rows in store.scan(after, salvage=salvage) for row in rows]


async def verified(home: Path) -> Verified:
    """What `verify` says about a closed home, however damaged."""
    async with await Store.open(home, home_keys(), salvage=True) as store:
        return await store.verify()


def files_of(home: Path) -> dict[str, bytes]:
    """Every file under a home, as it is on disk now."""
    return {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}


def found_in(home: Path, needles: dict[str, bytes]) -> list[str]:
    """Which of the needles are in which file of the home."""
    return [
        f"{name} in {file}"
        for file, body in files_of(home).items()
        for name, needle in needles.items()
        if needle in body
    ]


@contextmanager
def opened_file(home: Path) -> Iterator[sqlite3.Connection]:
    """The database of a closed home as somebody without its keys sees it."""
    connection = sqlite3.connect(home / "memory.db", isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


def tamper(home: Path, *statements: str) -> None:
    """Change a closed home behind its back."""
    with opened_file(home) as connection:
        for statement in statements:
            connection.execute(statement)


def wrapped_keys(home: Path) -> dict[int, bytes]:
    """The wrapped keys of a closed home, by slot."""
    with opened_file(home) as connection:
        return dict(connection.execute("SELECT slot, wrapped FROM erasable"))
