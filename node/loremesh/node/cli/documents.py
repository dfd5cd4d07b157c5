"""A Markdown document of a home, made through its verbs."""

from __future__ import annotations

import hashlib
import time
from typing import BinaryIO

from loremesh.node import verbs
from loremesh.node.cli.session import Calls
from loremesh.node.errors import UnknownThing
from loremesh.node.exchange import lines
from loremesh.node.exchange.files import Exported, Progress
from loremesh.node.exchange.markdown import heading, learned_at, section
from loremesh.node.params import Explain


def document(calls: Calls, out: BinaryIO, progress: Progress) -> Exported:
    """Write every block that is held, in the order of learning, with what is known about it."""
    blocks: list[str] = []
    learned_ms: dict[str, int] = {}
    peers, cursor, page = 0, "", None
    while page is None or cursor:
        page = calls.call(verbs.EXPORT_PAGE, lines.ExportPage(cursor))
        blocks += [block.id for block in page.blocks if block.text is not None]
        learned_at(page.events, learned_ms)
        peers, cursor = max(peers, page.peers), page.cursor
    digest = hashlib.sha256()

    def write(part: bytes) -> None:
        digest.update(part)
        out.write(part)

    blocks.sort(key=lambda block: learned_ms.get(block, 0))
    write(heading(page.hour, len(blocks), time.time_ns() // 1_000_000))
    written = 0
    for done, block in enumerate(blocks, start=1):
        try:
            seen = calls.call(verbs.EXPLAIN, Explain(block))
        except UnknownThing:
            continue  # forgotten meanwhile
        write(section(seen, learned_ms.get(block)))
        written += 1
        progress(done, len(blocks))
    return Exported(written, 0, peers, digest.hexdigest())
