"""One run of the demonstration from beginning to end: plan, story, proofs, table, page."""

from __future__ import annotations

import contextlib
import platform
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from loremesh.node.demo.checks import checks
from loremesh.node.demo.crash import killed_and_restarted
from loremesh.node.demo.phases import alone, attacked, prove, revoked, sharing
from loremesh.node.demo.plan import HONEST, HOSTILE, make_plan, size_named
from loremesh.node.demo.processes import KEY, Nodes, ended_by_signals
from loremesh.node.demo.results import DemoResult
from loremesh.node.demo.team import Say, Team
from loremesh.node.errors import NodeError, UsageError
from loremesh.sync.embedded import find_server

if TYPE_CHECKING:
    from rich.console import Console

PAGE: Final = Path("demo-out/demo.html")
KEY_FILE: Final = "demo.key"


def run(
    console: Console | None, *, out: Path | None, seed: int, keep: Path | None, size: str = "full"
) -> DemoResult:
    """Run it and write the page to `out` (PAGE by default). Progress and the table go to `console`.

    `keep` names a directory, new or empty, for the homes; without it they are temporary and go in the end.
    Whatever happens, every process started here has ended when this returns or raises. Raises UsageError for
    arguments that cannot be, NodeError and its kind when a part of the demonstration could not be done;
    checks that do not hold are no error here: see `DemoResult.ok`.
    """
    begun_s = time.monotonic()
    chosen, page = size_named(size), (out or PAGE).absolute()
    find_server()  # before anything is made
    _check_page(page)
    say = _sayer(console, begun_s)
    plan = make_plan(chosen, seed)
    say(
        f"{len(plan.facts)} functions of Python {platform.python_version()} and "
        f"{chosen.other_texts} other texts, dealt among {len(HONEST)} agents; "
        f"{len(plan.exercises.examination)} questions to be examined on"
    )
    with _directory(keep) as directory, ended_by_signals():
        key = secrets.token_hex(32)
        nodes = Nodes(directory, key)
        try:
            team = Team(plan, nodes, say)
            keys = team.assemble()
            processes = list(nodes.started)
            say(f"one nats-server and {len(processes)} nodes run: {', '.join((*HONEST, HOSTILE))}")
            phases = [alone(team), sharing(team)]
            attack = attacked(team, keys)
            after, answers = revoked(team, keys, attack.made_up)
            twins = prove(team, keys, answers)
            crash = killed_and_restarted(team, keys)
        finally:
            nodes.stop_all()
        if keep is not None:
            _keep_key(directory, key)
    found = checks(twins, crash, attack.influence, attack.hostile)
    result = DemoResult(
        ok=all(check.holds for check in found),
        seed=seed,
        size=size,
        seconds=time.monotonic() - begun_s,
        python=platform.python_version(),
        embedder="minilm",
        blocks=sum(len(hand) for hand in plan.hands),
        functions=len(plan.facts),
        questions=len(plan.exercises.examination),
        processes=processes,
        phases=[*phases, attack.phase, after],
        work=team.work_done,
        hostile=attack.hostile,
        influence=attack.influence,
        twins=twins,
        crash=crash,
        checks=found,
        page=str(page),
        homes=str(directory) if keep is not None else "",
    )
    _write_page(page, result)
    if console is not None:
        from loremesh.node.demo.table import show

        show(console, result)
    return result


def _sayer(console: Console | None, begun_s: float) -> Say:
    def say(text: str) -> None:
        if console is not None:
            console.print(f"{time.monotonic() - begun_s:5.1f} s  {text}", soft_wrap=True)

    return say


@contextlib.contextmanager
def _directory(keep: Path | None) -> Iterator[Path]:
    """Where the homes go: `keep`, or a temporary directory that goes in the end."""
    if keep is not None:
        try:
            keep.mkdir(mode=0o700, parents=True, exist_ok=True)
            full = any(keep.iterdir())
        except OSError as error:
            raise UsageError(
                f"--keep {keep} cannot be used: {error.strerror}", "name a directory that is new or empty"
            ) from error
        if full:
            raise UsageError(f"--keep {keep} is not empty", "name a directory that is new or empty")
        yield keep.absolute()
        return
    directory = Path(tempfile.mkdtemp(prefix="loremesh-demo-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _keep_key(directory: Path, key: str) -> None:
    """The key of the kept homes beside them, for whoever wants to look: these homes hold no secret."""
    path = directory / KEY_FILE
    path.touch(mode=0o600)
    path.write_text(f"export {KEY}={key}\n", "ascii")


def _check_page(page: Path) -> None:
    """Raises UsageError when the page cannot be written there: before a minute of work, not after."""
    if page.is_dir():
        raise UsageError(f"--out {page} is a directory", "name a file, e.g. demo.html")
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        with page.open("ab"):
            pass
    except OSError as error:
        raise UsageError(f"--out {page} cannot be written: {error.strerror}", "name another file") from error


def _write_page(page: Path, result: DemoResult) -> None:
    from loremesh.node.demo.page import render

    try:
        page.write_text(render(result), "utf-8")
    except OSError as error:
        raise NodeError(
            f"the page {page} cannot be written: {error.strerror}", "name another with --out"
        ) from error
