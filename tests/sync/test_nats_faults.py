"""What goes wrong with NATS clients and servers, against a real server: noticed, recovered from, and told."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path

import nats
import pytest

from loremesh.crypto.identity import nats_user_from_seed
from loremesh.sync.busport import (
    Arrival,
    BusDenied,
    BusError,
    BusFailed,
    BusState,
    BusUnconfigured,
    Cursor,
    FrameSubject,
    FrameTooLarge,
    Notice,
    NoticeKind,
    Published,
    Refused,
    Stored,
    Unsure,
)
from loremesh.sync.nats_bus import NatsBus, NatsOptions
from loremesh.sync.nats_link import check_version
from loremesh.sync.subjects import announcements, feed_subject, heads, questions, stream_name
from tests.sync.nats_server import NatsServer, until

SPACE = b"s" * 32
ALICE = FrameSubject(SPACE, b"a" * 32, b"1" * 16, 0)
BOB = FrameSubject(SPACE, b"b" * 32, b"2" * 16, 0)
QUICK = NatsOptions(
    dial_timeout_s=3.0,
    request_timeout_s=1.0,
    probe_interval_s=0.2,
    probe_timeout_s=0.5,
    backoff_first_s=0.02,
    backoff_max_s=0.1,
    check_interval_s=0.3,
    read_messages=8,
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    """A server that lets everybody in."""
    server = NatsServer(tmp_path)
    server.start()
    yield server
    server.kill()


@pytest.fixture
async def bus(server: NatsServer) -> AsyncIterator[NatsBus]:
    """A connected bus with the space made."""
    bus = NatsBus(server.url, options=QUICK)
    await bus.connect()
    await bus.ensure_space(SPACE)
    yield bus
    await bus.close()


class Reader:
    """Keeps taking arrivals, as an engine does."""

    def __init__(self, bus: NatsBus) -> None:
        self.arrived: list[Arrival] = []
        self.notices: list[Notice] = []
        self.pause = asyncio.Event()
        self.pause.set()
        self.bus = bus
        bus.observe(self.notices.append)
        self.task = asyncio.create_task(self._run(bus))

    async def _run(self, bus: NatsBus) -> None:
        async with aclosing(bus.arrivals(SPACE, Cursor())) as arrivals:
            async for arrival in arrivals:
                self.arrived.append(arrival)
                await self.pause.wait()

    def frames(self) -> set[bytes]:
        """What has arrived, once each."""
        return {arrival.frame for arrival in self.arrived}

    def kinds(self) -> set[NoticeKind]:
        """What the bus has told."""
        return {notice.kind for notice in self.notices}


@pytest.fixture
async def reader(server: NatsServer) -> AsyncIterator[Reader]:
    """A second node that reads."""
    bus = NatsBus(server.url, options=QUICK)
    await bus.connect()
    await bus.ensure_space(SPACE)
    reader = Reader(bus)
    yield reader
    await bus.close()
    await asyncio.wait_for(reader.task, 5)


async def publish(bus: NatsBus, subject: FrameSubject, frame: bytes) -> None:
    """Publish for certain, as an engine does: after what the subject ends with, again until it is there."""
    async with asyncio.timeout(20):
        while True:
            try:
                ends = await bus.last(subject)
                if ends is not None and ends.frame == frame:
                    return
                await bus.publish(subject, frame, ends.seq if ends else 0)
            except BusError:
                await asyncio.sleep(0.02)


async def test_a_server_killed_and_restarted_many_times_loses_nothing(
    server: NatsServer, bus: NatsBus, reader: Reader
) -> None:
    """Whatever was going on, each side connects again and the reader has every frame."""
    sent = {b"frame %d" % n for n in range(20)}
    for n in range(20):
        await publish(bus, ALICE, b"frame %d" % n)
        if n % 5 == 4:
            server.kill()
            server.start()
    await until(lambda: reader.frames() == sent, "everything arrived")
    assert {NoticeKind.LOST, NoticeKind.CONNECTED} <= reader.kinds()


async def test_a_publish_in_the_air_is_not_delivered_later(server: NatsServer, bus: NatsBus) -> None:
    """What could not be sent is not kept back and sent over the next connection, unasked."""
    assert await bus.publish(ALICE, b"one", 0) == Published(1)
    server.freeze()
    unsure = await bus.publish(ALICE, b"two", 1)
    assert isinstance(unsure, Unsure)
    server.kill()
    server.start()
    await until(lambda: bus.state is BusState.CONNECTED, "the bus is back")
    assert await bus.last(ALICE) == Stored(1, b"one")
    assert await bus.publish(ALICE, b"two", 1) == Published(2)


async def test_a_server_that_answers_nothing_is_noticed_and_left(server: NatsServer, bus: NatsBus) -> None:
    """An open socket is no sign of life: pings are, and their silence ends the connection."""
    notices: list[Notice] = []
    bus.observe(notices.append)
    server.freeze()
    await until(lambda: bus.state is not BusState.CONNECTED, "the silence is noticed", 5)
    await until(lambda: bool(notices), "the loss is told")
    assert "ping" in notices[0].detail
    with pytest.raises(BusError):
        await bus.last(ALICE)
    server.kill()
    server.start()
    await until(lambda: bus.state is BusState.CONNECTED, "the bus is back")


async def test_a_client_that_died_inside_is_rebuilt(bus: NatsBus, reader: Reader) -> None:
    """A read loop that ended leaves a client that looks connected: it is found out and replaced."""
    client = bus._link.current()._client
    assert client._reading_task is not None
    client._reading_task.cancel()
    await until(
        lambda: bus._link._generation >= 2 and bus.state is BusState.CONNECTED, "a new client is made"
    )
    await publish(bus, ALICE, b"after")
    await until(lambda: reader.frames() == {b"after"}, "frames flow again")


async def test_a_client_closed_for_good_is_rebuilt(bus: NatsBus) -> None:
    """nats-py gives up on some errors; the bus does not."""
    notices: list[Notice] = []
    bus.observe(notices.append)
    await bus._link.current()._client.close()
    await until(
        lambda: [n.kind for n in notices] == [NoticeKind.LOST, NoticeKind.CONNECTED], "rebuilt and told"
    )
    assert await bus.publish(ALICE, b"one", 0) == Published(1)


async def test_callbacks_cannot_end_the_client(bus: NatsBus, reader: Reader) -> None:
    """An observer that raises on every error leaves reading and reconnecting as they were."""

    def bad(notice: Notice) -> None:
        raise RuntimeError("observer")

    bus.observe(bad)
    client = bus._link.current()._client
    await client._error_cb(nats.errors.Error("nats: some error in passing"))
    await client._error_cb(RuntimeError("not one of theirs"))
    assert bus._link.current()._client is client
    assert await bus.publish(ALICE, b"one", 0) == Published(1)
    await client._closed_cb()  # type: ignore[misc]
    await until(
        lambda: bus._link._generation >= 2 and bus.state is BusState.CONNECTED, "rebuilt all the same"
    )


async def test_a_slow_reader_loses_nothing(bus: NatsBus, reader: Reader) -> None:
    """Live frames that found no room are read again from the stream, and it is told."""
    reader.pause.clear()
    frames = [b"%d " % n + bytes(60_000) for n in range(700)]
    after = 0
    for frame in frames:
        outcome = await bus.publish(ALICE, frame, after)
        assert isinstance(outcome, Published)
        after = outcome.seq
    reader.pause.set()
    await until(lambda: len(reader.arrived) == len(frames), "everything arrived", 30)
    assert [arrival.frame for arrival in reader.arrived] == frames
    assert NoticeKind.LAGGED in reader.kinds()


async def test_the_librarys_own_slow_consumer_is_a_lag(bus: NatsBus, reader: Reader) -> None:
    """When nats-py drops before the bus sees a message, the reader reads again, without another one."""
    await publish(bus, ALICE, b"one")
    await until(lambda: len(reader.arrived) == 1, "the first arrived")
    connection = reader.bus._link.current()
    (sid, line), *_ = connection._lines.items()
    subscription = connection._client._subs[sid]
    await connection._client._error_cb(
        nats.errors.SlowConsumerError(subject="x", reply="", sid=sid, sub=subscription)
    )
    await until(lambda: NoticeKind.LAGGED in reader.kinds(), "the lag is told")
    assert not line.lagged


async def test_headers_count_in_the_size_and_the_connection_survives(bus: NatsBus) -> None:
    """A body just under the limit is over it with its headers: refused here; the server would hang up."""
    limit = 256 << 10
    with pytest.raises(FrameTooLarge) as refused:
        await bus.publish(ALICE, bytes(limit - 20), 0)
    assert refused.value.limit == limit
    assert refused.value.size > limit
    assert await bus.publish(ALICE, bytes(limit - 400), 0) == Published(1)
    assert bus._link._generation == 1


async def test_another_writer_under_our_name_is_seen(bus: NatsBus, server: NatsServer) -> None:
    """The expected number is refused and the other's frame shown."""
    assert await bus.publish(ALICE, b"ours", 0) == Published(1)
    other = NatsBus(server.url, options=QUICK)
    await other.connect()
    assert await other.publish(ALICE, b"theirs", 1) == Published(2)
    await other.close()
    assert await bus.publish(ALICE, b"ours, too", 1) == Refused(Stored(2, b"theirs"))


