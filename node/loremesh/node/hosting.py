"""The bus of this home: the embedded server and who is let in, or another server named instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from loremesh.crypto.identity import nats_user_from_seed
from loremesh.node.ground import Ground
from loremesh.node.records import BUS_KEY, BusRecord, GrantRecord, SpaceRecord, encode_record
from loremesh.sync.embedded import EmbeddedServer, Grant, Role, free_port
from loremesh.sync.nats_link import check_url


class Server(NamedTuple):
    """A bus as a client needs it: URL, and the secret nkey seed to use there ('' for none)."""

    url: str
    credential: str


class Hosting:
    """Decides which server a space is on, and runs the embedded one."""

    def __init__(self, ground: Ground, record: BusRecord) -> None:
        self._ground = ground
        self._record = record
        self._server: EmbeddedServer | None = None
        self._up = False

    @property
    def server(self) -> EmbeddedServer | None:
        """The embedded server while it runs."""
        return self._server

    @property
    def url(self) -> str:
        """Where this home's own spaces are found; '' before that was chosen."""
        if self._record.url:
            return self._record.url
        return f"nats://127.0.0.1:{self._record.port}" if self._record.port else ""

    def server_for(self, record: SpaceRecord) -> Server:
        """The server of a space, and what to show it."""
        own = self._ground.identity.nats_seed()
        if not record.server:
            return Server(self.url, own)
        if self._record.url:
            return Server(self._record.url, record.credential or own)
        return Server(record.server, record.credential or own)

    async def choose(self) -> None:
        """Settle the address of this home's own bus, for tokens to name: a free port, kept from then on."""
        if not self.url:
            port = free_port()
            await self._keep(lambda now: now if now.port else msgspec.structs.replace(now, port=port))

    async def admit_guest(self, space: bytes) -> Server:
        """The server for a token, with a user of its own where this home runs the server."""
        await self.choose()
        if self._record.url:
            return Server(self._record.url, "")
        seed, public = nats_user_from_seed(self._ground.parts.random_bytes(32))
        grant = GrantRecord(public, space)
        await self._keep(lambda now: msgspec.structs.replace(now, grants=(*now.grants, grant)))
        if self._server is not None:
            await self._server.add_user(Grant(public, spaces=(space,)))
        return Server(self.url, seed)

    async def start(self, url: str | None, embedded: bool | None, hosts: bool) -> None:
        """Begin. `url`: use that server from now on; `embedded`: use the embedded one from now on.

        Without either, what was used last; `hosts` says whether this home has spaces on its own bus. Raises
        BusUnconfigured for a URL that cannot be one, ServerError when the embedded server does not start.
        """
        if url is not None:
            check_url(url)
        if url is not None or embedded:
            chosen = url or ""
            await self._keep(lambda now: msgspec.structs.replace(now, url=chosen))
        self._up = True
        if embedded or hosts:
            await self.ensure_running()
        if self._server is None and self._record.port:
            # A run that was killed may have left one, and this run does not need it any more.
            await EmbeddedServer(self._ground.store.paths.bus, self._record.port).end_former()

    async def ensure_running(self) -> None:
        """Start the embedded server, where this home uses it and is up, and it does not run yet."""
        if self._record.url or self._server is not None or not self._up:
            return
        await self.choose()
        server = EmbeddedServer(self._ground.store.paths.bus, self._record.port, self._grants())
        await server.start()
        self._server = server

    async def stop(self) -> None:
        """End the embedded server."""
        self._up = False
        server, self._server = self._server, None
        if server is not None:
            await server.stop()

    def _grants(self) -> list[Grant]:
        own = Grant(self._ground.identity.nats_public, Role.HOST)
        return [own, *(Grant(grant.public, spaces=(grant.space,)) for grant in self._record.grants)]

    async def _keep(self, change: Callable[[BusRecord], BusRecord]) -> None:
        """Change the record as it is by then: two changes at once must not undo one another."""

        async def work() -> None:
            record = change(self._record)
            await self._ground.store.append(records={BUS_KEY: encode_record(record)})
            self._record = record

        await self._ground.exclusive(work)
