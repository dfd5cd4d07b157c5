"""A real nats-server for tests: loopback, a random port kept over restarts, always ended."""

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from loremesh.sync.embedded import find_server

READY_S = 10.0


class NatsServer:
    """One process at a time under a directory; what `config` holds is added to the server's configuration."""

    def __init__(self, directory: Path, config: Mapping[str, object] | None = None) -> None:
        self.directory = directory
        self.config = dict(config or {})
        self.port = -1
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and return when it listens; the first start chooses the port."""
        ports = self.directory / "ports"
        ports.mkdir(parents=True, exist_ok=True)
        for old in ports.glob("*.ports"):
            old.unlink()
        base = {
            "host": "127.0.0.1",
            "port": self.port,
            "ports_file_dir": str(ports),
            "jetstream": {"store_dir": str(self.directory / "js")},
            "max_payload": 256 << 10,
            "log_file": str(self.directory / "log"),
        }
        path = self.directory / "server.conf"
        path.write_text(json.dumps(base | self.config))
        self.process = subprocess.Popen([find_server(), "-c", path], stderr=subprocess.DEVNULL)
        until = time.monotonic() + READY_S
        while time.monotonic() < until:
            for found in ports.glob("*.ports"):
                text = found.read_text()
                if text.endswith("}") and json.loads(text)["nats"]:
                    self.port = int(json.loads(text)["nats"][0].rpartition(":")[2])
                    return
            if self.process.poll() is not None:
                raise RuntimeError(f"nats-server ended: {(self.directory / 'log').read_text()[-500:]}")
            time.sleep(0.005)
        raise RuntimeError("nats-server did not listen in time")

    def kill(self) -> None:
        """End it without warning."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)
            self.process = None

    def stop(self) -> None:
        """End it as an administrator would."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(10)
            self.process = None

    def freeze(self) -> None:
        """Stop it answering without closing anything."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        os.waitpid(self.process.pid, os.WUNTRACED)  # until every thread of it stands still

    def reload(self) -> None:
        """Make it read a changed `config`."""
        assert self.process is not None
        path = self.directory / "server.conf"
        path.write_text(json.dumps(json.loads(path.read_text()) | self.config | {"port": self.port}))
        self.process.send_signal(signal.SIGHUP)


async def until(condition: Callable[[], bool | Awaitable[bool]], what: str, timeout: float = 15.0) -> None:
    """Wait for a condition; fail naming it when it does not come."""
    try:
        async with asyncio.timeout(timeout):
            while True:
                met = condition()
                if not isinstance(met, bool):
                    met = await met
                if met:
                    return
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"not within {timeout:g} s: {what}") from None
