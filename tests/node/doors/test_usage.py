"""Arguments that cannot be right: exit code 2, the thing named, the remedy given, in the form asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loremesh.node.cli.app import run
from tests.node.doors.program import CONFIG

BLOCK = "ab" * 32
WRONG: list[tuple[list[str], str]] = [
    ([], "no command"),
    (["nonsense"], "nonsense"),
    (["space"], "command"),
    (["trust", "nonsense"], "nonsense"),
    (["--home"], "--home"),
    (["--home=", "status"], "--home"),
    (["status", "--nonsense"], "--nonsense"),
    (["status", "extra"], "extra"),
    (["learn"], "TEXT"),
    (["learn", "text", "--lines", "file"], "TEXT"),
    (["learn", ""], "text"),
    (["learn", " \n "], "text"),
    (["learn", "x" * 65_537], "text"),
    (["learn", "é" * 40_000], "text"),
    (["learn", "\udcff\udcfe"], "TEXT"),
    (["learn", "a\0b"], "NUL"),
    (["learn", "text", "--tag", "x" * 65], "tag"),
    (["learn", "text", "--tag", "\udcff"], "tags"),
    (["learn", "text", *["--tag=t"] * 33], "tags"),
    (["recall"], "QUERY"),
    (["recall", "q" * 65_537], "query"),
    (["recall", "q", "-k", "0"], "k is 0"),
    (["recall", "q", "-k", "-3"], "k is -3"),
    (["recall", "q", "-k", "257"], "k is 257"),
    (["recall", "q", "-k", "three"], "-k"),
    (["recall", "q", "-k", "1.5"], "-k"),
    (["recall", "q", "--frame", "nonsense"], "nonsense"),
    (["recall", "q", "--graph", "1.5"], "graph"),
    (["recall", "q", "--graph", "nan"], "graph"),
    (["recall", "q", "--graph", "much"], "much"),
    (["recall", "q", "--frame", "task=0.7,self=x"], "'x'"),
    (["recall", "q", "--frame", "task=1,park=1"], "park"),
    (["recall", "q", "--context", "c" * 65], "context"),
    (["recall", "q", "--tag", ""], "tag"),
    (["recall", "q", "--tag", "x" * 65], "tag"),
    (["recall", "q", *["--tag=t"] * 257], "tags"),
    (["frames", "--limit", "0"], "limit"),
    (["frames", "extra"], "extra"),
    (["outcome", "1"], "neither"),
    (["outcome", "1", "--episode", "ab" * 16, "--block", BLOCK], "both"),
    (["outcome", "1", "--episode", "nonsense"], "nonsense"),
    (["outcome", "1", "--block", "xyz"], "xyz"),
    (["outcome", "-0.1", "--block", BLOCK], "-0.1"),
    (["outcome", "1.1", "--block", BLOCK], "1.1"),
    (["outcome", "nan", "--block", BLOCK], "nan"),
    (["outcome", "inf", "--block", BLOCK], "inf"),
    (["outcome", "good", "--block", BLOCK], "good"),
    (["outcome", "--nonsense", "--block", BLOCK], "--nonsense"),
    (["outcome", "1", "--block", BLOCK, "--weight", "-1"], "weight"),
    (["outcome", "1", "--block", BLOCK, "--weight", "nan"], "weight"),
    (["outcome", "1", "--block", BLOCK, "--weight", "1e30"], "weight"),
    (["confirm"], "block"),
    (["explain", "12"], "12"),
    (["explain", BLOCK, "-k", "3"], "query"),
    (["explain", BLOCK, "--query", "q", "-k", "0"], "k is 0"),
    (["explain", BLOCK, "--query", "q", "--frame", "dream"], "dream"),
    (["events", "--limit", "0"], "limit"),
    (["events", "--limit", "1001"], "limit"),
    (["events", "--after", "-1"], "after"),
    (["replay", "--rules", "nonsense"], "nonsense"),
    (["consolidate", "--limit", "0"], "limit"),
    (["trust", "set", "nonsense", "0.5"], "nonsense"),
    (["trust", "set", "nonsense", "1.5"], "1.5"),
    (["trust", "set", "nonsense", "-1"], "-1"),
    (["trust", "set", "nonsense", "much"], "much"),
    (["space", "create", ""], "name"),
    (["space", "create", "x" * 65], "name"),
    (["space", "create", "team", "--member-trust", "2"], "member_trust"),
    (["space", "create", "team", "--uses", "0"], "uses"),
    (["space", "join", "nonsense"], "token"),
    (["space", "join", "lmt1_nonsense"], "token"),
    (["up", "--listen", "nonsense"], "nonsense"),
    (["up", "--listen", "127.0.0.1:99999"], "99999"),
    (["up", "--nats", "nats://127.0.0.1:4222", "--embedded"], "--nats"),
    (["init", "--key-file", "f", "--passphrase-env", "V"], "key"),
    (["init", "--passphrase-env", "no name"], "no name"),
    (["init", "--passphrase-env", "LOREMESH_TEST_UNSET"], "LOREMESH_TEST_UNSET"),
    (["demo", "--seed", "-1"], "-1"),
    (["revise", BLOCK, "t", "--tag", "x", "--untagged"], "--untagged excludes --tag"),
    (["revise", BLOCK, "t", "--share", "x", "--private"], "--private excludes --share"),
    (["revise", "zz", "t"], "no block id"),
    (["rescore"], "one of the two"),
    (["rescore", BLOCK, "--all-older-than", "5"], "one of the two"),
    (["rescore", "--all-older-than", "-1"], "all_older_than_h"),
    (["rescore", "--all-older-than", "long"], "long"),
    (["connect", BLOCK], "OTHER"),
    (["connect", BLOCK, BLOCK, "--weight", "2"], "weight"),
    (["due", "--horizon", "0"], "horizon"),
    (["due", "--limit", "0"], "limit"),
    (["confirm", "--block", BLOCK, "--context", "c" * 65], "context"),
    (["archive", ""], "no block id"),
    (["compact", "--older-than", ""], "no time"),
    (["compact", "--older-than", "soon"], "soon"),
    (["compact", "--older-than", "-3d"], "-3d"),
    (["compact", "--older-than", "inf"], "inf"),
    (["compact", "--older-than", "1e300"], "older_h"),
    (["compact", "--keep", "-1"], "keep"),
    (["compact", "--keep", "some"], "--keep"),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home to misuse."""
    directory = tmp_path_factory.mktemp("usage")
    home = directory / "home"
    home.mkdir()
    (home / "config.toml").write_text(CONFIG)
    assert run(["--home", str(home), "--json", "init", "--key-file", str(directory / "key")]) == 0
    return home


