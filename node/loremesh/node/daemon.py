"""`up`: one node, its buses and its door, until a signal ends it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from loremesh.node.failures import Exit, explain_error
from loremesh.node.http.hosts import Listen
from loremesh.node.http.serve import bind, open_door
from loremesh.node.logfile import open_log
from loremesh.node.node import Node

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Ready(msgspec.Struct, frozen=True):
    """Said once, when every part of the node works: its peer id, its door, its bus and its process."""

    ready: bool
    peer: str
    door: str
    bus: str
    pid: int


class Bus(msgspec.Struct, frozen=True):
    """Which bus the command line asked for: a URL, the embedded server, or what the home says (neither)."""

    nats: str | None = None
    embedded: bool | None = None


async def run_node(
    home: Path,
    *,
    passphrase: str | None,
    environ: Mapping[str, str],
    bus: Bus,
    listen: Listen,
    announce: Callable[[Ready], None],
) -> Exit:
    """Run the node on `home` until SIGTERM or SIGINT; then close its door, its buses and its home in order.

    A second signal ends the process at once: the log is safe at every moment, only the checkpoint is not
    written. Raises what opening the home, its bus or its door raises.
    """
    stopped = _stop_on_signals()
    bound = bind(listen)  # before the home is opened: a taken port must cost nothing
    with contextlib.closing(bound), open_log(home) as log:
        try:
            async with Node.open(home, passphrase=passphrase, environ=environ) as node:
                log.info("starting", pid=os.getpid())
                await node.start(nats=bus.nats, embedded=bus.embedded)
                async with open_door(node, listen, bound, log) as door:
                    log.info("ready", door=door.url)
                    announce(Ready(True, node.peer_id, door.url, await _bus_of(node), door.pid))
                    await asyncio.Event().wait()
        except asyncio.CancelledError:
            if not stopped():
                raise
            log.info("stopped")
        except Exception as error:
            log.error("ended by an error", what=explain_error(error).message)
            raise
    return Exit.OK


async def _bus_of(node: Node) -> str:
    """The servers that the node's spaces are on; before it is in any, the one its own would be on."""
    servers = sorted({space.server for space in await node.spaces()})
    return ", ".join(servers) or node.sharing.hosting.url


def _stop_on_signals() -> Callable[[], bool]:
    """Have the first signal cancel the current task, the second end the process; tells whether one came."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    came: list[int] = []

    def stop(number: int) -> None:
        came.append(number)
        if len(came) > 1:
            os._exit(128 + number)
        if task is not None:
            task.cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, stop, number)
    return lambda: bool(came)
