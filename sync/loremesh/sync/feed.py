"""Feeds: chains of frames numbered without gaps, each naming the hash of the one before (DESIGN §4, "Feed").

Pure values and comparisons. The hash of a frame is that of its exact header bytes.
"""

from array import array
from enum import Enum

import msgspec

from loremesh.sync.errors import InvalidInput
from loremesh.sync.wire import NO_HASH, Chain, SignedFrame

TAG_BYTES = 8
"""Of a frame's hash kept in memory per held frame: enough to tell a copy from another frame of that number.
Who makes two frames with one tag (2³² work) only hides a fork of its own feed from us: no gain."""


class FeedKey(msgspec.Struct, frozen=True, order=True):
    """One chain of one incarnation's feed, within a space."""

    origin: bytes
    incarnation: bytes
    chain: Chain


class Position(msgspec.Struct, frozen=True):
    """How far a chain is known: the number and the hash of its last frame; (0, zeros) before the first."""

    number: int = 0
    hash: bytes = NO_HASH


START = Position()


class Want(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A stretch of one chain that is missing here: numbers `first` to `last`, both included."""

    origin: bytes
    incarnation: bytes
    chain: Chain
    first: int
    last: int


class ForkKind(Enum):
    """What two signed frames of one incarnation prove against their signer."""

    NUMBER = "two frames with one number"
    LINK = "a frame that names another predecessor than the one of that number"
    VERSION = "one version of a register with two values"


class ForkProof(msgspec.Struct, frozen=True):
    """Two frames, each validly signed by one origin, that no honest feed contains together."""

    kind: ForkKind
    space: bytes
    origin: bytes
    incarnation: bytes
    other: SignedFrame
    """The frame that contradicts what is held."""
    held_at: tuple[bytes, FeedKey, int] | None
    """Where the held frame stands: space, chain, number; None where that is not known any more."""
    held: SignedFrame | None = None
    """The frame that was here first, as the journal gave it; None where it cannot be found any more."""


class Standing(Enum):
    """Where a frame stands against what is held of its chain."""

    NEXT = "next"
    HELD = "held"
    GAP = "gap"
    FORKED = "forked"


class HeldChain(msgspec.Struct):
    """What is known here of one chain. Changed only by `extend` and `fill`."""

    position: Position = START
    tags: "array[int]" = msgspec.field(default_factory=lambda: array("Q"))
    """The first 8 bytes of each held frame's hash; index number − 1."""
    bodiless: set[int] = msgspec.field(default_factory=set)
    """Numbers held as header and signature only, because whoever sent them had pruned the body."""
    frames: "array[int]" = msgspec.field(default_factory=lambda: array("q"))
    """The log number of each held frame; index number − 1."""
    stored_bytes: int = 0
    """Sum of the sizes of the frames as they came."""


def standing(chain: HeldChain | None, number: int, previous: bytes, frame_hash: bytes) -> Standing:
    """Compare a frame of that number, previous hash and own hash with what is held. Changes nothing."""
    if chain is None:
        return Standing.NEXT if number == 1 else Standing.GAP
    position = chain.position
    if number <= position.number:
        return Standing.HELD if chain.tags[number - 1] == _tag(frame_hash) else Standing.FORKED
    if number > position.number + 1:
        return Standing.GAP
    return Standing.NEXT if previous == position.hash else Standing.FORKED


def agrees(chain: HeldChain, number: int, frame_hash: bytes) -> bool:
    """Whether the chain's frame of that number, held here, has that hash."""
    return chain.tags[number - 1] == _tag(frame_hash)


def extend(
    chain: HeldChain, number: int, frame_hash: bytes, frame: int, size_bytes: int, bodiless: bool
) -> None:
    """Take the chain's next frame. Raises `InvalidInput` for another number, a mistake of this node."""
    if number != chain.position.number + 1:
        raise InvalidInput("number", f"is {number}; the chain is at {chain.position.number}")
    chain.position = Position(number, frame_hash)
    chain.tags.append(_tag(frame_hash))
    chain.frames.append(frame)
    chain.stored_bytes += size_bytes
    if bodiless:
        chain.bodiless.add(number)


def fill(chain: HeldChain, number: int, size_bytes: int) -> None:
    """Take the body, of that size, of a frame that is held without one."""
    chain.bodiless.remove(number)
    chain.stored_bytes += size_bytes


def _tag(frame_hash: bytes) -> int:
    return int.from_bytes(frame_hash[:TAG_BYTES], "big")
