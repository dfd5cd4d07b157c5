"""The bus as the engine sees it: values, errors and the `Bus` protocol. Pure typing, no IO.

A bus keeps, per space, one numbered stream of sealed frames and carries heads and repair requests beside it.
It may lose, repeat, delay and reorder: the feeds' numbers and hashes are the truth, so nothing here promises
more than an adapter can keep. Both adapters (`nats_bus`, `memory_bus`) pass `tests/contracts/`.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from enum import Enum
from typing import Protocol

from msgspec import Struct

__all__ = [
    "MAX_ASK_REPLIES",
    "MAX_BROADCASTS_WAITING",
    "Arrival",
    "Bus",
    "BusDenied",
    "BusError",
    "BusFailed",
    "BusOffline",
    "BusState",
    "BusTimeout",
    "BusUnconfigured",
    "Cursor",
    "FrameSubject",
    "FrameTooLarge",
    "Handler",
    "NoSpace",
    "Notice",
    "NoticeKind",
    "Observer",
    "PublishOutcome",
    "Published",
    "Refused",
    "Stored",
    "Unsure",
]

MAX_ASK_REPLIES = 256
"""Replies taken for one request; what comes after is dropped (a responder must not fill the asker's
memory)."""
MAX_BROADCASTS_WAITING = 256
"""Heads waiting to be read in one space; the oldest go first, since a newer head says more."""


class BusError(Exception):
    """Something the bus could not do; the message says what, with what, and the remedy."""


class BusUnconfigured(BusError):
    """A URL or credential that cannot work however often it is tried: ours to correct."""


class BusOffline(BusError):
    """Not connected, or the connection went while it was in use. Nothing is queued: try after the next
    `CONNECTED`."""


class BusTimeout(BusError):
    """No answer in time; whether the request took effect is not known."""


class BusDenied(BusError):
    """The server refuses this user the subject."""


class NoSpace(BusError):
    """The space has no stream on this bus (never made, or deleted): `ensure_space` makes it where allowed."""


class BusFailed(BusError):
    """The server answered with an error that is none of the above."""


class FrameTooLarge(BusError):
    """Headers and body are over the server's limit. Sending it would cost the connection, so it is not
    sent."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"message of {size} bytes with its headers is over the bus's limit of {limit} bytes; "
            "raise max_payload on the server or send less at a time"
        )
        self.size = size
        self.limit = limit


class BusState(Enum):
    """Where a bus's connection stands.

    ```
    CLOSED ──connect()──▶ CONNECTING ──▶ CONNECTED ──lost──▶ WAITING ──backoff──▶ CONNECTING
       ▲                      └──failed──▶ WAITING                                    │
       └───────────────────────────── close(), from anywhere ─────────────────────────┘
    ```
    """

    CLOSED = "closed"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    WAITING = "waiting"


class NoticeKind(Enum):
    """What a bus tells about itself. None of them stops it: it recovers by itself and says so."""

    CONNECTED = "connected"
    """A new connection, the first or a rebuilt one. Anything may have been missed: repair."""
    LOST = "lost"
    """The connection went, or an attempt failed."""
    RESET = "reset"
    """The space's stream is another one or lost its end; it is read again from its start, and its numbers
    start again: what this node published there may be gone."""
    LAGGED = "lagged"
    """Live messages were dropped because this node read too slowly; they are read again from the stream."""
    DENIED = "denied"
    """The server refused a subject to this user."""
    FAILED = "failed"
    """Any other error the bus met and went on from."""


class Notice(Struct, frozen=True):
    """One thing that happened to a bus; `space` is empty where it concerns all of it. Never holds a
    secret."""

    kind: NoticeKind
    detail: str
    space: bytes = b""


class FrameSubject(Struct, frozen=True):
    """Where a feed's frames are published: space (32 bytes), origin (32), incarnation (16), chain (0 or 1).

    A claim of whoever published, never evidence: only the frame says whose it is.
    """

    space: bytes
    origin: bytes
    incarnation: bytes
    chain: int


