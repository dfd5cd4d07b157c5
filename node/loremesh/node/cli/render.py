"""The verbs' answers for people: tables that fit 80 columns, with whole ids where an id is what is needed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from loremesh.node.cli.plain import one_line, plain
from loremesh.node.results import (
    Consolidated,
    EpisodeSeen,
    EventSeen,
    Explanation,
    Forgotten,
    Hit,
    Invited,
    Learned,
    Neighbour,
    OutcomeTaken,
    PeerSeen,
    Recalled,
    Replayed,
    SpaceSeen,
    Status,
    Summed,
    TrustChange,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

SHORT_ID: Final = 12
"""Hex digits of a block id in a table; enough to name it to any command."""
INDENT: Final = "   "
BLOCK_ID: Final = re.compile("[0-9a-f]{64}")


def learned(out: Console, result: Learned) -> None:
    """The block's id, and whether it is new."""
    state = "learned" if result.created else "known already"
    if result.superseded_by:
        state += f", and superseded by {result.superseded_by[:SHORT_ID]}"
    elif result.withdrawn:
        state += f", and {result.withdrawn}: `restore` brings it back into recall"
    say(out, f"{result.block}  {state}")


def learned_many(out: Console, results: Sequence[Learned]) -> None:
    """How many texts were new."""
    new = sum(result.created for result in results)
    say(out, f"{len(results)} texts: {new} learned, {len(results) - new} known already")


def recalled(out: Console, result: Recalled) -> None:
    """Summaries of what had no room, then the hits, best first, with what their scores are made of."""
    if result.spaces is not None:
        say(out, "only from spaces: " + (", ".join(map(plain, result.spaces.values())) or "none"))
    if result.tags is not None:
        say(out, "only with tags: " + (", ".join(map(plain, result.tags)) or "none"))
    for text in result.above:
        say(out, f"{text.level} of {count(len(text.sources), 'block')} (trust {text.trust:.4g})")
        say(out, f"   {plain(text.text)}")
    if result.budget is not None:
        say(out, f"{result.tokens} of {result.budget} tokens")
    if not result.hits:
        say(out, f"nothing found (episode {result.episode})")
        return
    for number, hit in enumerate(result.hits, start=1):
        _hit(out, number, hit)
    weights = [f"{name} {weight:.4g}" for name, weight in result.weights.items()]
    folded(out, f"weights of frame {result.frame}: ", weights)
    if result.held_back:
        say(
            out,
            f"held back this time: {result.held_back[:SHORT_ID]}, which always comes with one of these; "
            "outcomes are to tell them apart",
        )
    say(out, f"episode {result.episode}")
    say(out, f"say how it went: loremesh outcome SIGNAL --episode {result.episode}")


def _hit(out: Console, number: int, hit: Hit) -> None:
    say(out, f"{number}. {hit.score:.3f}  {hit.block[:SHORT_ID]}  {', '.join(map(plain, hit.tags))}".rstrip())
    say(out, f"   {plain(hit.text)}")
    folded(out, "   ", [f"{name} {value:.2f}" for name, value in hit.parts.items()])
    behind = [f"{_named(p.source, p.name)} (trust {p.trust:.4g}{_in_space(p.space)})" for p in hit.provenance]
    say(out, f"   from {', '.join(behind) or 'nobody known'}")


def outcome_taken(out: Console, result: OutcomeTaken) -> None:
    """How many blocks it moved."""
    if result.recorded:
        say(out, f"recorded for {count(len(result.blocks), 'block')}")
        if result.full:
            say(out, f"left out, since they hold no more: {', '.join(result.full)}")
    else:
        say(out, "this episode already had this very outcome: nothing changed")


def consolidated(out: Console, result: Consolidated) -> None:
    """What was done and what still waits."""
    say(
        out,
        f"{result.embedded} embedded, {count(result.linked, 'link')} proposed, {result.rated} rated, "
        f"{result.unrated} left unrated, {result.waiting} still waiting",
    )
    if result.why:
        say(out, f"not rated: {plain(result.why)}")


