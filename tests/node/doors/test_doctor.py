"""`doctor fit` on the command line, and what `replay --rules` shows, run within this process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loremesh.node.cli.app import run
from tests.node.doors.program import CONFIG


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with two blocks, one of them used."""
    directory = tmp_path_factory.mktemp("doctor")
    home = directory / "home"
    home.mkdir()
    (home / "config.toml").write_text(CONFIG)
    line = ["--home", str(home), "--json"]
    assert run([*line, "init", "--key-file", str(directory / "key")]) == 0
    lines = directory / "lines"
    lines.write_text("Restart the indexer\nClear the cache\n")
    assert run([*line, "learn", "--lines", str(lines)]) == 0
    return home


def test_a_fit_without_outcomes_is_refused_and_says_what_it_takes(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """No error: the answer is that nothing is kept, and why."""
    capfd.readouterr()
    for words in (["doctor", "fit"], ["doctor", "fit", "--dry-run"]):
        assert run(["--home", str(home), "--json", *words]) == 0
        told = json.loads(capfd.readouterr().out)
        assert (told["kept"], told["rules"]) == (False, "fsrs5")
        assert told["why"] == "refused: the log has 0 judged outcomes, and a fit needs 250"
    assert run(["--home", str(home), "doctor", "fit"]) == 0
    assert "fsrs5: refused: the log has 0 judged" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("words", "why"), [(["--revert"], "published"), (["--revert", "--dry-run"], "exclude one another")]
)
def test_what_cannot_be_asked_of_a_fit_is_wrong_usage(
    home: Path, words: list[str], why: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nothing to take back; or both at once."""
    capfd.readouterr()
    assert run(["--home", str(home), "doctor", "fit", *words]) == 2
    assert why in capfd.readouterr().err


def test_replay_under_other_rules_shows_both_sides(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Rank, retrievability and utility here and under the others, with how many rank elsewhere."""
    capfd.readouterr()
    line = ["--home", str(home), "--json"]
    assert run([*line, "recall", "cache"]) == 0
    block = json.loads(capfd.readouterr().out)["hits"][0]["block"]
    for signal in ("1", "0"):
        assert run([*line, "outcome", signal, "--block", block]) == 0
    capfd.readouterr()
    assert run([*line, "replay", "--rules", "beta-decay:0.1"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert (told["ranked"], told["rules"]) == (2, "fsrs5+beta-decay:0.1")
    assert told["elsewhere"] == len(told["moved"])
    assert run(["--home", str(home), "replay", "--rules", "beta-decay:0.1"]) == 0
    out = capfd.readouterr().out
    _, said, ranking = out.partition(f"{told['elsewhere']} of 2 blocks rank elsewhere")
    assert said
    assert all(len(line) <= 80 for line in ranking.splitlines())


def test_a_change_of_embedder_is_seen_in_the_status_and_made_by_the_doctor(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Named in config.toml, told by `status`, done by `doctor reembed`; a second run has nothing to do."""
    line = ["--home", str(home), "--json"]
    assert run([*line, "consolidate"]) == 0
    (home / "config.toml").write_text(CONFIG.replace('"hashing"', '"hashing:64"'))
    capfd.readouterr()
    assert run([*line, "status"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert any("doctor reembed" in trouble for trouble in told["trouble"])
    assert run([*line, "doctor", "reembed"]) == 0
    done = json.loads(capfd.readouterr().out)
    assert (done["changed"], done["embedded"], done["blocks"]) == (True, 2, 2)
    assert run([*line, "status"]) == 0
    assert json.loads(capfd.readouterr().out)["trouble"] == []
    assert run(["--home", str(home), "doctor", "reembed"]) == 0
    assert "nothing to do" in capfd.readouterr().out


def test_weighing_ratings_without_outcomes_says_that_there_is_nothing_to_weigh_by(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """No error, dry or not; in words for people."""
    line = ["--home", str(home), "--json"]
    capfd.readouterr()
    for words in (["recalibrate"], ["recalibrate", "--dry-run"]):
        assert run([*line, "doctor", *words]) == 0
        assert json.loads(capfd.readouterr().out) == {"changed": False, "reverted": False, "raters": []}
    assert run(["--home", str(home), "doctor", "recalibrate"]) == 0
    assert "nothing to weigh by" in capfd.readouterr().out


def test_weighing_ratings_tells_each_rater_what_it_takes(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """One block that was rated and then used: the rater by name, and the figures."""
    line = ["--home", str(home), "--json"]
    assert run([*line, "consolidate"]) == 0
    capfd.readouterr()
    assert run([*line, "recall", "indexer", "-k", "1"]) == 0
    block = json.loads(capfd.readouterr().out)["hits"][0]["block"]
    assert run([*line, "outcome", "1", "--block", block]) == 0
    capfd.readouterr()
    assert run(["--home", str(home), "doctor", "recalibrate"]) == 0
    told = capfd.readouterr().out
    assert "specificity-1: refused: 1 blocks" in told
    assert "log loss" in told


@pytest.mark.parametrize(
    ("words", "why"),
    [(["--revert"], "count as they were stated"), (["--revert", "--dry-run"], "exclude one another")],
)
def test_what_cannot_be_asked_of_a_weighing_is_wrong_usage(
    home: Path, words: list[str], why: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nothing to take back; or both at once."""
    capfd.readouterr()
    assert run(["--home", str(home), "doctor", "recalibrate", *words]) == 2
    assert why in capfd.readouterr().err
