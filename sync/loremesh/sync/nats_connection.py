"""One live nats-py client with its traps covered: what is sent, asked and listened to through it.

A connection is made, used and dropped (`nats_link` makes the next one); everything that waits on it learns of
its end through `BusOffline`.
"""

import asyncio
import contextlib
import re
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import nats.errors
import structlog
from msgspec import Struct
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.nuid import NUID

from loremesh.sync.busport import (
    BusDenied,
    BusError,
    BusOffline,
    BusTimeout,
    FrameTooLarge,
    Notice,
    NoticeKind,
)

__all__ = ["Call", "Connection", "Line", "Message", "describe", "shut"]

log = structlog.get_logger(__name__)

VIOLATION = re.compile(r"permissions violation for (publish|subscription) to \"([^\"]+)\"", re.IGNORECASE)
HEADER_LINE_BYTES = len(b"NATS/1.0\r\n\r\n")
HEADER_FIELD_BYTES = len(b": \r\n")
LINE_MESSAGES = 512
LINE_BYTES = 32 << 20
LIBRARY_MESSAGES = 4096
LIBRARY_BYTES = 128 << 20
LIBRARY_PENDING_BYTES = 2 << 20


class Message(Struct, frozen=True):
    """A message as it came: its subject, reply subject, headers and body."""

    subject: str
    reply: str
    headers: Mapping[str, str]
    data: bytes

    @property
    def status(self) -> str:
        """The server's inline status ('503' nobody there, '404' nothing found, '204' end), '' for a real
        message."""
        return self.headers.get("Status", "")


class Line:
    """A bounded queue between a subscription and its reader; what does not fit is dropped and `lagged` says
    so."""

    def __init__(self, messages: int = LINE_MESSAGES, size_bytes: int = LINE_BYTES) -> None:
        self.lagged = False
        self._waiting: deque[Message] = deque()
        self._messages = messages
        self._limit_bytes = size_bytes
        self._bytes = 0
        self._wake = asyncio.Event()
        self._over: BusError | None = None

    def put(self, message: Message) -> None:
        """Take a message, or drop it when full."""
        if len(self._waiting) >= self._messages or self._bytes + len(message.data) > self._limit_bytes:
            self.drop()
            return
        self._waiting.append(message)
        self._bytes += len(message.data)
        self._wake.set()

    def drop(self) -> None:
        """Something was dropped on its way: the reader is woken to see `lagged`, and clears it."""
        self.lagged = True
        self._wake.set()

    def end(self, error: BusError) -> None:
        """Nothing more will come: readers get what is left and then the error."""
        if self._over is None:
            self._over = error
        self._wake.set()

    async def get(self, timeout_s: float) -> Message | None:
        """The next message, None when none came in time or when messages were dropped; raises once ended."""
        if not self._waiting and self._over is None and not self.lagged:
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._wake.wait()
        if self._waiting:
            message = self._waiting.popleft()
            self._bytes -= len(message.data)
            return message
        if self._over is not None:
            raise self._over
        return None


class Call:
    """A request in the air and the replies to it."""

    def __init__(self, line: Line, subject: str) -> None:
        self._line = line
        self._subject = subject

    async def reply(self, timeout_s: float) -> Message:
        """The next reply. Raises BusTimeout, BusOffline or BusDenied."""
        message = await self._line.get(timeout_s)
        if message is None:
            raise BusTimeout(f"no answer on {self._subject} within {timeout_s:g} s")
        return message