def explained(out: Console, result: Explanation) -> None:
    """Effective numbers, then each source's claim and what counts of it."""
    say(out, f"{result.block}")
    say(out, plain(result.text))
    held = "held here" if result.held else "known from peers"
    about = [result.status, held]
    if result.tags:
        about.append("tags " + ", ".join(map(plain, result.tags)))
    if result.spaces:
        about.append("shared into " + ", ".join(map(plain, result.spaces)))
    say(out, " · ".join(about))
    _decision(out, result)
    interval = f"{result.utility_low:.2f}-{result.utility_high:.2f} with {result.credible:.0%}"
    evidence = (
        f"utility {result.utility:.3f} ({interval})",
        f"alpha {result.alpha:.4g}",
        f"beta {result.beta:.4g}",
        f"importance {result.importance:.2f}",
    )
    fading = (
        f"stability {result.stability_h:.4g} h",
        f"difficulty {result.difficulty:.2f}",
        f"retrievability {result.retrievability:.3f}",
        f"last event at hour {result.last_event_h:.2f} of {result.hour:.2f}",
    )
    folded(out, "", evidence)
    folded(out, "", fading)
    _curve(out, result)
    shown = table("source", "trust", "alpha", "beta", "S (h)", "counted α", "counted β")
    shown.columns[0].no_wrap = True
    for source in result.sources:
        counted = (f"{source.counted_alpha:.4g}", f"{source.counted_beta:.4g}")
        claim = (f"{source.alpha:.4g}", f"{source.beta:.4g}", f"{source.stability_h:.4g}")
        shown.add_row(_source(source.source, source.name), f"{source.trust:.4g}", *claim, *counted)
    out.print(shown)
    if result.contexts:
        contexts = table("context", "alpha", "beta", "worth", f"{result.credible:.0%}")
        for name, (alpha, beta) in result.contexts.items():
            low, high = result.context_intervals[name]
            worth = f"{alpha / (alpha + beta):.2f}" if alpha + beta else "-"
            counts = (f"{alpha:.4g}", f"{beta:.4g}", worth, f"{low:.2f}-{high:.2f}")
            contexts.add_row(plain(name) or "(none)", *counts)
        out.print(contexts)
    _episodes(out, result.episodes)
    if result.summed is not None:
        say(out, f"in sum: {_in_sum(result.summed)}")
    _neighbours(out, result.neighbours)
    for summary in result.summaries:
        where = "" if summary.block == result.block else "in "
        named = f"{where}{summary.level} {summary.block[:SHORT_ID]} of {count(len(summary.sources), 'block')}"
        said = f": {plain(summary.text)}" if summary.shown else " is out of view until it is made again"
        say(out, named + said)


def _curve(out: Console, result: Explanation) -> None:
    """When it will have faded how far, if nothing happens."""
    levels = ((0.9, result.to_90_h), (0.5, result.to_50_h))
    say(out, "it falls " + ", ".join(f"to {level:g} {_ahead(hours)}" for level, hours in levels))
    folded(out, "retrievability to come: ", [f"{value:.2f} in {ahead:g} h" for ahead, value in result.curve])


def _ahead(hours: float | None) -> str:
    if hours is None:
        return "not within a hundred years of use"
    return f"in {hours:.4g} h" if hours else "already"


def _episodes(out: Console, episodes: Sequence[EpisodeSeen]) -> None:
    if not episodes:
        return
    shown = table("last used", "as", "context", "signal", "weight", "with")
    shown.columns[0].no_wrap = True
    for one in episodes:
        kind = "confirm" if one.implicit else one.frame or "named"
        judged = one.signal is not None
        signal = f"{one.signal:.2f}" if judged else "-"
        weight = f"{one.weight:.4g}" if judged else "-"
        about = (
            one_line(kind, 10),
            one_line(one.context, 10),
            signal,
            weight,
            count(one.companions, "other"),
        )
        shown.add_row(_time(one.wall_ms), *about)
    out.print(shown)


def _decision(out: Console, result: Explanation) -> None:
    """What was decided about the block, and which blocks stand in each other's place."""
    decision = result.decision
    if decision is not None:
        why = f": {plain(decision.why)}" if decision.why else ""
        what = decision.withdrawn or "brought back into recall"
        say(out, f"{what} {_time(decision.wall_ms)} by {plain(decision.who) or 'this node'}{why}")
    if result.superseded_by:
        say(out, f"superseded by {result.superseded_by}")
    for old in result.supersedes:
        say(out, f"stands in the place of {old}")


def _neighbours(out: Console, neighbours: Sequence[Neighbour]) -> None:
    """The blocks it is linked to, strongest first."""
    if not neighbours:
        return
    shown = table("neighbour", "weight", "made", "kind", "cosine", "text")
    for one in neighbours:
        weights = (f"{one.weight:.2f}", f"{one.base:.2f}", one.kind)
        cosine = "-" if one.similarity is None else f"{one.similarity:.2f}"
        shown.add_row(one.block[:SHORT_ID], *weights, cosine, one_line(one.text, 24))
    out.print(shown)


