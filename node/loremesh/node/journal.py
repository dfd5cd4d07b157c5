"""The sync core's journal over the store: frames, their texts and their place in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from loremesh.node.framelog import decode_head, decode_rest, encode, head_of, rest_of
from loremesh.node.memory import Memory
from loremesh.node.records import PROOF_PREFIX, encode_record
from loremesh.node.store.store import Store
from loremesh.node.store.values import Cut, Feed, FrameRow, NewBlock, State
from loremesh.sync.bodies import Blocks
from loremesh.sync.feed import FeedKey, ForkProof
from loremesh.sync.outcomes import Passed
from loremesh.sync.ports import Placement
from loremesh.sync.wire import Header, SignedFrame, decode_header


class NodeJournal:
    """`loremesh.sync.ports.Journal` for one home."""

    def __init__(self, store: Store, memory: Memory, now_ms: Callable[[], int]) -> None:
        self._store = store
        self._memory = memory
        self._now_ms = now_ms

    async def store_frame(self, passed: Passed, placement: Placement) -> int:
        """Store a frame with the texts that are new here; returns its log number.

        Own frames are synced to disk before this returns: what is published must not be forgotten. A peer's
        can be fetched again.
        """
        rest = encode(rest_of(passed.body, placement.hour, placement.stamps, late=passed.fills))
        feed, number = feed_of(passed.header), passed.header.number
        blocks = self._new_blocks(passed, placement)
        if passed.fills:
            held = await self._store.frames(feed, number, number)
            # Texts first: those of a body that was not kept after all are nobody's, and hurt nothing.
            await self._store.append(blocks=blocks, durable=False)
            self._note_content(blocks)
            await self._store.rewrite_frames([Cut(held[0].n, rest)])
            n = held[0].n
        else:
            head = encode(head_of(passed, placement.hour, self._now_ms()))
            own = passed.header.origin == self._memory.sync.own
            n = await self._store.append([FrameRow(feed, number, rest, head)], blocks, durable=own)
            self._note_content(blocks)
        return n

    async def store_proof(self, proof: ForkProof) -> None:
        """Keep the first proof that an incarnation forked. In a record of its own: it holds two frames."""
        if (proof.origin, proof.incarnation) not in self._memory.sync.set_aside:
            name = f"{PROOF_PREFIX}{proof.origin.hex()}/{proof.incarnation.hex()}"
            await self._store.append(records={name: encode_record(proof)})

    async def frames(
        self, space: bytes, key: FeedKey, first: int, last: int, budget_bytes: int
    ) -> list[SignedFrame]:
        """Held frames of a chain, in order, without a gap; the body of a cut one is not relayed."""
        feed = Feed(space, key.origin, key.incarnation, int(key.chain))
        found: list[SignedFrame] = []
        for frame in await self._store.frames(feed, first, last, budget_bytes):
            if frame.number != first + len(found):
                break
            head = decode_head(frame.header)
            rest = None if frame.payload is None else decode_rest(frame.payload)
            whole = rest is not None and not rest.cut and frame.state in (State.WHOLE, State.CUT)
            body = rest.body if rest is not None and whole else None
            found.append(SignedFrame(decode_header(head.header), head.header, head.signature, body))
        return found

    def _note_content(self, blocks: Iterable[NewBlock]) -> None:
        for block in blocks:
            self._memory.note_content(block.row)

    def _new_blocks(self, passed: Passed, placement: Placement) -> list[NewBlock]:
        """Texts that are not here yet, or in the words of nobody who counts.

        What was forgotten here comes back only when it is learned again.
        """
        if not isinstance(passed.effect, Blocks):
            return []
        reworded = set(self._memory.unclaimed(placement.rows).tolist()) if passed.trusted else set()
        return [
            NewBlock(row, block_id, text, replaces=row in reworded)
            for row, block_id, text in zip(
                placement.rows.tolist(), passed.effect.ids, passed.effect.texts, strict=True
            )
            if (row in reworded or not self._memory.has_content(row))
            and self._store.forgotten_mark(block_id) is None
        ]


def feed_of(header: Header) -> Feed:
    """The feed of a frame, as the store names it."""
    return Feed(header.space, header.origin, header.incarnation, int(header.chain))
