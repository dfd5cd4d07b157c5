"""What every adapter of the `Bus` port keeps: one suite, in memory and over NATS with a real server."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Protocol

import pytest

from loremesh.sync.busport import (
    Arrival,
    Bus,
    BusOffline,
    BusState,
    Cursor,
    FrameSubject,
    FrameTooLarge,
    NoSpace,
    Notice,
    NoticeKind,
    Published,
    Refused,
    Stored,
)
from loremesh.sync.memory_bus import MemoryBus, MemoryHub
from loremesh.sync.nats_bus import NatsBus, NatsOptions
from tests.sync.nats_server import NatsServer, until

SPACE = b"s" * 32
OTHER = b"o" * 32
ALICE = FrameSubject(SPACE, b"a" * 32, b"1" * 16, 0)
BOB = FrameSubject(SPACE, b"b" * 32, b"2" * 16, 1)
QUICK = NatsOptions(
    request_timeout_s=3.0,
    probe_interval_s=0.5,
    probe_timeout_s=1.0,
    backoff_first_s=0.02,
    backoff_max_s=0.1,
    check_interval_s=0.3,
    read_messages=8,
)


class Broker(Protocol):
    """What a suite needs of the server behind an adapter."""

    def bus(self) -> Bus:
        """A new connection, not yet made."""
        ...

    def stop(self) -> None:
        """The server goes, keeping its streams."""
        ...

    def start(self) -> None:
        """The server comes back."""
        ...


class NatsBroker:
    """A real server."""

    def __init__(self, directory: Path) -> None:
        self.server = NatsServer(directory)
        self.server.start()

    def bus(self) -> Bus:
        """A new connection over NATS."""
        return NatsBus(self.server.url, options=QUICK)

    def stop(self) -> None:
        """Killed, as by a power cut without the loss."""
        self.server.kill()

    def start(self) -> None:
        """On the port it had."""
        self.server.start()


class MemoryBroker:
    """The double."""

    def __init__(self) -> None:
        self.hub = MemoryHub()

    def bus(self) -> Bus:
        """A new connection in memory."""
        return MemoryBus(self.hub)

    def stop(self) -> None:
        """Every connection is lost."""
        self.hub.stop()

    def start(self) -> None:
        """The hub is back."""
        self.hub.start()


@pytest.fixture(params=["memory", "nats"])
async def broker(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Broker]:
    """One server per test."""
    if request.param == "memory":
        yield MemoryBroker()
        return
    nats = NatsBroker(tmp_path)
    try:
        yield nats
    finally:
        nats.server.kill()


@pytest.fixture
async def bus(broker: Broker) -> AsyncIterator[Bus]:
    """A connected bus with the space made."""
    bus = broker.bus()
    await bus.connect()
    await bus.ensure_space(SPACE)
    yield bus
    await bus.close()


@pytest.fixture
async def other(broker: Broker) -> AsyncIterator[Bus]:
    """A second node's connection."""
    bus = broker.bus()
    await bus.connect()
    yield bus
    await bus.close()


async def filled(bus: Bus, subject: FrameSubject, count: int, after: int = 0) -> int:
    """Publish `count` frames in a row; the stream's number of the last."""
    for n in range(count):
        outcome = await bus.publish(subject, b"%s %d" % (subject.origin[:1], n), after)
        assert isinstance(outcome, Published)
        after = outcome.seq
    return after


async def take(arrivals: AsyncGenerator[Arrival, None], count: int) -> list[Arrival]:
    """The next arrivals, in bounded time."""
    taken: list[Arrival] = []
    async with asyncio.timeout(15):
        while len(taken) < count:
            taken.append(await anext(arrivals))
    return taken


async def test_a_connected_bus_says_so_and_a_closed_one_too(broker: Broker) -> None:
    """The state follows connect and close, and a closed bus refuses work."""
    bus = broker.bus()
    states = [bus.state]
    for step in (bus.connect, bus.connect, bus.close, bus.close):
        await step()
        states.append(bus.state)
    assert states == [BusState.CLOSED, *[BusState.CONNECTED] * 2, *[BusState.CLOSED] * 2]
    with pytest.raises(BusOffline):
        await bus.ensure_space(SPACE)


