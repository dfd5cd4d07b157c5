"""A command's way to its home: through the door of the node that runs on it, or by opening it itself.

`up` holds the home's lock and keeps `door.json`; then the door is the way. Otherwise the command opens the
home. Two commands at once take turns: whoever finds the home locked without a door waits for it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from loremesh.crypto.keystores import VAULT_NAME
from loremesh.node.cli.keys import noted_passphrase
from loremesh.node.client import Door, DoorClosed, find_door
from loremesh.node.errors import NodeError
from loremesh.node.home import check_name
from loremesh.node.params import P, checked
from loremesh.node.results import Replayed
from loremesh.node.verbs import Progress, R, Verb

if TYPE_CHECKING:
    from loremesh.node.node import Node, NodeContext

SAME_OWNER_S: Final = 10.0
"""Wait for one owner that has no door. A command is done in a second or two; a program that keeps the home
open will not give it up."""
ANY_OWNER_S: Final = 90.0
"""Wait in a queue of commands, as long as the owner keeps changing."""
ENDING_S: Final = 2.0
"""Wait for a door that does not answer though its file is there: its node is ending, or hangs."""
RETRY_FIRST_S: Final = 0.02
RETRY_MAX_S: Final = 0.25


class Calls(Protocol):
    """The verbs of one home, whoever carries them out."""

    def call(self, verb: Verb[P, R], params: P, progress: Progress | None = None) -> R:
        """Do `verb`; raises what explain_error explains."""
        ...


def check_home(home: Path) -> None:
    """Raise NodeError unless there is a home to open or to talk to."""
    check_name(home)
    if (home / VAULT_NAME).exists():
        return
    if not home.exists():
        what = "is not there"
    elif not home.is_dir():
        what = "is not a directory"
    else:
        what = "is no loremesh home: it has no vault.json"
    raise NodeError(f"{home} {what}", f"make a home with `loremesh --home {home} init`, or name another one")


class Patience:
    """How long to wait for a home that others use: bounded in all, and for each owner."""

    def __init__(self, same_owner_s: float) -> None:
        self._same_owner_s = same_owner_s
        self._begun = self._since = time.monotonic()
        self._pid: int | None = None
        self._pause_s = RETRY_FIRST_S

    def wait(self, pid: int | None, refusal: Exception) -> None:
        """Pause before another try, or raise `refusal` when the wait has been long enough."""
        now = time.monotonic()
        if pid != self._pid:
            self._pid, self._since, self._pause_s = pid, now, RETRY_FIRST_S
        if now - self._since > self._same_owner_s or now - self._begun > ANY_OWNER_S:
            raise refusal
        time.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, RETRY_MAX_S)


def ask(home: Path, verb: Verb[P, R], params: P, progress: Progress | None = None) -> R:
    """Do one verb on `home`. Tries again as long as nothing has been asked of a node that is just ending."""
    patience = Patience(ENDING_S)
    while True:
        try:
            with reach(home) as calls:
                return calls.call(verb, params, progress)
        except DoorClosed as closed:
            patience.wait(None, closed)


@contextmanager
def reach(home: Path, environ: Mapping[str, str] = os.environ) -> Iterator[Calls]:
    """The verbs of `home` for several calls in a row. Raises InUse when it stays locked without a door."""
    check_home(home)
    door = _open_door(home)
    if door is not None:
        yield _ThroughDoor(door)
        return
    with _opened(home, environ) as calls:
        yield calls


def _open_door(home: Path) -> Door | None:
    """The door, if the process that keeps it owns the home: a file left by a crash leads nowhere."""
    door = find_door(home)
    if door is None:
        return None
    from loremesh.node.store.owner import holder

    owner = holder(home)
    return door if owner is not None and owner.pid in (None, door.file.pid) else None


class _ThroughDoor:
    def __init__(self, door: Door) -> None:
        self._door = door

    def call(self, verb: Verb[P, R], params: P, progress: Progress | None = None) -> R:
        return self._door.call(verb, checked(params), progress)


@contextmanager
def _opened(home: Path, environ: Mapping[str, str]) -> Iterator[Calls]:
    """The home opened by this process, or the door of whoever was faster."""
    import asyncio

    from loremesh.node.logfile import open_log
    from loremesh.node.node import Node
    from loremesh.node.store.errors import InUse

    class Direct:
        def call(self, verb: Verb[P, R], params: P, progress: Progress | None = None) -> R:
            return runner.run(_run(verb, node, checked(params), progress))

    passphrase = noted_passphrase(home, environ)
    patience = Patience(SAME_OWNER_S)
    with open_log(home), asyncio.Runner() as runner:
        while True:
            opening = Node.open(home, passphrase=passphrase, environ=environ)
            try:
                node = runner.run(_enter(opening))
                break
            except InUse as refusal:
                door = _open_door(home)
                if door is not None:
                    yield _ThroughDoor(door)
                    return
                patience.wait(refusal.pid, refusal)
        try:
            yield Direct()
        finally:
            runner.run(_leave(opening))


def diagnosed(home: Path, damage: Exception, environ: Mapping[str, str] = os.environ) -> Replayed:
    """What `replay --check` says of a home that is too damaged to be opened: `damage`, and all the rest."""
    import asyncio

    from loremesh.crypto.keystores import Passphrase, Secret
    from loremesh.node.diagnosing import diagnose

    passphrase = noted_passphrase(home, environ)
    source = None if passphrase is None else Passphrase(Secret(passphrase))
    result = asyncio.run(diagnose(home, source, environ))
    if not result.ok:
        return result
    return msgspec.structs.replace(result, ok=False, faults=[str(damage)])


async def _enter(opening: NodeContext) -> Node:
    return await opening.__aenter__()


async def _leave(opening: NodeContext) -> None:
    await opening.__aexit__(None, None, None)


async def _run(verb: Verb[P, R], node: Node, params: P, progress: Progress | None) -> R:
    return await verb.run(node, params, progress)
