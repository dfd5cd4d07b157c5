"""`door.json`: where a running node listens, and the token that lets its own user in.

It lies in the home, readable by its owner only, from when the door is open until it closes.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec

from loremesh.crypto.durable import replace_file
from loremesh.node.errors import NodeError
from loremesh.node.home import HomePaths

DOOR_BYTES_MAX = 8192
FORMAT = 1


class DoorFile(msgspec.Struct, frozen=True):
    """Address and token of a door, and the process behind it."""

    format: int
    host: str
    port: int
    token: str
    pid: int
    peer: str

    def __repr__(self) -> str:
        return f"DoorFile({self.url}, pid={self.pid})"

    @property
    def url(self) -> str:
        """Where the door is, without a slash at the end."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


def write_door(home: Path, door: DoorFile) -> None:
    """Put the file in place, mode 0600, whole or not at all. Raises OSError."""
    replace_file(HomePaths(home).door, msgspec.json.encode(door) + b"\n")


def read_door(home: Path) -> DoorFile | None:
    """The door of `home`, None when there is none. Raises NodeError for a file that cannot be one.

    A file that others can read or that belongs to somebody else is refused: its token would be no secret, and
    its address perhaps not ours.
    """
    path = HomePaths(home).door
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_mode & 0o077 or about.st_uid != os.geteuid():
            raise NodeError(
                f"{path} is no regular file, can be read by others than its owner, or is not this user's",
                "stop the node, remove that file, and start the node again: it then takes a new token",
            )
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            raw = file.read(DOOR_BYTES_MAX)
    finally:
        os.close(descriptor)
    try:
        door = msgspec.json.decode(raw, type=DoorFile)
    except (msgspec.DecodeError, UnicodeDecodeError):
        door = None
    if door is None or door.format != FORMAT:
        raise NodeError(
            f"{path} is damaged, or of another release",
            "stop the node, remove that file, and start the node again",
        )
    return door


def remove_door(home: Path, pid: int) -> None:
    """Remove the file if it is that of process `pid`; another's stays."""
    try:
        door = read_door(home)
    except (NodeError, OSError):
        return
    if door is not None and door.pid == pid:
        HomePaths(home).door.unlink(missing_ok=True)
