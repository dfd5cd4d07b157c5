"""Compaction of a home of a million events over ten thousand blocks, all but the newest 20 of each.

Each block is learned and then has outcomes, by turns with those of all others, as use brings them: every page
of the log holds rows of many blocks. Aggregates are made and checked, what they stand for is taken away, and
the file is written anew. Sizes are those of the database and its write-ahead log on disk; times are CPU
seconds of the whole process.
"""

from pathlib import Path
from time import process_time
from typing import Final

from loremesh.node.events import Outcome, encode
from loremesh.node.fold import apply
from loremesh.node.node import Node
from loremesh.node.replaying import rebuild
from loremesh.node.snapshot import differences
from loremesh.node.store.values import OwnEvent
from loremesh.sync.fixed import ONE
from tests.bench.figures import Figure, Report, at_most
from tests.bench.homes import PASSPHRASE
from tests.bench.passages import passages

BLOCKS: Final = 10_000
EVENTS: Final = 1_000_000
KEEP: Final = 20
BATCH: Final = 50_000
CONTEXTS: Final = ("", "deploy", "review")
MEBIBYTE: Final = 1 << 20
TARGET_SHARE: Final = 0.6
TARGET_S: Final = 180.0


async def used(node: Node, blocks: int, events: int) -> None:
    """Outcomes of all blocks by turns, a minute of use between two rounds."""
    ground = node.ground
    own = ground.memory.own
    hour, wall_ms, version = ground.clock.hour, ground.clock.wall_ms, own.firsthand.version
    made: list[tuple[int, Outcome]] = []
    for number in range(events):
        row = number % blocks
        if not row:
            hour, wall_ms = hour + 1 / 60, wall_ms + 60_000
        version += 1
        good = (number * 7919) % 10 < 6
        alpha, beta = (ONE, 0) if good else (0, ONE)
        context = CONTEXTS[number % 3]
        made.append((row, Outcome(hour, wall_ms, float(good), ONE, ONE, alpha, beta, version, context)))
        if len(made) == BATCH or number == events - 1:
            await ground.store.append([OwnEvent(at, encode(event)) for at, event in made], durable=False)
            for at, event in made:
                apply(own, at, event)
            made = []


async def measure(scratch: Path, blocks: int = BLOCKS, events: int = EVENTS) -> Report:
    """Sizes before and after, and what each part takes."""
    async with Node.create(scratch / "compacting", passphrase=PASSPHRASE) as node:
        await node.learn_many(passages(blocks))
        await used(node, blocks, events - blocks)
        store, rules = node.ground.store, node.ground.memory.own.rules
        started = process_time()
        await rebuild(store, node.ground.identity.public, rules)
        replay_s = process_time() - started
        started = process_time()
        done = await node.compact(keep=KEEP)
        compact_s = process_time() - started
        started = process_time()
        fold = await rebuild(store, node.ground.identity.public, rules)
        again_s = process_time() - started
        assert differences(node.ground.memory.own, fold.own) == []
        assert (await store.verify()).faults == []
    share = done.bytes_after / done.bytes_before
    return Report(
        "Compaction",
        " ".join((__doc__ or "").split()),
        [
            at_most("file after, of before", share, TARGET_SHARE, ""),
            at_most("compacting, CPU", compact_s, TARGET_S, "s"),
            Figure("file before", f"{done.bytes_before / MEBIBYTE:.0f} MiB"),
            Figure("file after", f"{done.bytes_after / MEBIBYTE:.0f} MiB"),
            Figure("events about blocks before", f"{done.rows_before:,}"),
            Figure("events about blocks after", f"{done.rows_after:,}"),
            Figure("most of one block, before and after", f"{done.most_before}, {done.most_after}"),
            Figure("replay before, CPU", f"{replay_s:.0f} s"),
            Figure("replay after, CPU", f"{again_s:.0f} s"),
        ],
    )
