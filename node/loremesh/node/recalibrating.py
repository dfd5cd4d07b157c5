"""`doctor recalibrate`: how much each rater's ratings count, by what came of the blocks it rated.

A weight is an event of the home and holds for the whole log, as stated ratings are kept by rater: taking it
up, or back, is arithmetic over the columns. Importance stays, and so does everything that is published.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from loremesh.node.calibration import (
    MAX_EACH,
    MIN_BLOCKS,
    MIN_RARER,
    Calibration,
    Cases,
    calibrate,
    cases_of,
)
from loremesh.node.doctoring import CalibrationReport, RaterCalibrated
from loremesh.node.errors import UsageError
from loremesh.node.events import Outcome, Recalibrated, decode_home, decode_own
from loremesh.node.fold import apply, apply_home
from loremesh.node.ground import NO_ROW, Ground
from loremesh.node.ownstate import OwnState
from loremesh.node.parts import Progress
from loremesh.node.raters import OTHERS
from loremesh.node.store.store import Store
from loremesh.node.store.values import Kind
from loremesh.sync.fixed import ONE
from loremesh.sync.rows import Contexts

MAX_BLOCKS: Final = 20_000
"""Blocks looked at, those first used last: enough for two digits of any weight, in some ten seconds."""

WHO: Final = "doctor recalibrate"

Taken = tuple[float, float, float, float, list[tuple[str, float, float]]]
"""Signal, weight, α and β besides ratings, and what each rater stated, before one outcome."""


async def outcomes_after_ratings(store: Store, own_key: bytes) -> Cases:
    """The first MAX_EACH judged outcomes of every block after it was rated, with what was known before each.

    Implicit outcomes are evidence and judge nothing, for they never fail.
    """
    blocks: dict[int, list[Taken]] = {}
    own = OwnState(own_key, Contexts())
    async for rows in store.scan():
        for row in rows:
            if row.payload is None:
                continue
            if row.kind is Kind.HOME:
                apply_home(own, decode_home(row.payload))
            elif row.kind is Kind.OWN:
                event = decode_own(row.payload)
                taken = _before(own, row.row, event) if isinstance(event, Outcome) else None
                if taken is not None and len(blocks.get(row.row, ())) < MAX_EACH:
                    blocks.setdefault(row.row, []).append(taken)
                    while len(blocks) > MAX_BLOCKS:
                        del blocks[next(iter(blocks))]
                apply(own, row.row, event)
    return cases_of([(number, *taken) for number, block in enumerate(blocks.values()) for taken in block])


def _before(own: OwnState, row: int, event: Outcome) -> Taken | None:
    """What was known of the block just before this outcome; None for one that judges nothing."""
    said = own.raters.of(row)
    weight = min(event.weight_fx * event.retrieval_fx / (ONE * ONE), 1.0)
    if not said or weight <= 0.0 or event.implicit:
        return None
    columns = own.columns
    alpha = columns.prior_a[row] + columns.self_a[row] + columns.imported_a[row]
    beta = columns.prior_b[row] + columns.self_b[row] + columns.imported_b[row]
    stated = [(rater, a / ONE, b / ONE) for rater, a, b in said]
    return event.signal, weight, alpha / ONE, beta / ONE, stated


async def recalibrate(
    ground: Ground, *, keep: bool = True, progress: Progress | None = None, who: str = WHO
) -> CalibrationReport:
    """Judge every rater by later outcomes, and weigh it anew where these are then forecast better.

    `keep` false only tells what it would do.
    """

    async def read() -> Cases:
        return await outcomes_after_ratings(ground.store, ground.memory.sync.own)

    cases = await ground.exclusive(read)
    force = {rater: fx / ONE for rater, fx in ground.memory.own.raters.multipliers.items()}
    loop = asyncio.get_running_loop()

    def told(done: int, total: int) -> None:
        if progress is not None:
            loop.call_soon_threadsafe(progress, done, total)

    found = await asyncio.to_thread(calibrate, cases, force, told)
    chosen = [one for one in found if one.better and one.rater != OTHERS]
    if keep and chosen:
        await _weigh(ground, [_event(ground, one, who) for one in chosen])
    kept = {one.rater for one in chosen} if keep else set()
    return CalibrationReport(
        changed=bool(kept), reverted=False, raters=[_report(one, one.rater in kept, keep) for one in found]
    )


async def revert_calibration(ground: Ground, *, who: str = WHO) -> CalibrationReport:
    """Let every rater count as stated again. Raises UsageError when all do."""
    force = dict(ground.memory.own.raters.multipliers)
    if not force:
        raise UsageError("every rater's ratings count as they were stated", "there is nothing to take back")
    stamp = ground.stamp()
    events = [Recalibrated(stamp.hour, stamp.wall_ms, rater, ONE, who=who) for rater in sorted(force)]
    await _weigh(ground, events)
    raters = [
        RaterCalibrated(
            rater=rater,
            kept=True,
            why="its ratings count as stated again",
            multiplier=1.0,
            multiplier_before=fx / ONE,
        )
        for rater, fx in sorted(force.items())
    ]
    return CalibrationReport(changed=True, reverted=True, raters=raters)


async def _weigh(ground: Ground, events: Sequence[Recalibrated]) -> None:
    async def work() -> None:
        await ground.record([(NO_ROW, event) for event in events])
        await ground.refresh()

    await ground.exclusive(work)


def _event(ground: Ground, found: Calibration, who: str) -> Recalibrated:
    stamp = ground.stamp()
    return Recalibrated(
        stamp.hour,
        stamp.wall_ms,
        found.rater,
        round(found.multiplier * ONE),
        found.blocks,
        found.outcomes,
        found.worth,
        found.low,
        found.high,
        found.loss_before,
        found.loss_after,
        found.gain_at_least,
        who,
    )


def _report(found: Calibration, kept: bool, keep: bool) -> RaterCalibrated:
    return RaterCalibrated(
        rater=found.rater,
        kept=kept,
        why=_why(found, kept, keep),
        multiplier=round(found.multiplier * ONE) / ONE,
        multiplier_before=found.before,
        worth=found.worth,
        worth_before=found.worth_before,
        worth_low=found.low,
        worth_high=found.high,
        blocks=found.blocks,
        outcomes=found.outcomes,
        loss_before=found.loss_before,
        loss_after=found.loss_after,
        gain=found.gain,
        gain_at_least=found.gain_at_least,
        bias=found.bias,
        correlation=found.correlation,
    )


def _why(found: Calibration, kept: bool, keep: bool) -> str:
    """The decision in words and figures."""
    if not found.enough:
        return _too_few(found)
    if found.rater == OTHERS:
        return "refused: these ratings name no rater, or one of too many, and cannot be weighed apart"
    return f"{'kept' if kept else 'not kept, as asked'}: {_for(found)}" if found.better else _against(found)


def _too_few(found: Calibration) -> str:
    if found.blocks < MIN_BLOCKS:
        return (
            f"refused: {found.blocks} blocks have a judged outcome after a rating, and it takes {MIN_BLOCKS}"
        )
    return f"refused: of the outcomes only {found.rarer:g} went the rarer way, and it takes {MIN_RARER:g}"


def _for(found: Calibration) -> str:
    if found.multiplier:
        return f"a rating is worth {found.worth:.2f} outcomes; {_gain(found)}"
    if found.gain_at_least > 0.0:
        return f"{_silent(found)}, and without them {_gain(found)}"
    return (
        f"{_silent(found)}; what they say makes held-out forecasts {found.noise:.4f} nats worse each "
        f"(at least {found.noise_at_least:.4f} with 95 % confidence)"
    )


def _against(found: Calibration) -> str:
    stands = "the weight in use stands"
    if found.informed and found.gain_first < 0.0 < found.gain:
        return (
            f"refused: a rating seems worth {found.worth:.2f} outcomes and counts as "
            f"{found.worth_before:.2f}, but first outcomes are then forecast {-found.gain_first:.4f} nats "
            f"worse each, and it is for them that ratings are; {stands}"
        )
    if found.informed:
        return (
            f"refused: a rating seems worth {found.worth:.2f} outcomes and counts as "
            f"{found.worth_before:.2f}; {_gain(found)}, which may be chance or too little to matter; "
            f"{stands}"
        )
    if found.before == 0.0:
        return f"refused: {_silent(found)}, and they count for nothing already"
    if found.gain_at_most < 0.0:
        return (
            f"refused: {_silent(found)}, but without them forecasts are {-found.gain:.4f} nats worse each: "
            f"it is their mass that helps, not what they say; {stands}"
        )
    return f"refused: {_silent(found)}, and it is not clear that they do harm; {stands}"


def _gain(found: Calibration) -> str:
    return (
        f"held-out outcomes are forecast {found.gain:.4f} nats better each "
        f"(at least {found.gain_at_least:.4f} with 95 % confidence)"
    )


def _silent(found: Calibration) -> str:
    if found.correlation < 0.0 and found.noise_at_least > 0.0:
        return f"its ratings go against how things went (correlation {found.correlation:.2f})"
    return f"its ratings do not tell one block from another (correlation {found.correlation:.2f})"
