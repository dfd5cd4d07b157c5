"""Aggregates: what outcomes had made of a block at one place of the log, as one event, and set down again.

`of` reads it off a state that was folded up to that place, `set_down` is the fold's side. Under the models
that the aggregate was made with every number is the same to the bit. Under another forgetting model the block
goes on from S and D as published (fsrs5 from the first event on); another utility model counts what lies
behind as one outcome of that evidence in each context.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from loremesh.node.decisions import Decision
from loremesh.node.events import Aggregate, Outcome, OwnEvent, RecallHit
from loremesh.node.firsthand import Stated
from loremesh.node.ownstate import RECENT, FoldError, OwnState
from loremesh.node.rulebook import remembered_hours
from loremesh.node.rules import RuleSet

RECENT_NUMBERS = len(RECENT.memory)


def forgetting_of(rules: RuleSet) -> str:
    """The name of a rule set's forgetting model, weights included, without its utility model."""
    return rules.name.removesuffix(f"+{rules.utility.name}")


def of(state: OwnState, row: int) -> Aggregate:
    """What outcomes have made of the block in `row` so far; the caller says when, of how many, and what was
    decided meanwhile.
    """
    columns, label = state.columns, state.contexts.label
    columns.ensure(row + 1)
    stated = state.firsthand.of(row)
    by_label = sorted({label(one.context): one.context for one in stated}.items())
    stated.sort(key=lambda one: (one.incarnation, label(one.context)))
    tally = state.tally
    return Aggregate(
        hour=0.0,
        wall_ms=0,
        outcomes=0,
        recalls=0,
        first_hour=0.0,
        first_ms=0,
        positives=columns.positives[row],
        negatives=columns.negatives[row],
        stability_h=columns.stability_h[row],
        difficulty=columns.difficulty[row],
        published_stability_h=columns.published_stability_h[row],
        published_difficulty=columns.published_difficulty[row],
        t_last_h=columns.t_last_h[row],
        forgetting=forgetting_of(state.rules),
        utility=state.rules.utility.name,
        history=tuple(state.history.past(row)),
        incarnations=tuple(one.incarnation for one in stated),
        contexts=tuple(label(one.context) for one in stated),
        alpha_fx=tuple(one.alpha_fx for one in stated),
        beta_fx=tuple(one.beta_fx for one in stated),
        register_stability_h=tuple(one.stability_h for one in stated),
        versions=tuple(one.version for one in stated),
        stamps_h=tuple(one.hour for one in stated),
        labels=tuple(name for name, _ in by_label),
        recent=tuple(value for _, context in by_label for value in state.recent.memo(row, context)),
        tally=()
        if tally is None
        else tuple(value for _, context in by_label for value in tally.memo(row, context)),
    )


def told(made: Aggregate, passed: Sequence[OwnEvent]) -> Aggregate:
    """The aggregate of these events of its block, all up to the one in whose place it comes."""
    outcomes = recalls = 0
    first: Aggregate | Outcome | RecallHit | None = None
    hour, wall_ms = 0.0, 0
    for event in passed:
        match event:
            case Aggregate():
                outcomes, recalls, first = event.outcomes, event.recalls, event
            case Outcome():
                outcomes += 1
            case RecallHit():
                recalls += 1
            case _:
                continue
        first = first or event
        hour, wall_ms = max(hour, event.hour), event.wall_ms
    if first is None:
        raise ValueError("an aggregate of no outcome and no recall")
    start = (
        (first.first_hour, first.first_ms) if isinstance(first, Aggregate) else (first.hour, first.wall_ms)
    )
    return msgspec.structs.replace(
        made,
        hour=hour,
        wall_ms=wall_ms,
        outcomes=outcomes,
        recalls=recalls,
        first_hour=start[0],
        first_ms=start[1],
    )


def moved(event: Aggregate, shift_h: float, latest_h: float) -> Aggregate:
    """The same on a clock whose hours are `shift_h` more, none later than `latest_h`.

    What a model remembers that there is not is left out: nothing tells its hours.
    """

    def there(hour: float) -> float:
        return min(hour + shift_h, latest_h)

    hours = remembered_hours(event.forgetting)
    history = tuple(
        there(value) if is_hour else value for value, is_hour in zip(event.history, hours, strict=False)
    )
    return msgspec.structs.replace(
        event,
        first_hour=there(event.first_hour),
        t_last_h=there(event.t_last_h),
        stamps_h=tuple(map(there, event.stamps_h)),
        history=history,
    )


