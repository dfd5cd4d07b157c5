"""In whose words a block is shown: one block's text comes in many forms (white space, composition).

A block held here reads as it was learned here. One known from peers only reads as the first frame in the log
has it, of those whose origin counts: a peer without trust, before or after, must not decide how others' texts
look. Scores do not depend on the form.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from loremesh.node.framelog import decode_head, decode_rest, restored
from loremesh.node.ground import Ground
from loremesh.node.memory import Memory
from loremesh.node.store.values import Kind, NewBlock
from loremesh.sync.bodies import Blocks
from loremesh.sync.registers import Source


async def reword(ground: Ground) -> int:
    """Trust has changed: put blocks that several peers gave into the words that count now; how many changed.

    Reads the whole log when there are such blocks. Inside `exclusive` only.
    """
    rows = _told_by_several(ground.memory)
    if not rows:
        return 0
    first = await _first_told(ground, {ground.memory.sync.index.id(row): row for row in rows})
    shown = await ground.store.texts(list(first))
    others = [
        NewBlock(row, ground.memory.sync.index.id(row), text, replaces=True)
        for row, text in first.items()
        if shown.get(row, text) != text
    ]
    if others:
        await ground.store.append(blocks=others)
    return len(others)


def _told_by_several(memory: Memory) -> list[int]:
    held = memory.own.columns.views(max(memory.length, memory.own.columns.length)).held
    foreign = np.flatnonzero(memory.readable() & (held[: memory.length] == 0))
    told = memory.sync.providers.held(memory.sync.providers.select(foreign)).row
    rows, tellers = np.unique(told, return_counts=True)
    found: list[int] = rows[tellers > 1].tolist()
    return found


async def _first_told(ground: Ground, wanted: dict[bytes, int]) -> dict[int, str]:
    """By row, the text in the first frame of somebody who counts."""
    counted = _counted(ground.memory)
    found: dict[int, str] = {}
    async for rows in ground.store.scan():
        for row in rows:
            feed = row.feed
            if row.kind is not Kind.FRAME or feed is None or row.payload is None:
                continue
            if Source(feed.origin, feed.incarnation, feed.space) not in counted:
                continue
            passed, _ = restored(decode_head(row.header), decode_rest(row.payload))
            if isinstance(passed.effect, Blocks):
                for block_id, text in zip(passed.effect.ids, passed.effect.texts, strict=True):
                    if block_id in wanted:
                        found.setdefault(wanted[block_id], text)
    return found


def _counted(memory: Memory) -> Collection[Source]:
    lens, sources = memory.sync.lens(), memory.sync.registers.sources
    return {source for source, tau in zip(sources, lens.tau_fx.tolist(), strict=True) if tau}
