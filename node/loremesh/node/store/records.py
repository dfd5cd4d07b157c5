"""Named values that are neither events nor blocks: spaces, settings of the node, positions of its own.

Each is sealed under the home's key; its name is on disk only as a keyed hash. Runs in the database's thread.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

import msgspec

from loremesh.crypto.atrest import HomeKeys
from loremesh.crypto.errors import SealBroken
from loremesh.node.store.errors import Damaged
from loremesh.node.store.ledger import Draft, Ledger
from loremesh.node.store.schema import MISTYPED, tally_record

RECORD_LABEL = "record"
NAME_CHARACTERS_MAX = 200
VALUE_BYTES_MAX = 16 << 20
"""A space's record with its members and positions has some kilobytes; this bounds a mistake."""


def put_records(
    connection: sqlite3.Connection, ledger: Ledger, draft: Draft, records: Mapping[str, bytes | None]
) -> None:
    """Set each record to its value; None removes it. Raises ValueError for a name or value out of bounds."""
    for name, value in records.items():
        if not 0 < len(name) <= NAME_CHARACTERS_MAX or len(value or b"") > VALUE_BYTES_MAX:
            raise ValueError(
                f"a record's name has 1 to {NAME_CHARACTERS_MAX} characters and its value at most"
                f" {VALUE_BYTES_MAX} bytes, not {len(name)} and {len(value or b'')}"
            )
        kid = record_id(ledger.keys, name)
        before = connection.execute("SELECT body FROM record WHERE kid = ?", (kid,)).fetchone()
        if before is not None:
            draft.records -= tally_record(draft.tally_key, kid, before[0])
        if value is None:
            connection.execute("DELETE FROM record WHERE kid = ?", (kid,))
            continue
        body = ledger.keys.seal_home(RECORD_LABEL, msgspec.msgpack.encode((name, value)), kid)
        connection.execute(
            "INSERT INTO record (kid, body) VALUES (?, ?)"
            " ON CONFLICT (kid) DO UPDATE SET body = excluded.body",
            (kid, body),
        )
        draft.records += tally_record(draft.tally_key, kid, body)


def read_record(connection: sqlite3.Connection, ledger: Ledger, name: str) -> bytes | None:
    """A record's value, None when there is none. Raises Damaged."""
    kid = record_id(ledger.keys, name)
    found = connection.execute("SELECT body FROM record WHERE kid = ?", (kid,)).fetchone()
    return None if found is None else open_record(ledger.keys, kid, found[0])[1]


def read_records(connection: sqlite3.Connection, ledger: Ledger, prefix: str) -> dict[str, bytes]:
    """All records whose name begins with `prefix`, by name. Raises Damaged."""
    opened = (
        open_record(ledger.keys, kid, body)
        for kid, body in connection.execute("SELECT kid, body FROM record")
    )
    return dict(sorted((name, value) for name, value in opened if name.startswith(prefix)))


def open_record(keys: HomeKeys, kid: bytes, body: bytes) -> tuple[str, bytes]:
    """(name, value) of a stored record. Raises Damaged."""
    try:
        name, value = msgspec.msgpack.decode(keys.open_home(RECORD_LABEL, body, kid), type=tuple[str, bytes])
    except (SealBroken, msgspec.DecodeError, *MISTYPED) as error:
        raise Damaged(f"record {kid!r}", f"it was altered or moved: {error}") from error
    return name, value


def record_id(keys: HomeKeys, name: str) -> bytes:
    """What stands for a record's name on disk."""
    return keys.keyed_id(b"record/" + name.encode("utf-8"))
