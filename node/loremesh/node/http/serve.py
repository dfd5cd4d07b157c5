"""Opening and closing the door: the socket, the server, and `door.json` while it is open."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import secrets
import socket
from collections.abc import AsyncIterator, Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

import uvicorn

from loremesh.node.errors import Unavailable
from loremesh.node.http.app import build_app
from loremesh.node.http.doorfile import FORMAT, DoorFile, remove_door, write_door
from loremesh.node.http.hosts import LOOPBACK, Listen

if TYPE_CHECKING:
    from structlog.stdlib import BoundLogger

    from loremesh.node.node import Node

TOKEN_BYTES: Final = 32
BACKLOG: Final = 128
MAX_CONNECTIONS: Final = 256
"""Requests at once; more are told to come back (status 503)."""
GRACE_S: Final = 5
"""How long a closing door lets running requests finish."""
STARTED_EVERY_S: Final = 0.01


def bind(listen: Listen) -> socket.socket:
    """A listening socket there. Raises Unavailable, naming the address and the remedy."""
    host = LOOPBACK if listen.host == "localhost" else listen.host
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    taken = socket.socket(family, socket.SOCK_STREAM)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((host, listen.port))
        taken.listen(BACKLOG)
    except OSError as error:
        taken.close()
        raise _not_bound(listen, error) from error
    taken.setblocking(False)
    return taken


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the daemon has its own, which end the node as well."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def open_door(
    node: Node, listen: Listen, bound: socket.socket, log: BoundLogger
) -> AsyncIterator[DoorFile]:
    """The door of `node` on a socket that is bound already, open within the block."""
    token = secrets.token_urlsafe(TOKEN_BYTES)
    host, port = bound.getsockname()[:2]
    listening = Listen(listen.host, port)
    app = build_app(node, token, listening, version("loremesh"), log)
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=GRACE_S,
    )
    server = _Server(config)
    serving = asyncio.ensure_future(server.serve(sockets=[bound]))
    try:
        while not server.started:
            if serving.done():
                serving.result()
                raise Unavailable("the node's door did not open", "try again; see the home's log directory")
            await asyncio.sleep(STARTED_EVERY_S)
        reach = {"0.0.0.0": LOOPBACK, "::": "::1"}.get(host, host)
        file = DoorFile(FORMAT, reach, port, token, os.getpid(), node.peer_id)
        write_door(node.home, file)
        try:
            yield file
        finally:
            remove_door(node.home, file.pid)
    finally:
        server.should_exit = True
        await asyncio.gather(serving, return_exceptions=True)
        bound.close()


def _not_bound(listen: Listen, error: OSError) -> Unavailable:
    where = f"{listen.host} port {listen.port}"
    match error.errno:
        case errno.EADDRINUSE:
            return Unavailable(
                f"{where} is taken by another program",
                "choose another with --listen, or port 0 for a free one",
            )
        case errno.EACCES:
            return Unavailable(
                f"this user may not listen on {where}", "choose a port from 1024 with --listen"
            )
        case errno.EADDRNOTAVAIL:
            return Unavailable(
                f"{listen.host} is no address of this machine", "choose one that is, or 127.0.0.1"
            )
        case _:
            return Unavailable(f"cannot listen on {where}: {error.strerror}", "choose another with --listen")
