"""A space's JetStream stream through raw requests: made, looked at, read and appended to.

Read by direct get in bounded batches: no consumer is kept on the server, so none can stall, be orphaned or be
used to make the server publish elsewhere, and a user needs four subjects to follow a space. New frames are
announced by the stream's own republication, which carries each frame with its number.
"""

from base64 import b64decode
from typing import TypeVar

import msgspec
from msgspec import Struct

from loremesh.sync.busport import (
    BusDenied,
    BusFailed,
    BusTimeout,
    FrameSubject,
    NoSpace,
    Published,
    PublishOutcome,
    Refused,
    Stored,
    Unsure,
)
from loremesh.sync.nats_connection import Connection
from loremesh.sync.subjects import announcements, feed_subject, stream_name, stream_subjects

__all__ = ["Page", "StreamState", "append", "ensure", "last", "look", "page"]

MAX_STREAM_BYTES = 256 << 20
MAX_MESSAGE_BYTES = 256 << 10

STREAM_NOT_FOUND = 10059
STREAM_NAME_IN_USE = 10058
MESSAGE_NOT_FOUND = 10037
WRONG_LAST_SEQUENCE = frozenset({10071, 10164})


class _Error(Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _Republish(Struct, omit_defaults=True):
    src: str = ""
    dest: str = ""
    headers_only: bool = False


class _Config(Struct):
    name: str = ""
    allow_direct: bool = False
    republish: _Republish | None = None


class _State(Struct):
    first_seq: int = 0
    last_seq: int = 0


class _StreamAnswer(Struct):
    error: _Error | None = None
    created: str = ""
    config: _Config | None = None
    state: _State | None = None


class _StoredMessage(Struct):
    seq: int
    data: str = ""


class _MessageAnswer(Struct):
    error: _Error | None = None
    message: _StoredMessage | None = None


class _Acknowledgement(Struct):
    error: _Error | None = None
    seq: int = 0


Answer = TypeVar("Answer", _StreamAnswer, _MessageAnswer, _Acknowledgement)


def _decode(raw: bytes, kind: type[Answer]) -> Answer:
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.MsgspecError as error:
        raise BusFailed(f"the bus answers what is no JetStream answer: {error}") from error


class StreamState(Struct, frozen=True):
    """Which stream it is (its time of creation, as the server writes it) and the numbers of its first and
    last frame."""

    identity: str
    first_seq: int
    last_seq: int


class Page(Struct, frozen=True):
    """One batch of a stream: subject and frame, in the stream's order; empty at the end."""

    frames: list[tuple[str, Stored]]


def stream_config(space: bytes) -> dict[str, object]:
    """The stream of a space. Frames are kept until `MAX_STREAM_BYTES`, the oldest go first: nothing depends
    on them."""
    return {
        "name": stream_name(space),
        "subjects": [stream_subjects(space)],
        "retention": "limits",
        "discard": "old",
        "storage": "file",
        "num_replicas": 1,
        "max_bytes": MAX_STREAM_BYTES,
        "max_msg_size": MAX_MESSAGE_BYTES,
        "max_age": 0,
        "max_msgs": -1,
        "max_consumers": -1,
        "allow_direct": True,
        "republish": {"src": stream_subjects(space), "dest": announcements(space)},
    }


async def _ask(connection: Connection, subject: str, payload: bytes, timeout_s: float) -> bytes:
    async with connection.call(subject, payload) as call:
        reply = await call.reply(timeout_s)
    if reply.status == "503":
        raise BusFailed(f"nobody answers {subject}: JetStream is off on this server, or still starting")
    return reply.data


async def look(connection: Connection, space: bytes, timeout_s: float) -> StreamState:
    """The stream as it is now. Raises NoSpace."""
    answer = await _look(connection, space, timeout_s)
    return _state(answer, space)


async def ensure(connection: Connection, space: bytes, timeout_s: float) -> StreamState:
    """The stream, made where it is missing and completed where it was made without what reading needs."""
    try:
        answer = await _look(connection, space, timeout_s)
    except NoSpace:
        answer = await _change(connection, "CREATE", space, timeout_s)
        if answer.error is not None and answer.error.err_code == STREAM_NAME_IN_USE:
            answer = await _look(connection, space, timeout_s)  # somebody was faster, with other settings
    if answer.error is None and not _is_complete(answer.config):
        try:
            answer = await _change(connection, "UPDATE", space, timeout_s)
        except BusDenied:
            # Made by somebody else for other readers: without announcements new frames are found by looking.
            if answer.config is None or not answer.config.allow_direct:
                raise
    return _state(answer, space)


async def _look(connection: Connection, space: bytes, timeout_s: float) -> _StreamAnswer:
    raw = await _ask(connection, f"$JS.API.STREAM.INFO.{stream_name(space)}", b"", timeout_s)
    answer = _decode(raw, _StreamAnswer)
    if answer.error is not None and answer.error.err_code == STREAM_NOT_FOUND:
        raise NoSpace(f"the bus has no stream {stream_name(space)}")
    return answer


async def _change(connection: Connection, verb: str, space: bytes, timeout_s: float) -> _StreamAnswer:
    subject = f"$JS.API.STREAM.{verb}.{stream_name(space)}"
    raw = await _ask(connection, subject, msgspec.json.encode(stream_config(space)), timeout_s)
    return _decode(raw, _StreamAnswer)


def _is_complete(config: _Config | None) -> bool:
    return (
        config is not None
        and config.allow_direct
        and config.republish is not None
        and bool(config.republish.dest)
        and not config.republish.headers_only
    )


def _state(answer: _StreamAnswer, space: bytes) -> StreamState:
    if answer.error is not None or answer.state is None:
        said = answer.error.description if answer.error is not None else "no state"
        raise BusFailed(f"stream {stream_name(space)}: the bus says {said!r}")
    return StreamState(answer.created, answer.state.first_seq, answer.state.last_seq)


async def page(
    connection: Connection,
    space: bytes,
    subject: str,
    seq: int,
    *,
    messages: int,
    size_bytes: int,
    timeout_s: float,
) -> Page:
    """Frames from number `seq` on whose subject matches, as many as fit. An answer cut short gives what did
    come."""
    request = msgspec.json.encode(
        {"seq": max(seq, 1), "batch": messages, "max_bytes": size_bytes, "next_by_subj": subject}
    )
    frames: list[tuple[str, Stored]] = []
    get = f"$JS.API.DIRECT.GET.{stream_name(space)}"
    async with connection.call(get, request, replies=messages + 1) as call:
        while True:
            try:
                reply = await call.reply(timeout_s)
            except BusTimeout:
                if frames:
                    return Page(frames)
                raise
            if reply.status == "503":
                raise NoSpace(f"the bus has no stream {stream_name(space)} that can be read")
            if reply.status in ("204", "404"):
                return Page(frames)
            if reply.status:
                said = f"{reply.status} {reply.headers.get('Description', '')}"
                raise BusFailed(f"reading {stream_name(space)}: the bus says {said}")
            try:
                number = int(reply.headers["Nats-Sequence"])
            except (KeyError, ValueError) as error:
                raise BusFailed(f"reading {stream_name(space)}: a frame came without its number") from error
            frames.append((reply.headers.get("Nats-Subject", ""), Stored(number, reply.data)))


async def last(connection: Connection, subject: FrameSubject, timeout_s: float) -> Stored | None:
    """What a subject ends with, from the stream's leader: a replica may be late."""
    request = msgspec.json.encode({"last_by_subj": feed_subject(subject)})
    raw = await _ask(connection, f"$JS.API.STREAM.MSG.GET.{stream_name(subject.space)}", request, timeout_s)
    answer = _decode(raw, _MessageAnswer)
    if answer.message is not None:
        return Stored(answer.message.seq, b64decode(answer.message.data))
    said = answer.error or _Error()
    if said.err_code == MESSAGE_NOT_FOUND:
        return None
    if said.err_code == STREAM_NOT_FOUND:
        raise NoSpace(f"the bus has no stream {stream_name(subject.space)}")
    raise BusFailed(f"reading {stream_name(subject.space)}: the bus says {said.description!r}")


async def append(
    connection: Connection, subject: FrameSubject, frame: bytes, after: int, timeout_s: float
) -> PublishOutcome:
    """Publish with the expected last number. No message id: within the server's window of remembered ids a
    purged stream would acknowledge a frame it no longer has, and the expected number alone already admits one
    copy."""
    headers = {
        "Nats-Expected-Last-Subject-Sequence": str(after),
        "Nats-Expected-Stream": stream_name(subject.space),
    }
    async with connection.call(feed_subject(subject), frame, headers) as call:
        try:
            reply = await call.reply(timeout_s)
        except BusTimeout as error:
            return Unsure(str(error))
    if reply.status == "503":
        raise NoSpace(f"the bus has no stream {stream_name(subject.space)}")
    answer = _decode(reply.data, _Acknowledgement)
    if answer.error is None:
        return Published(answer.seq)
    if answer.error.err_code in WRONG_LAST_SEQUENCE:
        return Refused(await last(connection, subject, timeout_s))
    raise BusFailed(f"publishing on {feed_subject(subject)}: the bus says {answer.error.description!r}")
