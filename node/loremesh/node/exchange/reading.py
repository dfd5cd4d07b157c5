"""The reader's side of an import: a file checked from end to end, then cut into pages.

Everything that can be wrong with a file by itself is found here, before the home is asked for anything.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

import msgspec

from loremesh.node.errors import NodeError, UsageError
from loremesh.node.events import Connect, Linked, Outcome
from loremesh.node.exchange import lines
from loremesh.node.exchange.telling import Told, block_named, hear
from loremesh.node.firsthand import MAX_CONTEXTS_PER_BLOCK
from loremesh.sync.content import block_id, check_text
from loremesh.sync.errors import InvalidInput

MAX_LINE_BYTES: Final = 1 << 20
"""A text of 64 KiB with every byte escaped as JSON allows, and room to spare."""
NO_ROW: Final = -1
AGAIN: Final = "make the export again; nothing was imported"
OTHER_FILE: Final = "give a file that `loremesh export` wrote, or for elfmem's `loremesh import elfmem FILE`"
PAGE_BYTES: Final = 1 << 20
"""Bytes of lines that go to the home in one page; one line more at most."""

OTHERS: Final = (
    (b"SQLite format 3\0", "a SQLite database", "for an elfmem database: loremesh import elfmem FILE"),
    (b"PK\x03\x04", "a zip archive", "give the export file itself"),
    (b"\x1f\x8b", "compressed with gzip", "decompress it first"),
    (b"\xef\xbb\xbf", "marked as UTF-8 with a byte order mark", "remove its first three bytes"),
)
"""How other files begin, what they are, and what to do."""

Progress = Callable[[int, int], None]
Sized = tuple[lines.Line, int]
"""A line and its length in bytes."""
T = TypeVar("T")

_decoder: Final = msgspec.json.Decoder(lines.Line)


class Checked(msgspec.Struct, frozen=True):
    """A file that can be taken in: its hash, its clock, and how much is in it."""

    file: str
    hour: float
    blocks: int
    events: int

    @property
    def steps(self) -> int:
        """Lines to take in, for showing progress."""
        return self.blocks + self.events


class ExportFile:
    """An export file that is open for reading."""

    def __init__(self, path: Path) -> None:
        """Raises NodeError when the file cannot be read."""
        self.path = path
        try:
            self._file: BinaryIO = path.open("rb")
        except OSError as error:
            raise unreadable(path, error) from error

    def __enter__(self) -> ExportFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def check(self) -> Checked:
        """Read all of it. Raises UsageError naming the line and what is wrong with it."""
        check = _Check()
        digest = hashlib.sha256()
        begin = self._file.read(16)
        for mark, what, remedy in OTHERS:
            if begin.startswith(mark):
                raise UsageError(f"{self.path} is no export file: it is {what}", remedy)
        end: lines.End | None = None
        number = 0
        for number, raw in self._raw():
            if end is not None:
                raise self._wrong(number, "follows the end line")
            line = self._decoded(number, raw)
            try:
                check.line(line)
            except InvalidInput as error:
                raise self._wrong(number, str(error)) from None
            if isinstance(line, lines.End):
                end = line
            else:
                digest.update(raw)
        if end is None:
            raise UsageError(
                f"{self.path} ends without its end line, after line {number}: it was cut off",
                AGAIN,
            )
        if end.sha256 != digest.hexdigest():
            raise UsageError(
                f"{self.path} was altered: its lines do not have the SHA-256 that its last line states",
                AGAIN,
            )
        return Checked(end.sha256, check.hour, check.blocks, check.events)

    def told(self) -> Iterator[Sized]:
        """The file's lines again, once it has been checked."""
        for number, raw in self._raw():
            yield self._decoded(number, raw), len(raw)

    def _raw(self) -> Iterator[tuple[int, bytes]]:
        number = 0
        try:
            self._file.seek(0)
            while raw := self._file.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(raw) > MAX_LINE_BYTES:
                    raise self._wrong(number, f"has more than {MAX_LINE_BYTES} bytes")
                yield number, raw
        except OSError as error:
            raise unreadable(self.path, error) from error

    def _decoded(self, number: int, raw: bytes) -> lines.Line:
        try:
            return _decoder.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            hint = OTHER_FILE if number == 1 else AGAIN
            raise self._wrong(number, f"is no line of an export: {error}", hint) from None

    def _wrong(self, number: int, what: str, hint: str = AGAIN) -> UsageError:
        return UsageError(f"{self.path}, line {number}: {what}", hint)


