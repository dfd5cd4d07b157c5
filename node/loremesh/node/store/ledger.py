"""What the store knows in memory about its database, and the transaction that changes both together.

Everything here runs in the database's thread. A transaction works on a draft; the ledger takes it over only
after the commit, so that a failed one leaves the ledger as the database is: as before.
"""

from __future__ import annotations

import os
import sqlite3
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import msgspec

from loremesh.crypto.atrest import HomeKeys
from loremesh.crypto.errors import SealBroken
from loremesh.node.store.errors import Damaged
from loremesh.node.store.schema import HASH_BYTES, MISTYPED, RUNNING_START, Head, place, summed
from loremesh.node.store.values import Feed, Position

T = TypeVar("T")

BLOCK_KEYS_MAX = 16_384
"""Block keys kept in memory (some 150 bytes each): those of the blocks that were written to last."""

HEAD_LABEL, FEED_LABEL, MODEL_LABEL, FORGOTTEN_LABEL = "head", "feed", "model", "forgotten"


class Model(msgspec.Struct, frozen=True, array_like=True):
    """What made an embedding: the fingerprint of a model, and how many float32 a vector has."""

    fingerprint: str
    dimension: int


class Ledger:
    """The database in memory: head, next numbers, feeds, models, what was forgotten, some block keys."""

    def __init__(self, keys: HomeKeys, head: Head) -> None:
        """Of a home's keys and its head; the rest is filled by `load_ledger`."""
        self.keys = keys
        self.head = head
        self.next_row = 0
        self.next_slot = 0
        self.feeds: dict[Feed, int] = {}
        self.feed_by_no: dict[int, Feed] = {}
        self.models: dict[Model, int] = {}
        self.forgotten: dict[bytes, bytes] = {}
        """Mark by keyed id; the last one where a block was forgotten more than once."""
        self.forgotten_rows: set[int] = set()
        self.block_keys: OrderedDict[int, bytes] = OrderedDict()
        self.durable = True
        """What SQLite's `synchronous` is set to: FULL, else NORMAL."""
        self.salvage = False
        """Opened although damaged: for reading only."""

    @property
    def position(self) -> Position:
        """Where the log ends."""
        return Position(self.head.n, self.head.running, self.head.erasures)

    def remember_keys(self, keys: dict[int, bytes]) -> None:
        """Keep these block keys, and drop those longest unused beyond BLOCK_KEYS_MAX."""
        self.block_keys.update(keys)
        while len(self.block_keys) > BLOCK_KEYS_MAX:
            self.block_keys.popitem(last=False)


class Draft:
    """What a running transaction would make of the ledger."""

    def __init__(self, ledger: Ledger) -> None:
        """A draft that changes nothing yet."""
        head = ledger.head
        self.tally_key = head.tally_key
        self.n, self.running, self.erasures = head.n, head.running, head.erasures
        self.changed, self.blocks, self.records = 0, 0, 0  # what is to be added to the head's sums
        self.next_row, self.next_slot = ledger.next_row, ledger.next_slot
        self.feeds: dict[Feed, int] = {}
        self.models: dict[Model, int] = {}
        self.block_keys: dict[int, bytes] = {}
        self.forgotten: dict[bytes, bytes] = {}
        self.gone_rows: list[int] = []

    def head(self, before: Head) -> Head:
        """The head after this transaction."""
        return Head(
            self.n,
            self.running,
            self.tally_key,
            summed(before.changed, self.changed),
            summed(before.blocks, self.blocks),
            summed(before.records, self.records),
            self.erasures,
        )


def new_head() -> Head:
    """The head of an empty log."""
    zero = bytes(HASH_BYTES)
    return Head(0, RUNNING_START, os.urandom(HASH_BYTES), zero, zero, zero, 0)


@contextmanager
def transaction(connection: sqlite3.Connection, ledger: Ledger, *, durable: bool = True) -> Iterator[Draft]:
    """One transaction, with the sealed head as its last write; durable ones are synced before they return.

    On any exception it is rolled back, the ledger stays as it was, and the exception goes on.
    """
    if ledger.salvage:
        raise Damaged("the home", "it was opened to read what is left; nothing can be written to it")
    if durable != ledger.durable:
        connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        ledger.durable = durable
    draft = Draft(ledger)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield draft
        head = draft.head(ledger.head)
        connection.execute("UPDATE head SET body = ? WHERE id = 1", (seal_head(ledger.keys, head),))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite has rolled back by itself after some errors
            connection.execute("ROLLBACK")
        raise
    _take_over(ledger, draft, head)


def _take_over(ledger: Ledger, draft: Draft, head: Head) -> None:
    ledger.head = head
    ledger.next_row, ledger.next_slot = draft.next_row, draft.next_slot
    ledger.feeds.update(draft.feeds)
    ledger.feed_by_no.update({no: feed for feed, no in draft.feeds.items()})
    ledger.models.update(draft.models)
    ledger.forgotten.update(draft.forgotten)
    ledger.forgotten_rows.update(draft.gone_rows)
    ledger.remember_keys(draft.block_keys)
    for row in draft.gone_rows:
        ledger.block_keys.pop(row, None)


