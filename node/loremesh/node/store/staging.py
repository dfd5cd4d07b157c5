"""Vectors of the embedder that a home is changing to, beside those in use, until all are there.

The table comes with the first of them and becomes `embedding` in the transaction that ends the change, so
that a home has the old vectors, whole, or the new ones. Runs in the database's thread.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from loremesh.node.store.blocks import (
    block_keys,
    model_number,
    opened_vector,
    sealed_vectors,
)
from loremesh.node.store.ledger import Draft, Ledger, Model

STAGED = "CREATE TABLE staged (row INTEGER PRIMARY KEY, model INTEGER NOT NULL, body BLOB NOT NULL)"

Staged = tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]
"""Rows, and their vectors [n, dimension]."""


def exists(connection: sqlite3.Connection) -> bool:
    """Whether a change of embedder is under way."""
    return (
        connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'staged'").fetchone()
        is not None
    )


def stage_vectors(
    connection: sqlite3.Connection,
    ledger: Ledger,
    draft: Draft,
    rows: Sequence[int],
    vectors: npt.NDArray[np.float32],
    fingerprint: str,
) -> None:
    """Put vectors of one model aside; those of any other go. Raises UnknownRow, ValueError (shapes)."""
    number = model_number(connection, ledger, draft, vectors, len(rows), fingerprint)
    if not exists(connection):
        connection.execute(STAGED)
    connection.execute("DELETE FROM staged WHERE model <> ?", (number,))
    connection.executemany(
        "INSERT OR REPLACE INTO staged (row, model, body) VALUES (?, ?, ?)",
        sealed_vectors(block_keys(connection, ledger, draft, rows), rows, vectors, number),
    )


def staged_model(connection: sqlite3.Connection, ledger: Ledger) -> tuple[str, int, int] | None:
    """(fingerprint, dimension, vectors) of what is aside; None when nothing is."""
    if not exists(connection):
        return None
    found = connection.execute("SELECT model, count(*) FROM staged GROUP BY model").fetchone()
    if found is None:
        return None
    named = next((model for model, no in ledger.models.items() if no == found[0]), None)
    return None if named is None else (named.fingerprint, named.dimension, found[1])


def read_staged(
    connection: sqlite3.Connection, ledger: Ledger, after: int, count: int, model: Model
) -> Staged | None:
    """The next `count` vectors of this model behind row `after`; None when there are none. Raises Damaged."""
    number = ledger.models.get(model)
    if number is None or not exists(connection):
        return None
    found = connection.execute(
        "SELECT row, body FROM staged WHERE model = ? AND row > ? ORDER BY row LIMIT ?",
        (number, after, count),
    ).fetchall()
    if not found:
        return None
    keys = block_keys(connection, ledger, None, [row for row, _ in found])
    vectors = [opened_vector(keys[row], row, body, number) for row, body in found]
    stacked = np.frombuffer(b"".join(vectors), dtype="<f4").reshape(len(vectors), model.dimension)
    return np.array([row for row, _ in found], np.int64), stacked


def take_up_staged(connection: sqlite3.Connection) -> None:
    """What is aside is what is in use from now on; the vectors before it go. Nothing aside: no-op."""
    if exists(connection):
        connection.execute("DROP TABLE embedding")
        connection.execute("ALTER TABLE staged RENAME TO embedding")


def drop_staged(connection: sqlite3.Connection) -> None:
    """What is aside goes."""
    connection.execute("DROP TABLE IF EXISTS staged")


def forget_staged(connection: sqlite3.Connection, row: int) -> None:
    """What is aside of one block goes."""
    if exists(connection):
        connection.execute("DELETE FROM staged WHERE row = ?", (row,))


def read_all(connection: sqlite3.Connection) -> Iterator[tuple[int, int, bytes, int, bytes]]:
    """Row, slot and wrapped key of its block, model and sealed vector, of all that is aside, for `verify`."""
    if exists(connection):
        yield from connection.execute(
            "SELECT staged.row, block.slot, wrapped, model, staged.body FROM staged"
            " JOIN block ON block.row = staged.row LEFT JOIN erasable USING (slot) ORDER BY staged.row"
        )
