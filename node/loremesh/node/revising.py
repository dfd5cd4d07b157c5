"""Revising: a new block takes the place of an old one, which leaves recall and keeps all it had.

Nothing held is ever changed: the old block's log and evidence stay, and forgetting the new one, or restoring
the old, undoes the revision.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from loremesh.node import evidence
from loremesh.node.columns import Withdrawn
from loremesh.node.errors import Conflict, UsageError
from loremesh.node.events import Event, Restore, Revise
from loremesh.node.ground import Ground
from loremesh.node.judging import NOBODY
from loremesh.node.learning import Lesson, lesson
from loremesh.node.memory import Memory
from loremesh.node.store.values import NewBlock
from loremesh.node.tended import Revised
from loremesh.sync.fixed import ONE


class Revision(msgspec.Struct, frozen=True):
    """What was asked for, checked; `tags` and `spaces` None for those of the old block."""

    block: str
    new: Lesson
    why: str
    tags: tuple[str, ...] | None
    spaces: tuple[bytes, ...] | None


async def revise(
    ground: Ground,
    block: str,
    text: str,
    why: str = "",
    tags: Sequence[str] | None = None,
    spaces: Sequence[bytes] | None = None,
) -> Revised:
    """Put a text in the place of a block, in one transaction. See `Node.revise`."""
    asked = Revision(
        block,
        lesson(text),
        why.strip(),
        None if tags is None else evidence.check_tags(tags),
        None if spaces is None else tuple(spaces),
    )

    async def work() -> Revised:
        await ground.refresh()
        old = _old(ground.memory, asked)
        ground.tick()
        return await _revise(ground, asked, old)

    return await ground.exclusive(work)


def _old(memory: Memory, asked: Revision) -> int:
    """The row of the block to be revised, when it can be."""
    row = memory.row_named(asked.block)
    if memory.sync.index.id(row) == asked.new.id:
        raise UsageError(
            f"the text is that of block {memory.block_hex(row)} itself, white space aside",
            "give the text that is to take its place",
        )
    newest = memory.own.decisions.newest(row)
    if newest != row:
        raise Conflict(
            f"block {memory.block_hex(row)} was revised before: {memory.block_hex(newest)} took its place",
            "revise that one, or restore this one first",
        )
    return row


async def _revise(ground: Ground, asked: Revision, old: int) -> Revised:
    memory, own, clock = ground.memory, ground.memory.own, ground.clock
    tags = own.tags.get(old, ()) if asked.tags is None else asked.tags
    spaces = sorted(own.shared.get(old, ())) if asked.spaces is None else list(asked.spaces)
    spaces = [space for space in spaces if space in memory.sync.spaces]
    weight = ground.settings.memory.revision_weight
    row = memory.sync.index.row(asked.new.id)
    created = row is None or row >= own.columns.length or not own.columns.held[row]
    row = memory.length if row is None else row
    if not created and not _starts_fresh(memory, row):
        weight = 0.0
    made = evidence.revise(own, clock, old, weight, asked.why, NOBODY)
    events: list[tuple[int, Event]] = []
    blocks: list[NewBlock] = []
    if created:
        blocks.append(NewBlock(row, asked.new.id, asked.new.text, replaces=memory.has_content(row)))
        w_init = ground.settings.memory.w_init
        has_start = made.alpha_fx + made.beta_fx > 0
        learn = evidence.learn_revised(clock, tags) if has_start else evidence.learn(clock, w_init, tags)
        events.append((row, learn))
    restored = memory.withdrawal(row) is not Withdrawn.NO
    if restored:
        events.append((row, evidence.decision(clock, Restore, asked.why, NOBODY)))
    shared = evidence.share(own, clock, row, spaces, () if created else tags)
    if shared is not None:
        events.append((row, shared))
    events.append((row, made))
    await ground.record(events, blocks)
    memory.sync.index.ensure([asked.new.id])
    if created:
        memory.lexical.add([row], [asked.new.text])
    await ground.refresh()
    if spaces:
        ground.touch([row])
    return _told(memory, row, old, made, created=created, restored=restored)


def _starts_fresh(memory: Memory, row: int) -> bool:
    """Whether a block that is held has neither outcomes of its own nor a head start: then it can have one."""
    own = memory.own
    columns = own.columns
    outcomes = (columns.self_a, columns.self_b, columns.imported_a, columns.imported_b)
    return not any(column[row] for column in outcomes) and not own.decisions.replaced_by(row)


def _told(memory: Memory, row: int, old: int, made: Revise, *, created: bool, restored: bool) -> Revised:
    mass = made.alpha_fx + made.beta_fx
    shared = memory.own.shared.get(row, ())
    return Revised(
        block=memory.block_hex(row),
        superseded=memory.block_hex(old),
        created=created,
        restored=restored,
        mean=made.alpha_fx / mass if mass else 0.5,
        mass=mass / ONE,
        tags=list(memory.own.tags.get(row, ())),
        spaces=sorted(
            memory.sync.spaces[space].genesis.name for space in shared if space in memory.sync.spaces
        ),
    )
