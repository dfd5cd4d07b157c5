"""The log: appending rows and reading them back, each opened and checked. Runs in the database's thread."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

from loremesh.crypto.atrest import open_block, seal_block
from loremesh.crypto.errors import SealBroken
from loremesh.node.store.blocks import block_keys
from loremesh.node.store.errors import Damaged, FrameExists, UnknownRow
from loremesh.node.store.ledger import FEED_LABEL, Draft, Ledger, seal_numbered
from loremesh.node.store.schema import HASH_BYTES, MISTYPED, digest_of, gone_place, next_running, place
from loremesh.node.store.values import (
    Feed,
    FeedPosition,
    FrameRow,
    HomeEvent,
    Kind,
    LogRow,
    NewRow,
    OwnEvent,
    Position,
    State,
    StoredFrame,
)

EVENT, AGGREGATE_BODY, FRAME_BODY, CUT_BODY = "event", "aggregate", "frame-body", "cut-body"
HOME_LABEL, HEADER_LABEL, GONE_LABEL = "event", "frame-header", "gone"
BATCH_BYTES = 4 << 20
"""Sealed bytes read at a time: frames are up to 256 KiB, and memory is bounded."""
BATCH_ROWS = 4096
APPEND_ROWS_MAX = 65_536
"""Rows of one append: one transaction, all of it in memory."""

EVENT_LEFT = f"log.kind = {Kind.OWN} AND log.state <> {State.FORGOTTEN} AND log.state <> {State.AGGREGATED}"
"""In the words of the index `log_event`, so that it is used."""

_ROW = (
    "SELECT log.n, log.kind, log.ref, log.number, log.slot, log.state, log.header, log.body, log.digest,"
    " erasable.wrapped, block.slot FROM log"
    " LEFT JOIN block ON log.kind = 1 AND block.row = log.ref"
    " LEFT JOIN erasable ON erasable.slot = ifnull(log.slot, block.slot)"
)


class RawRow(NamedTuple):
    """A log row as stored, with the wrapped key that its body is sealed under (None for HOME)."""

    n: int
    kind: int
    ref: int | None
    number: int | None
    slot: int | None
    state: int
    header: bytes | None
    body: bytes | None
    digest: bytes
    wrapped: bytes | None
    block_slot: int | None


class Batch(NamedTuple):
    """Rows read in one go, and the running hash behind them (None when none was given to start from)."""

    rows: list[LogRow]
    running: bytes | None


def append_rows(connection: sqlite3.Connection, ledger: Ledger, draft: Draft, rows: Sequence[NewRow]) -> int:
    """Seal and insert rows behind the log's end; the number of the first.

    Raises UnknownRow for an event of a block that is not stored, FrameExists, ValueError for too many rows.
    """
    if len(rows) > APPEND_ROWS_MAX:
        raise ValueError(f"one append takes at most {APPEND_ROWS_MAX} rows, not {len(rows)}")
    keys = block_keys(connection, ledger, draft, (row.row for row in rows if type(row) is OwnEvent))
    first = n = draft.n + 1
    running = draft.running
    stored = []
    for row in rows:
        ref: int | None
        number: int | None
        slot: int | None
        header: bytes | None
        match row:
            case OwnEvent(row=block_row, payload=payload):
                kind, ref, number, slot, header = Kind.OWN, block_row, None, None, None
                body = seal_block(keys[block_row], EVENT, block_row, payload, n)
            case HomeEvent(payload=payload):
                kind, ref, number, slot, header = Kind.HOME, None, None, None, None
                body = ledger.keys.seal_home(HOME_LABEL, payload, place(n))
            case FrameRow():
                kind, number = Kind.FRAME, row.number
                ref = _feed_number(connection, ledger, draft, row.feed)
                slot, key = new_erasable(connection, ledger, draft)
                body = seal_block(key, FRAME_BODY, n, row.payload, ref, number)
                header = ledger.keys.seal_home(HEADER_LABEL, row.header, place(n, ref, number))
        digest = digest_of(header, body)
        running = next_running(running, n, kind, ref, number, digest)
        stored.append((n, kind, ref, number, slot, header, body, digest))
        n += 1
    try:
        connection.executemany(
            "INSERT INTO log (n, kind, ref, number, slot, state, header, body, digest)"
            " VALUES (?, ?, ?, ?, ?, 0, ?, ?, ?)",
            stored,
        )
    except sqlite3.IntegrityError as error:
        raise FrameExists(
            f"a frame among rows {first} to {n - 1} has a feed and number that are stored already",
            "A frame is stored once; ask `frames` what is held before storing one",
        ) from error
    draft.n, draft.running = n - 1, running
    return first


def new_erasable(connection: sqlite3.Connection, ledger: Ledger, draft: Draft) -> tuple[int, bytes]:
    """(slot, key): a new key for something that may have to go, wrapped and stored in the next slot."""
    slot = draft.next_slot
    key, wrapped = ledger.keys.new_block_key(slot)
    connection.execute("INSERT INTO erasable (slot, wrapped) VALUES (?, ?)", (slot, wrapped))
    draft.next_slot = slot + 1
    return slot, key


def _feed_number(connection: sqlite3.Connection, ledger: Ledger, draft: Draft, feed: Feed) -> int:
    no = ledger.feeds.get(feed) or draft.feeds.get(feed)
    if no is None:
        no = draft.feeds[feed] = len(ledger.feeds) + len(draft.feeds) + 1
        connection.execute(
            "INSERT INTO feed (no, body) VALUES (?, ?)",
            (no, seal_numbered(ledger.keys, FEED_LABEL, no, feed)),
        )
    return no


def read_batch(
    connection: sqlite3.Connection,
    ledger: Ledger,
    after: int,
    upto: int,
    running: bytes | None,
    *,
    salvage: bool,
) -> Batch:
    """The next rows behind `after`, at most BATCH_ROWS or about BATCH_BYTES, none behind `upto`.

    Raises Damaged for the first row that is missing or does not open; with `salvage` a missing row is passed
    over and one that does not open comes as DAMAGED.
    """
    rows: list[LogRow] = []
    size, expected = 0, after
    for raw in raw_rows(connection, after, upto):
        expected += 1
        if raw.n != expected:
            if not salvage:
                raise Damaged(f"log row {expected}", "it is missing")
            expected = raw.n
        try:
            rows.append(open_row(ledger, raw))
        except Damaged:
            if not salvage:
                raise
            rows.append(LogRow(raw.n, Kind.HOME, State.DAMAGED, -1, None, 0, b"", None))
        if running is not None:
            running = next_running(running, raw.n, raw.kind, raw.ref, raw.number, raw.digest)
        size += len(raw.body or b"")
        if size >= BATCH_BYTES:
            break
    return Batch(rows, running)


def raw_rows(
    connection: sqlite3.Connection, after: int, upto: int, count: int = BATCH_ROWS
) -> Iterator[RawRow]:
    """Rows behind `after` up to `upto`, as stored."""
    cursor = connection.execute(
        f"{_ROW} WHERE log.n > ? AND log.n <= ? ORDER BY log.n LIMIT ?", (after, upto, count)
    )
    with closing(cursor):
        yield from map(RawRow._make, cursor)


def rows_at(connection: sqlite3.Connection, ledger: Ledger, numbers: Sequence[int]) -> list[LogRow]:
    """The log rows with these numbers, ascending. Raises UnknownRow for one that is not there."""
    return [open_row(ledger, raw) for raw in raw_rows_at(connection, numbers)]


def raw_rows_at(connection: sqlite3.Connection, numbers: Sequence[int]) -> Iterator[RawRow]:
    """The rows with these numbers, ascending, as stored. Raises UnknownRow for one that is not there."""
    for n in sorted(set(map(int, numbers))):
        found = connection.execute(f"{_ROW} WHERE log.n = ?", (n,)).fetchone()
        if found is None:
            raise UnknownRow(f"the log has no row {n}", "Its rows are numbered from 1 up to `position.n`")
        yield RawRow._make(found)


def events_of(
    connection: sqlite3.Connection, ledger: Ledger, row: int, after: int, limit: int
) -> list[LogRow]:
    """At most `limit` own events about the block in `row`, behind log row `after`, ascending.

    Those that are gone (forgotten, or an aggregate stands for them) are left out: the index leads past them.
    """
    found = connection.execute(
        f"{_ROW} WHERE {EVENT_LEFT} AND log.ref = ? AND log.n > ? ORDER BY log.n LIMIT ?", (row, after, limit)
    ).fetchall()
    return [open_row(ledger, RawRow._make(raw)) for raw in found]


def newest_of(connection: sqlite3.Connection, ledger: Ledger, row: int, limit: int) -> list[LogRow]:
    """The last `limit` own events about the block in `row`, newest first."""
    found = connection.execute(
        f"{_ROW} WHERE {EVENT_LEFT} AND log.ref = ? ORDER BY log.n DESC LIMIT ?", (row, limit)
    ).fetchall()
    return [open_row(ledger, RawRow._make(raw)) for raw in found]


def home_events(connection: sqlite3.Connection, ledger: Ledger, after: int) -> list[LogRow]:
    """Every event about no block behind log row `after`, ascending."""
    found = connection.execute(f"{_ROW} WHERE log.kind = 2 AND log.n > ? ORDER BY log.n", (after,)).fetchall()
    return [open_row(ledger, RawRow._make(raw)) for raw in found]


def aggregate_of(connection: sqlite3.Connection, ledger: Ledger, row: int) -> bytes | None:
    """The last aggregate of the block in `row`, None where there is none."""
    found = connection.execute(
        f"{_ROW} WHERE {EVENT_LEFT} AND log.ref = ? AND log.state = {State.AGGREGATE}"
        " ORDER BY log.n DESC LIMIT 1",
        (row,),
    ).fetchone()
    return None if found is None else open_row(ledger, RawRow._make(found)).payload


def event_counts(connection: sqlite3.Connection, ledger: Ledger, above: int) -> list[tuple[int, int]]:
    """(block row, own events that are left) of the blocks with more than `above`, by row."""
    return connection.execute(
        f"SELECT ref, count(*) FROM log WHERE {EVENT_LEFT} GROUP BY ref HAVING count(*) > ?", (above,)
    ).fetchall()


def frames_of(
    connection: sqlite3.Connection, ledger: Ledger, feed: Feed, first: int, last: int, budget_bytes: int
) -> list[StoredFrame]:
    """Frames `first` to `last` of a feed that are held, ascending; one, and more while the budget lasts."""
    no = ledger.feeds.get(feed)
    if no is None:
        return []
    frames: list[StoredFrame] = []
    size = 0
    cursor = connection.execute(
        f"{_ROW} WHERE log.kind = 3 AND log.ref = ? AND log.number BETWEEN ? AND ? ORDER BY log.number",
        (no, first, last),
    )
    with closing(cursor):
        for raw in map(RawRow._make, cursor):
            row = open_row(ledger, raw)
            size += len(row.header) + len(row.payload or b"")
            if frames and size > budget_bytes:
                break
            frames.append(StoredFrame(row.n, row.number, row.state, row.header, row.payload))
    return frames


def frame_numbers(connection: sqlite3.Connection, ledger: Ledger) -> list[int]:
    """The log rows that are frames, ascending, found without a look at the others."""
    return sorted(n for (n,) in connection.execute("SELECT n FROM log INDEXED BY log_frame WHERE kind = 3"))


def positions_of(connection: sqlite3.Connection, ledger: Ledger) -> list[FeedPosition]:
    """What is held of every feed."""
    found = connection.execute(
        "SELECT ref, min(number), max(number), count(*) FROM log WHERE kind = 3 GROUP BY ref"
    )
    return [FeedPosition(ledger.feed_by_no[no], *rest) for no, *rest in found if no in ledger.feed_by_no]


def follows(connection: sqlite3.Connection, ledger: Ledger, position: Position) -> bool:
    """Whether the running hash leads from `position`, row by row, to the head, with nothing erased since."""
    if position.n > ledger.head.n or position.erasures != ledger.head.erasures:
        return False
    running, last = position.running, position.n
    cursor = connection.execute(
        "SELECT n, kind, ref, number, digest FROM log WHERE n > ? AND n <= ? ORDER BY n",
        (position.n, ledger.head.n),
    )
    for n, kind, ref, number, digest in cursor:
        running, last = next_running(running, n, kind, ref, number, digest), last + 1
        if n != last:
            return False
    return last == ledger.head.n and running == ledger.head.running


def open_row(ledger: Ledger, raw: RawRow) -> LogRow:
    """A stored row, opened. Raises Damaged naming its number and what is wrong with it."""
    n, kind_no, ref, number, slot, state_no, sealed_header, body, digest, _, _ = raw
    form = _FORMS.get((kind_no, state_no))
    shape = (ref is None, number is None, slot is None, sealed_header is None, body is None)
    if form is None or form.missing != shape:
        raise Damaged(f"log row {n}", _misfit(kind_no, state_no))
    kind, state = form.kind, form.state
    try:
        if state is State.WHOLE and digest_of(sealed_header, body) != digest:
            raise Damaged(f"log row {n}", "what it holds is not what its digest says: it was altered")
        header = b""
        feed = None
        if kind is Kind.FRAME:
            feed = ledger.feed_by_no.get(ref or 0)
            if feed is None:
                raise Damaged(f"log row {n}", f"it belongs to feed {ref}, which is missing or damaged")
            header = ledger.keys.open_home(
                HEADER_LABEL, sealed_header or b"", place(n, ref or 0, number or 0)
            )
        payload = _opened_body(ledger, raw, kind, state)
    except (SealBroken, *MISTYPED) as error:
        raise Damaged(f"log row {n}", f"it was altered, or belongs to another place: {error}") from error
    row = ref if kind is Kind.OWN and ref is not None else -1
    return LogRow(n, kind, state, row, feed, number or 0, header, payload)


class _Form(NamedTuple):
    """What a row is, and which of ref, number, slot, header and body are NULL in such a one."""

    kind: Kind
    state: State
    missing: tuple[bool, bool, bool, bool, bool]


_FORMS = {
    (int(form.kind), int(form.state)): form
    for form in (
        _Form(Kind.OWN, State.WHOLE, (False, True, True, True, False)),
        _Form(Kind.OWN, State.FORGOTTEN, (False, True, True, True, False)),
        _Form(Kind.OWN, State.AGGREGATE, (False, True, True, True, False)),
        _Form(Kind.OWN, State.AGGREGATED, (False, True, True, True, False)),
        _Form(Kind.HOME, State.WHOLE, (True, True, True, True, False)),
        _Form(Kind.FRAME, State.WHOLE, (False, False, False, False, False)),
        _Form(Kind.FRAME, State.CUT, (False, False, False, False, False)),
        _Form(Kind.FRAME, State.PRUNED, (False, False, True, False, False)),
    )
}
"""Every form that there is, by the numbers stored: of a million rows each is looked up once."""


def _misfit(kind: int, state: int) -> str:
    try:
        return f"its columns do not fit what it is ({Kind(kind).name}, {State(state).name})"
    except ValueError:
        return f"kind {kind} or state {state} is none that this schema has"


def _opened_body(ledger: Ledger, raw: RawRow, kind: Kind, state: State) -> bytes | None:
    body, keys = raw.body or b"", ledger.keys
    if state in (State.PRUNED, State.FORGOTTEN, State.AGGREGATED):
        keys.open_home(
            GONE_LABEL, body, gone_place(raw.n, raw.kind, raw.ref, raw.number, raw.state, raw.digest)
        )
        return None
    if kind is Kind.HOME:
        return keys.open_home(HOME_LABEL, body, place(raw.n))
    if kind is Kind.OWN:
        row = raw.ref or 0
        key = ledger.block_keys.get(row)
        if key is None:
            if raw.block_slot is None:
                raise Damaged(f"log row {raw.n}", f"its block (row {row}) is missing")
            key = _unwrapped(ledger, raw, raw.block_slot)
            ledger.remember_keys({row: key})
        if state is State.AGGREGATE:
            return _with_digest(raw, open_block(key, AGGREGATE_BODY, row, body, raw.n))
        return open_block(key, EVENT, row, body, raw.n)
    key = _unwrapped(ledger, raw, raw.slot or 0)
    if state is State.CUT:
        return _with_digest(raw, open_block(key, CUT_BODY, raw.n, body, raw.ref or 0, raw.number or 0))
    return open_block(key, FRAME_BODY, raw.n, body, raw.ref or 0, raw.number or 0)


def _with_digest(raw: RawRow, body: bytes) -> bytes:
    """A body that came in the place of another, and names that one's digest."""
    if body[:HASH_BYTES] != raw.digest:
        raise Damaged(f"log row {raw.n}", "its digest was altered after its body was replaced")
    return body[HASH_BYTES:]


def _unwrapped(ledger: Ledger, raw: RawRow, slot: int) -> bytes:
    if raw.wrapped is None:
        raise Damaged(f"log row {raw.n}", f"its key is missing (slot {slot})")
    return ledger.keys.unwrap_block_key(slot, raw.wrapped)
