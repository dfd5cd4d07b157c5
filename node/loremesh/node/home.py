"""Where things lie in a home. Names only; nothing here reads or writes."""

from __future__ import annotations

from pathlib import Path

import msgspec

from loremesh.node.errors import UsageError


def check_name(home: Path) -> None:
    """Raise UsageError for a directory whose name has no UTF-8: SQLite and JSON could not state it."""
    try:
        str(home.absolute()).encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError(f"the name of {str(home)!a} is not UTF-8", "name a directory in UTF-8") from None


class HomePaths(msgspec.Struct, frozen=True):
    """The files of one home directory."""

    root: Path

    @property
    def database(self) -> Path:
        """The sealed log and blocks (SQLite)."""
        return self.root / "memory.db"

    @property
    def write_ahead_log(self) -> Path:
        """What SQLite has not written into the database yet."""
        return self.root / "memory.db-wal"

    @property
    def checkpoint(self) -> Path:
        """The sealed columns, to open fast; deleting it costs time, nothing else."""
        return self.root / "checkpoint"

    @property
    def door(self) -> Path:
        """Address and token of the running node's door (0600); there while `up` runs."""
        return self.root / "door.json"

    @property
    def bus(self) -> Path:
        """The embedded nats-server's configuration and store."""
        return self.root / "bus"

    @property
    def logs(self) -> Path:
        """What the running node and its bus say; never anything learned."""
        return self.root / "log"
