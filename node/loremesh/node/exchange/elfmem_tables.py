"""What an elfmem database or bundle says, read by its columns: schemas differ, and so does their order.

The database is opened read-only, with the write-ahead log beside it where there is one, and read in one
transaction. Rows are checked one by one; what is wrong stops the import, what has no place here is counted.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

from loremesh.node.errors import UsageError
from loremesh.node.exchange.reading import unreadable
from loremesh.sync.fixed import MAX_MASS

SQLITE_MARK: Final = b"SQLite format 3\0"
MAX_BUNDLE_BYTES: Final = 256 << 20
"""A bundle is read whole: it is one JSON value."""
MAX_ROWS: Final = 1_000_000
"""Rows of one table: ten times what one agent gathers in years, and a gigabyte of memory."""
HIDDEN: Final = "archived"
LEFT_TABLES: Final = {
    "contradictions": "contradictions: two blocks may disagree here, and outcomes decide",
    "frames": "frames: recall's weights are this home's own",
    "sessions": "sessions: active hours are counted anew here",
    "peer_roster": "peers: they have no keys that could be trusted here",
    "co_retrieval_staging": "pairs seen together that are not edges yet",
    "block_amendments": "earlier wordings: a block is immutable here, the present wording was taken",
}
"""Tables that nothing is taken from, and why."""

Value = str | int | float | bytes | None
Row = Mapping[str, Value]


class ElfBlock(msgspec.Struct, frozen=True):
    """One block. `alpha`, `beta`: its counts there. `alignment`: None before promotion, or where not stated.

    `exact` is false when promotion's pseudo-observation is in the counts, but not which. `stability_h` is
    -1 where there is none; `age_h` active hours since it was last reinforced; times in microseconds, UTC.
    """

    id: str
    text: str
    archived: bool
    tags: list[str]
    alpha: float
    beta: float
    alignment: float | None
    exact: bool
    stability_h: float
    age_h: float
    created_us: int


class ElfEdge(msgspec.Struct, frozen=True):
    """A link between two blocks by their ids there."""

    one: str
    other: str
    weight: float
    created_us: int


class ElfOutcome(msgspec.Struct, frozen=True):
    """One judged use; `source` is who judged."""

    block: str
    signal: float
    weight: float
    source: str
    created_us: int


class ElfMemory(msgspec.Struct, frozen=True):
    """All of it. `owner`: whose memory it is, or what else tells it from others. `as_of_us`: its last moment.

    `hour`: total active hours. `remarks`: what was left out, and why. `estimated`: a bundle, whose counts
    are in part estimates.
    """

    what: str
    owner: str
    hour: float
    as_of_us: int
    blocks: list[ElfBlock]
    edges: list[ElfEdge]
    outcomes: list[ElfOutcome]
    remarks: list[str]
    estimated: bool = False


class _Wrong(Exception):
    """A value that cannot be; the message says where."""


def read_elfmem(path: Path) -> ElfMemory:
    """A database or a bundle. Raises UsageError for what is neither, or has something wrong in it."""
    try:
        with path.open("rb") as file:
            begin = file.read(16)
        if begin == SQLITE_MARK:
            with _opened(path) as connection:
                return _Database(connection).memory()
        if begin.lstrip()[:1] in (b"{", b""):
            raw = path.read_bytes() if path.stat().st_size <= MAX_BUNDLE_BYTES else b""
            return bundle_memory(raw)
    except OSError as error:
        raise unreadable(path, error) from error
    except (_Wrong, sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
        raise UsageError(
            f"{path} cannot be imported: {error}", "see to it with elfmem; nothing was imported"
        ) from error
    raise UsageError(
        f"{path} is no elfmem database and no bundle", "give a database file, or what `elfmem export` wrote"
    )


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Read-only. Without a log beside it, it is opened as a file that nobody changes: none is made then."""
    live = path.with_name(path.name + "-wal").exists()
    uri = f"file:{quote(str(path.absolute()))}?mode=ro" + ("" if live else "&immutable=1")
    connection = sqlite3.connect(uri, uri=True, isolation_level=None)
    with closing(connection):
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("BEGIN")
        yield connection