def peers(out: Console, results: Sequence[PeerSeen]) -> None:
    """One row per peer, and its whole id below, since trust is set by it."""
    if not results:
        say(out, "no peers known yet: they show once they have published into a space of this node's")
        return
    shown = table("name", "trust", "state", "behind", "registers", "blocks", "spaces")
    for peer in results:
        numbers = (f"{peer.trust:.4g}", peer.state, str(peer.behind), str(peer.registers), str(peer.blocks))
        shown.add_row(one_line(peer.name, 16) or "-", *numbers, one_line(", ".join(peer.spaces), 16))
    out.print(shown)
    for peer in results:
        refused = {name: count for name, count in peer.outcomes.items() if count}
        say(out, f"{plain(peer.peer)}  {one_line(peer.name, 30)}  " + _counters(refused))


def trust_change(out: Console, result: TrustChange) -> None:
    """What the trust is now."""
    state = "revoked" if result.revoked else f"trusted with {result.trust:.4g}"
    say(out, f"{result.peer} is {state} from now on")


def trust_log(out: Console, results: Sequence[TrustChange]) -> None:
    """Every change, oldest first."""
    if not results:
        say(out, "no trust was ever set here: members of a space have its member trust, others none")
    for change in results:
        state = "revoked" if change.revoked else f"trust {change.trust:.4g}"
        why = f": {plain(change.why)}" if change.why else ""
        say(
            out,
            f"{_time(change.wall_ms)}  {change.peer}  {state}, by {plain(change.who) or 'this node'}{why}",
        )


def invited(out: Console, result: Invited) -> None:
    """The space and the token, which is a secret."""
    say(out, f"space {result.space}")
    say(out, "token (a secret: whoever has it can join):")
    out.out(result.token, highlight=False)


def space(out: Console, result: SpaceSeen) -> None:
    """The space that was joined."""
    say(
        out,
        f"joined {plain(result.name)} ({result.space}); "
        f"its members trust one another with {result.member_trust:.4g}",
    )


def spaces(out: Console, results: Sequence[SpaceSeen]) -> None:
    """One row per space, and its whole id and server below."""
    if not results:
        say(out, "this node is in no space: `loremesh space create NAME` or `loremesh space join TOKEN`")
        return
    shown = table("name", "members", "member trust", "role", "state")
    for item in results:
        role = "administrator" if item.administrator else "member"
        about = (str(item.members), f"{item.member_trust:.4g}", role, plain(item.state))
        shown.add_row(one_line(item.name, 20), *about)
    out.print(shown)
    for item in results:
        server = f"  at {plain(item.server)}" if item.server else ""
        say(out, f"{item.space}  {one_line(item.name, 30)}{server}")


def events(out: Console, results: Sequence[EventSeen]) -> None:
    """One line per event, oldest first."""
    if not results:
        say(out, "no events")
    for event in results:
        detail = _aggregate(event) if event.kind == "aggregate" else _details(event)
        block = event.block[:SHORT_ID]
        when = f"{_time(event.wall_ms)}  h {event.hour:9.3f}"
        say(out, f"{event.n:>6}  {when}  {event.kind:<11} {block:<12}  {detail}")


def _details(event: EventSeen) -> str:
    """What the event says; what it leaves empty is left out, and blocks are named as in tables."""
    return " ".join(
        f"{name}={_value(value)}" for name, value in event.detail.items() if value not in ("", [])
    )


def _aggregate(event: EventSeen) -> str:
    """What an aggregate stands for, and what it came to."""
    told = event.detail
    outcomes, recalls, since = (_whole(told[name]) for name in ("outcomes", "recalls", "from_ms"))
    return (
        f"{_in_sum(Summed(outcomes, recalls, since, event.wall_ms))}: "
        f"alpha={_value(told['alpha'])} beta={_value(told['beta'])} "
        f"S={_value(told['stability_h'])} h D={_value(told['difficulty'])}"
    )


