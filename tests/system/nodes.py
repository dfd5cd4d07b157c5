"""Real nodes for system tests: `loremesh up` processes, asked through their doors."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from loremesh.node import params as p
from loremesh.node import verbs
from loremesh.node.client import DoorClosed, find_door
from loremesh.node.params import P
from loremesh.node.results import Replayed, Status
from loremesh.node.verbs import R, Verb
from tests.node.doors.program import Program, made

CONFIG = """\
[embedder]
name = "hashing:32"
[sharing]
publish_every_s = 0.05
head_every_s = 0.1
consolidate_every_s = 0.2
"""
READY_S = 40.0


class NodeProcess:
    """A home and the node that runs on it, when one does."""

    def __init__(self, directory: Path, name: str, config: str = CONFIG) -> None:
        self.name = name
        self.program: Program = made(directory, name)
        (self.program.home / "config.toml").write_text(config)
        self._process: subprocess.Popen[bytes] | None = None
        self._up: tuple[str, ...] = ()

    @property
    def home(self) -> Path:
        return self.program.home

    def begin(self, *arguments: str) -> None:
        """Start `up` without waiting for it; again with the same arguments when none are given."""
        self._up = arguments or self._up
        self._process = self.program.start("--json", "up", *self._up)

    def ready(self) -> dict[str, object]:
        """Wait until it says that it is ready; what it said."""
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self._process.communicate(timeout=READY_S)[1].decode()
        said: dict[str, object] = json.loads(line)
        return said

    def up(self, *arguments: str) -> dict[str, object]:
        """Start it and wait until it is ready."""
        self.begin(*arguments)
        return self.ready()

    def kill(self) -> None:
        """End it as a power cut would."""
        assert self._process is not None
        self._process.kill()
        self._process.communicate(timeout=READY_S)
        self._process = None

    def stop(self) -> int:
        """End it as an administrator would; its exit code."""
        if self._process is None:
            return 0
        self._process.send_signal(signal.SIGTERM)
        self._process.communicate(timeout=READY_S)
        code, self._process = self._process.returncode, None
        return code

    def ask(self, verb: Verb[P, R], params: P) -> R:
        """One verb through the door. Raises DoorClosed, NodeGone and what the verb raises."""
        door = find_door(self.home)
        if door is None:
            raise DoorClosed("no node runs there")
        return door.call(verb, params)

    def status(self) -> Status:
        return self.ask(verbs.STATUS, p.Nothing())

    def check(self) -> Replayed:
        return self.ask(verbs.REPLAY, p.Replay(check=True))


def wait(condition: Callable[[], bool], what: str, timeout: float = 30.0) -> None:
    """Wait for a condition; fail naming it when it does not come."""
    until = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < until, f"not within {timeout:g} s: {what}"
        time.sleep(0.05)
