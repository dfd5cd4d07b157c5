"""What each of the node's own events does to its state (DESIGN §3). Called by the fold alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from loremesh.node.columns import OwnColumns, Status
from loremesh.node.events import (
    Connect,
    Consolidate,
    Learn,
    Linked,
    Outcome,
    Recalibrated,
    RecallHit,
    Rescore,
    Revise,
    Share,
)
from loremesh.node.ownstate import (
    MAX_EPISODE_BLOCKS,
    MAX_EPISODES,
    Episode,
    FoldError,
    OwnState,
    Taken,
)
from loremesh.node.raters import MAX_MULTIPLIER_FX
from loremesh.node.rules import FSRS5, START_STABILITY_H
from loremesh.sync.fixed import MAX_FX, ONE
from loremesh.sync.rows import MAX_ROWS

FULL_STEP: Final = float(ONE * ONE)
"""Weight times retrieval weight, both in fixed point, of an outcome that moves S and D all the way."""


def take_outcome(state: OwnState, row: int, event: Outcome) -> None:
    evidence = event.alpha_fx + event.beta_fx
    episode = _check_episode(state, event) if event.episode else None
    context = _check_evidence(state, row, event) if evidence else 0
    if episode is not None:
        episode.outcome = Taken(event.signal, event.weight_fx, event.context)
    columns = state.columns
    columns.ensure(row + 1)
    start(columns, row, event.hour)
    elapsed_h = max(event.hour - columns.t_last_h[row], 0.0)
    fraction = min(event.weight_fx * event.retrieval_fx / FULL_STEP, 1.0)
    stability_h, difficulty = FSRS5.step(
        columns.published_stability_h[row],
        columns.published_difficulty[row],
        event.signal,
        fraction,
        elapsed_h,
    )
    columns.published_stability_h[row] = stability_h
    columns.published_difficulty[row] = difficulty
    if state.rules.step is FSRS5.step and row not in state.imported.owner:
        columns.stability_h[row], columns.difficulty[row] = stability_h, difficulty
    else:
        step(state, row, event, fraction, elapsed_h)
    count(state, row, event)
    if evidence:
        columns.self_a[row] += event.alpha_fx
        columns.self_b[row] += event.beta_fx
        state.firsthand.add(
            row, context, event.alpha_fx, event.beta_fx, stability_h, event.version, columns.t_last_h[row]
        )
        state.recent.add(row, context, event.alpha_fx, event.beta_fx)
        if state.tally is not None:
            state.tally.add(row, context, event.alpha_fx, event.beta_fx)


def step(state: OwnState, row: int, event: Outcome, fraction: float, elapsed_h: float) -> None:
    """S and D move by the rules in use."""
    columns, past = state.columns, state.history.past(row)
    columns.stability_h[row], columns.difficulty[row] = state.rules.step(
        columns.stability_h[row],
        columns.difficulty[row],
        event.signal,
        fraction,
        elapsed_h,
        max(columns.t_last_h[row], event.hour),
        past,
    )
    state.history.keep(row, past)


def count(state: OwnState, row: int, event: Outcome) -> None:
    """t_last, and the counters of outcomes that somebody judged."""
    columns = state.columns
    columns.t_last_h[row] = max(columns.t_last_h[row], event.hour)
    if not event.implicit:
        if event.signal > 0.5:
            columns.positives[row] += 1
        elif event.signal < 0.5:
            columns.negatives[row] += 1


def _check_evidence(state: OwnState, row: int, event: Outcome) -> int:
    """The context's index, when the evidence can enter a register; raises FoldError before anything moved."""
    firsthand = state.firsthand
    if not firsthand.incarnation:
        raise FoldError("an outcome came before the home's first incarnation")
    if event.version <= firsthand.version:
        raise FoldError(f"evidence counter {event.version} does not follow {firsthand.version}")
    context = state.contexts.find(event.context) if event.context else 0
    if not firsthand.has_room(row, context):
        raise FoldError(f"the block in row {row} has evidence in too many contexts for {event.context!r}")
    if context is not None:
        held = firsthand.mass_fx(row, context)
        if held + event.alpha_fx + event.beta_fx > MAX_FX:
            raise FoldError(
                f"the block in row {row} has more evidence in {event.context!r} than a register holds"
            )
        return context
    if not state.contexts.room_for((event.context,)):
        raise FoldError(f"this home knows too many contexts for another one, {event.context!r}")
    return state.contexts.ensure(event.context)


def _check_episode(state: OwnState, event: Outcome) -> Episode | None:
    """The episode that takes this outcome; None for one that is gone (evicted, or its blocks forgotten)."""
    episode = state.episodes.get(event.episode)
    if episode is not None and episode.outcome not in (
        None,
        Taken(event.signal, event.weight_fx, event.context),
    ):
        raise FoldError(f"episode {event.episode.hex()} already took another outcome")
    return episode


