"""Linking two blocks by hand, or keeping them apart."""

from __future__ import annotations

from loremesh.node import evidence
from loremesh.node.ground import Ground
from loremesh.node.tended import Connected
from loremesh.sync.fixed import ONE


async def connect(ground: Ground, one: str, other: str, weight: float) -> Connected:
    """A link of that weight in [0, 1] between two blocks; 0 takes it away. What is so already is a no-op.

    Raises UsageError, UnknownThing, InvalidInput.
    """

    async def work() -> Connected:
        await ground.refresh()
        memory = ground.memory
        row, to = memory.row_named(one), memory.row_named(other)
        event = evidence.connect(ground.clock, row, to, weight)
        held = next((edge for edge in memory.own.links.of(row) if edge.other == to), None)
        before = 0 if held is None else held.weight_fx
        by_hand = memory.own.links.known(row, to) if held is None else held.by_hand
        changed = before != event.weight_fx or not by_hand
        if changed:
            ground.tick()
            event = evidence.connect(ground.clock, row, to, weight)
            await ground.record([(row, event)])
        return Connected(
            memory.block_hex(row), memory.block_hex(to), event.weight_fx / ONE, before / ONE, changed
        )

    return await ground.exclusive(work)
