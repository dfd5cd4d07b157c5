"""Replay: the log folded again, to prove what is in use, or to ask what else it could say."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.node.ground import Ground
from loremesh.node.memory import Memory
from loremesh.node.opening import (
    blank_memory,
    follow_trust,
    keep_aside,
    place_blocks,
    read_log,
    space_records,
)
from loremesh.node.results import Moved, Replayed
from loremesh.node.rulebook import get_rules
from loremesh.node.rules import RuleSet
from loremesh.node.snapshot import differences
from loremesh.node.store.errors import StoreError
from loremesh.node.store.store import Store
from loremesh.node.store.values import Verified

MAX_MOVED: Final = 50
"""Blocks listed whose rank is not the same under other rules: those that moved furthest."""


async def replay(ground: Ground, *, check: bool, rules: str | None) -> Replayed:
    """Fold the log again from its first row.

    `check` also verifies every row and compares the fold with the columns in use; `rules` folds under another
    rule set and tells what moves. Raises UsageError for rules that there are not.
    """
    chosen = get_rules(rules) if rules else ground.memory.own.rules

    async def work() -> Replayed:
        await ground.refresh()
        verified = await ground.store.verify()
        faults = [f"{fault.where}: {fault.what}" for fault in verified.faults]
        if verified.more_faults:
            faults.append(f"and {verified.more_faults} more like these")
        try:
            again = await rebuild(ground.store, ground.memory.sync.own, ground.memory.own.rules)
        except StoreError as error:
            return _answer(ground, verified, [*faults, str(error)], chosen, NO_SHIFT)
        if check:
            faults += compare(ground.memory, again)
            logged = get_rules(ground.settings.memory.rules, again.own.fits)
            if logged.name != ground.memory.own.rules.name:
                used = ground.memory.own.rules.name
                faults.append(f"the rules in use are {used}, those that the log names {logged.name}")
        shift = NO_SHIFT
        if chosen != ground.memory.own.rules:
            other = await rebuild(ground.store, ground.memory.sync.own, chosen)
            shift = await _shift(ground, other)
        return _answer(ground, verified, faults, chosen, shift)

    return await ground.exclusive(work)


async def rebuild(store: Store, own_key: bytes, rules: RuleSet, *, without: Collection[bytes] = ()) -> Memory:
    """The memory that the log alone makes, without checkpoint, texts or vectors.

    `without`: origins whose frames are left out, as if they had never come. Raises Damaged.
    """
    memory = blank_memory(own_key, rules, await space_records(store))
    await keep_aside(store, memory.sync)
    await place_blocks(store, memory)
    await read_log(store, memory, without=without)
    follow_trust(memory)
    memory.refresh()
    return memory


def compare(used: Memory, again: Memory) -> list[str]:
    """What is not the same in the memory in use and in one made from the log; empty when all is."""
    found = [f"own state: {difference}" for difference in differences(used.own, again.own)]
    if registers_by_id(used) != registers_by_id(again):
        found.append("the register columns are not what the live rows of the frames say")
    return found


def registers_by_id(
    memory: Memory,
) -> list[tuple[bytes, bytes, bytes, bytes, str, int, int, float, int, float]]:
    """Every register in an order of its own that does not depend on local numbers."""
    registers, sync = memory.sync.registers, memory.sync
    held = registers.held(registers.live())
    found = []
    for number, row, context, alpha, beta, stability, version, stamp in zip(
        held.source.tolist(),
        held.row.tolist(),
        held.context.tolist(),
        held.alpha.tolist(),
        held.beta.tolist(),
        held.stability_h.tolist(),
        held.version.tolist(),
        held.stamp_h.tolist(),
        strict=True,
    ):
        source = registers.sources[number]
        found.append(
            (
                source.space,
                source.origin,
                source.incarnation,
                sync.index.id(row),
                sync.contexts.label(context),
                alpha,
                beta,
                stability,
                version,
                stamp,
            )
        )
    return sorted(found)


def digest(memory: Memory) -> str:
    """Order-free digest of all registers held, hex: equal on two nodes that hold the same."""
    registers = memory.sync.registers
    return registers.live_digest(registers.live(), memory.sync.index, memory.sync.contexts).hex()


def effective_by_id(memory: Memory) -> dict[str, tuple[int, int, float, float, float, float]]:
    """Effective numbers of every readable block: α, β (fixed point), S, t_last, D, importance."""
    own = memory.own.columns.views(max(memory.length, memory.own.columns.length))
    rows = memory.effective.rows
    return {
        memory.block_hex(row): (
            int(rows.alpha[row]),
            int(rows.beta[row]),
            float(rows.stability_h[row]),
            float(rows.t_last_h[row]),
            float(own.difficulty[row]),
            float(own.importance[row]),
        )
        for row in np.flatnonzero(memory.readable()).tolist()
    }


class _Shift(msgspec.Struct, frozen=True):
    """What is ranked elsewhere under other rules, and how alike the two rankings are."""

    moved: list[Moved]
    ranked: int
    elsewhere: int
    correlation: float


NO_SHIFT: Final = _Shift([], 0, 0, 1.0)


class _Column(msgspec.Struct, frozen=True, eq=False):
    """What decides a block's value under one rule set, [n] each; `value` is NaN where there is none."""

    utility: NDArray[np.float64]
    retrievability: NDArray[np.float64]
    value: NDArray[np.float64]


