"""One space on one bus: receiving, publishing, heads, repair and answering, as loops that survive
everything."""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import assert_never

import structlog

from loremesh.crypto.peerid import peer_id
from loremesh.sync.busport import (
    MAX_ASK_REPLIES,
    Arrival,
    Bus,
    BusError,
    BusOffline,
    BusState,
    Cursor,
    NoSpace,
    Notice,
    NoticeKind,
)
from loremesh.sync.enginevalues import Surroundings
from loremesh.sync.feed import FeedKey, Position
from loremesh.sync.fetching import Fetcher
from loremesh.sync.intake import label
from loremesh.sync.limits import Bucket, Meter, drawn, level
from loremesh.sync.messages import Message, open_message, seal_message
from loremesh.sync.opening import Carried
from loremesh.sync.outbox import Outbox
from loremesh.sync.outcomes import Applied, Buffered, Deferred, Duplicate, Outcome, Quarantined, Rejected
from loremesh.sync.repair import (
    HeadBody,
    Known,
    OwnFeed,
    ReplyBody,
    RequestBody,
    advanced,
    behind,
    bodies_missing,
    frames_for,
    head,
    positions,
    replies,
    vector_hash,
    vector_pages,
)
from loremesh.sync.spacestate import SpaceState
from loremesh.sync.status import UNSEEN, FeedStatus, SpacePhase, SpaceStatus
from loremesh.sync.tasks import end_tasks, trace

__all__ = ["Session"]

log = structlog.get_logger(__name__)

ANSWER_BYTES = 4 << 20
"""Of frames in answer to one request: about 18 replies; who needs more asks again."""
MAX_HEARD = 4096
"""Peers whose last head is remembered."""
HEADS_BURST = 64.0
HEADS_PER_TURN = 10.0
"""Heads of one peer that are compared in `head_s`; an honest one sends one. Comparing may be dear."""
REQUESTS_BURST = 64.0
REQUESTS_PER_TURN = 20.0
"""Requests of one peer that are answered in `ask_s`: each may read `ANSWER_BYTES` from the disk."""
MAX_ERRORS = 8
"""Latest errors shown in the status."""
MAX_ATTEMPTS = 4
"""At one frame the funnel raises on, before going on without it: a head will show that it is missing."""


