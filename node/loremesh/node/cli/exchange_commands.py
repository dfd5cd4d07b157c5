"""The commands for files: export, and import of one's own exports and of other systems' memories."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final

import typer

from loremesh.node import verbs
from loremesh.node.cli.arguments import invocation
from loremesh.node.cli.console import answer, note, progress_shown
from loremesh.node.cli.invocation import Invocation
from loremesh.node.cli.plain import plain as shown
from loremesh.node.cli.render import count, say
from loremesh.node.cli.session import reach
from loremesh.node.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from loremesh.node.exchange.files import Exported, Importing, Took

STANDARD_OUTPUT: Final = "-"
FORMATS: Final = ("jsonl", "markdown")
ELFMEM: Final = "elfmem"
HOW: Final = "it is `import FILE` or `import elfmem FILE`"
IN_PLAIN: Final = (
    "{name} holds the memory in plain text: whoever can read the file can read all of it. "
    "Only its owner can (0600); keep it so, or encrypt it."
)


def export(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file not there yet; - with --plain.")],
    format_: Annotated[
        str, typer.Option("--format", metavar="F", help="jsonl (can be imported) or markdown (for reading).")
    ] = "jsonl",
    plain: Annotated[
        bool, typer.Option("--plain", help="Allow plain text on standard output, where anybody may read it.")
    ] = False,
) -> None:
    """Write the memory to a file.

    Every block and event of this home's own, in plain text: the file is made readable for its owner only.
    Keys, embeddings and what only peers know are not in it. As jsonl it can be imported again: a round trip
    changes nothing.

    \b
    loremesh export memory.jsonl
    loremesh export memory.md --format markdown
    """
    run = invocation(ctx)
    if format_ not in FORMATS:
        raise UsageError(f"there is no format {format_[:80]!r}", f"choose {' or '.join(FORMATS)}")
    if file != STANDARD_OUTPUT:
        from loremesh.node.exchange.private import private_file

        with private_file(Path(file)) as out:
            result = _exported(run, out, format_)
        note(run, IN_PLAIN.format(name=file))
        answer(run, result, lambda out: _say_exported(out, result, file))
        return
    if not plain:
        raise UsageError(
            "an export is plain text, and standard output may be read by anybody",
            "name a file, which is made for its owner only, or add --plain",
        )
    if run.as_json:
        raise UsageError("--json and an export on standard output were asked for", "name a file")
    _exported(run, sys.stdout.buffer, format_)
    sys.stdout.buffer.flush()


def _exported(run: Invocation, out: BinaryIO, format_: str) -> Exported:
    from loremesh.node.cli.documents import document
    from loremesh.node.exchange.files import answered, exporting

    with progress_shown(run, "exporting") as show, reach(run.home) as calls:
        if format_ == "markdown":
            return document(calls, out, show)
        return answered(exporting(out, show), lambda asked: calls.call(verbs.EXPORT_PAGE, asked))


def import_(
    ctx: typer.Context,
    files: Annotated[
        list[str],
        typer.Argument(metavar="[elfmem] FILE", help="The file; after `elfmem`, its database or bundle."),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be taken in, and change nothing.")
    ] = False,
    trust: Annotated[
        bool, typer.Option("--trust", help="Let the changes of trust in an export count here.")
    ] = False,
    archived: Annotated[bool, typer.Option("--archived", help="elfmem: take archived blocks too.")] = False,
) -> None:
    """Take in a file: an export, or another system's memory.

    The whole file is checked first; when anything is wrong with it, nothing is written. What is here already
    adds nothing, so a file may be imported twice. Evidence from files counts here and is never shared.

    \b
    loremesh import memory.jsonl
    loremesh import elfmem ~/.elfmem/agent.db --dry-run
    """
    run = invocation(ctx)
    foreign = len(files) > 1
    if len(files) > 2 or (foreign and files[0] != ELFMEM):
        raise UsageError(f"{' '.join(files)[:80]!r} is no file to import", HOW)
    if files == [ELFMEM] and not Path(ELFMEM).exists():
        raise UsageError("the elfmem file is not named", HOW)
    if foreign and trust:
        raise UsageError("--trust is for exports of loremesh", "leave it out")
    if archived and not foreign:
        raise UsageError("--archived is for elfmem", HOW)
    if foreign:
        _take_elfmem(run, Path(files[1]), dry_run, archived)
    else:
        _take_export(run, Path(files[0]), dry_run, trust)


def _take_export(run: Invocation, path: Path, dry_run: bool, trust: bool) -> None:
    from loremesh.node.exchange.files import importing
    from loremesh.node.exchange.reading import ExportFile

    with ExportFile(path) as file:
        checked = file.check()
        with progress_shown(run, "importing", checked.steps) as show:
            _take(run, importing(file.told, checked, dry_run=dry_run, trust=trust, progress=show))


def _take_elfmem(run: Invocation, path: Path, dry_run: bool, archived: bool) -> None:
    from loremesh.node.exchange.elfmem import prepare
    from loremesh.node.exchange.elfmem_tables import read_elfmem
    from loremesh.node.exchange.files import importing_prepared

    prepared = prepare(read_elfmem(path), archived=archived)
    with progress_shown(run, "importing", prepared.checked.steps) as show:
        _take(run, importing_prepared(prepared, dry_run, show))


def _take(run: Invocation, steps: Importing) -> None:
    from loremesh.node.exchange.files import answered

    with reach(run.home) as calls:
        result = answered(steps, lambda page: calls.call(verbs.IMPORT_PAGE, page))
    answer(run, result, lambda out: _say_took(out, result))


def _say_exported(out: Console, result: Exported, file: str) -> None:
    """How much is in the file, and what is not."""
    say(out, f"{count(result.blocks, 'block')} in {shown(file)}" + _with_events(result))
    if result.peers:
        say(out, f"left out: {count(result.peers, 'block')} that only peers know")
    say(out, f"sha256 {result.file}")


def _with_events(result: Exported) -> str:
    """Events are in what can be imported again; a document for reading has none."""
    return f", with {count(result.events, 'event')}" if result.events else ""


def _say_took(out: Console, result: Took) -> None:
    """What was taken in, or would be, and what was not."""
    counts = result.counts
    would = "would be " if result.dry_run else ""
    for remark in result.remarks:
        say(out, shown(remark))
    say(out, f"blocks: {counts.blocks_new} {would}new, {counts.blocks_known} known already")
    say(out, f"events: {counts.events_new} {would}new, {counts.events_known} known already")
    if result.dry_run:
        say(out, "nothing was changed: this was a dry run")
