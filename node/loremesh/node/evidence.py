"""Making events: arguments are checked, rounded once, and laid down as the event that says what happened.

A maker reads the state and changes nothing. Make, store and fold under one lock: an outcome's counter follows
the state it was made from. The clock has been advanced by the caller. Arguments out of bounds raise
`InvalidInput` naming the field.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from loremesh.node.clock import ActiveClock
from loremesh.node.errors import Conflict, UnknownThing
from loremesh.node.events import (
    EPISODE_BYTES,
    INCARNATION_BYTES,
    PEER_BYTES,
    SPACE_BYTES,
    Archive,
    Connect,
    Consolidate,
    Deprecate,
    Forgot,
    FrameName,
    Incarnation,
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
)
from loremesh.node.firsthand import MAX_CONTEXTS_PER_BLOCK, FirstHand
from loremesh.node.ownstate import MAX_EPISODE_BLOCKS, OwnState, Taken
from loremesh.node.tiers import MAX_SOURCES, Level
from loremesh.sync.content import context_label, normalise
from loremesh.sync.errors import InvalidInput
from loremesh.sync.fixed import MAX_FX, MAX_MASS, ONE, from_fx, to_fx, unit_to_fx

MIN_W_INIT: Final = 0.1
"""DESIGN §3: a prior lighter than this would let one outcome decide."""

MAX_LINKS: Final = 32
"""Links that one event proposes: as many as similarity gives a block in all (`proposing.DEGREE`)."""
MAX_TAGS: Final = 32
MAX_TAG_CHARACTERS: Final = 64
MAX_WHY_CHARACTERS: Final = 1_000
"""A reason is a sentence or two; it is shown on one line of the trust log."""
MAX_NAME_CHARACTERS: Final = 200
"""Who set a trust, which rater rated: a name or an address."""


def learn(clock: ActiveClock, w_init: float, tags: Sequence[str] = ()) -> Learn:
    """The block is learned with a prior of `w_init` outcomes, half of them good."""
    if not (math.isfinite(w_init) and MIN_W_INIT <= w_init <= MAX_MASS):
        raise InvalidInput(
            "w_init", f"is {w_init!r}; it must be a finite number from {MIN_W_INIT} to {MAX_MASS}"
        )
    return Learn(clock.hour, clock.wall_ms, to_fx(w_init * 0.5, "w_init"), check_tags(tags))


def learn_revised(clock: ActiveClock, tags: Sequence[str] = ()) -> Learn:
    """A block is learned in the place of another one: without a prior, since `revise` gives it one."""
    return Learn(clock.hour, clock.wall_ms, 0, check_tags(tags))


def share(
    state: OwnState, clock: ActiveClock, row: int, spaces: Sequence[bytes] = (), tags: Sequence[str] = ()
) -> Share | None:
    """What of these spaces (ids) and tags the block does not have yet; None when it has them all."""
    for space in spaces:
        _check_id(space, SPACE_BYTES, "space")
    shared, tagged = state.shared.get(row, set()), state.tags.get(row, ())
    new_spaces = tuple(space for space in dict.fromkeys(spaces) if space not in shared)
    new_tags = tuple(tag for tag in check_tags(tags) if tag not in tagged)
    if len(tagged) + len(new_tags) > MAX_TAGS:
        raise InvalidInput("tags", f"would be {len(tagged) + len(new_tags)}; a block has at most {MAX_TAGS}")
    if not new_spaces and not new_tags:
        return None
    return Share(clock.hour, clock.wall_ms, new_spaces, new_tags)


def rating(
    state: OwnState, clock: ActiveClock, row: int, rating: float, weight: float, rater: str = ""
) -> Consolidate | Rescore:
    """A rating r in [0, 1] of weight w: importance r, evidence r·w and (1-r)·w. The first consolidates."""
    unit_to_fx(rating, "rating")
    _check_line(rater, MAX_NAME_CHARACTERS, "rater")
    weight_fx = to_fx(weight, "weight")
    kind = Rescore if row < state.columns.length and state.columns.rated[row] else Consolidate
    alpha_fx, beta_fx = to_fx(rating * weight, "rating"), to_fx((1.0 - rating) * weight, "rating")
    return kind(clock.hour, clock.wall_ms, float(rating), weight_fx, alpha_fx, beta_fx, rater)


def outcome_of_blocks(
    state: OwnState,
    clock: ActiveClock,
    rows: Sequence[int],
    signal: float,
    weight: float = 1.0,
    context: str = "",
    implicit: bool = False,
    episode: bytes = b"",
) -> list[tuple[int, Outcome]]:
    """One outcome for each of these blocks by name, retrieval weight 1. `implicit` makes it a confirm.

    `episode`: a fresh random id[16] of this use, so that the log says which blocks were used together.
    """
    if len(set(rows)) != len(rows):
        raise InvalidInput("block", "is named twice in one outcome: name each block once")
    label = context_label(context)
    return _outcomes(
        state,
        clock,
        [(row, ONE) for row in rows],
        Taken(signal, to_fx(weight, "weight"), label),
        weight,
        episode,
        implicit,
    )


def outcome_of_episode(
    state: OwnState,
    clock: ActiveClock,
    episode: bytes,
    signal: float,
    weight: float = 1.0,
    context: str | None = None,
) -> list[tuple[int, Outcome]]:
    """The outcome of a recall, for each block it handed out with the retrieval weight it had there.

    `context` is the episode's own unless given. Empty when the episode already took this very outcome.
    Raises UnknownThing for an episode that was never there, is too old or handed out nothing that is still
    here; Conflict when it took another outcome.
    """
    held = state.episodes.get(episode)
    if held is None:
        raise UnknownThing(
            f"no episode {episode.hex()} waits for an outcome",
            hint="episodes are kept while they are recent; name the blocks instead",
        )
    label = held.context if context is None else context_label(context)
    unit_to_fx(signal, "signal")
    taken = Taken(float(signal), to_fx(weight, "weight"), label)
    if held.outcome == taken:
        return []
    if held.outcome is not None:
        raise Conflict(
            f"episode {episode.hex()} already took the outcome {held.outcome.signal} with weight "
            f"{from_fx(held.outcome.weight_fx)} in context {held.outcome.context!r}",
            hint="an episode takes one outcome; for a later finding name the blocks",
        )
    parts = list(zip(held.rows, held.retrieval_fx, strict=True))
    return _outcomes(state, clock, parts, taken, weight, episode, False)


def _outcomes(
    state: OwnState,
    clock: ActiveClock,
    parts: Sequence[tuple[int, int]],
    taken: Taken,
    weight: float,
    episode: bytes,
    implicit: bool,
) -> list[tuple[int, Outcome]]:
    """Outcomes for (row, retrieval weight) pairs, each checked against what its register can hold.

    Of an episode, blocks whose register is full are left out, so that one much-used block does not keep the
    others from learning; raised is only what leaves none. Of blocks by name, the first full one is raised.
    """
    unit_to_fx(taken.signal, "signal")
    signal = float(taken.signal)
    firsthand = state.firsthand
    context = state.contexts.find(taken.context)
    if context is None and not state.contexts.room_for((taken.context,)):
        raise InvalidInput("context", f"{taken.context!r} is one too many for this home: use one it knows")
    version = firsthand.version
    made = []
    full: list[InvalidInput] = []
    for row, retrieval_fx in parts:
        retrieval = from_fx(retrieval_fx)
        alpha_fx = to_fx(signal * weight * retrieval, "weight")
        beta_fx = to_fx((1.0 - signal) * weight * retrieval, "weight")
        evidence = alpha_fx + beta_fx
        if evidence:
            refusal = _room(firsthand, row, context, taken.context, evidence)
            if refusal is not None:
                full.append(refusal)
                continue
            version += 1
        made.append(
            (
                row,
                Outcome(
                    clock.hour,
                    clock.wall_ms,
                    signal,
                    taken.weight_fx,
                    retrieval_fx,
                    alpha_fx,
                    beta_fx,
                    version if evidence else 0,
                    taken.context,
                    episode,
                    implicit,
                ),
            )
        )
    if full and not (episode and made):
        raise full[0]
    return made


def _room(
    firsthand: FirstHand, row: int, context: int | None, label: str, evidence: int
) -> InvalidInput | None:
    """Why this evidence does not fit the block's register in a context (None: one that nobody used yet)."""
    if not firsthand.has_room(row, context):
        return InvalidInput(
            "context",
            f"{label!r} would be this block's context number {MAX_CONTEXTS_PER_BLOCK + 1}; use one it has",
        )
    if context is not None and firsthand.mass_fx(row, context) + evidence > MAX_FX:
        return InvalidInput(
            "weight",
            f"would give this block more than {MAX_MASS} outcomes in context {label!r}: leave the block out",
        )
    return None