async def test_a_stream_deleted_and_recreated_is_followed_on(
    server: NatsServer, bus: NatsBus, reader: Reader
) -> None:
    """Its numbers start again; the reader starts again with them and says so; publishing makes it anew."""
    for n in range(5):
        await publish(bus, ALICE, b"old %d" % n)
    await until(lambda: len(reader.arrived) == 5, "the old frames arrived")
    raw = await nats.connect(server.url)
    await raw.jetstream().delete_stream(stream_name(SPACE))
    await raw.close()
    await bus.ensure_space(SPACE)
    assert await bus.last(ALICE) is None
    for n in range(3):
        await publish(bus, ALICE, b"new %d" % n)
    await until(lambda: {b"new 0", b"new 1", b"new 2"} <= reader.frames(), "the new frames arrived")
    assert NoticeKind.RESET in reader.kinds()


async def test_a_deleted_stream_is_made_again_by_whoever_reads(server: NatsServer, reader: Reader) -> None:
    """No administrator is needed where the user may make streams."""
    raw = await nats.connect(server.url)
    jetstream = raw.jetstream()
    await jetstream.delete_stream(stream_name(SPACE))

    async def is_back() -> bool:
        return stream_name(SPACE) in [info.config.name for info in await jetstream.streams_info()]

    await until(is_back, "the stream is back")
    await raw.close()


