"""The ground that a node's use cases stand on: store, memory, clock and lock, kept in step.

Whatever changes the memory goes through `exclusive`, one at a time, and runs to its end even when whoever
asked for it is cancelled: between a row on disk and its fold nothing may come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec
import numpy as np
import structlog
from numpy.typing import NDArray

from loremesh.crypto.identity import Identity
from loremesh.node.clock import WALL, ActiveClock
from loremesh.node.errors import NodeError, Unavailable
from loremesh.node.events import Event, encode
from loremesh.node.events import HomeEvent as HomeEventKind
from loremesh.node.fold import apply, apply_home
from loremesh.node.frames import configured
from loremesh.node.journal import NodeJournal
from loremesh.node.memory import Memory
from loremesh.node.opening import checkpoint_of, decode_fingerprint
from loremesh.node.parts import Parts
from loremesh.node.ports import Embedder, Fingerprint
from loremesh.node.rating import Turns
from loremesh.node.settings import Settings
from loremesh.node.store.errors import StoreError
from loremesh.node.store.store import Store
from loremesh.node.store.values import HomeEvent, NewBlock, OwnEvent
from loremesh.sync.content import normalise

log = structlog.get_logger(__name__)

T = TypeVar("T")

PRUNE_AT: Final = 256
"""Frames without a live row that wait for one transaction to prune them."""

HomeRow = tuple[int, Event]
"""A block's row and what happened to it; row NO_ROW for an event about no block."""

NO_ROW: Final = -1


class QueryVector(msgspec.Struct, frozen=True):
    """A query's unit vector, float32[dimension], and the model it is of."""

    model: Fingerprint
    vector: NDArray[np.float32]


class Reembedding(msgspec.Struct):
    """A change of embedder under way: to which, and how many blocks of how many have its vectors."""

    model: str = ""
    done: int = 0
    total: int = 0


