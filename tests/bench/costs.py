"""What things cost in a home of 1,000, 10,000 and 100,000 blocks, and how that grows.

Homes that were lived in (`lived.py`): ten events a block; embedded, rated, partly shared and linked; real
text, vectors of 384 dimensions. Every size in a fresh process. One learn, one outcome (of an episode of five)
and one recall (k = 10, every term of the score, the query's vector given) are medians of single calls of an
open home; writes are synced. In bulk: per block, 2,000 texts learned into the home as it stands. Consolidate:
per block, those 2,000, with an embedder and a rater that take no time: what the home itself does. Replay: the
whole log folded again, per event. Growth is the factor for ten times the blocks, from 1,000 to 10,000 and
from there to 100,000: 1 for what does not depend on the size, 10 for what grows with it.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.node.home import HomePaths
from loremesh.node.node import Node
from loremesh.node.parts import Parts
from loremesh.node.replaying import rebuild
from tests.bench.figures import Figure, Report, at_most, resident_mb
from tests.bench.homes import MODEL, PASSPHRASE, QUESTIONS, Given, parts_with, unit_vectors
from tests.bench.lived import EVENTS_PER_BLOCK, lived_in_home
from tests.node.homes import LevelRater

SIZES: Final = (1_000, 10_000, 100_000)
ROUNDS: Final = 60
WARM_UP: Final = 5
BULK: Final = 2_000
TARGET_WRITE_MS: Final = 2.0
TARGET_RECALL_MS: Final = 60.0


class Costs(msgspec.Struct, frozen=True):
    """What one home took; seconds, MB of 10⁶ bytes, bytes."""

    events: int
    learn_s: float
    learn_bulk_s: float
    recall_s: float
    outcome_s: float
    consolidate_s: float
    open_s: float
    open_without_s: float
    replay_s: float
    open_mb: float
    disk_bytes: int


class Free(Given):
    """An embedder that costs next to nothing: random unit vectors made beforehand, handed out in turn."""

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        super().__init__(vectors[0])
        self._vectors, self._next = vectors, 0

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
        if query:
            return self.vector[None]
        at = np.arange(self._next, self._next + len(texts)) % len(self._vectors)
        self._next += len(texts)
        given: NDArray[np.float32] = self._vectors[at]
        return given


def parts() -> Parts:
    """The real outside world, but for what rates and embeds."""
    given = Free(unit_vectors(BULK, np.random.default_rng(29)))
    assert given.fingerprint == MODEL
    return msgspec.structs.replace(parts_with(given), rater=LevelRater())


async def observe(home: Path, bare_mb: float) -> Costs:
    """Everything, in this process; the home is not as it was afterwards."""
    paths, random = HomePaths(home), np.random.default_rng(31)
    disk = sum(file.stat().st_size for file in home.rglob("*") if file.is_file())

    started = perf_counter()
    async with Node.open(home, passphrase=PASSPHRASE, parts=parts()) as node:
        open_s, open_mb = perf_counter() - started, resident_mb() - bare_mb
        memory = node.ground.memory
        events = node.ground.store.position.n
        started = perf_counter()
        await rebuild(node.ground.store, memory.sync.own, memory.own.rules)
        replay_s = perf_counter() - started
        learns: list[float] = []
        recalls: list[float] = []
        outcomes: list[float] = []
        for number in range(WARM_UP + ROUNDS):
            found = await node.recall(QUESTIONS[number % len(QUESTIONS)], k=5)
            times = [perf_counter()]
            await node.recall(QUESTIONS[number % len(QUESTIONS)], frame="task", context="deploy", k=10)
            times.append(perf_counter())
            await node.outcome(float(random.random()), episode=found.episode)
            times.append(perf_counter())
            await node.learn(f"what nobody knew before number {number} of {random.integers(1 << 60)}")
            times.append(perf_counter())
            if number >= WARM_UP:
                for taken, to in zip(np.diff(times).tolist(), (recalls, outcomes, learns), strict=True):
                    to.append(taken)
        texts = [
            f"{random.integers(1 << 60)} {question}, {at}"
            for at in range(BULK // 6)
            for question in QUESTIONS
        ]
        await node.consolidate()
        started = perf_counter()
        await node.learn_many(texts)
        learn_bulk_s = (perf_counter() - started) / len(texts)
        started = perf_counter()
        done = await node.consolidate()
        consolidate_s = (perf_counter() - started) / done.rated
    paths.checkpoint.unlink()
    started = perf_counter()
    async with Node.open(home, passphrase=PASSPHRASE, parts=parts()):
        open_without_s = perf_counter() - started
    return Costs(
        events=events,
        learn_s=median(learns),
        learn_bulk_s=learn_bulk_s,
        recall_s=median(recalls),
        outcome_s=median(outcomes),
        consolidate_s=consolidate_s,
        open_s=open_s,
        open_without_s=open_without_s,
        replay_s=replay_s,
        open_mb=open_mb,
        disk_bytes=disk,
    )


async def in_fresh_process(home: Path) -> Costs:
    """`observe` in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.costs", str(home), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"measuring costs failed with exit code {process.returncode}")
    return msgspec.json.decode(output, type=Costs)


async def measure(scratch: Path) -> Report:
    """All sizes, small ones first."""
    found = [await in_fresh_process(await lived_in_home(scratch, EVENTS_PER_BLOCK * size)) for size in SIZES]

    def line(what: str, of: Callable[[Costs, int], float], unit: str, digits: int = 2) -> Figure:
        values = [of(one, size) for one, size in zip(found, SIZES, strict=True)]
        growth = ", ".join(f"{b / a:.1f}" for a, b in pairwise(values))
        shown = "   ".join(f"{value:,.{digits}f}" for value in values)
        return Figure(f"{what}, {unit}", f"{shown}   (× {growth})")

    largest = found[-1]
    return Report(
        f"Costs at {', '.join(f'{size:,}' for size in SIZES)} blocks",
        " ".join((__doc__ or "").split()),
        [
            line("events in the log", lambda c, _: c.events, "in all", 0),
            line("learn one", lambda c, _: c.learn_s * 1e3, "ms"),
            line("learn in bulk", lambda c, _: c.learn_bulk_s * 1e6, "µs a block", 0),
            line("recall", lambda c, _: c.recall_s * 1e3, "ms"),
            line("outcome of five blocks", lambda c, _: c.outcome_s * 1e3, "ms"),
            line("consolidate", lambda c, _: c.consolidate_s * 1e6, "µs a block", 0),
            line("open, with a checkpoint", lambda c, _: c.open_s, "s"),
            line("open, without one", lambda c, _: c.open_without_s, "s"),
            line("replay", lambda c, _: c.replay_s / c.events * 1e6, "µs an event", 1),
            line("memory when open, beyond the interpreter's", lambda c, _: c.open_mb, "MB", 0),
            line("on disk", lambda c, size: c.disk_bytes / size, "bytes a block", 0),
            at_most(f"learn one at {SIZES[-1]:,}", largest.learn_s * 1e3, TARGET_WRITE_MS, "ms"),
            at_most(f"outcome at {SIZES[-1]:,}", largest.outcome_s * 1e3, TARGET_WRITE_MS, "ms"),
            at_most(f"recall at {SIZES[-1]:,}", largest.recall_s * 1e3, TARGET_RECALL_MS, "ms"),
        ],
    )


if __name__ == "__main__":
    costs = asyncio.run(observe(Path(sys.argv[1]), resident_mb()))
    sys.stdout.buffer.write(msgspec.json.encode(costs))
