"""The commands that judge blocks by their outcomes: worth, attribute, deprecate, archive, restore, revise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from loremesh.node import params as p
from loremesh.node import verbs
from loremesh.node.cli.arguments import BLOCK, LimitOption, PageBudgetOption, SkipOption, invocation
from loremesh.node.cli.console import answer, progress_shown
from loremesh.node.cli.inputs import text_given
from loremesh.node.cli.plain import one_line, plain
from loremesh.node.cli.render import SHORT_ID, say, table
from loremesh.node.cli.session import ask
from loremesh.node.errors import UsageError
from loremesh.node.results import Attributed, DecisionTaken, WorthSeen
from loremesh.node.tended import Revised

if TYPE_CHECKING:
    from rich.console import Console

OneContext = Annotated[
    str | None, typer.Option(metavar="C", help="Only outcomes of this context; '' for those without one.")
]


def worth(
    ctx: typer.Context,
    context: OneContext = None,
    block: Annotated[str | None, typer.Option(metavar="ID", help="One block, in all and by context.")] = None,
    candidates: Annotated[
        bool, typer.Option("--candidates", help="Only blocks that should be deprecated or restored.")
    ] = False,
    limit: LimitOption = p.MAX_PAGE,
    skip: SkipOption = 0,
    budget: PageBudgetOption = p.PAGE_TOKENS,
) -> None:
    """Show what each block's own outcomes say of it.

    Worth is the share of a block's n outcomes that are good, with a 90 % interval; corr. is worth less what
    others come to in the contexts where the block is used. Most above that first. Where a window that fades
    older outcomes by 1 % with each new one says otherwise, it is shown as rising or falling.

    \b
    loremesh worth --context deploy
    loremesh worth --block 3ac1f29b
    loremesh worth --candidates
    """
    run = invocation(ctx)
    result = ask(run.home, verbs.WORTH, p.Worth(context, block, candidates, limit, skip, budget))
    answer(run, result, lambda out: _worths(out, result, by_context=block is not None, candidates=candidates))


def deprecate(
    ctx: typer.Context,
    block: BLOCK,
    why: Annotated[str, typer.Option(metavar="W", help="The reason, kept in the block's log.")],
) -> None:
    """Take a block out of recall. `restore` brings it back.

    Its text, log and evidence stay, and so does what peers see of it.

    \b
    loremesh deprecate 3ac1f29b --why "wrong since the move to v2"
    """
    run = invocation(ctx)
    result = ask(run.home, verbs.DEPRECATE, p.Deprecate(block, why))
    answer(run, result, lambda out: _decided(out, result))


def archive(
    ctx: typer.Context,
    block: BLOCK,
    why: Annotated[str, typer.Option(metavar="W", help="The reason, kept in the block's log.")] = "",
) -> None:
    """Put a block away. `restore` brings it back.

    It leaves recall, and nothing is said against it: text, log and evidence stay, and so does what peers see.

    \b
    loremesh archive 3ac1f29b --why "the project is over"
    """
    run = invocation(ctx)
    result = ask(run.home, verbs.ARCHIVE, p.Archive(block, why))
    answer(run, result, lambda out: _decided(out, result))


def revise(
    ctx: typer.Context,
    block: BLOCK,
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="What takes its place; - reads it from standard input.")
    ],
    why: Annotated[str, typer.Option(metavar="W", help="The reason, kept in the new block's log.")] = "",
    tag: Annotated[
        list[str] | None, typer.Option(metavar="T", help="A tag instead of the old ones; may be repeated.")
    ] = None,
    share: Annotated[
        list[str] | None,
        typer.Option(metavar="SPACE", help="A space instead of the old ones; may be repeated."),
    ] = None,
    untagged: Annotated[bool, typer.Option("--untagged", help="Take over no tags.")] = False,
    private: Annotated[bool, typer.Option("--private", help="Share it nowhere.")] = False,
) -> None:
    """Put a text in the place of a block.

    The old block leaves recall and keeps its log and evidence; `restore` brings it back. The new one has its
    tags and spaces, and starts from its mean with the mass of two outcomes (revision_weight), which stay
    here: peers see a new block, and the old one as before.

    \b
    loremesh revise 3ac1f29b "Restart it after each deploy" --why "v2 needs it"
    """
    run = invocation(ctx)
    if (untagged and tag) or (private and share):
        raise UsageError(
            "--untagged excludes --tag, and --private excludes --share", "give one of the two, or neither"
        )
    tags = [] if untagged else tag or None
    spaces = [] if private else share or None
    params = p.Revise(block, text_given(text), why, tags, spaces)
    result = ask(run.home, verbs.REVISE, params)
    answer(run, result, lambda out: _revised(out, result))


def restore(
    ctx: typer.Context,
    block: BLOCK,
    why: Annotated[str, typer.Option(metavar="W", help="The reason, kept in the block's log.")] = "",
) -> None:
    """Put a block back into recall.

    It was deprecated, archived or revised; it comes back with all it had.

    \b
    loremesh restore 3ac1f29b --why "v2 was rolled back"
    """
    run = invocation(ctx)
    result = ask(run.home, verbs.RESTORE, p.Restore(block, why))
    answer(run, result, lambda out: _decided(out, result))


def attribute(
    ctx: typer.Context,
    context: OneContext = None,
    limit: LimitOption = p.MAX_PAGE,
    budget: PageBudgetOption = p.PAGE_TOKENS,
) -> None:
    """Tell which blocks help, and which only come along.

    A regression of the outcomes on the blocks that were used together and on the context. Association
    (assoc.) is what worth sees; effect holds context and company equal. Both are differences in success.

    \b
    loremesh attribute
    loremesh attribute --context deploy
    """
    run = invocation(ctx)
    with progress_shown(run, "reading the log") as show:
        result = ask(run.home, verbs.ATTRIBUTE, p.Attribute(context, limit, budget), show)
    answer(run, result, lambda out: _attributed(out, result))


def _worths(out: Console, results: list[WorthSeen], *, by_context: bool, candidates: bool) -> None:
    if not results:
        say(out, "no block is a candidate" if candidates else "no block has outcomes of its own yet")
        return
    first = "context" if by_context else "block"
    shown = table(first, "worth", "90 %", "corr.", "n", "kind", "")
    shown.columns[0].no_wrap = True
    for one in results:
        name = one.block[:SHORT_ID]
        if by_context:
            name = "(all)" if one.context is None else plain(one.context) or "(none)"
        trend = "" if one.trend == "steady" else f"{one.trend}, {one.recent:.2f} of late"
        notes = [trend, one.withdrawn]
        notes += [f"to {one.proposal}" if one.proposal else "", "" if by_context else one_line(one.text, 14)]
        shown.add_row(
            name,
            f"{one.worth:.2f}",
            f"{one.low:.2f}-{one.high:.2f}",
            f"{one.corrected:+.2f}",
            f"{one.alpha + one.beta:.4g}",
            one.kind,
            ", ".join(filter(None, notes)),
        )
    out.print(shown)


def _decided(out: Console, result: DecisionTaken) -> None:
    now = f"out of recall, {result.withdrawn}" if result.withdrawn else "in recall"
    say(out, f"{result.block} is {'' if result.changed else 'already '}{now}")


def _revised(out: Console, result: Revised) -> None:
    state = "learned" if result.created else "known already"
    state += ", and back in recall" if result.restored else ""
    say(out, f"{result.block}  {state}")
    say(out, f"it stands in the place of {result.superseded}, which is out of recall now")
    if result.mass:
        say(out, f"it starts from a mean of {result.mean:.3f} with the mass of {result.mass:g} outcomes")
    else:
        say(out, "it takes over no mean: there is none, or it has evidence of its own")
    about = [("tags", result.tags), ("shared into", result.spaces)]
    for name, values in about:
        if values:
            say(out, f"{name} {', '.join(map(plain, values))}")


def _attributed(out: Console, result: Attributed) -> None:
    say(
        out,
        f"{result.episodes} judged episodes in {result.contexts} contexts, {result.success:.2f} went well; "
        f"{result.blocks} blocks, {result.left_out} left out",
    )
    if not result.found:
        return
    shown = table("block", "n", "assoc.", "effect", "90 %", "role", "")
    shown.columns[0].no_wrap = True
    for one in result.found:
        notes = [f"explained by {one.explained_by}" if one.without_cause else "", one_line(one.text, 14)]
        shown.add_row(
            one.block[:SHORT_ID],
            str(one.episodes),
            f"{one.association[0]:+.2f}",
            f"{one.effect[0]:+.2f}",
            f"{one.effect[1]:+.2f}…{one.effect[2]:+.2f}",
            one.role,
            ", ".join(filter(None, notes)),
        )
    out.print(shown)
    say(out, "an effect holds context and company equal; it is still no experiment")
