"""What events out of files do: their evidence counts beside first-hand, and nothing published moves."""

from __future__ import annotations

import math

from msgspec import structs

from loremesh.node.aggregates import by_context, set_course
from loremesh.node.columns import Status
from loremesh.node.events import (
    Aggregate,
    Archive,
    Connect,
    Consolidate,
    Counted,
    Deprecate,
    Imported,
    ImportedTrust,
    Learn,
    Linked,
    Outcome,
    RecallHit,
    Rescore,
    Restore,
    Revise,
    Share,
    Summarise,
    Trust,
    decode_home,
    decode_own,
)
from loremesh.node.imported import Prior
from loremesh.node.moves import (
    FULL_STEP,
    add_tags,
    check_replaced,
    connect,
    count,
    head_start,
    learn,
    link,
    rate,
    start,
    step,
    touch,
)
from loremesh.node.ownstate import (
    FoldError,
    OwnState,
)
from loremesh.node.rules import MAX_STABILITY_H, MIN_STABILITY_H


def take_in(state: OwnState, row: int, event: Imported) -> None:
    """An event out of a file. Evidence counts beside first-hand; nothing published moves.

    The block's own history here is that of the first log it came through. Where that is the file's, ratings
    and outcomes move importance, S and D as they would have there; otherwise the file adds evidence, tags,
    and links that there are not yet.
    """
    files, columns = state.imported, state.columns
    if not 0 <= event.source < len(files.sources):
        raise FoldError(f"source {event.source} was never named")
    inner = decode_own(event.event)
    columns.ensure(row + 1)
    origin = files.sources[event.source].origin
    whole = _is_whole(state, row, origin)
    files.known.setdefault(row, {})[event.source] = event.n
    match inner:
        case Learn():
            learn(state, row, inner)
        case Share():
            add_tags(state, row, inner.tags)  # its spaces are for the home that wrote it
        case Consolidate() | Rescore():
            if whole:
                rate(state, row, inner)
        case Outcome():
            _outcome(state, row, event.source, inner, whole)
        case Archive() | Deprecate() | Restore():
            if whole:
                state.decisions.apply(columns, row, inner)
        case Revise():
            _revise(state, row, origin, inner, whole)
        case Connect() | Linked():
            _link(state, row, inner, whole)
        case Counted() | Aggregate():
            _stated(state, row, event.source, inner, whole)
        case RecallHit():
            pass  # its episode was answered there, or never will be
        case Imported() | Summarise():
            raise FoldError(f"an imported event holds a {type(inner).__name__}: that stands for itself")


def _is_whole(state: OwnState, row: int, origin: bytes) -> bool:
    """Whether the block's history here is that of the log of `origin`; so it is from now on for a block that
    nothing has happened to.
    """
    if state.columns.stability_h[row] == 0.0 and not state.columns.held[row]:
        state.imported.owner.setdefault(row, origin)
    return state.imported.owner.get(row) == origin


def _outcome(state: OwnState, row: int, source: int, event: Outcome, whole: bool) -> None:
    columns = state.columns
    if event.version:
        context = state.contexts.ensure(event.context)
        alpha_fx, beta_fx = state.imported.add(row, source, context, event.alpha_fx, event.beta_fx)
        columns.imported_a[row] += alpha_fx
        columns.imported_b[row] += beta_fx
    if whole:
        start(columns, row, event.hour)
        elapsed_h = max(event.hour - columns.t_last_h[row], 0.0)
        fraction = min(event.weight_fx * event.retrieval_fx / FULL_STEP, 1.0)
        step(state, row, event, fraction, elapsed_h)
        count(state, row, event)


def _link(state: OwnState, row: int, event: Connect | Linked, whole: bool) -> None:
    """Links made there. The block's neighbours are still looked for, among what this home holds."""
    if isinstance(event, Connect):
        if whole or not state.links.known(row, event.other):
            connect(state, row, event)
        return
    kept = [
        (other, weight_fx)
        for other, weight_fx in zip(event.others, event.weights_fx, strict=True)
        if whole or not state.links.known(row, other)
    ]
    others, weights_fx = tuple(other for other, _ in kept), tuple(weight_fx for _, weight_fx in kept)
    link(state, row, structs.replace(event, others=others, weights_fx=weights_fx, looked=False))


def _revise(state: OwnState, row: int, origin: bytes, event: Revise, whole: bool) -> None:
    """The head start is the new block's, leaving recall the old one's: each where its history is the file's,
    or, of an old block that only peers know, where nothing happened to it here either.
    """
    other = event.other
    check_replaced(row, other)
    if whole:
        head_start(state, row, event)
    if other == row:
        return
    columns = state.columns
    columns.ensure(other + 1)
    untouched = columns.stability_h[other] == 0.0 and not columns.held[other]
    if state.imported.owner.get(other, origin if untouched else b"") == origin:
        state.decisions.supersede(columns, row, event)


def _stated(state: OwnState, row: int, source: int, event: Counted | Aggregate, whole: bool) -> None:
    """What a log or another system says that everything before came to."""
    if isinstance(event, Counted):
        _counted(state, row, source, event, whole)
    else:
        _aggregate(state, row, source, event, whole)


def _aggregate(state: OwnState, row: int, source: int, event: Aggregate, whole: bool) -> None:
    """What a log's outcomes came to takes the place of what was taken from that log before.

    The block's course (S, D, t_last, counters) follows where nothing but that log has moved it.
    """
    columns, files = state.columns, state.imported
    for label, (alpha_fx, beta_fx) in by_context(event).items():
        more_a, more_b = files.state(row, source, state.contexts.ensure(label), alpha_fx, beta_fx)
        columns.imported_a[row] += more_a
        columns.imported_b[row] += more_b
    alone = len(files.known[row]) == 1 and not (columns.self_a[row] or columns.self_b[row])
    if whole and alone and event.stability_h > 0.0:
        until_h = columns.t_last_h[row] if columns.stability_h[row] > 0.0 else -math.inf
        start(columns, row, event.hour)
        set_course(state, row, event)
        columns.t_last_h[row] = max(event.t_last_h, until_h)  # it may have been rated here since


def _counted(state: OwnState, row: int, source: int, event: Counted, whole: bool) -> None:
    """Another system's counts replace what it stated before."""
    columns, files = state.columns, state.imported
    alpha_fx, beta_fx = files.replace(row, source, event.alpha_fx, event.beta_fx)
    columns.imported_a[row] += alpha_fx
    columns.imported_b[row] += beta_fx
    priors = files.priors.setdefault(row, {})
    if not whole:
        priors[source] = Prior(0, 0, event.exact)
        return
    start(columns, row, event.hour)
    before = priors.get(source, Prior(0, 0, exact=False))
    columns.prior_a[row] += event.prior_a_fx - before.alpha_fx
    columns.prior_b[row] += event.prior_b_fx - before.beta_fx
    priors[source] = Prior(event.prior_a_fx, event.prior_b_fx, event.exact)
    if event.stability_h > 0.0:
        columns.stability_h[row] = min(max(event.stability_h, MIN_STABILITY_H), MAX_STABILITY_H)
    if event.rating >= 0.0:
        columns.importance[row] = event.rating
        columns.rated[row] = 1
        columns.rated_h[row] = event.hour
        if columns.held[row]:
            columns.status[row] = Status.ACTIVE
    touch(state, row, event.hour)


def take_in_trust(state: OwnState, event: ImportedTrust) -> Trust | None:
    """A change of trust out of a file; the change itself where it holds here too."""
    state.imported.trust_known[event.source] = event.n
    change = decode_home(event.event)
    return change if event.in_force and isinstance(change, Trust) else None
