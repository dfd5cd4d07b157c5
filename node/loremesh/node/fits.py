"""`doctor fit`: the forgetting model's weights, fitted to the home's own log and kept only when better.

A fit is an event, so that the log tells when and why S changed, and a record that is read before the log is:
the weights in use decide how the log is folded. Taking a fit up, or back, folds the own events anew; the
published S is by fsrs5 as published before and after, and nothing else moves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec

from loremesh.node.errors import UsageError
from loremesh.node.events import Aggregate, Fitted, Outcome, OwnEvent, decode_home, decode_own
from loremesh.node.fitting import (
    MIN_EACH,
    MIN_HELD_OUT,
    MIN_TRAINED,
    TRAIN_SHARE,
    Fit,
    Happened,
    enough,
    fit,
    judged_outcomes,
)
from loremesh.node.fold import apply, apply_home
from loremesh.node.ground import NO_ROW, Ground
from loremesh.node.ownstate import OwnState
from loremesh.node.parts import Progress
from loremesh.node.records import decode_record, encode_record
from loremesh.node.results import FitReport
from loremesh.node.rulebook import get_rules, model_named
from loremesh.node.rules import RuleSet
from loremesh.node.store.store import Store
from loremesh.node.store.values import Kind
from loremesh.sync.fixed import ONE
from loremesh.sync.rows import Contexts

FITS_KEY: Final = "fits"

MAX_FITTED: Final = 100_000
"""Judged outcomes that a fit looks at; of a longer log the blocks used last. Half a minute of work."""

WHO: Final = "doctor fit"

Weights = tuple[float, ...]


class FitsRecord(msgspec.Struct, frozen=True, array_like=True):
    """The fitted weights in use, by the name of the forgetting model."""

    weights: dict[str, Weights]


async def stored_fits(store: Store) -> Mapping[str, Weights]:
    """The fitted weights in use, by forgetting model; none for a home that never fitted."""
    stored = await store.record(FITS_KEY)
    return decode_record(stored, FitsRecord).weights if stored else {}


async def rules_of(store: Store, name: str) -> RuleSet:
    """The rule set that the settings name, with the home's own weights where it has fitted them."""
    return get_rules(name, await stored_fits(store))


async def happened(store: Store, own_key: bytes) -> list[list[Happened]]:
    """The log's own events as a fit sees them, by block: learning, ratings, and outcomes.

    Outcomes that somebody judged count with min(1, w·v); implicit ones move S like any other and judge
    nothing, for they never fail. Of more than MAX_FITTED judged outcomes the blocks used last are taken.
    """
    blocks: dict[int, list[Happened]] = {}
    own = OwnState(own_key, Contexts())
    async for rows in store.scan():
        for row in rows:
            if row.payload is None:
                continue
            if row.kind is Kind.HOME:
                apply_home(own, decode_home(row.payload))
            elif row.kind is Kind.OWN:
                found = _one(own, row.n, row.row, decode_own(row.payload))
                if found is not None:
                    blocks.setdefault(row.row, []).append(found)
    return _newest(list(blocks.values()))


async def fit_rules(
    ground: Ground, *, keep: bool = True, progress: Progress | None = None, who: str = WHO
) -> FitReport:
    """Fit the weights of the rules in use, and use them when they forecast held-out events better.

    `keep` false only tells what it would do. Raises UsageError for rules that have no weights.
    """
    rules = ground.memory.own.rules
    name = model_named(ground.settings.memory.rules).name
    published = get_rules(name).weights
    if rules.reweighted is None:
        raise UsageError(f"the rules {rules.name} have no weights to fit", "choose others in config.toml")

    async def read() -> list[list[Happened]]:
        return await happened(ground.store, ground.memory.sync.own)

    blocks = await ground.exclusive(read)
    if not enough(blocks):
        too_few = _too_few(name, rules, len(judged_outcomes(blocks)))
        return msgspec.structs.replace(too_few, aggregates=_in_sum(blocks))
    loop = asyncio.get_running_loop()

    def told(done: int, total: int) -> None:
        if progress is not None:
            loop.call_soon_threadsafe(progress, done, total)

    found = await asyncio.to_thread(fit, rules, published, blocks, told)
    kept = keep and found.better
    if kept:
        await _take_up(ground, name, found.weights, found, who)
    return msgspec.structs.replace(_report(name, rules, found, kept, keep), aggregates=_in_sum(blocks))


async def revert_fit(ground: Ground, *, who: str = WHO) -> FitReport:
    """Use the published weights again. Raises UsageError when they are in use."""
    name = model_named(ground.settings.memory.rules).name
    if name not in await stored_fits(ground.store):
        raise UsageError(f"the weights of {name} are the published ones", "there is nothing to take back")
    await _take_up(ground, name, (), None, who)
    return FitReport(
        rules=name,
        kept=False,
        reverted=True,
        why="the published weights are in use again",
        weights=list(ground.memory.own.rules.weights),
    )