def recall_hits(
    clock: ActiveClock,
    episode: bytes,
    scores: Sequence[tuple[int, float]],
    frame: FrameName,
    context: str = "",
    uniform: bool = True,
    frame_name: str = "",
) -> list[tuple[int, RecallHit]]:
    """One recall that handed out these (row, score)s, best first: an episode with a fresh random id[16].

    `frame_name` is what frame OTHER is called. Retrieval weights are 1 when `uniform`, else the score over
    the best score, clipped to [0, 1].
    """
    _check_id(episode, EPISODE_BYTES, "episode")
    if len(scores) > MAX_EPISODE_BLOCKS:
        raise InvalidInput("k", f"is {len(scores)}; one recall hands out at most {MAX_EPISODE_BLOCKS}")
    label = context_label(context)
    best = max((score for _, score in scores), default=0.0)
    made = []
    for row, score in scores:
        if not math.isfinite(score):
            raise InvalidInput("score", f"is {score!r}; it must be finite")
        retrieval = 1.0 if uniform or best <= 0.0 else max(score, 0.0) / best
        hit = RecallHit(
            clock.hour,
            clock.wall_ms,
            episode,
            unit_to_fx(retrieval, "retrieval weight"),
            float(score),
            frame,
            label,
            frame_name,
        )
        made.append((row, hit))
    return made


