"""What each command answers, run within this process: in JSON, and for people."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loremesh.node.cli.app import run
from tests.node.doors.program import CONFIG

Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that the tests of this module share."""
    directory = tmp_path_factory.mktemp("commands")
    home = directory / "home"
    home.mkdir()
    (home / "config.toml").write_text(CONFIG)
    assert run(["--home", str(home), "--json", "init", "--key-file", str(directory / "key")]) == 0
    return home


@pytest.fixture
def ask(home: Path, capfd: pytest.CaptureFixture[str]) -> Ask:
    """Runs one command that has to succeed; its one JSON value."""

    def asked(*arguments: str) -> Any:
        code = run(["--home", str(home), "--json", *arguments])
        out, err = capfd.readouterr()
        assert (code, err) == (0, "")
        return json.loads(out)

    return asked


@pytest.fixture
def show(home: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs one command that has to succeed; what it tells people."""

    def shown(*arguments: str) -> str:
        code = run(["--home", str(home), *arguments])
        out, err = capfd.readouterr()
        assert (code, err) == (0, "")
        return out

    return shown


def test_learning_the_same_again_says_so(ask: Ask) -> None:
    """The second time is a no-op with the same id, changed white space notwithstanding."""
    first = ask("learn", "twice  told")
    again = ask("learn", " twice told\r\n")
    assert (first["created"], again["created"]) == (True, False)
    assert first["block"] == again["block"]


def test_lines_of_a_file_are_learned_in_order(ask: Ask, tmp_path: Path) -> None:
    """--lines answers one block per line with a text, and knows the ones it had."""
    lines = tmp_path / "lines"
    lines.write_bytes("\ufeffline one\r\n\nline two\nline one\n".encode())
    answers = ask("learn", "--lines", str(lines), "--tag", "lines")
    assert [answer["created"] for answer in answers] == [True, True, False]
    assert answers[0]["block"] == answers[2]["block"]
    assert ask("explain", answers[0]["block"])["text"] == "line one"


def test_each_command_answers_one_json_value(ask: Ask) -> None:
    """confirm, consolidate, events, replay, status, peers, trust log, space create and list, forget."""
    block = ask("learn", "To be forgotten")["block"]
    assert ask("confirm", "--block", block)["blocks"] == [block]
    assert ask("consolidate")["waiting"] == 0
    assert [event["kind"] for event in ask("events", block, "--limit", "1")] == ["learn"]
    assert ask("replay", "--check")["ok"] is True
    assert ask("replay", "--rules", "exponential")["rules"] == "exponential"
    assert (ask("status")["running"], ask("status")["waiting"]) == (False, 0)
    assert (ask("peers"), ask("trust", "log")) == ([], [])
    assert ask("space", "create", "team", "--member-trust", "0.25")["token"].startswith("lmt1_")
    assert [(space["name"], space["member_trust"]) for space in ask("space", "list")] == [("team", 0.25)]
    assert ask("space", "invite", "team", "--uses", "3")["token"].startswith("lmt1_")
    assert ask("forget", block)["block"] == block


def test_lists_come_in_pages(ask: Ask) -> None:
    """events: --after goes on where --limit ended; space list: --skip leaves out what was seen."""
    for n in range(3):
        ask("learn", f"page {n}")
    pages = [ask("events", "--limit", "2")]
    while pages[-1]:
        pages.append(ask("events", "--limit", "2", "--after", str(pages[-1][-1]["n"])))
    assert [event for page in pages for event in page] == ask("events")
    assert ask("space", "list", "--skip", "1000") == []


def test_people_get_text_that_fits_eighty_columns(ask: Ask, show: Callable[..., str]) -> None:
    """Tables need no terminal and are no wider than 80 columns; ids stay whole and nothing is coloured."""
    block = ask("learn", "For people")["block"]
    ask("outcome", "1", "--block", block, "--context", "deploy")
    explained = show("explain", block)
    assert block in explained
    assert "deploy" in explained
    tables = explained + show("status") + show("space", "list") + show("peers")
    assert max(len(line) for line in tables.splitlines() if "\u2500" in line or line.startswith(" ")) <= 80
    assert "\x1b" not in tables


def test_a_block_is_explained_for_a_question(ask: Ask, show: Callable[..., str]) -> None:
    """--query says whether it surfaces, term by term beside the last hit; nothing is logged by it."""
    first = ask("learn", "The standing of one block", "--tag", "standing")["block"]
    other = ask("learn", "The standing of another", "--tag", "standing")["block"]
    rows = ask("status")["log_rows"]
    query = ("--query", "standing of one block", "--tag", "standing", "-k", "1")
    stands = ask("explain", first, *query)["standing"]
    assert (stands["surfaces"], stands["rank"], stands["k"]) == (True, 1, 1)
    behind = ask("explain", other, *query)["standing"]
    assert (behind["surfaces"], behind["last"], behind["short_in"]) == (False, first, "sim")
    assert "standing" in ask("explain", first)
    assert ask("explain", first)["standing"] is None
    assert ask("status")["log_rows"] == rows
    shown = show("explain", other, *query)
    assert "it does not surface: rank 2 of 2" in shown
    assert "most of it in sim" in shown
    assert "sim comes from vector 0.000 (not embedded yet), words" in shown
    assert max(len(line) for line in shown.splitlines() if line.startswith(" ")) <= 80
    ask("deprecate", other, "--why", "no use")
    assert "it does not surface: it was deprecated here" in show("explain", other, *query)
    ask("forget", other)  # this home is the other tests', too


def test_recall_is_weighed_and_limited_as_asked(ask: Ask, show: Callable[..., str]) -> None:
    """--frame takes own words for a mixture; --tag and --space limit, are echoed, and shown to people."""
    ask("space", "create", "scoped")
    block = ask("learn", "Scoped by its tag", "--tag", "scope:one", "--share", "scoped")["block"]
    ask("learn", "Scoped by another tag", "--tag", "scope:on")
    found = ask("recall", "scoped", "--frame", "task=3,self=1", "--tag", "scope:one", "--space", "scoped")
    assert [hit["block"] for hit in found["hits"]] == [block]
    assert (found["frame"], found["tags"]) == ("task=0.75,self=0.25", ["scope:one"])
    assert list(found["spaces"].values()) == ["scoped"]
    shown = show("recall", "scoped", "--tag", "scope:one", "--space", "scoped", "--frame", "park")
    assert "only from spaces: scoped" in shown
    assert "only with tags: scope:one" in shown
    assert "weights of frame park" in shown
    assert [frame["name"] for frame in ask("frames")][-1] == "park"
    assert ask("frames", "--skip", "100") == []
    listed = show("frames")
    assert "park: terms scaled min-max; recency 0.995 to the hours" in listed
    assert max(len(line) for line in listed.splitlines()) <= 80


def test_links_are_shown_and_asked_for(ask: Ask, show: Callable[..., str]) -> None:
    """consolidate says how many were proposed, explain whose they are, --graph what they count."""
    texts = [
        "Rotate the signing keys of the gateway in spring",
        "Rotate the signing keys of the gateway soon",
    ]
    one, two = [ask("learn", text, "--tag", "linked")["block"] for text in texts]
    done = ask("consolidate")
    assert done["linked"] >= 1
    assert two in [neighbour["block"] for neighbour in ask("explain", one)["neighbours"]]
    found = ask("recall", texts[0], "--tag", "linked", "--frame", "task", "--graph", "0.5")
    assert found["weights"]["links"] == 0.5
    parts = {hit["block"]: hit["parts"] for hit in found["hits"]}
    assert parts[two]["links"] > 0.0
    assert "links" not in ask("recall", texts[0], "--tag", "linked", "--graph", "0")["weights"]
    shown = show("explain", one)
    assert two[:12] in shown
    assert "similar" in shown
    assert max(len(line) for line in shown.splitlines() if "\u2500" in line or line.startswith(" ")) <= 80


def test_blocks_are_judged_by_their_outcomes(ask: Ask, show: Callable[..., str]) -> None:
    """worth in all, by context and of one block; candidates; deprecate and restore; attribute."""
    bad, good = ask("learn", "Judged to be bad")["block"], ask("learn", "Judged to be good")["block"]
    for _ in range(9):
        ask("outcome", "0", "--block", bad, "--context", "judging")
        ask("outcome", "1", "--block", good, "--context", "judging")
    seen = ask("worth", "--context", "judging")
    assert [(one["block"], one["worth"], one["kind"]) for one in seen] == [
        (good, 1.0, "high-value"),
        (bad, 0.0, "low-value"),
    ]
    assert [one["context"] for one in ask("worth", "--block", bad)] == [None, "judging"]
    assert [one["proposal"] for one in ask("worth", "--candidates")] == ["deprecate"]
    assert bad[:12] in show("worth", "--context", "judging")
    assert "judging" in show("worth", "--block", bad)
    attributed = ask("attribute", "--context", "judging")
    assert [(one["block"], one["episodes"]) for one in attributed["found"]] == [(good, 9), (bad, 9)]
    shown = show("attribute", "--context", "judging")
    assert good[:12] in shown
    assert max(len(line) for line in (shown + show("worth")).splitlines() if line.startswith(" ")) <= 80
    assert ask("deprecate", bad, "--why", "it fails") == {
        "block": bad,
        "withdrawn": "deprecated",
        "changed": True,
    }
    assert bad not in [hit["block"] for hit in ask("recall", "Judged to be bad")["hits"]]
    assert "in recall" in show("restore", bad)


def test_people_are_told_how_to_go_on(show: Callable[..., str]) -> None:
    """recall names its episode; a hit's text is shown and never obeyed by the terminal."""
    show("learn", "clear \x1b[2J screen")
    found = show("recall", "clear screen", "-k", "1")
    assert "loremesh outcome SIGNAL --episode" in found
    assert "clear \\x1b[2J screen" in found
    assert "known already" in show("learn", "clear \x1b[2J screen")
    assert "agree" in show("replay", "--check")
    assert "learn" in show("events", "--limit", "5")


def test_blocks_are_put_away_revised_and_brought_back(ask: Ask, show: Callable[..., str]) -> None:
    """archive, revise and restore; learning what was revised again says what stands in its place."""
    old = ask("learn", "Put in another's place", "--tag", "ops")["block"]
    assert ask("archive", old[:12], "--why", "over") == {
        "block": old,
        "withdrawn": "archived",
        "changed": True,
    }
    assert "already out of recall, archived" in show("archive", old)
    assert "`restore` brings it back" in show("learn", "Put in another's place")
    assert "in recall" in show("restore", old)
    made = ask("revise", old, "It stands in its place", "--why", "better", "--private")
    assert (made["superseded"], made["created"], made["mass"], made["tags"]) == (old, True, 2.0, ["ops"])
    assert f"superseded by {made['block'][:12]}" in show("learn", "Put in another's place")
    explained = show("explain", old)
    assert f"superseded by {made['block']}" in explained
    assert "by this node: better" in explained
    assert f"stands in the place of {old}" in show("explain", made["block"])
    assert "mean of 0.500" in show("revise", made["block"], "It stands in the place of that", "--untagged")


def test_a_memory_is_tended(ask: Ask, show: Callable[..., str]) -> None:
    """rescore, connect, due, confirm in a context; explain tells people intervals, curve and episodes."""
    one = ask("learn", "Always check the backup before `make clean` in build 7")["block"]
    other = ask("learn", "Tended as well")["block"]
    ask("consolidate")
    done = ask("rescore", one[:12], other)
    assert (done["rated"], done["unrated"], len(done["found"])) == (2, 0, 2)
    assert "rated again by specificity" in show("rescore", one)
    assert ask("rescore", "--all-older-than", "1000")["rated"] == 0
    made = ask("connect", one, other, "--weight", "0.5")
    assert (made["weight"], made["changed"]) == (0.5, True)
    assert "already linked with weight 0.5" in show("connect", other, one, "--weight", "0.5")
    assert "kept apart" in show("connect", one, other, "--weight", "0")
    ask("confirm", "--block", one, "--context", "tending")
    ask("outcome", "1", "--block", one, "--block", other, "--context", "tending")
    assert ask("due", "--horizon", "1e-6")["blocks"] == []
    assert "nothing is due" in show("due", "--horizon", "1e-6")
    found = ask("due", "--horizon", "5000", "--context", "tending", "--limit", "1000")
    assert one in [block["block"] for block in found["blocks"]]
    shown = show("due", "--horizon", "5000", "--limit", "1000")
    assert one[:12] in shown
    explained = show("explain", one)
    for told in (
        "with 90%",
        "it falls to 0.9 in ",
        "retrievability to come: ",
        "confirm",
        "named",
        "1 other",
    ):
        assert told in explained
    tables = [line for line in explained.splitlines() if line.startswith(" ") or "\u2500" in line]
    tables += shown.splitlines()
    assert [line for line in tables if len(line) > 80] == []


def test_old_outcomes_give_way_to_sums(ask: Ask, show: Callable[..., str]) -> None:
    """compact: told before and after, by a dry run first; events, explain and replay tell what is in sum."""
    block = ask("learn", "Used many times")["block"]
    for _ in range(20):
        ask("outcome", "1", "--block", block)
    told = ask("compact", "--keep", "4", "--dry-run")
    assert (told["dry_run"], told["aggregated"] >= 15) == (True, True)
    assert ask("compact", "--older-than", "30d")["aggregated"] == 0
    shown = show("compact", "--keep", "4")
    assert f"{told['aggregated']} outcomes and recalls" in shown
    assert f"{told['rows_before']} before, {told['rows_after']} after" in shown
    assert "MiB after" in shown
    assert "attribution" in shown
    assert ask("compact", "--keep", "4")["aggregated"] == 0
    assert [one["kind"] for one in ask("events", block)][-5:] == ["aggregate"] + ["outcome"] * 4
    assert "16 outcomes and 0 recalls from" in show("events", block)
    assert ask("explain", block)["summed"]["outcomes"] == 16
    assert "in sum: 16 outcomes" in show("explain", block)
    replayed = ask("replay", "--check")
    assert (replayed["ok"], replayed["aggregates"] >= 1) == (True, True)


def test_what_people_are_told_fits_a_terminal(ask: Ask, show: Callable[..., str]) -> None:
    """Help, scores, weights, curves and events; ids in an event's details are as short as in tables."""
    for command in ([], ["recall"], ["learn"], ["explain"], ["revise"], ["doctor"], ["restore"]):
        told = show(*command, "--help")
        assert max(map(len, told.splitlines())) <= 80
        assert "..." not in told.replace("[OPTIONS]...", "").replace("[ARGS]...", "")
    one, two = ask("learn", "Told in eighty columns")["block"], ask("learn", "Also told")["block"]
    frame = "simulate=0.3,task=0.3,self=0.4"
    recalled = show("recall", "told in columns", "--frame", frame, "--graph", "0.125", "-k", "2")
    assert f"weights of frame {frame}: " in recalled
    assert max(len(line) for line in recalled.splitlines() if not line.startswith("say how")) <= 80
    explained = show("explain", one, "--query", "told in columns", "--frame", frame, "-k", "1")
    assert max(len(line) for line in explained.splitlines() if "surface" not in line) <= 80
    assert "720 h" in explained
    best = ask("recall", "told in columns", "-k", "1")["hits"][0]["block"]
    itself = show("explain", best, "--query", "told in columns", "-k", "1")
    assert itself.count("hit 1") == 1, "no column beside it for the last hit, which it is"
    show("connect", one, two)
    (line,) = [line for line in show("events", one).splitlines() if "connect" in line]
    assert line.endswith(f"other={two[:12]} weight=1")


def test_worth_says_why_it_shows_nothing(show: Callable[..., str], tmp_path: Path) -> None:
    """No outcomes yet is another thing than no candidates."""
    home = str(tmp_path / "fresh")
    keys = ("--key-file", str(tmp_path / "key"))
    assert run(["--home", home, "init", *keys]) == 0
    assert "no block has outcomes" in show("worth", "--home", home)
    assert "no block is a candidate" in show("worth", "--candidates", "--home", home)
