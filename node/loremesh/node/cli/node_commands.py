"""The commands about the node itself: make a home, run it, look at it, and the demonstration."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from loremesh.crypto.keystores import EnvironmentKey, KeyFile, KeySource, Passphrase
from loremesh.node import params as p
from loremesh.node import verbs
from loremesh.node.cli import render
from loremesh.node.cli.arguments import invocation
from loremesh.node.cli.console import answer, note, people
from loremesh.node.cli.keys import key_source, note_passphrase_variable, noted_passphrase
from loremesh.node.cli.session import ask, check_home
from loremesh.node.errors import NodeError, UsageError
from loremesh.node.failures import Exit

if TYPE_CHECKING:
    from rich.console import Console

    from loremesh.node.daemon import Ready


class Made(msgspec.Struct, frozen=True):
    """A new home and its peer id."""

    peer: str
    home: str


def init(
    ctx: typer.Context,
    name: Annotated[str, typer.Option(metavar="N", help="What peers see as this node's name.")] = "",
    key_file: Annotated[
        Path | None, typer.Option(metavar="F", help="The home's key: a file (0600), made if it is not there.")
    ] = None,
    passphrase_env: Annotated[
        str | None, typer.Option(metavar="VAR", help="Instead: a passphrase, from this environment variable.")
    ] = None,
    key_env: Annotated[
        str | None, typer.Option(metavar="VAR", help="Instead: a key of 64 hex digits in this variable.")
    ] = None,
) -> None:
    """Make a home: an empty, encrypted memory.

    A home is a directory; making it also makes the node's identity.

    Without a key option a new key file is made outside the home, in $XDG_CONFIG_HOME/loremesh/keys or
    ~/.config/loremesh/keys. Keep a copy of it elsewhere: without the key nothing in the home can be read.

    \b
    loremesh --home alice init --name alice
    """
    import asyncio

    run = invocation(ctx)
    source = key_source(
        run.home, os.environ, key_file=key_file, passphrase_env=passphrase_env, key_env=key_env
    )
    made = asyncio.run(_create(run.home, name, source))
    if passphrase_env is not None:
        note_passphrase_variable(run.home, passphrase_env)
    answer(run, made, _made_for_people(run.home, made, source, passphrase_env))


async def _create(home: Path, name: str, source: KeySource) -> Made:
    from loremesh.node.logfile import open_log
    from loremesh.node.node import Node

    with open_log(home):
        async with Node.create(home, name=name, source=source) as node:
            return Made(node.peer_id, str(node.home))


def _made_for_people(
    home: Path, made: Made, source: KeySource, variable: str | None
) -> Callable[[Console], None]:
    def human(out: Console) -> None:
        render.say(out, f"peer {made.peer}")
        render.say(out, f"home {made.home}")
        match source:
            case KeyFile(path):
                render.say(out, f"key  {path}")
                render.say(out, "Keep a copy of the key elsewhere: without it the home cannot be read.")
                if path.is_relative_to(home):
                    render.say(
                        out, "The key lies inside the home: whoever copies the home has both. Move it out."
                    )
            case Passphrase():
                render.say(out, f"key  a passphrase; later commands read it from {variable} too")
            case EnvironmentKey(var):
                render.say(out, f"key  in {var}; later commands read it from there too")

    return human


def up(
    ctx: typer.Context,
    nats: Annotated[
        str | None, typer.Option(metavar="URL", help="Use the NATS server there, e.g. nats://10.0.0.5:4222.")
    ] = None,
    embedded: Annotated[
        bool, typer.Option("--embedded", help="Start a NATS server of the home's own, on this machine only.")
    ] = False,
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where the door listens; 127.0.0.1, any free port."),
    ] = None,
) -> None:
    """Run the node until it is stopped.

    It prints one line when it is ready. It shares with its spaces, consolidates by itself, and serves every
    other command given with this home. SIGTERM or Ctrl-C ends it cleanly; a second one ends it at once. Its
    log is in the home's log directory.

    \b
    loremesh --home alice up --embedded
    loremesh --home bob up --nats nats://127.0.0.1:4222
    """
    import asyncio

    run = invocation(ctx)
    if nats is not None and embedded:
        raise UsageError("--nats and --embedded exclude one another", "give the URL of a server, or neither")
    from loremesh.node.daemon import Bus, run_node
    from loremesh.node.http.hosts import parse_listen

    where = parse_listen(listen)
    if not where.loopback:
        note(
            run,
            f"warning: the door listens on {where.host}, in reach of other machines, in the clear: whoever "
            "reads the traffic has the token. Put an encrypted tunnel before it, or listen on 127.0.0.1.",
        )
    check_home(run.home)
    running = run_node(
        run.home,
        passphrase=noted_passphrase(run.home, os.environ),
        environ=os.environ,
        bus=Bus(nats, embedded or None),
        listen=where,
        announce=lambda ready: answer(run, ready, lambda out: _ready(out, ready)),
    )
    code = asyncio.run(running)
    if code is not Exit.OK:
        raise typer.Exit(code)


def _ready(out: Console, ready: Ready) -> None:
    bus = f", bus {ready.bus}" if ready.bus else ""
    render.say(out, f"ready: {ready.peer} at {ready.door}{bus}, process {ready.pid}")


def status(ctx: typer.Context) -> None:
    """Show the node at a glance.

    What it holds, what waits, its spaces, feeds and counters.

    \b
    loremesh status
    """
    run = invocation(ctx)
    result = ask(run.home, verbs.STATUS, p.Nothing())
    answer(run, result, lambda out: render.status(out, result))


def demo(
    ctx: typer.Context,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Where the page with pictures goes.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Chooses the texts and tasks; 0 or more.")] = 1,
    keep: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep the nodes' homes there.")] = None,
    size: Annotated[str, typer.Option(metavar="SIZE", help="full, or small for a quick look.")] = "full",
) -> None:
    """Show what sharing is worth, and revocation.

    Four nodes run over a real bus, one of them hostile. It takes a minute or two, uses temporary homes
    of its own, and touches no other.

    \b
    loremesh demo --out demo.html
    """
    run = invocation(ctx)
    if not 0 <= seed < 2**32:
        raise UsageError(f"--seed {seed} is not a number from 0 to {2**32 - 1}", "choose another")
    from loremesh.node.demo import run as run_demo

    console = None if run.as_json else people()
    result = run_demo(console, out=out, seed=seed, keep=keep, size=size)
    answer(run, result, lambda _: None)  # people have seen it grow
    if not result.ok:
        failed = ", ".join(check.name for check in result.checks if not check.holds)
        raise NodeError(
            f"the demonstration ran, and this does not hold: {failed}", "the page shows the figures"
        )
