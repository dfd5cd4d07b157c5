"""Blocks in the database: their keys, contents and vectors. Runs in the database's thread."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import numpy.typing as npt

from loremesh.crypto.atrest import HomeKeys, open_block, seal_block
from loremesh.crypto.errors import SealBroken
from loremesh.node.store.errors import Damaged, UnknownRow
from loremesh.node.store.ledger import MODEL_LABEL, Draft, Ledger, Model, seal_numbered
from loremesh.node.store.schema import MISTYPED, decode_content, encode_content, tally_block
from loremesh.node.store.values import BlockBatch, NewBlock

CONTENT, EMBEDDING = "content", "embedding"
VARIABLES_MAX = 500
"""Values in one `IN (…)`; SQLite's own limit is 999 in older builds."""

KEYED_BLOCK = "SELECT block.row, block.slot, kid, wrapped, content FROM block LEFT JOIN erasable USING (slot)"

EMBEDDED_BLOCK = (
    "SELECT block.row, block.slot, kid, wrapped, content, model, embedding.body FROM block"
    " LEFT JOIN erasable USING (slot) LEFT JOIN embedding ON embedding.row = block.row ORDER BY block.row"
)


def insert_blocks(
    connection: sqlite3.Connection, ledger: Ledger, draft: Draft, blocks: Sequence[NewBlock]
) -> None:
    """Store blocks, and the texts of those that are there without one.

    Raises ValueError for a row or id that is taken by another block, or given twice in one call.
    """
    if len({block.row for block in blocks}) != len(blocks):
        raise ValueError("one append names a block row twice")
    known = [block for block in blocks if block.row < ledger.next_row]
    held = {row: rest for row, *rest in _select(connection, KEYED_BLOCK, [block.row for block in known])}
    new_keys, new_blocks = [], []
    for block in sorted(blocks, key=lambda block: block.row):
        if block.row in held:
            _bring_text(connection, ledger, draft, block, *held[block.row])
            continue
        if block.row in ledger.forgotten_rows:
            raise ValueError(f"row {block.row} was a block that was forgotten: rows are not used again")
        slot = draft.next_slot
        key, wrapped = ledger.keys.new_block_key(slot)
        content = seal_block(key, CONTENT, block.row, encode_content(block.block_id, block.text))
        kid = ledger.keys.keyed_id(block.block_id)
        new_keys.append((slot, wrapped))
        new_blocks.append((block.row, slot, kid, content))
        draft.blocks += tally_block(draft.tally_key, block.row, slot, kid, wrapped, content)
        draft.block_keys[block.row] = key
        draft.next_slot = slot + 1
        draft.next_row = max(draft.next_row, block.row + 1)
    connection.executemany("INSERT INTO erasable (slot, wrapped) VALUES (?, ?)", new_keys)
    try:
        connection.executemany("INSERT INTO block (row, slot, kid, content) VALUES (?, ?, ?, ?)", new_blocks)
    except sqlite3.IntegrityError as error:
        raise ValueError("a block's id is stored already, under another row") from error


def _bring_text(
    connection: sqlite3.Connection,
    ledger: Ledger,
    draft: Draft,
    block: NewBlock,
    slot: int,
    kid: bytes,
    wrapped: bytes,
    before: bytes,
) -> None:
    if kid != ledger.keys.keyed_id(block.block_id):
        raise ValueError(f"block row {block.row} holds a block with another id")
    key = unwrapped(ledger.keys, block.row, slot, wrapped)
    _, text = opened_content(key, block.row, before)
    if block.text is None or (text is not None and not block.replaces) or text == block.text:
        return
    content = seal_block(key, CONTENT, block.row, encode_content(block.block_id, block.text))
    connection.execute("UPDATE block SET content = ? WHERE row = ?", (content, block.row))
    draft.blocks -= tally_block(draft.tally_key, block.row, slot, kid, wrapped, before)
    draft.blocks += tally_block(draft.tally_key, block.row, slot, kid, wrapped, content)
    draft.block_keys[block.row] = key


def block_keys(
    connection: sqlite3.Connection, ledger: Ledger, draft: Draft | None, rows: Iterable[int]
) -> dict[int, bytes]:
    """The keys of these blocks, from memory or the database. Raises UnknownRow naming one not there."""
    wanted = set(rows)
    found = {row: ledger.block_keys[row] for row in wanted if row in ledger.block_keys}
    if draft is not None:
        found.update({row: draft.block_keys[row] for row in wanted if row in draft.block_keys})
    missing = sorted(wanted.difference(found))
    if missing:
        sql = "SELECT block.row, block.slot, wrapped FROM block LEFT JOIN erasable USING (slot)"
        read = {
            row: unwrapped(ledger.keys, row, slot, wrapped)
            for row, slot, wrapped in _select(connection, sql, missing)
        }
        found.update(read)
        if draft is not None:
            draft.block_keys.update(read)
        for row in missing:
            if row not in found:
                raise UnknownRow(f"there is no block in row {row}", "It may have been forgotten meanwhile")
    return found


def unwrapped(keys: HomeKeys, row: int, slot: int, wrapped: bytes | None) -> bytes:
    """The key of the block in `row`. Raises Damaged when its slot is missing or does not open."""
    if wrapped is None:
        raise Damaged(f"block row {row}", f"its key is missing (slot {slot})")
    try:
        return keys.unwrap_block_key(slot, wrapped)
    except (SealBroken, *MISTYPED) as error:
        raise Damaged(f"block row {row}", f"its key in slot {slot} was altered or moved: {error}") from error


