"""What a store does on a disk that is full or read-only: `python -m tests.node.store.small_disk DISK WORK`.

Run by `test_disk` on a tmpfs of its own; prints "done" when all was as it should be.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from loremesh.node.store import (
    Checkpoint,
    Cut,
    DiskFull,
    ErasureUnfinished,
    FrameRow,
    HomeEvent,
    NewBlock,
    ReadOnlyHome,
    Store,
)
from tests.node.store.doubles import FEED, event_of, fill, filled_home, home_keys, id_of, rows_of, text_of


async def refused(work: Awaitable[object], kind: type[Exception]) -> str:
    """The message of the error that `work` must raise."""
    try:
        await work
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__} was raised")


async def fill_up(store: Store) -> int:
    """Append frames of 20 kB until the disk is full; how many were stored."""
    for number in range(100, 1000):
        before = store.position
        try:
            await store.append([FrameRow(FEED, number, bytes(20_000))])
        except DiskFull:
            assert store.position == before
            return number - 100
    raise AssertionError("the disk never filled")


async def full_while_open(disk: Path) -> None:
    """Appends fail whole and leave no trace; once there is room, they work again."""
    ballast = disk / "ballast"
    store = await Store.create(disk, home_keys())
    await fill(store)
    ballast.write_bytes(bytes(200_000))
    stored = await fill_up(store)
    at = store.position
    block = NewBlock(6, id_of(6), text_of(6) * 300)
    said = await refused(store.append([event_of(6)], [block], records={"cursor": b"x"}), DiskFull)
    assert str(disk) in said
    assert (store.position, store.next_row) == (at, 6)
    assert await store.texts(range(9)) == {row: text_of(row) for row in range(6)}
    assert await store.record("cursor") is None
    assert (await store.verify()).faults == []
    written = Checkpoint(at, "r", {"big": bytes(2_000_000)})
    await refused(store.write_checkpoint(written), DiskFull)
    assert sorted(path.name for path in disk.iterdir()) == ["ballast", "lock", "memory.db", "memory.db-wal"]
    ballast.unlink()
    assert await store.append([event_of(6)], [block], records={"cursor": b"x"}) == at.n + 1
    await store.close()
    async with await Store.open(disk, home_keys()) as store:
        assert len(await rows_of(store)) == 16 + stored + 1
        assert (await store.verify()).faults == []
        assert await store.texts([6]) == {6: block.text}


async def full_while_closed(disk: Path) -> None:
    """A home on a full disk can be opened and read, and grows again when there is room."""
    ballast = disk / "ballast"
    store = await Store.create(disk, home_keys())
    await fill(store)
    ballast.write_bytes(bytes(100_000))
    stored = await fill_up(store)
    _take_the_rest(disk / "more")
    await store.close()
    async with await Store.open(disk, home_keys()) as store:
        assert len(await rows_of(store)) == 16 + stored
        assert await store.texts([5]) == {5: text_of(5)}
        at = store.position
        await refused(store.append([FrameRow(FEED, 1000, bytes(400_000))]), DiskFull)
        assert store.position == at
        ballast.unlink()
        await store.append([HomeEvent(b"room again")])
        assert (await store.verify()).faults == []


async def forget_when_full(disk: Path) -> None:
    """Forgetting on a full disk is done, or not done, or done and not yet out of the log: and says which."""
    store = await Store.create(disk, home_keys())
    await fill(store)
    await fill_up(store)
    try:
        await store.forget(2, [Cut(8, bytes(30_000))])
        outcome = "done"
    except DiskFull:
        outcome = "not done"
    except ErasureUnfinished:
        outcome = "not yet out of the log"
    held = await store.texts([2]) == {2: text_of(2)}
    assert held == (outcome == "not done")
    assert (await store.verify()).faults == []
    await store.close()
    async with await Store.open(disk, home_keys()) as store:
        assert (await store.texts([2]) == {2: text_of(2)}) == held
        assert (await store.verify()).faults == []


async def create_when_full(disk: Path) -> None:
    """Nothing half made is left."""
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(1_000_000))
    await refused(Store.create(disk, home_keys()), DiskFull)
    assert sorted(path.name for path in disk.iterdir()) in (["ballast", "lock"], ["ballast"])
    ballast.unlink()
    await (await Store.create(disk, home_keys())).close()


async def read_only(disk: Path) -> None:
    """A read-only home is refused, with what to do, and untouched."""
    await filled_home(disk / "home")
    (disk / "empty").mkdir()
    _remount(disk, "ro")
    said = await refused(Store.open(disk / "home", home_keys()), ReadOnlyHome)
    assert str(disk / "home") in said
    await refused(Store.create(disk / "empty", home_keys()), ReadOnlyHome)
    _remount(disk, "rw")
    assert list((disk / "empty").iterdir()) == []
    async with await Store.open(disk / "home", home_keys()) as store:
        assert len(await rows_of(store)) == 16


def _take_the_rest(path: Path) -> None:
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(512))


def _remount(disk: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(disk)], check=True)


WORKS: dict[str, Callable[[Path], Awaitable[None]]] = {
    work.__name__: work
    for work in (full_while_open, full_while_closed, forget_when_full, create_when_full, read_only)
}


async def _main(disk: Path, work: str) -> None:
    await WORKS[work](disk)


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1]), sys.argv[2]))
    sys.stdout.write("done\n")
