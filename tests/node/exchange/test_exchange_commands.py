"""`loremesh export` and `import` as they are run: on a closed home, and through a running node's door."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.node.doors.program import CONFIG, Program, made, new_program
from tests.node.exchange.elfmem_files import BLOCK, block, database

TEXT = "Restart the *indexer* after a ```schema``` change"


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """A home with two blocks and an outcome. All is rated: a node that runs has nothing to add to it."""
    program = made(tmp_path_factory.mktemp("lived"))
    learned = program.ask("learn", TEXT, "--tag", "ops")["block"]
    program.ask("learn", "Nothing to do with it\x1b[2J")
    program.ask("outcome", "0.75", "--block", learned, "--context", "deploy")
    assert program.ask("consolidate")["rated"] == 2
    return program


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """Another home, with a node running on it, which does not consolidate what it takes in meanwhile."""
    program = made(tmp_path_factory.mktemp("running"))
    (program.home / "config.toml").write_text(CONFIG + "[sharing]\nconsolidate_every_s = 86400\n")
    with program.up():
        yield program


def test_a_round_trip_through_a_running_node_is_the_identity(
    lived: Program, running: Program, tmp_path: Path
) -> None:
    """Pages cross the door, paths do not; twice is as good as once."""
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    wrote = lived.ask("export", str(first))
    assert (wrote["blocks"], first.stat().st_mode & 0o777) == (2, 0o600)
    looked = running.ask("import", str(first), "--dry-run")
    assert (looked["dry_run"], looked["counts"]["blocks_new"]) == (True, 2)
    took = running.ask("import", str(first))
    assert took["counts"] == looked["counts"]
    assert running.ask("import", str(first))["counts"]["events_new"] == 0
    running.ask("export", str(second))
    assert second.read_bytes() == first.read_bytes()


def test_an_elfmem_database_goes_through_either_way(lived: Program, running: Program, tmp_path: Path) -> None:
    """The command reads it, the home takes the pages."""
    rows = [BLOCK, block(id="b2", content="Gone from there", status="archived")]
    path = database(tmp_path / "elf.db", rows)
    for program in (made(tmp_path, "closed"), running):
        assert program.ask("import", "elfmem", str(path))["counts"]["blocks_new"] == 1
        took = program.ask("import", "elfmem", str(path), "--archived")
        assert (took["counts"]["blocks_new"], took["counts"]["blocks_known"]) == (1, 1)
    said = running.run("import", "elfmem", str(path), "--dry-run")
    assert b"elf:tess: 1 of 2 blocks" in said.out
    assert b"left out: 1 archived" in said.out
    assert b"nothing was changed" in said.out


def test_plain_text_is_said_to_be_plain_text(lived: Program, tmp_path: Path) -> None:
    """On standard output only where asked for; beside a file, a remark."""
    refused = lived.run("export", "-")
    assert (refused.code, refused.out) == (2, b"")
    assert b"--plain" in refused.err
    allowed = lived.run("export", "-", "--plain")
    lines = [msgspec.json.decode(line) for line in allowed.out.splitlines()]
    assert (allowed.code, lines[0]["line"], lines[-1]["line"]) == (0, "loremesh", "end")
    remark = lived.run("export", str(tmp_path / "a.jsonl"))
    assert (remark.code, b"plain text" in remark.err) == (0, True)
    assert lived.run("--json", "export", "-", "--plain").code == 2


def test_markdown_is_for_reading(lived: Program, tmp_path: Path) -> None:
    """Every block with what is known of it; what a text says is shown and not carried out."""
    path = tmp_path / "memory.md"
    assert lived.ask("export", str(path), "--format", "markdown")["blocks"] == 2
    shown = path.read_text("utf-8")
    assert "\n## Restart the \\*indexer\\* after a \\`\\`\\`schema\\`\\`\\` change\n" in shown
    assert f"\n````text\n{TEXT}\n````\n" in shown
    assert "- tags: `ops`\n" in shown
    assert "- in contexts: deploy 75% of 1.00\n" in shown
    assert path.stat().st_mode & 0o777 == 0o600
    assert lived.run("import", str(path)).code == 2


WRONG_USE = {
    "a file that is there": (("export", "TAKEN"), 2, "there already"),
    "a directory that is not": (("export", "nowhere/a.jsonl"), 1, "cannot be written"),
    "an unknown format": (("export", "a", "--format", "yaml"), 2, "jsonl or markdown"),
    "a file that is not there": (("import", "nowhere"), 1, "cannot be read"),
    "no elfmem file": (("import", "elfmem"), 2, "import elfmem FILE"),
    "another system": (("import", "mem0", "TAKEN"), 2, "no file to import"),
    "trust from elfmem": (("import", "elfmem", "TAKEN", "--trust"), 2, "--trust"),
    "archived from an export": (("import", "TAKEN", "--archived"), 2, "--archived"),
    "text as an export": (("import", "TAKEN"), 2, "line 1"),
    "text as elfmem": (("import", "elfmem", "TAKEN"), 2, "no elfmem database"),
}


@pytest.mark.parametrize("what", WRONG_USE)
def test_wrong_use_says_what_and_how(lived: Program, tmp_path: Path, what: str) -> None:
    """Exit codes tell usage from failure; the error names the remedy, and no file is left behind."""
    arguments, code, words = WRONG_USE[what]
    (tmp_path / "taken.txt").write_text("something else\n")
    places = [str(tmp_path / "taken.txt") if one == "TAKEN" else one for one in arguments]
    at = {"nowhere/a.jsonl": str(tmp_path / "nowhere" / "a.jsonl"), "a": str(tmp_path / "a")}
    ended = lived.run("--json", *(at.get(place, place) for place in places))
    assert (ended.code, ended.out) == (code, b"")
    assert words in ended.error["error"] + ended.error["hint"]
    assert [file.name for file in tmp_path.iterdir()] == ["taken.txt"]


def test_a_home_that_is_not_there_leaves_no_file(tmp_path: Path) -> None:
    """Nothing is made in a file's place when there is nothing to export."""
    program = new_program(tmp_path)
    ended = program.run("export", str(tmp_path / "a.jsonl"))
    assert ended.code == 1
    assert not (tmp_path / "a.jsonl").exists()
