"""A bus in memory for tests and simulations: the same contract as over NATS, and faults drawn from a seed.

A `MemoryHub` is the server; each `MemoryBus` is one node's connection to it. Faults concern what a reader is
handed and what broadcasts and replies get through; a stream itself never forgets, unless told to (`recreate`,
`purge`).
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from random import Random

import structlog
from msgspec import Struct

from loremesh.sync.busport import (
    MAX_ASK_REPLIES,
    MAX_BROADCASTS_WAITING,
    Arrival,
    BusDenied,
    BusOffline,
    BusState,
    Cursor,
    FrameSubject,
    FrameTooLarge,
    Handler,
    NoSpace,
    Notice,
    NoticeKind,
    Observer,
    Published,
    PublishOutcome,
    Refused,
    Stored,
    Unsure,
)
from loremesh.sync.tasks import end_tasks, trace

__all__ = ["Faults", "MemoryBus", "MemoryHub"]

log = structlog.get_logger(__name__)

MAX_MESSAGE_BYTES = 256 << 10
REORDER_SPAN = 8


class Faults(Struct, frozen=True):
    """How often the bus misbehaves, each in [0, 1].

    drop: a frame is never handed to a reader, a broadcast or request is lost; duplicate: it comes twice;
    reorder: it comes up to `REORDER_SPAN` frames late; unsure: a publish is not acknowledged, half of these
    having arrived.
    """

    drop: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    unsure: float = 0.0


class _Stream:
    """One space's frames on the hub."""

    def __init__(self, identity: str) -> None:
        self.identity = identity
        self.frames: list[tuple[FrameSubject, Stored]] = []
        self.seq = 0

    def last(self, subject: FrameSubject) -> Stored | None:
        return next((stored for where, stored in reversed(self.frames) if where == subject), None)