class Ground:
    """Store, memory and clock of one open home.

    `name` is what people call the node, `checkpointed` the log row of the checkpoint there is.
    """

    def __init__(
        self,
        store: Store,
        memory: Memory,
        identity: Identity,
        name: str,
        settings: Settings,
        parts: Parts,
        checkpointed: int = 0,
    ) -> None:
        self.store = store
        self.memory = memory
        self.identity = identity
        self.name = name
        self.settings = settings
        self.frames = configured(settings.frames)
        self.parts = parts
        self.journal = NodeJournal(store, memory, parts.now_ms)
        gap = WALL if settings.memory.clock == "wall" else settings.memory.idle_gap_h
        started_ms = memory.own.wall_ms or parts.now_ms()
        self.clock = ActiveClock(memory.own.hour, started_ms, gap)
        self.touched: set[int] = set()
        """Rows whose registers or content may have to be stated in their spaces."""
        self.unfinished: set[int] = set()
        """Rows that the log says are forgotten and that are not destroyed yet: a checkpoint behind that event
        would hide it from the next opening, which finishes what a full disk or a kill broke off."""
        self.on_touch: Callable[[], None] = lambda: None
        self.turns = Turns()
        self.superseded = False
        """Whether the settings name another embedder than the one whose vectors are in use."""
        self.reembedding: Reembedding | None = None
        self._dead: list[int] = []
        self._lock = asyncio.Lock()
        self._embedder: Embedder | None = None
        self._asked: list[Embedder] = []
        self._embedder_lock = asyncio.Lock()
        self._checkpointed = checkpointed

    async def exclusive(self, work: Callable[[], Awaitable[T]]) -> T:
        """What `work` returns, run alone and to its end."""

        async def alone() -> T:
            async with self._lock:
                return await work()

        task = asyncio.ensure_future(alone())
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_tell_failure)
            raise

    def tick(self) -> float:
        """The agent uses its memory now: the active clock goes on. Returns the active hour."""
        return self.clock.advance(self.parts.now_ms())

    def hour(self) -> float:
        """The active hour, without counting this as use; a wall clock goes on by itself."""
        return self.tick() if self.clock.idle_gap_h == WALL else self.clock.hour

    def hour_of_use(self) -> float:
        """The active hour that a use of the memory would be at now, without being one."""
        return msgspec.structs.replace(self.clock).advance(self.parts.now_ms())

    def go_on_from(self, hour: float) -> None:
        """The clock stands at this active hour now, unless it is later already."""
        if hour > self.clock.hour:
            self.clock.hour, self.clock.wall_ms = hour, self.parts.now_ms()

    def stamp(self) -> ActiveClock:
        """A clock for events that are no use of the memory (trust, say): this hour, today's wall time."""
        return ActiveClock(self.hour(), self.parts.now_ms())

    async def record(
        self,
        events: Sequence[HomeRow],
        blocks: Sequence[NewBlock] = (),
        *,
        records: Mapping[str, bytes | None] | None = None,
        durable: bool = True,
    ) -> None:
        """Store events, new blocks and records in one transaction, then fold. Inside `exclusive` only."""
        rows = [
            HomeEvent(encode(event)) if row == NO_ROW else OwnEvent(row, encode(event))
            for row, event in events
        ]
        await self.store.append(rows, blocks, records=records, durable=durable)
        memory = self.memory
        for block in blocks:
            if block.text is not None:
                memory.note_content(block.row)
        for row, event in events:
            if isinstance(event, HomeEventKind):
                apply_home(memory.own, event)
                memory.follow_home(event)
            else:
                apply(memory.own, row, event)
                memory.effective.mark_row(row)

    def fold_home(self, event: HomeEventKind) -> None:
        """Fold an event about the home that is in the log already. Inside `exclusive` only."""
        apply_home(self.memory.own, event)

    def touch(self, rows: Sequence[int]) -> None:
        """These rows have news for their spaces."""
        self.touched.update(rows)
        self.on_touch()

    async def refresh(self) -> None:
        """Bring effective columns and the lexical index up to date. Inside `exclusive` only."""
        came, went = self.memory.refresh()
        if len(came):
            texts = await self.store.texts(came.tolist())
            self.memory.lexical.add(list(texts), list(texts.values()))
        if len(went):
            self.memory.lexical.remove(went.tolist())

    async def bury(self, dead: Sequence[int]) -> None:
        """Frames without a live row: their bodies go, some at a time. Inside `exclusive` only."""
        self._dead.extend(dead)
        if len(self._dead) >= PRUNE_AT:
            await self.prune()

    async def prune(self) -> None:
        """Prune what waits for it. Inside `exclusive` only."""
        if self._dead:
            await self.store.prune(self._dead)
            self._dead = []

    async def embedder(self) -> Embedder:
        """The embedder whose vectors are in use, opened at the first call; of a new home the settings' own.

        Where the settings name another by now, vectors go on being made by the one before, for vectors of two
        models cannot be compared, until `doctor reembed`. Raises EmbedderError, and Unavailable where the one
        before cannot be had any more.
        """
        async with self._embedder_lock:
            if self._embedder is None:
                stored = self.memory.fingerprint
                opened = await self.parts.open_embedder(stored.dimension if stored else None)
                if stored is not None and opened.fingerprint != stored:
                    await opened.close()
                    opened = await self._former(stored, opened.fingerprint)
                    self.superseded = True
                self._embedder = opened
            return self._embedder

    async def _former(self, stored: Fingerprint, named: Fingerprint) -> Embedder:
        """The embedder that made the vectors in use, which the settings no longer name."""
        hint = (
            "run `loremesh doctor reembed` to change over, or set [embedder] name in config.toml back to the "
            "model that made them"
        )
        said = (
            f"the vectors of this home were made by {_named(stored)}, but the settings name {_named(named)}"
        )
        self.superseded = True
        if self.parts.open_former is None:
            raise Unavailable(said, hint)
        try:
            former = await self.parts.open_former(stored)
        except NodeError as error:
            raise Unavailable(f"{said}; the former cannot be used: {error}", hint) from None
        if former.fingerprint != stored:
            await former.close()
            raise Unavailable(f"{said}; the former is {_named(former.fingerprint)} now", hint)
        return former

    async def use_embedder(self, embedder: Embedder) -> None:
        """The vectors in use are this one's from now on."""
        async with self._embedder_lock:
            former, self._embedder = self._embedder, embedder
            self.superseded = False
        if former is not None and former is not embedder and former not in self._asked:
            await former.close()

    async def embed(
        self, texts: Sequence[str], *, query: bool = False
    ) -> tuple[Fingerprint, NDArray[np.float32]]:
        """Unit vectors of texts in normal form, [n, dimension], and whose they are. Raises as `embedder`."""
        embedder = await self.embedder()
        self._asked.append(embedder)
        try:
            return embedder.fingerprint, await embedder.embed(texts, query=query)
        finally:
            self._asked.remove(embedder)
            if embedder is not self._embedder and embedder not in self._asked:
                await embedder.close()  # another came into use meanwhile

    async def query_vector(self, text: str) -> QueryVector | None:
        """The query's unit vector and its model; None while no block has one.

        Also None where the settings name another embedder and the one before does not answer: until `doctor
        reembed` is done words alone have to do.
        """
        if self.memory.matrix is None or not len(self.memory.matrix):
            return None
        try:
            model, vectors = await self.embed([normalise(text)], query=True)
        except Unavailable as error:
            if not self.superseded:
                raise
            log.warning("recalled_by_words_alone", error=str(error))
            return None
        return QueryVector(model, vectors[0])

    async def checkpoint_if_due(self) -> bool:
        """Write the checkpoint when enough has happened since the last one."""
        grown = self.store.position.n - self._checkpointed
        return grown >= self.settings.sharing.checkpoint_every_rows and await self.checkpoint()

    async def checkpoint(self) -> bool:
        """Write the checkpoint; False when it could not be kept, or a forgetting is not finished."""

        async def work() -> bool:
            await self.prune()
            if self.unfinished:
                return False
            taken = checkpoint_of(self.store, self.memory)
            kept = await self.store.write_checkpoint(taken)
            if kept:
                self._checkpointed = taken.position.n
            return kept

        return await self.exclusive(work)

    async def close(self) -> None:
        """Write the checkpoint when there is something new, and give the home up.

        A disk that has no room for the checkpoint is no reason to fail: what was done is in the log.
        """
        try:
            async with self._lock:
                await self.prune()
            if self.store.position.n != self._checkpointed:
                await self.checkpoint()
        except StoreError as error:
            log.warning("closed_without_checkpoint", error=str(error))
        finally:
            if self._embedder is not None:
                await self._embedder.close()
            if self.parts.rater is not None:
                await self.parts.rater.close()
            await self.parts.summariser.close()
            await self.store.close()


def _tell_failure(task: asyncio.Task[T]) -> None:
    """What was done to its end for somebody who is gone may have failed: say so, nobody else will."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.warning("work_failed_after_its_caller_left", error=type(error).__name__)


async def stored_fingerprint(store: Store) -> Fingerprint | None:
    """The model that made the most of the stored vectors, None when there are none."""
    models = sorted(await store.models(), key=lambda model: -model[2])
    return decode_fingerprint(models[0][0]) if models else None


def _named(fingerprint: Fingerprint) -> str:
    return f"{fingerprint.name} {fingerprint.version} ({fingerprint.dimension} dimensions)"
