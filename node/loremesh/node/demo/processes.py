"""The nodes of the demonstration as processes: `loremesh --home DIR up`, and their end, whatever happens.

Only processes started here are ever ended, by their own ids.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from loremesh.node.client import Door, find_door
from loremesh.node.daemon import Ready
from loremesh.node.errors import NodeError, Unavailable
from loremesh.node.failures import ErrorSaid
from loremesh.node.home import HomePaths
from loremesh.node.settings import CONFIG_NAME

KEY: Final = "LOREMESH_DEMO_KEY"
"""The variable that the homes' key is in, for the nodes only."""
PROGRAM: Final = (sys.executable, "-c", "from loremesh.node.cli.app import main; main()")
"""The command line, by the interpreter that runs the demonstration, whatever is on the PATH."""
READY_S: Final = 60.0
"""A node is ready in two or three seconds; a busy machine may take longer."""
END_S: Final = 20.0
"""A node told to end writes its checkpoint first."""
POLL_S: Final = 0.05

ANSWER: Final = "said"
ERRORS: Final = "errors"
"""Ends of the names of the files that a process writes to."""

T = TypeVar("T")
S = TypeVar("S")


class NodeFailed(Unavailable):
    """A node or a command of the demonstration ended with an error of its own."""


class Nodes:
    """Homes under one directory, and the processes on them. Its methods may be called from threads."""

    def __init__(self, directory: Path, key: str) -> None:
        self.directory = directory
        self._environ = _environ(key)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._started: list[int] = []
        self._ended = False
        self._lock = threading.Lock()

    def home(self, name: str) -> Path:
        """The home of the node called `name`."""
        return self.directory / name

    def door(self, name: str) -> Door:
        """The door of a running node."""
        door = find_door(self.home(name))
        if door is None:
            raise NodeFailed(f"the node {name} has no door", f"see {HomePaths(self.home(name)).logs}")
        return door

    @property
    def environ(self) -> Mapping[str, str]:
        """The nodes' environment, with the key of the homes."""
        return self._environ

    @property
    def started(self) -> Sequence[int]:
        """Ids of all processes started as nodes so far, dead ones included."""
        return tuple(self._started)

    def create(self, name: str, config: str) -> None:
        """Make a sealed home with these settings."""
        home = self.home(name)
        home.mkdir(mode=0o700, parents=True)
        (home / CONFIG_NAME).write_text(config, "utf-8")
        self.command(name, "init", "--name", name, "--key-env", KEY)

    def command(self, name: str, *words: str) -> None:
        """Run one command on a home to its end. Raises NodeFailed with what it said."""
        process = self._spawn(name, words)
        try:
            code = process.wait(READY_S)
        except subprocess.TimeoutExpired:
            raise self._late(name) from None
        finally:
            self._end([self._running.pop(name)])
        if code:
            raise _failure(f"`loremesh {words[0]}` for {name}", self._said(name, ERRORS))

    def start(self, name: str, *words: str) -> Ready:
        """Start a node and wait until it is ready. Raises NodeFailed with what it said."""
        process = self._spawn(name, ("up", *words))
        self._started.append(process.pid)
        until = time.monotonic() + READY_S
        while not (line := self._said(name, ANSWER)).endswith(b"\n"):
            if process.poll() is not None:
                raise _failure(f"the node {name}", self._said(name, ERRORS))
            if time.monotonic() > until:
                raise self._late(name)
            time.sleep(POLL_S)
        return msgspec.json.decode(line, type=Ready)

    def stop(self, name: str) -> None:
        """End a node in order, and wait for it."""
        self._end([self._running.pop(name)])

    def kill(self, name: str) -> None:
        """End a node with SIGKILL: no clean-up, no checkpoint, nothing said."""
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def stop_all(self) -> None:
        """End every process that still runs, the first started last, since it runs the bus. None starts
        afterwards.
        """
        with self._lock:
            self._ended = True
            running = list(self._running.values())
            self._running.clear()
        self._end(running[1:])
        self._end(running[:1])
        self._end_left_servers()

    def _spawn(self, name: str, words: Sequence[str]) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._ended:
                raise NodeFailed(f"{name} is not started: the demonstration is ending")
            with self._file(name, ANSWER).open("wb") as out, self._file(name, ERRORS).open("wb") as errors:
                # A session of its own: an interrupt at the terminal is for the demonstration alone, which
                # ends its processes.
                process = subprocess.Popen(
                    [*PROGRAM, "--home", str(self.home(name)), "--json", *words],
                    env=self._environ,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=errors,
                    start_new_session=True,
                )
            self._running[name] = process
            return process

    def _file(self, name: str, kind: str) -> Path:
        return self.directory / f"{name}.{kind}"

    def _said(self, name: str, kind: str) -> bytes:
        return self._file(name, kind).read_bytes()

    def _late(self, name: str) -> NodeFailed:
        return NodeFailed(
            f"the node {name} was not ready within {READY_S:.0f} s",
            "run the demonstration again when the machine is less busy",
        )

    def _end(self, processes: Sequence[subprocess.Popen[bytes]]) -> None:
        """Ask them to end, wait, and end by force what does not."""
        for process in processes:
            process.terminate()
        until = time.monotonic() + END_S
        for process in processes:
            try:
                process.wait(max(until - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _end_left_servers(self) -> None:
        """A node that had to be killed leaves its bus behind: end it, where it is that of a home here."""
        for pid_file in self.directory.glob("*/bus/nats-server.pid"):
            with contextlib.suppress(OSError, ValueError):
                pid = int(pid_file.read_text())
                place = str(pid_file.parent.resolve())
                until = time.monotonic() + END_S
                if place in _command_line(pid):
                    os.kill(pid, signal.SIGTERM)
                while place in _command_line(pid) and time.monotonic() < until:
                    time.sleep(POLL_S)


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Have SIGTERM and SIGHUP end the demonstration as Ctrl-C does: by an exception, so that it cleans up."""

    def interrupt(number: int, _: object) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    former = []
    with contextlib.suppress(ValueError):  # in a thread that takes no signals
        former = [(number, signal.signal(number, interrupt)) for number in (signal.SIGTERM, signal.SIGHUP)]
    try:
        yield
    finally:
        for number, handler in former:
            signal.signal(number, handler)


def together(work: Callable[[T], S], items: Sequence[T]) -> list[S]:
    """`work` for every item at the same time, in threads; results in the items' order, the first error
    raised."""
    threads = ThreadPoolExecutor(max(len(items), 1))
    try:
        return list(threads.map(work, items))
    finally:
        # Not waited for when one failed or an interrupt came: the others end with their nodes.
        threads.shutdown(wait=False, cancel_futures=True)


def wait_until(ready: Callable[[], bool], what: str, timeout_s: float) -> float:
    """Wait for a condition; the seconds it took. Raises Unavailable naming `what` when it takes too long."""
    begun = time.monotonic()
    while not ready():
        if time.monotonic() - begun > timeout_s:
            raise Unavailable(
                f"after {timeout_s:.0f} s still waiting: {what}",
                "run the demonstration again when the machine is less busy, with --keep to look at the homes",
            )
        time.sleep(POLL_S)
    return time.monotonic() - begun


def _environ(key: str) -> dict[str, str]:
    """This process's environment, without settings that are meant for other homes."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LOREMESH_")}
    return {**kept, KEY: key, "PYTHONUNBUFFERED": "1"}


def _failure(what: str, errors: bytes) -> NodeError:
    """The error that a command said on standard error, as an error of this process."""
    lines = errors.strip().splitlines()
    try:
        said = msgspec.json.decode(lines[-1], type=ErrorSaid)
    except (IndexError, msgspec.DecodeError, UnicodeDecodeError):
        tail = errors.decode("utf-8", "replace").strip()[-400:]
        return NodeFailed(f"{what} failed: {tail or 'it said nothing'}", "run it again with --keep and look")
    return NodeFailed(f"{what} failed: {said.error}", said.hint)


def _command_line(pid: int) -> str:
    try:
        return (Path("/proc") / str(pid) / "cmdline").read_bytes().decode("utf-8", "replace")
    except FileNotFoundError:
        found = subprocess.run(
            ["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, timeout=5, check=False
        )
        return found.stdout
