"""The real program, run as a user runs it: a process with a home, an environment and two streams."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

PROGRAM = str(Path(sys.executable).with_name("loremesh"))
CONFIG = '[embedder]\nname = "hashing"\n'
"""No model: these tests are about the doors."""
TIMEOUT_S = 60


class Result(msgspec.Struct, frozen=True):
    """How a run ended and what it said."""

    code: int
    out: bytes
    err: bytes

    @property
    def value(self) -> Any:
        """The one JSON value on standard output."""
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, str]:
        """The one JSON object on standard error."""
        said: dict[str, str] = json.loads(self.err)
        return said


class Program(msgspec.Struct, frozen=True):
    """The program with a home and an environment of its own."""

    home: Path
    environ: Mapping[str, str]

    def with_environ(self, **changes: str) -> Program:
        """The same program in a changed environment."""
        return Program(self.home, {**self.environ, **changes})

    def run(self, *arguments: str | bytes, stdin: bytes = b"") -> Result:
        """Run one command to its end."""
        done = subprocess.run(
            [PROGRAM, "--home", str(self.home), *arguments],
            input=stdin,
            env=dict(self.environ),
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def ask(self, *arguments: str | bytes, stdin: bytes = b"") -> Any:
        """Run one command with --json that has to succeed; its value."""
        result = self.run("--json", *arguments, stdin=stdin)
        assert (result.code, result.err) == (0, b"")
        return result.value

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start one command and let it run."""
        return subprocess.Popen(
            [PROGRAM, "--home", str(self.home), *arguments],
            env=dict(self.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    @contextmanager
    def up(self, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, Any]]]:
        """A running node and what it said when it was ready; ended by SIGTERM, if it still runs then."""
        process = self.start("--json", "up", *arguments)
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line, process.communicate(timeout=TIMEOUT_S)[1].decode()
            yield process, json.loads(line)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.communicate(timeout=TIMEOUT_S)


def new_program(directory: Path, name: str = "home") -> Program:
    """A program whose home is not made yet, and whose keys and defaults stay below `directory`."""
    home = directory / name
    home.mkdir()
    (home / "config.toml").write_text(CONFIG)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("LOREMESH_", "LC_"))}
    own = {"XDG_CONFIG_HOME": str(directory / "config"), "HOME": str(directory), "LANG": "C.UTF-8"}
    return Program(home, {**kept, **own})


def made(directory: Path, name: str = "home") -> Program:
    """A program with a home made by `init`."""
    program = new_program(directory, name)
    program.ask("init", "--name", name)
    return program
