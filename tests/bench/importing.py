"""Importing peers' registers, against the same rows written straight into SQLite.

Ours: from sealed frames through the node's own funnel (open, decode, verify, limits, rows) into its sealed
log, committed, and into its columns. A history comes by block id, in frames as full as a node makes them
(2,048 registers) or half as full; news come in frames whose blocks lie anywhere. Raw: per 1,024 rows one
transaction (WAL, synchronous NORMAL) of three `executemany`: insert an event, upsert the register, upsert the
block; no seal, no signature, no check. Both get the same rows in the same order, by turns.
"""

import gc
import sqlite3
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Final

import msgspec
import numpy as np

from loremesh.node.node import Node
from loremesh.sync.bodies import MAX_ROWS, Evidence, encode_evidence
from loremesh.sync.fixed import ONE
from loremesh.sync.outcomes import Applied
from loremesh.sync.spacestate import enter_space
from loremesh.sync.wire import Kind
from tests.bench.figures import Figure, Report, at_least
from tests.bench.homes import BLOCKS, PASSPHRASE
from tests.sync.world import EPOCH_KEY, Space

ORIGINS: Final = 10
FULL_ROWS: Final = MAX_ROWS
"""Of a frame that is as full as it may be, as nodes publish a history."""
HALF_ROWS: Final = 1024
TRANSACTION_ROWS: Final = 1024
INCARNATION: Final = b"i" * 16
REPEATS: Final = 3
TARGET: Final = 3.0

SCHEMA: Final = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE event (n INTEGER PRIMARY KEY, origin INTEGER, block BLOB, context TEXT, alpha INTEGER,
                    beta INTEGER, stability REAL, version INTEGER);
CREATE TABLE register (origin INTEGER, block BLOB, context TEXT, alpha INTEGER, beta INTEGER, stability REAL,
                       version INTEGER, PRIMARY KEY (origin, block, context)) WITHOUT ROWID;
CREATE TABLE block (id BLOB PRIMARY KEY, alpha INTEGER, beta INTEGER) WITHOUT ROWID;
"""
INSERT_EVENT: Final = (
    "INSERT INTO event (origin, block, context, alpha, beta, stability, version) VALUES (?,?,?,?,?,?,?)"
)
UPSERT_REGISTER: Final = (
    "INSERT INTO register VALUES (?,?,?,?,?,?,?) ON CONFLICT DO UPDATE SET alpha = excluded.alpha,"
    " beta = excluded.beta, stability = excluded.stability, version = excluded.version"
    " WHERE excluded.version > version"
)
UPSERT_BLOCK: Final = (
    "INSERT INTO block VALUES (?,?,?) ON CONFLICT DO UPDATE SET alpha = alpha + excluded.alpha,"
    " beta = beta + excluded.beta"
)

RawRow = tuple[int, bytes, str, int, int, float, int]


class Load(msgspec.Struct, frozen=True):
    """The same registers twice: as sealed frames, and as rows for SQLite, a transaction's worth at a time."""

    space: Space
    admissions: list[bytes]
    frames: list[bytes]
    rows: list[list[RawRow]]

    @property
    def registers(self) -> int:
        """How many there are."""
        return sum(map(len, self.rows))


def load(
    per_origin: int, frame_rows: int, scattered: bool, random: np.random.Generator, blocks: int = BLOCKS
) -> Load:
    """Each origin states `per_origin` registers of the blocks: of all of them, or of a share of its own.

    By block id, as a history is stated; or `scattered`, each frame with blocks from anywhere, as news come.
    """
    space = Space(member_trust=0.5)
    ids = sorted(random.bytes(32) for _ in range(blocks))
    admissions, frames, rows = [], [], list[RawRow]()
    for origin in range(ORIGINS):
        peer = space.peer(f"peer {origin}", incarnation=INCARNATION)
        admissions.append(peer.admission_frame())
        first = origin * per_origin % blocks
        mine = np.arange(first, first + per_origin)
        if scattered:
            random.shuffle(mine)
        for start in range(0, per_origin, frame_rows):
            evidence = _evidence([ids[at] for at in np.sort(mine[start : start + frame_rows])], random)
            frames.append(peer.sealed(Kind.EVIDENCE, encode_evidence(evidence)))
            columns = (evidence.alpha, evidence.beta, evidence.stability_h, evidence.version)
            values = zip(evidence.ids, *(column.tolist() for column in columns), strict=True)
            rows += [(origin, one, "", *rest) for one, *rest in values]
    parts = [rows[at : at + TRANSACTION_ROWS] for at in range(0, len(rows), TRANSACTION_ROWS)]
    return Load(space, admissions, frames, parts)


