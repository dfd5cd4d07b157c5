"""Heads and repair: who is behind, and what to ask for (DESIGN §4, "The log is the truth").

Values and comparisons; nothing here is sent. A frame proves itself, so it does not matter who answers.
"""

from collections.abc import Collection, Iterable, Mapping
from hashlib import sha256
from itertools import pairwise

import msgspec
import numpy as np

from loremesh.sync.digest import DIGEST_BYTES
from loremesh.sync.errors import InvalidInput, Malformed
from loremesh.sync.feed import START, FeedKey, HeldChain, Position, Want, agrees
from loremesh.sync.ports import Journal
from loremesh.sync.spacestate import SpaceState, SyncState
from loremesh.sync.wire import (
    HEADER_BYTES,
    ID_BYTES,
    INCARNATION_BYTES,
    MAX_MESSAGE_BODY_BYTES,
    MAX_NUMBER,
    Chain,
    SignedFrame,
    decoded,
)

MAX_OWN_FEEDS = 128
"""Chains of a head's own origin: two for each incarnation it may have."""
MAX_CHANGED = 512
"""Positions that changed since the last head; more are found through the vector."""
MAX_VECTOR = 1024
"""Positions in one page of a vector: 100 bytes each, so that a head stays below 180 KiB."""
MAX_WANTS = 256
"""Stretches asked for in one request."""
MAX_REPLY_FRAMES = 1024
"""Frames in one reply."""
SIGNATURE_BYTES = 64
REPLY_FRAME_OVERHEAD_BYTES = HEADER_BYTES + SIGNATURE_BYTES + 16


class OwnFeed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Where a chain of the head's own origin ends, and what is live in it."""

    incarnation: bytes
    chain: Chain
    number: int
    hash: bytes
    live: int
    """How many of its rows are live; 0 for the control chain."""
    digest: bytes
    """`digest.register_digest` of those rows, 16 bytes."""


