"""The wire format of a frame: header, signature, kinds (`sync/README.md`, "Formats"). Bodies: `bodies`.

Encoding and decoding are pure. Decoding checks every bound that needs nothing but the bytes and raises only
`Malformed`, which names the field.
"""

import struct
from enum import IntEnum
from hashlib import sha256
from typing import Protocol, TypeVar

import msgspec

from loremesh.crypto.frames import FRAME_OVERHEAD_BYTES, seal_frame
from loremesh.sync.errors import InvalidInput, Malformed

FORMAT = 1
FRAME_DOMAIN = "frame"
"""The signature domain of headers."""

MAX_FRAME_BYTES = 240 * 1024
"""Of a sealed frame: 16 KiB below the message bound, for the bus's subject and headers."""
MAX_NUMBER = 2**63 - 1

ID_BYTES = 32
INCARNATION_BYTES = 16
NO_HASH = bytes(32)
"""Stands where the first frame of a chain would name its predecessor."""

_HEADER = struct.Struct(">BBB32s32s16sQ32sQ32s")
HEADER_BYTES = _HEADER.size
MAX_MESSAGE_BODY_BYTES = MAX_FRAME_BYTES - FRAME_OVERHEAD_BYTES - HEADER_BYTES
"""Of a head, request or reply."""
MAX_BODY_BYTES = 224 * 1024
"""Of a frame of a feed: less than a message's, so that every such frame fits into a repair reply."""


class Chain(IntEnum):
    """The two chains of a feed, and what stands outside them."""

    DATA = 0
    CONTROL = 1
    NONE = 2


class Kind(IntEnum):
    """What a body is. Numbers are never reused; 3, 4 (snapshot, end mark) and 17–19 (policy, retract, key)
    are set aside for the kinds of DESIGN §4 that this version does not speak yet."""

    EVIDENCE = 1
    BLOCKS = 2
    ADMISSION = 16
    HEAD = 32
    REQUEST = 33
    REPLY = 34


CHAIN_OF = {
    Kind.EVIDENCE: Chain.DATA,
    Kind.BLOCKS: Chain.DATA,
    Kind.ADMISSION: Chain.CONTROL,
    Kind.HEAD: Chain.NONE,
    Kind.REQUEST: Chain.NONE,
    Kind.REPLY: Chain.NONE,
}


_KINDS = frozenset(int(kind) for kind in Kind)


class Header(msgspec.Struct, frozen=True):
    """What a frame's signature covers, 163 bytes. `encode_header` gives its only form."""

    format: int
    kind: Kind
    chain: Chain
    space: bytes
    """32 bytes."""
    origin: bytes
    """The signer's Ed25519 public key, 32 bytes."""
    incarnation: bytes
    """16 bytes."""
    number: int
    """From 1 without gaps in DATA and CONTROL; 0 in NONE."""
    previous: bytes
    """`header_hash` of the frame before; `NO_HASH` for number 1 and in NONE."""
    time_ms: int
    """The origin's wall clock, Unix milliseconds: shown, never used to order."""
    body_hash: bytes
    """SHA-256 of the body."""


class SignedFrame(msgspec.Struct, frozen=True):
    """A header with its signature, and the body where it is at hand (None: pruned or cut)."""

    header: Header
    header_bytes: bytes
    signature: bytes
    body: bytes | None


class Signer(Protocol):
    """What signs a frame: `loremesh.crypto.identity.Identity` is one."""

    public: bytes

    def sign(self, domain: str, message: bytes) -> bytes:
        """64 bytes: Ed25519 under domain separation."""


def encode_header(header: Header) -> bytes:
    """163 bytes, big-endian; see the README's table. The header is one that `decode_header` would accept."""
    return _HEADER.pack(
        header.format,
        header.kind,
        header.chain,
        header.space,
        header.origin,
        header.incarnation,
        header.number,
        header.previous,
        header.time_ms,
        header.body_hash,
    )


def decode_header(data: bytes) -> Header:
    """The header in `data`. Raises `Malformed` for another length, format, kind, or a chain position that
    contradicts itself."""
    if len(data) != HEADER_BYTES:
        raise Malformed("header", f"has {len(data)} bytes, not {HEADER_BYTES}")
    form, kind, chain, space, origin, incarnation, number, previous, time_ms, body_hash = _HEADER.unpack(data)
    if form != FORMAT:
        raise Malformed("header.format", f"is {form}; this release reads format {FORMAT}")
    if kind not in _KINDS:
        raise Malformed("header.kind", f"{kind} is not known to this release")
    if chain != CHAIN_OF[Kind(kind)]:
        raise Malformed("header.chain", f"{chain} is not that of kind {Kind(kind).name}")
    if number > MAX_NUMBER or (number == 0) != (chain == Chain.NONE):
        raise Malformed("header.number", f"{number} cannot be in chain {Chain(chain).name}")
    if (previous == NO_HASH) != (number <= 1):
        raise Malformed("header.previous", f"does not go with number {number}")
    if time_ms > MAX_NUMBER:
        raise Malformed("header.time_ms", f"{time_ms} is out of range")
    return Header(
        form, Kind(kind), Chain(chain), space, origin, incarnation, number, previous, time_ms, body_hash
    )


def max_body_bytes(kind: Kind) -> int:
    """How large a body of that kind may be."""
    return MAX_MESSAGE_BODY_BYTES if CHAIN_OF[kind] is Chain.NONE else MAX_BODY_BYTES


def header_hash(header_bytes: bytes) -> bytes:
    """What the next frame of the chain names: SHA-256 of the exact header bytes."""
    return sha256(header_bytes).digest()


def compose(
    signer: Signer,
    *,
    space: bytes,
    incarnation: bytes,
    kind: Kind,
    body: bytes,
    time_ms: int,
    number: int = 0,
    previous: bytes = NO_HASH,
) -> SignedFrame:
    """A frame of `signer`, signed. Number and previous hash come from `feed.Position.next` for a chained one.

    Raises `InvalidInput` for what a receiver would refuse for its header or its size.
    """
    most = max_body_bytes(kind)
    if len(body) > most:
        raise InvalidInput("body", f"has {len(body)} bytes; a {kind.name} holds {most}: split it")
    try:
        header = Header(
            FORMAT, kind, CHAIN_OF[kind], space, signer.public, incarnation, number, previous, time_ms,
            sha256(body).digest(),
        )  # fmt: skip
        header_bytes = encode_header(header)
        if decode_header(header_bytes) != header:
            raise Malformed("header", "has a space, origin, incarnation or hash of a wrong length")
    except Malformed as wrong:
        raise InvalidInput(wrong.field, wrong.reason) from None
    except struct.error as wrong:
        raise InvalidInput("header", f"does not fit its fields: {wrong}") from None
    return SignedFrame(header, header_bytes, signer.sign(FRAME_DOMAIN, header_bytes), body)


def seal_signed(frame: SignedFrame, epoch: int, epoch_key: bytes) -> bytes:
    """The sealed bytes of `frame`, the same whoever seals. Raises `InvalidInput` where the body is gone."""
    if frame.body is None:
        raise InvalidInput("frame", f"{frame.header.number} has no body here: it travels only in a reply")
    header = frame.header
    return seal_frame(
        epoch_key, header.space, epoch, frame.header_bytes, frame.signature, frame.body, header.body_hash
    )


T = TypeVar("T")


def decoded(decoder: msgspec.msgpack.Decoder[T], data: bytes, field: str) -> T:
    """What `decoder` reads in `data`. Raises `Malformed` naming `field` where that is no such value."""
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as wrong:
        raise Malformed(field, f"does not decode: {wrong}") from None
