"""The connection: how the file is opened, in which thread work runs, what SQLite's errors mean here."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from threading import Thread
from typing import TypeVar, cast
from urllib.parse import quote

import aiosqlite

from loremesh.node.store.errors import (
    AlreadyAHome,
    Damaged,
    DiskFull,
    DiskTrouble,
    InUse,
    NotAHome,
    ReadOnlyHome,
    StoreError,
    WrongSchema,
)
from loremesh.node.store.schema import APPLICATION_ID, PAGE_BYTES, SCHEMA, TABLES

T = TypeVar("T")

CACHE_KIB = 8192
WAL_PAGES = 1024
WAL_BYTES_KEPT = 16 << 20

# The reasons stand in the README of this folder.
_PRAGMAS = (
    "PRAGMA locking_mode = EXCLUSIVE",
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA fullfsync = ON",
    "PRAGMA checkpoint_fullfsync = ON",
    "PRAGMA secure_delete = ON",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA mmap_size = 0",
    "PRAGMA cell_size_check = ON",
    "PRAGMA trusted_schema = OFF",
    f"PRAGMA cache_size = -{CACHE_KIB}",
    f"PRAGMA wal_autocheckpoint = {WAL_PAGES}",
    f"PRAGMA journal_size_limit = {WAL_BYTES_KEPT}",
)
_BUSY = frozenset((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED))
_CORRUPT = frozenset((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB))
_INPUT_OUTPUT = frozenset((sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM))


class Database:
    """An open database, owned by the thread of its aiosqlite connection. All work goes through `run`."""

    def __init__(self, path: Path, connection: aiosqlite.Connection) -> None:
        """Of a connection that is open and set up; `open_database` makes one."""
        self.path = path
        self._connection = connection
        self._closed = False

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What `work` returns when called with the connection, in the connection's thread.

        A call takes its turn after those before it, and is one hop between threads, however many statements
        `work` runs: a transaction through aiosqlite's own methods would take one hop (50–100 µs) for each.
        `work` leaves no cursor open, also when it raises: a connection closed over one keeps its locks.
        SQLite's errors come out as this package's. If the caller is cancelled, `work` still runs to its end.
        """
        if self._closed:
            raise StoreError(f"{self.path.parent} was closed", "Open the home again")
        # aiosqlite has no public way to run a function of one's own between two of its statements.
        try:
            execute: Callable[..., Awaitable[T]] = self._connection._execute
            return await execute(work, self._connection._conn)
        except sqlite3.Error as error:
            raise translated(error, self.path) from error
        except UnicodeDecodeError as error:  # from sqlite3 itself, when its message quotes a damaged schema
            raise Damaged(self.path.name, "SQLite cannot read its schema") from error
        except OSError as error:
            raise translated_os(error, self.path.parent) from error

    async def close(self) -> None:
        """Write the WAL back, remove it, and end the thread. Closing again does nothing."""
        self._closed = True
        try:
            await self._connection.close()
        except sqlite3.Error as error:
            raise translated(error, self.path) from error


async def open_database(path: Path) -> Database:
    """Open the database at `path`, which must be one of ours and of this schema, and empty its WAL.

    Raises NotAHome, WrongSchema, Damaged, ReadOnlyHome, InUse, DiskFull.
    """
    return await _connect(path, _set_up_existing)


