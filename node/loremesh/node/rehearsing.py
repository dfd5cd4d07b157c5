"""What is due: blocks that are worth keeping and about to fade, so that an agent can rehearse them in time.

A block is worth keeping when its utility (the mean, in the context asked for, backed off to the total as
recall does) is above ½ and its importance is not below ½; it is due when R will be below 0.9 at the end of
the horizon if nothing happens. What is lost by then is utility · importance · (R now - R then): what fades
fast and matters comes first, what was lost long ago loses little more and comes last.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.node.errors import UsageError
from loremesh.node.explaining import credible_utility
from loremesh.node.finding import context_evidence
from loremesh.node.ground import Ground
from loremesh.node.memory import Memory
from loremesh.node.score import utility_terms
from loremesh.node.tended import Due, DueBlock
from loremesh.sync.content import context_label
from loremesh.sync.fixed import ONE

KEPT_ABOVE: Final = 0.5
"""Utility above which, and importance from which on, a block is worth keeping: it helped more often than not,
and is rated no worse than the middle."""

DUE_BELOW: Final = 0.9
"""R that is kept up: the recall that stability is defined by, and spaced repetition aims for."""

HORIZON_H: Final = 24.0
"""Active hours looked ahead: as long as a block that was just learned keeps R above DUE_BELOW."""

MAX_HORIZON_H: Final = 24.0 * 366
MAX_DUE: Final = 1_000


class Asked(msgspec.Struct, frozen=True):
    """In which context, how many at most, how many active hours ahead."""

    context: str = ""
    limit: int = 20
    horizon_h: float = HORIZON_H


async def due(ground: Ground, asked: Asked) -> Due:
    """The blocks that are due, greatest loss first. Reading is not evidence: nothing moves."""
    if not 1 <= asked.limit <= MAX_DUE:
        raise UsageError(f"limit is {asked.limit}", f"ask for 1 to {MAX_DUE} blocks")
    if not (math.isfinite(asked.horizon_h) and 0.0 < asked.horizon_h <= MAX_HORIZON_H):
        raise UsageError(
            f"horizon is {asked.horizon_h!r}", f"give active hours above 0, up to {MAX_HORIZON_H:g}"
        )
    label = context_label(asked.context)

    async def work() -> Due:
        await ground.refresh()
        hour, memory = ground.hour(), ground.memory
        found, count = _due(memory, hour, msgspec.structs.replace(asked, context=label), _backoff(ground))
        rows = [row for row, _ in found]
        texts = await ground.store.texts(rows)
        blocks = [msgspec.structs.replace(one, text=texts.get(row, "")) for row, one in found]
        return Due(hour, asked.horizon_h, label, count, blocks)

    return await ground.exclusive(work)


def _backoff(ground: Ground) -> float:
    return ground.settings.memory.context_backoff


def _due(memory: Memory, hour: float, asked: Asked, backoff: float) -> tuple[list[tuple[int, DueBlock]], int]:
    """What is said of the first blocks, by row, and how many there are in all."""
    length = memory.length
    own = memory.own.columns.views(max(length, memory.own.columns.length))
    effective = memory.effective.rows
    alpha, beta = effective.alpha[:length], effective.beta[:length]
    context = context_evidence(memory, asked.context) if asked.context else None
    utility = utility_terms(alpha, beta, context, backoff)[0].astype(np.float64)
    importance = own.importance[:length]
    kept = memory.readable() & (utility > KEPT_ABOVE) & (importance >= KEPT_ABOVE)
    rows = np.flatnonzero(kept)
    fading = memory.fading(rows, hour)
    now, then = fading.after(0.0), fading.after(asked.horizon_h)
    loss = utility[rows] * importance[rows] * (now - then)
    is_due = np.flatnonzero(then < DUE_BELOW)
    first = _greatest(loss, is_due, asked.limit, lambda at: memory.sync.index.id(int(rows[at])))
    chosen = rows[first]
    shown = memory.fading(chosen, hour)
    to_90, to_50 = shown.until(0.9), shown.until(0.5)
    low, high = credible_utility(alpha[chosen] / ONE, beta[chosen] / ONE)
    told = [
        DueBlock(
            block=memory.block_hex(row),
            text="",
            retrievability=float(now[at]),
            retrievability_then=float(then[at]),
            to_90_h=_hours(to_90, place),
            to_50_h=_hours(to_50, place),
            utility=float(utility[row]),
            utility_low=float(low[place]),
            utility_high=float(high[place]),
            importance=float(importance[row]),
            loss=float(loss[at]),
        )
        for place, (at, row) in enumerate(zip(first.tolist(), chosen.tolist(), strict=True))
    ]
    return list(zip(chosen.tolist(), told, strict=True)), len(is_due)


def _greatest(
    loss: NDArray[np.float64], among: NDArray[np.int64], limit: int, name: Callable[[int], bytes]
) -> NDArray[np.int64]:
    """The places of the greatest losses, greatest first, ties by name."""
    if len(among) > limit:
        least = np.partition(loss[among], len(among) - limit)[len(among) - limit]
        among = among[loss[among] >= least]
    order = sorted(among.tolist(), key=lambda at: (-loss[at], name(at)))
    return np.array(order[:limit], np.int64)


def _hours(found: NDArray[np.float64], at: int) -> float | None:
    return float(found[at]) if np.isfinite(found[at]) else None
