"""Forgetting a block here: everything of it is destroyed in this home; what others hold is not.

Two steps, so that a crash between them is mended at the next opening: the log says that the block is
forgotten, then its key, content, vector, events and its rows in frames are destroyed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from loremesh.node import evidence
from loremesh.node.framelog import FrameHead, FrameRest, decode_head, decode_rest, encode, rest_cut, restored
from loremesh.node.ground import NO_ROW, Ground
from loremesh.node.results import Forgotten
from loremesh.node.store.values import Cut
from loremesh.sync.bodies import Blocks, Evidence, encode_blocks, encode_evidence

FRAMES_READ: Final = 32
"""Frames read at a time, of up to 256 KiB each."""


class Cuts(msgspec.Struct, frozen=True):
    """What becomes of the frames that mention a block: other bodies, or none where nothing is left."""

    bodies: list[Cut]
    emptied: list[int]


async def forget(ground: Ground, block: str) -> Forgotten:
    """Destroy the block that is named here. Raises UsageError, UnknownThing."""

    async def work() -> Forgotten:
        await ground.refresh()
        memory = ground.memory
        row = memory.row_named(block)
        block_id = memory.sync.index.id(row)
        spaces = _spaces(ground, row)
        # Summaries hold sentences of it: they go in the same transaction, and are destroyed before it is.
        above = memory.own.tiers.doomed(row)
        gone = [(NO_ROW, evidence.forgot(memory.own, ground.stamp(), one)) for one in (*above, row)]
        await ground.record(gone)
        ground.unfinished.update((*above, row))
        for summary in above:
            await destroy(ground, summary)
        removed, frames = await finish(ground, row, block_id)
        return Forgotten(block_id.hex(), removed, frames, _note(spaces))

    return await ground.exclusive(work)


async def finish(ground: Ground, row: int, block_id: bytes) -> tuple[int, int]:
    """Destroy what is left of a forgotten block; (events, frames). Inside `exclusive` only."""
    cuts = await cuts_of(ground, block_id)
    removed = await destroy(ground, row, cuts)
    return removed, len(cuts.bodies) + len(cuts.emptied)


async def destroy(ground: Ground, row: int, cuts: Cuts | None = None) -> int:
    """Destroy what is stored and known of a row, with `cuts` to the frames that mention it, none for a
    summary; how many events. Inside `exclusive` only.
    """
    memory = ground.memory
    bodies, emptied = (cuts.bodies, cuts.emptied) if cuts is not None else ((), ())
    removed = await ground.store.forget(row, bodies, emptied=emptied)
    ground.unfinished.discard(row)
    dead = memory.sync.registers.drop(row)
    memory.sync.providers.drop(row)
    memory.lexical.remove([row])
    if memory.matrix is not None:
        memory.matrix.drop(row)
    memory.forget_content(row)
    memory.sync.index.remove(row)
    ground.touched.discard(row)
    await ground.bury([n for n in dead if n not in emptied])
    return removed


async def cuts_of(ground: Ground, block_id: bytes) -> Cuts:
    """Every frame in the log that mentions the block, without it."""
    bodies: list[Cut] = []
    emptied: list[int] = []
    numbers = await ground.store.frame_numbers()
    for start in range(0, len(numbers), FRAMES_READ):
        for row in await ground.store.read(numbers[start : start + FRAMES_READ]):
            if row.payload is None:
                continue
            rest = decode_rest(row.payload)
            if rest.body is None or not _mentions(rest.body, block_id):
                continue
            left = _without(decode_head(row.header), rest, block_id)
            if left is None:
                emptied.append(row.n)
            elif left is not rest:
                bodies.append(Cut(row.n, encode(left)))
    return Cuts(bodies, emptied)


def _mentions(body: bytes, block_id: bytes) -> bool:
    """False only where the body cannot be about the block: an evidence body holds its ids as they are."""
    return block_id in body or body[:1] == b"\x91"  # a blocks body is an array of one, its texts


def _without(head: FrameHead, rest: FrameRest, block_id: bytes) -> FrameRest | None:
    """The rest without the block; the same object where it is not in it, None where nothing is left."""
    passed, stamps = restored(head, rest)
    effect = passed.effect
    if isinstance(effect, Blocks) and block_id in effect.ids:
        texts = [text for text, other in zip(effect.texts, effect.ids, strict=True) if other != block_id]
        return rest_cut(rest, head, encode_blocks(texts), np.empty(0)) if texts else None
    if isinstance(effect, Evidence) and block_id in effect.ids:
        kept = np.flatnonzero(effect.block != effect.ids.index(block_id))
        if not len(kept):
            return None
        return rest_cut(rest, head, encode_evidence(_only(effect, kept)), stamps[kept])
    return rest


def _only(evidence_: Evidence, kept: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Evidence:
    """These rows of the evidence, over tables of what they use."""
    blocks, block = np.unique(evidence_.block[kept], return_inverse=True)
    contexts, context = np.unique(evidence_.context[kept], return_inverse=True)
    incarnations, incarnation = np.unique(evidence_.incarnation[kept], return_inverse=True)
    return Evidence(
        [evidence_.ids[at] for at in blocks.tolist()],
        [evidence_.contexts[at] for at in contexts.tolist()],
        [evidence_.incarnations[at] for at in incarnations.tolist()],
        block,
        context,
        incarnation,
        evidence_.alpha[kept],
        evidence_.beta[kept],
        evidence_.stability_h[kept],
        evidence_.version[kept],
    )


def _spaces(ground: Ground, row: int) -> list[str]:
    """Names of the spaces that the block was shared into from here, or came from."""
    memory = ground.memory
    spaces = set(memory.own.shared.get(row, ()))
    spaces |= {memory.sync.registers.sources[source].space for source in memory.sync.providers.of(row)}
    return sorted(memory.sync.spaces[space].genesis.name for space in spaces if space in memory.sync.spaces)


def _note(spaces: Sequence[str]) -> str:
    if not spaces:
        return "It was private: nothing of it is left in this home, and it was nowhere else."
    return (
        f"Nothing of it is left in this home. It was shared in {', '.join(spaces)}: forgetting is local for "
        "now, so members keep their copies, and sealed copies of the frames that carried it stay on the bus."
    )
