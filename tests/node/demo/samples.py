"""A result as the demonstration gives it, made by hand, for tests of what shows it."""

from __future__ import annotations

import msgspec

from loremesh.node.demo.checks import checks
from loremesh.node.demo.figures import interval
from loremesh.node.demo.results import (
    Crash,
    DemoResult,
    Hostile,
    Influence,
    Moved,
    Phase,
    Score,
    Stretch,
    Twin,
)

AGENTS = ("ada", "ben", "cyd")
UNSIGNED = {"rejected: not signed by the peer it names": 3}
HOSTILE = Hostile(
    peer="aaaaa-bbbbb",
    trust=0.5,
    blocks_made_up=4,
    frames_sent=20,
    registers_claimed=9,
    largest_claim=1048575.0,
    outcomes={name: {"applied": 2, "rejected: breaks the wire format": 1} for name in AGENTS},
    unsigned=dict.fromkeys(AGENTS, UNSIGNED),
)
INFLUENCE = Influence(0.5, 32.0, [Moved(4.0, 0.5, 0.8), Moved(20.0, 0.1, 0.44)], over=0, nearest=0.625)
CRASH = Crash(
    agent="cyd",
    acknowledged=12,
    lost=0,
    published_when_killed=5,
    frames_after=9,
    restart_s=2.5,
    feeds=6,
    feeds_different=0,
    digests=dict.fromkeys(AGENTS, "0badcafe" * 4),
    faults=0,
)


def twin(agent: str) -> Twin:
    return Twin(
        agent=agent,
        blocks=10,
        numbers=60,
        numbers_different=0,
        registers=30,
        registers_different=0,
        answers=8,
        answers_different=0,
        numbers_while_trusted=25,
        frames_left_out=4,
        log_rows=200,
        log_faults=0,
    )


TWINS = [twin(name) for name in AGENTS]


def score(agent: str, right: int, asked: int = 8) -> Score:
    return Score(agent, right, asked, asked, right / asked, *interval(right, asked), within=right)


def phase(key: str, title: str, *rights: int) -> Phase:
    scores = [score(name, right) for name, right in zip(AGENTS, rights, strict=True)]
    return Phase(key, title, scores, score("all", sum(rights), 8 * len(rights)))


def result() -> DemoResult:
    found = checks(TWINS, CRASH, INFLUENCE, HOSTILE)
    return DemoResult(
        ok=True,
        seed=1,
        size="small",
        seconds=12.5,
        python="3.11.7",
        embedder="minilm",
        blocks=31,
        functions=17,
        questions=8,
        processes=[11, 12, 13, 14],
        phases=[
            phase("alone", "each alone", 2, 1, 3),
            phase("shared", "sharing", 7, 6, 7),
            phase("attacked", "hostile peer trusted", 0, 1, 0),
            phase("revoked", "after its revocation", 7, 7, 7),
        ],
        work=[Stretch("alone", 1, 4, 0.25, 12), Stretch("shared", 5, 8, 0.75, 12)],
        hostile=HOSTILE,
        influence=INFLUENCE,
        twins=TWINS,
        crash=CRASH,
        checks=found,
        page="demo.html",
        homes="",
    )


def failing() -> DemoResult:
    wrong = msgspec.structs.replace(CRASH, lost=2)
    return msgspec.structs.replace(
        result(), ok=False, crash=wrong, checks=checks(TWINS, wrong, INFLUENCE, HOSTILE)
    )