class Known(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """How far the head's origin holds some chain."""

    origin: bytes
    incarnation: bytes
    chain: Chain
    number: int
    hash: bytes


class HeadBody(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a node tells the space every few seconds when something changed."""

    feeds: list[OwnFeed]
    changed: list[Known]
    """Positions that changed since its last head, other origins' included."""
    vector_hash: bytes
    """Of all positions it holds: equal hashes mean that neither is behind."""
    vector: list[Known] = []
    """A page of all positions, in answer to a request for them."""


class RequestBody(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a node asks another for."""

    wants: list[Want]
    vector: bool = False
    """Whether the answer is to be the whole vector, as heads."""


class ReplyFrame(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One frame as its origin signed it."""

    header: bytes
    signature: bytes
    body: bytes | None
    """None: pruned where it comes from."""


class ReplyBody(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Frames in answer to a request; as many as fit, not always all."""

    frames: list[ReplyFrame]


_head_decoder = msgspec.msgpack.Decoder(HeadBody)
_request_decoder = msgspec.msgpack.Decoder(RequestBody)
_reply_decoder = msgspec.msgpack.Decoder(ReplyBody)


def encode_message(body: HeadBody | RequestBody | ReplyBody) -> bytes:
    """The body of a head, request or reply. Raises `InvalidInput` for what a receiver would refuse."""
    try:
        match body:
            case HeadBody():
                _check_head(body)
            case RequestBody():
                _check_request(body)
            case ReplyBody():
                _check_reply(body)
    except Malformed as wrong:
        raise InvalidInput(wrong.field, wrong.reason) from None
    return msgspec.msgpack.encode(body)


def decode_head(body: bytes) -> HeadBody:
    """The head in `body`. Raises `Malformed`."""
    head = decoded(_head_decoder, body, "head")
    _check_head(head)
    return head


def decode_request(body: bytes) -> RequestBody:
    """The request in `body`. Raises `Malformed`."""
    request = decoded(_request_decoder, body, "request")
    _check_request(request)
    return request


def decode_reply(body: bytes) -> ReplyBody:
    """The reply in `body`; its frames are for the funnel to check. Raises `Malformed`."""
    reply = decoded(_reply_decoder, body, "reply")
    _check_reply(reply)
    return reply


def positions(state: SyncState, space: SpaceState) -> dict[FeedKey, Position]:
    """Chains held in a space, but no data of forked incarnations: it ends where each node met the fork."""
    return {
        key: chain.position
        for key, chain in space.chains.items()
        if key.chain is Chain.CONTROL or (key.origin, key.incarnation) not in state.set_aside
    }


def vector_hash(at: Mapping[FeedKey, Position]) -> bytes:
    """32 bytes for a set of positions: SHA-256 over `loremesh/1/vector` ‖ 0 and, ascending by chain,
    origin ‖ incarnation ‖ chain (u8) ‖ number (u64) ‖ hash."""
    digest = sha256(b"loremesh/1/vector\0")
    for key, position in sorted(at.items(), key=lambda item: item[0]):
        digest.update(key.origin + key.incarnation + bytes([key.chain]))
        digest.update(position.number.to_bytes(8, "big") + position.hash)
    return digest.digest()


def head(state: SyncState, space: SpaceState, since: Mapping[FeedKey, Position]) -> HeadBody:
    """This node's head: `since` is what `positions` gave for the last one (empty for the first)."""
    at = positions(state, space)
    own = [key for key in sorted(at) if key.origin == state.own][:MAX_OWN_FEEDS]
    changed = [key for key in sorted(at) if key.origin != state.own and since.get(key) != at[key]]
    return HeadBody(
        [_own_feed(state, space, key, at[key]) for key in own],
        [_known(key, at[key]) for key in changed[:MAX_CHANGED]],
        vector_hash(at),
    )


def vector_pages(state: SyncState, space: SpaceState) -> list[HeadBody]:
    """All positions, as heads to answer a request for the vector with."""
    at = positions(state, space)
    whole = vector_hash(at)
    known = [_known(key, at[key]) for key in sorted(at)]
    starts = range(0, max(1, len(known)), MAX_VECTOR)
    return [HeadBody([], [], whole, known[start : start + MAX_VECTOR]) for start in starts]


def live_rows(state: SyncState, space: SpaceState, key: FeedKey) -> tuple[int, bytes]:
    """How many rows of a data chain are live, and their digest. Costs as much as its origin has registers."""
    chain = space.chains.get(key)
    if chain is None or key.chain is not Chain.DATA:
        return 0, bytes(DIGEST_BYTES)
    registers = state.registers
    sources = [s for s in registers.sources if s.origin == key.origin and s.space == space.space]
    slots = np.concatenate([np.empty(0, np.int64), *(registers.live(source) for source in sources)])
    frames = np.frombuffer(chain.frames, np.int64)
    stated = slots[np.isin(registers.held(slots).frame, frames)]
    return len(stated), registers.live_digest(stated, state.index, state.contexts)


def behind(
    held: Mapping[FeedKey, HeldChain],
    remote: Iterable[OwnFeed | Known],
    origin: bytes,
    skip: Collection[FeedKey],
) -> list[Want]:
    """What to ask for, given what a head of `origin` says it holds. Pure.

    Frames beyond our own; and, where both have a number but with different hashes, that very frame: it proves
    the fork. Chains in `skip` (`funnel.at_rest`) are left alone. At most `MAX_WANTS`.
    """
    wants = []
    for theirs in remote:
        whose = theirs.origin if isinstance(theirs, Known) else origin
        key = FeedKey(whose, theirs.incarnation, theirs.chain)
        if key in skip or theirs.number == 0:
            continue
        chain = held.get(key)
        at = START if chain is None else chain.position
        if theirs.number > at.number:
            wants.append(Want(whose, key.incarnation, key.chain, at.number + 1, theirs.number))
        elif chain is not None and not agrees(chain, theirs.number, theirs.hash):
            wants.append(Want(whose, key.incarnation, key.chain, theirs.number, theirs.number))
    return wants[:MAX_WANTS]


def advanced(
    held: Mapping[FeedKey, Position], remote: Iterable[OwnFeed | Known], origin: bytes
) -> dict[FeedKey, Position]:
    """The positions there would be with everything that a head of `origin` says it has more of. Pure."""
    found = dict(held)
    for theirs in remote:
        whose = theirs.origin if isinstance(theirs, Known) else origin
        key = FeedKey(whose, theirs.incarnation, theirs.chain)
        if theirs.number > found.get(key, START).number:
            found[key] = Position(theirs.number, theirs.hash)
    return found


def bodies_missing(state: SyncState, space: SpaceState, origin: bytes, feed: OwnFeed) -> list[Want]:
    """The bodies to ask for: where we hold a feed's end and some of its frames without bodies, and its origin
    says that more is live in it than we have."""
    key = FeedKey(origin, feed.incarnation, feed.chain)
    chain = space.chains.get(key)
    if chain is None or not chain.bodiless or chain.position != Position(feed.number, feed.hash):
        return []
    live, digest = live_rows(state, space, key)
    if live >= feed.live or digest == feed.digest:
        return []
    numbers = sorted(chain.bodiless)
    starts = [numbers[0], *(b for a, b in pairwise(numbers) if b != a + 1)]
    ends = [*(a for a, b in pairwise(numbers) if b != a + 1), numbers[-1]]
    stretches = zip(starts, ends, strict=True)
    return [Want(origin, key.incarnation, key.chain, first, last) for first, last in stretches][:MAX_WANTS]


async def frames_for(
    journal: Journal, space: bytes, wants: Iterable[Want], budget_bytes: int
) -> list[SignedFrame]:
    """What is held of what is wanted, in order, until `budget_bytes` are reached."""
    found: list[SignedFrame] = []
    for want in wants:
        if budget_bytes <= 0:
            break
        key = FeedKey(want.origin, want.incarnation, want.chain)
        frames = await journal.frames(space, key, want.first, want.last, budget_bytes)
        budget_bytes -= sum(REPLY_FRAME_OVERHEAD_BYTES + len(frame.body or b"") for frame in frames)
        found += frames
    return found


def replies(frames: Iterable[SignedFrame]) -> list[ReplyBody]:
    """The frames in as few replies as they fit; one empty reply for none, so that the asker need not wait."""
    bodies: list[list[ReplyFrame]] = [[]]
    size = 0
    for frame in frames:
        needed = REPLY_FRAME_OVERHEAD_BYTES + len(frame.body or b"")
        if bodies[-1] and (
            size + needed > MAX_MESSAGE_BODY_BYTES - 16 or len(bodies[-1]) == MAX_REPLY_FRAMES
        ):
            bodies.append([])
            size = 0
        bodies[-1].append(ReplyFrame(frame.header_bytes, frame.signature, frame.body))
        size += needed
    return [ReplyBody(body) for body in bodies]


def _own_feed(state: SyncState, space: SpaceState, key: FeedKey, at: Position) -> OwnFeed:
    live, digest = live_rows(state, space, key)
    return OwnFeed(key.incarnation, key.chain, at.number, at.hash, live, digest)


def _known(key: FeedKey, at: Position) -> Known:
    return Known(key.origin, key.incarnation, key.chain, at.number, at.hash)


def _check_head(body: HeadBody) -> None:
    _check_count("head.feeds", len(body.feeds), MAX_OWN_FEEDS)
    _check_count("head.changed", len(body.changed), MAX_CHANGED)
    _check_count("head.vector", len(body.vector), MAX_VECTOR)
    for feed in body.feeds:
        _check_chain("head.feeds", feed.incarnation, feed.chain, feed.number)
        if len(feed.hash) != ID_BYTES or len(feed.digest) != DIGEST_BYTES or not 0 <= feed.live <= MAX_NUMBER:
            raise Malformed("head.feeds", "has a hash, digest or count that cannot be")
    for known in (*body.changed, *body.vector):
        _check_chain("head.changed", known.incarnation, known.chain, known.number)
        if len(known.hash) != ID_BYTES or len(known.origin) != ID_BYTES:
            raise Malformed("head.changed", "has a hash or origin of a wrong length")
    if len(body.vector_hash) != ID_BYTES:
        raise Malformed("head.vector_hash", f"has {len(body.vector_hash)} bytes, not {ID_BYTES}")


def _check_request(body: RequestBody) -> None:
    _check_count("request.wants", len(body.wants), MAX_WANTS)
    for want in body.wants:
        _check_chain("request.wants", want.incarnation, want.chain, want.last)
        if len(want.origin) != ID_BYTES or not 1 <= want.first <= want.last:
            raise Malformed("request.wants", f"has the stretch {want.first} … {want.last}, which cannot be")


def _check_reply(body: ReplyBody) -> None:
    _check_count("reply.frames", len(body.frames), MAX_REPLY_FRAMES)


def _check_count(field: str, count: int, most: int) -> None:
    if count > most:
        raise Malformed(field, f"has {count} entries; at most {most} are allowed")


def _check_chain(field: str, incarnation: bytes, chain: Chain, number: int) -> None:
    if len(incarnation) != INCARNATION_BYTES or chain is Chain.NONE or not 0 <= number <= MAX_NUMBER:
        raise Malformed(field, "has an incarnation, chain or number that cannot be")