async def test_a_frame_is_taken_only_after_the_expected_one(bus: Bus) -> None:
    """The expected last number admits the next frame, once; a refusal shows what the subject ends with."""
    first = await bus.publish(ALICE, b"one", 0)
    assert first == Published(1)
    assert await bus.publish(ALICE, b"one", 0) == Refused(Stored(1, b"one"))
    assert await bus.publish(ALICE, b"two", 1) == Published(2)
    assert await bus.publish(BOB, b"elsewhere", 0) == Published(3)
    assert await bus.publish(ALICE, b"three", 9) == Refused(Stored(2, b"two"))


async def test_the_last_frame_of_a_subject_is_found(bus: Bus) -> None:
    """Exactly that subject's last frame, whatever its bytes and size; none where none was published."""
    assert await bus.last(ALICE) is None
    await filled(bus, ALICE, 2)
    large = bytes(range(256)) * 960
    assert await bus.publish(BOB, large, 0) == Published(3)
    assert await bus.last(ALICE) == Stored(2, b"a 1")
    assert await bus.last(BOB) == Stored(3, large)
    assert await bus.last(FrameSubject(SPACE, BOB.origin, BOB.incarnation, 0)) is None


async def test_a_subject_is_read_from_a_number_on(bus: Bus) -> None:
    """In order, that subject only, at least one frame however small the budget."""
    await filled(bus, ALICE, 2)
    await filled(bus, BOB, 1)
    await bus.publish(ALICE, b"late", 2)
    assert await bus.read(ALICE, 1, 1 << 20) == [Stored(1, b"a 0"), Stored(2, b"a 1"), Stored(4, b"late")]
    assert await bus.read(ALICE, 3, 1 << 20) == [Stored(4, b"late")]
    assert await bus.read(ALICE, 1, 1) == [Stored(1, b"a 0")]
    assert await bus.read(ALICE, 5, 1 << 20) == []


async def test_a_late_comer_gets_everything_and_then_what_comes(bus: Bus, other: Bus) -> None:
    """Catch-up and live are one sequence without a gap or a repetition, over many batches."""
    await filled(bus, ALICE, 20)
    async with aclosing(other.arrivals(SPACE, Cursor())) as arrivals:
        caught_up = await take(arrivals, 20)
        await filled(bus, BOB, 20)
        live = await take(arrivals, 20)
    assert [a.frame for a in caught_up] == [b"a %d" % n for n in range(20)]
    assert [a.frame for a in live] == [b"b %d" % n for n in range(20)]
    assert [a.cursor.seq for a in caught_up + live] == list(range(1, 41))
    assert {a.subject for a in caught_up} == {ALICE}
    assert {a.subject for a in live} == {BOB}


async def test_reading_goes_on_from_a_cursor(bus: Bus, other: Bus) -> None:
    """A cursor kept from before leads to what follows it and nothing else."""
    await filled(bus, ALICE, 5)
    async with aclosing(other.arrivals(SPACE, Cursor())) as arrivals:
        third = (await take(arrivals, 3))[-1]
    async with aclosing(other.arrivals(SPACE, third.cursor)) as arrivals:
        assert [a.frame for a in await take(arrivals, 2)] == [b"a 3", b"a 4"]


async def test_a_cursor_of_another_stream_reads_from_the_start(bus: Bus, other: Bus) -> None:
    """A stream that was recreated, or lost its end, numbers anew: none of it may be passed over."""
    await filled(bus, ALICE, 3)
    notices: list[Notice] = []
    other.observe(notices.append)
    async with aclosing(other.arrivals(SPACE, Cursor("another stream", 2))) as arrivals:
        assert [a.frame for a in await take(arrivals, 3)] == [b"a 0", b"a 1", b"a 2"]
        identity = (await other_identity(other)).stream
    async with aclosing(other.arrivals(SPACE, Cursor(identity, 77))) as arrivals:
        assert len(await take(arrivals, 3)) == 3
    assert [n.kind for n in notices].count(NoticeKind.RESET) == 2


