"""The home's side of an export: what own events made, a page at a time, in the order of the log."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.node.errors import UsageError
from loremesh.node.events import (
    Event,
    Imported,
    ImportedTrust,
    Incarnation,
    Linked,
    Revise,
    Trust,
    decode_home,
    decode_own,
)
from loremesh.node.exchange import lines
from loremesh.node.exchange.telling import Told, tell
from loremesh.node.ground import NO_ROW, Ground
from loremesh.node.memory import Memory
from loremesh.node.store.values import Kind, LogRow
from loremesh.sync.content import MAX_TEXT_BYTES

PAGE_BLOCKS: Final = lines.MAX_PAGE_BLOCKS
PAGE_TEXT_BYTES: Final = 4 << 20
"""Text of one page at most, and one block more: the answer stays far below what a client takes."""


class Cursor:
    """Where a page goes on: at a block row, or behind a log row under the incarnation that holds there.

    `end` is the log's end when the export began: what happens meanwhile is not in it.
    """

    def __init__(self, part: str, at: int, end: int, incarnation: bytes = b"") -> None:
        self.part, self.at, self.end, self.incarnation = part, at, end, incarnation

    def text(self) -> str:
        """As it passes the door."""
        return f"{self.part}.{self.at}.{self.end}.{self.incarnation.hex()}"

    @classmethod
    def parse(cls, text: str, end: int) -> Cursor:
        """The cursor in `text`; for '' the beginning. Raises UsageError."""
        if not text:
            return cls("blocks", 0, end)
        try:
            part, at, until, incarnation = text.split(".")
            cursor = cls(part, int(at), int(until), bytes.fromhex(incarnation))
        except ValueError:
            cursor = cls("", 0, 0)
        if cursor.part not in ("blocks", "events") or cursor.at < 0 or not 0 <= cursor.end <= end:
            raise UsageError(f"{text[:80]!r} is no cursor", "give the one that the page before came with")
        return cursor


async def export_page(ground: Ground, cursor_text: str) -> lines.ExportedPage:
    """The page at the cursor: blocks first, then events."""

    async def work() -> lines.ExportedPage:
        await ground.refresh()
        cursor = Cursor.parse(cursor_text, ground.store.position.n)
        if cursor.part == "blocks":
            return await _blocks(ground, cursor)
        return await _events(ground, cursor)

    return await ground.exclusive(work)


def ours(memory: Memory) -> NDArray[np.bool_]:
    """Which rows have a history of this home's own, by row: what an export is about."""
    own = memory.own
    length = max(memory.length, own.columns.length)
    seen = own.columns.views(length)
    found: NDArray[np.bool_] = (seen.held > 0) | (seen.stability_h != 0.0)
    for noted in (own.tags, own.shared, own.links.rows(), own.imported.known):
        found[[row for row in noted if row < length]] = True
    found[own.decisions.rows()] = True
    return found


async def _blocks(ground: Ground, cursor: Cursor) -> lines.ExportedPage:
    memory = ground.memory
    mine = ours(memory)
    rows = np.flatnonzero(mine[cursor.at :]) + cursor.at
    page = rows[:PAGE_BLOCKS].tolist()
    texts = await ground.store.texts(page)
    blocks: list[lines.Block] = []
    size = 0
    for row in page:
        text = texts.get(row)
        blocks.append(lines.Block(memory.block_hex(row), text))
        size += MAX_TEXT_BYTES // 64 if text is None else len(text.encode("utf-8"))
        if size > PAGE_TEXT_BYTES:
            break
    done = len(blocks)
    more = done < len(rows)
    total = int(mine.sum())
    onward = Cursor("blocks", page[done - 1] + 1, cursor.end) if more else Cursor("events", 0, cursor.end)
    readable = memory.readable()
    peers = int((readable & ~mine[: len(readable)]).sum())
    return lines.ExportedPage(
        hour=ground.hour(),
        sources=[],
        blocks=blocks,
        events=[],
        cursor=onward.text(),
        done=total - len(rows) + done,
        total=total + cursor.end,
        peers=peers,
    )


