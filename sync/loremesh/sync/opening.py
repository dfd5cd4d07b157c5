"""From sealed bytes to a frame that its origin signed: what every frame and every message passes first."""

from hashlib import sha256

import msgspec

from loremesh.crypto.errors import BadSignature, MalformedFrame, SealBroken, UnknownEpoch
from loremesh.crypto.frames import open_frame
from loremesh.crypto.identity import verify
from loremesh.sync.errors import Malformed
from loremesh.sync.outcomes import Buffered, Deferred, Duplicate, Reason, Rejected
from loremesh.sync.spacestate import SyncState
from loremesh.sync.wire import FRAME_DOMAIN, MAX_FRAME_BYTES, SignedFrame, decode_header, max_body_bytes


class TurnedAway(Exception):
    """Carries the verdict on a frame out of the check that found it, inside the funnel only."""

    def __init__(self, verdict: Duplicate | Buffered | Deferred | Rejected) -> None:
        super().__init__(str(verdict))
        self.verdict = verdict


class Carried(msgspec.Struct, frozen=True):
    """A frame out of its seal, as a bus message or a repair reply carried it. Nothing of it is checked."""

    space: bytes
    header_bytes: bytes
    signature: bytes
    body: bytes | None
    """None: only the header was sent, the body having been pruned."""


def open_sealed(state: SyncState, sealed: bytes) -> Carried | Rejected:
    """Size and seal. Never raises for anything in `sealed`."""
    if len(sealed) > MAX_FRAME_BYTES:
        return Rejected(Reason.TOO_LARGE, f"{len(sealed)} bytes; at most {MAX_FRAME_BYTES} are allowed")
    try:
        opened = open_frame(sealed, lambda space, epoch: _epoch_key(state, space, epoch))
    except MalformedFrame as wrong:
        return Rejected(Reason.NOT_A_FRAME, str(wrong))
    except SealBroken as wrong:
        return Rejected(Reason.SEAL_BROKEN, str(wrong))
    except _UnknownSpace as wrong:
        return Rejected(Reason.UNKNOWN_SPACE, str(wrong))
    except UnknownEpoch as wrong:
        return Rejected(Reason.UNKNOWN_EPOCH, str(wrong))
    return Carried(opened.space, opened.header, opened.signature, opened.body)


def _epoch_key(state: SyncState, space: bytes, epoch: int) -> bytes | None:
    known = state.spaces.get(space)
    if known is None:
        raise _UnknownSpace(space.hex())
    return known.epoch_keys.get(epoch)


class _UnknownSpace(Exception):
    pass


def decode(carried: Carried) -> SignedFrame:
    """The frame with its header read and its body's hash compared. Raises `TurnedAway`; blames nobody."""
    try:
        header = decode_header(carried.header_bytes)
    except Malformed as wrong:
        raise TurnedAway(Rejected(Reason.MALFORMED, str(wrong))) from None
    if header.space != carried.space:
        raise TurnedAway(Rejected(Reason.MALFORMED, "header.space is not the space named in clear"))
    if carried.body is not None and len(carried.body) > max_body_bytes(header.kind):
        raise TurnedAway(Rejected(Reason.TOO_LARGE, f"a body of {len(carried.body)} bytes"))
    if carried.body is not None and sha256(carried.body).digest() != header.body_hash:
        raise TurnedAway(Rejected(Reason.BODY_MISMATCH, f"{header.kind.name} {header.number}"))
    return SignedFrame(header, carried.header_bytes, carried.signature, carried.body)


def check_signature(frame: SignedFrame) -> None:
    """Raise `TurnedAway` unless the header's origin signed exactly its bytes."""
    try:
        verify(frame.header.origin, FRAME_DOMAIN, frame.header_bytes, frame.signature)
    except BadSignature as wrong:
        raise TurnedAway(Rejected(Reason.BAD_SIGNATURE, str(wrong))) from None