def _evidence(ids: list[bytes], random: np.random.Generator) -> Evidence:
    n = len(ids)
    return Evidence(
        ids=ids,
        contexts=[""],
        incarnations=[INCARNATION],
        block=np.arange(n, dtype=np.int64),
        context=np.zeros(n, np.int64),
        incarnation=np.zeros(n, np.int64),
        alpha=random.integers(ONE // 2, 20 * ONE, n),
        beta=random.integers(ONE // 2, 20 * ONE, n),
        stability_h=random.random(n) * 1000.0 + 2.4,
        version=random.integers(1, 1 << 40, n),
    )


class Took(msgspec.Struct, frozen=True):
    """Seconds until log and columns had all registers, and the processor's part of them."""

    wall_s: float
    cpu_s: float


def raw(path: Path, rows: list[list[RawRow]]) -> Took:
    """Write the rows straight into SQLite."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript(SCHEMA)
    started, cpu = perf_counter(), process_time()
    for part in rows:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(INSERT_EVENT, part)
        connection.executemany(UPSERT_REGISTER, part)
        connection.executemany(UPSERT_BLOCK, [(row[1], row[3], row[4]) for row in part])
        connection.execute("COMMIT")
    took = Took(perf_counter() - started, process_time() - cpu)
    connection.close()
    return took


async def ours(home: Path, made: Load) -> tuple[Took, float]:
    """Take the frames into a fresh sealed home; the second figure are the seconds of the refresh after it."""
    async with Node.create(home, passphrase=PASSPHRASE) as node:
        sync = node.ground.memory.sync
        enter_space(sync, made.space.genesis_bytes, 0, {0: EPOCH_KEY})
        for frame in made.admissions:
            await node.sharing.admit(frame)
        started, cpu = perf_counter(), process_time()
        for frame in made.frames:
            outcome = (await node.sharing.admit(frame))[0]
            if not isinstance(outcome, Applied):
                raise AssertionError(f"a frame was not applied: {outcome}")
        took = Took(perf_counter() - started, process_time() - cpu)
        assert len(sync.registers) == made.registers
        started = perf_counter()
        await node.ground.exclusive(node.ground.refresh)
        return took, perf_counter() - started


async def measure(scratch: Path) -> Report:
    """Every load, `REPEATS` times."""
    random = np.random.default_rng(11)
    figures: list[Figure] = []
    for name, per_origin, frame_rows, scattered in (
        ("10 × 100,000 registers, a history in full frames", 100_000, FULL_ROWS, False),
        ("10 × 100,000 registers, a history in half frames", 100_000, HALF_ROWS, False),
        ("10 × 100,000 registers, news in half frames", 100_000, HALF_ROWS, True),
        ("10 × 10,000 registers, a history in full frames", 10_000, FULL_ROWS, False),
    ):
        made = load(per_origin, frame_rows, scattered, random)
        # The million rows that wait for SQLite are the bench's: neither side is to search them for garbage.
        gc.collect()
        gc.freeze()
        straight: list[Took] = []
        through: list[Took] = []
        refreshes: list[float] = []
        for repeat in range(REPEATS):
            at = scratch / f"import-{len(figures)}-{repeat}"
            at.mkdir()
            straight.append(raw(at / "raw.db", made.rows))
            took, refresh_s = await ours(at / "home", made)
            through.append(took)
            refreshes.append(refresh_s)
        pairs = list(zip(straight, through, strict=True))
        in_wall_time = median(one.wall_s / other.wall_s for one, other in pairs)
        in_cpu_time = median(one.cpu_s / other.cpu_s for one, other in pairs)
        figures += [
            Figure(f"{name}: ours against raw", f"{in_wall_time:.2f} ×")
            if (frame_rows, scattered) == (HALF_ROWS, False)  # no node states a history in such frames
            else at_least(f"{name}: ours against raw", in_wall_time, TARGET, "×"),
            Figure("the same in CPU time", f"{in_cpu_time:.2f} ×"),
            Figure("raw, per second (of CPU time)", rates(straight, made.registers)),
            Figure("ours, per second (of CPU time)", rates(through, made.registers)),
            Figure("first refresh of effective columns after it", f"{median(refreshes) * 1e3:.0f} ms"),
        ]
        gc.unfreeze()
    return Report("Importing registers", " ".join((__doc__ or "").split()), figures)


def rates(of: list[Took], registers: int) -> str:
    """Thousands of registers per second of wall and of CPU time."""
    wall, cpu = median(one.wall_s for one in of), median(one.cpu_s for one in of)
    return f"{registers / wall / 1e3:.0f} ({registers / cpu / 1e3:.0f}) k/s"