async def _events(ground: Ground, cursor: Cursor) -> lines.ExportedPage:
    memory = ground.memory
    page = _EventPage(ground, cursor.incarnation, ours(memory))
    at = cursor.at
    async for rows in ground.store.scan(at):
        for row in rows:
            if row.n > cursor.end or len(page.events) >= lines.MAX_PAGE_EVENTS:
                break
            page.take(row)
            at = row.n
        break
    blocks = int(page.mine.sum())
    onward = Cursor("events", at, cursor.end, page.incarnation).text() if at < cursor.end else ""
    return lines.ExportedPage(
        hour=ground.hour(),
        sources=page.sources,
        blocks=[],
        events=page.events,
        cursor=onward,
        done=blocks + at,
        total=blocks + cursor.end,
        peers=0,
    )


class _EventPage:
    """Events of one page, with the sources they name."""

    def __init__(self, ground: Ground, incarnation: bytes, mine: NDArray[np.bool_]) -> None:
        self.incarnation = incarnation
        self.mine = mine
        self.sources: list[lines.Source] = []
        self.events: list[lines.Event] = []
        self._ground = ground
        self._memory = ground.memory

    def take(self, row: LogRow) -> None:
        """One log row: told when it is an event of a block that the export is about, or a change of trust."""
        if row.payload is None or row.kind is Kind.FRAME:
            return
        if row.kind is Kind.OWN:
            if row.row >= len(self.mine) or not self.mine[row.row]:
                return
            event = decode_own(row.payload)
            if isinstance(event, Imported):
                self._tell(event.source, event.n, row.row, decode_own(event.event))
            else:
                self._tell(-1, row.n, row.row, event)
            return
        about_home = decode_home(row.payload)
        match about_home:
            case Incarnation():
                self.incarnation = about_home.id
            case Trust():
                self._tell(-1, row.n, NO_ROW, about_home)
            case ImportedTrust():
                self._tell(about_home.source, about_home.n, NO_ROW, decode_home(about_home.event))
            case _:
                pass

    def _tell(self, source: int, n: int, row: int, event: Event) -> None:
        if not isinstance(event, Told):
            raise TypeError(f"an export does not know {type(event).__name__}")
        if isinstance(event, Linked):
            event = self._without_forgotten(event)
        other = getattr(event, "other", row)
        if other != row and (other >= len(self.mine) or not self.mine[other]):
            if not isinstance(event, Revise):
                return  # a link to a block that was forgotten
            event = msgspec.structs.replace(event, other=row)  # it keeps its head start
        kind, detail = tell(event, self._memory.sync.index.id)
        block = "" if row == NO_ROW else self._memory.block_hex(row)
        self.events.append(
            lines.Event(self._source(source), n, kind, block, event.hour, event.wall_ms, detail)
        )

    def _without_forgotten(self, event: Linked) -> Linked:
        """The links of the event to blocks that the export is about."""
        kept = [
            (other, weight_fx)
            for other, weight_fx in zip(event.others, event.weights_fx, strict=True)
            if other < len(self.mine) and self.mine[other]
        ]
        others, weights_fx = tuple(other for other, _ in kept), tuple(weight_fx for _, weight_fx in kept)
        return msgspec.structs.replace(event, others=others, weights_fx=weights_fx)

    def _source(self, number: int) -> int:
        if number < 0:
            here = lines.Source(
                self._memory.sync.own.hex(), self.incarnation.hex().zfill(32), self._ground.name
            )
        else:
            source = self._memory.own.imported.sources[number]
            here = lines.Source(source.origin.hex(), source.incarnation.hex(), source.name)
        try:
            return self.sources.index(here)
        except ValueError:
            self.sources.append(here)
            return len(self.sources) - 1
