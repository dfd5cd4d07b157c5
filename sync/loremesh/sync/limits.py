"""Limits: how much a principal may change here per time (DESIGN §4, "Limits").

Over a limit means later, never lost: a deferred frame is fetched again by its number. Time is an argument, in
seconds of any steady clock. Buckets are not kept across restarts: a restart refills them.
"""

from typing import assert_never

import msgspec

from loremesh.sync.errors import InvalidInput
from loremesh.sync.fixed import ONE
from loremesh.sync.outcomes import Charge, Limit


class Budgets(msgspec.Struct, frozen=True):
    """What each principal may do in each space. The reasons for the figures: `sync/README.md`, "Limits"."""

    bytes_per_s: float = 1024 * 1024
    bytes_burst: float = 64 * 1024 * 1024
    frames_per_s: float = 64
    frames_burst: float = 4096
    mass_per_h: float = 10_000
    """Raw change of mass, Σ(|Δα| + |Δβ|), at most 1,000 counted per register."""
    mass_burst: float = 10_000
    initial_registers: int = 100_000
    """Registers whose first statement is free of the mass budget: a peer's history when we meet it."""
    blocks_per_h: float = 2_000
    """Texts that nobody had provided before."""
    blocks_burst: float = 20_000
    control_frames_per_s: float = 1
    control_burst: float = 64
    quarantine_bytes: int = 4 * 1024 * 1024
    """Frames kept per origin that has no trust, over all its incarnations in a space."""
    max_registers: int = 1_000_000
    """Registers held per principal in a space: about 100 bytes of memory each."""


class Bucket(msgspec.Struct, frozen=True):
    """A token bucket at one moment: above zero it admits a frame, whatever its cost, and may go into debt."""

    level: float
    at_s: float


class Meter(msgspec.Struct, frozen=True):
    """How fast a bucket fills and how much it holds."""

    per_s: float
    burst: float


def meter(budgets: Budgets, limit: Limit) -> Meter:
    """The meter of a limit that has a bucket. Raises `InvalidInput` for `QUARANTINE`, a stock."""
    match limit:
        case Limit.BYTES:
            return Meter(budgets.bytes_per_s, budgets.bytes_burst)
        case Limit.FRAMES:
            return Meter(budgets.frames_per_s, budgets.frames_burst)
        case Limit.MASS:
            return Meter(budgets.mass_per_h / 3600, budgets.mass_burst)
        case Limit.BLOCKS:
            return Meter(budgets.blocks_per_h / 3600, budgets.blocks_burst)
        case Limit.CONTROL:
            return Meter(budgets.control_frames_per_s, budgets.control_burst)
        case Limit.QUARANTINE:
            raise InvalidInput("limit", "QUARANTINE is a stock and has no meter")
        case _:
            assert_never(limit)


def level(bucket: Bucket | None, of: Meter, now_s: float) -> float:
    """What is in the bucket now. One that was never used is full; a clock that went back fills nothing."""
    if bucket is None:
        return of.burst
    return min(of.burst, bucket.level + max(0.0, now_s - bucket.at_s) * of.per_s)


def drawn(bucket: Bucket | None, of: Meter, now_s: float, amount: float) -> Bucket:
    """The bucket after `amount` was taken out, below zero if need be."""
    return Bucket(level(bucket, of, now_s) - amount, now_s)


def open_again_s(bucket: Bucket | None, of: Meter, now_s: float) -> float:
    """When the bucket admits a frame: `now_s` if it does now, else when one unit will be in it (∞: never)."""
    lacking = level(bucket, of, now_s)
    if lacking > 0:
        return now_s
    return (
        now_s + (min(1.0, of.burst) - lacking) / of.per_s if of.per_s > 0 and of.burst > 0 else float("inf")
    )


def amounts(charge: Charge, control: bool) -> dict[Limit, float]:
    """What a frame takes out of which buckets of its principal."""
    if charge.exempt:
        return {}
    if control:
        return {Limit.CONTROL: 1}
    taken = {Limit.BYTES: float(charge.size_bytes), Limit.FRAMES: 1.0}
    if charge.mass_fx:
        taken[Limit.MASS] = charge.mass_fx / ONE
    if charge.blocks:
        taken[Limit.BLOCKS] = float(charge.blocks)
    return taken