def hand_out(state: OwnState, row: int, event: RecallHit) -> None:
    episode = state.episodes.get(event.episode)
    if episode is None:
        if len(state.episodes) >= MAX_EPISODES:
            del state.episodes[next(iter(state.episodes))]
        state.episodes[event.episode] = Episode(event.context, [row], [event.retrieval_fx])
        return
    if episode.outcome is not None or row in episode.rows or len(episode.rows) >= MAX_EPISODE_BLOCKS:
        raise FoldError(f"episode {event.episode.hex()} cannot have handed out row {row}")
    episode.rows.append(row)
    episode.retrieval_fx.append(event.retrieval_fx)


def start(columns: OwnColumns, row: int, hour: float) -> None:
    """Give a row that no own event has touched its first S and t_last; D and importance are the defaults."""
    if columns.stability_h[row] == 0.0:
        columns.stability_h[row] = columns.published_stability_h[row] = START_STABILITY_H
        columns.t_last_h[row] = hour


def touch(state: OwnState, row: int, hour: float) -> None:
    """The block's t_last is now, or was later; the rules may want to remember it."""
    columns = state.columns
    columns.t_last_h[row] = max(columns.t_last_h[row], hour)
    if state.rules.touch is not None:
        past = state.history.past(row)
        state.rules.touch(past, columns.t_last_h[row])
        state.history.keep(row, past)


def learn(state: OwnState, row: int, event: Learn) -> None:
    columns = state.columns
    columns.ensure(row + 1)
    add_tags(state, row, event.tags)
    if columns.held[row]:
        return
    start(columns, row, event.hour)
    columns.held[row] = 1
    state.learned.append(row, event.hour)
    columns.status[row] = Status.ACTIVE if columns.rated[row] else Status.PENDING
    columns.prior_a[row] += event.prior_fx
    columns.prior_b[row] += event.prior_fx
    # Outcomes may have come before, when only peers knew the block: what they taught is not lowered.
    columns.stability_h[row] = max(columns.stability_h[row], START_STABILITY_H)
    columns.published_stability_h[row] = max(columns.published_stability_h[row], START_STABILITY_H)
    touch(state, row, event.hour)


def share(state: OwnState, row: int, event: Share) -> None:
    add_tags(state, row, event.tags)
    if event.spaces:
        state.shared.setdefault(row, set()).update(event.spaces)


def add_tags(state: OwnState, row: int, tags: tuple[str, ...]) -> None:
    if tags:
        state.tags[row] = tuple(dict.fromkeys((*state.tags.get(row, ()), *tags)))


def rate(state: OwnState, row: int, event: Consolidate | Rescore) -> None:
    columns = state.columns
    columns.ensure(row + 1)
    start(columns, row, event.hour)
    columns.rated[row] = 1
    if columns.held[row]:
        columns.status[row] = Status.ACTIVE
    columns.importance[row] = event.rating
    columns.rated_h[row] = event.hour
    alpha_fx, beta_fx = state.raters.add(row, event.rater, event.alpha_fx, event.beta_fx)
    columns.rated_a[row] += alpha_fx
    columns.rated_b[row] += beta_fx
    touch(state, row, event.hour)


def weigh(state: OwnState, event: Recalibrated) -> None:
    """What this rater's ratings count: evidence alone moves, importance and t_last stay."""
    if not 0 <= event.multiplier_fx <= MAX_MULTIPLIER_FX:
        raise FoldError(f"the ratings of {event.rater!r} cannot count {event.multiplier_fx / ONE} times")
    columns = state.columns
    changes = (column.tolist() for column in state.raters.weigh(event.rater, event.multiplier_fx))
    for row, alpha_fx, beta_fx in zip(*changes, strict=True):
        columns.rated_a[row] += alpha_fx
        columns.rated_b[row] += beta_fx


def revise(state: OwnState, row: int, event: Revise) -> None:
    check_replaced(row, event.other)
    head_start(state, row, event)
    if event.other != row:
        state.decisions.supersede(state.columns, row, event)


def check_replaced(row: int, other: int) -> None:
    if not 0 <= other < MAX_ROWS:
        raise FoldError(f"the block in row {row} cannot take the place of row {other}")


def head_start(state: OwnState, row: int, event: Revise) -> None:
    """What a block starts with on behalf of the one it revises: a prior, which never travels."""
    columns = state.columns
    columns.ensure(row + 1)
    columns.prior_a[row] += event.alpha_fx
    columns.prior_b[row] += event.beta_fx


def connect(state: OwnState, row: int, event: Connect) -> None:
    _check_others(row, (event.other,))
    state.links.connect(row, event.other, event.weight_fx)


def link(state: OwnState, row: int, event: Linked) -> None:
    _check_others(row, event.others)
    if len(event.others) != len(event.weights_fx):
        raise FoldError(f"{len(event.others)} links of row {row} have {len(event.weights_fx)} weights")
    for other, weight_fx in zip(event.others, event.weights_fx, strict=True):
        state.links.propose(row, other, weight_fx)
    if event.looked:
        state.links.note_looked(row)


def _check_others(row: int, others: Sequence[int]) -> None:
    for other in others:
        if other == row or not 0 <= other < MAX_ROWS:
            raise FoldError(f"the block in row {row} cannot be linked to row {other}")
