"""Standard output and standard error: one JSON value or text for people, UTF-8 whatever the locale."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import msgspec

from loremesh.node.cli.invocation import Invocation
from loremesh.node.cli.plain import plain
from loremesh.node.errors import NodeError
from loremesh.node.failures import ErrorSaid, Explained

if TYPE_CHECKING:
    from rich.console import Console

    from loremesh.node.verbs import Progress

WIDTH: Final = 80
"""Columns where there is no terminal to ask."""
SAY_EVERY_S: Final = 2.0
"""Progress without a terminal: a line this often."""


def force_utf8() -> None:
    """Write UTF-8 to both streams; what has no UTF-8 comes out escaped rather than as a crash.

    A stream that whoever started the program had closed leads nowhere, so that no file of the home gets its
    number and what is said.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - it stays open as long as the program
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def answer(run: Invocation, result: object, human: Callable[[Console], None]) -> None:
    """The command's result: JSON of `result`, or what `human` prints."""
    try:
        if run.as_json:
            write_json(result)
        else:
            human(people())
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        silence()
        raise NodeError(
            f"standard output cannot be written: {error.strerror}",
            "the command was done, only its answer is lost; send the output somewhere else",
        ) from error


def silence() -> None:
    """Nobody reads standard output any more: let what waits to be written to it go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write_json(result: object) -> None:
    """One JSON value and a line end on standard output."""
    raw = msgspec.json.encode(result) + b"\n"
    sys.stdout.write(raw.decode("utf-8"))
    sys.stdout.flush()


def people(*, error: bool = False) -> Console:
    """A console for people: as wide as the terminal, or 80 columns; no markup in what is printed."""
    from rich.console import Console

    stream = sys.stderr if error else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else WIDTH
    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False)


def complain(run: Invocation, explained: Explained) -> None:
    """The error on standard error: a JSON object, or two lines."""
    if run.as_json:
        said = ErrorSaid(_sound(explained.message), _sound(explained.hint))
        sys.stderr.write(msgspec.json.encode(said).decode("utf-8") + "\n")
    else:
        sys.stderr.write(f"error: {plain(explained.message)}\n")
        if explained.hint:
            sys.stderr.write(f"hint: {plain(explained.hint)}\n")
    sys.stderr.flush()


def note(run: Invocation, text: str) -> None:
    """A remark beside the result, for people only."""
    if not run.as_json:
        sys.stderr.write(f"{plain(text)}\n")
        sys.stderr.flush()


@contextmanager
def progress_shown(run: Invocation, what: str, total: int | None = None) -> Iterator[Progress]:
    """A bar on a terminal, a line now and then without one, nothing with --json and no terminal."""
    if sys.stderr.isatty():
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=people(error=True), transient=True) as bar:
            task = bar.add_task(what, total=total)
            yield lambda done, of: bar.update(task, completed=done, total=of or None)
        return
    said_s = time.monotonic()

    def say(done: int, of: int) -> None:
        nonlocal said_s
        if time.monotonic() - said_s > SAY_EVERY_S:
            said_s = time.monotonic()
            note(run, f"{what}: {done} of {of}")

    yield say


def _sound(text: str) -> str:
    """The text with lone surrogates, which have no UTF-8, written out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
