"""Own events that give way to aggregates. Runs in the database's thread.

An aggregate takes the place of one event: sealed under the block's key like any event, but under a label of
its own, with the digest of what stood there. In the place of the others stays what forgetting leaves, too: a
token that says who took the body away. Nothing here is secret from whoever has the keys, so nothing is
overwritten beyond what `secure_delete` does.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from loremesh.crypto.atrest import seal_block
from loremesh.node.store.blocks import block_keys
from loremesh.node.store.erase import leave_token
from loremesh.node.store.errors import UnknownRow
from loremesh.node.store.ledger import Draft, Ledger
from loremesh.node.store.log import AGGREGATE_BODY
from loremesh.node.store.schema import tally_changed
from loremesh.node.store.values import Compacted, Kind, Replaced, State

NUMBERS_AT_A_TIME = 500
"""Numbers in one query."""

_Found = tuple[int, int, int, int, bytes, bytes]
"""n, kind, block row, state, body, digest."""


def replace_events(
    connection: sqlite3.Connection, ledger: Ledger, draft: Draft, replaced: Sequence[Replaced]
) -> Compacted:
    """Put each aggregate in the place of the event in its row. Raises UnknownRow, ValueError."""
    payloads = {one.n: one.payload for one in replaced}
    found = list(_left(connection, list(payloads)))
    keys = block_keys(connection, ledger, draft, (row for _, _, row, *_ in found))
    freed = 0
    for n, _, row, state, body, digest in found:
        _leave_sum(draft, n, state, body)
        sealed = seal_block(keys[row], AGGREGATE_BODY, row, digest + payloads[n], n)
        connection.execute("UPDATE log SET state = ?, body = ? WHERE n = ?", (State.AGGREGATE, sealed, n))
        draft.changed += tally_changed(draft.tally_key, n, State.AGGREGATE, sealed)
        freed += len(body) - len(sealed)
    return Compacted(0, freed)


def take_away(
    connection: sqlite3.Connection, ledger: Ledger, draft: Draft, numbers: Sequence[int]
) -> Compacted:
    """Leave nothing of these events but number and digest. Raises UnknownRow, ValueError."""
    events = freed = 0
    for n, _, row, state, body, digest in list(_left(connection, numbers)):
        _leave_sum(draft, n, state, body)
        token = leave_token(connection, ledger, draft, n, Kind.OWN, row, None, State.AGGREGATED, digest)
        events += 1
        freed += len(body) - len(token)
    return Compacted(events, freed)


def _left(connection: sqlite3.Connection, numbers: Sequence[int]) -> Iterator[_Found]:
    """The rows with these numbers that still hold an event or an aggregate."""
    ordered = sorted(set(numbers))
    for start in range(0, len(ordered), NUMBERS_AT_A_TIME):
        part = ordered[start : start + NUMBERS_AT_A_TIME]
        marks = ", ".join("?" * len(part))
        found: list[_Found] = connection.execute(
            f"SELECT n, kind, ref, state, body, digest FROM log WHERE n IN ({marks}) ORDER BY n", part
        ).fetchall()
        if len(found) != len(part):
            missing = min(set(part) - {one[0] for one in found})
            raise UnknownRow(
                f"the log has no row {missing}", "Its rows are numbered from 1 up to `position.n`"
            )
        for one in found:
            if one[1] != Kind.OWN:
                raise ValueError(f"log row {one[0]} is no event about a block: only these become aggregates")
            if one[3] in (State.WHOLE, State.AGGREGATE):
                yield one


def _leave_sum(draft: Draft, n: int, state: int, body: bytes) -> None:
    if state != State.WHOLE:
        draft.changed -= tally_changed(draft.tally_key, n, state, body)