def seal_head(keys: HomeKeys, head: Head) -> bytes:
    """The body of the one row of table `head`."""
    return keys.seal_home(HEAD_LABEL, msgspec.msgpack.encode(head))


def load_head(connection: sqlite3.Connection, keys: HomeKeys) -> Head:
    """The head as stored. Raises Damaged when there is none or it does not open."""
    found = connection.execute("SELECT body FROM head WHERE id = 1").fetchone()
    if found is None:
        raise Damaged("head", "the sealed head is missing")
    try:
        return msgspec.msgpack.decode(keys.open_home(HEAD_LABEL, found[0]), type=Head)
    except (SealBroken, msgspec.DecodeError, *MISTYPED) as error:
        raise Damaged("head", f"{error}; or vault.json is another home's") from error


def load_ledger(connection: sqlite3.Connection, keys: HomeKeys, *, salvage: bool) -> Ledger:
    """The ledger of a database that was just opened.

    Raises Damaged when the head does not open, or is not about the log's last row, or a feed or model cannot
    be read. With `salvage` an unreadable head is taken for that of an empty log, and the others are left out.
    """
    last = connection.execute("SELECT ifnull(max(n), 0) FROM log").fetchone()[0]
    try:
        head = load_head(connection, keys)
        if last != head.n:
            raise Damaged("log", tail_fault(last, head.n))
    except Damaged:
        if not salvage:
            raise
        head = msgspec.structs.replace(new_head(), n=last)
    ledger = Ledger(keys, head)
    ledger.salvage = salvage
    for no, body in connection.execute("SELECT no, body FROM feed"):
        feed = _opened(keys, FEED_LABEL, no, body, Feed, salvage=salvage)
        if feed is not None:
            ledger.feeds[feed], ledger.feed_by_no[no] = no, feed
    for no, body in connection.execute("SELECT no, body FROM model"):
        model = _opened(keys, MODEL_LABEL, no, body, Model, salvage=salvage)
        if model is not None:
            ledger.models[model] = no
    for row, kid, sealed in connection.execute("SELECT row, kid, mark FROM forgotten ORDER BY row"):
        ledger.forgotten_rows.add(row)
        try:
            ledger.forgotten[kid] = open_forgotten(keys, row, kid, sealed)
        except Damaged:
            if not salvage:
                raise
    ledger.next_row, ledger.next_slot = connection.execute(
        "SELECT max(ifnull((SELECT max(row) FROM block), -1),"
        " ifnull((SELECT max(row) FROM forgotten), -1)) + 1,"
        " ifnull((SELECT max(slot) FROM erasable), -1) + 1"
    ).fetchone()
    return ledger


def seal_numbered(keys: HomeKeys, label: str, number: int, value: Feed | Model) -> bytes:
    """A row of `feed` or `model`: msgpack, under the home's key of that name, bound to its number."""
    return keys.seal_home(label, msgspec.msgpack.encode(value), place(number))


def open_numbered(keys: HomeKeys, label: str, number: int, sealed: bytes, kind: type[T]) -> T:
    """What `seal_numbered` was given. Raises Damaged naming table and row."""
    try:
        return msgspec.msgpack.decode(keys.open_home(label, sealed, place(number)), type=kind)
    except (SealBroken, msgspec.DecodeError, *MISTYPED) as error:
        raise Damaged(f"{label} {number}", str(error)) from error


def seal_forgotten(keys: HomeKeys, row: int, kid: bytes, mark: bytes) -> bytes:
    """The mark of a forgotten block, bound to its row and keyed id."""
    return keys.seal_home(FORGOTTEN_LABEL, mark, place(row) + kid)


def open_forgotten(keys: HomeKeys, row: int, kid: bytes, sealed: bytes) -> bytes:
    """What `seal_forgotten` was given. Raises Damaged naming the row."""
    try:
        return keys.open_home(FORGOTTEN_LABEL, sealed, place(row) + kid)
    except (SealBroken, *MISTYPED) as error:
        raise Damaged(f"forgotten row {row}", str(error)) from error


def tail_fault(last: int, said: int) -> str:
    """What is wrong when the log's last row is not the one that the head names."""
    if last < said:
        return (
            f"the log ends at row {last}, the sealed head at {said}: rows were cut off, or the head is newer"
        )
    return f"the log goes on to row {last}, the sealed head ends at {said}: it is older, or rows were added"


def _opened(
    keys: HomeKeys, label: str, number: int, sealed: bytes, kind: type[T], *, salvage: bool
) -> T | None:
    try:
        return open_numbered(keys, label, number, sealed, kind)
    except Damaged:
        if not salvage:
            raise
        return None  # `verify` names it
