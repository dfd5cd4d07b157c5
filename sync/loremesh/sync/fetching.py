"""Fetching what is missing in one space: from whoever has it, or from the bus's stream.

A gap is known from a frame that came too early, from another node's head, or from a frame the funnel
deferred. Every claim is somebody's word: one that leads to nothing is dropped, and comes again with the next
head if it was true.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence

import structlog
from msgspec import Struct

from loremesh.sync.busport import Bus, BusError, FrameSubject
from loremesh.sync.enginevalues import Surroundings
from loremesh.sync.feed import FeedKey, Want
from loremesh.sync.messages import Message, open_message, seal_message
from loremesh.sync.opening import Carried
from loremesh.sync.outcomes import Deferred, Outcome, Reason, Rejected
from loremesh.sync.repair import MAX_WANTS, HeadBody, ReplyBody, RequestBody
from loremesh.sync.spacestate import SpaceState
from loremesh.sync.status import UNSEEN, Behind
from loremesh.sync.wire import Chain

__all__ = ["Fetcher"]

log = structlog.get_logger(__name__)

MAX_GAPS = 4096
"""Gaps known at once in a space; more are found again through heads."""
MAX_GAPS_TOLD = 512
"""Of those, opened by the word of one peer: one that claims what is not there must leave room for others."""
MAX_HOLDERS = 16
"""Peers remembered as having what a gap lacks."""
MAX_VECTORS = 64
"""Peers whose vector is to be asked for."""
MAX_STRANGERS = 64
"""Peers whose messages came before their admission, remembered to be asked once that is here."""
READ_BYTES = 4 << 20
"""Frames read from the stream at a time."""
MAX_SILENCES = 3
"""Failures after which a silent peer's word about somebody else's chain is dropped."""
IDLE_S = 3600.0
"""The wait while nothing is due; whatever adds a gap ends it."""

Take = Callable[[bytes | Carried], Awaitable[Sequence[Outcome]]]


class Gap(Struct):
    """What one chain lacks, or (`single`) frames below its end that are wanted for themselves."""

    key: FeedKey
    first: int
    holders: dict[bytes, int]
    """By peer: the highest number it claims to hold."""
    due_s: float
    told_by: bytes
    """The peer that was the first to claim more."""
    single: bool = False
    failures: int = 0
    waiting_for: str = "repair"
    resume_seq: int = 0
    """Where in the stream the first frame that was deferred is; 0 where it did not come from there."""

    @property
    def last(self) -> int:
        """The highest number anybody claims."""
        return max(self.holders.values())


class Fetcher:
    """The gaps of one space and the loop that closes them."""

    def __init__(
        self,
        space: bytes,
        bus: Bus,
        around: Surroundings,
        take: Take,
        heed: Callable[[Message, HeadBody], None],
    ) -> None:
        self.requests = 0
        self.answers = 0
        self._space = space
        self._bus = bus
        self._around = around
        self._take = take
        self._heed = heed
        self._gaps: dict[tuple[FeedKey, int], Gap] = {}
        self._told: Counter[bytes] = Counter()
        self._silent_until: dict[bytes, float] = {}
        self._vectors: set[bytes] = set()
        self._strangers: set[bytes] = set()
        self._searched_s: dict[FeedKey, float] = {}
        self._doubted: set[FeedKey] = set()
        """Chains of which somebody claimed more and had nothing to show."""
        self._wake = asyncio.Event()

    def add(self, want: Want, holder: bytes, delay_s: float) -> None:
        """Somebody has frames that are missing here. Known gaps gain a holder; their turn stays as it is."""
        key = FeedKey(want.origin, want.incarnation, want.chain)
        single = want.last <= self._held(key)
        place = (key, want.first if single else 0)
        gap = self._gaps.get(place)
        if gap is None:
            if len(self._gaps) >= MAX_GAPS or self._told[holder] >= MAX_GAPS_TOLD:
                return
            failures = MAX_SILENCES if key in self._doubted else 0
            gap = Gap(key, want.first, {}, self._now() + delay_s, holder, single, failures)
            self._gaps[place] = gap
            self._told[holder] += 1
        if holder in gap.holders or len(gap.holders) < MAX_HOLDERS:
            gap.holders[holder] = max(want.last, gap.holders.get(holder, 0))
        self._wake.set()

    def rest(self, deferred: Deferred, resume_seq: int) -> None:
        """A frame was not taken for now: fetch it again when its budget allows, or somebody raised it."""
        self.add(deferred.want, deferred.origin, 0.0)
        gap = self._gaps.get((FeedKey(deferred.origin, deferred.want.incarnation, deferred.want.chain), 0))
        if gap is None:
            return
        options = self._around.options
        wait_s = min(max(deferred.until_s - self._now(), options.retry_first_s), options.rest_max_s)
        gap.due_s = self._now() + wait_s
        gap.waiting_for = deferred.limit.value
        if resume_seq and (not gap.resume_seq or resume_seq < gap.resume_seq):
            gap.resume_seq = resume_seq

    def ask_vector(self, peer: bytes) -> None:
        """Ask a peer for all its positions with the next request."""
        if len(self._vectors) < MAX_VECTORS:
            self._vectors.add(peer)
            self._wake.set()

    def unheard(self, message: Rejected) -> None:
        """A message was refused. Where its sender is no member here yet, it is asked once it is one: what it
        said is not said again while nothing changes.
        """
        if message.reason is Reason.NOT_A_MEMBER and len(self._strangers) < MAX_STRANGERS:
            self._strangers.add(message.origin)

    def admitted(self) -> None:
        """Members may have come: those that were not heard before are asked what they hold."""
        for peer in [peer for peer in self._strangers if peer in self._here().members]:
            self._strangers.discard(peer)
            self.ask_vector(peer)

    def retry(self) -> None:
        """Something changed (a new connection, a raised limit): everything is due now."""
        self._silent_until.clear()
        for gap in self._gaps.values():
            gap.due_s = self._now()
        self._wake.set()

    def behind(self) -> tuple[Behind, ...]:
        """What is known to be missing now."""
        return tuple(
            Behind(gap.key, self._held(gap.key), gap.last, self._why(gap))
            for gap in self._gaps.values()
            if not gap.single and not self._is_closed(gap)
        )

    def _why(self, gap: Gap) -> str:
        doubtful = gap.waiting_for == "repair" and gap.failures >= MAX_SILENCES
        return UNSEEN if doubtful else gap.waiting_for

    async def run(self) -> None:
        """Close gaps as they fall due, for ever. BusErrors are taken as reasons to wait."""
        while True:
            self._wake.clear()
            wait_s = self._wait_s()
            if wait_s > 0:
                try:
                    async with asyncio.timeout(wait_s):
                        await self._wake.wait()
                except TimeoutError:
                    pass
                continue
            try:
                await self._round()
            except BusError as error:
                log.info("repair_put_off", error=str(error))
                self._put_off(self._due())

    def _wait_s(self) -> float:
        if self._vectors:
            return 0.0
        return min((gap.due_s for gap in self._gaps.values()), default=self._now() + IDLE_S) - self._now()

    def _due(self) -> list[Gap]:
        """The gaps whose turn it is; what needs nothing more is forgotten."""
        for place, gap in list(self._gaps.items()):
            if self._is_closed(gap) or self._is_hopeless(gap):
                del self._gaps[place]
                self._told -= Counter((gap.told_by,))
        return [gap for gap in self._gaps.values() if gap.due_s <= self._now()]

    async def _round(self) -> None:
        """One step: reread what was deferred, else ask one peer, else search the stream."""
        due = self._due()
        for gap in [gap for gap in due if gap.resume_seq]:
            seq, gap.resume_seq = gap.resume_seq, 0
            await self._from_stream(gap.key, seq, gap.last)
        due = [gap for gap in self._due() if not gap.resume_seq]
        peer = self._whom(due)
        if peer is not None:
            await self._ask(peer, [gap for gap in due if peer in gap.holders])
            return
        for gap in due:
            await self._search(gap)
            if gap.due_s <= self._now():
                self._put_off([gap])

    def _whom(self, due: Iterable[Gap]) -> bytes | None:
        """The peer that answers most of what is due, of those that do answer."""
        self._silent_until = {peer: s for peer, s in self._silent_until.items() if s > self._now()}
        votes: dict[bytes, int] = dict.fromkeys(self._vectors, 1)
        for gap in due:
            for peer in gap.holders:
                votes[peer] = votes.get(peer, 0) + 1
        votes = {peer: n for peer, n in votes.items() if peer not in self._silent_until}
        self._vectors &= votes.keys()
        return max(votes, key=lambda peer: (votes[peer], peer), default=None)

    async def _ask(self, peer: bytes, gaps: list[Gap]) -> None:
        around = self._around
        gaps = gaps[:MAX_WANTS]
        wants = [self._want(gap, peer) for gap in gaps]
        before = {id(gap): self._held(gap.key) for gap in gaps}
        content = RequestBody(wants, vector=peer in self._vectors)
        self._vectors.discard(peer)
        request = seal_message(
            around.identity, self._here(), around.state.incarnation, content, around.clock_ms()
        )
        self.requests += 1
        replies = await self._bus.ask(self._space, peer, request, around.options.ask_s)
        self.answers += bool(replies)
        if not replies:
            self._silent_until[peer] = self._now() + around.options.silent_s
            for gap in gaps:
                # An origin's word about its own chain is signed by it; anybody else may say anything.
                if peer != gap.key.origin and gap.failures >= MAX_SILENCES:
                    gap.holders.pop(peer)
            self._put_off([gap for gap in gaps if not self._others_answer(gap)])
            return
        for sealed in replies:
            await self._digest(open_message(around.state, sealed))
        for gap in gaps:
            if self._held(gap.key) > before[id(gap)]:
                gap.failures = 0
                gap.waiting_for = "repair"
                self._doubted.discard(gap.key)
            elif gap.due_s <= self._now():
                # It was asked and had nothing that helps: its word is worth nothing for this gap.
                if len(gap.holders) == 1:
                    await self._search(gap)
                gap.holders.pop(peer, None)
                if len(self._doubted) < MAX_GAPS:
                    self._doubted.add(gap.key)

    async def _search(self, gap: Gap) -> None:
        """Look through all of the chain's subject, which is dear: once in a while for each chain."""
        again_s = self._around.options.retry_max_s
        now_s = self._now()
        self._searched_s = {key: s for key, s in self._searched_s.items() if s + again_s > now_s}
        if not gap.single and gap.key not in self._searched_s:
            self._searched_s[gap.key] = now_s
            await self._from_stream(gap.key, 1, gap.last)

    async def _digest(self, message: Message | Rejected) -> None:
        if isinstance(message, Rejected) or message.space != self._space:
            log.info("repair_reply_refused", why=message.detail if isinstance(message, Rejected) else "space")
            if isinstance(message, Rejected):
                self.unheard(message)
            return
        match message.content:
            case HeadBody():
                self._heed(message, message.content)
            case ReplyBody(frames=frames):
                for frame in frames:
                    await self._take(Carried(self._space, frame.header, frame.signature, frame.body))
            case RequestBody():
                pass

    async def _from_stream(self, key: FeedKey, seq: int, last: int) -> None:
        """Read a chain's subject from a stream number on, until `last` is held or a frame is deferred."""
        subject = FrameSubject(self._space, key.origin, key.incarnation, key.chain)
        while self._held(key) < last:
            stored = await self._bus.read(subject, seq, READ_BYTES)
            if not stored:
                return
            for one in stored:
                outcomes = await self._take(one.frame)
                if outcomes and isinstance(outcomes[0], Deferred):
                    self.rest(outcomes[0], one.seq)
                    return
                seq = one.seq + 1

    def _put_off(self, gaps: Iterable[Gap]) -> None:
        options = self._around.options
        for gap in gaps:
            gap.due_s = self._now() + min(options.retry_first_s * 2**gap.failures, options.retry_max_s)
            gap.failures = min(gap.failures + 1, 16)

    def _others_answer(self, gap: Gap) -> bool:
        return any(peer not in self._silent_until for peer in gap.holders)

    def _want(self, gap: Gap, peer: bytes) -> Want:
        first = gap.first if gap.single else self._held(gap.key) + 1
        key = gap.key
        return Want(key.origin, key.incarnation, key.chain, first, max(gap.holders[peer], first))

    def _is_closed(self, gap: Gap) -> bool:
        return not gap.holders or (not gap.single and self._held(gap.key) >= gap.last)

    def _is_hopeless(self, gap: Gap) -> bool:
        """Whether the funnel has refused the chain's next frame for good, or its whole incarnation."""
        state = self._around.state
        stopped = state.intake.stopped.get((self._space, gap.key))
        if stopped is not None and stopped.number == self._held(gap.key) + 1:
            return True
        forked = (gap.key.origin, gap.key.incarnation) in state.set_aside
        return forked and (gap.single or gap.key.chain is Chain.DATA)

    def _held(self, key: FeedKey) -> int:
        return self._here().position(key).number

    def _here(self) -> SpaceState:
        return self._around.state.spaces[self._space]

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
