"""The store of one home: its log, blocks, frames and records behind one owner.

Every method that writes is one transaction and one hop into the database's thread: it is on disk as a whole
or not at all, and a failure leaves the store as it was. A caller that is cancelled while it waits does not
learn which: one that keeps state of its own in step lets `append` and its own change finish together.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar

import numpy as np
import numpy.typing as npt

from loremesh.crypto.atrest import HomeKeys
from loremesh.node.home import HomePaths
from loremesh.node.store import blocks as block_rows
from loremesh.node.store import checkpoint as checkpoints
from loremesh.node.store import compact, erase, log, staging, verify
from loremesh.node.store.database import Database, create_database, empty_wal, open_database
from loremesh.node.store.errors import Damaged, ErasureUnfinished, StoreError, UnsafeFilesystem
from loremesh.node.store.filesystem import shared_filesystem
from loremesh.node.store.ledger import (
    Draft,
    Ledger,
    Model,
    load_ledger,
    new_head,
    seal_head,
    tail_fault,
    transaction,
)
from loremesh.node.store.owner import Owner, acquire
from loremesh.node.store.records import put_records, read_record, read_records
from loremesh.node.store.schema import RUNNING_START
from loremesh.node.store.values import (
    BlockBatch,
    Compacted,
    Cut,
    Feed,
    FeedPosition,
    LogRow,
    NewBlock,
    NewRow,
    Position,
    Replaced,
    StoredFrame,
    Verified,
)

T = TypeVar("T")
P = ParamSpec("P")

BLOCK_BATCH = 1024
"""Blocks opened at a time: some 2 MiB with their vectors."""
EVENTS_MAX = 10_000
"""Events of one block given at a time."""
REPLY_BYTES_MAX = 16 << 20
"""Bytes of frames given at a time."""


class Store:
    """An open store. `Store.create` and `Store.open` give one; `close` ends it and gives the home up."""

    def __init__(self, paths: HomePaths, owner: Owner, database: Database, ledger: Ledger) -> None:
        """Of parts that are ready; not for callers."""
        self.paths = paths
        self.owner = owner
        self._database = database
        self._ledger = ledger

    @classmethod
    async def create(cls, home: Path, keys: HomeKeys) -> Self:
        """Create and open the store of a home, an existing directory that has none.

        Raises AlreadyAHome, NotAHome, InUse, UnsafeFilesystem, ReadOnlyHome, DiskFull.
        """

        def begin(connection: sqlite3.Connection) -> Ledger:
            head = new_head()
            connection.execute("INSERT INTO head (id, body) VALUES (1, ?)", (seal_head(keys, head),))
            return Ledger(keys, head)

        return await cls._opened(home, create_database, begin)

    @classmethod
    async def open(cls, home: Path, keys: HomeKeys, *, salvage: bool = False) -> Self:
        """Open the store of a home and become its owner.

        With `salvage` a damaged one is opened too, to read what is left; nothing can be written to it then.
        Raises NotAHome, WrongSchema, InUse, UnsafeFilesystem, ReadOnlyHome, DiskFull, Damaged.
        """

        def begin(connection: sqlite3.Connection) -> Ledger:
            return load_ledger(connection, keys, salvage=salvage)

        return await cls._opened(home, open_database, begin)

    @classmethod
    async def _opened(
        cls,
        home: Path,
        connect: Callable[[Path], Awaitable[Database]],
        begin: Callable[[sqlite3.Connection], Ledger],
    ) -> Self:
        paths = HomePaths(home)
        owner = acquire(home)
        try:
            kind = shared_filesystem(home)
            if kind:
                raise UnsafeFilesystem(
                    f"{home} lies on a file system shared over a network or with a host ({kind})",
                    "Put the home on a local disk: locks and SQLite's write-ahead log are not safe there",
                )
            database = await connect(paths.database)
            try:
                ledger = await database.run(begin)
            except BaseException:
                await database.close()
                raise
            checkpoints.drop_unfinished(paths.checkpoint)
        except BaseException:
            owner.release()
            raise
        return cls(paths, owner, database, ledger)

    async def close(self) -> None:
        """End the store: the write-ahead log is written back and removed, the home is free."""
        try:
            await self._database.close()
        finally:
            self.owner.release()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def position(self) -> Position:
        """Where the log ends."""
        return self._ledger.position

    @property
    def next_row(self) -> int:
        """A block row that was never used, and above which none was: those of forgotten blocks included."""
        return self._ledger.next_row

    async def append(
        self,
        rows: Sequence[NewRow] = (),
        blocks: Sequence[NewBlock] = (),
        *,
        records: Mapping[str, bytes | None] | None = None,
        durable: bool = True,
    ) -> int:
        """Store log rows, blocks and records together; the number of the first row (the next one when none).

        `durable`: synced to disk before this returns. Otherwise a loss of power may take away the last
        transactions, each as a whole, from the end; a killed process loses nothing.
        Raises UnknownRow (an event of a block that is neither stored nor among `blocks`), FrameExists,
        DiskFull, ReadOnlyHome, ValueError (a block row or id that is taken by another).
        """

        def work(connection: sqlite3.Connection) -> int:
            with transaction(connection, self._ledger, durable=durable) as draft:
                if blocks:
                    block_rows.insert_blocks(connection, self._ledger, draft, blocks)
                first = log.append_rows(connection, self._ledger, draft, rows) if rows else draft.n + 1
                if records:
                    put_records(connection, self._ledger, draft, records)
            return first

        return await self._database.run(work)

    async def scan(
        self, after: int = 0, *, running: bytes | None = None, salvage: bool = False
    ) -> AsyncIterator[list[LogRow]]:
        """The log's rows behind row `after`, ascending, in lists of some thousand, up to where it ends now.

        Each row is opened and checked. From the beginning, or from where the running hash is `running`, the
        chain is checked as well, and the last list comes only when it fits the head. Raises Damaged for the
        first row that is wrong; with `salvage` it comes as DAMAGED instead, and the chain is not checked.
        """
        end = self._ledger.head
        if after == 0 and running is None:
            running = RUNNING_START
        if salvage:
            running = None
        while after < end.n:
            batch = await self._run(log.read_batch, after, end.n, running, salvage=salvage)
            if not batch.rows:
                if salvage:
                    return
                raise Damaged("log", tail_fault(after, end.n))
            after, running = batch.rows[-1].n, batch.running
            if after == end.n and running is not None and running != end.running:
                raise Damaged(
                    "log", "its running hash is not the sealed head's: a row was replaced, or the head"
                )
            yield batch.rows

    async def follows(self, position: Position) -> bool:
        """Whether the log goes on from `position`: nothing before it can be other than it was then.

        False for a place in another log, one behind the end, or one from before something was erased.
        """
        return await self._run(log.follows, position)

    async def scan_blocks(
        self, fingerprint: str = "", dimension: int = 0, *, salvage: bool = False
    ) -> AsyncIterator[BlockBatch]:
        """All blocks in ascending rows, in batches of BLOCK_BATCH, with the vectors made by this model.

        Raises Damaged for the first block that does not open; with `salvage` such blocks are left out.
        """
        model = Model(fingerprint, dimension) if fingerprint else None
        after = -1
        while True:
            read = await self._run(block_rows.read_blocks, after, BLOCK_BATCH, model, salvage=salvage)
            if read is None:
                return
            after, batch = read
            yield batch

    async def texts(self, rows: Sequence[int]) -> dict[int, str]:
        """Text by row, of those of `rows` that are stored with a text. Raises Damaged."""
        return await self._run(block_rows.texts_of, rows)

    async def set_embeddings(
        self, rows: Sequence[int], vectors: npt.NDArray[np.float32], fingerprint: str
    ) -> None:
        """Store a vector (float32, shape [rows, dimension]) for each row, in place of one by another model.

        Not synced by itself: a vector can be computed again. Raises UnknownRow, ValueError, DiskFull,
        ReadOnlyHome.
        """

        def work(connection: sqlite3.Connection) -> None:
            with transaction(connection, self._ledger, durable=False) as draft:
                block_rows.store_vectors(connection, self._ledger, draft, rows, vectors, fingerprint)

        await self._database.run(work)

    async def stage_embeddings(
        self, rows: Sequence[int], vectors: npt.NDArray[np.float32], fingerprint: str
    ) -> None:
        """Put vectors of another model aside until `take_up_staged`; raises as `set_embeddings`."""

        def work(connection: sqlite3.Connection) -> None:
            with transaction(connection, self._ledger, durable=False) as draft:
                staging.stage_vectors(connection, self._ledger, draft, rows, vectors, fingerprint)

        await self._database.run(work)

    async def staged(self) -> tuple[str, int, int] | None:
        """(fingerprint, dimension, number) of the vectors put aside; None when there are none."""
        return await self._run(staging.staged_model)

    async def scan_staged(self, fingerprint: str, dimension: int) -> AsyncIterator[staging.Staged]:
        """Rows and vectors put aside of this model, ascending, in batches. Raises Damaged."""
        model, after = Model(fingerprint, dimension), -1
        while (found := await self._run(staging.read_staged, after, BLOCK_BATCH, model)) is not None:
            after = int(found[0][-1])
            yield found

    async def take_up_staged(self) -> None:
        """Use the vectors put aside in place of the others, all at once. Raises DiskFull, ReadOnlyHome."""

        def work(connection: sqlite3.Connection) -> None:
            with transaction(connection, self._ledger):
                staging.take_up_staged(connection)

        await self._database.run(work)

    async def drop_staged(self) -> None:
        """Give up the vectors put aside. Raises DiskFull, ReadOnlyHome."""

        def work(connection: sqlite3.Connection) -> None:
            with transaction(connection, self._ledger):
                staging.drop_staged(connection)

        await self._database.run(work)

    async def models(self) -> list[tuple[str, int, int]]:
        """(fingerprint, dimension, number of vectors) of every model that vectors are stored of."""
        return await self._run(block_rows.models_held)

    async def read(self, numbers: Sequence[int]) -> list[LogRow]:
        """The log rows with these numbers, ascending. Raises UnknownRow, Damaged."""
        return await self._run(log.rows_at, numbers)

    async def events(self, row: int, after: int = 0, limit: int = EVENTS_MAX) -> list[LogRow]:
        """At most `limit` own events about the block in `row`, behind log row `after`. Raises Damaged."""
        return await self._run(log.events_of, row, after, min(limit, EVENTS_MAX))

    async def newest_events(self, row: int, limit: int) -> list[LogRow]:
        """The last own events about the block in `row`, `limit` at most, newest first. Raises Damaged."""
        return await self._run(log.newest_of, row, min(limit, EVENTS_MAX))

    async def frames(
        self, feed: Feed, first: int, last: int, budget_bytes: int = REPLY_BYTES_MAX
    ) -> list[StoredFrame]:
        """Frames `first` to `last` of a feed that are held, ascending; at least one, none beyond the budget.

        Raises Damaged.
        """
        return await self._run(log.frames_of, feed, first, last, min(budget_bytes, REPLY_BYTES_MAX))

    async def frame_numbers(self) -> list[int]:
        """The log rows that are frames, ascending."""
        return await self._run(log.frame_numbers)

    async def feeds(self) -> list[FeedPosition]:
        """What is held of every feed."""
        return await self._run(log.positions_of)

    async def prune(self, numbers: Iterable[int]) -> int:
        """Destroy the bodies of the frames in these log rows, keep their headers; how many still had one.

        For frames that say nothing any more; what must be gone at once goes through `forget`, which also
        empties the write-ahead log.
        Raises UnknownRow, ValueError (a row that is no frame), DiskFull, ReadOnlyHome.
        """

        def work(connection: sqlite3.Connection) -> int:
            with transaction(connection, self._ledger, durable=False) as draft:
                return erase.prune_frames(connection, self._ledger, draft, numbers)

        return await self._database.run(work)

    async def rewrite_frames(self, cuts: Sequence[Cut]) -> None:
        """Give frames bodies from which something was cut out, for good, and drop the checkpoint.

        Raises UnknownRow, ValueError, DiskFull, ReadOnlyHome.
        """

        def work(connection: sqlite3.Connection, draft: Draft) -> None:
            erase.cut_frames(connection, self._ledger, draft, cuts)

        await self._erase(work)

    async def forget(
        self,
        row: int,
        cuts: Sequence[Cut] = (),
        *,
        emptied: Sequence[int] = (),
        mark: bytes = b"",
        records: Mapping[str, bytes | None] | None = None,
    ) -> int:
        """Destroy all of the block in `row`, for good; how many events it had.

        Gone are its key, content, vector and the bodies of its events. `cuts` gives the frames that mention
        it bodies without it; `emptied` names those with nothing else in them, which are pruned. The
        checkpoint is dropped and the write-ahead log emptied. `mark` is kept for `forgotten_mark`. Log rows
        keep their numbers and digests.
        Raises UnknownRow, ValueError, DiskFull, ReadOnlyHome.
        """

        def work(connection: sqlite3.Connection, draft: Draft) -> int:
            events = erase.forget_block(connection, self._ledger, draft, row, mark)
            erase.cut_frames(connection, self._ledger, draft, cuts)
            erase.prune_frames(connection, self._ledger, draft, emptied)
            put_records(connection, self._ledger, draft, records or {})
            return events

        return await self._erase(work)

    async def home_events(self, after: int = 0) -> list[LogRow]:
        """Every event about no block behind log row `after`, ascending. Raises Damaged."""
        return await self._run(log.home_events, after)

    async def aggregate(self, row: int) -> bytes | None:
        """The last aggregate of the block in `row`, None where there is none. Raises Damaged."""
        return await self._run(log.aggregate_of, row)

    async def event_counts(self, above: int = 0) -> list[tuple[int, int]]:
        """(block row, own events left) of the blocks that have more than `above` of them."""
        return await self._run(log.event_counts, above)

    async def compact(
        self, replaced: Sequence[Replaced], gone: Sequence[int] = (), rows: Sequence[NewRow] = ()
    ) -> Compacted:
        """Put aggregates in the place of own events, take away those that they stand for, and append `rows`.

        Number and digest stay, and so does the running hash: a checkpoint is worth as much as before. Events
        that are gone already, or whose block was forgotten, are passed over.
        Raises UnknownRow, ValueError (a row that is no own event), DiskFull, ReadOnlyHome.
        """

        def work(connection: sqlite3.Connection) -> Compacted:
            with transaction(connection, self._ledger) as draft:
                done = compact.replace_events(connection, self._ledger, draft, replaced)
                more = compact.take_away(connection, self._ledger, draft, gone)
                if rows:
                    log.append_rows(connection, self._ledger, draft, rows)
            return Compacted(done.events + more.events, done.freed_bytes + more.freed_bytes)

        return await self._database.run(work)

    async def return_space(self) -> None:
        """Write the database anew without its holes (VACUUM), and cut the write-ahead log to nothing.

        It takes as much memory and free disk as the database is large afterwards. Raises DiskFull, and
        nothing has changed then.
        """

        def work(connection: sqlite3.Connection) -> None:
            if self._ledger.salvage:
                raise Damaged("the home", "it was opened to read what is left; nothing can be written to it")
            connection.execute("VACUUM")
            empty_wal(connection)

        await self._database.run(work)

    def forgotten_mark(self, block_id: bytes) -> bytes | None:
        """The mark left when this block was (last) forgotten; None when it never was."""
        return self._ledger.forgotten.get(self._ledger.keys.keyed_id(block_id))

    async def record(self, name: str) -> bytes | None:
        """The value of a record, None when there is none. Raises Damaged."""
        return await self._run(read_record, name)

    async def records(self, prefix: str = "") -> dict[str, bytes]:
        """All records whose name begins with `prefix`, by name. Raises Damaged."""
        return await self._run(read_records, prefix)

    async def write_checkpoint(self, checkpoint: checkpoints.Checkpoint) -> bool:
        """Seal and write the checkpoint; False when something was erased since its position: it is dropped.

        Sealing and writing happen in a thread of their own. Raises ReadOnlyHome, DiskFull, ValueError.
        """

        def prepare() -> Path:
            sealed = checkpoints.seal_checkpoint(self._ledger.keys, checkpoint)
            return checkpoints.write_beside(self.paths.checkpoint, sealed)

        def finish(_: sqlite3.Connection) -> bool:
            if self._ledger.head.erasures != checkpoint.position.erasures:
                beside.unlink(missing_ok=True)
                return False
            checkpoints.put_in_place(beside, self.paths.checkpoint)
            return True

        beside = await asyncio.to_thread(prepare)
        return await self._database.run(finish)

    async def read_checkpoint(self, rules: str) -> checkpoints.Checkpoint | checkpoints.Unusable:
        """The checkpoint if it stands for this log under these rules and this build; else why it does not."""

        def load() -> checkpoints.Checkpoint | checkpoints.Unusable:
            sealed = checkpoints.read_file(self.paths.checkpoint)
            if sealed is None:
                return checkpoints.Unusable("there is none")
            return checkpoints.open_checkpoint(self._ledger.keys, sealed, rules)

        found = await asyncio.to_thread(load)
        if isinstance(found, checkpoints.Checkpoint) and not await self.follows(found.position):
            return checkpoints.Unusable(
                "it stands for another log, or for one from before something was erased"
            )
        return found

    async def verify(self) -> Verified:
        """Read everything and name whatever is not as it was written. Never raises for damage."""
        return await self._run(verify.verify)

    async def _erase(self, work: Callable[[sqlite3.Connection, Draft], T]) -> T:
        """Run an erasing transaction; the checkpoint goes before, the WAL after: no file keeps a copy."""

        def erase_all(connection: sqlite3.Connection) -> T:
            checkpoints.drop(self.paths.checkpoint)
            with transaction(connection, self._ledger) as draft:
                draft.erasures += 1
                result = work(connection, draft)
            try:
                empty_wal(connection)
            except (sqlite3.Error, StoreError) as error:
                raise ErasureUnfinished(
                    f"it is erased, but the write-ahead log in {self.paths.root} was not emptied: {error}",
                    "Free some space on the disk, then close the home and open it: that empties the log",
                ) from error
            return result

        return await self._database.run(erase_all)

    async def _run(
        self, read: Callable[Concatenate[sqlite3.Connection, Ledger, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return await self._database.run(lambda connection: read(connection, self._ledger, *args, **kwargs))
