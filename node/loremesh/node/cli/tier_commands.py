"""The command that summarises: blocks that belong together, said in fewer words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from loremesh.node import params as p
from loremesh.node import verbs
from loremesh.node.cli.arguments import invocation
from loremesh.node.cli.console import answer, progress_shown
from loremesh.node.cli.plain import plain
from loremesh.node.cli.render import count, say
from loremesh.node.cli.session import ask

if TYPE_CHECKING:
    from rich.console import Console

    from loremesh.node.tier_results import Summarised


def summarise(ctx: typer.Context) -> None:
    """Summarise blocks that belong together.

    Groups of similar blocks get a summary, large ones an abstract too, for `recall --budget`. The blocks stay
    as they are. Only groups that changed are summarised again; a run that was broken off goes on. A node that
    is up does it by itself.

    \b
    loremesh summarise
    """
    run = invocation(ctx)
    with progress_shown(run, "summarising") as show:
        result = ask(run.home, verbs.SUMMARISE, p.Summarise(), show)
    answer(run, result, lambda out: _summarised(out, result))


def _summarised(out: Console, result: Summarised) -> None:
    """What was done, what there is now, and what could not be done."""
    say(out, f"{count(result.examined, 'block')} looked at, {result.written} groups summarised anew")
    if result.failed:
        say(out, f"{result.failed} left without a new summary: {plain(result.trouble)}")
    say(
        out,
        f"by {plain(result.summariser)}; {result.summaries} summaries, {result.abstracts} abstracts in all",
    )
