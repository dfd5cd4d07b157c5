"""The result at the terminal: one table of how the agents did, and what must hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loremesh.node.demo.results import DemoResult, Score

if TYPE_CHECKING:
    from rich.console import Console


def show(console: Console, result: DemoResult) -> None:
    """Print the table, the checks, and where the page is."""
    from rich.padding import Padding
    from rich.table import Table

    table = Table(title="first answers that worked, on questions nobody had worked on", title_justify="left")
    table.add_column("phase", no_wrap=True)
    for score in result.phases[0].scores:
        table.add_column(score.agent, justify="right")
    table.add_column("all", justify="right")
    table.add_column("95 %", justify="right")
    table.add_column("one of 3", justify="right")
    for phase in result.phases:
        table.add_row(
            phase.title,
            *(f"{score.share:.0%}" for score in phase.scores),
            _of(phase.together),
            f"{phase.together.low:.0%}–{phase.together.high:.0%}",
            f"{phase.together.within / max(phase.together.asked, 1):.0%}",
        )
    console.print()
    console.print(table)
    console.print("one of 3: one of the first three answers worked", soft_wrap=True)
    console.print("a twin: the same memory made without one frame of the hostile peer", soft_wrap=True)
    console.print()
    for check in result.checks:
        console.print(f"{'holds' if check.holds else 'FAILS'}  {check.name}", soft_wrap=True)
        console.print(Padding(check.found, (0, 0, 0, 7), expand=False))
    console.print()
    console.print(f"{result.seconds:.0f} s in all. The page with pictures: {result.page}", soft_wrap=True)
    if result.homes:
        console.print(
            f"The homes are in {result.homes}; `. demo.key` there, then `loremesh --home …`", soft_wrap=True
        )


def _of(score: Score) -> str:
    return f"{score.share:.0%} ({score.right}/{score.asked})"
