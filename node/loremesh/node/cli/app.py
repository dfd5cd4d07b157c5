"""`loremesh`: the program. Every error leaves through here, with the form and exit code it should have."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from loremesh.node.cli import (
    compact_command,
    doctor_commands,
    exchange_commands,
    judging_commands,
    memory_commands,
    node_commands,
    sharing_commands,
    tending_commands,
    tier_commands,
)
from loremesh.node.cli.arguments import NEGATIVE_NUMBERS, invocation
from loremesh.node.cli.console import answer, complain, force_utf8, note, silence
from loremesh.node.cli.invocation import Invocation, Words, invocation_of, program_arguments, take_common
from loremesh.node.cli.render import say
from loremesh.node.errors import NodeError, UsageError
from loremesh.node.failures import Exit, Explained, explain_error

ABOUT: Final = """Memory that a team of agents shares.

A home is a directory with one agent's encrypted memory. Commands open it, or talk to the node that runs on it
(`up`). Exit codes: 0 done, 1 a failure, 2 wrong usage, 130 interrupted.
"""

COMMON: Final = """\b
Anywhere on the line:
  --home DIR   the home; else $LOREMESH_HOME, else ~/.loremesh
  --json       JSON on standard output, and errors as JSON on standard error
  --debug      show the traceback of a bug (or set LOREMESH_DEBUG=1)
"""

COMMANDS: Final[Sequence[tuple[Callable[..., None], dict[str, Any]]]] = (
    (node_commands.init, {}),
    (node_commands.up, {}),
    (memory_commands.learn, {}),
    (memory_commands.recall, {}),
    (memory_commands.frames, {}),
    (memory_commands.outcome, {"context_settings": NEGATIVE_NUMBERS}),
    (memory_commands.confirm, {}),
    (memory_commands.explain, {}),
    (sharing_commands.peers, {}),
    (memory_commands.consolidate, {}),
    (tending_commands.rescore, {"context_settings": NEGATIVE_NUMBERS}),
    (tending_commands.connect, {"context_settings": NEGATIVE_NUMBERS}),
    (tending_commands.due, {"context_settings": NEGATIVE_NUMBERS}),
    (tier_commands.summarise, {}),
    (memory_commands.events, {}),
    (memory_commands.replay, {}),
    (judging_commands.worth, {}),
    (judging_commands.attribute, {}),
    (judging_commands.deprecate, {}),
    (judging_commands.archive, {}),
    (judging_commands.restore, {}),
    (judging_commands.revise, {}),
    (memory_commands.forget, {}),
    (compact_command.compact, {"context_settings": NEGATIVE_NUMBERS}),
    (exchange_commands.export, {}),
    (exchange_commands.import_, {"name": "import"}),
    (node_commands.status, {}),
    (node_commands.demo, {}),
)
GROUPS: Final[dict[str, tuple[str, dict[str, tuple[Callable[..., None], dict[str, Any]]]]]] = {
    "space": (
        "Make, join and list spaces: what members share.",
        {
            "create": (sharing_commands.space_create, {}),
            "join": (sharing_commands.space_join, {}),
            "list": (sharing_commands.space_list, {}),
            "invite": (sharing_commands.space_invite, {}),
        },
    ),
    "trust": (
        "Say how far each peer's evidence counts here.",
        {
            "set": (sharing_commands.trust_set, {"context_settings": NEGATIVE_NUMBERS}),
            "revoke": (sharing_commands.trust_revoke, {}),
            "log": (sharing_commands.trust_log, {}),
        },
    ),
    "doctor": (
        "Look a home over and set it right.",
        {
            "fit": (doctor_commands.fit, {}),
            "recalibrate": (doctor_commands.recalibrate, {}),
            "reembed": (doctor_commands.reembed, {}),
        },
    ),
}


def build_program() -> typer.Typer:
    """The program with all of its commands."""
    plain: dict[str, Any] = {
        "add_completion": False,
        "rich_markup_mode": None,
        "pretty_exceptions_enable": False,
        "no_args_is_help": False,
    }
    program = typer.Typer(name="loremesh", help=ABOUT, epilog=COMMON, invoke_without_command=True, **plain)

    @program.callback()
    def common(
        ctx: typer.Context,
        version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    ) -> None:
        run = invocation(ctx)
        if version:
            from importlib.metadata import version as version_of

            answer(run, {"version": version_of("loremesh")}, lambda out: say(out, version_of("loremesh")))
            raise typer.Exit
        if ctx.invoked_subcommand is None:
            note(run, ctx.get_help())
            raise UsageError("no command is given", "see `loremesh --help` for the commands there are")

    for command, settings in COMMANDS:
        program.command(epilog=COMMON, **settings)(command)
    for group, (about, commands) in GROUPS.items():
        inner = typer.Typer(help=about, **plain)
        for name, (command, settings) in commands.items():
            inner.command(name, epilog=COMMON, **settings)(command)
        program.add_typer(inner, name=group)
    return program


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns the exit code. Nothing is raised for what a user can do wrong."""
    as_asked = Invocation(Path(), "--json" in arguments, "--debug" in arguments)
    try:
        words = take_common(arguments)
        as_asked = invocation_of(words, os.environ)
        return _dispatch(words, as_asked)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        silence()
        return Exit.FAILURE
    except Exception as error:
        explained = _explained(error)
        if as_asked.debug and not isinstance(error, NodeError):
            traceback.print_exception(error)
        complain(as_asked, explained)
        return explained.exit_code


def main() -> None:
    """The entry point of the installed program."""
    force_utf8()
    code = run(program_arguments())
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        silence()
        code = Exit.FAILURE
    sys.exit(code)


def _dispatch(words: Words, run: Invocation) -> int:
    command = typer.main.get_command(build_program())
    code = command.main(words.rest, prog_name="loremesh", standalone_mode=False, obj=run)
    return code if isinstance(code, int) else Exit.OK


def _explained(error: Exception) -> Explained:
    """The parser's own complaints are usage errors; everything else is the node's."""
    if isinstance(error, typer.TyperException):
        said = error.format_message().strip().rstrip(".")
        return Explained(said[:1].lower() + said[1:], f"see `{_asked(error)} --help`", Exit.USAGE)
    return explain_error(error)


def _asked(error: typer.TyperException) -> str:
    """The command that the parser was at, as it is typed."""
    path = getattr(getattr(error, "ctx", None), "command_path", "")
    return path if isinstance(path, str) and path else "loremesh COMMAND"