class _Database:
    """One database in one transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        kinds = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        self._tables = {str(row["name"]) for row in kinds}
        if not {"id", "content"} <= self._columns("blocks"):
            raise _Wrong("it has no table blocks with the columns id and content")
        (sound,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if sound != "ok":  # read before anything is taken: a page that is cut off shows only when it is read
            raise _Wrong(f"the database is damaged: {sound}")
        self._config = {
            text(row, "key"): text(row, "value") for row in self._rows("system_config", {"key", "value"})
        }
        self._latest_us = 1

    def memory(self) -> ElfMemory:
        """Everything that is taken, and what is not."""
        hour = self._hours("total_active_hours")
        tags: dict[str, list[str]] = {}
        for row in self._rows("block_tags", {"block_id", "tag"}):
            tags.setdefault(text(row, "block_id"), []).append(text(row, "tag"))
        blocks = [self._block(row, hour, tags) for row in self._rows("blocks", {"id", "content"})]
        outcomes = [self._outcome(row) for row in self._rows("block_outcomes", {"block_id", "signal"})]
        edges = [self._edge(row) for row in self._rows("edges", {"from_id", "to_id"})]
        sessions = list(self._rows("sessions", {"id", "started_at"}))
        for row in sessions:
            self._moment(row, "started_at")
            self._moment(row, "ended_at")
        first = min(((text(row, "started_at"), text(row, "id")) for row in sessions), default=("", ""))
        schema = self._config.get("schema_version", "1")
        return ElfMemory(
            what=f"elfmem database, schema {schema[:20]}",
            owner=self._config.get("peer_identity") or f"session {first[1]}",
            hour=hour,
            as_of_us=self._latest_us,
            blocks=blocks,
            edges=edges,
            outcomes=outcomes,
            remarks=self._left(),
        )

    def _block(self, row: Row, hour: float, tags: Mapping[str, list[str]]) -> ElfBlock:
        here = text(row, "id")
        alpha, beta = counts(row, f"block {here}")
        decay = number(row, "decay_lambda", 0.0, math.inf, missing=-1.0)
        last_h = number(row, "last_reinforced_at", -math.inf, math.inf, missing=hour)
        self._moment(row, "last_scored_at")
        aligned = row.get("self_alignment")
        return ElfBlock(
            id=here,
            text=text(row, "content"),
            archived=text(row, "status", missing="active") == HIDDEN,
            tags=sorted(tags.get(here, [])),
            alpha=alpha,
            beta=beta,
            alignment=None if aligned is None else number(row, "self_alignment", 0.0, 1.0),
            exact=True,
            stability_h=-1.0 if decay < 0.0 else (1.0 / decay if decay > 0.0 else math.inf),
            age_h=max(hour - last_h, 0.0),
            created_us=self._moment(row, "created_at"),
        )

    def _outcome(self, row: Row) -> ElfOutcome:
        return ElfOutcome(
            block=text(row, "block_id"),
            signal=number(row, "signal", 0.0, 1.0),
            weight=number(row, "weight", 0.0, MAX_MASS, missing=1.0),
            source=text(row, "source", missing=""),
            created_us=self._moment(row, "created_at"),
        )

    def _edge(self, row: Row) -> ElfEdge:
        return ElfEdge(
            text(row, "from_id"),
            text(row, "to_id"),
            min(number(row, "weight", 0.0, math.inf, missing=1.0), 1.0),
            self._moment(row, "created_at"),
        )

    def _left(self) -> list[str]:
        found = []
        for table, why in LEFT_TABLES.items():
            if table in self._tables:
                (held,) = self._connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()
                if held:
                    found.append(f"left out: {held} {why}")
        if "embedding" in self._columns("blocks"):
            model = self._config.get("embedding_model_lock", "another model")
            found.append(f"left out: embeddings by {model[:80]}: texts are embedded anew here")
        return found

    def _columns(self, table: str) -> set[str]:
        if table not in self._tables:
            return set()
        return {str(row["name"]) for row in self._connection.execute(f'PRAGMA table_info("{table}")')}

    def _rows(self, table: str, needed: set[str]) -> Iterator[Row]:
        """The table's rows with all columns it has; none when it is not there or lacks a needed one."""
        columns = self._columns(table)
        if not needed <= columns:
            return
        wanted = ", ".join(f'"{name}"' for name in sorted(columns) if name.isidentifier())
        for number_, row in enumerate(self._connection.execute(f'SELECT {wanted} FROM "{table}"')):
            if number_ >= MAX_ROWS:
                raise _Wrong(f"{table} has more than {MAX_ROWS} rows")
            yield dict(row)

    def _moment(self, row: Row, name: str) -> int:
        found = moment_us(row, name)
        self._latest_us = max(self._latest_us, found)
        return found

    def _hours(self, name: str) -> float:
        stated = self._config.get(name, "0")
        try:
            hours = float(stated)
        except ValueError:
            hours = math.nan
        if not 0.0 <= hours < 1e9:
            raise _Wrong(f"{name} is {stated[:40]!r}")
        return hours


