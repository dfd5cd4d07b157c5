"""Compaction: old outcomes and recalls of a block become one aggregate, and the space comes back.

Two steps, so that each page of the log is written once and a kill at any point costs nothing. First the
aggregates are put in their places, some blocks in one transaction: the fold of the log is the same with what
they stand for and without it. Then what they stand for goes, in the order of the log.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec
import structlog

from loremesh.node.compaction import WORTH_IT, Plan, Row, Rule, plan
from loremesh.node.events import Aggregate, Compacted, HomeEvent, decode_home, decode_own, encode
from loremesh.node.ground import Ground
from loremesh.node.parts import Progress
from loremesh.node.results import Compaction, Summed
from loremesh.node.store.errors import DiskFull, StoreError
from loremesh.node.store.store import EVENTS_MAX, Store
from loremesh.node.store.values import HomeEvent as HomeRow
from loremesh.node.store.values import Replaced

log = structlog.get_logger(__name__)

STEP_ROWS: Final = 1_024
"""Events that are read, or taken away, while others wait: a tenth of a second, most of it two folds of them.
More at a time is no faster."""
KEEP: Final = 100
"""Outcomes and recalls that stay of each block unless said otherwise: enough for worth's recent window (half
of it is the last 69 outcomes) and for attribution to see the block's company."""
LOOK_SHARE: Final = 4
"""Blocks are counted whenever the log has grown by a quarter of what a block may have."""

BY_HAND: Final = "compact"
BY_ITSELF: Final = "limit"

LOST: Final = (
    "events, attribution and doctor fit see only the outcomes and recalls that are kept; "
    "other forgetting models go on from the published S and D"
)


class _Run(msgspec.Struct):
    """One run of compaction on its way."""

    rule: Rule
    keep: int
    older_h: float
    who: str
    dry_run: bool
    begun: bool = False
    blocks: int = 0
    aggregated: int = 0
    freed_bytes: int = 0
    uneven: int = 0
    gone: array[int] = msgspec.field(default_factory=lambda: array("q"))
    left: dict[int, int] = {}
    home: list[tuple[int, HomeEvent]] = []
    home_until: int = 0


