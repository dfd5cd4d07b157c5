"""Opening a sealed home of 100,000 blocks of 384 dimensions, each time in a fresh process.

Timed from `Node.open`, the stretching of the passphrase included, until the node is there; then one recall,
its vector given, so that no model is loaded. Memory is that of the whole process, interpreter and libraries
included: when the node is open, and the most it ever was. With the checkpoint that closing the home left, and
with it deleted, when the log is folded again.
"""

import asyncio
import sys
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Final

import msgspec
import numpy as np

from loremesh.node.home import HomePaths
from loremesh.node.node import Node
from tests.bench.figures import Figure, Report, at_most, resident_mb
from tests.bench.homes import BLOCKS, DIMENSION, PASSPHRASE, QUESTIONS, Given, large_home, parts_with

REPEATS: Final = 3
TARGET_S: Final = 5.0
TARGET_MB: Final = 450.0


class Opening(msgspec.Struct, frozen=True):
    """One opening, as its own process saw it. Memory in MB of 10⁶ bytes."""

    blocks: int
    open_s: float
    cpu_s: float
    recall_s: float
    before_mb: float
    open_mb: float
    recalled_mb: float
    peak_mb: float


async def observe(home: Path) -> Opening:
    """Open the home in this process, recall once, close it."""
    before_mb = resident_mb()
    axis = np.zeros(DIMENSION, dtype=np.float32)
    axis[0] = 1.0
    started, cpu = perf_counter(), process_time()
    async with Node.open(home, passphrase=PASSPHRASE, parts=parts_with(Given(axis))) as node:
        open_s, cpu_s = perf_counter() - started, process_time() - cpu
        open_mb = resident_mb()
        started = perf_counter()
        await node.recall(QUESTIONS[0])
        recall_s = perf_counter() - started
        recalled_mb, blocks = resident_mb(), node.ground.memory.length
    return Opening(blocks, open_s, cpu_s, recall_s, before_mb, open_mb, recalled_mb, resident_mb(peak=True))


async def in_fresh_process(home: Path) -> Opening:
    """`observe` in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.opening", str(home), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"opening failed with exit code {process.returncode}")
    return msgspec.json.decode(output, type=Opening)


async def measure(scratch: Path) -> Report:
    """Both ways of opening, `REPEATS` times each."""
    home = await large_home(scratch)
    fast, slow = [], []
    for _ in range(REPEATS):
        fast.append(await in_fresh_process(home))
    for _ in range(REPEATS):
        HomePaths(home).checkpoint.unlink()
        slow.append(await in_fresh_process(home))

    def middle(of: list[Opening], field: str) -> float:
        return float(median(getattr(one, field) for one in of))

    return Report(
        f"Opening a home of {BLOCKS:,} × {DIMENSION}",
        " ".join((__doc__ or "").split()),
        [
            at_most("with a checkpoint", middle(fast, "open_s"), TARGET_S, "s"),
            Figure("of that, CPU time of all threads", f"{middle(fast, 'cpu_s'):.2f} s"),
            at_most("memory when open", middle(fast, "open_mb"), TARGET_MB, "MB"),
            at_most("memory at its peak", middle(fast, "peak_mb"), TARGET_MB, "MB"),
            Figure("of that, interpreter and libraries", f"{middle(fast, 'before_mb'):.0f} MB"),
            Figure("memory after the first recall", f"{middle(fast, 'recalled_mb'):.0f} MB"),
            Figure("the first recall", f"{middle(fast, 'recall_s') * 1e3:.0f} ms"),
            Figure(
                "without a checkpoint (CPU time)",
                f"{middle(slow, 'open_s'):.2f} ({middle(slow, 'cpu_s'):.2f}) s",
            ),
            Figure(
                "memory without a checkpoint, open (peak)",
                f"{middle(slow, 'open_mb'):.0f} ({middle(slow, 'peak_mb'):.0f}) MB",
            ),
        ],
    )


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(asyncio.run(observe(Path(sys.argv[1])))))
