"""The `Bus` over NATS: JetStream for frames, plain messages for heads and repair.

Every subscription is a loop over connections: when one is lost, the loop waits for the next and goes on from
its cursor. So a reconnection needs no bookkeeping, and nothing is taken for received that was not handed
over.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import structlog

from loremesh.sync import nats_stream
from loremesh.sync.busport import (
    MAX_ASK_REPLIES,
    MAX_BROADCASTS_WAITING,
    Arrival,
    BusError,
    BusOffline,
    BusState,
    BusTimeout,
    Cursor,
    FrameSubject,
    Handler,
    Notice,
    NoticeKind,
    Observer,
    PublishOutcome,
    Stored,
    Unsure,
)
from loremesh.sync.nats_connection import Connection, Message, describe
from loremesh.sync.nats_link import Link, NatsOptions
from loremesh.sync.subjects import (
    announcements,
    feed_subject,
    heads,
    may_be_answered,
    parse_frame_subject,
    questions,
    stream_subjects,
)
from loremesh.sync.tasks import end_tasks, trace

__all__ = ["NatsBus", "NatsOptions"]

log = structlog.get_logger(__name__)

MAX_QUESTIONS_WAITING = 64
STALE_CHECK_S = 1.0


class NatsBus:
    """One user's connection to a NATS server (or cluster) and the spaces it may use there.

    `credential` is the text of an nkey user seed, '' where the server asks for none.
    """

    def __init__(
        self, url: str, credential: str = "", name: str = "loremesh", options: NatsOptions | None = None
    ) -> None:
        self._options = options = options or NatsOptions()
        self._observers: list[Observer] = []
        self._link = Link(url, credential, name, options, self._tell)
        self._servers: dict[bytes, asyncio.Task[None]] = {}

    @property
    def state(self) -> BusState:
        """Where the connection stands now."""
        return self._link.state

    @property
    def last_error(self) -> str:
        """What went wrong last, '' when nothing did since the connection was made."""
        return self._link.last_error

    def observe(self, observer: Observer) -> None:
        """Call `observer` with every notice from now on."""
        self._observers.append(observer)

    async def connect(self) -> None:
        """Start, and wait for the first attempt to end. Raises BusUnconfigured."""
        await self._link.start()

    async def close(self) -> None:
        """End everything, iterators included."""
        servers, self._servers = self._servers, {}
        await self._link.stop()
        await end_tasks(servers.values())

    async def ensure_space(self, space: bytes) -> None:
        """See to it that the space has its stream."""
        await nats_stream.ensure(self._link.current(), space, self._options.request_timeout_s)

    async def publish(self, subject: FrameSubject, frame: bytes, after: int) -> PublishOutcome:
        """Append a frame to its subject, if the last frame there has the stream number `after`."""
        connection = self._link.current()
        try:
            return await nats_stream.append(
                connection, subject, frame, after, self._options.request_timeout_s
            )
        except BusOffline as error:
            return Unsure(str(error))

    async def last(self, subject: FrameSubject) -> Stored | None:
        """What the subject ends with now."""
        return await nats_stream.last(self._link.current(), subject, self._options.request_timeout_s)

    async def read(self, subject: FrameSubject, seq: int, budget_bytes: int) -> list[Stored]:
        """Frames of one subject from stream number `seq` on."""
        page = await nats_stream.page(
            self._link.current(),
            subject.space,
            feed_subject(subject),
            seq,
            messages=self._options.read_messages,
            size_bytes=max(budget_bytes, 1),
            timeout_s=self._options.request_timeout_s,
        )
        return [stored for _, stored in page.frames]

    async def arrivals(self, space: bytes, cursor: Cursor) -> AsyncGenerator[Arrival, None]:
        """Every frame of the space after the cursor, then new ones as they come, over any number of
        connections."""
        pause_s = self._options.backoff_first_s
        while True:
            connection = await self._link.connected()
            try:
                async with aclosing(self._follow(connection, space, cursor)) as following:
                    async for arrival in following:
                        cursor = arrival.cursor
                        pause_s = self._options.backoff_first_s
                        yield arrival
            except BusError as error:
                if self.state is BusState.CLOSED:
                    return
                if not connection.lost.is_set():
                    self._tell(Notice(NoticeKind.FAILED, str(error), space))
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, self._options.backoff_max_s)

    async def broadcast(self, space: bytes, payload: bytes) -> None:
        """Send to whoever listens in the space now."""
        await self._link.current().send(heads(space), payload)

    async def broadcasts(self, space: bytes) -> AsyncGenerator[bytes, None]:
        """What is broadcast in the space while this iterator lives."""
        async with aclosing(self._messages(heads(space), MAX_BROADCASTS_WAITING)) as messages:
            async for _, message in messages:
                yield message.data

    async def ask(self, space: bytes, peer: bytes, payload: bytes, timeout: float) -> list[bytes]:
        """Ask one peer; its replies, as many as came in time. An empty message ends them."""
        replies: list[bytes] = []
        clock = asyncio.get_running_loop().time
        until = clock() + timeout
        connection = self._link.current()
        async with connection.call(questions(space, peer), payload, replies=MAX_ASK_REPLIES) as call:
            while len(replies) < MAX_ASK_REPLIES:
                try:
                    reply = await call.reply(max(until - clock(), 0.0))
                except BusTimeout:
                    break
                if reply.status or not reply.data:
                    break
                replies.append(reply.data)
        return replies

    def serve(self, space: bytes, origin: bytes, handler: Handler) -> None:
        """Answer what peers ask `origin` in the space, one request at a time."""
        if space in self._servers:
            raise ValueError("this space is served already; leave it first")
        self._servers[space] = asyncio.create_task(self._answer(space, origin, handler), name="bus server")

    async def leave(self, space: bytes) -> None:
        """Stop serving the space."""
        server = self._servers.pop(space, None)
        if server is not None:
            await end_tasks([server])

    def _tell(self, notice: Notice) -> None:
        for observer in self._observers:
            try:
                observer(notice)
            except Exception as error:
                log.error("bus_observer_failed", notice=notice.kind.value, trace=trace(error))

    async def _answer(self, space: bytes, origin: bytes, handler: Handler) -> None:
        async with aclosing(self._messages(questions(space, origin), MAX_QUESTIONS_WAITING)) as messages:
            async for connection, question in messages:
                if not may_be_answered(question.reply):
                    self._tell(
                        Notice(NoticeKind.FAILED, "a request wants its answer outside an inbox", space)
                    )
                    continue
                try:
                    for reply in (await handler(question.data))[:MAX_ASK_REPLIES]:
                        await connection.send(question.reply, reply)
                    await connection.send(question.reply, b"")
                except BusError as error:
                    log.info("bus_reply_not_sent", error=str(error))
                except Exception as error:
                    # The handler's fault must not end the serving of later requests.
                    log.error("bus_request_failed", trace=trace(error))
                    self._tell(Notice(NoticeKind.FAILED, f"a request failed: {describe(error)}", space))

    async def _messages(self, subject: str, waiting: int) -> AsyncGenerator[tuple[Connection, Message], None]:
        """A subscription over any number of connections; ends when the bus is closed."""
        while True:
            try:
                connection = await self._link.connected()
            except BusOffline:
                return
            try:
                async with connection.listen(subject, waiting) as line:
                    while True:
                        message = await line.get(self._options.check_interval_s)
                        line.lagged = False
                        if message is not None:
                            yield connection, message
            except BusOffline:
                continue

    async def _follow(
        self, connection: Connection, space: bytes, cursor: Cursor
    ) -> AsyncGenerator[Arrival, None]:
        """One connection's worth of `arrivals`: read up to the end, then live, reading again whenever one is
        missed."""
        options = self._options
        async with connection.listen(announcements(space)) as line:
            cursor, behind = await self._place(connection, space, cursor)
            checked_s = asyncio.get_running_loop().time()
            while True:
                if behind:
                    page = await nats_stream.page(
                        connection,
                        space,
                        stream_subjects(space),
                        cursor.seq + 1,
                        messages=options.read_messages,
                        size_bytes=options.read_bytes,
                        timeout_s=options.request_timeout_s,
                    )
                    behind = bool(page.frames)
                    for where, stored in page.frames:
                        cursor = Cursor(cursor.stream, stored.seq)
                        subject = parse_frame_subject(where)
                        if subject is not None:
                            yield Arrival(subject, cursor, stored.frame)
                    continue
                message = await line.get(options.check_interval_s)
                now_s = asyncio.get_running_loop().time()
                if line.lagged:
                    line.lagged = False
                    behind = True
                    self._tell(
                        Notice(NoticeKind.LAGGED, "live frames were dropped; reading them again", space)
                    )
                seq = _number(message)
                if message is not None and seq == cursor.seq + 1:
                    cursor = Cursor(cursor.stream, seq)
                    subject = parse_frame_subject(message.headers.get("Nats-Subject", ""))
                    if subject is not None:
                        yield Arrival(subject, cursor, message.data)
                elif seq > cursor.seq:
                    behind = True
                elif message is None or now_s - checked_s > STALE_CHECK_S:
                    # Silence, or a number again: both are what a lost or recreated stream looks like.
                    checked_s = now_s
                    cursor, more = await self._place(connection, space, cursor)
                    behind = behind or more

    async def _place(self, connection: Connection, space: bytes, cursor: Cursor) -> tuple[Cursor, bool]:
        """The cursor in the stream as it is now, and whether there is more after it."""
        stream = await nats_stream.ensure(connection, space, self._options.request_timeout_s)
        if cursor.stream != stream.identity or cursor.seq > stream.last_seq:
            if cursor.stream:
                self._tell(
                    Notice(NoticeKind.RESET, "the space's stream was recreated or lost its end", space)
                )
            cursor = Cursor(stream.identity, 0)
        return cursor, stream.last_seq > cursor.seq


def _number(message: Message | None) -> int:
    """The stream's number of an announced frame; 0 for what has none (anybody may have sent it)."""
    text = message.headers.get("Nats-Sequence", "") if message is not None else ""
    return int(text) if text.isascii() and text.isdecimal() else 0
