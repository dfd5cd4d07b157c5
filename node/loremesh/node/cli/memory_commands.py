"""The commands about the node's own memory: learn, recall, outcome, and what looks into it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from loremesh.node import params as p
from loremesh.node import verbs
from loremesh.node.cli import render, weighing
from loremesh.node.cli.arguments import (
    BLOCK,
    BlockOption,
    ContextOption,
    FrameOption,
    GraphOption,
    HitsOption,
    LimitOption,
    PageBudgetOption,
    SkipOption,
    SpaceLimit,
    TagLimit,
    invocation,
    number,
)
from loremesh.node.cli.console import answer, progress_shown
from loremesh.node.cli.inputs import batches, lines_given, text_given
from loremesh.node.cli.invocation import Invocation
from loremesh.node.cli.session import ask, diagnosed, reach
from loremesh.node.errors import NodeError, UsageError
from loremesh.node.results import Explanation, Learned

if TYPE_CHECKING:
    from rich.console import Console


def learn(
    ctx: typer.Context,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="The text; - reads it from standard input.")
    ] = None,
    lines: Annotated[
        str | None, typer.Option(metavar="FILE", help="Learn every line of FILE (- for standard input).")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(metavar="T", help="A tag; may be repeated.")] = None,
    share: Annotated[
        list[str] | None, typer.Option(metavar="SPACE", help="Share it into this space; may be repeated.")
    ] = None,
) -> None:
    """Learn a text, or every line of a file.

    A text has at most 64 KiB in UTF-8. What is known already is recognised, white space aside, and only takes
    the tags and spaces. With --lines nothing is learned unless every line can be.

    \b
    loremesh learn "Restart the indexer after a migration" --tag ops --share team
    loremesh learn --lines notes.txt --share team
    """
    run = invocation(ctx)
    if (text is None) == (lines is None):
        raise UsageError(
            "learn takes either TEXT or --lines FILE, one of the two", "a TEXT of - reads standard input"
        )
    if lines is not None:
        _learn_lines(run, lines, tag or [], share or [])
    elif text is not None:
        result = ask(run.home, verbs.LEARN, p.Learn(text_given(text), tag or [], share or []))
        answer(run, result, lambda out: render.learned(out, result))


def _learn_lines(run: Invocation, name: str, tags: list[str], share: list[str]) -> None:
    texts = lines_given(name)
    results: list[Learned] = []
    with progress_shown(run, "learning", len(texts)) as show, reach(run.home) as calls:
        for batch in batches(texts):

            def shown(done: int, _: int, before: int = len(results)) -> None:
                show(before + done, len(texts))

            learned = calls.call(verbs.LEARN_MANY, p.LearnMany(list(batch), tags, share), shown)
            results.extend(learned)
            show(len(results), len(texts))
    answer(run, results, lambda out: render.learned_many(out, results))


def recall(
    ctx: typer.Context,
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="What to find help with; - reads it from standard input.")
    ],
    frame: FrameOption = "attention",
    context: ContextOption = "",
    k: Annotated[
        int | None, typer.Option("-k", "--k", metavar="N", help="Hits at most, 1 to 256; 5 without a budget.")
    ] = None,
    space: SpaceLimit = None,
    tag: TagLimit = None,
    graph: GraphOption = None,
    budget: Annotated[
        int | None, typer.Option(metavar="N", help="Tokens that all may come to; brings summaries in.")
    ] = None,
) -> None:
    """Find what helps with a question.

    It opens an episode, which takes an outcome. The score and its parts are between 0 and 1. Reading is not
    evidence: only an outcome moves anything. Frames are self, attention, task, simulate, park and your own:
    `loremesh frames` shows their weights. With --graph (in frame simulate without it) a block also gains from
    what the best blocks lend to those they are linked to. With --budget as many whole blocks come as fit, and
    summaries of what does not; a token is counted as four bytes.

    \b
    loremesh recall "search is stale" --frame task --context deploy -k 3
    loremesh recall "what do we use?" --frame task=0.7,self=0.3 --tag ops
    loremesh recall "what if we drop the index" --frame simulate --graph 0.5
    loremesh recall "how is search run?" --space team --budget 1000
    """
    run = invocation(ctx)
    params = p.Recall(text_given(query), frame, context, k, space, tag, graph, budget)
    result = ask(run.home, verbs.RECALL, params)
    answer(run, result, lambda out: render.recalled(out, result))


def frames(
    ctx: typer.Context,
    limit: LimitOption = p.MAX_PAGE,
    skip: SkipOption = 0,
    budget: PageBudgetOption = p.PAGE_TOKENS,
) -> None:
    """List the frames of recall, with their weights.

    A table [frames.NAME] in config.toml makes one of your own: proportions of sim, utility, retrievability,
    importance and explore, and graph, own_only, min_max and hourly_decay where it is to have them.

    \b
    loremesh frames
    """
    run = invocation(ctx)
    result = ask(run.home, verbs.FRAMES, p.Page(limit, skip, budget))
    answer(run, result, lambda out: weighing.frames(out, result))


def outcome(
    ctx: typer.Context,
    signal: Annotated[
        float, typer.Argument(parser=number, metavar="SIGNAL", help="How well it went: 0 to 1.")
    ],
    episode: Annotated[str | None, typer.Option(metavar="E", help="The episode that recall printed.")] = None,
    block: BlockOption = None,
    weight: Annotated[
        float, typer.Option(parser=number, metavar="W", help="Mass of the evidence, 1 for one plain outcome.")
    ] = 1.0,
    context: Annotated[
        str | None, typer.Option(metavar="C", help="Another context than the episode's own.")
    ] = None,
) -> None:
    """Say how well it went.

    For an episode or for blocks: 0 is a failure, 1 a success. An episode takes one outcome: the same again
    changes nothing, a different one is an error.

    \b
    loremesh outcome 1 --episode 5f0c1d…
    loremesh outcome 0.2 --block 3ac1f29b --weight 2 --context deploy
    """
    run = invocation(ctx)
    params = p.Outcome(signal, episode, block or [], weight, context)
    result = ask(run.home, verbs.OUTCOME, params)
    answer(run, result, lambda out: render.outcome_taken(out, result))


def confirm(ctx: typer.Context, block: BlockOption = None, context: ContextOption = "") -> None:
    """Say that blocks were used.

    An outcome of 1 with a small weight: 0.1 unless the home's settings differ.

    \b
    loremesh confirm --block 3ac1f29b --block 77d0e51c --context deploy
    """
    run = invocation(ctx)
    if not block:
        raise UsageError("confirm names no block", "give --block ID, once or more")
    result = ask(run.home, verbs.CONFIRM, p.Confirm(block, context))
    answer(run, result, lambda out: render.outcome_taken(out, result))


def explain(
    ctx: typer.Context,
    block: BLOCK,
    query: Annotated[
        str | None,
        typer.Option(metavar="Q", help="Show where the block stands for this question; - reads it."),
    ] = None,
    frame: FrameOption = "attention",
    context: ContextOption = "",
    k: HitsOption = 5,
    space: SpaceLimit = None,
    tag: TagLimit = None,
    graph: GraphOption = None,
) -> None:
    """Show a block's numbers and where they come from.

    alpha and beta are masses of evidence for and against; stability (S) is in active hours. A source's alpha
    and beta are its raw claim; what trust and caps let count of it stands beside. Utility lies in its
    interval with 90 %. The curve to come is what happens while nothing happens, by the rules in use. Links
    to other blocks have their weight today and the one they were made with. With --query it also shows
    whether recall would hand the block out, at which rank, and why, term by term. Nothing is logged.

    \b
    loremesh explain 3ac1f29b
    loremesh explain 3ac1f29b --query "search is stale" --frame task -k 3
    """
    run = invocation(ctx)
    asked = None if query is None else text_given(query)
    params = p.Explain(block, asked, frame, context, k, space, tag, graph)
    result = ask(run.home, verbs.EXPLAIN, params)
    answer(run, result, lambda out: _explained(out, result))


def _explained(out: Console, result: Explanation) -> None:
    render.explained(out, result)
    if result.standing is not None:
        weighing.stands(out, result.standing, result.block)


def consolidate(
    ctx: typer.Context,
    limit: Annotated[
        int | None, typer.Option(metavar="N", help="Blocks at most; all that wait without it.")
    ] = None,
) -> None:
    """Embed, link and rate what waits for it. While `up` runs, this happens by itself.

    What is done stays done when it is interrupted.

    \b
    loremesh consolidate
    """
    run = invocation(ctx)
    with progress_shown(run, "consolidating") as show:
        result = ask(run.home, verbs.CONSOLIDATE, p.Consolidate(limit), show)
    answer(run, result, lambda out: render.consolidated(out, result))


def events(
    ctx: typer.Context,
    block: Annotated[
        str | None,
        typer.Argument(metavar="BLOCK", help="Only this block's; its id or 8 digits or more of it."),
    ] = None,
    limit: LimitOption = 200,
    after: Annotated[int, typer.Option(metavar="N", help="Only those behind log number N.")] = 0,
    budget: PageBudgetOption = p.PAGE_TOKENS,
) -> None:
    """List the log, or one block's part of it.

    Oldest first. At most --limit events, and whole ones that fit into --budget; give the last number as
    --after for the next ones, until none comes. Hours are active hours, times are UTC.

    \b
    loremesh events 3ac1f29b
    loremesh events --after 200
    """
    run = invocation(ctx)
    result = ask(run.home, verbs.EVENTS, p.Events(block, limit, after, budget))
    answer(run, result, lambda out: render.events(out, result))


def replay(
    ctx: typer.Context,
    check: Annotated[
        bool, typer.Option("--check", help="Hold the log, the columns and the registers against one another.")
    ] = False,
    rules: Annotated[str | None, typer.Option(metavar="NAME", help="Rank under another rule set.")] = None,
) -> None:
    """Fold the log anew, changing nothing.

    To check the home, or to see what would rank where under other rules. With --check it ends with 1 when
    something does not agree, and names it.

    \b
    loremesh replay --check
    loremesh replay --rules exponential
    """
    from loremesh.node.store.errors import Damaged

    run = invocation(ctx)
    try:
        result = ask(run.home, verbs.REPLAY, p.Replay(check, rules))
    except Damaged as damage:
        if not check:
            raise
        result = diagnosed(run.home, damage)
    answer(run, result, lambda out: render.replayed(out, result))
    if not result.ok:
        raise NodeError(
            f"the home is not as its log says: {len(result.faults)} faults, the first: {result.faults[0]}",
            "restore the home from a backup; what is not named is sound and can still be read",
        )


def forget(ctx: typer.Context, block: BLOCK) -> None:
    """Remove a block from this home for good.

    Its key, its text and its events go. It is local: what was shared stays with those who have it, and the
    answer says so.

    \b
    loremesh forget 3ac1f29b
    """
    run = invocation(ctx)
    result = ask(run.home, verbs.FORGET, p.OneBlock(block))
    answer(run, result, lambda out: render.forgotten(out, result))
