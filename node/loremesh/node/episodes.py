"""The last episodes of a block, read back from the log: when it was used, what for, and how that went."""

from __future__ import annotations

from typing import Final

import msgspec

from loremesh.node.events import Outcome, RecallHit, decode_own
from loremesh.node.ground import Ground
from loremesh.node.ownstate import MAX_EPISODE_BLOCKS
from loremesh.node.results import EpisodeSeen
from loremesh.node.store.values import Kind, LogRow
from loremesh.sync.fixed import ONE

MAX_EPISODES_SHOWN: Final = 10
"""Episodes told of a block: what happened lately; `events` tells the rest."""

NEWEST_EVENTS: Final = 256
"""Events of the block looked through for them: a recall and its outcome are two."""

NEARBY_ROWS: Final = 16
"""Log rows read at a time round an event for those of the same episode: events of one stand together."""


class _Found(msgspec.Struct):
    """An episode on its way back through the log; `n` is the row of the newest event of it."""

    key: bytes
    n: int
    hit: RecallHit | None = None
    outcome: Outcome | None = None


async def last_episodes(ground: Ground, row: int) -> list[EpisodeSeen]:
    """The block's newest MAX_EPISODES_SHOWN episodes and confirms, newest first. Inside `exclusive` only."""
    found: dict[bytes, _Found] = {}
    order: list[_Found] = []
    for one in await ground.store.newest_events(row, NEWEST_EVENTS):
        if one.payload is None:
            continue
        event = decode_own(one.payload)
        if not isinstance(event, RecallHit | Outcome):
            continue
        known = found.get(event.episode) if event.episode else None
        if known is None:
            if len(order) == MAX_EPISODES_SHOWN:
                continue  # an older event may belong to one that is told
            known = _Found(event.episode, one.n)
            order.append(known)
            if event.episode:
                found[event.episode] = known
        if isinstance(event, RecallHit):
            known.hit = event
        else:
            known.outcome = known.outcome or event
    return [await _told(ground, row, one) for one in order]


async def _told(ground: Ground, row: int, found: _Found) -> EpisodeSeen:
    first = found.hit or found.outcome
    if first is None:
        raise ValueError("an episode without an event")
    outcome = found.outcome
    return EpisodeSeen(
        episode=found.key.hex(),
        hour=first.hour,
        wall_ms=first.wall_ms,
        context=first.context if outcome is None else outcome.context,
        frame="" if found.hit is None else found.hit.frame_name or found.hit.frame.name.lower(),
        signal=None if outcome is None else outcome.signal,
        weight=0.0 if outcome is None else outcome.weight_fx / ONE,
        implicit=outcome is not None and outcome.implicit,
        companions=await _companions(ground, row, found) if found.key else 0,
    )


async def _companions(ground: Ground, row: int, found: _Found) -> int:
    """How many other blocks were used in the episode and are still here."""
    held = ground.memory.own.episodes.get(found.key)
    if held is not None:
        return len(held.rows) - 1
    rows = {row}
    for step in (-1, 1):
        at = found.n + step
        while abs(at - found.n) <= MAX_EPISODE_BLOCKS:
            near = range(at, at + step * NEARBY_ROWS, step)
            numbers = [n for n in near if 0 < n <= ground.store.position.n]
            here = [one for one in await ground.store.read(numbers) if _is_of(one, found.key)]
            rows.update(one.row for one in here)
            if len(here) < NEARBY_ROWS:
                break
            at += step * NEARBY_ROWS
    return len(rows) - 1


def _is_of(row: LogRow, episode: bytes) -> bool:
    if row.kind is not Kind.OWN or row.payload is None:
        return False
    event = decode_own(row.payload)
    return isinstance(event, RecallHit | Outcome) and event.episode == episode
