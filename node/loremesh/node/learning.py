"""Learning: texts become blocks, held here, and shared where that was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from loremesh.node import evidence
from loremesh.node.columns import withdrawal_name
from loremesh.node.events import Event
from loremesh.node.ground import Ground
from loremesh.node.memory import Memory
from loremesh.node.parts import Progress
from loremesh.node.results import Learned
from loremesh.node.store.values import NewBlock
from loremesh.sync.content import block_id, check_text

BATCH_TEXTS: Final = 512
"""Texts learned in one transaction: a crash loses none of the batches before."""


class Lesson(msgspec.Struct, frozen=True):
    """A text to learn, with its id."""

    text: str
    id: bytes


def lesson(text: str, field: str = "text") -> Lesson:
    """The text checked. Raises InvalidInput naming `field`."""
    check_text(text, field)
    return Lesson(text, block_id(text))


async def learn(
    ground: Ground, lessons: Sequence[Lesson], tags: Sequence[str], spaces: Sequence[bytes]
) -> list[Learned]:
    """Learn some texts in one transaction; what each came to, in order."""
    checked = evidence.check_tags(tags)

    async def work() -> list[Learned]:
        ground.tick()
        return await _learn(ground, lessons, checked, spaces)

    return await ground.exclusive(work)


async def learn_many(
    ground: Ground,
    texts: Sequence[str],
    tags: Sequence[str],
    spaces: Sequence[bytes],
    progress: Progress | None = None,
) -> list[Learned]:
    """Learn any number of texts, some at a time. All are checked before the first is learned."""
    lessons = [lesson(text, f"text {at + 1}") for at, text in enumerate(texts)]
    learned: list[Learned] = []
    for start in range(0, len(lessons), BATCH_TEXTS):
        learned += await learn(ground, lessons[start : start + BATCH_TEXTS], tags, spaces)
        if progress is not None:
            progress(len(learned), len(lessons))
    return learned


async def _learn(
    ground: Ground, lessons: Sequence[Lesson], tags: tuple[str, ...], spaces: Sequence[bytes]
) -> list[Learned]:
    memory, own, clock = ground.memory, ground.memory.own, ground.clock
    events: list[tuple[int, Event]] = []
    blocks: list[NewBlock] = []
    fresh: dict[bytes, int] = {}
    learned: list[Learned] = []
    texts: dict[int, str] = {}
    changed: set[int] = set()
    next_row = memory.length
    event = evidence.learn(clock, ground.settings.memory.w_init, tags)  # the same for every new one
    for one in lessons:
        row = fresh.get(one.id, memory.sync.index.row(one.id))
        held = row is not None and (one.id in fresh or (row < own.columns.length and own.columns.held[row]))
        if held and row is not None:
            if one.id not in fresh and (more := evidence.share(own, clock, row, spaces, tags)):
                events.append((row, more))
                changed.add(row)
            learned.append(_answer(memory, row, one.id, created=False))
            continue
        if row is None:
            row, next_row = next_row, next_row + 1
        fresh[one.id] = row
        # A peer may have brought it first, in a form of its own: here it reads as it was learned here.
        blocks.append(NewBlock(row, one.id, one.text, replaces=memory.has_content(row)))
        events.append((row, event))
        if spaces and (shared := evidence.share(own, clock, row, spaces)):
            events.append((row, shared))
        changed.add(row)
        answer = _answer(memory, row, one.id, created=True)
        if not answer.withdrawn:
            texts[row] = one.text
        learned.append(answer)
    if events:
        await ground.record(events, blocks)
        memory.sync.index.ensure(list(fresh))
        # At once, not at the next refresh: a block known from peers may be in view already.
        memory.lexical.add(list(texts), list(texts.values()))
    if spaces:
        ground.touch(sorted(changed))
    return learned


def _answer(memory: Memory, row: int, id_: bytes, *, created: bool) -> Learned:
    """The block, whether it is out of recall, and what stands in its place: only peers may have known it."""
    newest = memory.own.decisions.newest(row)
    by = "" if newest == row else memory.block_hex(newest)
    return Learned(id_.hex(), created, withdrawal_name(memory.withdrawal(row)), by)
