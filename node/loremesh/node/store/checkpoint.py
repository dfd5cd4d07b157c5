"""The sealed checkpoint: columns as they stood at a place of the log, so that opening need not fold it all.

Deleting it costs time, nothing else: one that is missing, damaged, of another log, build, rule set or format
is not used, and the reader says why.

    file    = seal_home_large("checkpoint", plain)
    plain   = length of the index (u32) ‖ index (msgpack of `_Index`) ‖ the parts' bytes, one after the other
"""

from __future__ import annotations

import hashlib
import os
import platform
import stat
import struct
from pathlib import Path
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from loremesh.crypto.atrest import HomeKeys
from loremesh.crypto.errors import SealBroken
from loremesh.node.store.database import translated_os
from loremesh.node.store.errors import DiskTrouble
from loremesh.node.store.values import Position

FORMAT = 1
LABEL = "checkpoint"
CHECKPOINT_BYTES_MAX = 4 << 30
_LENGTH = struct.Struct(">I")

Part: TypeAlias = npt.NDArray[np.generic] | bytes


class Checkpoint(msgspec.Struct, frozen=True):
    """Named arrays and bytes that stand for the log up to `position` under `rules`."""

    position: Position
    rules: str
    parts: dict[str, Part]


class Unusable(msgspec.Struct, frozen=True):
    """There is no checkpoint to use, and why."""

    reason: str


class _Entry(msgspec.Struct, frozen=True, array_like=True):
    name: str
    dtype: str
    """numpy's `dtype.str`; '' for plain bytes."""
    shape: tuple[int, ...]
    size: int
    """Bytes."""


class _Index(msgspec.Struct, frozen=True, array_like=True):
    format: int
    build: str
    rules: str
    n: int
    running: bytes
    erasures: int
    entries: list[_Entry]


def build_fingerprint() -> str:
    """What decides whether floats come out bit for bit: numpy's version, the machine, the kernels chosen."""
    kernels = repr(sorted(np.lib.introspect.opt_func_info().items()))
    chosen = hashlib.sha256(kernels.encode()).hexdigest()[:16]
    return f"numpy {np.__version__} {platform.machine()} {chosen}"


def seal_checkpoint(keys: HomeKeys, checkpoint: Checkpoint) -> bytes:
    """The bytes of the checkpoint's file. Raises ValueError for an array of objects."""
    entries, bodies = [], []
    for name, part in checkpoint.parts.items():
        if isinstance(part, bytes):
            entries.append(_Entry(name, "", (), len(part)))
            bodies.append(memoryview(part))
            continue
        if part.dtype.hasobject:
            raise ValueError(f"part {name!r} holds Python objects: a checkpoint takes plain arrays and bytes")
        plain = np.ascontiguousarray(part)
        entries.append(_Entry(name, plain.dtype.str, part.shape, plain.nbytes))
        bodies.append(plain.reshape(-1).view(np.uint8).data if plain.size else memoryview(b""))
    at = checkpoint.position
    index = msgspec.msgpack.encode(
        _Index(FORMAT, build_fingerprint(), checkpoint.rules, at.n, at.running, at.erasures, entries)
    )
    return keys.seal_home_large(LABEL, b"".join((_LENGTH.pack(len(index)), index, *bodies)))


def open_checkpoint(keys: HomeKeys, sealed: bytes, rules: str) -> Checkpoint | Unusable:
    """The checkpoint of these bytes, or why they are none that this build can use under `rules`."""
    try:
        plain = keys.open_home_large(LABEL, sealed)
        start = _LENGTH.size + _LENGTH.unpack_from(plain)[0]
        index = msgspec.msgpack.decode(memoryview(plain)[_LENGTH.size : start], type=_Index)
    except SealBroken as error:
        return Unusable(f"it does not open: {error}")
    except (msgspec.DecodeError, struct.error) as error:
        return Unusable(f"it is of another format: {error}")
    for is_so, should_be, what in (
        (index.format, FORMAT, "format"),
        (index.build, build_fingerprint(), "numpy build and processor"),
        (index.rules, rules, "rules"),
    ):
        if is_so != should_be:
            return Unusable(f"it was written with {what} {is_so!r}, not {should_be!r}")
    parts: dict[str, Part] = {}
    for entry in index.entries:
        body = memoryview(plain)[start : start + entry.size]
        start += entry.size
        # a copy, so that a part can be written to and does not keep the whole file in memory
        parts[entry.name] = (
            np.frombuffer(body, dtype=entry.dtype).reshape(entry.shape).copy() if entry.dtype else bytes(body)
        )
    return Checkpoint(Position(index.n, index.running, index.erasures), index.rules, parts)


def read_file(path: Path) -> bytes | None:
    """The checkpoint's bytes, None when there is none. Raises as the store does when it cannot be read."""
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):
            raise DiskTrouble(
                f"{path} is no regular file", "Remove it: the checkpoint is made anew, which costs time only"
            )
        return b"" if about.st_size > CHECKPOINT_BYTES_MAX else path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise translated_os(error, path.parent) from error


def write_beside(path: Path, sealed: bytes) -> Path:
    """Write the bytes, synced, to a file beside `path` that `put_in_place` then moves there.

    Raises ReadOnlyHome, DiskFull.
    """
    beside = unfinished(path)
    try:
        beside.unlink(missing_ok=True)
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(sealed)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise translated_os(error, path.parent) from error
    return beside


def put_in_place(beside: Path, path: Path) -> None:
    """Make the file written beside the checkpoint the checkpoint, in one step that survives a power cut."""
    os.replace(beside, path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def drop(path: Path) -> None:
    """Remove the checkpoint and an unfinished one."""
    path.unlink(missing_ok=True)
    unfinished(path).unlink(missing_ok=True)


def drop_unfinished(path: Path) -> None:
    """Remove what a killed process was writing when it died. Raises as the store does."""
    try:
        unfinished(path).unlink(missing_ok=True)
    except OSError as error:
        raise translated_os(error, path.parent) from error


def unfinished(path: Path) -> Path:
    """Where a checkpoint is written before it is one."""
    return path.with_name(path.name + ".new")
