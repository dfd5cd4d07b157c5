"""A process killed in the middle of its work: what it committed is there, what it had not is gone whole."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

from loremesh.node.store import Kind, State, Store
from tests.node.store.doubles import event_of, files_of, filled_home, frame_of, home_keys, rows_of, text_of
from tests.node.store.killed import ROOT, killed_home

ROUNDS = 3
COMMITS = 40


async def test_a_kill_in_the_middle_of_appends_loses_nothing_that_was_committed(tmp_path: Path) -> None:
    """Three processes in turn go on where the last was killed; every transaction is whole, the head fits."""
    for round_number in range(1, ROUNDS + 1):
        lines = killed_home(tmp_path, "append", partial(_committed, round_number * COMMITS))
        said_n, said_row = map(int, lines[-1].split())
        async with await Store.open(tmp_path, home_keys()) as store:
            assert store.position.n >= said_n
            assert store.position.n % 3 == 0, "a transaction has three rows"
            rows = await rows_of(store)
            blocks = store.next_row
            assert len(rows) == store.position.n == 3 * blocks
            assert blocks > said_row
            for row in range(blocks):
                first, frame, second = rows[3 * row : 3 * row + 3]
                assert (first.payload, second.payload) == (event_of(row).payload, event_of(row, 1).payload)
                assert (frame.kind, frame.number, frame.payload) == (
                    Kind.FRAME,
                    row + 1,
                    frame_of(row + 1).payload,
                )
            assert await store.texts(range(blocks)) == {row: text_of(row) for row in range(blocks)}
            assert await store.record("cursor") == b"%d" % (blocks - 1)
            assert (await store.verify()).faults == []


async def test_a_kill_in_the_middle_of_forgetting_leaves_no_half_forgotten_block(tmp_path: Path) -> None:
    """Opening empties the write-ahead log that was left: what was said to be forgotten is in no file."""
    lines = killed_home(tmp_path, "forget", lambda line: int(line) >= 20)
    async with await Store.open(tmp_path, home_keys()) as store:
        assert files_of(tmp_path).get("memory.db-wal", b"") == b""
        rows = await rows_of(store)
        held = {row for row in range(store.next_row) if await store.texts([row])}
        assert all(int(line) not in held for line in lines)
        assert len(held) <= 1, "only the block at which it was killed can still be there"
        for row in rows[::2]:
            assert (row.state is State.FORGOTTEN) == (row.row not in held)
        for row in rows[1::2]:
            assert row.payload == b"cut" or row.n == rows[-1].n
        assert (await store.verify()).faults == []


async def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    """The operating system drops it; the file that names the dead process stops nobody."""
    killed_home(tmp_path, "fill")
    async with await Store.open(tmp_path, home_keys()) as store:
        assert store.position.n == 16


async def test_a_process_that_fails_without_closing_ends_and_loses_nothing(tmp_path: Path) -> None:
    """It does not hang on the database's thread, and the next one finds all that was committed."""
    home = await filled_home(tmp_path / "home")
    script = (
        "import asyncio, sys; from pathlib import Path\n"
        "from loremesh.node.store import HomeEvent, Store\n"
        "from tests.node.store.doubles import home_keys\n"
        "async def main():\n"
        "    store = await Store.open(Path(sys.argv[1]), home_keys())\n"
        "    await store.append([HomeEvent(b'committed')])\n"
        "    raise SystemExit(7)\n"
        "asyncio.run(main())\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(home)], cwd=ROOT, check=False, timeout=60)
    assert ended.returncode == 7
    async with await Store.open(home, home_keys()) as store:
        assert (await rows_of(store))[-1].payload == b"committed"


def _committed(row: int, line: str) -> bool:
    """Whether a line says that the transaction of `row`, or a later one, is committed."""
    return int(line.split()[1]) >= row