async def _shift(ground: Ground, other: Memory) -> _Shift:
    """The blocks whose rank by utility × retrievability is not the same in the two memories."""
    here, there = _values(ground.memory, ground.hour()), _values(other, ground.hour())
    ranks, others = _ranks(here.value, ground.memory), _ranks(there.value, other)
    both = ranks.keys() & others.keys()
    apart = sorted(
        (block for block in both if ranks[block] != others[block]),
        key=lambda block: (-abs(ranks[block] - others[block]), block),
    )
    squares = sum((ranks[block] - others[block]) ** 2 for block in apart)
    correlation = 1.0 - 6.0 * squares / (len(both) * (len(both) ** 2 - 1)) if len(both) > 1 else 1.0
    listed = apart[:MAX_MOVED]
    rows = [ground.memory.sync.index.row(bytes.fromhex(block)) for block in listed]
    texts = await ground.store.texts([row for row in rows if row is not None])
    moved = []
    for block, row in zip(listed, rows, strict=True):
        other_row = other.sync.index.row(bytes.fromhex(block))
        if row is None or other_row is None:
            continue
        moved.append(
            Moved(
                block,
                texts.get(row, ""),
                ranks[block],
                others[block],
                float(ground.memory.effective.rows.stability_h[row]),
                float(other.effective.rows.stability_h[other_row]),
                float(here.utility[row]),
                float(there.utility[other_row]),
                float(here.retrievability[row]),
                float(there.retrievability[other_row]),
            )
        )
    return _Shift(moved, len(both), len(apart), correlation)


def _values(memory: Memory, hour: float) -> _Column:
    """utility, retrievability and their product of every row."""
    length, rows = memory.length, memory.effective.rows
    alpha, beta = rows.alpha[:length].astype(np.float64), rows.beta[:length].astype(np.float64)
    mass = alpha + beta
    utility = np.divide(alpha, mass, out=np.full(length, 0.5), where=mass > 0)
    retrievability = memory.retrievability(hour)
    value = utility * retrievability
    value[~memory.readable()] = np.nan
    return _Column(utility, retrievability, value)


def _ranks(values: NDArray[np.float64], memory: Memory) -> dict[str, int]:
    """Rank from 1 by value, best first, ties by block id."""
    rows = np.flatnonzero(~np.isnan(values)).tolist()
    ordered = sorted(rows, key=lambda row: (-values[row], memory.sync.index.id(row)))
    return {memory.block_hex(row): place for place, row in enumerate(ordered, 1)}


def _answer(ground: Ground, verified: Verified, faults: list[str], rules: RuleSet, shift: _Shift) -> Replayed:
    frames = sum(
        len(chain.tags) for space in ground.memory.sync.spaces.values() for chain in space.chains.values()
    )
    return Replayed(
        ok=not faults,
        rows=verified.rows,
        own_events=verified.rows - frames,
        frames=frames,
        pruned=verified.pruned,
        forgotten=verified.forgotten,
        faults=faults,
        rules=rules.name,
        moved=shift.moved,
        digest=digest(ground.memory),
        ranked=shift.ranked,
        elsewhere=shift.elsewhere,
        rank_correlation=shift.correlation,
        aggregates=verified.aggregates,
        aggregated=verified.aggregated,
    )
