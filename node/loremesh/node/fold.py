"""The fold: what the node's own events make of its state. Replay and live traffic both go through `apply`.

Events are folded in log order. Everything an event needs was decided when it was made (`evidence`), so the
fold has no choices: the same events give the same state, bit for bit.
"""

from __future__ import annotations

from typing import Final

from loremesh.node.columns import OwnColumns, Status
from loremesh.node.events import (
    INCARNATION_BYTES,
    Connect,
    Consolidate,
    Counted,
    Deprecate,
    Fitted,
    Forgot,
    HomeEvent,
    Import,
    Imported,
    ImportedTrust,
    ImportSource,
    Incarnation,
    Learn,
    Outcome,
    OwnEvent,
    RecallHit,
    Rescore,
    Restore,
    Share,
    Trust,
    decode_home,
    decode_own,
)
from loremesh.node.imported import FileSource, Prior
from loremesh.node.ownstate import (
    MAX_EPISODE_BLOCKS,
    MAX_EPISODES,
    Episode,
    FoldError,
    OwnState,
    Taken,
)
from loremesh.node.rules import FSRS5, MAX_STABILITY_H, MIN_STABILITY_H, START_STABILITY_H
from loremesh.sync.fixed import MAX_FX, ONE
from loremesh.sync.rows import MAX_ROWS
from loremesh.sync.trust import PeerTrust

_FULL_STEP: Final = float(ONE * ONE)

FromFile = Imported | ImportedTrust | ImportSource | Import
NoUse = Consolidate | Rescore | Deprecate | Restore | Trust | Forgot | Fitted | FromFile


def apply(state: OwnState, row: int, event: OwnEvent) -> None:
    """Fold one event about the block in `row`. Raises FoldError, and changes nothing, for an impossible one.

    The columns move as DESIGN §3 says; a block not learned here that gets evidence starts at S = 24 h, D = 5
    without a prior. Time never runs backwards: an earlier hour counts as the last one.
    """
    if not 0 <= row < MAX_ROWS:
        raise FoldError(f"row {row} is no block's")
    match event:
        case Outcome():
            _outcome(state, row, event)
        case RecallHit():
            _recall_hit(state, row, event)
        case Learn():
            _learn(state, row, event)
        case Share():
            _share(state, row, event)
        case Consolidate() | Rescore():
            _rate(state, row, event)
        case Connect():
            _connect(state, row, event)
        case Imported():
            _imported(state, row, event)
        case Deprecate() | Restore():
            state.decisions.apply(state.columns, row, event)
        case Counted():
            raise FoldError("what another system counted came without saying which")
    _keep_time(state, event)


def apply_home(state: OwnState, event: HomeEvent) -> None:
    """Fold one event that concerns no block. Raises FoldError, and changes nothing, for an impossible one."""
    match event:
        case Incarnation():
            if len(event.id) != INCARNATION_BYTES:
                raise FoldError(f"an incarnation id has {INCARNATION_BYTES} bytes, not {len(event.id)}")
            try:
                state.firsthand.begin(event.id)
            except ValueError as error:
                raise FoldError(str(error)) from error
        case Trust():
            state.peers[event.peer] = PeerTrust(
                value_fx=event.value_fx,
                revoked=event.revoked,
                why=event.why,
                who=event.who,
                at_ms=event.wall_ms,
            )
        case Fitted():
            state.fits.pop(event.rules, None)
            if event.weights:
                state.fits[event.rules] = event.weights
        case Forgot():
            _forget(state, event.row)
            state.firsthand.version = max(state.firsthand.version, event.version)
        case ImportSource():
            if event.number != len(state.imported.sources):
                raise FoldError(f"source {event.number} does not follow {len(state.imported.sources)}")
            state.imported.sources.append(FileSource(event.origin, event.incarnation, event.name))
        case Import():
            state.imported.files[event.file] = event.shift_h
        case ImportedTrust():
            _imported_trust(state, event)
    _keep_time(state, event)


