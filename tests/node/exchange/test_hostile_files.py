"""Files that are cut off, altered, of another kind or made to harm: refused, and nothing is written."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from loremesh.node.errors import NodeError, UsageError
from loremesh.node.exchange.files import export_to, import_from
from loremesh.node.exchange.lines import Block, ImportPage
from loremesh.node.exchange.reading import MAX_LINE_BYTES, ExportFile
from loremesh.node.node import Node
from loremesh.sync.content import block_id
from loremesh.sync.errors import InvalidInput
from tests.node.exchange.homes_with_files import Line, live, put_together, taken_apart
from tests.node.homes import Homes, faultless

TEXT = "Rotate the certificates in March"
ID = block_id(TEXT).hex()
OTHER = block_id("Another one").hex()
HEADER: Line = {"line": "loremesh", "format": 1, "hour": 2.0}
BLOCK: Line = {"line": "block", "id": ID, "text": TEXT}
SOURCE: Line = {"line": "source", "origin": "ab" * 32, "incarnation": "cd" * 16, "name": "bob"}
LEARN: Line = {
    "line": "event",
    "source": 0,
    "n": 1,
    "kind": "learn",
    "block": ID,
    "hour": 1.0,
    "wall_ms": 5,
    "detail": {"prior": 0.5, "tags": ["ops"]},
}
JUDGED: dict[str, Any] = {
    "signal": 1.0,
    "weight": 1.0,
    "retrieval": 1.0,
    "alpha": 1.0,
    "beta": 0.0,
    "version": 1,
    "context": "",
    "episode": "",
    "implicit": False,
}
OUTCOME: Line = {**LEARN, "n": 2, "kind": "outcome", "detail": JUDGED}
SOUND: list[Line | bytes] = [HEADER, BLOCK, SOURCE, LEARN, OUTCOME]


def judged(**changes: object) -> list[Line | bytes]:
    """The sound file with another outcome."""
    return [*SOUND[:-1], {**OUTCOME, "detail": {**JUDGED, **changes}}]


def with_event(**changes: object) -> list[Line | bytes]:
    """The sound file with another last event."""
    return [*SOUND[:-1], {**OUTCOME, **changes}]


def linked(others: object, weights: object) -> list[Line | bytes]:
    """The sound file whose last event is links that similarity proposed."""
    return with_event(kind="linked", detail={"others": others, "weights": weights})


WRONG: dict[str, tuple[list[Line | bytes], str]] = {
    "no header": (SOUND[1:], "line 1: the header is missing"),
    "another system's file": ([b"{", *SOUND[1:]], "line 1: is no line of an export"),
    "two headers": ([HEADER, *SOUND], "not the first line"),
    "a later format": ([{**HEADER, "format": 2}, *SOUND[1:]], "this release reads 1"),
    "a block twice": ([HEADER, BLOCK, BLOCK, *SOUND[2:]], "there twice"),
    "an altered text": ([HEADER, {**BLOCK, "text": "Altered"}, *SOUND[2:]], "not the SHA-256"),
    "an empty text": ([HEADER, {**BLOCK, "text": "  "}, *SOUND[2:]], "is empty"),
    "a NUL": ([HEADER, {**BLOCK, "text": "a\0b"}, *SOUND[2:]], "NUL"),
    "a text that is a number": (
        [HEADER, {**BLOCK, "text": 5}, *SOUND[2:]],
        "line 2: is no line of an export",
    ),
    "a block behind events": ([*SOUND, {**BLOCK, "id": OTHER, "text": "Another one"}], "blocks come first"),
    "a source twice": ([HEADER, BLOCK, SOURCE, SOURCE, LEARN], "there twice"),
    "an unknown source": ([HEADER, BLOCK, LEARN], "source is 0"),
    "a block that is not there": (with_event(block=OTHER), "not in the file"),
    "a block that is no id": (with_event(block="x" * 64), "must be an id"),
    "an unknown kind": (with_event(kind="explode"), "none this release knows"),
    "an unknown field": (with_event(colour="red"), "unknown field"),
    "an unknown detail": (judged(colour="red"), "colour is not known"),
    "numbers out of order": (with_event(n=1), "not above 1"),
    "an hour after the file's": (with_event(hour=2.5), "later than the file's own"),
    "a wall time beyond the calendar": (with_event(wall_ms=10**18), "line 5"),
    "a signal above 1": (judged(signal=1.5), "signal is 1.5"),
    "a negative alpha": (judged(alpha=-5), "alpha is -5"),
    "a gigantic alpha": (judged(alpha=1e9), "alpha is 1000000000.0"),
    "a number beyond floats": ([*SOUND[:-1], b'{"line":"event","n":1e999}'], "line 5"),
    "NaN": ([*SOUND[:-1], b'{"line":"event","n":NaN}'], "line 5"),
    "a signal that is a text": (judged(signal="1"), "must be a number"),
    "a signal that is true": (judged(signal=True), "must be a number"),
    "a context with a control character": (judged(context="a\x1bb"), "control characters"),
    "a context that is too long": (judged(context="x" * 65), "65 characters"),
    "an episode of another length": (judged(episode="ab"), "episode has 1 bytes"),
    "tags of a wrong type": (with_event(kind="learn", detail={"prior": 1, "tags": "ops"}), "list of texts"),
    "too many tags": (
        with_event(kind="learn", detail={"prior": 1, "tags": [f"t{n}" for n in range(33)]}),
        "tags are 33",
    ),
    "a link to itself": (with_event(kind="connect", detail={"other": ID, "weight": 1}), "block itself"),
    "a link to nothing": (
        with_event(kind="connect", detail={"other": OTHER, "weight": 1}),
        "not in the file",
    ),
    "links to itself": (linked([ID], [0.5]), "block itself"),
    "links to nothing": (linked([OTHER], [0.5]), "not in the file"),
    "a link twice in one event": (linked([OTHER, OTHER], [0.5, 0.5]), "names a block twice"),
    "links without their weights": (linked([], [0.5]), "a weight for each"),
    "a weight above 1": (linked([ID], [1.5]), "weights is 1.5"),
    "a weight that is a text": (linked([ID], ["much"]), "must be a number"),
    "weights that are no list": (linked([ID], 0.5), "list of numbers"),
    "links to no ids": (linked(["x"], [0.5]), "must be an id"),
    "too many links": (linked([f"{n:064x}" for n in range(33)], [0.5] * 33), "not in the file"),
    "bytes that are no UTF-8": ([HEADER, b'{"line":"block","id":"\xff\xfe"}'], "line 2"),
    "a line that is a list": ([HEADER, b"[1]"], "line 2"),
    "a deep line": ([HEADER, b"[" * 100_000], "line 2"),
    "a blank line": ([HEADER, b""], "line 2"),
    "a line without an end": ([HEADER, b" " * (MAX_LINE_BYTES + 10)], "more than 1048576 bytes"),
}


@pytest.fixture
def homes(tmp_path: Path) -> Homes:
    return Homes(tmp_path / "homes")


@pytest.fixture
async def node(homes: Homes) -> AsyncIterator[Node]:
    async with homes.create("alice") as node:
        await node.learn("Something of its own")
        yield node
        await faultless(node)


async def refused(node: Node, path: Path, why: str) -> None:
    """The import fails for this reason, and not a row is written."""
    before = node.ground.store.position, node.ground.memory.length
    with pytest.raises(UsageError) as failure:
        await import_from(node, path)
    assert why in str(failure.value)
    assert str(path) in str(failure.value)
    assert (node.ground.store.position, node.ground.memory.length) == before


async def test_the_sound_file_is_taken(node: Node, tmp_path: Path) -> None:
    """So that the others are refused for what is wrong with them."""
    took = await import_from(node, put_together(tmp_path / "sound.jsonl", SOUND))
    assert (took.counts.blocks_new, took.counts.events_new) == (1, 2)


@pytest.mark.parametrize("what", WRONG)
async def test_a_wrong_line_is_named_and_nothing_is_written(node: Node, tmp_path: Path, what: str) -> None:
    """Sound lines around it, and a fitting end line: the line itself is what stops the import."""
    told, why = WRONG[what]
    await refused(node, put_together(tmp_path / "wrong.jsonl", told), why)


async def test_a_file_cut_off_anywhere_is_refused(node: Node, homes: Homes, tmp_path: Path) -> None:
    """At a line's end or within one, from its first byte to its last."""
    async with homes.create("bob") as bob:
        await live(bob, homes, steps=3)
        await export_to(bob, tmp_path / "whole.jsonl")
    raw = (tmp_path / "whole.jsonl").read_bytes()
    ends = [at for at in range(len(raw) - 1) if raw[at : at + 1] == b"\n"]
    for at in [0, 1, *ends[:3], ends[-1], ends[-1] + 1, *range(7, len(raw) - 1, len(raw) // 17)]:
        (tmp_path / "cut.jsonl").write_bytes(raw[:at])
        await refused(node, tmp_path / "cut.jsonl", "cut.jsonl")


async def test_a_changed_byte_is_found(node: Node, homes: Homes, tmp_path: Path) -> None:
    """Even one that leaves every line well formed."""
    path = put_together(tmp_path / "a.jsonl", SOUND)
    raw = path.read_bytes()
    for before, after in ((b'"n":2', b'"n":3'), (b'"signal":1.0', b'"signal":0.0'), (b"bob", b"eve")):
        path.write_bytes(raw.replace(before, after))
        await refused(node, path, "altered")
    path.write_bytes(raw + raw.splitlines()[1])
    await refused(node, path, "follows the end line")


def _zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("memory.jsonl", "{}")


OTHERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "zip": (_zip, "zip archive"),
    "gzip": (lambda path: path.write_bytes(gzip.compress(b"{}")), "gzip"),
    "sqlite": (lambda path: path.write_bytes(b"SQLite format 3\0" + bytes(100)), "SQLite"),
    "byte order mark": (lambda path: path.write_bytes(b"\xef\xbb\xbf{}"), "byte order mark"),
    "empty": (lambda path: path.write_bytes(b""), "cut off"),
    "noise": (lambda path: path.write_bytes(bytes(range(256)) * 40), "no line of an export"),
}


@pytest.mark.parametrize("kind", OTHERS)
async def test_another_kind_of_file_is_called_by_its_name(node: Node, tmp_path: Path, kind: str) -> None:
    """With the remedy where there is one."""
    make, why = OTHERS[kind]
    make(tmp_path / "other")
    await refused(node, tmp_path / "other", why)


async def test_a_file_that_is_not_there_is_a_failure(node: Node, tmp_path: Path) -> None:
    """A directory, too."""
    for path in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(NodeError, match="cannot be read"):
            await import_from(node, path)


async def test_the_home_does_not_take_the_readers_word(node: Node) -> None:
    """Whoever talks to the door sends what they like: a page is checked again."""
    empty: dict[str, Any] = {"file": "0" * 64, "hour": 1.0, "sources": [], "blocks": [], "events": []}
    before = node.ground.store.position.n
    pages = {
        "not the SHA-256": {"blocks": [Block(OTHER, TEXT)]},
        "there twice": {"blocks": [Block(ID, TEXT), Block(ID, TEXT)]},
    }
    for why, parts in pages.items():
        with pytest.raises(InvalidInput, match=why):
            await node.import_page(ImportPage(**{**empty, **parts}))
    assert node.ground.store.position.n == before


async def test_a_file_of_a_later_event_kind_names_the_kind(node: Node, tmp_path: Path) -> None:
    """So that one knows a later release wrote it."""
    told = taken_apart(put_together(tmp_path / "a.jsonl", SOUND).read_bytes())
    path = put_together(tmp_path / "later.jsonl", [*told[:-2], {**OUTCOME, "kind": "dreamt"}])
    await refused(node, path, "'dreamt'")


def test_a_file_that_is_no_export_is_sent_to_its_command(tmp_path: Path) -> None:
    """Making an export again would not help there."""
    bundle = tmp_path / "bundle.json"
    bundle.write_text('{\n  "bundle_version": 2\n}\n')
    with ExportFile(bundle) as file, pytest.raises(UsageError) as refusal:
        file.check()
    assert "import elfmem" in refusal.value.hint