class MemoryHub:
    """The server: streams by space, and who is listening."""

    def __init__(self, seed: int = 0, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self.random = Random(seed)
        self.up = True
        self.streams: dict[bytes, _Stream] = {}
        self.handlers: dict[tuple[bytes, bytes], Callable[[bytes], asyncio.Future[list[bytes]]]] = {}
        self.listeners: dict[bytes, list[deque[bytes]]] = {}
        self.changed = asyncio.Event()
        self.denied: Callable[[str, FrameSubject], bool] = lambda user, subject: False
        self._made = 0

    def wake(self) -> None:
        """Tell everybody who waits that something changed."""
        self.changed.set()
        self.changed = asyncio.Event()

    def chance(self, rate: float) -> bool:
        """Draw once; nothing is drawn for a fault that is switched off."""
        return rate > 0 and self.random.random() < rate

    def stop(self) -> None:
        """The server goes: every connection is lost. Streams stay."""
        self.up = False
        self.wake()

    def start(self) -> None:
        """The server is back."""
        self.up = True
        self.wake()

    def ensure(self, space: bytes) -> None:
        """Make a space's stream where it is missing."""
        if space not in self.streams:
            self._made += 1
            self.streams[space] = _Stream(f"memory {self._made}")
            self.wake()

    def recreate(self, space: bytes) -> None:
        """Lose a space's frames and start its numbers again."""
        self.streams.pop(space, None)
        self.ensure(space)

    def purge(self, space: bytes) -> None:
        """Lose a space's frames; its numbers go on."""
        self.streams[space].frames.clear()

    def stream(self, space: bytes) -> _Stream:
        """A space's stream. Raises NoSpace."""
        if space not in self.streams:
            raise NoSpace("the bus has no stream for this space")
        return self.streams[space]


class MemoryBus:
    """One node's connection to a `MemoryHub`."""

    def __init__(self, hub: MemoryHub, name: str = "") -> None:
        self.last_error = ""
        self.cursor_seq = 0
        """The last stream number that any reader of this bus was led past, handed over or not."""
        self._hub = hub
        self._name = name
        self._observers: list[Observer] = []
        self._keeper: asyncio.Task[None] | None = None
        self._serving: dict[bytes, tuple[bytes, Handler]] = {}
        self._state = BusState.CLOSED

    @property
    def state(self) -> BusState:
        """Where the connection stands now."""
        return self._state

    def observe(self, observer: Observer) -> None:
        """Call `observer` with every notice from now on."""
        self._observers.append(observer)

    async def connect(self) -> None:
        """Connect to the hub, now or when it comes up."""
        if self._keeper is None:
            self._turn(BusState.CONNECTED if self._hub.up else BusState.WAITING)
            self._keeper = asyncio.create_task(self._keep(), name=f"memory bus {self._name}")

    async def close(self) -> None:
        """End everything, iterators included."""
        keeper, self._keeper = self._keeper, None
        self._state = BusState.CLOSED
        for space in list(self._serving):
            await self.leave(space)
        self._hub.wake()
        if keeper is not None:
            await end_tasks([keeper])

    async def ensure_space(self, space: bytes) -> None:
        """See to it that the space has its stream."""
        self._check()
        self._hub.ensure(space)

    async def publish(self, subject: FrameSubject, frame: bytes, after: int) -> PublishOutcome:
        """Append a frame to its subject, if the last frame there has the stream number `after`."""
        self._check()
        self._check_size(frame)
        if self._hub.denied(self._name, subject):
            self._tell(Notice(NoticeKind.DENIED, "publish", subject.space))
            raise BusDenied("the bus does not let this user publish there")
        stream = self._hub.stream(subject.space)
        unsure = self._hub.chance(self._hub.faults.unsure)
        if unsure and self._hub.chance(0.5):
            return Unsure("lost on the way there")
        ends = stream.last(subject)
        if (ends.seq if ends else 0) != after:
            return Refused(ends)
        stream.seq += 1
        stream.frames.append((subject, Stored(stream.seq, frame)))
        self._hub.wake()
        return Unsure("lost on the way back") if unsure else Published(stream.seq)

    async def last(self, subject: FrameSubject) -> Stored | None:
        """What the subject ends with now."""
        self._check()
        return self._hub.stream(subject.space).last(subject)

    async def read(self, subject: FrameSubject, seq: int, budget_bytes: int) -> list[Stored]:
        """Frames of one subject from stream number `seq` on."""
        self._check()
        found: list[Stored] = []
        for where, stored in self._hub.stream(subject.space).frames:
            if where == subject and stored.seq >= seq:
                found.append(stored)
                budget_bytes -= len(stored.frame)
                if budget_bytes <= 0:
                    break
        return found

    async def arrivals(self, space: bytes, cursor: Cursor) -> AsyncGenerator[Arrival, None]:
        """Every frame of the space after the cursor, then new ones as they come, as the faults let them
        through."""
        late: list[tuple[int, Arrival]] = []
        while self._state is not BusState.CLOSED:
            changed = self._hub.changed
            if self._state is BusState.CONNECTED and self._hub.up:
                self._hub.ensure(space)
                stream = self._hub.streams[space]
                if cursor.stream != stream.identity or cursor.seq > stream.seq:
                    if cursor.stream:
                        self._tell(Notice(NoticeKind.RESET, "the space's stream was recreated", space))
                    cursor = Cursor(stream.identity, 0)
                for subject, stored in [pair for pair in stream.frames if pair[1].seq > cursor.seq]:
                    cursor = Cursor(stream.identity, stored.seq)
                    self.cursor_seq = stored.seq
                    due, late = _due(late, stored.seq)
                    for arrival in due + self._fate(Arrival(subject, cursor, stored.frame), late):
                        yield arrival
                due, late = _due(late, None)
                for arrival in due:
                    yield arrival
                newest = stream.frames[-1][1].seq if stream.frames else 0
                if self._hub.streams.get(space) is not stream or newest > cursor.seq:
                    continue
            await changed.wait()

    def _fate(self, arrival: Arrival, late: list[tuple[int, Arrival]]) -> list[Arrival]:
        """What becomes of one arrival: handed over, twice, later, or never."""
        hub = self._hub
        if hub.chance(hub.faults.drop):
            return []
        if hub.chance(hub.faults.reorder):
            late.append((arrival.cursor.seq + hub.random.randint(1, REORDER_SPAN), arrival))
            return []
        return [arrival] * (2 if hub.chance(hub.faults.duplicate) else 1)

    async def broadcast(self, space: bytes, payload: bytes) -> None:
        """Send to whoever listens in the space now."""
        self._check()
        self._check_size(payload)
        for line in self._hub.listeners.get(space, []):
            if not self._hub.chance(self._hub.faults.drop):
                line.append(payload)
        self._hub.wake()

    async def broadcasts(self, space: bytes) -> AsyncGenerator[bytes, None]:
        """What is broadcast in the space while this iterator lives."""
        line: deque[bytes] = deque(maxlen=MAX_BROADCASTS_WAITING)
        listeners = self._hub.listeners.setdefault(space, [])
        listeners.append(line)
        try:
            while self._state is not BusState.CLOSED:
                changed = self._hub.changed
                while line:
                    yield line.popleft()
                await changed.wait()
        finally:
            listeners[:] = [other for other in listeners if other is not line]

    async def ask(self, space: bytes, peer: bytes, payload: bytes, timeout: float) -> list[bytes]:
        """Ask one peer; its replies, as many as came in time."""
        self._check()
        self._check_size(payload)
        handler = self._hub.handlers.get((space, peer))
        if handler is None or self._hub.chance(self._hub.faults.drop):
            return []
        answer = handler(payload)
        try:
            async with asyncio.timeout(timeout):
                replies = await answer
        except TimeoutError:
            return []
        return [reply for reply in replies if not self._hub.chance(self._hub.faults.drop)]

    def serve(self, space: bytes, origin: bytes, handler: Handler) -> None:
        """Answer what peers ask `origin` in the space."""
        if space in self._serving:
            raise ValueError("this space is served already; leave it first")
        self._serving[space] = (origin, handler)

        async def answer(payload: bytes) -> list[bytes]:
            try:
                return list(await handler(payload))[:MAX_ASK_REPLIES]
            except Exception as error:
                log.error("bus_request_failed", trace=trace(error))
                self._tell(Notice(NoticeKind.FAILED, f"a request failed: {error}", space))
                return []

        self._hub.handlers[space, origin] = lambda payload: asyncio.ensure_future(answer(payload))

    async def leave(self, space: bytes) -> None:
        """Stop serving the space."""
        serving = self._serving.pop(space, None)
        if serving is not None:
            self._hub.handlers.pop((space, serving[0]), None)

    def _tell(self, notice: Notice) -> None:
        for observer in self._observers:
            try:
                observer(notice)
            except Exception as error:
                log.error("bus_observer_failed", notice=notice.kind.value, trace=trace(error))

    def _check(self) -> None:
        if self._state is not BusState.CONNECTED or not self._hub.up:
            raise BusOffline(f"not connected: {self._state.value}")

    def _check_size(self, payload: bytes) -> None:
        if len(payload) > MAX_MESSAGE_BYTES:
            raise FrameTooLarge(len(payload), MAX_MESSAGE_BYTES)

    def _turn(self, state: BusState) -> None:
        self._state = state
        if state is BusState.CONNECTED:
            self.last_error = ""
            self._tell(Notice(NoticeKind.CONNECTED, "memory"))
        else:
            self.last_error = "the hub is down"
            self._tell(Notice(NoticeKind.LOST, self.last_error))

    async def _keep(self) -> None:
        """Follow the hub going and coming."""
        while True:
            changed = self._hub.changed
            if self._hub.up and self._state is not BusState.CONNECTED:
                self._turn(BusState.CONNECTED)
                self._hub.wake()
                continue
            if not self._hub.up and self._state is BusState.CONNECTED:
                self._turn(BusState.WAITING)
            await changed.wait()


def _due(late: list[tuple[int, Arrival]], seq: int | None) -> tuple[list[Arrival], list[tuple[int, Arrival]]]:
    """Split what was held back: what is due at this number (None: everything), and the rest."""
    due = [arrival for when, arrival in late if seq is None or when <= seq]
    return due, [pair for pair in late if seq is not None and pair[0] > seq]
