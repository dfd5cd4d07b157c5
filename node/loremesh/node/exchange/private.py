"""Files that hold a memory in plain text: for their owner's eyes, whole or not there at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from loremesh.node.errors import NodeError, UsageError

OWNER_ONLY: Final = 0o600


@contextmanager
def private_file(path: Path) -> Iterator[BinaryIO]:
    """A new file that only its owner can read (0600), under its name when it is complete.

    Raises UsageError when the name is taken, NodeError when it cannot be written.
    """
    if os.path.lexists(path):
        raise UsageError(f"{path} is there already", "name a file that is not, or remove it first")
    beside = path.with_name(f".{path.name[:100]}.{os.getpid()}.unfinished")
    try:
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, OWNER_ONLY)
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        with os.fdopen(handle, "wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        _named(beside, path)
    except FileExistsError as error:
        raise UsageError(f"{path} is there already", "name a file that is not, or remove it first") from error
    except OSError as error:
        raise _unwritable(path, error) from error
    finally:
        beside.unlink(missing_ok=True)


def _named(beside: Path, path: Path) -> None:
    """Give the finished file its name, without taking anybody else's."""
    try:
        os.link(beside, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(path):
            raise FileExistsError(path) from None
        os.rename(beside, path)


def _unwritable(path: Path, error: OSError) -> NodeError:
    return NodeError(
        f"{path} cannot be written: {error.strerror or error}",
        "see to its path, permissions and free space; nothing was exported",
    )
