"""The program on a home that no node runs on: each command opens it, does one thing, and closes it."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.node.doors.program import PROGRAM, TIMEOUT_S, Program, made, new_program

PARALLEL = 20
TEXT = "Перезапусти индексатор после смены схемы 🚀 重启索引器"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """A home that the tests of this module share."""
    return made(tmp_path_factory.mktemp("program"))


def test_a_lesson_is_found_judged_and_explained(program: Program) -> None:
    """learn, recall, outcome by episode and by block, confirm, explain: the numbers follow."""
    block = program.ask("learn", "Flush the cache after a deploy", "--tag", "ops")["block"]
    found = program.ask("recall", "flush cache deploy", "--frame", "task", "--context", "deploy", "-k", "1")
    (hit,) = found["hits"]
    assert (hit["block"], hit["text"]) == (block, "Flush the cache after a deploy")
    assert set(hit["parts"]) == {"sim", "utility", "retrievability", "importance", "explore"}
    assert hit["provenance"][0]["source"] == "self"
    assert program.ask("outcome", "1", "--episode", found["episode"])["recorded"] is True
    assert program.ask("outcome", "1", "--episode", found["episode"])["recorded"] is False
    program.ask("outcome", "0.5", "--block", block[:12], "--weight", "2")
    program.ask("confirm", "--block", block)
    explained = program.ask("explain", block[:8])
    sources = {claim["source"]: (claim["alpha"], claim["beta"]) for claim in explained["sources"]}
    assert sources["prior"] == (0.5, 0.5)
    assert sources["self"] == pytest.approx((1 + 1 + 0.1, 1.0), abs=1e-4)
    assert (explained["alpha"], explained["beta"]) == pytest.approx((2.6, 1.5), abs=1e-4)


def test_every_script_survives_any_locale(program: Program) -> None:
    """Arguments, standard input and both outputs are UTF-8 whatever the locale and PYTHONIOENCODING say."""
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    abroad = program.with_environ(**plain)
    block = abroad.ask("learn", TEXT.encode())["block"]
    assert program.ask("learn", "-", stdin=TEXT.encode())["block"] == block
    shown = abroad.run("explain", block)
    assert TEXT.encode() in shown.out
    refused = abroad.run("learn", "x", "--share", TEXT.encode())
    assert (refused.code, TEXT.encode() in refused.err) == (1, True)


def test_twenty_learns_at_once_are_all_there(program: Program) -> None:
    """Two processes never own a home at once: they take turns, and nothing is lost."""
    before = program.ask("status")["blocks"]
    started = [program.start("--json", "learn", f"in parallel {n}") for n in range(PARALLEL)]
    ended = [process.communicate(timeout=TIMEOUT_S) for process in started]
    assert [(process.returncode, err) for process, (_, err) in zip(started, ended, strict=True)] == [
        (0, b"")
    ] * PARALLEL
    assert program.ask("status")["blocks"] == before + PARALLEL
    assert program.ask("replay", "--check")["ok"] is True


def test_a_reader_that_goes_away_ends_it_quietly(program: Program) -> None:
    """A broken pipe is no crash: no traceback, no message."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = subprocess.run(
            [PROGRAM, "--home", str(program.home), "--json", "events"],
            env=dict(program.environ),
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=TIMEOUT_S,
            check=False,
        )
    finally:
        os.close(writing)
    assert (ended.returncode, ended.stderr) == (1, b"")


def test_a_token_comes_through_standard_input_where_no_other_user_sees_it(tmp_path: Path) -> None:
    alice, bob = made(tmp_path, "alice"), made(tmp_path, "bob")
    token = alice.ask("space", "create", "team")["token"]
    assert bob.ask("space", "join", "-", stdin=f"{token}\n".encode())["name"] == "team"


FULL = Path("/dev/full")
NEEDS_FULL = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")


def redirected(program: Program, redirection: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [PROGRAM, "--home", str(program.home), "--json", *arguments]
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", *command],
        env=dict(program.environ),
        stderr=subprocess.PIPE,
        timeout=TIMEOUT_S,
        check=False,
    )