def _keep_time(state: OwnState, event: OwnEvent | HomeEvent) -> None:
    """Remember where the clock goes on after a restart.

    What is no use of the memory (a rating, a decision, a change of trust, forgetting, what a file brings)
    comes between two uses and leaves the clock where it is: with a restart and without, the same time counts
    as active.
    """
    use = not isinstance(event, NoUse)
    if isinstance(event, Forgot) and event.used_ms >= 0:
        state.wall_ms = event.used_ms  # the last use may have been an event that went with its block
    elif use or (event.hour > state.hour and not isinstance(event, Imported | ImportedTrust)):
        state.wall_ms = event.wall_ms
    state.hour = max(state.hour, event.hour)


def _forget(state: OwnState, row: int) -> None:
    """Columns, registers, tags, spaces and links of the block go, and it leaves its episodes."""
    state.columns.clear(row)
    state.learned.remove(row)
    state.firsthand.drop(row)
    state.imported.drop(row)
    state.history.clear(row)
    state.recent.drop(row)
    state.decisions.drop(row)
    if state.tally is not None:
        state.tally.drop(row)
    state.tags.pop(row, None)
    state.shared.pop(row, None)
    for other in state.links.pop(row, {}):
        _unlink(state, other, row)
    for key, episode in list(state.episodes.items()):
        if row in episode.rows:
            at = episode.rows.index(row)
            del episode.rows[at], episode.retrieval_fx[at]
            if not episode.rows:
                del state.episodes[key]


def _outcome(state: OwnState, row: int, event: Outcome) -> None:
    evidence = event.alpha_fx + event.beta_fx
    episode = _check_episode(state, event) if event.episode else None
    context = _check_evidence(state, row, event) if evidence else 0
    if episode is not None:
        episode.outcome = Taken(event.signal, event.weight_fx, event.context)
    columns = state.columns
    columns.ensure(row + 1)
    _start(columns, row, event.hour)
    elapsed_h = max(event.hour - columns.t_last_h[row], 0.0)
    fraction = min(event.weight_fx * event.retrieval_fx / _FULL_STEP, 1.0)
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
        _step(state, row, event, fraction, elapsed_h)
    _count(state, row, event)
    if evidence:
        columns.self_a[row] += event.alpha_fx
        columns.self_b[row] += event.beta_fx
        state.firsthand.add(
            row, context, event.alpha_fx, event.beta_fx, stability_h, event.version, columns.t_last_h[row]
        )
        state.recent.add(row, context, event.alpha_fx, event.beta_fx)
        if state.tally is not None:
            state.tally.add(row, context, event.alpha_fx, event.beta_fx)


def _step(state: OwnState, row: int, event: Outcome, fraction: float, elapsed_h: float) -> None:
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


def _count(state: OwnState, row: int, event: Outcome) -> None:
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


def _recall_hit(state: OwnState, row: int, event: RecallHit) -> None:
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


def _start(columns: OwnColumns, row: int, hour: float) -> None:
    """Give a row that no own event has touched its first S and t_last; D and importance are the defaults."""
    if columns.stability_h[row] == 0.0:
        columns.stability_h[row] = columns.published_stability_h[row] = START_STABILITY_H
        columns.t_last_h[row] = hour


def _touch(state: OwnState, row: int, hour: float) -> None:
    """The block's t_last is now, or was later; the rules may want to remember it."""
    columns = state.columns
    columns.t_last_h[row] = max(columns.t_last_h[row], hour)
    if state.rules.touch is not None:
        past = state.history.past(row)
        state.rules.touch(past, columns.t_last_h[row])
        state.history.keep(row, past)


def _learn(state: OwnState, row: int, event: Learn) -> None:
    columns = state.columns
    columns.ensure(row + 1)
    _add_tags(state, row, event.tags)
    if columns.held[row]:
        return
    _start(columns, row, event.hour)
    columns.held[row] = 1
    state.learned.append(row, event.hour)
    columns.status[row] = Status.ACTIVE if columns.rated[row] else Status.PENDING
    columns.prior_a[row] += event.prior_fx
    columns.prior_b[row] += event.prior_fx
    # Outcomes may have come before, when only peers knew the block: what they taught is not lowered.
    columns.stability_h[row] = max(columns.stability_h[row], START_STABILITY_H)
    columns.published_stability_h[row] = max(columns.published_stability_h[row], START_STABILITY_H)
    _touch(state, row, event.hour)


