"""The tables and the exact bytes: what is bound to what, what is hashed, what the sealed head holds.

Pure: nothing here reads or writes. The README of this folder tells the same for a second implementation.
"""

from __future__ import annotations

import hmac
import struct
from hashlib import sha256

import msgspec

APPLICATION_ID = 0x4C4D4831
"""SQLite's `application_id` of a loremesh home: "LMH1"."""
SCHEMA = 1
"""SQLite's `user_version`: the form of the tables and of everything in them."""
PAGE_BYTES = 8192

HASH_BYTES = 32
RUNNING_START = bytes(HASH_BYTES)
ABSENT = 2**64 - 1
"""Stands for "none" where a number is hashed."""
MISTYPED = (TypeError, ValueError, OverflowError, struct.error)
"""What reading raises when damage made a stored value one of another type or size than its column's."""
ERASED_KEY = bytes(60)
"""What overwrites a wrapped key in place."""

TABLES = """
CREATE TABLE head (id INTEGER PRIMARY KEY CHECK (id = 1), body BLOB NOT NULL);
CREATE TABLE erasable (slot INTEGER PRIMARY KEY, wrapped BLOB NOT NULL);
CREATE TABLE block (row INTEGER PRIMARY KEY, slot INTEGER NOT NULL, kid BLOB NOT NULL UNIQUE,
                    content BLOB NOT NULL);
CREATE TABLE embedding (row INTEGER PRIMARY KEY, model INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE model (no INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE feed (no INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE log (n INTEGER PRIMARY KEY, kind INTEGER NOT NULL, ref INTEGER, number INTEGER, slot INTEGER,
                  state INTEGER NOT NULL, header BLOB, body BLOB, digest BLOB NOT NULL);
CREATE INDEX log_event ON log (ref) WHERE kind = 1 AND state <> 3 AND state <> 5;
CREATE INDEX log_home ON log (kind) WHERE kind = 2;
CREATE UNIQUE INDEX log_frame ON log (ref, number) WHERE kind = 3;
CREATE TABLE forgotten (row INTEGER PRIMARY KEY, kid BLOB NOT NULL, mark BLOB NOT NULL);
CREATE TABLE record (kid BLOB PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
"""

_CHAINED = struct.Struct(">QBQQ")
_LENGTH = struct.Struct(">I")
_NO_HEADER = _LENGTH.pack(0)
_ID = struct.Struct(">32s")


class Head(msgspec.Struct, frozen=True, array_like=True):
    """What the one row of `head` says, sealed: where the log ends, and sums over what may change.

    A sum is the total, modulo 2²⁵⁶, of one HMAC per row (`tally`): rows may come, change and go in any order,
    and whoever drops one, or puts an older one back, cannot make the sum fit without the key, which is here.
    """

    n: int
    """The number of the last log row; 0 for an empty log."""
    running: bytes
    """The running hash after it."""
    tally_key: bytes
    """32 random bytes, made with the home."""
    changed: bytes
    """Sum over log rows that are no longer whole."""
    blocks: bytes
    """Sum over blocks with their keys and contents."""
    records: bytes
    """Sum over records and over what was forgotten."""
    erasures: int
    """How many transactions erased something (forget, rewrite): older checkpoints are worthless."""


def digest_of(header: bytes | None, body: bytes | None) -> bytes:
    """SHA-256(length of header (u32) ‖ sealed header ‖ sealed body): what a log row keeps for good."""
    if not header:
        return sha256(_NO_HEADER + (body or b"")).digest()
    return sha256(b"".join((_LENGTH.pack(len(header)), header, body or b""))).digest()


def next_running(
    running: bytes, n: int, kind: int, ref: int | None, number: int | None, digest: bytes
) -> bytes:
    """SHA-256(running ‖ n (u64) ‖ kind (u8) ‖ ref (u64) ‖ number (u64) ‖ digest); an absent one is 2⁶⁴−1."""
    placed = _CHAINED.pack(n, kind, ABSENT if ref is None else ref, ABSENT if number is None else number)
    return sha256(running + placed + digest).digest()


def gone_place(n: int, kind: int, ref: int | None, number: int | None, state: int, digest: bytes) -> bytes:
    """Associated data of what stands in a body's place once it is gone: all that stays of the row."""
    return (
        place(n, kind, ABSENT if ref is None else ref, ABSENT if number is None else number, state) + digest
    )


def place(*numbers: int) -> bytes:
    """Associated data that binds something sealed under the home's key to its place: each number as u64."""
    return b"".join(number.to_bytes(8, "big") for number in numbers)


def tally(key: bytes, table: bytes, *parts: bytes) -> int:
    """HMAC-SHA256(key, table ‖ 0 ‖ each part with its length (u32) before it) as a number."""
    message = bytearray(table + b"\0")
    for part in parts:
        message += _LENGTH.pack(len(part)) + part
    return int.from_bytes(hmac.digest(key, message, "sha256"), "big")


def tally_block(key: bytes, row: int, slot: int, kid: bytes, wrapped: bytes, content: bytes) -> int:
    """The part of a block in the sum `blocks`."""
    return tally(key, b"block", place(row, slot), kid, wrapped, content)


def tally_changed(key: bytes, n: int, state: int, body: bytes | None) -> int:
    """The part of a log row that is no longer whole in the sum `changed`."""
    return tally(key, b"changed", place(n, state), body or b"")


def tally_forgotten(key: bytes, row: int, kid: bytes, mark: bytes) -> int:
    """The part of a forgotten block in the sum `records`."""
    return tally(key, b"forgotten", place(row), kid, mark)


def tally_record(key: bytes, kid: bytes, body: bytes) -> int:
    """The part of a record in the sum `records`."""
    return tally(key, b"record", kid, body)


def summed(total: bytes, plus: int) -> bytes:
    """A sum of the head with `plus` (negative to take away) added, modulo 2²⁵⁶."""
    return ((int.from_bytes(total, "big") + plus) % (1 << 256)).to_bytes(HASH_BYTES, "big")


def encode_content(block_id: bytes, text: str | None) -> bytes:
    """What is sealed as a block's content: its 32-byte id ‖ its text in UTF-8 (nothing while unknown)."""
    return _ID.pack(block_id) + (text.encode("utf-8") if text is not None else b"")


def decode_content(content: bytes) -> tuple[bytes, str | None]:
    """(id, text) of `encode_content`."""
    return content[:HASH_BYTES], content[HASH_BYTES:].decode("utf-8") if len(content) > HASH_BYTES else None
