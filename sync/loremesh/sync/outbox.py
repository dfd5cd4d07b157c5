"""Publishing a node's own frames in one space: what the bus's subject ends with decides what follows.

Frames are in the journal before they come here. Nothing is remembered about what was published: the subject
is asked whenever it may have changed, so that a restart, a lost acknowledgement, a recreated stream and a
second writer are all one case.
"""

from collections.abc import Awaitable, Callable, Iterator

import structlog
from msgspec import Struct

from loremesh.sync.busport import Bus, FrameSubject, Published, Refused, Stored, Unsure
from loremesh.sync.feed import FeedKey, Position
from loremesh.sync.opening import TurnedAway, check_signature, decode, open_sealed
from loremesh.sync.outcomes import Rejected
from loremesh.sync.ports import Journal
from loremesh.sync.spacestate import SyncState
from loremesh.sync.status import FeedStatus
from loremesh.sync.wire import Chain, SignedFrame, header_hash, seal_signed

__all__ = ["Outbox"]

log = structlog.get_logger(__name__)

JOURNAL_BYTES = 4 << 20
"""Frames read from the journal at a time."""
SCAN_BYTES = 4 << 20
"""Frames read from the bus at a time when its last one is not ours."""
SCAN_MOST_BYTES = 32 << 20
"""Read in all for that: whoever may write into our subject must not make us read the whole stream."""
MAX_REFUSALS = 8
"""Refusals in a row before the chain is left for the next round: another writer must not keep us busy."""


class Tail(Struct, frozen=True):
    """How a subject ends: the stream number to publish after, and the last own frame's number there."""

    seq: int = 0
    number: int = 0