def check(event: Aggregate) -> None:
    """Raises FoldError for one that does not hang together."""
    registers = {len(event.incarnations), len(event.contexts), len(event.alpha_fx), len(event.beta_fx)}
    registers |= {len(event.register_stability_h), len(event.versions), len(event.stamps_h)}
    decided = {len(event.decided_ms), len(event.decided_by), len(event.decided_a_fx), len(event.decided_b_fx)}
    labels = len(event.labels)
    whole = len(event.tally) % labels == 0 if labels else not event.tally
    if len(registers) > 1 or len(decided) > 1 or len(event.recent) != RECENT_NUMBERS * labels or not whole:
        raise FoldError("the parts of an aggregate differ in length")
    if tuple(sorted(set(event.contexts))) != event.labels:
        raise FoldError("an aggregate names contexts that it has no registers of, or the other way")


def set_down(state: OwnState, row: int, event: Aggregate) -> None:
    """Of the block in `row` everything that outcomes move is as the aggregate says.

    Raises FoldError, and changes nothing, for one that cannot have been made in this state.
    """
    check(event)
    if not state.contexts.room_for(event.labels):
        raise FoldError("this home knows too many contexts for those of an aggregate")
    contexts = {label: state.contexts.ensure(label) for label in event.labels}
    stated = [
        Stated(incarnation, contexts[label], *rest)
        for incarnation, label, *rest in zip(
            event.incarnations,
            event.contexts,
            event.alpha_fx,
            event.beta_fx,
            event.register_stability_h,
            event.versions,
            event.stamps_h,
            strict=True,
        )
    ]
    try:
        state.firsthand.restate(row, stated)
    except ValueError as error:
        raise FoldError(str(error)) from error
    columns = state.columns
    columns.ensure(row + 1)
    columns.self_a[row], columns.self_b[row] = sum(event.alpha_fx), sum(event.beta_fx)
    columns.published_stability_h[row] = event.published_stability_h
    columns.published_difficulty[row] = event.published_difficulty
    state.decisions.restate(row, _decided(event))
    for place, label in enumerate(event.labels):
        at = place * RECENT_NUMBERS
        state.recent.put(row, contexts[label], event.recent[at : at + RECENT_NUMBERS])
    set_course(state, row, event)
    _set_tally(state, row, event, contexts)


def set_course(state: OwnState, row: int, event: Aggregate) -> None:
    """S, D, what the forgetting model remembers, t_last and the counters."""
    columns = state.columns
    columns.t_last_h[row] = event.t_last_h
    columns.positives[row], columns.negatives[row] = event.positives, event.negatives
    same = event.forgetting == forgetting_of(state.rules)
    if same and len(event.history) == len(state.rules.history):
        columns.stability_h[row], columns.difficulty[row] = event.stability_h, event.difficulty
        state.history.past(row)
        state.history.keep(row, list(event.history))
        return
    columns.stability_h[row] = event.published_stability_h
    columns.difficulty[row] = event.published_difficulty
    state.history.clear(row)
    if state.rules.resume is not None:
        past = state.history.past(row)
        state.rules.resume(past, event.published_stability_h)
        state.history.keep(row, past)


def by_context(event: Aggregate) -> dict[str, tuple[int, int]]:
    """α and β in fixed point by context, over incarnations."""
    found: dict[str, tuple[int, int]] = {}
    for label, alpha_fx, beta_fx in zip(event.contexts, event.alpha_fx, event.beta_fx, strict=True):
        alpha, beta = found.get(label, (0, 0))
        found[label] = alpha + alpha_fx, beta + beta_fx
    return found


def with_decisions(made: Aggregate, trail: Sequence[Decision]) -> Aggregate:
    """The aggregate with the evidence at these decisions about its block."""
    return msgspec.structs.replace(
        made,
        decided_ms=tuple(one.wall_ms for one in trail),
        decided_by=tuple(one.by for one in trail),
        decided_a_fx=tuple(one.alpha_fx for one in trail),
        decided_b_fx=tuple(one.beta_fx for one in trail),
    )


def _decided(event: Aggregate) -> dict[tuple[int, int], tuple[int, int]]:
    at = zip(event.decided_ms, event.decided_by, strict=True)
    return dict(zip(at, zip(event.decided_a_fx, event.decided_b_fx, strict=True), strict=True))


def _set_tally(state: OwnState, row: int, event: Aggregate, contexts: dict[str, int]) -> None:
    tally, model = state.tally, state.rules.utility
    if tally is None:
        return
    numbers = len(model.memory)
    if event.utility == model.name and len(event.tally) == numbers * len(event.labels):
        for place, label in enumerate(event.labels):
            tally.put(row, contexts[label], event.tally[place * numbers : (place + 1) * numbers])
        return
    for label, (alpha_fx, beta_fx) in by_context(event).items():
        tally.restart(row, contexts[label], alpha_fx, beta_fx)
