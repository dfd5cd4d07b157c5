"""`doctor`: the commands that look a home over and set it right."""

from __future__ import annotations

from typing import Annotated

import typer

from loremesh.node import params as p
from loremesh.node import verbs
from loremesh.node.cli import render
from loremesh.node.cli.arguments import invocation
from loremesh.node.cli.console import answer, progress_shown
from loremesh.node.cli.session import ask


def fit(
    ctx: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what a fit would do.")] = False,
    revert: Annotated[bool, typer.Option("--revert", help="Use the published weights again.")] = False,
) -> None:
    """Fit the forgetting model's weights to this home's own outcomes.

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
    answer(run, result, lambda out: render.fitted(out, result))


def reembed(ctx: typer.Context) -> None:
    """Make all vectors anew with the embedder that config.toml names now.

    Until the last is there, recall goes on with the old vectors; then all change at once. A run that was
    stopped goes on where it was. To go back, name the old embedder again: before the change nothing is lost.

    \b
    loremesh doctor reembed
    loremesh status
    """
    run = invocation(ctx)
    with progress_shown(run, "embedding") as show:
        result = ask(run.home, verbs.DOCTOR_REEMBED, p.Nothing(), show)
    answer(run, result, lambda out: render.reembedded(out, result))


def recalibrate(
    ctx: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what it would do.")] = False,
    revert: Annotated[bool, typer.Option("--revert", help="Let ratings count as stated again.")] = False,
) -> None:
    """Weigh each rater's ratings by what came of the blocks it rated.

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
    answer(run, result, lambda out: render.recalibrated(out, result))
