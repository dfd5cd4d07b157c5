"""Folding a log of 1,000,000 events again, of a home of 100,000 blocks that was lived in (`lived.py`).

Opening: a fresh process opens the home without a checkpoint, stretching of the passphrase, indexes and
vectors included. `replay --check`: in that same process, every row and every block is read and verified, the
log is folded a second time beside the state in use, and the two are compared; then the fold alone, by which
`replay --rules` ranks under other rules. Memory is that of the whole process, interpreter and libraries
included, at its peak.
"""

import asyncio
import sys
from pathlib import Path
from time import perf_counter, process_time
from typing import Final

import msgspec
import numpy as np

from loremesh.node.home import HomePaths
from loremesh.node.node import Node
from loremesh.node.replaying import rebuild
from tests.bench.figures import Figure, Report, at_most, resident_mb
from tests.bench.homes import DIMENSION, PASSPHRASE, Given, parts_with
from tests.bench.lived import EVENTS, lived_in_home

TARGET_S: Final = 60.0
TARGET_MB: Final = 1_000.0


class Span(msgspec.Struct, frozen=True):
    """How long something took, by the clock and in CPU time of all threads, and the memory at its end."""

    wall_s: float
    cpu_s: float
    now_mb: float
    peak_mb: float


class Refolded(msgspec.Struct, frozen=True):
    """One home opened without a checkpoint, checked, and folded once more."""

    rows: int
    opened: Span
    checked: Span
    folded: Span


async def observe(home: Path) -> Refolded:
    """Do all three in this process. The fold must be clean."""
    HomePaths(home).checkpoint.unlink(missing_ok=True)
    axis = np.zeros(DIMENSION, dtype=np.float32)
    axis[0] = 1.0
    begun = perf_counter(), process_time()

    def span() -> Span:
        nonlocal begun
        before, begun = begun, (perf_counter(), process_time())
        return Span(begun[0] - before[0], begun[1] - before[1], resident_mb(), resident_mb(peak=True))

    async with Node.open(home, passphrase=PASSPHRASE, parts=parts_with(Given(axis))) as node:
        opened = span()
        replayed = await node.replay(check=True)
        checked = span()
        assert replayed.ok, replayed.faults
        memory = node.ground.memory
        await rebuild(node.ground.store, memory.sync.own, memory.own.rules)
        return Refolded(replayed.rows, opened, checked, span())


async def in_fresh_process(home: Path) -> Refolded:
    """`observe` in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.refolding", str(home), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"replaying failed with exit code {process.returncode}")
    return msgspec.json.decode(output, type=Refolded)


async def measure(scratch: Path) -> Report:
    """One home, once: a minute and a half, most of it spent in making the home."""
    found = await in_fresh_process(await lived_in_home(scratch, EVENTS))

    def cpu(of: Span) -> str:
        return f"{of.cpu_s:.1f} s ({of.cpu_s / found.rows * 1e6:.1f} µs an event)"

    return Report(
        "Replay of 1,000,000 events",
        " ".join((__doc__ or "").split()),
        [
            Figure("rows of the log", f"{found.rows:,}"),
            at_most("`replay --check`", found.checked.wall_s, TARGET_S, "s"),
            Figure("of that, CPU time", cpu(found.checked)),
            at_most("its memory at its peak", found.checked.peak_mb, TARGET_MB, "MB"),
            at_most("opening without a checkpoint", found.opened.wall_s, TARGET_S, "s"),
            Figure("of that, CPU time", cpu(found.opened)),
            at_most("its memory at its peak", found.opened.peak_mb, TARGET_MB, "MB"),
            Figure("the fold alone", f"{found.folded.wall_s:.1f} s"),
            Figure("of that, CPU time", cpu(found.folded)),
        ],
    )


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(asyncio.run(observe(Path(sys.argv[1])))))