def test_a_closed_standard_output_is_no_crash_and_the_command_is_done(program: Program) -> None:
    ended = redirected(program, ">&-", "learn", "Nobody listens to this")
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert not program.ask("learn", "Nobody listens to this")["created"]


@NEEDS_FULL
def test_an_answer_that_finds_no_room_says_that_the_command_was_done(program: Program) -> None:
    """Whoever took it for undone would give an outcome twice."""
    ended = redirected(program, f">{FULL}", "learn", "The answer to this is lost")
    assert ended.returncode == 1
    assert b"standard output" in ended.stderr
    assert b"the command was done" in ended.stderr
    assert not program.ask("learn", "The answer to this is lost")["created"]


@NEEDS_FULL
def test_a_log_that_finds_no_room_changes_no_answer(tmp_path: Path) -> None:
    """Neither what went well nor what went wrong: here `up`, which logs why it ends."""
    program = made(tmp_path)
    (program.home / "log").mkdir(exist_ok=True)
    (program.home / "log" / "node.log").unlink(missing_ok=True)
    (program.home / "log" / "node.log").symlink_to(FULL)
    (program.home / "bus").write_bytes(b"")
    refused = program.run("--json", "up", "--embedded")
    assert refused.code == 1
    assert "cannot hold the bus" in refused.error["error"]


def sleeps(pid: int) -> bool:
    """Whether a process waits inside a system call."""
    stat = Path(f"/proc/{pid}/stat")
    if stat.exists():
        return stat.read_text().rpartition(")")[2].split()[0] == "S"
    asks = ["ps", "-o", "state=", "-p", str(pid)]
    return subprocess.run(asks, capture_output=True, check=True).stdout.strip().startswith(b"S")


@contextmanager
def until_read(process: subprocess.Popen[bytes], pipe: Path) -> Iterator[None]:
    """Hold a named pipe open for writing, from when the program sleeps in reading it.

    A signal that comes between Python's last look for one and its system call waits for the next: no time to
    press Ctrl-C for a test that counts on the first one.
    """
    deadline = time.monotonic() + TIMEOUT_S
    writing = -1
    while writing < 0:
        assert time.monotonic() < deadline, "nobody reads the pipe"
        try:
            writing = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)  # succeeds once the program has it open
        except OSError:
            time.sleep(0.01)
    try:
        while not sleeps(process.pid):
            assert time.monotonic() < deadline, "the program does not wait for input"
        yield
    finally:
        os.close(writing)