async def _take_up(ground: Ground, name: str, weights: Weights, found: Fit | None, who: str) -> None:
    """Log the weights (none: the published ones), remember them, and fold the own events under them."""

    async def work() -> None:
        fits = dict(await stored_fits(ground.store))
        fits.pop(name, None)
        if weights:
            fits[name] = weights
        stamp = ground.stamp()
        event = Fitted(
            stamp.hour,
            stamp.wall_ms,
            name,
            weights,
            found.trained if found else 0,
            found.held_out if found else 0,
            found.held_out_loss.before if found else 0.0,
            found.held_out_loss.after if found else 0.0,
            found.gain_at_least if found else 0.0,
            who,
        )
        rules = get_rules(ground.settings.memory.rules, fits)
        again = await refolded(ground.store, ground.memory.own, rules)
        record = encode_record(FitsRecord(fits)) if fits else None
        await ground.record([(NO_ROW, event)], records={FITS_KEY: record})
        apply_home(again, event)
        ground.memory.take_up(again)
        await ground.refresh()

    await ground.exclusive(work)


async def refolded(store: Store, own: OwnState, rules: RuleSet) -> OwnState:
    """The fold of the log's own events under other rules; contexts keep their numbers."""
    again = OwnState(own.firsthand.origin, own.contexts, rules)
    async for rows in store.scan():
        for row in rows:
            if row.payload is not None and row.kind is Kind.OWN:
                apply(again, row.row, decode_own(row.payload))
            elif row.payload is not None and row.kind is Kind.HOME:
                apply_home(again, decode_home(row.payload))
    return again


def _one(own: OwnState, n: int, row: int, event: OwnEvent) -> Happened | None:
    """Fold the event, and say what of it a fit sees; None for one that neither judges nor refreshes."""
    columns = own.columns
    columns.ensure(row + 1)
    before_h, stability_h = columns.t_last_h[row], columns.stability_h[row]
    apply(own, row, event)
    if isinstance(event, Outcome):
        elapsed_h = max(event.hour - before_h, 0.0) if stability_h else 0.0
        fraction = min(event.weight_fx * event.retrieval_fx / (ONE * ONE), 1.0)
        judged = 0.0 if event.implicit else fraction
        return Happened(n, columns.t_last_h[row], elapsed_h, event.signal, fraction, judged)
    if isinstance(event, Aggregate):
        stands = (event.published_stability_h, event.published_difficulty)
        return Happened(n, columns.t_last_h[row], 0.0, None, stands=stands)
    if columns.t_last_h[row] == before_h and columns.stability_h[row] == stability_h:
        return None
    raised = columns.stability_h[row] > stability_h
    return Happened(n, columns.t_last_h[row], 0.0, None, raised=raised)


def _in_sum(blocks: list[list[Happened]]) -> int:
    """Blocks that begin with what earlier outcomes came to."""
    return sum(any(event.stands is not None for event in block) for block in blocks)


def _newest(blocks: list[list[Happened]]) -> list[list[Happened]]:
    """The blocks used last, with MAX_FITTED judged outcomes together, in the order given."""
    left, kept = MAX_FITTED, set()
    for number in sorted(range(len(blocks)), key=lambda number: -blocks[number][-1].n):
        judged = sum(event.judged > 0.0 for event in blocks[number])
        if judged > left:
            break
        left -= judged
        kept.add(number)
    return [block for number, block in enumerate(blocks) if number in kept]


def _report(name: str, rules: RuleSet, found: Fit, kept: bool, keep: bool) -> FitReport:
    """The fit in words and figures."""
    against = (
        f"held-out outcomes are forecast {found.gain:.4f} nats better each "
        f"(at least {found.gain_at_least:.4f} with 95 % confidence)"
    )
    if kept:
        why = f"kept: {against}"
    elif found.better:
        why = f"not kept, as asked: {against}"
    elif found.rarer < MIN_EACH:
        why = (
            f"refused: of the held-out outcomes only {found.rarer:g} went the rarer way, too few to judge by"
        )
    else:
        why = f"refused: {against}, which may be chance; the weights in use stand"
    return FitReport(
        rules=name,
        kept=kept,
        reverted=False,
        why=why,
        weights=list(found.weights),
        weights_before=list(rules.weights),
        trained=found.trained,
        held_out=found.held_out,
        blocks=found.blocks,
        loss_before=found.held_out_loss.before,
        loss_after=found.held_out_loss.after,
        loss_of_mean=found.held_out_loss.base_rate,
        gain=found.gain,
        gain_at_least=found.gain_at_least,
    )


def _too_few(name: str, rules: RuleSet, judged: int) -> FitReport:
    needed = max(round(MIN_TRAINED / TRAIN_SHARE), round(MIN_HELD_OUT / (1.0 - TRAIN_SHARE)))
    return FitReport(
        rules=name,
        kept=False,
        reverted=False,
        why=f"refused: the log has {judged} judged outcomes, and a fit needs {needed}",
        weights=list(rules.weights),
        weights_before=list(rules.weights),
        trained=judged,
    )
