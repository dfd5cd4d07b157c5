"""Arguments that several commands have, and the run they are given in."""

from __future__ import annotations

from typing import Annotated

import typer

from loremesh.node.cli.invocation import Invocation
from loremesh.node.errors import UsageError

BLOCK = Annotated[str, typer.Argument(metavar="BLOCK", help="The block's id, or 8 digits or more of it.")]
PEER = Annotated[str, typer.Argument(metavar="PEER", help="The peer's id, as `peers` shows it.")]
BlockOption = Annotated[
    list[str] | None,
    typer.Option(metavar="ID", help="A block, by its id or 8 digits or more of it; may be repeated."),
]
ContextOption = Annotated[
    str, typer.Option(metavar="C", help="A short label for the task, up to 64 characters.")
]
FrameOption = Annotated[
    str, typer.Option(metavar="FRAME", help="What counts: a frame, or a mixture of some.")
]
HitsOption = Annotated[int, typer.Option("-k", "--k", metavar="N", help="Hits at most, 1 to 256.")]
SpaceLimit = Annotated[
    list[str] | None,
    typer.Option("--space", metavar="SPACE", help="Only blocks in this space; may be repeated."),
]
TagLimit = Annotated[
    list[str] | None, typer.Option("--tag", metavar="T", help="Only blocks with this tag; may be repeated.")
]
LimitOption = Annotated[int, typer.Option(metavar="N", help="Items at most, 1 to 1000.")]
SkipOption = Annotated[int, typer.Option(metavar="N", help="Leave out the first N, for the next page.")]
PageBudgetOption = Annotated[
    int,
    typer.Option(
        "--budget",
        metavar="TOKENS",
        help="Tokens, four bytes of JSON each, that the page has at most; one item always.",
    ),
]
UsesOption = Annotated[int, typer.Option(metavar="N", help="Keys that the token admits, 1 to 10000.")]
WhyOption = Annotated[str, typer.Option(metavar="W", help="The reason, kept in the trust log.")]

NEGATIVE_NUMBERS = {"ignore_unknown_options": True}
"""Settings of a command that takes a number: -1 is then a number out of range and not an unknown option."""


def invocation(ctx: typer.Context) -> Invocation:
    """The run that a command belongs to."""
    run = ctx.obj
    if not isinstance(run, Invocation):
        raise TypeError("the command line was started without its invocation")
    return run


def number(text: str | float) -> float:
    """A number as typed. Raises UsageError for what is none, an option that does not exist among them."""
    if isinstance(text, float):
        return text
    try:
        return float(text)
    except ValueError:
        pass
    if text.startswith("-"):
        raise UsageError(f"there is no option {text[:80]!r}", "see the command's --help")
    raise UsageError(f"{text[:80]!r} is not a number", "write it like 0.5")


GraphOption = Annotated[
    float | None,
    typer.Option(parser=number, metavar="W", help="What linked blocks lend counts, 0 to 1."),
]
