"""A NATS connection that keeps itself: one nats-py client at a time, thrown away and rebuilt when it fails.

nats-py's own reconnection is switched off. What it buffers while away would be published later, out of our
control; it ends for good on some errors; and a callback that raises stops it while it still looks connected.
So a connection here is made, used and dropped, and whoever uses one finds out through `BusOffline`.
"""

import asyncio
import re
from collections.abc import Callable
from urllib.parse import urlsplit

import nats.errors
import nkeys
import structlog
from msgspec import Struct
from nats.aio.client import Client

from loremesh.sync.busport import (
    BusError,
    BusFailed,
    BusOffline,
    BusState,
    BusUnconfigured,
    Notice,
    NoticeKind,
)
from loremesh.sync.nats_connection import LIBRARY_PENDING_BYTES, Connection, describe, shut
from loremesh.sync.subjects import inbox_prefix
from loremesh.sync.tasks import end_tasks, trace

__all__ = ["Link", "NatsOptions", "check_url", "check_version", "user_public"]

log = structlog.get_logger(__name__)


SERVER_MIN = (2, 14)
"""The oldest server used: earlier lines have known holes in their authorisation, or no batched reads."""


class NatsOptions(Struct, frozen=True):
    """Times of the adapter, in seconds, and the size of its reads. `sync/BUS.md` gives the reasons."""

    dial_timeout_s: float = 5.0
    request_timeout_s: float = 5.0
    ping_interval_s: float = 15.0
    probe_interval_s: float = 10.0
    probe_timeout_s: float = 5.0
    backoff_first_s: float = 0.1
    backoff_max_s: float = 15.0
    check_interval_s: float = 10.0
    read_messages: int = 64
    read_bytes: int = 2 << 20


def user_public(seed: str) -> str:
    """The public nkey of a user's seed. Raises BusUnconfigured, without the seed in its text."""
    try:
        pair = nkeys.from_seed(bytearray(seed.strip().encode()))
        public: str = pair.public_key.decode()
        pair.wipe()
    except Exception as error:
        raise BusUnconfigured(
            f"the bus credential is not an nkey seed ({type(error).__name__}); a user's seed begins with SU"
        ) from None
    if not public.startswith("U"):
        raise BusUnconfigured(
            "the bus credential is an nkey seed of another kind; a user's seed begins with SU"
        )
    return public


