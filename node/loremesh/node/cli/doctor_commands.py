"""`doctor`: the commands that look a home over and set it right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from loremesh.node import params as p
from loremesh.node import verbs
from loremesh.node.cli.arguments import invocation
from loremesh.node.cli.console import answer, progress_shown
from loremesh.node.cli.plain import plain
from loremesh.node.cli.render import folded, say
from loremesh.node.cli.session import ask
from loremesh.node.doctoring import CalibrationReport, Reembedded
from loremesh.node.results import FitReport

if TYPE_CHECKING:
    from rich.console import Console


def fit(
    ctx: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what a fit would do.")] = False,
    revert: Annotated[bool, typer.Option("--revert", help="Use the published weights again.")] = False,
) -> None:
    """Fit the forgetting model to this home's outcomes.

    The earlier four fifths of the judged outcomes are fitted to, the later fifth judges. Weights that do not
    forecast it better are refused, and what is in use stays. 100,000 outcomes take about half a minute.

    \b
    loremesh doctor fit --dry-run
    loremesh doctor fit
    loremesh doctor fit --revert
    """
    run = invocation(ctx)
    with progress_shown(run, "fitting") as show:
        result = ask(run.home, verbs.DOCTOR_FIT, p.DoctorFit(dry_run, revert), show)
    answer(run, result, lambda out: _fitted(out, result))


def reembed(ctx: typer.Context) -> None:
    """Make all vectors anew with another embedder.

    With the one that config.toml names now. Until the last is there, recall goes on with the old vectors;
    then all change at once. A run that was stopped goes on where it was. To go back, name the old embedder
    again: before the change nothing is lost.

    \b
    loremesh doctor reembed
    loremesh status
    """
    run = invocation(ctx)
    with progress_shown(run, "embedding") as show:
        result = ask(run.home, verbs.DOCTOR_REEMBED, p.Nothing(), show)
    answer(run, result, lambda out: _reembedded(out, result))


def recalibrate(
    ctx: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what it would do.")] = False,
    revert: Annotated[bool, typer.Option("--revert", help="Let ratings count as stated again.")] = False,
) -> None:
    """Weigh ratings by what came of the rated blocks.

    A rating counts as so many outcomes. How many is judged by the first outcomes of the rated blocks, each
    forecast from the others; a weight that does not forecast them better is refused. It takes 50 blocks that
    were rated and used. The weight holds for all ratings of that rater, earlier and later ones.

    \b
    loremesh doctor recalibrate --dry-run
    loremesh doctor recalibrate
    loremesh doctor recalibrate --revert
    """
    run = invocation(ctx)
    with progress_shown(run, "weighing") as show:
        result = ask(run.home, verbs.DOCTOR_RECALIBRATE, p.DoctorRecalibrate(dry_run, revert), show)
    answer(run, result, lambda out: _recalibrated(out, result))


def _recalibrated(out: Console, result: CalibrationReport) -> None:
    """Each rater's weight, and what spoke for it."""
    if not result.raters:
        say(out, "no block that was rated has had a judged outcome since: there is nothing to weigh by")
    for one in result.raters:
        say(out, f"{plain(one.rater) or '(no rater named)'}: {plain(one.why)}")
        if one.outcomes:
            say(
                out,
                f"  a rating counts as {one.worth_before:.2f} outcomes; the likeliest is "
                f"{one.worth:.2f} ({one.worth_low:.2f} to {one.worth_high:.2f})",
            )
            say(
                out,
                f"  log loss {one.loss_before:.4f} before, {one.loss_after:.4f} after; ratings are "
                f"{one.bias:+.2f} off",
            )
            say(out, f"  by {one.outcomes} outcomes of {one.blocks} blocks")


def _reembedded(out: Console, result: Reembedded) -> None:
    """By which model the vectors are now."""
    if not result.changed:
        say(out, f"nothing to do: the vectors are by {plain(result.embedder)} already")
        return
    say(
        out,
        f"{result.blocks} blocks have vectors by {plain(result.embedder)} now, in place of "
        f"{plain(result.before)}; {result.embedded} were embedded",
    )


def _fitted(out: Console, result: FitReport) -> None:
    """Whether the fit is in use, and how much better it forecasts."""
    say(out, f"{result.rules}: {plain(result.why)}")
    if result.held_out:
        say(
            out,
            f"log loss per held-out outcome: {result.loss_before:.4f} before, {result.loss_after:.4f} after, "
            f"{result.loss_of_mean:.4f} for the mean alone",
        )
        say(
            out,
            f"{result.trained} outcomes fitted to, {result.held_out} held out, {result.blocks} blocks",
        )
        changed = [
            f"w{index} {before:.4g} > {after:.4g}"
            for index, (before, after) in enumerate(zip(result.weights_before, result.weights, strict=True))
            if before != after
        ]
        folded(out, "", changed)
    if result.aggregates:
        say(
            out,
            f"of {result.aggregates} blocks earlier outcomes are there in sum only, which they begin with",
        )
