"""elfmem databases made for tests: of any columns, with rows given as dictionaries."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

Value = str | int | float | bytes | None
Row = Mapping[str, Value]

BLOCK: dict[str, Value] = {
    "id": "a1",
    "content": "The indexer needs a restart after a schema change",
    "created_at": "2025-03-01T10:00:00.250000+00:00",
    "status": "active",
    "confidence": 0.5,
    "success_count": 2.6,
    "failure_count": 1.4,
    "self_alignment": 0.6,
    "decay_lambda": 0.01,
    "last_reinforced_at": 7.0,
}


def block(**changes: Value) -> dict[str, Value]:
    """The block with other values."""
    return {**BLOCK, **changes}


def without(*names: str, **changes: Value) -> dict[str, Value]:
    """The block without these columns."""
    return {name: value for name, value in block(**changes).items() if name not in names}


def database(path: Path, blocks: Sequence[Row], config: Row | None = None, **tables: Sequence[Row]) -> Path:
    """A database with these rows; a table's columns are those of its first row, without types."""
    settings = {"schema_version": "9", "total_active_hours": "10.0", "peer_identity": "elf:tess"}
    rows = [{"key": key, "value": value} for key, value in (settings if config is None else config).items()]
    with closing(sqlite3.connect(path)) as connection:
        for name, held in {"system_config": rows, "blocks": blocks, **tables}.items():
            if held:
                columns = list(held[0])
                connection.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
                marks = ", ".join("?" * len(columns))
                connection.executemany(
                    f"INSERT INTO {name} VALUES ({marks})",
                    [[row.get(one) for one in columns] for row in held],
                )
        connection.commit()
    return path
