"""For people: how frames weigh, and where a block stands for a question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from loremesh.node.cli.plain import one_line, plain
from loremesh.node.cli.render import SHORT_ID, say, table
from loremesh.node.weighed import FrameSeen, SimSeen, Standing

if TYPE_CHECKING:
    from rich.console import Console

HEADINGS: Final = {
    "sim": "sim",
    "utility": "utility",
    "retrievability": "retr.",
    "importance": "import.",
    "explore": "explore",
    "links": "links",
}
"""Terms, as they head a table of 80 columns."""


def frames(out: Console, results: Sequence[FrameSeen]) -> None:
    """One row per frame: its weights, and below what else there is to say of it."""
    if not results:
        say(out, "no more frames")
        return
    shown = table("frame", *HEADINGS.values(), "from")
    shown.columns[0].no_wrap = True
    for frame in results:
        weights = [f"{frame.weights.get(term, 0.0):.3g}" for term in HEADINGS]
        shown.add_row(one_line(frame.name, 16), *weights, frame.source)
    out.print(shown)
    for frame in results:
        about = ["no blocks known only from peers" if frame.own_only else ""]
        about += ["terms scaled min-max" if frame.min_max else ""]
        if frame.hourly_decay is not None:
            about.append(f"recency {frame.hourly_decay:g} to the hours for retrievability")
        if told := "; ".join(filter(None, about)):
            say(out, f"{plain(frame.name)}: {told}")


def stands(out: Console, result: Standing, block: str) -> None:
    """Whether the block surfaces, and why, term by term, beside the k-th hit where that is another."""
    last = "" if result.last == block else result.last
    context = f", context {plain(result.context)}" if result.context else ""
    say(out, f"for {one_line(result.query, 60)!r} in frame {result.frame}{context}:")
    if result.surfaces:
        say(out, f"it surfaces: rank {result.rank} of {result.eligible}; {result.why}")
    elif result.rank:
        say(out, f"it does not surface: rank {result.rank} of {result.eligible}; {result.why}")
    else:
        say(out, f"it does not surface: {result.why}")
    if not result.terms:
        return
    shown = table("term", "weight", "value", "product", *([f"hit {result.k}", "product"] if last else []))
    for term in result.terms:
        beside = [f"{term.last_value:.3f}", f"{term.last_product:.3f}"] if last else []
        shown.add_row(term.term, f"{term.weight:.3g}", f"{term.value:.3f}", f"{term.product:.3f}", *beside)
    total = ["", f"{result.last_score:.3f}"] if last else []
    shown.add_row("score", "", "", f"{result.score:.3f}", *total)
    out.print(shown)
    if last:
        say(out, f"hit {result.k} is {last[:SHORT_ID]}")
    if result.sim is not None:
        say(out, _sim(result.sim))


def _sim(sim: SimSeen) -> str:
    parts = [f"vector {sim.vector:.3f}" + ("" if sim.embedded else " (not embedded yet)")]
    parts.append(f"words {sim.words:.3f}")
    if sim.carried_from:
        parts.append(f"carried over from {sim.carried_from[:SHORT_ID]} {sim.carried:.3f}")
    if sim.label:
        parts.append(f"label {sim.label:.3f}")
    return "sim comes from " + ", ".join(parts)