def connect(clock: ActiveClock, row: int, other: int, weight: float) -> Connect:
    """A link from the block in `row` to the one in `other`, weight in [0, 1]; 0 takes it away."""
    if row == other:
        raise InvalidInput("other", "is the block itself: name another one")
    return Connect(clock.hour, clock.wall_ms, other, unit_to_fx(weight, "weight"))


def linked(
    clock: ActiveClock, row: int, links: Sequence[tuple[int, float]], *, looked: bool = True
) -> Linked:
    """Links that similarity proposes from `row`: (other row, weight in [0, 1]), 0 takes one back."""
    others = tuple(other for other, _ in links)
    if len(others) > MAX_LINKS:
        raise InvalidInput("links", f"are {len(others)}; at most {MAX_LINKS} are proposed for a block")
    if row in others or len(set(others)) != len(others):
        raise InvalidInput("others", "must be other blocks, each once")
    weights_fx = tuple(unit_to_fx(weight, "weight") for _, weight in links)
    return Linked(clock.hour, clock.wall_ms, others, weights_fx, looked)


def decision(
    clock: ActiveClock, kind: type[Archive | Deprecate | Restore], why: str, who: str
) -> Archive | Deprecate | Restore:
    """A block leaves recall, or comes back into it, by the decision of `who`."""
    _check_reason(why, who)
    return kind(clock.hour, clock.wall_ms, why, who)