class Connection:
    """One live client. Everything made from it ends with it."""

    def __init__(self, client: Client, inbox: str, generation: int, notice: Callable[[Notice], None]) -> None:
        self.generation = generation
        self.lost = asyncio.Event()
        self.why_lost = ""
        self._client = client
        self._inbox = f"{inbox}.{NUID().next().decode()}"
        self._nuid = NUID()
        self._calls: dict[str, tuple[str, Line]] = {}
        self._lines: dict[int, Line] = {}
        self._notice = notice

    async def open(self) -> None:
        """Listen on the inbox that all replies come to."""
        await self._subscribe(f"{self._inbox}.*", self._on_reply)

    def drop(self, why: str) -> None:
        """Declare the connection lost: everybody who waits on it is told."""
        if self.lost.is_set():
            return
        self.why_lost = why
        self.lost.set()
        error = BusOffline(f"the connection to the bus was lost: {why}")
        for _, line in self._calls.values():
            line.end(error)
        for line in self._lines.values():
            line.end(error)

    def failed(self, error: Exception) -> None:
        """What nats-py reports in passing: give it to whom it concerns."""
        violation = VIOLATION.search(str(error))
        if violation is not None:
            refused = violation.group(2).lower()
            self._notice(Notice(NoticeKind.DENIED, f"{violation.group(1).lower()} to {refused}"))
            for subject, line in list(self._calls.values()):
                if subject.lower() == refused:
                    line.end(BusDenied(f"the bus does not let this user publish to {subject}"))
        elif isinstance(error, nats.errors.SlowConsumerError):
            lagging = self._lines.get(error.sid)
            if lagging is not None:
                lagging.drop()
        else:
            self._notice(Notice(NoticeKind.FAILED, describe(error)))

    @property
    def max_message_bytes(self) -> int:
        """The server's limit for headers and body together."""
        return self._client.max_payload

    async def send(
        self, subject: str, payload: bytes, *, reply: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        """Hand a message to the socket. Raises FrameTooLarge and BusOffline; arrival is not confirmed."""
        size = len(payload)
        if headers:
            size += HEADER_LINE_BYTES
            size += sum(len(k.encode()) + len(v.encode()) + HEADER_FIELD_BYTES for k, v in headers.items())
        # nats-py compares the body alone, and the server ends a connection that sends more.
        if size > self.max_message_bytes:
            raise FrameTooLarge(size, self.max_message_bytes)
        if self.lost.is_set():
            raise BusOffline(f"the connection to the bus was lost: {self.why_lost}")
        try:
            await self._client.publish(subject, payload, reply, dict(headers) if headers else None)
        except (nats.errors.Error, OSError) as error:
            raise BusOffline(f"the bus did not take a message: {describe(error)}") from error

    @asynccontextmanager
    async def call(
        self, subject: str, payload: bytes, headers: Mapping[str, str] | None = None, replies: int = 1
    ) -> AsyncGenerator[Call, None]:
        """Send a request; its replies are read from what this yields, at most `replies` of them waiting."""
        key = self._nuid.next().decode()
        line = Line(messages=max(replies, 1))
        self._calls[key] = (subject, line)
        try:
            await self.send(subject, payload, reply=f"{self._inbox}.{key}", headers=headers)
            yield Call(line, subject)
        finally:
            del self._calls[key]

    @asynccontextmanager
    async def listen(
        self, subject: str, messages: int = LINE_MESSAGES, size_bytes: int = LINE_BYTES
    ) -> AsyncGenerator[Line, None]:
        """Subscribe for as long as the context lasts."""
        line = Line(messages, size_bytes)

        async def on_message(msg: Msg) -> None:
            line.put(_message(msg))

        sid, unsubscribe = await self._subscribe(subject, on_message)
        self._lines[sid] = line
        if self.lost.is_set():
            line.end(BusOffline(f"the connection to the bus was lost: {self.why_lost}"))
        try:
            yield line
        finally:
            del self._lines[sid]
            if not self.lost.is_set():
                # Where this fails the connection is going, and takes the subscription with it.
                with contextlib.suppress(nats.errors.Error, OSError):
                    await unsubscribe()

    async def probe(self, timeout_s: float) -> None:
        """A round trip. Raises nats.errors.Error or TimeoutError; the client is of no use afterwards.

        (A pong that comes after its ping was given up ends nats-py's read loop.)
        """
        async with asyncio.timeout(timeout_s + 1.0):
            # Declared an int, used as seconds.
            await self._client.rtt(timeout=timeout_s)  # type: ignore[arg-type]

    async def shut(self, timeout_s: float) -> None:
        """Close the client, whatever state it is in."""
        self.drop("closed")
        await shut(self._client, timeout_s)

    async def _on_reply(self, msg: Msg) -> None:
        waiting = self._calls.get(msg.subject.rpartition(".")[2])
        if waiting is not None:
            waiting[1].put(_message(msg))

    async def _subscribe(self, subject: str, callback: Callable[[Msg], Any]) -> tuple[int, Callable[[], Any]]:
        try:
            subscription = await self._client.subscribe(
                subject,
                cb=callback,
                pending_msgs_limit=LIBRARY_MESSAGES,
                pending_bytes_limit=LIBRARY_BYTES,
            )
        except (nats.errors.Error, OSError) as error:
            raise BusOffline(f"the bus did not take a subscription: {describe(error)}") from error
        return subscription._id, subscription.unsubscribe


async def shut(client: Client, timeout_s: float) -> None:
    """Close a client for good. It may hang on a stalled socket, or never have got as far as to have one."""
    try:
        async with asyncio.timeout(timeout_s):
            await client.close()
    except (nats.errors.Error, OSError, TimeoutError, AssertionError) as error:
        log.debug("bus_client_closed_late", error=describe(error))
    transport = getattr(client, "_transport", None)
    if transport is not None:
        with contextlib.suppress(Exception):  # closed already, which is what is wanted
            transport.close()


def describe(error: BaseException | None) -> str:
    """An error in a few words, its type when it has no text of its own."""
    if error is None:
        return "the server ended it"
    return str(error).strip().removeprefix("nats: ") or type(error).__name__


def _message(msg: Msg) -> Message:
    # The keys of inline statuses are members of a string enum; plain strings compare equal.
    return Message(msg.subject, msg.reply, msg.headers or {}, msg.data)
