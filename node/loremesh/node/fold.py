"""The fold: what the node's own events make of its state. Replay and live traffic both go through `apply`.

Events are folded in log order. Everything an event needs was decided when it was made (`evidence`), so the
fold has no choices: the same events give the same state, bit for bit.
"""

from __future__ import annotations

from typing import Final, get_args

from loremesh.node.aggregates import set_down
from loremesh.node.events import (
    INCARNATION_BYTES,
    Aggregate,
    Archive,
    Compacted,
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
    Linked,
    Outcome,
    OwnEvent,
    Recalibrated,
    RecallHit,
    Rescore,
    Restore,
    Revise,
    Share,
    Summarise,
    Trust,
)
from loremesh.node.filed import take_in, take_in_trust
from loremesh.node.imported import FileSource
from loremesh.node.moves import connect, hand_out, learn, link, rate, revise, share, take_outcome, weigh
from loremesh.node.ownstate import (
    FoldError,
    OwnState,
)
from loremesh.sync.rows import MAX_ROWS
from loremesh.sync.trust import PeerTrust

FromFile = Imported | ImportedTrust | ImportSource | Import
NoUse = (
    Consolidate
    | Rescore
    | Linked
    | Archive
    | Deprecate
    | Restore
    | Summarise
    | Trust
    | Forgot
    | Fitted
    | Recalibrated
    | Compacted
    | FromFile
)
_NO_USE: Final = frozenset(get_args(NoUse))  # asked for every event of a log: a set is ten times as fast


def apply(state: OwnState, row: int, event: OwnEvent) -> None:
    """Fold one event about the block in `row`. Raises FoldError, and changes nothing, for an impossible one.

    The columns move as DESIGN §3 says; a block not learned here that gets evidence starts at S = 24 h, D = 5
    without a prior. Time never runs backwards: an earlier hour counts as the last one.
    """
    if not 0 <= row < MAX_ROWS:
        raise FoldError(f"row {row} is no block's")
    match event:
        case Outcome():
            take_outcome(state, row, event)
        case RecallHit():
            hand_out(state, row, event)
        case Learn():
            learn(state, row, event)
        case Share():
            share(state, row, event)
        case Consolidate() | Rescore():
            rate(state, row, event)
        case Connect():
            connect(state, row, event)
        case Linked():
            link(state, row, event)
        case Imported():
            take_in(state, row, event)
        case Archive() | Deprecate() | Restore():
            state.decisions.apply(state.columns, row, event)
        case Revise():
            revise(state, row, event)
        case Aggregate() | Summarise():
            _stand_for(state, row, event)
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
        case Fitted() | Recalibrated():
            _weigh_anew(state, event)
        case Forgot():
            _forget(state, event.row)
            state.firsthand.version = max(state.firsthand.version, event.version)
        case Compacted():
            while len(state.episodes) > event.episodes:
                del state.episodes[next(iter(state.episodes))]
        case ImportSource():
            if event.number != len(state.imported.sources):
                raise FoldError(f"source {event.number} does not follow {len(state.imported.sources)}")
            state.imported.sources.append(FileSource(event.origin, event.incarnation, event.name))
        case Import():
            state.imported.files[event.file] = event.shift_h
        case ImportedTrust():
            change = take_in_trust(state, event)
            if change is not None:
                apply_home(state, change)
    _keep_time(state, event)


def _stand_for(state: OwnState, row: int, event: Aggregate | Summarise) -> None:
    if isinstance(event, Aggregate):
        set_down(state, row, event)
        return
    try:
        state.tiers.apply(row, event)
    except ValueError as error:
        raise FoldError(str(error)) from error


def _weigh_anew(state: OwnState, event: Fitted | Recalibrated) -> None:
    if isinstance(event, Recalibrated):
        weigh(state, event)
        return
    state.fits.pop(event.rules, None)
    if event.weights:
        state.fits[event.rules] = event.weights


def _keep_time(state: OwnState, event: OwnEvent | HomeEvent) -> None:
    """Remember where the clock goes on after a restart.

    What is no use of the memory (a rating, a decision, a change of trust, forgetting, what a file brings)
    comes between two uses and leaves the clock where it is: with a restart and without, the same time counts
    as active.
    """
    use = type(event) not in _NO_USE
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
    state.raters.drop(row)
    state.history.clear(row)
    state.recent.drop(row)
    state.decisions.drop(state.columns, row)
    state.tiers.drop(row)
    if state.tally is not None:
        state.tally.drop(row)
    state.tags.pop(row, None)
    state.shared.pop(row, None)
    state.links.drop(row)
    for key, episode in list(state.episodes.items()):
        if row in episode.rows:
            at = episode.rows.index(row)
            del episode.rows[at], episode.retrieval_fx[at]
            if not episode.rows:
                del state.episodes[key]
