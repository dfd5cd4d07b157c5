"""The log as people read it."""

from __future__ import annotations

from typing import Final

import msgspec

from loremesh.crypto.peerid import peer_id
from loremesh.node.errors import UsageError
from loremesh.node.events import (
    Aggregate,
    Forgot,
    HomeEvent,
    Import,
    Imported,
    ImportedTrust,
    ImportSource,
    Incarnation,
    OwnEvent,
    RecallHit,
    Trust,
    decode_home,
    decode_own,
)
from loremesh.node.events import kind_of as own_kind_of
from loremesh.node.framelog import decode_head
from loremesh.node.ground import Ground
from loremesh.node.results import EventSeen
from loremesh.node.store.values import Kind, LogRow, State
from loremesh.node.tiers import Level
from loremesh.sync.fixed import ONE
from loremesh.sync.wire import decode_header

MAX_EVENTS: Final = 10_000
"""Rows in one answer; `after` pages on."""

AHEAD_MS: Final = 10 * 60 * 1000
"""A frame whose time is further ahead of its arrival is marked: its sender's clock is off (DESIGN §7)."""

GONE: Final = {State.FORGOTTEN: "forgotten", State.AGGREGATED: "aggregated"}
"""Own events of which nothing but the number is left, and how that is said."""

Detail = dict[str, str | int | float | bool | list[str | float] | None]


async def events_seen(ground: Ground, block: str | None, limit: int, after: int) -> list[EventSeen]:
    """Rows behind log row `after`, `limit` at most: own events of a block, or everything."""
    if not 1 <= limit <= MAX_EVENTS:
        raise UsageError(f"limit is {limit}", f"ask for 1 to {MAX_EVENTS} events")
    if after < 0:
        raise UsageError(f"after is {after}", "give the number of a log row, or 0 for the beginning")

    async def work() -> list[EventSeen]:
        await ground.refresh()
        if block is not None:
            row = ground.memory.row_named(block)
            return [_seen(ground, one) for one in await ground.store.events(row, after, limit)]
        found: list[EventSeen] = []
        async for rows in ground.store.scan(after):
            found += [_seen(ground, one) for one in rows[: limit - len(found)]]
            if len(found) >= limit:
                break
        return found

    return await ground.exclusive(work)


def _seen(ground: Ground, row: LogRow) -> EventSeen:
    if row.kind is Kind.FRAME:
        head = decode_head(row.header)
        header = decode_header(head.header)
        detail: Detail = {
            "from": peer_id(header.origin),
            "kind": header.kind.name.lower(),
            "number": header.number,
            "state": row.state.name.lower(),
            "sent_ms": header.time_ms,
            "ahead": header.time_ms - head.wall_ms > AHEAD_MS,
        }
        return EventSeen(row.n, "frame", "", head.hour, head.wall_ms, detail)
    block = ground.memory.block_hex(row.row) if row.kind is Kind.OWN else ""
    if row.payload is None:
        return EventSeen(row.n, GONE.get(row.state, "damaged"), block, 0.0, 0, {})
    event: OwnEvent | HomeEvent
    event = decode_own(row.payload) if row.kind is Kind.OWN else decode_home(row.payload)
    if isinstance(event, Imported):
        inner = decode_own(event.event)
        source = ground.memory.own.imported.sources[event.source]
        taken: Detail = {"from": source.name, "there": event.n, **_detail(ground, inner)}
        return EventSeen(row.n, own_kind_of(inner), block, event.hour, event.wall_ms, taken)
    return EventSeen(row.n, own_kind_of(event), block, event.hour, event.wall_ms, _detail(ground, event))


def _detail(ground: Ground, event: OwnEvent | HomeEvent) -> Detail:
    """The event's fields for reading: evidence in plain numbers, ids as people see them."""
    match event:
        case Incarnation():
            return {"id": event.id.hex(), "why": event.why}
        case Trust():
            return {
                "peer": peer_id(event.peer),
                "trust": event.value_fx / ONE,
                "revoked": event.revoked,
                "why": event.why,
                "who": event.who,
            }
        case Forgot() | Aggregate():
            return _sum(event) if isinstance(event, Aggregate) else {}
        case ImportSource():
            return {"number": event.number, "name": event.name, "origin": event.origin.hex()}
        case Import():
            return {"file": event.file.hex(), "shift_h": event.shift_h}
        case ImportedTrust():
            return {"in_force": event.in_force, **_detail(ground, decode_home(event.event))}
        case RecallHit():
            return {
                "episode": event.episode.hex(),
                "frame": event.frame_name or event.frame.name.lower(),
                "context": event.context,
                "score": event.score,
                "retrieval": event.retrieval_fx / ONE,
            }
        case _:
            return {
                name.removesuffix("_fx"): _plain(ground, name, value)
                for name, value in msgspec.structs.asdict(event).items()
                if name not in ("hour", "wall_ms")
            }


def _sum(event: Aggregate) -> Detail:
    """What an aggregate stands for, and what it came to."""
    return {
        "outcomes": event.outcomes,
        "recalls": event.recalls,
        "from_hour": event.first_hour,
        "from_ms": event.first_ms,
        "alpha": sum(event.alpha_fx) / ONE,
        "beta": sum(event.beta_fx) / ONE,
        "stability_h": event.stability_h,
        "difficulty": event.difficulty,
        "rules": event.forgetting,
        "contexts": list(event.labels),
    }


def _plain(ground: Ground, name: str, value: object) -> str | int | float | bool | list[str | float] | None:
    match value:
        case int() if name.endswith("_fx"):
            return value / ONE
        case int() if name in ("other", "summary"):
            return ground.memory.block_hex(value) if value >= 0 else ""
        case int() if name == "level":
            return Level(value).name.lower()
        case tuple() if name.endswith("_fx"):
            return [one / ONE for one in value]
        case bytes():
            return value.hex()
        case tuple():
            return [_named(ground, one) for one in value]
        case str() | int() | float():
            return value
        case _:
            return None


def _named(ground: Ground, one: object) -> str:
    """A space by its name, a row by its block's id (a forgotten one has none), anything else as it is."""
    spaces = ground.memory.sync.spaces
    match one:
        case bytes():
            return spaces[one].genesis.name if one in spaces else one.hex()
        case int():
            return ground.memory.block_hex(one) or "forgotten"
        case _:
            return str(one)
