"""Single durable writes to an open node at 100,000 blocks, each synced to disk before it returns.

One outcome is of an episode of five blocks, or of one block by id; one learn is of a new text without its
embedding; the recall after it finds the new text, so it brings index and columns up to date. Beside them what
the disk itself takes to make 8 KiB appended to a file durable.
"""

import os
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

import numpy as np

from loremesh.node.node import Node
from tests.bench.figures import Figure, Report, at_most, percentile
from tests.bench.homes import PASSPHRASE, QUESTIONS, Given, large_home, parts_with, unit_vectors

ROUNDS: Final = 100
WARM_UP: Final = 5
TARGET_MS: Final = 2.0
SYNCED_BYTES: Final = 8192


def sync_times(scratch: Path) -> list[float]:
    """Seconds of one append of SYNCED_BYTES with fdatasync, on the disk of the scratch directory."""
    taken = []
    with (scratch / "synced").open("wb", buffering=0) as file:
        for _ in range(WARM_UP + ROUNDS):
            started = perf_counter()
            file.write(bytes(SYNCED_BYTES))
            os.fdatasync(file.fileno())
            taken.append(perf_counter() - started)
    return taken[WARM_UP:]


async def measure(scratch: Path) -> Report:
    """Medians of outcome, learn and the recall after it."""
    random = np.random.default_rng(17)
    given = Given(unit_vectors(1, random)[0])
    home = await large_home(scratch)
    took: dict[str, list[float]] = {name: [] for name in ("episode", "block", "learn", "recall", "again")}
    async with Node.open(home, passphrase=PASSPHRASE, parts=parts_with(given)) as node:
        for number in range(WARM_UP + ROUNDS):
            text = f"fact {number} of bench {random.bytes(6).hex()}, which nobody knew before it was measured"
            times = [perf_counter()]
            learned = await node.learn(text)
            times.append(perf_counter())
            after = await node.recall(text)
            times.append(perf_counter())
            assert any(hit.block == learned.block for hit in after.hits)
            found = await node.recall(QUESTIONS[number % len(QUESTIONS)])
            times.append(perf_counter())
            await node.outcome(float(random.random()), episode=found.episode)
            times.append(perf_counter())
            await node.outcome(float(random.random()), blocks=[found.hits[0].block])
            times.append(perf_counter())
            if number >= WARM_UP:
                spans = np.diff(np.array(times)).tolist()
                for name, span in zip(("learn", "recall", "again", "episode", "block"), spans, strict=True):
                    took[name].append(span)
    disk = sync_times(scratch)

    def both(values: list[float]) -> str:
        return f"{median(values) * 1e3:.2f} ({percentile(values, 0.95) * 1e3:.2f}) ms"

    return Report(
        "One durable write",
        " ".join((__doc__ or "").split()),
        [
            at_most("outcome of an episode of five, p50", median(took["episode"]) * 1e3, TARGET_MS, "ms"),
            at_most("outcome of one block, p50", median(took["block"]) * 1e3, TARGET_MS, "ms"),
            at_most("learn without embedding, p50", median(took["learn"]) * 1e3, TARGET_MS, "ms"),
            Figure("recall right after a learn, p50 (p95)", both(took["recall"])),
            Figure("the recall after that, p50 (p95)", both(took["again"])),
            Figure("the disk's own append and sync of 8 KiB, p50 (p95)", both(disk)),
        ],
    )
