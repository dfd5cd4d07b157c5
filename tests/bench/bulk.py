"""Learning 100,000 new texts at once, without embedding: `Node.learn_many`, and `learn --lines`.

Every text has 25 words and gets a block key of its own; each batch of 512 is one transaction, synced to
disk. Three fresh homes, each in a process of its own. The recall behind it finds the text learned last, so
it brings index and columns up to date. The command works on a home that nothing else has open; its time is
all of it, from its start to its answer: the interpreter, the key, the file, closing with a checkpoint.
"""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Final

import msgspec
import numpy as np

from loremesh.node.node import Node
from tests.bench.figures import Figure, Report, at_least, resident_mb
from tests.bench.homes import BLOCKS, PASSPHRASE, Given, parts_with, unit_vectors
from tests.bench.passages import passages
from tests.node.doors.program import PROGRAM
from tests.node.homes import private_environ

REPEATS: Final = 3
TARGET_PER_S: Final = 10_000.0


class Bulk(msgspec.Struct, frozen=True):
    """One run, as its own process saw it. `recalls_s`: the first recall, which finds it all, and the next."""

    learned_s: float
    cpu_s: float
    recalls_s: tuple[float, float]
    before_mb: float
    after_mb: float


async def observe(home: Path, count: int) -> Bulk:
    """Learn `count` texts into a new home in this process."""
    texts = passages(count)
    parts = parts_with(Given(unit_vectors(1, np.random.default_rng(3))[0]))
    async with Node.create(home, passphrase=PASSPHRASE, parts=parts) as node:
        before_mb = resident_mb()
        started, cpu = perf_counter(), process_time()
        await node.learn_many(texts)
        learned_s, cpu_s = perf_counter() - started, process_time() - cpu
        took = []
        for _ in range(2):
            started = perf_counter()
            found = await node.recall(texts[-1])
            took.append(perf_counter() - started)
            assert any(hit.text == texts[-1] for hit in found.hits)
        return Bulk(learned_s, cpu_s, (took[0], took[1]), before_mb, resident_mb())


async def in_fresh_process(home: Path, count: int) -> Bulk:
    """`observe` in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.bulk", str(home), str(count), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"learning in bulk failed with exit code {process.returncode}")
    return msgspec.json.decode(output, type=Bulk)


class Lines(msgspec.Struct, frozen=True):
    """What `learn --lines` took on a home that nothing else has open, and what its processor did."""

    wall_s: float
    cpu_s: float


def by_command(scratch: Path, count: int) -> Lines:
    """Run the program on a file of that many lines."""
    file, home = scratch / "lines.txt", scratch / f"commanded-{count}"
    file.write_text("\n".join(passages(count)), encoding="utf-8")
    run = [PROGRAM, "--home", str(home), "--json"]
    environ = private_environ(scratch)
    subprocess.run([*run, "init"], env=environ, check=True, stdout=subprocess.DEVNULL)
    before = os.times()
    started = perf_counter()
    learn = [*run, "learn", "--lines", str(file)]
    subprocess.run(learn, env=environ, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = os.times()
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return Lines(perf_counter() - started, cpu_s)


async def measure(scratch: Path) -> Report:
    """Medians of three homes, and the command once."""
    runs = [await in_fresh_process(scratch / f"bulk-{at}", BLOCKS) for at in range(REPEATS)]
    lines = by_command(scratch, BLOCKS)

    def middle(of: list[float]) -> float:
        return float(median(of))

    wall_s = middle([run.learned_s for run in runs])
    first, then = (middle([run.recalls_s[at] for run in runs]) for at in (0, 1))
    cpu_s = middle([run.cpu_s for run in runs])
    return Report(
        f"Learning {BLOCKS:,} texts at once",
        " ".join((__doc__ or "").split()),
        [
            at_least("learned per second", BLOCKS / wall_s, TARGET_PER_S, ""),
            Figure("the same per second of CPU time, all threads", f"{BLOCKS / cpu_s:.0f}"),
            Figure("the recall behind it, and the one after that", f"{first * 1e3:.0f}, {then * 1e3:.0f} ms"),
            Figure(
                "memory that a block takes, indexed and not embedded",
                f"{middle([run.after_mb - run.before_mb for run in runs]) * 1e6 / BLOCKS:.0f} bytes",
            ),
            Figure("`learn --lines`, all of it (CPU time)", f"{lines.wall_s:.1f} ({lines.cpu_s:.1f}) s"),
            Figure("`learn --lines`, per second of CPU time", f"{BLOCKS / lines.cpu_s:.0f}"),
        ],
    )


if __name__ == "__main__":
    observed = asyncio.run(observe(Path(sys.argv[1]), int(sys.argv[2])))
    sys.stdout.buffer.write(msgspec.json.encode(observed))