class _Check:
    """What has been read so far, as far as later lines depend on it."""

    def __init__(self) -> None:
        self.hour = 0.0
        self.blocks = self.events = 0
        self._begun = self._ended = False
        self._sources: set[lines.Source] = set()
        self._ids: dict[str, int] = {}
        self._last: dict[tuple[int, int], int] = {}
        self._contexts: dict[tuple[int, int], set[str]] = {}

    def line(self, line: lines.Line) -> None:
        """Raises InvalidInput for a line that cannot stand here."""
        if isinstance(line, lines.Header) == self._begun:
            raise InvalidInput("the header", "is not the first line" if self._begun else "is missing")
        match line:
            case lines.Header():
                if line.format != lines.FORMAT:
                    raise InvalidInput(
                        "format", f"is {line.format}; this release reads {lines.FORMAT}: use a later one"
                    )
                self._begun, self.hour = True, line.hour
            case lines.Block():
                self._block(line)
            case lines.Source():
                if line in self._sources:
                    raise InvalidInput("source", "is there twice")
                if len(self._sources) >= lines.MAX_SOURCES:
                    raise InvalidInput("source", f"is one more than {lines.MAX_SOURCES}")
                self._sources.add(line)
            case lines.Event():
                self._event(line)
            case lines.End():
                if (line.blocks, line.events) != (self.blocks, self.events):
                    raise InvalidInput(
                        "the end",
                        f"counts {line.blocks} blocks and {line.events} events, but there are "
                        f"{self.blocks} and {self.events}",
                    )

    def _block(self, line: lines.Block) -> None:
        if self.events:
            raise InvalidInput("a block", "stands behind events; blocks come first")
        if line.text is not None:
            check_text(line.text)
            if block_id(line.text).hex() != line.id:
                raise InvalidInput("id", "is not the SHA-256 of the normalised text")
        if self._ids.setdefault(line.id, self.blocks) != self.blocks:
            raise InvalidInput("block", f"{line.id} is there twice")
        self.blocks += 1

    def _event(self, line: lines.Event) -> None:
        if line.source >= len(self._sources):
            raise InvalidInput("source", f"is {line.source}; {len(self._sources)} were named before")
        if line.hour > self.hour:
            raise InvalidInput("hour", f"is {line.hour}, later than the file's own {self.hour}")
        told: Told = hear(line.kind, line.hour, line.wall_ms, line.detail, self._place)
        if (line.kind == "trust") != (line.block == ""):
            raise InvalidInput("block", "is given for trust, or is missing")
        place = self._place(block_named(line.block)) if line.block else NO_ROW
        if isinstance(told, Connect) and told.other == place:
            raise InvalidInput("other", "is the block itself")
        if isinstance(told, Linked) and place in told.others:
            raise InvalidInput("others", "have the block itself among them")
        key = (line.source, place)
        if self._last.get(key, -1) >= line.n:
            raise InvalidInput("n", f"is {line.n}, not above {self._last[key]}, the one of this block before")
        self._last[key] = line.n
        if isinstance(told, Outcome) and told.context:
            known = self._contexts.setdefault(key, set())
            known.add(told.context)
            if len(known) > MAX_CONTEXTS_PER_BLOCK:
                raise InvalidInput("context", f"is number {len(known)} of this block")
        self.events += 1

    def _place(self, id_: bytes) -> int:
        place = self._ids.get(id_.hex())
        if place is None:
            raise InvalidInput("block", f"{id_.hex()} is not in the file")
        return place


def paged(
    told: Iterable[Sized], file: str, hour: float, *, dry_run: bool, trust: bool
) -> Iterator[lines.ImportPage]:
    """The lines in pages that a door takes, each naming the sources of its own events."""
    sources: list[lines.Source] = []
    page = _Page()
    for line, size in told:
        match line:
            case lines.Source():
                sources.append(line)
                continue
            case lines.Block():
                full = len(page.blocks) >= lines.MAX_PAGE_BLOCKS or bool(page.events)
            case lines.Event():
                full = len(page.events) >= lines.MAX_PAGE_EVENTS or bool(page.blocks)
            case _:
                continue
        if full or page.size > PAGE_BYTES:
            yield page.made(file, hour, dry_run, trust)
            page = _Page()
        page.add(line, size, sources)
    if page.size:
        yield page.made(file, hour, dry_run, trust)


class _Page:
    """A page being filled."""

    def __init__(self) -> None:
        self.blocks: list[lines.Block] = []
        self.events: list[lines.Event] = []
        self.size = 0
        self._sources: dict[int, int] = {}
        self._named: list[lines.Source] = []

    def add(self, line: lines.Block | lines.Event, size: int, sources: list[lines.Source]) -> None:
        """One more line; an event's source gets a place of its own in the page."""
        self.size += size
        if isinstance(line, lines.Block):
            self.blocks.append(line)
            return
        place = self._sources.get(line.source)
        if place is None:
            place = self._sources[line.source] = len(self._named)
            self._named.append(sources[line.source])
        self.events.append(msgspec.structs.replace(line, source=place))

    def made(self, file: str, hour: float, dry_run: bool, trust: bool) -> lines.ImportPage:
        """The page as it goes to the home."""
        return lines.ImportPage(file, hour, self._named, self.blocks, self.events, dry_run, trust)


def unreadable(path: Path, error: OSError) -> NodeError:
    """The error for a file that the system does not let be read."""
    return NodeError(f"{path} cannot be read: {error.strerror or error}", "see to its path and permissions")