async def other_identity(bus: Bus) -> Cursor:
    """The cursor of the first frame, for the name of the stream."""
    async with aclosing(bus.arrivals(SPACE, Cursor())) as arrivals:
        return (await take(arrivals, 1))[0].cursor


async def test_spaces_are_apart(bus: Bus, other: Bus) -> None:
    """A frame, a head or a request of one space never shows in another."""
    await bus.ensure_space(OTHER)
    await filled(bus, ALICE, 1)
    elsewhere = FrameSubject(OTHER, ALICE.origin, ALICE.incarnation, 0)
    assert await bus.last(elsewhere) is None
    await bus.publish(elsewhere, b"elsewhere", 0)
    async with aclosing(other.arrivals(OTHER, Cursor())) as arrivals:
        assert (await take(arrivals, 1))[0].frame == b"elsewhere"


async def test_publishing_into_a_space_without_a_stream_says_so(bus: Bus) -> None:
    """A missing stream is named, not mistaken for an empty one."""
    with pytest.raises(NoSpace):
        await bus.publish(FrameSubject(OTHER, ALICE.origin, ALICE.incarnation, 0), b"x", 0)
    with pytest.raises(NoSpace):
        await bus.last(FrameSubject(OTHER, ALICE.origin, ALICE.incarnation, 0))


async def test_a_frame_over_the_limit_is_refused_and_costs_nothing(bus: Bus) -> None:
    """The size is checked before sending, so that the connection lives on."""
    with pytest.raises(FrameTooLarge):
        await bus.publish(ALICE, bytes((256 << 10) + 1), 0)
    with pytest.raises(FrameTooLarge):
        await bus.broadcast(SPACE, bytes((256 << 10) + 1))
    assert bus.state is BusState.CONNECTED
    assert await bus.publish(ALICE, b"small", 0) == Published(1)


async def test_broadcasts_reach_who_listens(bus: Bus, other: Bus) -> None:
    """Listeners in the space get it, several times over if need be."""
    async with aclosing(other.broadcasts(SPACE)) as heads:
        first = asyncio.ensure_future(anext(heads))

        async def heard() -> bool:
            await bus.broadcast(SPACE, b"head")
            return first.done()

        await until(heard, "the broadcast is heard")
        assert await first == b"head"


async def test_a_peer_answers_with_many_replies(bus: Bus, other: Bus) -> None:
    """All replies come, in order, and the asker does not wait for its timeout."""

    async def handler(question: bytes) -> list[bytes]:
        return [question + b" %d" % n for n in range(10)]

    other.serve(SPACE, BOB.origin, handler)

    async def answered() -> bool:
        return await bus.ask(SPACE, BOB.origin, b"want", 10.0) == [b"want %d" % n for n in range(10)]

    await until(answered, "the peer answers")
    await other.leave(SPACE)
    assert await bus.ask(SPACE, BOB.origin, b"want", 0.5) == []


async def test_asking_nobody_gives_nothing(bus: Bus) -> None:
    """A peer that is not there is an empty list, soon."""
    async with asyncio.timeout(3):
        assert await bus.ask(SPACE, b"z" * 32, b"want", 30.0) == []


async def test_a_handler_that_raises_ends_no_serving(bus: Bus, other: Bus) -> None:
    """The failed request gets no reply; the next one does, and the failure is reported."""
    notices: list[Notice] = []
    other.observe(notices.append)

    async def handler(question: bytes) -> list[bytes]:
        if question == b"bad":
            raise RuntimeError("cannot")
        return [question]

    other.serve(SPACE, BOB.origin, handler)

    async def serves() -> bool:
        return await bus.ask(SPACE, BOB.origin, b"good", 5.0) == [b"good"]

    await until(serves, "the peer answers")
    assert await bus.ask(SPACE, BOB.origin, b"bad", 0.5) == []
    assert await serves()
    assert NoticeKind.FAILED in [n.kind for n in notices]


