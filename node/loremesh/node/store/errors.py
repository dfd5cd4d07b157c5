"""What can go wrong with a home's store: each error says what, where, and what to do."""

from __future__ import annotations

from pathlib import Path

from loremesh.node.errors import NodeError


class StoreError(NodeError):
    """Root of all errors of the store that files, disks or other processes can cause."""


class NotAHome(StoreError):
    """There is no database where one was to be opened, or the file there is not one of ours."""


class AlreadyAHome(StoreError):
    """There is a database where one was to be created."""


class WrongSchema(StoreError):
    """The database was written by an older or newer release, in a form this one does not know."""


class UnsafeFilesystem(StoreError):
    """The home lies on a file system that is shared over a network, where SQLite and locks are not safe."""


class InUse(StoreError):
    """Another process owns the home: `pid` (None if not known), listening at `door` ('' if nowhere)."""

    def __init__(self, home: Path, pid: int | None, door: str) -> None:
        owner = f"process {pid}" if pid is not None else "another process"
        hint = "Commands given with this home talk to that process"
        if door:
            hint += f" at {door}"
        hint += "; to open the home here, end it first"
        if pid is not None:
            hint += f" (kill {pid})"
        super().__init__(f"{home} is in use by {owner}: a home has one owner at a time", hint)
        self.pid = pid
        self.door = door


class ReadOnlyHome(StoreError):
    """The home cannot be written. Nothing was changed."""

    def __init__(self, home: Path) -> None:
        super().__init__(
            f"{home} cannot be written: its file system or its files are read-only",
            "Make the home writable for this user (mount, owner, permissions) and try again",
        )


class DiskFull(StoreError):
    """No room for what was to be written. The transaction was undone; the store goes on working."""

    def __init__(self, home: Path) -> None:
        super().__init__(
            f"there is no room left on the disk of {home}",
            "Free some space and try again: what was stored before is intact, this change was undone",
        )


class DiskTrouble(StoreError):
    """The operating system refused a read or a write for another reason, which the message gives."""


class Damaged(StoreError):
    """Something stored is not what was written: `where` names it, `what` says how it differs."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(
            f"{where}: {what}",
            "Restore the home from a backup. `loremesh replay --check` names all that is damaged; "
            "what it does not name can still be read",
        )
        self.where = where
        self.what = what


class ErasureUnfinished(StoreError):
    """What was to be erased is erased, but an older copy may still lie in the write-ahead log.

    The change itself is on disk and counts. The log is emptied at the next erasure or opening.
    """


class UnknownRow(StoreError):
    """A block row or log row that this store does not hold (or, for a block, no longer)."""


class FrameExists(StoreError):
    """A frame with this feed and number is stored already; numbers are stored once."""
