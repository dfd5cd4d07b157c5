"""One owner per home: a lock that the operating system drops with its holder, and who holds it."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from pathlib import Path

import msgspec

from loremesh.node.store.errors import DiskFull, DiskTrouble, InUse, NotAHome, ReadOnlyHome

LOCK_NAME = "lock"
LOCK_BYTES = 1024
"""The file is always written whole and padded, so that on a full disk it needs no new room."""
ATTEMPTS = 5
ATTEMPT_EVERY_S = 0.02
"""`holder` takes the lock for microseconds to see whether it is free: an owner-to-be tries again."""


class Holder(msgspec.Struct, frozen=True):
    """Who owns a home: `pid` is None when its file does not say, `door` '' when it listens nowhere."""

    pid: int | None = None
    door: str = ""


class Owner:
    """The lock on a home, held until `release` or the end of the process, however it ends."""

    __slots__ = ("_descriptor", "home")

    def __init__(self, home: Path, descriptor: int) -> None:
        """Of a descriptor that holds the lock already; `acquire` is the way to get one."""
        self.home = home
        self._descriptor = descriptor

    def announce(self, door: str) -> None:
        """Write down where this process listens, for whoever finds the home in use ('' for nowhere)."""
        said = msgspec.json.encode(Holder(os.getpid(), door))
        if len(said) > LOCK_BYTES:
            raise ValueError(f"a door's address of {len(door)} characters is too long to be one")
        try:
            os.pwrite(self._descriptor, said.ljust(LOCK_BYTES), 0)
        except OSError as error:
            raise _refused(self.home, error) from error

    def release(self) -> None:
        """Give the home up. The file stays: removing it would let two owners lock two files of one name."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def acquire(home: Path) -> Owner:
    """Become the owner of `home`, an existing directory.

    Raises InUse (with the owner's process and door), NotAHome, ReadOnlyHome, DiskFull. Blocks for at most
    ATTEMPTS · ATTEMPT_EVERY_S seconds.
    """
    descriptor = _open_lock(home)
    for attempt in range(ATTEMPTS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if attempt == ATTEMPTS - 1:
                said = _said(descriptor)
                os.close(descriptor)
                raise InUse(home, said.pid, said.door) from None
            time.sleep(ATTEMPT_EVERY_S)
        except OSError as error:
            os.close(descriptor)
            raise _refused(home, error) from error
    owner = Owner(home, descriptor)
    try:
        owner.announce("")
    except BaseException:
        owner.release()
        raise
    return owner


def holder(home: Path) -> Holder | None:
    """Who owns `home` now; None when nobody does, or there is no such home."""
    try:
        descriptor = os.open(home / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return _said(descriptor)
    finally:
        os.close(descriptor)


def _open_lock(home: Path) -> int:
    try:
        return os.open(home / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except (FileNotFoundError, NotADirectoryError):
        raise NotAHome(f"{home} is not a directory", "Create a home with `loremesh init`") from None
    except OSError as error:
        raise _refused(home, error) from error


def _said(descriptor: int) -> Holder:
    try:
        return msgspec.json.decode(os.pread(descriptor, LOCK_BYTES, 0), type=Holder)
    except (msgspec.DecodeError, OSError):
        return Holder()  # just locked and not yet written, or another program's file


def _refused(home: Path, error: OSError) -> Exception:
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return ReadOnlyHome(home)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(home)
    return DiskTrouble(
        f"the lock of {home} cannot be taken: {error.strerror}",
        f"Check {home / LOCK_NAME} and the disk it is on",
    )
