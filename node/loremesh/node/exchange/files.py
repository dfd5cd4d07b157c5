"""Files in and out through a home's verbs, whoever carries those out: an open node, or a running one's door.

The verbs take pages, so no path and no whole file crosses a door. What is the same for both ways of asking
is a generator here: it yields questions and is sent the answers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

import msgspec

from loremesh.node.exchange import lines
from loremesh.node.exchange.elfmem import Prepared, prepare
from loremesh.node.exchange.elfmem_tables import read_elfmem
from loremesh.node.exchange.private import private_file
from loremesh.node.exchange.reading import Checked, ExportFile, Sized, paged
from loremesh.node.exchange.writing import ExportWriter

if TYPE_CHECKING:
    from loremesh.node.node import Node

Progress = Callable[[int, int], None]

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")
Result = TypeVar("Result")


class Exported(msgspec.Struct, frozen=True):
    """What an export wrote. `peers` blocks are known from peers only, and left out. `file`: its SHA-256."""

    blocks: int
    events: int
    peers: int
    file: str


class Took(msgspec.Struct, frozen=True):
    """What an import did, or would do. `file`: SHA-256 of what was read. `remarks`: what to know about it."""

    dry_run: bool
    file: str
    counts: lines.ImportedPage
    remarks: list[str] = []


Exporting = Generator[lines.ExportPage, lines.ExportedPage, Exported]
Importing = Generator[lines.ImportPage, lines.ImportedPage, Took]


def exporting(out: BinaryIO, progress: Progress | None) -> Exporting:
    """Write the export file that the answers make up."""
    writer, cursor, peers = ExportWriter(out.write), "", 0
    while True:
        page = yield lines.ExportPage(cursor)
        writer.page(page)
        peers = max(peers, page.peers)
        if progress is not None:
            progress(page.done, page.total)
        cursor = page.cursor
        if not cursor:
            return Exported(writer.blocks, writer.events, peers, writer.end())


def importing(
    told: Callable[[], Iterable[Sized]],
    checked: Checked,
    *,
    dry_run: bool,
    trust: bool,
    progress: Progress | None,
) -> Importing:
    """Ask what each page would do; when none is refused, and it is no dry run, have each taken in."""
    counts = lines.ImportedPage()
    rounds = (True,) if dry_run else (True, False)
    for before, rehearsal in enumerate(rounds):
        counts, done = lines.ImportedPage(), 0
        for page in paged(told(), checked.file, checked.hour, dry_run=rehearsal, trust=trust):
            counts = lines.added(counts, (yield page))
            done += len(page.blocks) + len(page.events)
            if progress is not None:
                progress(before * checked.steps + done, len(rounds) * checked.steps)
    return Took(dry_run, checked.file, counts, _remarks(counts, trust))


async def export_to(node: Node, path: Path, *, progress: Progress | None = None) -> Exported:
    """Write an export of an open node to a new file that only its owner can read."""
    with private_file(path) as out:
        return await _answered(exporting(out, progress), lambda asked: node.export_page(asked.cursor))


async def import_from(
    node: Node, path: Path, *, dry_run: bool = False, trust: bool = False, progress: Progress | None = None
) -> Took:
    """Take an export file into an open node. Raises UsageError, and changes nothing, when it is not sound."""
    with ExportFile(path) as file:
        checked = file.check()
        steps = importing(file.told, checked, dry_run=dry_run, trust=trust, progress=progress)
        return await _answered(steps, node.import_page)


async def import_elfmem(
    node: Node,
    path: Path,
    *,
    dry_run: bool = False,
    archived: bool = False,
    progress: Progress | None = None,
) -> Took:
    """Take an elfmem database or bundle into an open node. Raises UsageError when something in it is off."""
    prepared = prepare(read_elfmem(path), archived=archived)
    return await _answered(importing_prepared(prepared, dry_run, progress), node.import_page)


def importing_prepared(prepared: Prepared, dry_run: bool, progress: Progress | None) -> Importing:
    """As `importing`, of lines that were prepared from another system's file."""
    took = yield from importing(
        lambda: prepared.told, prepared.checked, dry_run=dry_run, trust=False, progress=progress
    )
    return msgspec.structs.replace(took, remarks=[*prepared.remarks, *took.remarks])


async def _answered(
    steps: Generator[Asked, Answer, Result],
    answer: Callable[[Asked], Awaitable[Answer]],
) -> Result:
    try:
        asked = next(steps)
        while True:
            asked = steps.send(await answer(asked))
    except StopIteration as end:
        result: Result = end.value
        return result


def answered(steps: Generator[Asked, Answer, Result], answer: Callable[[Asked], Answer]) -> Result:
    """Carry a generator of questions through, in a program that waits for each answer."""
    try:
        asked = next(steps)
        while True:
            asked = steps.send(answer(asked))
    except StopIteration as end:
        result: Result = end.value
        return result


def _remarks(counts: lines.ImportedPage, trust: bool) -> list[str]:
    found = []
    if counts.blocks_forgotten:
        found.append(
            f"{counts.blocks_forgotten} blocks were forgotten here and stay out; learn one to have it again"
        )
    if counts.events_own:
        found.append(f"{counts.events_own} events are of this home's own log, where they are already")
    if counts.trust_new and not trust:
        found.append(
            f"{counts.trust_new} changes of trust are noted but not in force; --trust lets them count"
        )
    return found