async def test_a_purged_stream_takes_the_same_frames_again(server: NatsServer, bus: NatsBus) -> None:
    """An acknowledgement means that the stream has the frame, also just after it lost it."""
    assert await bus.publish(ALICE, b"one", 0) == Published(1)
    raw = await nats.connect(server.url)
    await raw.jetstream().purge_stream(stream_name(SPACE))
    await raw.close()
    assert await bus.publish(ALICE, b"one", 1) == Refused(None)
    assert await bus.publish(ALICE, b"one", 0) == Published(2)
    assert await bus.last(ALICE) == Stored(2, b"one")


async def test_a_stream_made_without_announcements_is_completed(server: NatsServer, reader: Reader) -> None:
    """Frames come live from a stream that somebody else made with other settings."""
    raw = await nats.connect(server.url)
    jetstream = raw.jetstream()
    space = b"x" * 32
    await jetstream.add_stream(name=stream_name(space), subjects=[f"lm.1.{stream_name(space)[3:]}.f.>"])
    bus = NatsBus(server.url, options=QUICK)
    await bus.connect()
    await bus.ensure_space(space)
    info = await jetstream.stream_info(stream_name(space))
    assert info.config.allow_direct
    assert info.config.republish is not None
    assert info.config.republish.dest == announcements(space)
    await bus.close()
    await raw.close()


async def test_garbage_on_any_subject_harms_nothing(server: NatsServer, bus: NatsBus, reader: Reader) -> None:
    """Odd subjects, forged announcements and requests that want their answer elsewhere."""

    async def handler(question: bytes) -> list[bytes]:
        return [b"answer"]

    bus.serve(SPACE, ALICE.origin, handler)
    await until_served(bus)
    raw = await nats.connect(server.url)
    place = stream_name(SPACE)[3:]
    await raw.publish(f"lm.1.{place}.f.odd", b"odd")
    await raw.publish(f"lm.1.{place}.w.x", b"forged", headers={"Nats-Sequence": "-1"})
    await raw.publish(f"lm.1.{place}.w.x", b"forged", headers={"Nats-Sequence": "999999"})
    await raw.publish(heads(SPACE), b"")
    await raw.publish(questions(SPACE, ALICE.origin), b"", reply=feed_subject(ALICE))
    await raw.flush()
    await publish(bus, BOB, b"sound")
    await until(lambda: reader.frames() == {b"sound"}, "only the sound frame arrived")
    assert await bus.last(ALICE) is None
    await raw.close()