def test_an_interrupt_ends_it_quietly(program: Program, tmp_path: Path) -> None:
    """Ctrl-C while it waits for input: exit code 130 and not a word."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = program.start("learn", "--lines", str(pipe))
    with until_read(process, pipe):
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=TIMEOUT_S)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (130, b"", b"")


HEAVY = (
    "numpy",
    "tantivy",
    "litestar",
    "uvicorn",
    "httpx",
    "nats",
    "onnxruntime",
    "aiosqlite",
)


def test_help_imports_nothing_heavy_and_covers_every_command() -> None:
    """`--help` of the program names every command, and needs none of the libraries that take long to load."""
    script = (
        "import sys, atexit\n"
        f"heavy = set({HEAVY!r})\n"
        "atexit.register(lambda: print('loaded:', *sorted(heavy & sys.modules.keys()), file=sys.stderr))\n"
        "from loremesh.node.cli.app import main\n"
        "sys.argv = ['loremesh', '--help']\n"
        "main()\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    shown = ran.stdout
    assert ran.stderr == "loaded:\n"
    commands = (
        "init up space learn recall outcome explain peers trust consolidate confirm events replay forget"
    )
    assert [name for name in [*commands.split(), "status", "demo"] if f"  {name} " not in shown] == []


def test_a_passphrase_comes_from_the_variable_that_init_was_given(tmp_path: Path) -> None:
    """Later commands find it there, and say which variable is missing when it is."""
    program = new_program(tmp_path)
    knowing = program.with_environ(TEAM_SECRET="correct horse")
    knowing.ask("init", "--passphrase-env", "TEAM_SECRET")
    assert knowing.ask("learn", "sealed")["created"] is True
    assert (
        program.with_environ(LOREMESH_PASSPHRASE="correct horse").ask("learn", "sealed")["created"] is False
    )
    missing = program.run("--json", "status")
    assert (missing.code, "TEAM_SECRET" in missing.error["error"]) == (2, True)
    wrong = program.with_environ(TEAM_SECRET="battery staple").run("--json", "status")
    assert (wrong.code, "passphrase" in wrong.error["error"]) == (1, True)
    assert b"battery" not in wrong.err


def test_init_makes_a_key_outside_the_home_and_only_once(tmp_path: Path) -> None:
    """The default key file lies in the configuration directory, 0600; a second init changes nothing."""
    program = made(tmp_path)
    (key,) = (tmp_path / "config" / "loremesh" / "keys").iterdir()
    assert (key.stat().st_mode & 0o777, key.suffix) == (0o600, ".key")
    again = program.run("--json", "init")
    assert (again.code, again.out) == (1, b"")
    assert set(again.error) == {"error", "hint"}
    assert program.ask("status")["name"] == "home"


def test_a_key_that_is_not_the_homes_is_refused(program: Program, tmp_path: Path) -> None:
    """Another key, and a key that others can read: an error each, with what to do."""
    key = tmp_path / "key"
    key.write_text("ab" * 32)
    key.chmod(0o600)
    elsewhere = program.with_environ(LOREMESH_KEY_FILE=str(key))
    wrong = elsewhere.run("--json", "status")
    assert (wrong.code, str(key) in wrong.error["error"]) == (1, True)
    key.chmod(0o644)
    open_to_all = elsewhere.run("--json", "status")
    assert (open_to_all.code, "chmod 600" in open_to_all.error["error"]) == (1, True)


def test_a_place_that_is_no_home_is_named(tmp_path: Path) -> None:
    """A directory that is not there, a file, an empty directory: exit code 1, and how to make a home."""
    program = new_program(tmp_path)
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "nowhere", tmp_path / "file", program.home):
        refused = Program(place, program.environ).run("--json", "status")
        assert (refused.code, str(place) in refused.error["error"]) == (1, True)
        assert "init" in refused.error["hint"]


def test_a_mistyped_command_line_names_the_help_to_read(program: Program) -> None:
    """The hint is a line that can be typed: of the command where there is one, else of the program."""
    for words, remedy in ((("space", "join"), "loremesh space join --help"), (("lern",), "loremesh --help")):
        refused = program.run("--json", *words)
        assert (refused.code, refused.error["hint"]) == (2, f"see `{remedy}`")


def test_a_truncated_database_is_reported(tmp_path: Path) -> None:
    """What is left of a cut database is named, and nothing is written over it."""
    program = made(tmp_path)
    program.ask("learn", "something")
    database = program.home / "memory.db"
    whole = database.read_bytes()
    database.write_bytes(whole[: len(whole) // 3])
    refused = program.run("--json", "status")
    assert (refused.code, "memory.db" in refused.error["error"]) == (1, True)
    assert b"Traceback" not in refused.err
    database.write_bytes(whole)
    assert program.ask("status")["blocks"] == 1


def test_replay_check_names_the_damage_of_a_home_that_cannot_be_opened(tmp_path: Path) -> None:
    """A log whose last row was cut off: the program says so, row by row, and still ends with 1."""
    program = made(tmp_path)
    program.ask("learn", "one thing")
    program.ask("learn", "another thing")
    with closing(sqlite3.connect(program.home / "memory.db")) as database, database:
        (last,) = database.execute("SELECT max(n) FROM log").fetchone()
        database.execute("DELETE FROM log WHERE n = ?", (last,))
    opened = program.run("--json", "recall", "thing")
    assert (opened.code, opened.out) == (1, b"")
    assert "replay --check" in opened.error["hint"]
    checked = program.run("--json", "replay", "--check")
    assert (checked.code, checked.value["ok"]) == (1, False)
    assert any(str(last) in fault for fault in checked.value["faults"]), checked.value["faults"]