def _share(state: OwnState, row: int, event: Share) -> None:
    _add_tags(state, row, event.tags)
    if event.spaces:
        state.shared.setdefault(row, set()).update(event.spaces)


def _add_tags(state: OwnState, row: int, tags: tuple[str, ...]) -> None:
    if tags:
        state.tags[row] = tuple(dict.fromkeys((*state.tags.get(row, ()), *tags)))


def _rate(state: OwnState, row: int, event: Consolidate | Rescore) -> None:
    columns = state.columns
    columns.ensure(row + 1)
    _start(columns, row, event.hour)
    columns.rated[row] = 1
    if columns.held[row]:
        columns.status[row] = Status.ACTIVE
    columns.importance[row] = event.rating
    columns.rated_a[row] += event.alpha_fx
    columns.rated_b[row] += event.beta_fx
    _touch(state, row, event.hour)


def _connect(state: OwnState, row: int, event: Connect) -> None:
    if event.other == row or not 0 <= event.other < MAX_ROWS:
        raise FoldError(f"the block in row {row} cannot be linked to row {event.other}")
    if event.weight_fx:
        state.links.setdefault(row, {})[event.other] = event.weight_fx
        state.links.setdefault(event.other, {})[row] = event.weight_fx
    else:
        _unlink(state, row, event.other)
        _unlink(state, event.other, row)


def _unlink(state: OwnState, row: int, other: int) -> None:
    links = state.links.get(row, {})
    links.pop(other, None)
    if not links:
        state.links.pop(row, None)


def _imported(state: OwnState, row: int, event: Imported) -> None:
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
    if columns.stability_h[row] == 0.0 and not columns.held[row]:
        files.owner.setdefault(row, origin)
    whole = files.owner.get(row) == origin
    files.known.setdefault(row, {})[event.source] = event.n
    match inner:
        case Learn():
            _learn(state, row, inner)
        case Share():
            _add_tags(state, row, inner.tags)  # its spaces are for the home that wrote it
        case Consolidate() | Rescore():
            if whole:
                _rate(state, row, inner)
        case Outcome():
            _imported_outcome(state, row, event.source, inner, whole)
        case Deprecate() | Restore():
            if whole:
                state.decisions.apply(columns, row, inner)
        case Connect():
            if whole or inner.other not in state.links.get(row, {}):
                _connect(state, row, inner)
        case Counted():
            _counted(state, row, event.source, inner, whole)
        case RecallHit():
            pass  # its episode was answered there, or never will be
        case Imported():
            raise FoldError("an imported event holds another one")


def _imported_outcome(state: OwnState, row: int, source: int, event: Outcome, whole: bool) -> None:
    columns = state.columns
    if event.version:
        context = state.contexts.ensure(event.context)
        alpha_fx, beta_fx = state.imported.add(row, source, context, event.alpha_fx, event.beta_fx)
        columns.imported_a[row] += alpha_fx
        columns.imported_b[row] += beta_fx
    if whole:
        _start(columns, row, event.hour)
        elapsed_h = max(event.hour - columns.t_last_h[row], 0.0)
        fraction = min(event.weight_fx * event.retrieval_fx / _FULL_STEP, 1.0)
        _step(state, row, event, fraction, elapsed_h)
        _count(state, row, event)


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
    _start(columns, row, event.hour)
    before = priors.get(source, Prior(0, 0, exact=False))
    columns.prior_a[row] += event.prior_a_fx - before.alpha_fx
    columns.prior_b[row] += event.prior_b_fx - before.beta_fx
    priors[source] = Prior(event.prior_a_fx, event.prior_b_fx, event.exact)
    if event.stability_h > 0.0:
        columns.stability_h[row] = min(max(event.stability_h, MIN_STABILITY_H), MAX_STABILITY_H)
    if event.rating >= 0.0:
        columns.importance[row] = event.rating
        columns.rated[row] = 1
        if columns.held[row]:
            columns.status[row] = Status.ACTIVE
    _touch(state, row, event.hour)


def _imported_trust(state: OwnState, event: ImportedTrust) -> None:
    state.imported.trust_known[event.source] = event.n
    change = decode_home(event.event)
    if event.in_force and isinstance(change, Trust):
        apply_home(state, change)
