"""`compact`: old outcomes give way to sums of them, and the file becomes smaller."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Final

import typer

from loremesh.node import params as p
from loremesh.node import verbs
from loremesh.node.cli.arguments import invocation
from loremesh.node.cli.console import answer, progress_shown
from loremesh.node.cli.render import say
from loremesh.node.cli.session import ask
from loremesh.node.errors import UsageError
from loremesh.node.results import Compaction

if TYPE_CHECKING:
    from rich.console import Console

UNITS_H: Final = {"h": 1.0, "d": 24.0}
MEBIBYTE: Final = 1 << 20


def compact(
    ctx: typer.Context,
    older_than: Annotated[
        str, typer.Option(metavar="T", help="Only what is older than T active hours, or than T in days: 30d.")
    ] = "0",
    keep: Annotated[
        int, typer.Option(metavar="N", help="Outcomes and recalls that stay of each block, the newest.")
    ] = 100,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would go.")] = False,
) -> None:
    """Let old outcomes and recalls give way to sums of them.

    Every number stays what it is: worth, utility, stability, what peers are told. What goes is the single
    event: `events`, `attribute` and `doctor fit` see only those that stay. A day is 24 active hours. Recalls
    that can still take their outcome stay, too. A block with more than [memory] events_per_block events is
    compacted by itself.

    \b
    loremesh compact --dry-run
    loremesh compact --older-than 30d --keep 200
    """
    run = invocation(ctx)
    asked = p.Compact(hours(older_than), keep, dry_run)
    with progress_shown(run, "compacting") as show:
        result = ask(run.home, verbs.COMPACT, asked, show)
    answer(run, result, lambda out: _compacted(out, result))


def hours(text: str) -> float:
    """Hours in `48`, `48h` or `2d`. Raises UsageError for anything else."""
    unit = UNITS_H.get(text[-1:])
    number = text if unit is None else text[:-1]
    try:
        found = float(number) * (unit or 1.0)
    except ValueError:
        found = math.nan
    if not (math.isfinite(found) and found >= 0.0):
        raise UsageError(
            f"--older-than {text[:80]!r} is no time", "give active hours (48 or 48h) or days (30d), 0 or more"
        )
    return found


def _compacted(out: Console, result: Compaction) -> None:
    does, goes = ("would give", "would go") if result.dry_run else ("gave", "went")
    say(
        out,
        f"{result.aggregated:,} outcomes and recalls of {result.blocks:,} "
        f"{'block' if result.blocks == 1 else 'blocks'} {does} way to one sum each",
    )
    say(out, f"events of blocks: {result.rows_before:,} before, {result.rows_after:,} after")
    say(out, f"most of one block: {result.most_before:,} before, {result.most_after:,} after")
    about = "about " if result.dry_run else ""
    say(
        out,
        f"file: {result.bytes_before / MEBIBYTE:.1f} MiB before, "
        f"{about}{result.bytes_after / MEBIBYTE:.1f} MiB after",
    )
    if result.uneven:
        say(
            out,
            f"{result.uneven:,} blocks were left alone: their log says something else than what is in use; "
            "see `loremesh replay --check`",
        )
    if result.aggregated:
        say(out, f"what {goes} with them: {result.note}")
