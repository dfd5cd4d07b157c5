"""Small files: a crash leaves the old content or the new, never a part, and reading one always ends."""

import errno
import os
import secrets
import stat
from pathlib import Path


def create_file(path: Path, data: bytes) -> None:
    """Write a new file, mode 0600, and sync it and its directory.

    Raises `FileExistsError` where something by that name exists, a dangling link included, and `OSError`;
    then nothing is left behind.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        _sync_directory(path.parent)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def replace_file(path: Path, data: bytes) -> None:
    """Put `data` in the place of what `path` holds, mode 0600, atomically and durably. Raises `OSError`."""
    written = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    create_file(written, data)
    try:
        written.replace(path)
    except BaseException:
        written.unlink(missing_ok=True)
        raise
    _sync_directory(path.parent)


def read_small(path: Path, most: int) -> bytes:
    """The first `most` bytes of a file. Raises `OSError`, also for a pipe or device, which may never end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "Not a regular file", str(path))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(most)
    finally:
        os.close(descriptor)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
