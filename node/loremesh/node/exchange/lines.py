"""The lines of an export file, and the pages in which they pass a door. The README describes the format."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from loremesh.node.params import MAX_TEXT, Number, Params, Word

FORMAT: Final = 1
"""Of the file. A reader refuses a higher one."""
MAX_PAGE_BLOCKS: Final = 512
"""Blocks of one page: one transaction, as many as `learn_many` takes at a time."""
MAX_PAGE_EVENTS: Final = 4096
"""Events of one page: a tenth of a second of work, and a megabyte."""
MAX_SOURCES: Final = 4096
"""Logs that the events of one file are from."""
MAX_HOUR: Final = 1e9
"""Active hours on any clock: more than a hundred thousand years."""
MAX_WALL_MS: Final = 253_402_300_799_999
"""The end of the year 9999, UTC."""

Detail = dict[str, bool | int | float | str | list[str | int | float] | None]
"""What an event holds besides its time: numbers in plain units, ids in hex."""

Hour = Annotated[float, msgspec.Meta(ge=-MAX_HOUR, le=MAX_HOUR, description="a number of hours")]
WallMs = Annotated[
    int, msgspec.Meta(ge=-MAX_WALL_MS, le=MAX_WALL_MS, description="milliseconds since 1970, UTC")
]
Id = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$", description="64 hex digits")]
Half = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$", description="32 hex digits")]
Body = Annotated[str, msgspec.Meta(max_length=MAX_TEXT, description="a text of at most 64 KiB")]


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="line", tag="loremesh"):
    """The first line. `hour`: where the clock stood that the events' hours are of."""

    format: int
    hour: Hour


class Block(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="line", tag="block"):
    """A block: the SHA-256 of its normalised text, and the text; null where only evidence of it is known."""

    id: Id
    text: Body | None


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="line", tag="source"):
    """A log that events are from: a home's public key and incarnation, or what stands for another system.

    Numbered from 0 in the order of the file.
    """

    origin: Id
    incarnation: Half
    name: Word


class Event(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="line", tag="event"):
    """One event, number `n` of its source's log; `block` is '' for a change of trust."""

    source: Number
    n: Number
    kind: Word
    block: str
    hour: Hour
    wall_ms: WallMs
    detail: Detail


class End(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="line", tag="end"):
    """The last line: a file without it was cut off. `sha256` is of all bytes before this line."""

    blocks: Number
    events: Number
    sha256: Id


Line = Header | Block | Source | Event | End


Sources = Annotated[
    list[Source], msgspec.Meta(max_length=MAX_SOURCES, description="at most 4096 logs that events are from")
]
Blocks = Annotated[list[Block], msgspec.Meta(max_length=MAX_PAGE_BLOCKS, description="at most 512 blocks")]
Events = Annotated[list[Event], msgspec.Meta(max_length=MAX_PAGE_EVENTS, description="at most 4096 events")]


class ExportPage(Params, frozen=True):
    """A page of the export: the next one after `cursor`, as the page before gave it; '' for the first."""

    cursor: Word = ""


class ExportedPage(msgspec.Struct, frozen=True):
    """Blocks, then events with the sources they name (by place in `sources`, of this page only).

    `cursor` asks for the next page, '' when this was the last. `done` of `total` steps are behind. `peers`:
    blocks that only peers know, which are left out.
    """

    hour: float
    sources: list[Source]
    blocks: list[Block]
    events: list[Event]
    cursor: str
    done: int
    total: int
    peers: int


class ImportPage(Params, frozen=True):
    """A page of a file: blocks, or events about blocks that are here or came in an earlier page.

    `file`: SHA-256 of the whole file, `hour`: its clock. `sources`: all that the events of this page name,
    by place. With `dry_run` nothing is changed, and blocks need not be here. `trust` lets changes of trust
    count.
    """

    file: Id
    hour: Hour
    sources: Sources
    blocks: Blocks
    events: Events
    dry_run: bool = False
    trust: bool = False


class ImportedPage(msgspec.Struct, frozen=True):
    """What became of a page, in numbers of blocks and events.

    `*_new` were (or would be) added, `*_known` were here. `blocks_forgotten` were forgotten here and stay
    out, with `events_forgotten` about them. `events_own` are this home's own. `trust_new` changes of trust
    were noted; they count where that was asked for.
    """

    blocks_new: int = 0
    blocks_known: int = 0
    blocks_forgotten: int = 0
    events_new: int = 0
    events_known: int = 0
    events_own: int = 0
    events_forgotten: int = 0
    trust_new: int = 0


def added(left: ImportedPage, right: ImportedPage) -> ImportedPage:
    """The sum of two pages."""
    return ImportedPage(
        *(getattr(left, name) + getattr(right, name) for name in ImportedPage.__struct_fields__)
    )