class Cursor(Struct, frozen=True):
    """How far a space's stream was read: which stream (its identity, '' for none yet) and its last number
    read."""

    stream: str = ""
    seq: int = 0


class Stored(Struct, frozen=True):
    """One frame as the stream holds it, with the stream's number for it (from 1, with gaps)."""

    seq: int
    frame: bytes


class Arrival(Struct, frozen=True):
    """One frame handed over by `arrivals`, and the cursor to continue from once it has been dealt with."""

    subject: FrameSubject
    cursor: Cursor
    frame: bytes


class Published(Struct, frozen=True):
    """The stream has taken the frame, under this number."""

    seq: int


class Refused(Struct, frozen=True):
    """The subject's last number is not the expected one. `last` is what the subject ends with (None:
    nothing).

    Follows another writer under our name, a retried publish that did arrive, and a purged or recreated
    stream.
    """

    last: Stored | None


class Unsure(Struct, frozen=True):
    """No answer: the frame may have arrived, or may yet. Read `last` before publishing again."""

    why: str


PublishOutcome = Published | Refused | Unsure
Observer = Callable[[Notice], None]
Handler = Callable[[bytes], Awaitable[Sequence[bytes]]]


class Bus(Protocol):
    """One connection to a bus for any number of spaces.

    Everything but `connect` and `close` may raise a `BusError`. Iterators and served requests survive
    reconnection.
    """

    @property
    def state(self) -> BusState:
        """Where the connection stands now."""
        ...

    @property
    def last_error(self) -> str:
        """What went wrong last, '' when nothing did since the connection was made."""
        ...

    def observe(self, observer: Observer) -> None:
        """Call `observer` with every notice from now on. One that raises is reported and harms nothing."""
        ...

    async def connect(self) -> None:
        """Start, and wait for the first attempt to end, well or not: from then on the bus keeps itself
        connected.

        Raises BusUnconfigured. Calling it again while it runs does nothing.
        """
        ...

    async def close(self) -> None:
        """End everything, iterators included. May be called from any state, and again."""
        ...

    async def ensure_space(self, space: bytes) -> None:
        """See to it that the space has its stream, making it where this user may."""
        ...

    async def publish(self, subject: FrameSubject, frame: bytes, after: int) -> PublishOutcome:
        """Append a frame to its subject, if the last frame there has the stream number `after` (0: none).

        One publish at a time per subject is the caller's duty. A BusError other than BusTimeout means not
        sent.
        """
        ...

    async def last(self, subject: FrameSubject) -> Stored | None:
        """What the subject ends with now."""
        ...

    async def read(self, subject: FrameSubject, seq: int, budget_bytes: int) -> list[Stored]:
        """Frames of one subject from stream number `seq` on, in order, at least one where there is one."""
        ...

    def arrivals(self, space: bytes, cursor: Cursor) -> AsyncGenerator[Arrival, None]:
        """Every frame of the space after the cursor, then new ones as they come, until closed.

        Nothing is read ahead by more than a bounded batch, so a slow reader slows itself only.
        """
        ...

    async def broadcast(self, space: bytes, payload: bytes) -> None:
        """Send to whoever listens in the space now; nobody keeps it."""
        ...

    def broadcasts(self, space: bytes) -> AsyncGenerator[bytes, None]:
        """What others (and this node) broadcast in the space while this iterator lives, until closed."""
        ...

    async def ask(self, space: bytes, peer: bytes, payload: bytes, timeout: float) -> list[bytes]:
        """Ask one peer; its replies, as many as came within `timeout` seconds. Nobody there: an empty
        list."""
        ...

    def serve(self, space: bytes, origin: bytes, handler: Handler) -> None:
        """Answer what peers ask `origin` in the space, one request at a time, until `leave` or `close`."""
        ...

    async def leave(self, space: bytes) -> None:
        """Stop serving the space. Iterators are ended by whoever runs them."""
        ...
