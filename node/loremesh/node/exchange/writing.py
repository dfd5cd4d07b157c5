"""The writer's side of an export: pages become lines of a file, or a document for people."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final

import msgspec

from loremesh.node.exchange import lines

Write = Callable[[bytes], object]

_encoder: Final = msgspec.json.Encoder()


class ExportWriter:
    """Writes an export file, page by page. `blocks` and `events` count what was written."""

    def __init__(self, write: Write) -> None:
        self.blocks = self.events = 0
        self._write = write
        self._digest = hashlib.sha256()
        self._sources: dict[lines.Source, int] = {}
        self._begun = False

    def page(self, page: lines.ExportedPage) -> None:
        """Write the next page."""
        if not self._begun:
            self._line(lines.Header(lines.FORMAT, page.hour))
            self._begun = True
        for block in page.blocks:
            self._line(block)
        self.blocks += len(page.blocks)
        for event in page.events:
            source = page.sources[event.source]
            number = self._sources.get(source)
            if number is None:
                number = self._sources[source] = len(self._sources)
                self._line(source)
            self._line(msgspec.structs.replace(event, source=number))
        self.events += len(page.events)

    def end(self) -> str:
        """Write the end line; the SHA-256 of the lines before it, hex."""
        digest = self._digest.hexdigest()
        self._line(lines.End(self.blocks, self.events, digest))
        return digest

    def _line(self, line: lines.Line) -> None:
        raw = _encoder.encode(line) + b"\n"
        self._digest.update(raw)
        self._write(raw)
