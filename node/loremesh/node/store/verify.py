"""Reading everything and naming what is not as it was written. Runs in the database's thread.

What can be found, by whoever holds the home's keys: every change of a stored byte that matters, rows that
were swapped, added or dropped, a log that was cut off, an older head with newer rows, a newer head with older
rows, single rows put back to what they once were. What cannot: the whole database as it was at some earlier
time. Only something outside the home tells that (DESIGN §4, "Restore, copy, fork").
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable

from loremesh.node.store import staging
from loremesh.node.store.blocks import EMBEDDED_BLOCK, opened_content, opened_vector, unwrapped
from loremesh.node.store.errors import Damaged
from loremesh.node.store.ledger import (
    FEED_LABEL,
    MODEL_LABEL,
    Ledger,
    Model,
    load_head,
    open_forgotten,
    open_numbered,
    tail_fault,
)
from loremesh.node.store.log import BATCH_ROWS, open_row, raw_rows
from loremesh.node.store.records import open_record, record_id
from loremesh.node.store.schema import (
    ERASED_KEY,
    HASH_BYTES,
    MISTYPED,
    RUNNING_START,
    Head,
    next_running,
    summed,
    tally_block,
    tally_changed,
    tally_forgotten,
    tally_record,
)
from loremesh.node.store.values import Fault, Feed, State, Verified

FAULTS_MAX = 1000
"""Faults that are named one by one; the rest is counted."""
PAGES_MAX = 100
"""Lines asked of SQLite's own check of the file's pages."""
NUMBER_MAX = 2**63 - 1


class _Findings:
    """Faults as they are found."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.beyond = 0

    def add(self, where: str, what: str) -> None:
        if len(self.faults) < FAULTS_MAX:
            self.faults.append(Fault(where, what))
        else:
            self.beyond += 1

    def add_error(self, damaged: Damaged) -> None:
        self.add(damaged.where, damaged.what)

    @property
    def count(self) -> int:
        return len(self.faults) + self.beyond


def verify(connection: sqlite3.Connection, ledger: Ledger) -> Verified:
    """Read and check every table. Never raises for damage; nothing else is read or written meanwhile."""
    found = _Findings()
    states: Counter[int] = Counter()
    blocks = 0
    head: Head | None = None

    def read_head() -> None:
        nonlocal head
        try:
            head = load_head(connection, ledger.keys)
        except Damaged as damaged:
            found.add_error(damaged)

    _part(found, "head", read_head)
    _part(found, "memory.db", lambda: _check_pages(connection, found))
    _part(found, "feed", lambda: _check_numbered(connection, ledger, found))
    _part(found, "log", lambda: states.update(_check_log(connection, ledger, head, found)))

    def count_blocks() -> None:
        nonlocal blocks
        blocks = _check_blocks(connection, ledger, head, found)

    _part(found, "block", count_blocks)
    _part(found, "erasable", lambda: _check_slots(connection, found))
    _part(found, "record", lambda: _check_records(connection, ledger, head, found))
    return Verified(
        rows=states.total(),
        whole=states[State.WHOLE],
        cut=states[State.CUT],
        pruned=states[State.PRUNED],
        forgotten=states[State.FORGOTTEN],
        aggregates=states[State.AGGREGATE],
        aggregated=states[State.AGGREGATED],
        blocks=blocks,
        faults=found.faults,
        more_faults=found.beyond,
    )


def _part(found: _Findings, where: str, check: Callable[[], None]) -> None:
    try:
        check()
    except (sqlite3.DatabaseError, *MISTYPED) as error:
        found.add(where, f"it cannot be read: {error}")


def _check_pages(connection: sqlite3.Connection, found: _Findings) -> None:
    for (line,) in connection.execute(f"PRAGMA integrity_check({PAGES_MAX})"):
        if line != "ok":
            found.add("memory.db", f"SQLite finds: {line}")


def _check_numbered(connection: sqlite3.Connection, ledger: Ledger, found: _Findings) -> None:
    for table, label, kind in (("feed", FEED_LABEL, Feed), ("model", MODEL_LABEL, Model)):
        for no, body in connection.execute(f"SELECT no, body FROM {table}"):
            try:
                open_numbered(ledger.keys, label, no, body, kind)
            except Damaged as damaged:
                found.add_error(damaged)