def revise(state: OwnState, clock: ActiveClock, other: int, weight: float, why: str, who: str) -> Revise:
    """A block takes the place of the one in row `other`, by the decision of `who`.

    Its head start has the mass `weight` and the mean of the other's own evidence, outcomes and all; none
    where there is no such evidence. Peers' evidence is left out: trust may change, and a prior would keep it.
    """
    _check_reason(why, who)
    alpha, beta = own_evidence(state, other)
    mass_fx = to_fx(weight, "weight") if alpha + beta else 0
    alpha_fx = round(mass_fx * alpha / (alpha + beta)) if mass_fx else 0
    return Revise(clock.hour, clock.wall_ms, other, alpha_fx, mass_fx - alpha_fx, why, who)


def own_evidence(state: OwnState, row: int) -> tuple[int, int]:
    """Own α and β of a row, fixed point: prior, ratings, first-hand outcomes and what came from files."""
    columns = state.columns
    if row >= columns.length:
        return 0, 0
    alpha = columns.prior_a[row] + columns.rated_a[row] + columns.self_a[row] + columns.imported_a[row]
    beta = columns.prior_b[row] + columns.rated_b[row] + columns.self_b[row] + columns.imported_b[row]
    return alpha, beta


def _check_reason(why: str, who: str) -> None:
    _check_line(why, MAX_WHY_CHARACTERS, "why")
    _check_line(who, MAX_NAME_CHARACTERS, "who")


def summarised(
    clock: ActiveClock, level: Level, sources: Sequence[int], summariser: str, summary: int = -1
) -> Summarise:
    """A summary or an abstract of these rows; `summary` is the row of the summary it is an abstract of."""
    if not 0 < len(sources) <= MAX_SOURCES:
        raise InvalidInput("sources", f"are {len(sources)}; a summary has 1 to {MAX_SOURCES}")
    _check_line(summariser, MAX_NAME_CHARACTERS, "summariser")
    return Summarise(clock.hour, clock.wall_ms, level, tuple(sorted(set(sources))), summariser, summary)


def incarnation(clock: ActiveClock, fresh: bytes, why: str) -> Incarnation:
    """From here on evidence counts under the id `fresh`, 16 random bytes."""
    _check_id(fresh, INCARNATION_BYTES, "incarnation")
    _check_line(why, MAX_WHY_CHARACTERS, "why")
    return Incarnation(clock.hour, clock.wall_ms, fresh, why)


def trust(clock: ActiveClock, peer: bytes, value: float, why: str, who: str, revoked: bool = False) -> Trust:
    """Trust in [0, 1] in a peer (public key), as set by `who`; a revoked one counts for nothing."""
    _check_id(peer, PEER_BYTES, "peer")
    _check_line(why, MAX_WHY_CHARACTERS, "why")
    _check_line(who, MAX_NAME_CHARACTERS, "who")
    return Trust(clock.hour, clock.wall_ms, peer, unit_to_fx(value, "trust"), revoked, why, who)


def forgot(state: OwnState, clock: ActiveClock, row: int) -> Forgot:
    """The block in `row` is forgotten; clock and evidence counter stand."""
    used_ms = clock.wall_ms if clock.hour > state.hour else state.wall_ms
    return Forgot(clock.hour, clock.wall_ms, row, state.firsthand.version, used_ms)


def check_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """The tags in normal form, without repetition, in the order given."""
    cleaned = tuple(dict.fromkeys(normalise(tag) for tag in tags))
    if len(cleaned) > MAX_TAGS:
        raise InvalidInput("tags", f"are {len(cleaned)}; a block has at most {MAX_TAGS}")
    for tag in cleaned:
        if not tag:
            raise InvalidInput("tag", "is empty: leave it out")
        _check_line(tag, MAX_TAG_CHARACTERS, "tag")
    return cleaned


def _check_line(text: str, most: int, field: str) -> None:
    """One line that can be stored and shown: no control characters, no lone surrogates."""
    if len(text) > most or not text.isprintable():
        raise InvalidInput(
            field, f"is {text[:80]!a}; it must be at most {most} printable characters on one line"
        )


def _check_id(value: bytes, length: int, field: str) -> None:
    if len(value) != length:
        raise InvalidInput(field, f"has {len(value)} bytes; it must have {length}")
