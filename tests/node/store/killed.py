"""Another process that works on a home until it is killed: `python -m tests.node.store.killed HOME WORK`."""

from __future__ import annotations

import asyncio
import itertools
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

from loremesh.node.store import Cut, ErasureUnfinished, FrameRow, Store
from tests.node.store.doubles import FEED, block_of, event_of, fill, frame_of, home_keys

ROOT = Path(__file__).parents[3]
READY_S = 60


def killed_home(home: Path, work: str, enough: Callable[[str], bool] = lambda line: True) -> list[str]:
    """Run `work` on `home` in another process, SIGKILL it once a line it prints is `enough`; its lines."""
    lines: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-m", "tests.node.store.killed", str(home), work],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            lines.append(line.strip())
            if enough(line.strip()):
                child.kill()
                break
        lines += [rest.strip() for rest in child.stdout if rest.endswith("\n")]
        child.wait(READY_S)
    assert child.returncode == -signal.SIGKILL, f"the other process ended by itself: {lines[-3:]}"
    return lines


async def _fill(store: Store) -> None:
    await fill(store)
    _say("filled")
    await asyncio.Event().wait()


async def _append(store: Store) -> None:
    """Transactions without end: a new block, two events, a frame, a record; says what is committed."""
    for row in itertools.count(store.next_row):
        await store.append(
            [event_of(row), frame_of(row + 1), event_of(row, 1)],
            [block_of(row)],
            records={"cursor": b"%d" % row},
            durable=row % 3 == 0,
        )
        _say(f"{store.position.n} {row}")


async def _forget(store: Store) -> None:
    """Blocks that come and are forgotten, with a frame that is cut; says what is forgotten for good."""
    for row in itertools.count(store.next_row):
        first = await store.append(
            [event_of(row), FrameRow(FEED, row + 1, b"SECRET" + bytes(row % 256 for _ in range(500)))],
            [block_of(row)],
        )
        await store.forget(row, [Cut(first + 1, b"cut")], mark=b"%d" % row)
        _say(f"{row}")


async def _forget_unfinished(store: Store) -> None:
    """Row 2 forgotten, and killed before the write-ahead log is emptied."""

    def never(connection: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with patch("loremesh.node.store.store.empty_wal", never):
        try:
            await store.forget(2)
        except ErasureUnfinished:
            _say("forgotten")
    await asyncio.Event().wait()


WORKS = {"fill": _fill, "append": _append, "forget": _forget, "forget unfinished": _forget_unfinished}


def _say(what: str) -> None:
    sys.stdout.write(what + "\n")
    sys.stdout.flush()


async def _main(home: Path, work: str) -> None:
    exists = (home / "memory.db").exists()
    async with await (Store.open if exists else Store.create)(home, home_keys()) as store:
        await WORKS[work](store)


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1]), sys.argv[2]))