@pytest.mark.parametrize(("arguments", "named"), WRONG, ids=[" ".join(a)[:40] or "nothing" for a, _ in WRONG])
def test_wrong_usage_is_named(
    home: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], named: str
) -> None:
    """Exit code 2; with --json one object on standard error with what was wrong and what to do, no more."""
    given = ["--json", *arguments] if arguments[:1] in (["--home"], ["--home="]) else None
    code = run(given or ["--home", str(home), "--json", *arguments])
    out, err = capfd.readouterr()
    said = json.loads(err)
    assert (code, out, set(said)) == (2, "", {"error", "hint"})
    assert named.lower() in said["error"].lower()
    assert said["hint"]


@pytest.mark.parametrize("arguments", [["outcome", "2", "--block", BLOCK], ["nonsense"], []])
def test_people_are_told_in_plain_words(
    home: Path, capfd: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """Without --json: the error and a hint as text on standard error."""
    assert run(["--home", str(home), *arguments]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert "error: " in err
    assert "hint: " in err
    assert "Traceback" not in err


def test_common_options_may_stand_anywhere(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """--home and --json after the command mean what they mean before it; behind -- they are texts."""
    assert run(["status", "--json", f"--home={home}"]) == 0
    assert json.loads(capfd.readouterr().out)["home"] == str(home)
    assert run(["--home", str(home), "--json", "learn", "--", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["created"] is True


def test_the_home_comes_from_the_environment(
    home: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """$LOREMESH_HOME stands in for --home, and ~/.loremesh for both."""
    monkeypatch.setenv("LOREMESH_HOME", str(home))
    assert run(["--json", "status"]) == 0
    monkeypatch.delenv("LOREMESH_HOME")
    monkeypatch.setenv("HOME", str(home.parent))
    assert run(["--json", "status"]) == 1
    assert str(home.parent / ".loremesh") in capfd.readouterr().err


def test_lines_are_all_sound_or_none_is_learned(
    home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A line with a stray byte, a NUL or too much text is named by number; the good ones wait for it."""
    lines = tmp_path / "lines"
    for bad, code in ((b"\xff", 2), (b"a\0b", 2), (b"x" * 65_537, 2)):
        lines.write_bytes(b"a good line that is not learned\n" + bad + b"\n")
        assert run(["--home", str(home), "--json", "learn", "--lines", str(lines)]) == code
        assert "line 2" in capfd.readouterr().err
    lines.write_bytes(b"\n \n")
    assert run(["--home", str(home), "--json", "learn", "--lines", str(lines)]) == 2
    assert run(["--home", str(home), "--json", "learn", "--lines", str(tmp_path / "none")]) == 1
    capfd.readouterr()
    assert run(["--home", str(home), "--json", "recall", "good line", "-k", "50"]) == 0
    assert "good line" not in capfd.readouterr().out


def test_unknown_things_are_a_failure_and_not_usage(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A block, an episode, a peer or a space that could be but is not known: exit code 1, by name."""
    for arguments, named in (
        (["explain", BLOCK], BLOCK),
        (["forget", BLOCK], BLOCK),
        (["outcome", "1", "--block", BLOCK], BLOCK),
        (["outcome", "1", "--episode", "ab" * 16], "ab" * 16),
        (["learn", "text", "--share", "nowhere"], "nowhere"),
        (["space", "invite", "nowhere"], "nowhere"),
    ):
        assert run(["--home", str(home), "--json", *arguments]) == 1, arguments
        assert named in json.loads(capfd.readouterr().err)["error"]


def test_a_bug_is_one_line_unless_asked_for(
    home: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception nobody foresaw: its type and place, never its text; the traceback only with --debug."""

    def broken(*_: object) -> None:
        raise RuntimeError("what was being learned")

    monkeypatch.setattr("loremesh.node.cli.memory_commands.text_given", broken)
    assert run(["--home", str(home), "learn", "text"]) == 1
    err = capfd.readouterr().err
    assert "this is a bug: RuntimeError" in err
    assert "what was being learned" not in err
    assert run(["--home", str(home), "--debug", "learn", "text"]) == 1
    assert "Traceback" in capfd.readouterr().err