async def compact(
    ground: Ground,
    *,
    older_h: float = 0.0,
    keep: int = KEEP,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Compaction:
    """Compact every block: all outcomes and recalls but the last `keep`, older than `older_h` active hours.

    Those of episodes that can still take their outcome stay too. `dry_run` only tells what would go. The
    database is written anew without its holes at the end. Raises StoreError.
    """
    store = ground.store
    before = dict(await store.event_counts())
    size = _size_bytes(store)
    run = _run(ground, keep, older_h, BY_HAND, dry_run)
    may = [row for row, count in before.items() if count >= keep + WORTH_IT]
    await _work(ground, run, may, progress)
    after = before | run.left if dry_run else dict(await store.event_counts())
    note = LOST
    if not dry_run and run.aggregated:
        try:
            await ground.exclusive(store.return_space)
        except DiskFull as error:
            note = f"the file could not be made smaller: {error}; free some space and compact again. {LOST}"
    return Compaction(
        dry_run=dry_run,
        blocks=run.blocks,
        aggregated=run.aggregated,
        rows_before=sum(before.values()),
        rows_after=sum(after.values()),
        most_before=max(before.values(), default=0),
        most_after=max(after.values(), default=0),
        bytes_before=size,
        bytes_after=size - run.freed_bytes if dry_run else _size_bytes(store),
        uneven=run.uneven,
        note=note,
    )


class GrowthLimit:
    """The settings' limit on the events of a block, for one open home.

    Blocks are counted only when the log has grown since the last look. `in_vain`: how many events a block
    must have to be tried again; one of which nothing could go (its episodes wait, say) has to grow first.
    """

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._looked = ground.store.position.n
        self.in_vain: dict[int, int] = {}

    async def keep(self) -> int:
        """Compact the blocks that have more events than they may, to half of that; how many."""
        ground, most = self._ground, self._ground.settings.memory.events_per_block
        stride = max(most // LOOK_SHARE, 1)
        n = ground.store.position.n
        if n // stride == self._looked // stride:
            return 0
        self._looked = n
        crowded = dict(await ground.store.event_counts(most))
        due = [row for row, count in crowded.items() if count >= self.in_vain.get(row, 0)]
        if not due:
            return 0
        run = _run(ground, most // 2, 0.0, BY_ITSELF, False)
        await _work(ground, run, due, None)
        self.in_vain = {row: run.left.get(row, crowded[row]) + stride for row in due}
        log.info("compacted", blocks=run.blocks, events=run.aggregated)
        return run.blocks

    async def keep_quietly(self) -> None:
        """`keep` where nobody asked for it: a failure is told in the log, and costs only space."""
        try:
            await self.keep()
        except StoreError as error:
            log.warning("not_compacted", error=str(error))


async def summed(ground: Ground, row: int) -> Summed | None:
    """What is there of the block in sum only, None where nothing is. Inside `exclusive` only."""
    payload = await ground.store.aggregate(row)
    event = None if payload is None else decode_own(payload)
    if not isinstance(event, Aggregate):
        return None
    return Summed(event.outcomes, event.recalls, event.first_ms, event.wall_ms)


def _run(ground: Ground, keep: int, older_h: float, who: str, dry_run: bool) -> _Run:
    before_h = ground.hour() - older_h if older_h else math.inf
    rule = Rule(keep, before_h, set(ground.memory.own.episodes))
    return _Run(rule, keep, older_h, who, dry_run)


async def _work(ground: Ground, run: _Run, rows: Sequence[int], progress: Progress | None) -> None:
    """Both steps, for these blocks."""
    total, at = 2 * len(rows), 0
    while at < len(rows):
        at = await ground.exclusive(partial(_some_blocks, ground, run, rows, at))
        if progress is not None:
            progress(at, total)
    gone = sorted(run.gone)
    for start in range(0, 0 if run.dry_run else len(gone), STEP_ROWS):
        part = gone[start : start + STEP_ROWS]

        async def take_away(part: Sequence[int] = part) -> None:
            done = await ground.store.compact((), part)
            run.aggregated += done.events
            run.freed_bytes += done.freed_bytes

        await ground.exclusive(take_away)
        if progress is not None:
            progress(len(rows) + len(rows) * (start + len(part)) // len(gone), total)
    if run.dry_run:
        run.aggregated = len(gone)


async def _some_blocks(ground: Ground, run: _Run, rows: Sequence[int], at: int) -> int:
    """Put the aggregates of the next blocks in their places; where to go on. Inside `exclusive` only."""
    blocks: dict[int, list[Row]] = {}
    sizes: dict[int, int] = {}
    read = 0
    while at < len(rows) and read < STEP_ROWS:
        found = await _events(ground.store, rows[at], sizes)
        if found:
            blocks[rows[at]] = found
        read += len(found)
        at += 1
    own = ground.memory.own
    rule = msgspec.structs.replace(run.rule, waiting={*run.rule.waiting, *own.episodes})
    planned = plan(blocks, await _home(ground, run), own, rule)
    run.uneven += len(planned.uneven)
    for row in planned.uneven:
        log.warning("not_compacted", block=ground.memory.block_hex(row), why="the log says something else")
    gone = set(planned.gone)
    for row, events in blocks.items():
        left = sum(one.n not in gone for one in events)
        if left < len(events):
            run.blocks += 1
            run.left[row] = left
    run.gone.extend(planned.gone)
    if run.dry_run:
        run.freed_bytes += _worth_bytes(planned, sizes)
    elif planned.gone or planned.aggregates:
        await _replace(ground, run, planned)
    return at


async def _home(ground: Ground, run: _Run) -> list[tuple[int, HomeEvent]]:
    """Every event about the home so far."""
    for row in await ground.store.home_events(run.home_until):
        if row.payload is not None:
            run.home.append((row.n, decode_home(row.payload)))
    run.home_until = ground.store.position.n
    return run.home


async def _replace(ground: Ground, run: _Run, planned: Plan) -> None:
    """The aggregates of one step, in one transaction; with the first goes the event that tells of the run."""
    own = ground.memory.own
    stamp = ground.stamp()
    first = []
    if not run.begun:
        episodes = len(own.episodes)
        first = [Compacted(stamp.hour, stamp.wall_ms, run.keep, run.older_h, episodes, run.who)]
    replaced = [Replaced(n, encode(made)) for _, n, made in planned.aggregates]
    done = await ground.store.compact(replaced, (), [HomeRow(encode(event)) for event in first])
    run.freed_bytes += done.freed_bytes
    run.begun = True
    for event in first:
        ground.fold_home(event)


def _size_bytes(store: Store) -> int:
    """Bytes of the database and its write-ahead log on disk."""
    files = (store.paths.database, store.paths.write_ahead_log)
    return sum(file.stat().st_size for file in files if file.exists())


async def _events(store: Store, row: int, sizes: dict[int, int]) -> list[Row]:
    """Every event of the block that is left, ascending."""
    found: list[Row] = []
    while True:
        page = await store.events(row, found[-1].n if found else 0)
        for one in page:
            if one.payload is not None:
                found.append(Row(one.n, decode_own(one.payload)))
                sizes[one.n] = len(one.payload)
        if len(page) < EVENTS_MAX:
            return found


def _worth_bytes(planned: Plan, sizes: dict[int, int]) -> int:
    """About what the rows would be smaller by; pages that become free come on top."""
    freed = sum(sizes[n] for n in planned.gone)
    return freed + sum(sizes[n] - len(encode(made)) for _, n, made in planned.aggregates)
