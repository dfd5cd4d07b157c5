"""Single durable writes to an open node at 100,000 blocks, each synced to disk before it returns.

One outcome is of an episode of five blocks, or of one block by id; one learn is of a new text without its
embedding; the recall after it finds the new text, so it brings index and columns up to date. In brackets the
95th percentile, and the CPU time of the whole process. Beside them what the disk itself takes to make 8 KiB
durable.
"""

import os
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import BinaryIO, Final

import msgspec
import numpy as np

from loremesh.node.node import Node
from tests.bench.figures import Figure, Report, at_most, percentile
from tests.bench.homes import PASSPHRASE, QUESTIONS, Given, large_home, parts_with, unit_vectors

ROUNDS: Final = 100
WARM_UP: Final = 5
TARGET_MS: Final = 2.0
SYNCED_BYTES: Final = 8192


def synced(file: BinaryIO) -> float:
    """Seconds to write SYNCED_BYTES where the file stands and to sync them."""
    started = perf_counter()
    file.write(bytes(SYNCED_BYTES))
    os.fdatasync(file.fileno())
    return perf_counter() - started


def laid_out(file: BinaryIO) -> BinaryIO:
    """The file at its beginning, with bytes to write over: so does a write-ahead log that is used again, and
    it spares the file system its own journal."""
    file.write(bytes(SYNCED_BYTES * (WARM_UP + ROUNDS)))
    os.fsync(file.fileno())
    file.seek(0)
    return file


class Taken(msgspec.Struct):
    """Wall and CPU seconds of every round."""

    wall_s: list[float] = []
    cpu_s: list[float] = []

    def figure(self, what: str) -> Figure:
        """The median against its target, with the rest beside it."""
        figure = at_most(f"{what}, p50", median(self.wall_s) * 1e3, TARGET_MS, "ms")
        return msgspec.structs.replace(figure, value=str(self))

    def __str__(self) -> str:
        slow = percentile(self.wall_s, 0.95)
        cpu = f", CPU {median(self.cpu_s) * 1e3:.2f}" if self.cpu_s else ""
        return f"{median(self.wall_s) * 1e3:.2f} (p95 {slow * 1e3:.2f}{cpu}) ms"


async def measure(scratch: Path) -> Report:
    """Medians of outcome, learn and the recall after it."""
    random = np.random.default_rng(17)
    given = Given(unit_vectors(1, random)[0])
    home = await large_home(scratch)
    steps = ("learn", "recall", "again", "episode", "block")
    took = {step: Taken() for step in steps}
    over, behind = Taken(), Taken()
    opened = Node.open(home, passphrase=PASSPHRASE, parts=parts_with(given))
    async with opened as node, AsyncExitStack() as stack:
        grows = stack.enter_context((scratch / "grows").open("wb", buffering=0))
        stays = laid_out(stack.enter_context((scratch / "stays").open("wb", buffering=0)))
        for number in range(WARM_UP + ROUNDS):
            text = f"what the log held at row {node.ground.store.position.n}, which nobody knew before"
            times = [(perf_counter(), process_time())]
            learned = await node.learn(text)
            times.append((perf_counter(), process_time()))
            after = await node.recall(text)
            times.append((perf_counter(), process_time()))
            assert learned.created
            assert any(hit.block == learned.block for hit in after.hits)
            found = await node.recall(QUESTIONS[number % len(QUESTIONS)])
            times.append((perf_counter(), process_time()))
            await node.outcome(float(random.random()), episode=found.episode)
            times.append((perf_counter(), process_time()))
            await node.outcome(float(random.random()), blocks=[found.hits[0].block])
            times.append((perf_counter(), process_time()))
            over.wall_s.append(synced(stays))
            behind.wall_s.append(synced(grows))
            if number >= WARM_UP:
                for step, (wall_s, cpu_s) in zip(steps, np.diff(np.array(times), axis=0), strict=True):
                    took[step].wall_s.append(float(wall_s))
                    took[step].cpu_s.append(float(cpu_s))
    return Report(
        "One durable write",
        " ".join((__doc__ or "").split()),
        [
            took["episode"].figure("outcome of an episode of five"),
            took["block"].figure("outcome of one block"),
            took["learn"].figure("learn without embedding"),
            Figure("recall right after a learn, p50", str(took["recall"])),
            Figure("the recall after that, p50", str(took["again"])),
            Figure("the disk itself: 8 KiB written over and synced, p50", str(over)),
            Figure("the disk itself: 8 KiB appended and synced, p50", str(behind)),
        ],
    )
