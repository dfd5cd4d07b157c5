"""Judging blocks by their outcomes: worth, what it proposes, decisions, and attribution over the log."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec
import numpy as np

from loremesh.node import evidence
from loremesh.node.attribution import Attribution, Episodes, Range, Role, attribute
from loremesh.node.columns import Withdrawn, withdrawal_name
from loremesh.node.errors import Conflict, UsageError
from loremesh.node.events import Archive, Deprecate, Outcome, Restore, decode_own
from loremesh.node.ground import Ground
from loremesh.node.memory import Memory
from loremesh.node.ownstate import OwnState
from loremesh.node.parts import Progress
from loremesh.node.results import Attributed, BlockAttributed, DecisionTaken, WorthSeen
from loremesh.node.store.values import Kind
from loremesh.node.worth import (
    MIDDLE,
    Base,
    Cells,
    Evidence,
    Proposal,
    Worths,
    base_of,
    cells,
    interval,
    proposal,
    worths,
)
from loremesh.sync.content import context_label
from loremesh.sync.fixed import ONE
from loremesh.sync.rows import CONTEXT_BITS

MAX_EPISODES_READ: Final = 100_000
"""Judged episodes that attribution looks at, the newest ones: some 20 MB with five blocks each, and effects
of 0.02 show in so many."""

NOBODY: Final = "this node"
"""Who decides where a door names nobody."""

_EVENTS: Final[Mapping[Withdrawn, type[Archive | Deprecate | Restore]]] = {
    Withdrawn.ARCHIVED: Archive,
    Withdrawn.DEPRECATED: Deprecate,
    Withdrawn.NO: Restore,
}

Seen = tuple[int, WorthSeen]
"""What is said of the block in a row."""


class Asked(msgspec.Struct, frozen=True):
    """What of worth to tell: in a context (None: in all), of one block (by context then), only proposals."""

    context: str | None = None
    block: str | None = None
    candidates: bool = False
    limit: int = 1_000
    skip: int = 0


async def worth(ground: Ground, asked: Asked) -> list[WorthSeen]:
    """Blocks with first-hand outcomes, and those out of recall, those most above expectation first.

    Of one block: in all, then by context. Raises UsageError, UnknownThing.
    """
    if asked.block is not None and (asked.candidates or asked.context is not None):
        raise UsageError("a block is told by context", "ask for one block, or with --context or --candidates")
    label = None if asked.context is None else context_label(asked.context)

    async def read() -> tuple[Cells, Base, dict[int, float]]:
        await ground.refresh()
        memory = ground.memory
        own = own_cells(memory.own)
        if asked.block is not None:
            chosen = own.row == memory.row_named(asked.block)
        elif label is not None:
            context = memory.own.contexts.find(label)
            chosen = own.context == (-1 if context is None else context)
        else:
            chosen = np.ones(len(own.row), np.bool_)
        return own.only(chosen), base_of(own), _known_rates(ground)

    cells_, base, known = await ground.exclusive(read)
    # Beside the lock: 100,000 blocks with outcomes take seconds.
    found = await asyncio.to_thread(worths, cells_, base, known)

    async def tell() -> list[WorthSeen]:
        memory = ground.memory
        if asked.block is not None:
            told = _of_block(memory, cells_, memory.row_named(asked.block), base, known)
            told = told[asked.skip : asked.skip + asked.limit]
        else:
            told = _listed(memory, found, label, asked)
        texts = await ground.store.texts([row for row, _ in told])
        return [msgspec.structs.replace(one, text=texts.get(row, "")) for row, one in told]

    return await ground.exclusive(tell)


async def decide(ground: Ground, block: str, wanted: Withdrawn, why: str, who: str = NOBODY) -> DecisionTaken:
    """Take a block out of recall, or put it back (`wanted` NO). What is so already is a no-op.

    A deprecated block can be archived and the other way round; one that another block took the place of is
    out of recall by that: Conflict.
    """
    if wanted is Withdrawn.DEPRECATED and not why.strip():
        raise UsageError("a block cannot be deprecated without a reason", "say why: it is kept in the log")

    async def work() -> DecisionTaken:
        await ground.refresh()
        memory = ground.memory
        row = memory.row_named(block)
        before = memory.withdrawal(row)
        if before is Withdrawn.SUPERSEDED and wanted is not Withdrawn.NO:
            by = memory.block_hex(memory.own.decisions.newest(row))
            raise Conflict(
                f"block {memory.block_hex(row)} is out of recall already: {by} took its place",
                "restore it first, or decide about the block that took its place",
            )
        if before is not wanted:
            event = evidence.decision(ground.stamp(), _EVENTS[wanted], why.strip(), who)
            await ground.record([(row, event)])
        return DecisionTaken(memory.block_hex(row), withdrawal_name(wanted), before is not wanted)

    return await ground.exclusive(work)


async def attributed(
    ground: Ground, context: str | None = None, limit: int = 1_000, progress: Progress | None = None
) -> Attributed:
    """Which blocks make episodes go well, by regression over the judged episodes of the log.

    `context`: only episodes of that one. Strongest effects first, `limit` at most.
    """
    label = None if context is None else context_label(context)

    async def read() -> dict[bytes, _Judged]:
        await ground.refresh()
        return await _episodes(ground, label, progress)

    judged = await ground.exclusive(read)
    labels = sorted({one.context for one in judged.values()})
    found = await asyncio.to_thread(attribute, _columns(list(judged.values()), labels))

    async def tell() -> Attributed:
        memory = ground.memory
        known = [at for at, row in enumerate(found.row.tolist()) if memory.knows(row)]
        known.sort(key=lambda at: (-found.effect.value[at], memory.block_hex(int(found.row[at]))))
        texts = await ground.store.texts([int(found.row[at]) for at in known[:limit]])
        return Attributed(
            episodes=len(judged),
            contexts=len(labels),
            blocks=len(known),
            left_out=found.left_out,
            success=float(np.mean([one.signal for one in judged.values()])) if judged else 0.0,
            found=[_told(memory, found, at, texts) for at in known[:limit]],
        )

    return await ground.exclusive(tell)


def own_cells(own: OwnState) -> Cells:
    """First-hand evidence of every block and context, with its recent window."""
    held = own.registers.held(own.registers.live())
    recent = own.recent.export()
    return cells(
        held.row.astype(np.int64) << CONTEXT_BITS | held.context,
        held.alpha,
        held.beta,
        recent["row"].astype(np.int64) << CONTEXT_BITS | recent["context"].astype(np.int64),
        recent["alpha"].astype(np.float64),
        recent["beta"].astype(np.float64),
    )


def _known_rates(ground: Ground) -> dict[int, float]:
    contexts = ground.memory.own.contexts
    rates = ground.settings.memory.base_rates.items()
    found = ((contexts.find(context_label(label)), rate) for label, rate in rates)
    return {context: rate for context, rate in found if context is not None}


def _listed(memory: Memory, found: Worths, label: str | None, asked: Asked) -> list[Seen]:
    """A page of blocks, most above expectation first; what only proposals are made of is told in full."""
    out = np.flatnonzero(memory.withdrawn())
    lacking = np.setdiff1d(out, found.row)
    # (row, place in `found`; -1 for one without outcomes)
    all_ = [
        *zip(found.row.tolist(), range(len(found.row)), strict=True),
        *((row, -1) for row in lacking.tolist()),
    ]
    if asked.candidates:
        # No block is proposed but these: most are out by a look at the ends of their intervals.
        may = (np.minimum(found.high, found.recent_high) < MIDDLE) | np.isin(found.row, out)
        all_ = [(row, at) for row, at in all_ if at >= 0 and may[at]]
    all_ = [(row, at) for row, at in all_ if memory.knows(row)]
    all_.sort(key=lambda one: (-found.corrected[one[1]] if one[1] >= 0 else 0.0, memory.block_hex(one[0])))
    if not asked.candidates:
        all_ = all_[asked.skip : asked.skip + asked.limit]
    seen = [
        (row, _seen(memory, found, at, label) if at >= 0 else _unseen(memory, row, label)) for row, at in all_
    ]
    if asked.candidates:
        seen = [(row, one) for row, one in seen if one.proposal][asked.skip : asked.skip + asked.limit]
    return seen


def _of_block(memory: Memory, mine: Cells, row: int, base: Base, known: Mapping[int, float]) -> list[Seen]:
    if not len(mine.row):
        return [(row, _unseen(memory, row, None))]
    told = [(row, _seen(memory, worths(mine, base, known), 0, None))]
    by_label = {memory.own.contexts.label(context): context for context in mine.context.tolist()}
    for label, context in sorted(by_label.items()):
        found = worths(mine.only(mine.context == context), base, known)
        told.append((row, _seen(memory, found, 0, label)))
    return told


def _seen(memory: Memory, found: Worths, at: int, label: str | None) -> WorthSeen:
    row = int(found.row[at])
    decision = memory.own.decisions.of(row)
    since = None
    if decision is not None:
        own = memory.own.columns
        gained = own.self_a[row] - decision.alpha_fx, own.self_b[row] - decision.beta_fx
        since = Evidence(gained[0] / ONE, gained[1] / ONE)
    withdrawn = memory.withdrawal(row)
    proposed = Proposal.NONE
    if label is None and withdrawn in (Withdrawn.NO, Withdrawn.DEPRECATED):
        # What was put away or replaced is so whatever its outcomes say.
        proposed = proposal(found, at, withdrawn is Withdrawn.DEPRECATED, since)
    return WorthSeen(
        block=memory.block_hex(row),
        text="",
        context=label,
        alpha=float(found.alpha[at]),
        beta=float(found.beta[at]),
        worth=float(found.worth[at]),
        low=float(found.low[at]),
        high=float(found.high[at]),
        recent=float(found.recent[at]),
        recent_low=float(found.recent_low[at]),
        recent_high=float(found.recent_high[at]),
        trend=found.trend(at).value,
        expected=float(found.expected[at]),
        corrected=float(found.corrected[at]),
        corrected_low=float(found.corrected_low[at]),
        corrected_high=float(found.corrected_high[at]),
        compared=bool(found.compared[at]),
        kind=found.kind(at).value,
        withdrawn=withdrawal_name(withdrawn),
        proposal=proposed.value,
    )


def _unseen(memory: Memory, row: int, label: str | None) -> WorthSeen:
    """A block without outcomes: worth is 0.5, and may be anything."""
    nothing = np.zeros(1)
    low, high = (float(end[0]) for end in interval(nothing, nothing))
    return WorthSeen(
        block=memory.block_hex(row),
        text="",
        context=label,
        low=low,
        high=high,
        recent_low=low,
        recent_high=high,
        corrected_low=low - 0.5,
        corrected_high=high - 0.5,
        withdrawn=withdrawal_name(memory.withdrawal(row)),
    )


class _Judged(msgspec.Struct):
    """One judged episode on its way through the log."""

    signal: float
    weight: float
    context: str
    rows: list[int]


async def _episodes(ground: Ground, label: str | None, progress: Progress | None) -> dict[bytes, _Judged]:
    """The newest judged episodes by id: those that say which blocks were used together."""
    judged: dict[bytes, _Judged] = {}
    end = ground.store.position.n
    async for rows in ground.store.scan():
        for row in rows:
            if row.kind is not Kind.OWN or row.payload is None:
                continue
            event = decode_own(row.payload)
            if not isinstance(event, Outcome) or not event.episode or event.implicit or not event.weight_fx:
                continue
            if label is not None and event.context != label:
                continue
            known = judged.get(event.episode)
            if known is not None:
                known.rows.append(row.row)
                continue
            judged[event.episode] = _Judged(event.signal, event.weight_fx / ONE, event.context, [row.row])
            if len(judged) > MAX_EPISODES_READ:
                del judged[next(iter(judged))]
        if progress is not None and rows:
            progress(rows[-1].n, end)
    return judged


def _columns(judged: list[_Judged], labels: list[str]) -> Episodes:
    number = {label: at for at, label in enumerate(labels)}
    lengths = np.array([len(one.rows) for one in judged], np.int64)
    return Episodes(
        signal=np.array([one.signal for one in judged], np.float64),
        weight=np.array([one.weight for one in judged], np.float64),
        context=np.array([number[one.context] for one in judged], np.int64),
        start=np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]),
        rows=np.array([row for one in judged for row in one.rows], np.int64),
    )


def _told(memory: Memory, found: Attribution, at: int, texts: Mapping[int, str]) -> BlockAttributed:
    row = int(found.row[at])
    role, source = found.role(at)

    def ends(of: Range) -> tuple[float, float, float]:
        return float(of.value[at]), float(of.low[at]), float(of.high[at])

    return BlockAttributed(
        block=memory.block_hex(row),
        text=texts.get(row, ""),
        episodes=int(found.episodes[at]),
        association=ends(found.association),
        in_context=ends(found.in_context),
        effect=ends(found.effect),
        role=role.value,
        without_cause=role in (Role.HITCHHIKER, Role.EASY_RIDER, Role.BYSTANDER),
        explained_by=source.value,
    )