async def until_served(bus: NatsBus) -> None:
    """Until the bus answers itself."""

    async def answers() -> bool:
        return await bus.ask(SPACE, ALICE.origin, b"q", 1.0) == [b"answer"]

    await until(answers, "requests are served")


def user(seed: str, public: str, **permissions: object) -> dict[str, object]:
    """A configuration with one user."""
    return {"authorization": {"users": [{"nkey": public, "permissions": permissions}]}}


async def test_a_denied_subject_is_told_at_once_and_allowed_later(tmp_path: Path) -> None:
    """Not a timeout: the denial names itself; once the server is told otherwise the same call works."""
    seed, public = nats_user_from_seed(b"\7" * 32)
    all_but_frames = {"publish": {"deny": ["lm.1.*.f.>"]}}
    server = NatsServer(tmp_path, user(seed, public, **all_but_frames))
    server.start()
    try:
        bus = NatsBus(server.url, seed, options=QUICK)
        notices: list[Notice] = []
        bus.observe(notices.append)
        await bus.connect()
        await bus.ensure_space(SPACE)
        async with asyncio.timeout(0.9):
            with pytest.raises(BusDenied):
                await bus.publish(ALICE, b"one", 0)
        assert NoticeKind.DENIED in [n.kind for n in notices]
        server.config = user(seed, public)
        server.reload()
        await publish(bus, ALICE, b"one")
        await bus.close()
    finally:
        server.kill()


async def test_a_credential_refused_for_a_while_is_tried_again(tmp_path: Path) -> None:
    """An expired or unknown user closes nats-py for good; here it is let in when the server knows it."""
    seed, public = nats_user_from_seed(b"\7" * 32)
    _, stranger = nats_user_from_seed(b"\6" * 32)
    server = NatsServer(tmp_path, user(seed, stranger))
    server.start()
    try:
        bus = NatsBus(server.url, seed, options=QUICK)
        await bus.connect()
        assert bus.state is not BusState.CONNECTED
        assert "authorization" in bus.last_error.lower()
        assert seed not in bus.last_error
        server.config = user(seed, public)
        server.reload()
        await until(lambda: bus.state is BusState.CONNECTED, "it is let in")
        await bus.close()
    finally:
        server.kill()


@pytest.mark.parametrize(
    ("url", "credential"),
    [
        ("nats://127.0.0.1:4222", "SUNOTASEED"),
        ("nats://127.0.0.1:4222", "SAAPPPPP"),
        ("http://127.0.0.1:4222", ""),
        ("nats://user:secret@127.0.0.1:4222", ""),
        ("127.0.0.1:4222", ""),
        ("nats://127.0.0.1:99999", ""),
        ("", ""),
    ],
)
async def test_what_can_never_work_is_refused_at_once(url: str, credential: str) -> None:
    """A URL or credential of the wrong form is the caller's to correct; a secret one is not shown back."""
    with pytest.raises(BusUnconfigured) as refused:
        await NatsBus(url, credential, options=QUICK).connect()
    assert "secret" not in str(refused.value)
    assert not credential or credential not in str(refused.value)


@pytest.mark.parametrize("version", ["2.13.9", "2.9.0", "1.99.0", "", "odd"])
def test_a_server_too_old_is_refused_by_its_version(version: str) -> None:
    """Old servers have known holes; the message says which version it is and which is needed."""
    with pytest.raises(BusFailed, match=r"2\.14"):
        check_version(version)


@pytest.mark.parametrize("version", ["2.14.0", "2.15.1-beta", "v3.0.0"])
def test_a_server_new_enough_is_taken(version: str) -> None:
    """From 2.14 on."""
    check_version(version)


async def test_a_server_without_streams_says_so(tmp_path: Path) -> None:
    """JetStream switched off is an error that names it, not a wait."""
    plain = NatsServer(tmp_path, {"jetstream": False})
    plain.start()
    try:
        bus = NatsBus(plain.url, options=QUICK)
        await bus.connect()
        with pytest.raises(BusError, match="JetStream"):
            await bus.ensure_space(SPACE)
        await bus.close()
    finally:
        plain.kill()


async def test_closing_while_the_server_hangs_ends(server: NatsServer, bus: NatsBus, reader: Reader) -> None:
    """Neither a request in the air nor a dead server keeps a node from stopping."""
    server.freeze()
    asking = asyncio.ensure_future(bus.last(ALICE))
    await asyncio.sleep(0)
    async with asyncio.timeout(8):
        await bus.close()
        with pytest.raises(BusError):
            await asking
