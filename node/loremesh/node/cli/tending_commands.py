"""The commands that tend a memory: rescore, connect, due."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from loremesh.node import params as p
from loremesh.node import verbs
from loremesh.node.cli.arguments import (
    BLOCK,
    ContextOption,
    LimitOption,
    PageBudgetOption,
    invocation,
    number,
)
from loremesh.node.cli.console import answer, progress_shown
from loremesh.node.cli.plain import one_line, plain
from loremesh.node.cli.render import SHORT_ID, count, say
from loremesh.node.cli.session import ask
from loremesh.node.tended import Connected, Due, Rescored

if TYPE_CHECKING:
    from rich.console import Console

TEXT_SHOWN: Final = 34
"""Characters of a text that is due: what is left of a line."""


def rescore(
    ctx: typer.Context,
    block: Annotated[
        list[str] | None,
        typer.Argument(metavar="BLOCK", help="Blocks, each by its id or 8 digits or more of it."),
    ] = None,
    all_older_than: Annotated[
        float | None,
        typer.Option(
            parser=number,
            metavar="H",
            help="All in recall whose last rating is older than H active hours, and those without one.",
        ),
    ] = None,
) -> None:
    """Ask the rater again about blocks.

    The new rating becomes their importance, and its evidence is added to what there is: nothing is
    overwritten. What the rater has no answer for stays as it is. Stopped half-way, the same command goes on.

    \b
    loremesh rescore 3ac1f29b 77d0e51c
    loremesh rescore --all-older-than 200
    """
    run = invocation(ctx)
    with progress_shown(run, "rating") as show:
        result = ask(run.home, verbs.RESCORE, p.Rescore(block or [], all_older_than), show)
    answer(run, result, lambda out: _rescored(out, result))


def connect(
    ctx: typer.Context,
    block: BLOCK,
    other: Annotated[str, typer.Argument(metavar="OTHER", help="The other block.")],
    weight: Annotated[
        float, typer.Option(parser=number, metavar="W", help="From 0 to 1; 0 takes the link away.")
    ] = 1.0,
) -> None:
    """Link two blocks, or keep them apart.

    A link has no direction. One made by hand holds whatever similarity proposes for the two.

    \b
    loremesh connect 3ac1f29b 77d0e51c
    loremesh connect 3ac1f29b 77d0e51c --weight 0
    """
    run = invocation(ctx)
    result = ask(run.home, verbs.CONNECT, p.Connect(block, other, weight))
    answer(run, result, lambda out: _connected(out, result))


def due(
    ctx: typer.Context,
    context: ContextOption = "",
    limit: LimitOption = 20,
    horizon: Annotated[
        float, typer.Option(parser=number, metavar="H", help="Active hours to look ahead.")
    ] = 24.0,
    budget: PageBudgetOption = p.PAGE_TOKENS,
) -> None:
    """List what is worth keeping and about to fade.

    Blocks with a utility above 0.5 and an importance of 0.5 or more, whose retrievability (R) will be below
    0.9 at the end of the horizon: those first that lose most by then, utility x importance x fall of R. An
    outcome, good or bad, is what refreshes them; reading this list moves nothing.

    \b
    loremesh due
    loremesh due --context deploy --horizon 8 --limit 5
    """
    run = invocation(ctx)
    result = ask(run.home, verbs.DUE, p.DueWithin(context, limit, horizon, budget))
    answer(run, result, lambda out: _due(out, result))


def _rescored(out: Console, result: Rescored) -> None:
    say(out, f"{count(result.rated, 'block')} rated again by {plain(result.rater)}")
    if result.unrated:
        why = f": {plain(result.why)}" if result.why else ""
        say(out, f"{result.unrated} left as they are, since there was no answer{why}")
    for one in result.found:
        say(out, f"{one.block[:SHORT_ID]}  importance {one.before:.2f} > {one.rating:.2f}")


def _connected(out: Console, result: Connected) -> None:
    now = f"linked with weight {result.weight:g}" if result.weight else "kept apart"
    again = "" if result.changed else "already "
    say(out, f"{result.block[:SHORT_ID]} and {result.other[:SHORT_ID]} are {again}{now}")


def _due(out: Console, result: Due) -> None:
    if not result.blocks:
        say(out, f"nothing is due within {result.horizon_h:g} active hours")
        return
    for place, one in enumerate(result.blocks, start=1):
        falls = f"to 0.9 {_hours(one.to_90_h)}, to 0.5 {_hours(one.to_50_h)}"
        recall = f"R {one.retrievability:.2f} > {one.retrievability_then:.2f}"
        say(out, f"{place}. {one.block[:SHORT_ID]}  loses {one.loss:.3f}  {recall}  {falls}")
        say(
            out,
            f"   utility {one.utility:.2f} ({one.utility_low:.2f}-{one.utility_high:.2f})  "
            f"importance {one.importance:.2f}  {one_line(one.text, TEXT_SHOWN)}",
        )
    say(
        out,
        f"{len(result.blocks)} of {result.count} due within {result.horizon_h:g} active hours; "
        "an outcome refreshes them",
    )


def _hours(hours: float | None) -> str:
    if hours is None:
        return "never"
    if not hours:
        return "already"
    return f"in {hours:.1f} h" if hours < 10 else f"in {hours:.0f} h"