async def test_an_observer_that_raises_harms_nothing(broker: Broker) -> None:
    """Notices go on to the others, and the bus goes on."""
    bus = broker.bus()
    seen: list[Notice] = []

    def bad(notice: Notice) -> None:
        raise RuntimeError("observer")

    bus.observe(bad)
    bus.observe(seen.append)
    await bus.connect()
    await bus.ensure_space(SPACE)
    assert await bus.publish(ALICE, b"one", 0) == Published(1)
    assert [n.kind for n in seen] == [NoticeKind.CONNECTED]
    await bus.close()


async def test_everything_goes_on_after_the_server_was_away(broker: Broker, bus: Bus, other: Bus) -> None:
    """Reading, listening and serving resume by themselves, and each side is told of the new connection."""
    notices: list[Notice] = []
    other.observe(notices.append)

    async def handler(question: bytes) -> list[bytes]:
        return [question]

    other.serve(SPACE, BOB.origin, handler)
    await filled(bus, ALICE, 3)
    async with (
        aclosing(other.arrivals(SPACE, Cursor())) as arrivals,
        aclosing(other.broadcasts(SPACE)) as heads,
    ):
        assert len(await take(arrivals, 3)) == 3
        hearing = asyncio.ensure_future(anext(heads))
        broker.stop()
        await until(lambda: bus.state is not BusState.CONNECTED, "the loss is noticed")
        with pytest.raises(BusOffline):
            await bus.broadcast(SPACE, b"into the void")
        broker.start()
        await until(lambda: bus.state is BusState.CONNECTED, "the bus is back")
        await until(lambda: other.state is BusState.CONNECTED, "the other bus is back")
        assert isinstance(await bus.publish(ALICE, b"after", 3), Published)
        assert (await take(arrivals, 1))[0].frame == b"after"

        async def heard() -> bool:
            await bus.broadcast(SPACE, b"head")
            return hearing.done()

        async def answered() -> bool:
            return await bus.ask(SPACE, BOB.origin, b"still there?", 1.0) == [b"still there?"]

        await until(heard, "a broadcast is heard again")
        await until(answered, "a request is answered again")
    kinds = [n.kind for n in notices]
    assert NoticeKind.LOST in kinds
    assert NoticeKind.CONNECTED in kinds


async def test_a_bus_started_before_its_server_connects_when_it_comes(broker: Broker) -> None:
    """Starting does not fail and does not wait for ever; the connection comes by itself."""
    broker.stop()
    bus = broker.bus()
    async with asyncio.timeout(10):
        await bus.connect()
    assert bus.state is not BusState.CONNECTED
    assert bus.last_error
    broker.start()
    await until(lambda: bus.state is BusState.CONNECTED, "the bus connects")
    assert not bus.last_error
    await bus.close()


async def test_closing_ends_the_iterators(broker: Broker) -> None:
    """Whoever reads or listens is let go."""
    bus = broker.bus()
    await bus.connect()
    await bus.ensure_space(SPACE)

    async def drain(source: AsyncGenerator[object, None]) -> None:
        async with aclosing(source):
            async for _ in source:
                pass

    readers = [
        asyncio.create_task(drain(bus.arrivals(SPACE, Cursor()))),
        asyncio.create_task(drain(bus.broadcasts(SPACE))),
    ]
    await asyncio.sleep(0)
    await bus.close()
    async with asyncio.timeout(5):
        await asyncio.gather(*readers)


async def test_a_closed_bus_can_be_connected_again(broker: Broker) -> None:
    """Closing is no end of its own: everything works after another connect."""
    bus = broker.bus()

    async def handler(question: bytes) -> list[bytes]:
        return [question]

    for seq in (1, 2):
        await bus.connect()
        await bus.ensure_space(SPACE)
        bus.serve(SPACE, ALICE.origin, handler)
        assert await bus.publish(ALICE, b"x", seq - 1) == Published(seq)
        async with aclosing(bus.arrivals(SPACE, Cursor())) as arrivals:
            assert len(await take(arrivals, seq)) == seq

        async def answered() -> bool:
            return await bus.ask(SPACE, ALICE.origin, b"q", 1.0) == [b"q"]

        await until(answered, "it answers")
        await bus.close()
