"""Making things unreadable for good: forgetting blocks, cutting and pruning frames.

What is erased is a key: the wrapped key is overwritten in its slot with as many zeros. Rows of `erasable`
have one size, are only ever added at the end, and never move, so no older copy of a key is left in a page.
(SQLite's `secure_delete` alone does not give that: pages that are split or merged keep pieces of rows that
moved.) Everything here runs in the database's thread.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from loremesh.crypto.atrest import seal_block
from loremesh.node.store.blocks import KEYED_BLOCK
from loremesh.node.store.errors import UnknownRow
from loremesh.node.store.ledger import Draft, Ledger, seal_forgotten
from loremesh.node.store.log import CUT_BODY, EVENT_LEFT, GONE_LABEL, RawRow, new_erasable, raw_rows_at
from loremesh.node.store.schema import ERASED_KEY, gone_place, tally_block, tally_changed, tally_forgotten
from loremesh.node.store.staging import forget_staged
from loremesh.node.store.values import Cut, Kind, State


def forget_block(connection: sqlite3.Connection, ledger: Ledger, draft: Draft, row: int, mark: bytes) -> int:
    """Destroy the key, content and vector of the block in `row` and its events' bodies; how many events.

    `mark` is kept, sealed, under the block's keyed id. Raises UnknownRow.
    """
    found = connection.execute(f"{KEYED_BLOCK} WHERE block.row = ?", (row,)).fetchone()
    if found is None:
        raise UnknownRow(f"there is no block in row {row}", "It may have been forgotten before")
    _, slot, kid, wrapped, content = found
    events = connection.execute(
        f"SELECT n, state, body, digest FROM log WHERE {EVENT_LEFT} AND ref = ?", (row,)
    ).fetchall()
    for n, state, body, digest in events:
        if state == State.AGGREGATE:
            draft.changed -= tally_changed(draft.tally_key, n, state, body)
        leave_token(connection, ledger, draft, n, Kind.OWN, row, None, State.FORGOTTEN, digest)
    _erase_slots(connection, (slot,))
    connection.execute("DELETE FROM embedding WHERE row = ?", (row,))
    forget_staged(connection, row)
    connection.execute("DELETE FROM block WHERE row = ?", (row,))
    sealed = seal_forgotten(ledger.keys, row, kid, mark)
    connection.execute("INSERT INTO forgotten (row, kid, mark) VALUES (?, ?, ?)", (row, kid, sealed))
    draft.blocks -= tally_block(draft.tally_key, row, slot, kid, wrapped or b"", content)
    draft.records += tally_forgotten(draft.tally_key, row, kid, sealed)
    draft.forgotten[kid] = mark
    draft.gone_rows.append(row)
    return len(events)


def cut_frames(connection: sqlite3.Connection, ledger: Ledger, draft: Draft, cuts: Sequence[Cut]) -> None:
    """Give frames other bodies, under new keys, and destroy the old ones. Pruned frames stay as they are.

    Raises UnknownRow, ValueError for a row that is no frame or is named twice.
    """
    bodies = {cut.n: cut.payload for cut in cuts}
    if len(bodies) != len(cuts):
        raise ValueError("one call cuts a frame twice")
    for raw in list(raw_rows_at(connection, list(bodies))):
        if raw.kind == Kind.FRAME and raw.state == State.PRUNED:
            continue
        ref, number, slot = _frame(raw)
        _leave_sum(draft, raw)
        new_slot, key = new_erasable(connection, ledger, draft)
        body = seal_block(key, CUT_BODY, raw.n, raw.digest + bodies[raw.n], ref, number)
        connection.execute(
            "UPDATE log SET state = ?, slot = ?, body = ? WHERE n = ?", (State.CUT, new_slot, body, raw.n)
        )
        draft.changed += tally_changed(draft.tally_key, raw.n, State.CUT, body)
        _erase_slots(connection, (slot,))


def prune_frames(connection: sqlite3.Connection, ledger: Ledger, draft: Draft, numbers: Iterable[int]) -> int:
    """Destroy the bodies of the frames in these log rows; how many still had one. Raises as `cut_frames`."""
    pruned = 0
    for raw in list(raw_rows_at(connection, list(numbers))):
        if raw.kind == Kind.FRAME and raw.state == State.PRUNED:
            continue
        ref, number, slot = _frame(raw)
        _leave_sum(draft, raw)
        leave_token(connection, ledger, draft, raw.n, Kind.FRAME, ref, number, State.PRUNED, raw.digest)
        connection.execute("UPDATE log SET slot = NULL WHERE n = ?", (raw.n,))
        _erase_slots(connection, (slot,))
        pruned += 1
    return pruned


def _frame(raw: RawRow) -> tuple[int, int, int]:
    if raw.kind != Kind.FRAME or raw.ref is None or raw.number is None or raw.slot is None:
        raise ValueError(f"log row {raw.n} is no frame: only frames are cut or pruned")
    return raw.ref, raw.number, raw.slot


def _leave_sum(draft: Draft, raw: RawRow) -> None:
    if raw.state != State.WHOLE:
        draft.changed -= tally_changed(draft.tally_key, raw.n, raw.state, raw.body)


def leave_token(
    connection: sqlite3.Connection,
    ledger: Ledger,
    draft: Draft,
    n: int,
    kind: Kind,
    ref: int,
    number: int | None,
    state: State,
    digest: bytes,
) -> bytes:
    """In place of the body stays the proof that it was taken away by whoever has the home's keys: this."""
    token = ledger.keys.seal_home(GONE_LABEL, b"", gone_place(n, kind, ref, number, state, digest))
    connection.execute("UPDATE log SET state = ?, body = ? WHERE n = ?", (state, token, n))
    draft.changed += tally_changed(draft.tally_key, n, state, token)
    return token


def _erase_slots(connection: sqlite3.Connection, slots: Iterable[int]) -> None:
    connection.executemany(
        "UPDATE erasable SET wrapped = ? WHERE slot = ?", [(ERASED_KEY, slot) for slot in slots]
    )