def _in_sum(summed: Summed) -> str:
    return (
        f"{summed.outcomes:,} outcomes and {summed.recalls:,} recalls "
        f"from {_time(summed.from_ms)} to {_time(summed.to_ms)}"
    )


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def replayed(out: Console, result: Replayed) -> None:
    """Whether all agrees, and what would rank elsewhere under other rules."""
    say(out, "the log, the columns and the registers agree" if result.ok else "NOT as it should be:")
    for fault in result.faults:
        say(out, f"  {plain(fault)}")
    say(
        out,
        f"{result.rows} rows: {result.own_events} own events, {result.frames} frames; "
        f"{result.pruned} pruned, {result.forgotten} forgotten; rules {result.rules}",
    )
    if result.aggregates:
        begin = ", where other rules begin" if result.moved else ""
        say(
            out,
            f"of {count(result.aggregates, 'block')} a sum stands for earlier outcomes and recalls{begin}; "
            f"{result.aggregated} rows have given way",
        )
    if result.digest:
        say(out, f"digest {result.digest}")
    if result.ranked:
        say(
            out,
            f"{result.elsewhere} of {result.ranked} blocks rank elsewhere by utility × retrievability, "
            f"correlation {result.rank_correlation:.3f}",
        )
    if result.moved:
        shown = table("block", "rank", "then", "R", "then", "utility", "then", "text")
        for moved in result.moved:
            ranks = (str(moved.rank), str(moved.rank_under_rules))
            recall = (f"{moved.retrievability:.2f}", f"{moved.retrievability_under_rules:.2f}")
            utility = (f"{moved.utility:.2f}", f"{moved.utility_under_rules:.2f}")
            text = one_line(moved.text, 18)
            shown.add_row(moved.block[:SHORT_ID], *ranks, *recall, *utility, text)
        out.print(shown)


def forgotten(out: Console, result: Forgotten) -> None:
    """What is gone, and what could not be promised."""
    say(
        out,
        f"{result.block} is forgotten here: {result.events_removed} events removed, "
        f"{result.frames_cut} frames cut",
    )
    if result.note:
        say(out, plain(result.note))


def status(out: Console, result: Status) -> None:
    """The node at a glance."""
    shown = table("", "")
    running = f"yes, process {result.pid}" if result.running else "no"
    rows = {
        "peer": result.peer,
        "name": plain(result.name),
        "home": plain(result.home),
        "running": running,
        "active hour": f"{result.hour:.3f}",
        "blocks": f"{result.blocks} in recall; {result.held} held here, {result.embedded} embedded, "
        f"{result.waiting} waiting",
        "summaries": f"{result.summaries}, {result.abstracts} abstracts",
        "embedder": result.embedder,
        **({"reembedding": plain(result.reembedding)} if result.reembedding else {}),
        "log": f"{result.log_rows} rows, {result.size_bytes / 1e6:.1f} MB in all",
        "registers": f"{result.registers}, digest {result.registers_digest}",
        "feeds": str(len(result.feeds)),
        "counters": _counters(result.counters) or "-",
        "trouble": "; ".join(map(plain, result.trouble)) or "-",
        "deferred": ", ".join(map(plain, result.deferred)) or "-",
    }
    for name, value in rows.items():
        shown.add_row(name, value)
    out.print(shown)
    if result.spaces:
        spaces(out, result.spaces)


def say(out: Console, line: str) -> None:
    """One line, wrapped by the terminal only: ids and tokens stay whole when copied."""
    out.print(line, soft_wrap=True)


def folded(out: Console, head: str, parts: Sequence[str]) -> None:
    """The parts behind the head, on as many lines as the width asks for; no part is broken."""
    lines, line = [], head
    for number, part in enumerate(parts):
        longer = line + ("  " if number else "") + part
        if number and len(longer) > out.width:
            lines.append(line)
            longer = INDENT + part
        line = longer
    for one in filter(None, (*lines, line)):
        say(out, one)


def table(*columns: str) -> Table:
    """An empty table with these headings; without any it has no head."""
    from rich import box
    from rich.table import Table

    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_header=any(columns))
    for column in columns:
        shown.add_column(column, overflow="fold")
    return shown


def _named(source: str, name: str) -> str:
    short = source if len(source) <= 2 * SHORT_ID else f"{source[:SHORT_ID]}…"
    return f"{plain(name)} ({short})" if name else plain(short)


def _source(source: str, name: str) -> str:
    """Name and id of a source below one another, so that the table fits and the id stays whole."""
    return "\n".join(one_line(part, 2 * SHORT_ID) for part in (name, source) if part)


def _in_space(name: str) -> str:
    return f", through {plain(name)}" if name else ""


def _counters(counters: dict[str, int]) -> str:
    return ", ".join(f"{plain(name)} {count}" for name, count in counters.items())


def count(number: int, thing: str) -> str:
    """The number with its noun, in the plural where it is not one."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _value(value: str | int | float | bool | list[str | float] | None) -> str:
    match value:
        case float():
            return f"{value:.6g}"
        case list():
            return ",".join(map(_value, value))
        case str() if BLOCK_ID.fullmatch(value):
            return value[:SHORT_ID]
        case _:
            return plain(str(value))


def _time(wall_ms: int) -> str:
    return datetime.fromtimestamp(wall_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
