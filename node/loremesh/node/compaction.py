"""Which rows of the log an aggregate can stand for, and the aggregates: what compaction does, without IO.

Of a block's events only outcomes and recalls are many. All of them but the newest can go when, in the place
of the last that goes, stands what they came to. Nothing goes unless the fold of what is left gives what is in
use, to the bit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from loremesh.node.aggregates import of, told, with_decisions
from loremesh.node.decisions import NO_BLOCK, Decision
from loremesh.node.events import (
    Aggregate,
    Consolidate,
    HomeEvent,
    Imported,
    ImportSource,
    Incarnation,
    Learn,
    Outcome,
    OwnEvent,
    RecallHit,
    Rescore,
)
from loremesh.node.fold import apply, apply_home
from loremesh.node.ownstate import OwnState
from loremesh.sync.rows import Contexts

WORTH_IT: Final = 8
"""Rows that have to go: an aggregate is as large as two or three of them, and what it stands for is told in
sum only."""

NO_ROW: Final = -1


class Row(NamedTuple):
    """An event about a block and its place in the log."""

    n: int
    event: OwnEvent


class Rule(msgspec.Struct, frozen=True, eq=False):
    """What is kept of each block: the last `keep` outcomes and recalls, those after hour `before_h`, and
    those of episodes in `waiting`, which can still take their outcome or be told it again. Fewer than `least`
    do not go.
    """

    keep: int
    before_h: float
    waiting: Collection[bytes]
    least: int = WORTH_IT


class Chosen(msgspec.Struct, frozen=True):
    """Of one block: rows that go, and the row in whose place the aggregate comes, None where one is behind
    them already.
    """

    gone: list[int]
    at: int | None


class Plan(msgspec.Struct, frozen=True):
    """`aggregates`: (block row, log row, event). `gone`: log rows that go. `uneven`: block rows that are left
    alone, because what the log says of them is not what is in use.
    """

    aggregates: list[tuple[int, int, Aggregate]]
    gone: list[int]
    uneven: list[int]


def choose(rows: Sequence[Row], rule: Rule) -> Chosen | None:
    """What can go of a block with these events, ascending; None where it is not worth it."""
    used = [at for at, row in enumerate(rows) if isinstance(row.event, Outcome | RecallHit)]
    older = used[: max(len(used) - rule.keep, 0)]
    start = _start(rows)
    gone = [at for at in older if at != start and _may_go(rows[at].event, rule)]
    if len(gone) < rule.least:
        return None
    behind = max((at for at, row in enumerate(rows) if isinstance(row.event, Aggregate)), default=-1)
    earlier = [at for at in range(behind) if isinstance(rows[at].event, Aggregate)]
    last = gone.pop() if gone[-1] > behind else None
    if last is not None and behind >= 0:
        earlier.append(behind)
    return Chosen(sorted(rows[at].n for at in (*gone, *earlier)), None if last is None else rows[last].n)


def plan(
    blocks: Mapping[int, Sequence[Row]],
    home: Sequence[tuple[int, HomeEvent]],
    live: OwnState,
    rule: Rule,
) -> Plan:
    """What becomes of these blocks, given all of their events by block row.

    `home`: (log row, event) about the home, ascending. Reads `live`, the state in use, and changes nothing.
    """
    chosen = {row: found for row, events in blocks.items() if (found := choose(events, rule)) is not None}
    if not chosen:
        return Plan([], [], [])
    begun = [(n, NO_ROW, event) for n, event in home if isinstance(event, Incarnation | ImportSource)]
    log = sorted(
        [*begun, *((n, row, event) for row in chosen for n, event in blocks[row])], key=lambda one: one[0]
    )
    made: dict[int, Aggregate] = {}
    whole = OwnState(live.firsthand.origin, Contexts(), live.rules)
    for n, row, event in log:
        _fold(whole, row, event)
        if row != NO_ROW and n == chosen[row].at:
            until = told(of(whole, row), [event for at, event in blocks[row] if at <= n])
            made[row] = with_decisions(until, live.decisions.trail(row))
    gone = {n for found in chosen.values() for n in found.gone}
    left = OwnState(live.firsthand.origin, Contexts(), live.rules)
    for n, row, event in log:
        if n not in gone:
            _fold(left, row, made[row] if row != NO_ROW and n == chosen[row].at else event)
    uneven = [
        row
        for row in chosen
        if not of(whole, row) == of(left, row) == of(live, row) or _decided(left, row) != _decided(live, row)
    ]
    even = [row for row in chosen if row not in set(uneven)]
    return Plan(
        [(row, at, made[row]) for row in even if (at := chosen[row].at) is not None],
        [n for row in even for n in chosen[row].gone],
        uneven,
    )


def _fold(state: OwnState, row: int, event: OwnEvent | HomeEvent) -> None:
    if isinstance(event, HomeEvent):
        apply_home(state, event)
    else:
        apply(state, row, event)


def _decided(state: OwnState, row: int) -> list[Decision]:
    """What was decided by events of the block itself."""
    return [one for one in state.decisions.trail(row) if one.by == NO_BLOCK]


def _may_go(event: OwnEvent, rule: Rule) -> bool:
    if not isinstance(event, Outcome | RecallHit) or event.hour > rule.before_h:
        return False
    return event.episode not in rule.waiting


def _start(rows: Sequence[Row]) -> int:
    """The place of an outcome that gave the block its first S and t_last; -1 where another event did.

    It stays: a file that comes later finds a block with a history of its own, or one without.
    """
    for at, row in enumerate(rows):
        if isinstance(row.event, Outcome):
            return at
        if isinstance(row.event, Learn | Consolidate | Rescore | Imported):
            return -1
        if isinstance(row.event, Aggregate) and row.event.stability_h > 0.0:
            return -1
    return -1
