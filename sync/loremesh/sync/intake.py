"""The porch: what is kept about frames that have not been taken. No part of the state; lost at a restart."""

from typing import TypeVar, assert_never

import msgspec

from loremesh.sync.feed import FeedKey
from loremesh.sync.limits import Bucket, Budgets, amounts, drawn, level, meter, open_again_s
from loremesh.sync.outcomes import (
    Applied,
    Buffered,
    Charge,
    Deferred,
    Duplicate,
    Limit,
    Outcome,
    Quarantined,
    Rejected,
)
from loremesh.sync.wire import SignedFrame

MAX_WAITING_FRAMES = 256
"""Frames of one chain that wait for an earlier one: more than reordering on a bus ever amounts to."""
MAX_WAITING_BYTES = 16 * 1024 * 1024
"""Of all waiting frames; what does not fit is fetched again by its number."""
MAX_STRANGER_BYTES = 1024 * 1024
"""Of those whose origin is not admitted yet: its admission travels on another subject and may come later."""
MAX_TALLIES = 4096
"""Peers with counters of their own; more are counted together."""

MAX_HALTED = 4096
"""Chains noted as waiting for a budget, and as many as stopped: incarnations cost a peer nothing to make up.
The one noted longest ago goes; its next frame is examined again."""

Place = tuple[bytes, FeedKey]
"""A chain within a space."""


class Stopped(msgspec.Struct, frozen=True):
    """A chain whose next frame was refused for good: what follows it cannot be taken either."""

    number: int
    rejected: Rejected


Halt = TypeVar("Halt", Deferred, Stopped)


class Waiting(msgspec.Struct, frozen=True):
    """A verified frame that waits for an earlier one."""

    frame: SignedFrame
    stranger: bool
    """Its origin was not admitted when it came."""


class Intake(msgspec.Struct):
    """Buckets, frames that wait for earlier ones, chains that wait for a budget or stopped, and counters."""

    buckets: dict[tuple[bytes, str, Limit], Bucket] = {}
    """By space, principal and limit."""
    waiting: dict[Place, dict[int, Waiting]] = {}
    waiting_bytes: int = 0
    stranger_bytes: int = 0
    deferred: dict[Place, Deferred] = {}
    stopped: dict[Place, Stopped] = {}
    tally: dict[tuple[bytes, bytes], dict[str, int]] = {}
    """By space and origin (empty: nobody was proven to have signed), then by `label`."""
    busy: bool = False
    """Whether a frame is on its way through the funnel."""


class Limited(msgspec.Struct, frozen=True):
    """Which limit is used up, and until about when."""

    limit: Limit
    until_s: float


def limited(
    intake: Intake, budgets: Budgets, space: bytes, charge: Charge, control: bool, now_s: float
) -> Limited | None:
    """The first limit of the charge's principal that admits nothing now. Changes nothing."""
    for limit in amounts(charge, control):
        until_s = open_again_s(
            intake.buckets.get((space, charge.principal, limit)), meter(budgets, limit), now_s
        )
        if until_s > now_s:
            return Limited(limit, until_s)
    return None


def draw(intake: Intake, budgets: Budgets, space: bytes, charge: Charge, control: bool, now_s: float) -> None:
    """Take what a frame cost out of its principal's buckets."""
    for limit, amount in amounts(charge, control).items():
        of = meter(budgets, limit)
        bucket = drawn(intake.buckets.get((space, charge.principal, limit)), of, now_s, amount)
        if level(bucket, of, now_s) < of.burst:
            intake.buckets[space, charge.principal, limit] = bucket


def keep(intake: Intake, place: Place, frame: SignedFrame, stranger: bool) -> bool:
    """Let a verified frame wait for an earlier one; False where there is no room for it."""
    size = size_bytes(frame)
    held = intake.waiting.get(place, {})
    if frame.header.number in held:
        return True
    if len(held) >= MAX_WAITING_FRAMES or intake.waiting_bytes + size > MAX_WAITING_BYTES:
        return False
    if stranger and intake.stranger_bytes + size > MAX_STRANGER_BYTES:
        return False
    intake.waiting.setdefault(place, {})[frame.header.number] = Waiting(frame, stranger)
    intake.waiting_bytes += size
    intake.stranger_bytes += size if stranger else 0
    return True


def take_waiting(intake: Intake, place: Place, number: int) -> SignedFrame | None:
    """The waiting frame of that number, if it is there; those below it are of no use any more and go."""
    held = intake.waiting.get(place)
    if held is None:
        return None
    found = None
    for one in [one for one in held if one <= number]:
        waiting = held.pop(one)
        intake.waiting_bytes -= size_bytes(waiting.frame)
        intake.stranger_bytes -= size_bytes(waiting.frame) if waiting.stranger else 0
        found = waiting.frame if one == number else found
    if not held:
        del intake.waiting[place]
    return found


def halt(table: dict[Place, Halt], place: Place, why: Halt) -> None:
    """Note in `intake.deferred` or `intake.stopped` why a chain does not go on."""
    if place not in table and len(table) >= MAX_HALTED:
        del table[next(iter(table))]
    table[place] = why


def size_bytes(frame: SignedFrame) -> int:
    """Header, signature and body."""
    return len(frame.header_bytes) + len(frame.signature) + len(frame.body or b"")


def count(intake: Intake, space: bytes, outcome: Outcome) -> None:
    """Count an outcome for its origin."""
    key = (space, outcome.origin)
    if key not in intake.tally and len(intake.tally) >= MAX_TALLIES:
        key = (b"", b"")
    counters = intake.tally.setdefault(key, {})
    name = label(outcome)
    counters[name] = counters.get(name, 0) + 1


def label(outcome: Outcome) -> str:
    """What people read: the outcome, with its limit or reason."""
    match outcome:
        case Applied():
            return "applied"
        case Duplicate():
            return "duplicate"
        case Buffered():
            return "buffered"
        case Quarantined():
            return "quarantined"
        case Deferred(limit=limit):
            return f"deferred: {limit.value}"
        case Rejected(reason=reason):
            return f"rejected: {reason.value}"
        case _:
            assert_never(outcome)