class Session:
    """The engine's part for one space."""

    def __init__(self, space: bytes, bus: Bus, around: Surroundings, cursor: Cursor) -> None:
        self.bus = bus
        self._space = space
        self._around = around
        self._cursor = cursor
        self._outcomes: Counter[str] = Counter()
        self._counters: Counter[str] = Counter()
        self._errors: deque[str] = deque(maxlen=MAX_ERRORS)
        self._tasks: list[asyncio.Task[None]] = []
        self._outbox = Outbox(space, bus, around.state, around.journal, self._take)
        self._fetcher = Fetcher(space, bus, around, self._take, self._heed)
        self._outgoing = asyncio.Event()
        self._greet = asyncio.Event()
        self._compare = asyncio.Event()
        self._compared_s: dict[bytes, float] = {}
        options = around.options
        self._heads = Meter(HEADS_PER_TURN / options.head_s, HEADS_BURST)
        self._requests = Meter(REQUESTS_PER_TURN / options.ask_s, REQUESTS_BURST)
        self._heard: dict[bytes, Bucket] = {}  # by member, as are those answered: at most MAX_MEMBERS
        self._answered: dict[bytes, Bucket] = {}

    def start(self) -> None:
        """Begin all loops."""
        loops: dict[str, Callable[[], Awaitable[None]]] = {
            "receive": self._receive,
            "publish": self._publish,
            "announce": self._announce,
            "listen": self._listen,
            "repair": self._fetcher.run,
        }
        self.bus.serve(self._space, self._around.state.own, self._answer)
        self._tasks = [
            asyncio.create_task(self._keep_up(name, loop), name=f"sync {name}")
            for name, loop in loops.items()
        ]

    async def stop(self) -> None:
        """End all loops; what was under way is left as if it had never begun."""
        await self.bus.leave(self._space)
        tasks, self._tasks = self._tasks, []
        await end_tasks(tasks)

    def publish(self) -> None:
        """Own frames are in the journal: the outbox is to look."""
        self._outgoing.set()

    def retry(self) -> None:
        """Trust or a limit was raised: what was deferred is due now."""
        self._fetcher.retry()

    def noticed(self, notice: Notice) -> None:
        """What the bus tells; notices of other spaces are not for this one."""
        if notice.space not in (b"", self._space):
            return
        self._counters[f"bus {notice.kind.value}"] += 1
        match notice.kind:
            case NoticeKind.CONNECTED:
                self._outbox.forget()
                self._outgoing.set()
                self._greet.set()
                self._fetcher.retry()
            case NoticeKind.RESET:
                self._outbox.forget()
                self._outgoing.set()
                self._note(f"bus: {notice.detail}")
            case NoticeKind.LOST | NoticeKind.DENIED | NoticeKind.FAILED | NoticeKind.LAGGED:
                self._note(f"bus {notice.kind.value}: {notice.detail}")
            case _:
                assert_never(notice.kind)

    def status(self) -> SpaceStatus:
        """The space as of now."""
        missing = self._fetcher.behind()
        own = self._outbox.status()
        connected = self.bus.state is BusState.CONNECTED
        if not self._tasks:
            phase = SpacePhase.STOPPED
        elif not connected:
            phase = SpacePhase.OFFLINE
        elif FeedStatus.PENDING in own.values() or any(one.waiting_for != UNSEEN for one in missing):
            phase = SpacePhase.SYNCING
        else:
            phase = SpacePhase.CURRENT
        counters = dict(self._counters) | {
            "frames published": self._outbox.published,
            "requests sent": self._fetcher.requests,
            "requests answered": self._fetcher.answers,
        }
        return SpaceStatus(
            self._space, phase, self.bus.state, self._cursor, missing, own,
            dict(self._outcomes), counters, tuple(self._errors),
        )  # fmt: skip

    async def _keep_up(self, name: str, loop: Callable[[], Awaitable[None]]) -> None:
        """Run one loop again whenever it ends, well or not, with growing waits between failures."""
        options = self._around.options
        wait_s = options.retry_first_s
        while True:
            started_s = self._now()
            try:
                await loop()
            except BusOffline:
                pass  # the bus has said so itself
            except BusError as error:
                self._note(f"{name}: {error}")
            except Exception as error:
                log.error("sync_loop_failed", loop=name, trace=trace(error))
                self._note(f"{name}: {type(error).__name__}: {error}")
            if self._now() - started_s > options.retry_max_s:
                wait_s = options.retry_first_s
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 2, options.retry_max_s)

    async def _receive(self) -> None:
        async with aclosing(self.bus.arrivals(self._space, self._cursor)) as arrivals:
            async for arrival in arrivals:
                await self._take_arrival(arrival)
                self._cursor = arrival.cursor

    async def _take_arrival(self, arrival: Arrival) -> None:
        """Admit one frame, again while the funnel raises (a full disk, say), so that nothing is passed
        over."""
        wait_s = self._around.options.retry_first_s
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                outcomes = await self._take(arrival.frame)
            except Exception as error:
                log.error("frame_not_admitted", attempt=attempt, trace=trace(error))
                self._note(f"frame not admitted: {error}")
                self._counters["frames the funnel raised on"] += 1
                if attempt < MAX_ATTEMPTS:
                    await asyncio.sleep(wait_s)
                    wait_s *= 2
                continue
            if outcomes and isinstance(outcomes[0], Deferred):
                want, where = outcomes[0].want, arrival.subject
                # The subject is a claim: only where it is the frame's own can the frame be found there again.
                own_place = (where.origin, where.incarnation, where.chain) == (
                    want.origin, want.incarnation, want.chain,
                )  # fmt: skip
                self._fetcher.rest(outcomes[0], arrival.cursor.seq if own_place else 0)
            return

    async def _take(self, frame: bytes | Carried) -> Sequence[Outcome]:
        """The funnel, and what its outcomes say about what is missing."""
        outcomes = await self._around.admit(frame)
        self._fetcher.admitted()
        for outcome in outcomes:
            self._outcomes[label(outcome)] += 1
            match outcome:
                case Buffered(origin=origin, missing=missing):
                    self._fetcher.add(missing, origin, self._around.options.grace_s)
                case Deferred():
                    self._fetcher.rest(outcome, 0)
                case Rejected(reason=reason, detail=detail, origin=origin):
                    whose = f"frame of {peer_id(origin)}" if origin else "frame"
                    self._note(f"{whose} rejected: {reason.value}: {detail}")
                case Applied() | Quarantined() | Duplicate():
                    pass
                case _:
                    assert_never(outcome)
            try:
                self._around.on_outcome(self._space, outcome)
            except Exception as error:
                log.error("on_outcome_failed", outcome=label(outcome), trace=trace(error))
        return outcomes

    async def _publish(self) -> None:
        options = self._around.options
        wait_s = options.retry_first_s
        while True:
            self._outgoing.clear()
            until_s = options.check_s
            try:
                await self._flush()
                wait_s = options.retry_first_s
            except BusOffline:
                pass  # connecting sets `_outgoing`
            except BusError as error:
                self._note(f"publish: {error}")
                until_s, wait_s = wait_s, min(wait_s * 2, options.retry_max_s)
            try:
                async with asyncio.timeout(until_s):
                    await self._outgoing.wait()
            except TimeoutError:
                self._outbox.forget()

    async def _flush(self) -> None:
        try:
            await self._outbox.flush()
        except NoSpace:
            await self.bus.ensure_space(self._space)
            self._outbox.forget()
            await self._outbox.flush()

    async def _announce(self) -> None:
        """Send a head when something changed, when somebody holds something else, and once in a while."""
        options, state = self._around.options, self._around.state
        since: dict[FeedKey, Position] = {}
        sent_s = float("-inf")
        while True:
            at = positions(state, self._here())
            greeting = self._greet.is_set()
            quiet = self._now() - sent_s < options.quiet_head_s
            if greeting or self._compare.is_set() or at != since or not quiet:
                content = head(state, self._here(), {} if greeting else since)
                try:
                    await self.bus.broadcast(self._space, self._sealed(content))
                except BusOffline:
                    pass  # connecting sets `_greet`
                else:
                    self._greet.clear()
                    self._compare.clear()
                    since, sent_s = at, self._now()
                    self._counters["heads sent"] += 1
            await asyncio.sleep(options.head_s)

    async def _listen(self) -> None:
        async with aclosing(self.bus.broadcasts(self._space)) as heads:
            async for sealed in heads:
                message = open_message(self._around.state, sealed)
                if isinstance(message, Rejected):
                    self._counters["heads refused"] += 1
                    self._fetcher.unheard(message)
                elif message.space == self._space and isinstance(message.content, HeadBody):
                    if self._may(self._heard, self._heads, message.origin):
                        self._heed(message, message.content)
                    else:
                        self._counters["heads passed over"] += 1

    def _heed(self, message: Message, content: HeadBody) -> None:
        """Compare a head with what is held here, and see to what is missing."""
        options, state, space, peer = self._around.options, self._around.state, self._here(), message.origin
        if peer == state.own:
            return
        self._counters["heads heard"] += 1
        skip = {
            key
            for (where, key), stopped in state.intake.stopped.items()
            if where == self._space and stopped.number == space.position(key).number + 1
        }
        told: list[OwnFeed | Known] = [*content.feeds, *content.changed, *content.vector]
        wants = behind(space.chains, told, peer, skip)
        for feed in content.feeds:
            wants += bodies_missing(state, space, peer, feed)
        for want in wants:
            self._fetcher.add(want, peer, options.grace_s)
        here = positions(state, space)
        differs = content.vector_hash != vector_hash(here)
        if differs and self._now() - self._compared_s.get(peer, float("-inf")) >= options.vector_s:
            if peer in self._compared_s or len(self._compared_s) < MAX_HEARD:
                self._compared_s[peer] = self._now()
            # Either may be behind. It finds out from a head of ours, we from its vector.
            self._compare.set()
            if not content.vector and content.vector_hash != vector_hash(advanced(here, told, peer)):
                self._fetcher.ask_vector(peer)

    async def _answer(self, question: bytes) -> list[bytes]:
        """What a peer's request gets: frames it wants, or all positions; nothing where it is no member's."""
        state, space = self._around.state, self._here()
        message = open_message(state, question)
        if isinstance(message, Rejected) or message.space != self._space:
            self._counters["requests refused"] += 1
            return []
        if not isinstance(message.content, RequestBody):
            self._counters["requests refused"] += 1
            return []
        if not self._may(self._answered, self._requests, message.origin):
            self._counters["requests passed over"] += 1
            return []
        self._counters["requests served"] += 1
        frames = await frames_for(self._around.journal, self._space, message.content.wants, ANSWER_BYTES)
        bodies: list[HeadBody | ReplyBody] = [*replies(frames)]
        if message.content.vector:
            bodies += vector_pages(state, space)
        return [self._sealed(body) for body in bodies[:MAX_ASK_REPLIES]]

    def _may(self, buckets: dict[bytes, Bucket], of: Meter, peer: bytes) -> bool:
        """Whether a peer may have this done once more now; it is counted if so."""
        now_s = self._now()
        if level(buckets.get(peer), of, now_s) <= 0:
            return False
        buckets[peer] = drawn(buckets.get(peer), of, now_s, 1.0)
        return True

    def _sealed(self, content: HeadBody | ReplyBody) -> bytes:
        around = self._around
        return seal_message(
            around.identity, self._here(), around.state.incarnation, content, around.clock_ms()
        )

    def _here(self) -> SpaceState:
        return self._around.state.spaces[self._space]

    def _note(self, error: str) -> None:
        self._errors.append(error)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