class Link:
    """Keeps a `Connection` there: dials, watches, rebuilds with growing pauses, and tells when it did."""

    def __init__(
        self, url: str, credential: str, name: str, options: NatsOptions, notice: Callable[[Notice], None]
    ) -> None:
        self.last_error = ""
        self._state = BusState.CLOSED
        self._url = url
        self._credential = credential
        self._name = name
        self._options = options
        self._notice = notice
        self._connection: Connection | None = None
        self._generation = 0
        self._changed = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._inbox = ""

    @property
    def state(self) -> BusState:
        """Where it stands; a connection known to be lost is none, also before its successor is tried."""
        if self._state is BusState.CONNECTED and (self._connection is None or self._connection.lost.is_set()):
            return BusState.WAITING
        return self._state

    async def start(self) -> None:
        """Begin, and wait for the first attempt to end. Raises BusUnconfigured."""
        if self._keeper is not None:
            return
        check_url(self._url)
        self._inbox = inbox_prefix(user_public(self._credential)) if self._credential else "_INBOX"
        self._state = BusState.CONNECTING
        self._keeper = asyncio.create_task(self._keep(), name=f"bus {self._name}")
        while self._state is BusState.CONNECTING:
            await self._change()

    async def stop(self) -> None:
        """End the connection and whoever waits for one."""
        keeper, self._keeper = self._keeper, None
        self._state = BusState.CLOSED
        if keeper is not None:
            await end_tasks([keeper])
        self._announce(BusState.CLOSED)

    async def connected(self) -> Connection:
        """The live connection, waited for. Raises BusOffline once closed."""
        while True:
            if self._connection is not None and not self._connection.lost.is_set():
                return self._connection
            if self._state is BusState.CLOSED:
                raise BusOffline("the bus is closed")
            await self._change()

    def current(self) -> Connection:
        """The live connection. Raises BusOffline when there is none now."""
        if self._connection is None or self._connection.lost.is_set():
            raise BusOffline(f"not connected to {self._url}: {self.last_error or self.state.value}")
        return self._connection

    async def _change(self) -> None:
        await self._changed.wait()

    def _announce(self, state: BusState) -> None:
        self._state = state
        self._changed.set()
        self._changed = asyncio.Event()

    async def _keep(self) -> None:
        pause_s = self._options.backoff_first_s
        while True:
            self._announce(BusState.CONNECTING)
            try:
                connection = await self._dial()
            except (BusError, nats.errors.Error, OSError, TimeoutError) as error:
                self._lost(f"could not connect to {self._url}: {describe(error)}")
            else:
                try:
                    self._connection = connection
                    self.last_error = ""
                    pause_s = self._options.backoff_first_s
                    self._announce(BusState.CONNECTED)
                    self._notice(Notice(NoticeKind.CONNECTED, f"connection {connection.generation}"))
                    await self._watch(connection)
                finally:
                    self._connection = None
                    await connection.shut(self._options.dial_timeout_s)
                self._lost(connection.why_lost)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, self._options.backoff_max_s)

    def _lost(self, why: str) -> None:
        self.last_error = why
        self._announce(BusState.WAITING)
        self._notice(Notice(NoticeKind.LOST, why))

    async def _watch(self, connection: Connection) -> None:
        """Return when the connection is gone, or shows by not answering that it is."""
        while not connection.lost.is_set():
            try:
                async with asyncio.timeout(self._options.probe_interval_s):
                    await connection.lost.wait()
            except TimeoutError:
                try:
                    await connection.probe(self._options.probe_timeout_s)
                except (nats.errors.Error, OSError, TimeoutError) as error:
                    connection.drop(f"no answer to a ping: {describe(error)}")

    async def _dial(self) -> Connection:
        self._generation += 1
        client = Client()
        connection = Connection(client, self._inbox, self._generation, self._notice)
        latest: list[Exception] = []

        # nats-py calls these inside its own loops, which end when one raises: nothing in them may.
        async def on_error(error: Exception) -> None:
            try:
                latest[:] = [error]
                if client.is_connected:
                    connection.failed(error)
            except Exception as failure:
                log.error("bus_callback_failed", callback="error", trace=trace(failure))

        async def on_gone() -> None:
            try:
                connection.drop(describe(client.last_error or (latest[0] if latest else None)))
            except Exception as error:
                log.error("bus_callback_failed", callback="closed", trace=trace(error))

        try:
            async with asyncio.timeout(self._options.dial_timeout_s):
                await client.connect(
                    servers=[self._url],
                    name=self._name,
                    error_cb=on_error,
                    disconnected_cb=on_gone,
                    closed_cb=on_gone,
                    allow_reconnect=False,
                    max_reconnect_attempts=1,
                    reconnect_time_wait=0,
                    ping_interval=self._options.ping_interval_s,  # type: ignore[arg-type]
                    max_outstanding_pings=2,
                    nkeys_seed_str=self._credential or None,
                    inbox_prefix=self._inbox,
                    pending_size=LIBRARY_PENDING_BYTES,
                )
            check_version(str(client._server_info.get("version", "")))
            await connection.open()
        except BaseException as error:
            await shut(client, self._options.dial_timeout_s)
            if isinstance(error, nats.errors.NoServersError) and latest:
                raise BusOffline(describe(latest[0])) from error
            raise
        return connection


def check_version(version: str) -> None:
    """Raise BusFailed for a server older than `SERVER_MIN`, or one that does not say."""
    found = re.match(r"v?(\d+)\.(\d+)", version)
    if found is None or (int(found.group(1)), int(found.group(2))) < SERVER_MIN:
        least = ".".join(map(str, SERVER_MIN))
        raise BusFailed(f"the NATS server is version {version or 'unknown'}; use {least} or later")


def check_url(url: str) -> None:
    """Raise BusUnconfigured for what is no NATS URL, or carries a secret that would show in logs."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BusUnconfigured(f"the bus URL cannot be read ({error}); write nats://HOST:PORT") from None
    if parts.scheme not in ("nats", "tls") or not parts.hostname or (port is not None and port < 1):
        raise BusUnconfigured(f"{url!r} is not the URL of a NATS server; write nats://HOST:PORT")
    if parts.username or parts.password:
        raise BusUnconfigured(
            "the bus URL carries a user or password; give the credential as an nkey seed instead"
        )
