"""Summaries made and kept up to date: blocks that belong together are found and said in fewer words.

Incremental and resumable: only blocks not looked at before are placed, only groups that changed are made
again, some in one transaction. What a run that was killed had written stays, and the next one goes on.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.node import evidence
from loremesh.node.clock import ActiveClock
from loremesh.node.errors import Refused, Unavailable
from loremesh.node.events import Event
from loremesh.node.extract import tokens
from loremesh.node.gathering import ALONE, Bounds, Groups
from loremesh.node.ground import Ground
from loremesh.node.memory import Memory
from loremesh.node.opening import encode_fingerprint
from loremesh.node.parts import Progress
from loremesh.node.rating import spending
from loremesh.node.store.values import NewBlock
from loremesh.node.tier_results import Summarised
from loremesh.node.tiers import Level
from loremesh.sync.content import normalise
from loremesh.sync.trust import NOBODY

EXAMINED_RECORD: Final = "tiers/examined"
"""Names the record of which blocks were looked at and left alone."""

SLICE_ROWS: Final = 16
"""Blocks placed before others get their turn: some 50 ms at 100,000 blocks of 384 dimensions."""

SAVE_ROWS: Final = 4_096
"""Blocks placed before it is noted which were left alone: what a killed run has to do again."""

BATCH_GROUPS: Final = 32
BATCH_S: Final = 2.0
"""Groups written in one transaction, and how long the first of them may wait for the others: an answer that
a model took seconds for is not lost to a kill, and quick ones do not cost a sync each.
"""

TOO_LONG: Final = 2
"""A summary of more than this times its budget is none: nothing is cut off in the middle."""

MAX_UNAVAILABLE: Final = 3
"""Calls in a row that found the summariser away, after which a run asks no more."""

FIRST_WAIT_S: Final = 60.0
LONGEST_WAIT_S: Final = 24 * 3_600.0
"""Before a running node asks again after such a run: a minute, then twice as long each time, up to a day."""

MAX_GIVEN_UP: Final = 4_096
"""Groups that the summariser had no answer for, remembered so that the background does not ask again."""

ID_BYTES: Final = 32
"""A summary's id is random: it goes by no content, and is the same when it is made again."""

OWN_SCOPE: Final = NOBODY - 1
"""Blocks held here come together with each other only, those of one principal too, and those of several."""

Flags = NDArray[np.bool_]
Rows = tuple[int, ...]
"""Ascending."""


class Examined(msgspec.Struct, frozen=True, array_like=True):
    """Rows that were looked at and left alone, as bits, by these vectors and bounds."""

    model: str
    bounds: Bounds
    bits: bytes


class _Placing(msgspec.Struct):
    """A run's groups, by the vectors of `model`; `looked` (bool[n]): rows that were looked at. `summary`: by
    group, the row it has.
    """

    model: str
    groups: Groups
    looked: Flags
    todo: list[int]
    summary: list[int | None]


class _Made(msgspec.Struct, frozen=True):
    """What a group's summary and abstract are to say; '' for no abstract."""

    sources: Rows
    summary: int | None
    text: str
    abstract: str


class _Tally(msgspec.Struct):
    written: int = 0
    failed: int = 0
    away: bool = False
    troubles: dict[str, None] = msgspec.field(default_factory=dict)