def bundle_memory(raw: bytes) -> ElfMemory:
    """A bundle. It does not say how promotion rated a block: see `ElfBlock.exact`."""
    try:
        bundle = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _Wrong(f"it is no bundle: {error}") from None
    if not isinstance(bundle, dict) or not isinstance(bundle.get("blocks"), list):
        raise _Wrong("it is no bundle: it has no list of blocks")
    edges = bundle.get("edges", [])
    rows = [*bundle["blocks"], *(edges if isinstance(edges, list) else [None])]
    if not all(isinstance(row, dict) for row in rows) or len(rows) > MAX_ROWS:
        raise _Wrong("its blocks and edges must be lists of objects, at most a million")
    return ElfMemory(
        what=f"elfmem bundle, version {str(bundle.get('version', 1))[:20]}",
        owner=text(bundle, "from_did", missing=""),
        hour=0.0,
        as_of_us=max(moment_us(bundle, "exported_at"), 1),
        blocks=[_bundle_block(row) for row in bundle["blocks"]],
        edges=[
            ElfEdge(
                text(row, "from_id"),
                text(row, "to_id"),
                min(number(row, "weight", 0.0, math.inf, missing=1.0), 1.0),
                moment_us(row, "created_at"),
            )
            for row in edges
        ],
        outcomes=[],
        remarks=["a bundle holds no outcomes, no stability and no ages"],
        estimated=True,
    )


def _bundle_block(row: Row) -> ElfBlock:
    here = text(row, "id")
    alpha, beta = counts(row, f"block {here}")
    tags: object = row.get("tags", [])
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise _Wrong(f"tags of block {here[:40]!r} are no list of texts")
    stated = row.get("self_alignment") is not None
    return ElfBlock(
        id=here,
        text=text(row, "content"),
        archived=text(row, "status", missing="active") == HIDDEN,
        tags=sorted(tags),
        alpha=alpha,
        beta=beta,
        alignment=number(row, "self_alignment", 0.0, 1.0) if stated else None,
        exact=stated,
        stability_h=-1.0,
        age_h=0.0,
        created_us=moment_us(row, "created_at"),
    )


def counts(row: Row, whose: str) -> tuple[float, float]:
    """α and β of a block: counted, or before schema 4 c·(1+e) and (1-c)·(1+e); without either, (½, ½)."""
    if row.get("success_count") is not None and row.get("failure_count") is not None:
        alpha = number(row, "success_count", 0.0, MAX_MASS)
        beta = number(row, "failure_count", 0.0, MAX_MASS)
    else:
        confidence = number(row, "confidence", 0.0, 1.0, missing=0.5)
        mass = 1.0 + number(row, "outcome_evidence", 0.0, MAX_MASS, missing=0.0)
        alpha, beta = confidence * mass, (1.0 - confidence) * mass
    if alpha + beta > MAX_MASS:
        raise _Wrong(f"{whose[:60]} has more than {MAX_MASS} outcomes")
    return alpha, beta


def text(row: Row, name: str, missing: str | None = None) -> str:
    """A text; `missing` where there is none. Refuses anything else."""
    value = row.get(name)
    if value is None and missing is not None:
        return missing
    if not isinstance(value, str):
        raise _Wrong(f"{name} is {str(value)[:40]!r}{_whose(row)}; it must be a text")
    return value


def number(row: Row, name: str, low: float, high: float, missing: float | None = None) -> float:
    """A finite number in [low, high]; `missing` where there is none. Refuses anything else."""
    value = row.get(name)
    if value is None and missing is not None:
        return missing
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _Wrong(f"{name} is {str(value)[:40]!r}{_whose(row)}; it must be a finite number")
    if not low <= value <= high:
        raise _Wrong(f"{name} is {value!r}{_whose(row)}; it must be from {low:g} to {high:g}")
    return float(value)


def moment_us(row: Row, name: str) -> int:
    """A time in microseconds since 1970, UTC; one without a zone is UTC. 0 where there is none."""
    stated = text(row, name, missing="")
    if not stated:
        return 0
    try:
        moment = datetime.fromisoformat(stated)
    except ValueError:
        raise _Wrong(f"{name} is {stated[:40]!r}{_whose(row)}, which is no time in ISO 8601") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    passed = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return max((passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds, 0)


def _whose(row: Row) -> str:
    for name in ("id", "block_id", "from_id", "key"):
        if isinstance(row.get(name), str):
            return f" in the row of {str(row[name])[:40]!r}"
    return ""