def _check_log(
    connection: sqlite3.Connection, ledger: Ledger, head: Head | None, found: _Findings
) -> Counter[int]:
    """Rows by state. Sums and the running hash are complained of only where no single row explains them."""
    before = found.count
    states: Counter[int] = Counter()
    running, changed, last = RUNNING_START, bytes(HASH_BYTES), 0
    while True:
        read = 0
        for raw in raw_rows(connection, last, NUMBER_MAX):
            if raw.n != last + 1:
                found.add(_span(last + 1, raw.n - 1), "missing")
            last, read = raw.n, read + 1
            states[raw.state] += 1
            try:
                open_row(ledger, raw)
                running = next_running(running, raw.n, raw.kind, raw.ref, raw.number, raw.digest)
                if head is not None and raw.state != State.WHOLE:
                    changed = summed(changed, tally_changed(head.tally_key, raw.n, raw.state, raw.body))
            except Damaged as damaged:
                found.add_error(damaged)
        if read < BATCH_ROWS:
            break
    if head is None:
        return states
    if last != head.n:
        found.add(_span(min(last, head.n) + 1, max(last, head.n)), tail_fault(last, head.n))
    elif found.count == before and running != head.running:
        found.add("log", "its running hash is not the sealed head's: rows were put back as they were before")
    elif found.count == before and changed != head.changed:
        found.add(
            "log", "a row that was cut, pruned or forgotten was put back as it was before, or the other way"
        )
    return states


def _check_blocks(connection: sqlite3.Connection, ledger: Ledger, head: Head | None, found: _Findings) -> int:
    before = found.count
    total, count = bytes(HASH_BYTES), 0
    for row, slot, kid, wrapped, content, model, embedding in connection.execute(EMBEDDED_BLOCK):
        count += 1
        try:
            key = unwrapped(ledger.keys, row, slot, wrapped)
            block_id, _ = opened_content(key, row, content)
            if ledger.keys.keyed_id(block_id) != kid:
                raise Damaged(f"block row {row}", "its keyed id is not that of its content")
            if embedding is not None:
                opened_vector(key, row, embedding, model)
            if head is not None:
                total = summed(total, tally_block(head.tally_key, row, slot, kid, wrapped, content))
        except Damaged as damaged:
            found.add_error(damaged)
    tables = ("embedding", "staged") if staging.exists(connection) else ("embedding",)
    for table in tables:
        unowned = f"SELECT row FROM {table} WHERE row NOT IN (SELECT row FROM block)"
        for (row,) in connection.execute(unowned):
            found.add(f"block row {row}", "it is missing, but its embedding is here")
    for row, slot, wrapped, model, body in staging.read_all(connection):
        try:
            opened_vector(unwrapped(ledger.keys, row, slot, wrapped), row, body, model)
        except Damaged as damaged:
            found.add_error(damaged)
    if head is not None and found.count == before and total != head.blocks:
        found.add("block", "a block is missing, or was put back as it was before")
    return count


def _check_slots(connection: sqlite3.Connection, found: _Findings) -> None:
    left = connection.execute(
        "SELECT slot FROM erasable WHERE wrapped <> ? AND slot NOT IN (SELECT slot FROM block)"
        " AND slot NOT IN (SELECT slot FROM log WHERE slot IS NOT NULL)",
        (ERASED_KEY,),
    )
    for (slot,) in left:
        found.add(
            f"erasable slot {slot}", "a key that nothing is sealed under: it was put back after it was erased"
        )


def _check_records(
    connection: sqlite3.Connection, ledger: Ledger, head: Head | None, found: _Findings
) -> None:
    before = found.count
    total = bytes(HASH_BYTES)
    for kid, body in connection.execute("SELECT kid, body FROM record"):
        try:
            name, _ = open_record(ledger.keys, kid, body)
            if record_id(ledger.keys, name) != kid:
                raise Damaged(f"record {kid!r}", "its keyed name is not that of its content")
            if head is not None:
                total = summed(total, tally_record(head.tally_key, kid, body))
        except Damaged as damaged:
            found.add_error(damaged)
    for row, kid, mark in connection.execute("SELECT row, kid, mark FROM forgotten"):
        try:
            open_forgotten(ledger.keys, row, kid, mark)
            if head is not None:
                total = summed(total, tally_forgotten(head.tally_key, row, kid, mark))
        except Damaged as damaged:
            found.add_error(damaged)
    if head is not None and found.count == before and total != head.records:
        found.add("record", "a record or a forgotten block is missing, or was put back as it was before")


def _span(first: int, last: int) -> str:
    return f"log row {first}" if first == last else f"log rows {first} to {last}"