class Summarising:
    """The summaries of one home. One run at a time."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._one_at_a_time = asyncio.Lock()
        self._given_up: set[Rows] = set()
        self._seen = b""
        self._trouble = ""
        self._wait_s, self._again_s = 0.0, -math.inf

    async def run_if_due(self) -> str:
        """Bring the summaries up to date when blocks have come into view or left it since the last call that
        found the summariser there; after one that did not only when its wait is over.

        In words what could not be summarised then, and still is not; '' for nothing.
        """

        async def in_view() -> bytes:
            await self._ground.refresh()
            memory = self._ground.memory
            return np.packbits(_open(memory, memory.length)).tobytes()

        seen = await self._ground.exclusive(in_view)
        if seen != self._seen and self._ground.parts.monotonic_s() >= self._again_s:
            await self.run(retry=False)
            if not self._wait_s:
                self._seen = seen
        return self._trouble

    async def run(self, progress: Progress | None = None, *, retry: bool = True) -> Summarised:
        """Bring the summaries up to date. `retry`: also ask again for groups that got no answer before.

        What the summariser fails at is told in the answer, not raised.
        """
        ground = self._ground
        async with self._one_at_a_time:
            if retry:
                self._given_up.clear()
            placing = await ground.exclusive(self._begin)
            count = len(placing.todo)
            for start in range(0, count, SLICE_ROWS):
                await ground.exclusive(partial(self._place, placing, start))
                done = min(start + SLICE_ROWS, count)
                if done // SAVE_ROWS > start // SAVE_ROWS:
                    await ground.exclusive(lambda: self._save(placing))
                if progress is not None:
                    progress(done, count)
            tally = await self._write(placing, count, progress)
            self._wait(tally.away)
            await ground.exclusive(lambda: self._save(placing))
            said = "; ".join(tally.troubles)
            self._trouble = said or (self._trouble if self._given_up else "")
            tiers = ground.memory.own.tiers
            summaries = len(tiers.summaries())
            return Summarised(
                examined=count,
                written=tally.written,
                failed=tally.failed,
                summaries=summaries,
                abstracts=len(tiers) - summaries,
                summariser=ground.parts.summariser.name,
                trouble=said,
            )

    async def _begin(self) -> _Placing:
        """Where the run starts from: the groups there are, and the blocks nobody has looked at."""
        await self._ground.refresh()
        memory = self._ground.memory
        tiers, bounds = memory.own.tiers, self._bounds()
        rows = tiers.summaries()
        groups = Groups(
            [tier.sources for row in rows if (tier := tiers.get(row)) is not None], _scopes(memory), bounds
        )
        looked = await self._looked(memory, bounds)
        todo = np.flatnonzero(_open(memory, memory.length) & ~looked & (groups.group == ALONE))
        return _Placing(_model(memory), groups, looked, todo.tolist(), list(rows))

    async def _place(self, placing: _Placing, at: int) -> None:
        """Give the next blocks their groups."""
        memory, groups = self._ground.memory, placing.groups
        length = len(placing.looked)
        matrix, free = memory.matrix, _open(memory, length)
        rows = [row for row in placing.todo[at : at + SLICE_ROWS] if free[row] and groups.group[row] == ALONE]
        placing.looked[placing.todo[at : at + SLICE_ROWS]] = True
        if matrix is None or not rows:
            return

        def place() -> None:
            for row, cosines in zip(rows, matrix.cosines(rows, length), strict=True):
                if groups.group[row] == ALONE:
                    groups.place(row, cosines, free)

        await asyncio.to_thread(place)
        placing.summary += [None] * (len(groups) - len(placing.summary))

    async def _write(self, placing: _Placing, placed: int, progress: Progress | None) -> _Tally:
        """Have the groups that changed summarised, and keep what comes of it."""
        tally, made = _Tally(), list[_Made]()
        changed = self._changed(placing)
        clock_s = self._ground.parts.monotonic_s
        since_s, away = clock_s(), 0
        for at, (summary, sources) in enumerate(changed):
            try:
                one = await self._summarise(summary, sources)
                away = 0
            except Refused as error:
                one, away = str(error), 0
            except Unavailable as error:
                one, away, tally.away = str(error), away + 1, True
            if isinstance(one, _Made):
                made.append(one)
            else:
                tally.failed += 1
                tally.troubles[one] = None
                if not away and len(self._given_up) < MAX_GIVEN_UP:
                    self._given_up.add(sources)
            if made and (len(made) >= BATCH_GROUPS or clock_s() - since_s > BATCH_S):
                tally.written += await self._keep(made)
                made, since_s = [], clock_s()
            if progress is not None:
                progress(placed + at + 1, placed + len(changed))
            if away >= MAX_UNAVAILABLE:
                tally.failed += len(changed) - at - 1
                break
        if made:
            tally.written += await self._keep(made)
        return tally

    def _changed(self, placing: _Placing) -> list[tuple[int | None, Rows]]:
        """Groups whose summary is not made from the members that may be read now; those of too few are left
        as they are, out of view where a source is.
        """
        memory, bounds = self._ground.memory, placing.groups.bounds
        readable, tiers = memory.readable(), memory.own.tiers
        found: list[tuple[int | None, Rows]] = []
        for group, summary in enumerate(placing.summary):
            members = tuple(row for row in placing.groups.members(group) if readable[row])
            if len(members) < bounds.least or members in self._given_up:
                continue
            tier = None if summary is None else tiers.get(summary)
            if summary is not None and tier is None:
                continue  # forgotten meanwhile, with one of its sources
            if tier is None or tier.sources != members:
                found.append((summary, members))
        return found

    async def _summarise(self, summary: int | None, sources: Rows) -> _Made | str:
        """What the group comes to, or in words why it comes to nothing. Raises Unavailable."""
        settings, summariser = self._ground.settings.tiers, self._ground.parts.summariser
        texts = await self._ground.store.texts(sources)
        given = [texts[row] for row in sources if row in texts]
        if len(given) < len(sources):
            return "a block was forgotten meanwhile"
        budget = min(settings.summary_tokens, sum(map(tokens, given)) // 2)
        text = _said(await summariser.summarise(given, budget), budget)
        if not text:
            return f"{summariser.name} had no summary in {budget} tokens of {len(given)} blocks"
        abstract = ""
        if len(given) >= settings.abstract_from:
            short = min(settings.abstract_tokens, tokens(text) - 1)
            abstract = _said(await summariser.summarise(given, short), short)
        return _Made(sources, summary, text, abstract)

    async def _keep(self, made: Sequence[_Made]) -> int:
        """Store the summaries whose sources may still all be read; how many."""

        async def work() -> int:
            await self._ground.refresh()
            memory = self._ground.memory
            clock, name = self._ground.stamp(), self._ground.parts.summariser.name
            writing = _Writing(memory, clock, name, self._ground.parts.random_bytes)
            readable = memory.readable()
            kept = sum(writing.take(one) for one in made if readable[list(one.sources)].all())
            if writing.events:
                records = spending(self._ground.parts.budget)
                await self._ground.record(writing.events, writing.blocks, records=records)
                memory.sync.index.ensure([block.block_id for block in writing.blocks])
            return kept

        return await self._ground.exclusive(work)

    async def _looked(self, memory: Memory, bounds: Bounds) -> Flags:
        """Rows that were looked at before, by the vectors and bounds of today."""
        looked = np.zeros(memory.length, np.bool_)
        stored = await self._ground.store.record(EXAMINED_RECORD)
        if stored is not None:
            try:
                examined = msgspec.msgpack.decode(stored, type=Examined)
            except msgspec.DecodeError:
                return looked  # another release's: all is looked at again
            if (examined.model, examined.bounds) == (_model(memory), bounds):
                bits = np.unpackbits(np.frombuffer(examined.bits, np.uint8))[: memory.length]
                looked[: len(bits)] = bits > 0
        return looked

    def _wait(self, away: bool) -> None:
        """How long the background leaves a summariser alone that was away, or was not."""
        wait_s = min(max(2.0 * self._wait_s, FIRST_WAIT_S), LONGEST_WAIT_S)
        self._wait_s = wait_s if away else 0.0
        self._again_s = self._ground.parts.monotonic_s() + self._wait_s

    async def _save(self, placing: _Placing) -> None:
        """Note which blocks were left alone, and what the summariser has cost."""
        records = spending(self._ground.parts.budget)
        if placing.todo and placing.model == _model(self._ground.memory):
            alone = placing.looked & (placing.groups.group == ALONE)
            examined = Examined(placing.model, placing.groups.bounds, np.packbits(alone).tobytes())
            records[EXAMINED_RECORD] = msgspec.msgpack.encode(examined)
        if records:
            await self._ground.record([], records=records)

    def _bounds(self) -> Bounds:
        settings = self._ground.settings.tiers
        return Bounds(settings.threshold, settings.least, max(settings.most, settings.least))


class _Writing:
    """Events and blocks of one transaction of summaries."""

    def __init__(self, memory: Memory, clock: ActiveClock, name: str, random: Callable[[int], bytes]) -> None:
        self.events: list[tuple[int, Event]] = []
        self.blocks: list[NewBlock] = []
        self._memory, self._clock, self._name, self._random = memory, clock, name, random
        self._next_row = memory.length

    def take(self, made: _Made) -> bool:
        """Add a group; False when its summary was forgotten meanwhile, or a source went into another."""
        tiers = self._memory.own.tiers
        if made.summary is not None and made.summary not in tiers:
            return False
        if any(tiers.above(row) not in (None, made.summary) for row in made.sources):
            return False
        summary = self._put(made.summary, Level.SUMMARY, made.sources, made.text)
        if made.abstract:
            abstract = None if made.summary is None else tiers.abstract_row(made.summary)
            self._put(abstract, Level.ABSTRACT, made.sources, made.abstract, summary)
        return True

    def _put(self, row: int | None, level: Level, sources: Rows, text: str, summary: int = -1) -> int:
        if row is None:
            row, self._next_row = self._next_row, self._next_row + 1
            id_ = self._random(ID_BYTES)
        else:
            id_ = self._memory.sync.index.id(row)
        self.blocks.append(NewBlock(row, id_, text, replaces=True))
        self.events.append((row, evidence.summarised(self._clock, level, sources, self._name, summary)))
        return row


def _said(text: str | None, budget: int) -> str:
    """A summariser's answer in normal form; '' for none, and for one far beyond the budget."""
    said = "" if text is None else normalise(text)
    return said if tokens(said) <= budget * TOO_LONG else ""


def _open(memory: Memory, length: int) -> Flags:
    """Which of the rows 0 … length-1 may come into a group: readable blocks with a vector, bool[length]."""
    if memory.matrix is None:
        return np.zeros(length, np.bool_)
    return memory.readable()[:length] & memory.matrix.held(length)


def _scopes(memory: Memory) -> NDArray[np.int32]:
    """By row, whose blocks it comes together with: this node's own, one principal's, or those of several."""
    length = memory.length
    held = memory.own.columns.views(max(length, memory.own.columns.length)).held[:length] > 0
    return np.where(held, OWN_SCOPE, memory.effective.rows.sole_principal[:length]).astype(np.int32)


def _model(memory: Memory) -> str:
    return "" if memory.fingerprint is None else encode_fingerprint(memory.fingerprint)
