"""Frames as they stand in the log: what came, when, and the freshness it left (DESIGN §3).

A frame's log row has two parts. The head stays for good; the rest goes when the frame has no live row left.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.sync.funnel import passed_again
from loremesh.sync.outcomes import Passed


class FrameHead(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What proves a frame's place in its chain, and when it came (active hour, wall time in ms)."""

    header: bytes
    signature: bytes
    hour: float
    wall_ms: int


class FrameRest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a frame says. `body` is None where only the header came.

    `stamp_at` (u16, little-endian) and `stamps` (f64) are the evidence rows whose freshness stamp is not the
    hour of arrival, since most are. `cut`: `forget` took rows out, so the body no longer fits the header's
    hash. `hour`: when the body came, where the header had come alone before.
    """

    body: bytes | None
    stamp_at: bytes = b""
    stamps: bytes = b""
    cut: bool = False
    hour: float | None = None


_encoder = msgspec.msgpack.Encoder()
_heads = msgspec.msgpack.Decoder(FrameHead)
_rests = msgspec.msgpack.Decoder(FrameRest)


def encode(part: FrameHead | FrameRest) -> bytes:
    """The part's bytes."""
    return _encoder.encode(part)


def decode_head(data: bytes) -> FrameHead:
    """The head in `data`. Raises msgspec.DecodeError: in a sealed row, a later version wrote it."""
    return _heads.decode(data)


def decode_rest(data: bytes) -> FrameRest:
    """The rest in `data`. Raises msgspec.DecodeError: in a sealed row, a later version wrote it."""
    return _rests.decode(data)


def head_of(passed: Passed, hour: float, wall_ms: int) -> FrameHead:
    """The head to store of a frame that passed."""
    return FrameHead(passed.header_bytes, passed.signature, hour, wall_ms)


def rest_of(body: bytes | None, hour: float, stamps: NDArray[np.float64], *, late: bool = False) -> FrameRest:
    """The rest to store; `stamps` [evidence rows] as they will be after it was taken at `hour`.

    `late`: the header is stored already, with the hour at which it came alone.
    """
    apart = np.flatnonzero(stamps != hour)
    return FrameRest(
        body,
        apart.astype("<u2").tobytes(),
        stamps[apart].astype("<f8").tobytes(),
        hour=hour if late else None,
    )


def rest_cut(before: FrameRest, head: FrameHead, body: bytes, stamps: NDArray[np.float64]) -> FrameRest:
    """The rest with less in it: another body, and the stamps of the rows that it keeps."""
    rest = rest_of(body, taken_h(head, before), stamps)
    return msgspec.structs.replace(rest, cut=True, hour=before.hour)


def taken_h(head: FrameHead, rest: FrameRest | None) -> float:
    """The active hour at which what the frame says was taken."""
    return head.hour if rest is None or rest.hour is None else rest.hour


def restored(head: FrameHead, rest: FrameRest | None) -> tuple[Passed, NDArray[np.float64]]:
    """The frame ready for `accept`, and the stamps of its evidence rows; `rest` is None for a pruned frame.

    Raises Malformed for what no funnel can have let through.
    """
    if rest is None:
        return passed_again(head.header, head.signature, None, pruned=True), np.empty(0)
    passed = passed_again(head.header, head.signature, rest.body)
    rows = len(getattr(passed.effect, "block", ()))
    stamps = np.full(rows, taken_h(head, rest))
    stamps[np.frombuffer(rest.stamp_at, "<u2").astype(np.int64)] = np.frombuffer(rest.stamps, "<f8")
    return passed, stamps