def opened_content(key: bytes, row: int, sealed: bytes) -> tuple[bytes, str | None]:
    """(id, text or None) of a block. Raises Damaged naming its row."""
    try:
        return decode_content(open_block(key, CONTENT, row, sealed))
    except (SealBroken, *MISTYPED) as error:
        raise Damaged(f"block row {row}", f"its content was altered or moved: {error}") from error


def texts_of(connection: sqlite3.Connection, ledger: Ledger, rows: Sequence[int]) -> dict[int, str]:
    """Text by row, of those of `rows` that are here with a text."""
    found = {}
    for row, slot, _, wrapped, content in _select(connection, KEYED_BLOCK, rows):
        _, text = opened_content(unwrapped(ledger.keys, row, slot, wrapped), row, content)
        if text is not None:
            found[row] = text
    return found


def read_blocks(
    connection: sqlite3.Connection,
    ledger: Ledger,
    after: int,
    count: int,
    model: Model | None,
    *,
    salvage: bool,
) -> tuple[int, BlockBatch] | None:
    """The next `count` blocks behind row `after`, and the last row read; None when there are none.

    With `model`, vectors made by it come along. With `salvage`, blocks that do not open are left out.
    """
    number = ledger.models.get(model, -1) if model is not None else -1
    cursor = connection.execute(
        "SELECT block.row, block.slot, wrapped, content, embedding.body FROM block"
        " LEFT JOIN erasable USING (slot) LEFT JOIN embedding ON embedding.row = block.row AND model = ?"
        " WHERE block.row > ? ORDER BY block.row LIMIT ?",
        (number, after, count),
    )
    rows: list[int] = []
    ids: list[bytes] = []
    texts: list[str | None] = []
    vector_rows: list[int] = []
    vectors: list[bytes] = []
    last = after
    with closing(cursor):
        for row, slot, wrapped, content, embedding in cursor:
            last = row
            try:
                key = unwrapped(ledger.keys, row, slot, wrapped)
                block_id, text = opened_content(key, row, content)
                vector = None if embedding is None else opened_vector(key, row, embedding, number)
            except Damaged:
                if not salvage:
                    raise
                continue
            rows.append(row)
            ids.append(block_id)
            texts.append(text)
            if vector is not None:
                vector_rows.append(row)
                vectors.append(vector)
    if last == after:
        return None
    dimension = model.dimension if model is not None else 0
    stacked = np.frombuffer(b"".join(vectors), dtype="<f4").reshape(len(vectors), dimension)
    return last, BlockBatch(
        np.array(rows, dtype=np.int64), ids, texts, np.array(vector_rows, dtype=np.int64), stacked
    )


def opened_vector(key: bytes, row: int, sealed: bytes, model: int) -> bytes:
    """The float32 of a block's vector. Raises Damaged naming its row."""
    try:
        return open_block(key, EMBEDDING, row, sealed, model)
    except (SealBroken, *MISTYPED) as error:
        raise Damaged(f"block row {row}", f"its embedding was altered or moved: {error}") from error


def models_held(connection: sqlite3.Connection, ledger: Ledger) -> list[tuple[str, int, int]]:
    """(fingerprint, dimension, vectors) of every model that vectors are stored of."""
    counts = dict(connection.execute("SELECT model, count(*) FROM embedding GROUP BY model"))
    return [(m.fingerprint, m.dimension, counts[no]) for m, no in ledger.models.items() if no in counts]


def store_vectors(
    connection: sqlite3.Connection,
    ledger: Ledger,
    draft: Draft,
    rows: Sequence[int],
    vectors: npt.NDArray[np.float32],
    fingerprint: str,
) -> None:
    """Store one vector per row, replacing those of other models. Raises UnknownRow, ValueError (shapes)."""
    number = model_number(connection, ledger, draft, vectors, len(rows), fingerprint)
    connection.executemany(
        "INSERT INTO embedding (row, model, body) VALUES (?, ?, ?)"
        " ON CONFLICT (row) DO UPDATE SET model = excluded.model, body = excluded.body",
        sealed_vectors(block_keys(connection, ledger, draft, rows), rows, vectors, number),
    )


def model_number(
    connection: sqlite3.Connection,
    ledger: Ledger,
    draft: Draft,
    vectors: npt.NDArray[np.float32],
    count: int,
    fingerprint: str,
) -> int:
    """The number that the store has for the model of these vectors, given at the first. Raises ValueError."""
    if vectors.ndim != 2 or count != len(vectors):
        raise ValueError(f"{count} rows need as many vectors, not an array of shape {vectors.shape}")
    model = Model(fingerprint, vectors.shape[1])
    number = ledger.models.get(model)
    if number is None:
        number = draft.models[model] = len(ledger.models) + 1
        body = seal_numbered(ledger.keys, MODEL_LABEL, number, model)
        connection.execute("INSERT INTO model (no, body) VALUES (?, ?)", (number, body))
    return number


def sealed_vectors(
    keys: Mapping[int, bytes], rows: Sequence[int], vectors: npt.NDArray[np.float32], number: int
) -> list[tuple[int, int, bytes]]:
    """(row, model, sealed vector) of each row, ascending: so they go in fastest."""
    plain = np.ascontiguousarray(vectors, dtype="<f4")
    numbered = sorted((int(row), at) for at, row in enumerate(rows))
    return [
        (row, number, seal_block(keys[row], EMBEDDING, row, plain[at].tobytes(), number))
        for row, at in numbered
    ]


def _select(connection: sqlite3.Connection, sql: str, rows: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    """The rows of `sql` (over table block) whose row number is one of `rows`."""
    for start in range(0, len(rows), VARIABLES_MAX):
        part = [int(row) for row in rows[start : start + VARIABLES_MAX]]
        with closing(
            connection.execute(f"{sql} WHERE block.row IN ({','.join('?' * len(part))})", part)
        ) as found:
            yield from found