async def create_database(path: Path) -> Database:
    """Create the database at `path`, with 0600, and its tables. On failure nothing is left there.

    Raises AlreadyAHome, NotAHome (no such directory), ReadOnlyHome, DiskFull.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        raise AlreadyAHome(
            f"{path.parent} is a home already", "Open it, or name another directory for a new one"
        ) from None
    except (FileNotFoundError, NotADirectoryError):
        raise NotAHome(f"{path.parent} is not a directory", "Make the directory first") from None
    except OSError as error:
        raise translated_os(error, path.parent) from error
    try:
        return await _connect(path, _set_up_new)
    except BaseException:
        for name in (path.name, path.name + "-wal", path.name + "-journal"):
            path.with_name(name).unlink(missing_ok=True)
        raise


async def _connect(path: Path, set_up: Callable[[sqlite3.Connection], None]) -> Database:
    connection = aiosqlite.connect(_uri(path), uri=True, isolation_level=None, timeout=0)
    # A process that ends without closing its store ends, as if it had been killed, instead of waiting for
    # this thread for ever. (Up to aiosqlite 0.21 the connection is the thread.)
    cast(Thread, getattr(connection, "_thread", connection)).daemon = True
    try:
        await connection
    except sqlite3.Error as error:
        raise translated(error, path) from error
    database = Database(path, connection)
    try:
        await database.run(set_up)
    except BaseException:
        await connection.close()
        raise
    return database


def _uri(path: Path) -> str:
    """The name under which SQLite opens an existing file and creates none."""
    return f"file:{quote(str(path.absolute()))}?mode=rw"


def _set_up_new(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    for pragma in _PRAGMAS:
        connection.execute(pragma).fetchall()
    connection.execute("BEGIN EXCLUSIVE")
    for statement in filter(None, map(str.strip, TABLES.split(";"))):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA}")
    connection.execute("COMMIT")


def _set_up_existing(connection: sqlite3.Connection) -> None:
    for pragma in _PRAGMAS:
        connection.execute(pragma).fetchall()
    application = int(connection.execute("PRAGMA application_id").fetchone()[0])
    schema = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if (application, schema) == (0, 0):
        raise NotAHome(
            "memory.db is empty: creating the home was interrupted, or the file was cut off",
            "Restore the home from a backup; if it never held anything, remove it and create it again",
        )
    if application != APPLICATION_ID:
        raise NotAHome("memory.db is a database of another program", "Name the directory of a loremesh home")
    if schema != SCHEMA:
        age = "a newer" if schema > SCHEMA else "an older"
        raise WrongSchema(
            f"the home has schema {schema}, written by {age} release of loremesh; this one knows {SCHEMA}",
            "Use that release, or export the home with it and import it here; nothing was changed",
        )
    try:
        empty_wal(connection)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
            raise
        # On a full disk the log stays until there is room: better a home that can be read than none.


def empty_wal(connection: sqlite3.Connection) -> None:
    """Write every page back to the database and cut the WAL to nothing, so that no older page stays in it."""
    busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        raise StoreError(
            "the write-ahead log could not be emptied: a statement on it is still open",
            "Try again; if it happens again, close the home and open it",
        )


def translated(error: sqlite3.Error, path: Path) -> Exception:
    """The error of this package that says what an error of SQLite means for the home of `path`."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    home = path.parent
    if code == sqlite3.SQLITE_CANTOPEN and not path.exists():
        return NotAHome(
            f"{home} holds no home: there is no {path.name}",
            f"Restore {path.name} from a backup; where nothing was ever learned, empty the directory and run "
            "`loremesh init`",
        )
    if code == sqlite3.SQLITE_FULL:
        return DiskFull(home)
    if code == sqlite3.SQLITE_READONLY:
        return ReadOnlyHome(home)
    if code in _BUSY:
        return InUse(home, None, "")
    if code in _CORRUPT:
        return Damaged(path.name, f"SQLite cannot read it: {error}")
    if code in _INPUT_OUTPUT:
        return _trouble(home, str(error))
    return StoreError(
        f"SQLite refused a statement on {path.name}: {error}", "This is a fault of loremesh: report it"
    )


def translated_os(error: OSError, home: Path) -> Exception:
    """The error of this package for one of the operating system about a file of `home`."""
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return ReadOnlyHome(home)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(home)
    return _trouble(home, str(error))


def _trouble(home: Path, said: str) -> Exception:
    """SQLite says only "disk I/O error": the file system itself tells whether it is full or read-only."""
    try:
        state = os.statvfs(home)
    except OSError:
        return DiskTrouble(f"{home} cannot be reached: {said}", "Check that the disk is there and mounted")
    if state.f_flag & os.ST_RDONLY or not os.access(home, os.W_OK):
        return ReadOnlyHome(home)
    if state.f_bavail == 0 or (state.f_files and state.f_favail == 0):
        return DiskFull(home)
    return DiskTrouble(
        f"a file of {home} cannot be read or written: {said}", "Check the disk and its file system"
    )
