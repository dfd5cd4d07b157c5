"""What this node has to say in a space: its texts and registers that the space has not heard of yet.

Nothing is remembered about what was said: own frames are in the log and their rows among the registers, so
the difference is worked out. Changes coalesce: a block used a hundred times since is stated once.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np

from loremesh.node.ground import Ground
from loremesh.node.memory import Memory
from loremesh.sync.effects import weigh
from loremesh.sync.feed import FeedKey
from loremesh.sync.funnel import passed_again
from loremesh.sync.outgoing import Statement, block_bodies, evidence_bodies
from loremesh.sync.ports import Placement
from loremesh.sync.spacestate import SpaceState, accept
from loremesh.sync.wire import CHAIN_OF, Kind, SignedFrame, compose


def spaces_of(memory: Memory, row: int) -> set[bytes]:
    """The spaces into which evidence about a row goes.

    Those it was shared into from here; for a block that is not held here, those it came from; and those that
    have heard evidence of this node about it already.
    """
    sync, own = memory.sync, memory.own
    found = set(own.shared.get(row, ()))
    held = row < own.columns.length and bool(own.columns.held[row])
    sources = sync.registers.sources
    if not held:
        found |= {sources[number].space for number in sync.providers.of(row)}
    stated = sync.registers.held(sync.registers.select(np.array([row], np.int64))).source
    found |= {sources[number].space for number in stated.tolist() if sources[number].origin == sync.own}
    return {space for space in found if space in sync.spaces}


async def state_news(ground: Ground, space: SpaceState, rows: Iterable[int]) -> list[SignedFrame]:
    """State what the space has not heard about these rows, in frames that are on disk when this returns.

    Inside `exclusive` only.
    """
    here = [row for row in sorted(set(rows)) if space.space in spaces_of(ground.memory, row)]
    frames = []
    for body in block_bodies((await _unheard_texts(ground, space, here)).values()):
        frames.append(await issue(ground, space, Kind.BLOCKS, body))
    statement = _unheard_registers(ground.memory, space, here)
    if statement is not None:
        for body in evidence_bodies(statement):
            frames.append(await issue(ground, space, Kind.EVIDENCE, body))
    return frames


async def issue(ground: Ground, space: SpaceState, kind: Kind, body: bytes) -> SignedFrame:
    """Sign the next own frame of a chain, store it and take it in. Inside `exclusive` only."""
    sync = ground.memory.sync
    key = FeedKey(sync.own, sync.incarnation, CHAIN_OF[kind])
    position = space.position(key)
    frame = compose(
        ground.identity,
        space=space.space,
        incarnation=sync.incarnation,
        kind=kind,
        body=body,
        time_ms=ground.parts.now_ms(),
        number=position.number + 1,
        previous=position.hash,
    )
    hour = ground.hour()
    weighed = weigh(sync, space, frame, body, hour)
    passed = msgspec.structs.replace(
        passed_again(frame.header_bytes, frame.signature, body), stamps=weighed.stamps
    )
    rows = sync.index.ensure(passed.ids)
    stamps = np.empty(0) if weighed.stamps is None else weighed.stamps
    number = await ground.journal.store_frame(passed, Placement(rows, hour, stamps))
    accepted = accept(sync, passed, number, hour, weighed.stamps)
    ground.memory.effective.mark(accepted.rows)
    await ground.bury(accepted.frames_dead)
    return frame


async def _unheard_texts(ground: Ground, space: SpaceState, rows: list[int]) -> dict[int, str]:
    """Texts of blocks shared from here that no own frame in the space carried yet."""
    if not space.genesis.content:
        return {}
    memory = ground.memory
    sources = memory.sync.registers.sources
    mine = {
        number
        for number, source in enumerate(sources)
        if source.origin == memory.sync.own and source.space == space.space
    }
    unheard = [
        row
        for row in rows
        if space.space in memory.own.shared.get(row, ())
        and memory.has_content(row)
        and not mine & memory.sync.providers.of(row).keys()
    ]
    return await ground.store.texts(unheard)


def _unheard_registers(memory: Memory, space: SpaceState, rows: list[int]) -> Statement | None:
    """Own registers of these rows whose version is higher than what own frames in the space state."""
    if not rows:
        return None
    sync, at = memory.sync, np.array(rows, np.int64)
    stated: dict[tuple[bytes, int, int], int] = {}
    held = sync.registers.held(sync.registers.select(at))
    for number, row, context, version in zip(
        held.source.tolist(), held.row.tolist(), held.context.tolist(), held.version.tolist(), strict=True
    ):
        source = sync.registers.sources[number]
        if source.origin == sync.own and source.space == space.space:
            stated[source.incarnation, row, context] = version
    own = memory.own.registers
    mine = own.held(own.select(at))
    incarnations = [own.sources[number].incarnation for number in mine.source.tolist()]
    news = [
        place
        for place, (row, context, version) in enumerate(
            zip(mine.row.tolist(), mine.context.tolist(), mine.version.tolist(), strict=True)
        )
        if version > stated.get((incarnations[place], row, context), 0)
    ]
    if not news:
        return None
    part = np.array(news, np.int64)
    return Statement(
        ids=[sync.index.id(row) for row in mine.row[part].tolist()],
        contexts=[memory.own.contexts.label(context) for context in mine.context[part].tolist()],
        incarnations=[incarnations[place] for place in news],
        alpha=mine.alpha[part],
        beta=mine.beta[part],
        stability_h=mine.stability_h[part],
        version=mine.version[part],
    )