class Outbox:
    """The own chains of one space and what the bus is known to hold of them."""

    def __init__(
        self,
        space: bytes,
        bus: Bus,
        state: SyncState,
        journal: Journal,
        found: Callable[[bytes], Awaitable[object]],
    ) -> None:
        self.published = 0
        self._space = space
        self._bus = bus
        self._state = state
        self._journal = journal
        self._found = found
        self._tails: dict[FeedKey, Tail] = {}
        self._copied: set[FeedKey] = set()

    def forget(self) -> None:
        """What the bus holds may have changed: ask again before publishing."""
        self._tails.clear()

    def status(self) -> dict[FeedKey, FeedStatus]:
        """Where each own chain stands, as far as known."""
        return {key: self._status(key, position) for key, position in self._own_chains()}

    async def flush(self) -> None:
        """Publish what is missing of every own chain, control first: without its admission a feed counts
        nowhere.

        Raises BusError when the bus does not take more now; what is left is published by a later call.
        """
        for key, _ in sorted(self._own_chains(), key=lambda pair: pair[0].chain != Chain.CONTROL):
            if key not in self._copied:
                await self._flush_chain(key)

    def _own_chains(self) -> list[tuple[FeedKey, Position]]:
        space = self._state.spaces.get(self._space)
        if space is None:
            return []
        own = self._state.own
        return [(key, chain.position) for key, chain in space.chains.items() if key.origin == own]

    def _status(self, key: FeedKey, position: Position) -> FeedStatus:
        if key in self._copied:
            return FeedStatus.COPIED
        tail = self._tails.get(key)
        return (
            FeedStatus.PUBLISHED
            if tail is not None and tail.number >= position.number
            else FeedStatus.PENDING
        )

    async def _flush_chain(self, key: FeedKey) -> None:
        subject = FrameSubject(self._space, key.origin, key.incarnation, key.chain)
        refusals = 0
        tail = self._tails.get(key)
        while True:
            if tail is None:
                tail = await self._tail(key, subject, await self._bus.last(subject))
            if tail is None:
                return
            self._tails[key] = tail
            frames = await self._next(key, tail.number)
            if not frames:
                return
            for frame in frames:
                if frame.body is None:
                    # Pruned since: only a repair reply can carry a header alone. Receivers see the gap.
                    tail = Tail(tail.seq, frame.header.number)
                    self._tails[key] = tail
                    continue
                space = self._state.spaces[self._space]
                sealed = seal_signed(frame, space.epoch, space.epoch_keys[space.epoch])
                outcome = await self._bus.publish(subject, sealed, tail.seq)
                if isinstance(outcome, Published):
                    self.published += 1
                    tail = Tail(outcome.seq, frame.header.number)
                    self._tails[key] = tail
                    continue
                del self._tails[key]
                refusals += 1
                if refusals > MAX_REFUSALS:
                    log.warning("bus_publish_refused_often", chain=int(key.chain), refusals=refusals)
                    return
                tail = await self._after(key, subject, outcome)
                if tail is None:
                    return
                self._tails[key] = tail
                break

    async def _next(self, key: FeedKey, number: int) -> list[SignedFrame]:
        """The frames that follow, as many as a bounded read gives."""
        held = self._state.spaces[self._space].position(key).number
        if held <= number:
            return []
        return await self._journal.frames(self._space, key, number + 1, held, JOURNAL_BYTES)

    async def _after(self, key: FeedKey, subject: FrameSubject, outcome: Refused | Unsure) -> Tail | None:
        """Where to go on when a publish was refused, or nobody knows whether it arrived."""
        if isinstance(outcome, Unsure):
            log.info("bus_publish_unsure", why=outcome.why)
            return await self._tail(key, subject, await self._bus.last(subject))
        return await self._tail(key, subject, outcome.last)

    async def _tail(self, key: FeedKey, subject: FrameSubject, last: Stored | None) -> Tail | None:
        """What the subject holds of this chain; None, and the chain stopped, where it is a frame that we
        lack."""
        if last is None:
            return Tail()
        frame = self._ours(key, last.frame)
        if frame is None:
            # Somebody else's bytes at our subject's end. Behind them are ours.
            frame = await self._newest(key, subject)
        if frame is None:
            return Tail(last.seq)
        number = frame.header.number
        if await self._holds(key, frame):
            return Tail(last.seq, number)
        if key.incarnation != self._state.incarnation:
            return None  # an earlier life of ours on another machine: its frames come in like anybody's
        log.warning("own_frame_unknown", chain=int(key.chain), number=number)
        self._copied.add(key)
        space = self._state.spaces[self._space]
        await self._found(seal_signed(frame, space.epoch, space.epoch_keys[space.epoch]))
        return None

    async def _holds(self, key: FeedKey, frame: SignedFrame) -> bool:
        number = frame.header.number
        position = self._state.spaces[self._space].position(key)
        if number == position.number:
            return header_hash(frame.header_bytes) == position.hash
        if number > position.number:
            return False
        held = await self._journal.frames(self._space, key, number, number, 1)
        return bool(held) and held[0].header_bytes == frame.header_bytes

    def _ours(self, key: FeedKey, sealed: bytes) -> SignedFrame | None:
        """The frame in these bytes, if it is one of this chain with a valid signature."""
        carried = open_sealed(self._state, sealed)
        if isinstance(carried, Rejected):
            return None
        try:
            frame = decode(carried)
            header = frame.header
            if FeedKey(header.origin, header.incarnation, header.chain) != key or header.space != self._space:
                return None
            check_signature(frame)
        except TurnedAway:
            return None
        return frame

    async def _newest(self, key: FeedKey, subject: FrameSubject) -> SignedFrame | None:
        """Our highest frame among the subject's, as far as a bounded look goes.

        Where that misses the last one, frames are published again, which receivers know as duplicates.
        """
        newest: SignedFrame | None = None
        seq, seen = 1, 0
        while seen < SCAN_MOST_BYTES and (stored := await self._bus.read(subject, seq, SCAN_BYTES)):
            seen += sum(len(one.frame) for one in stored)
            for frame in _present(self._ours(key, one.frame) for one in stored):
                if newest is None or frame.header.number > newest.header.number:
                    newest = frame
            seq = stored[-1].seq + 1
        return newest


def _present(frames: Iterator[SignedFrame | None]) -> Iterator[SignedFrame]:
    return (frame for frame in frames if frame is not None)
