"""The tasks: questions whose answers the program checks by trying them.

A question gives a few words of what is wanted and the context its data goes by; the agent answers by calling
the function that a block names on that data. Right is what gives the same results on all of the task's calls.
Whoever asks for work and whoever examines use other words and other data.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from loremesh.node.demo.corpus import name_in
from loremesh.node.demo.kin import Call, Member, outcome, same

CALLS: Final = 4
"""Data that one task is checked on: chosen to give different results, so that luck seldom passes."""
QUESTION_WORDS: Final = 6
MAX_SOLVERS: Final = 3
"""Functions that may solve a task; with more it would tell nothing."""

_COMMON: Final = """
a an and are as at be by can for from given has have if in into is it its like not of on or other s
self than that the their them then there this to true false none use used uses using value values
when where which will with without return returns returned new one any all each otherwise else
optional default argument arguments specified e g i int two string strings bytes byte bytearray str
buffer object objects list lists deque array tuple set sets frozenset complex real decimal date
datetime time json pickle marshal plist integer float fraction number numbers b
"""
COMMON: Final = frozenset(_COMMON.split())
"""Words that say nothing of what a function does, or give away which of the kin is meant."""


class Task(msgspec.Struct, frozen=True):
    """One question with the calls that its answer is checked on. `answer`: the function it is about."""

    question: str
    context: str
    answer: str
    calls: tuple[Call, ...]
    solvers: frozenset[str]
    """Every function that passes the check, the answer among them."""


class Exercises(msgspec.Struct, frozen=True):
    """The same facts asked about twice: `work` to learn from, `examination` to measure by.

    `functions` are all kin of the functions asked about: what there is to mistake them for.
    """

    work: tuple[Task, ...]
    examination: tuple[Task, ...]
    functions: frozenset[str]


class Checker:
    """Tries functions by name. An agent calls nothing but the functions it is given here."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._calls = {member.name: member.call for member in members}

    def solves(self, block: str, task: Task) -> bool:
        """Whether the function that a block names does what the task asks, on all of its data."""
        return self.passes(name_in(block), task.answer, task.calls)

    def passes(self, name: str, answer: str, calls: Sequence[Call]) -> bool:
        """Whether `name` gives on these calls what `answer` gives."""
        function, truth = self._calls.get(name), self._calls[answer]
        return function is not None and all(
            same(outcome(function, call), outcome(truth, call)) for call in calls
        )

    def solvers(self, answer: str, calls: Sequence[Call]) -> frozenset[str]:
        """Every function that passes."""
        return frozenset(name for name in self._calls if self.passes(name, answer, calls))


def make_exercises(
    members: Sequence[Member], texts: Mapping[str, str], count: int, rng: random.Random
) -> Exercises:
    """Two tasks on each of about `count` functions, of other words and on other data, whole families at a
    time.

    `texts` are the blocks by function. A function without enough data or words for two tasks, or whose tasks
    too many others solve, gives none; a family of which one function gives tasks or none is left out.
    """
    checker = Checker(members)
    pools = _word_pools(members, texts)
    families: dict[tuple[str, str], list[Member]] = {}
    for member in members:
        families.setdefault(member.family, []).append(member)
    pairs: list[tuple[Task, Task]] = []
    functions: set[str] = set()
    for family in rng.sample(sorted(families), len(families)):
        if len(pairs) >= count:
            break
        made = [_pair(member, pools[family], checker, rng) for member in families[family]]
        found = [pair for pair in made if pair is not None]
        if len(found) > 1:
            pairs += found
            functions.update(member.name for member in families[family])
    return Exercises(tuple(one for one, _ in pairs), tuple(two for _, two in pairs), frozenset(functions))


def _pair(
    member: Member, pool: Sequence[str], checker: Checker, rng: random.Random
) -> tuple[Task, Task] | None:
    """The two tasks on one function, None where there cannot be two that tell anything."""
    data, words = _two_sets(member, rng), _two_wordings(pool, rng)
    if data is None or words is None:
        return None
    work, examination = (
        Task(question, member.context, member.name, calls, checker.solvers(member.name, calls))
        for question, calls in zip(words, data, strict=True)
    )
    return (work, examination) if max(len(work.solvers), len(examination.solvers)) <= MAX_SOLVERS else None


def _word_pools(members: Sequence[Member], texts: Mapping[str, str]) -> dict[tuple[str, str], list[str]]:
    """By family, the words of all its members' blocks that tell what they do, without their names."""
    pools: dict[tuple[str, str], dict[str, None]] = {}
    for member in members:
        documentation = texts[member.name].partition(": ")[2].lower()
        words = re.findall(r"[a-z]{3,}", documentation)
        fit = (word for word in words if word not in COMMON and word != member.family[1])
        pools.setdefault(member.family, {}).update(dict.fromkeys(fit))
    return {family: list(words) for family, words in pools.items()}


def _two_wordings(pool: Sequence[str], rng: random.Random) -> tuple[str, str] | None:
    """Two questions of different words; they may share some where there are few."""
    if len(pool) < 3:
        return None
    size = min(QUESTION_WORDS, len(pool) - 1)
    shuffled = rng.sample(list(pool), len(pool))
    first, second = shuffled[:size], shuffled[-size:]
    return f"which call will {' '.join(first)}", f"what can {' '.join(second)}"


def _two_sets(member: Member, rng: random.Random) -> tuple[tuple[Call, ...], tuple[Call, ...]] | None:
    """Two sets of calls without a call in common, each with as many different results as there are."""
    calls = rng.sample(list(member.calls), len(member.calls))
    by_result: dict[str, list[Call]] = {}
    for call in calls:
        by_result.setdefault(repr(outcome(member.call, call)), []).append(call)
    if len(calls) < 2 or len(by_result) < 2:
        return None
    turns: list[Call] = []
    while len(turns) < 2 * CALLS and any(by_result.values()):
        turns += [same_result.pop() for same_result in by_result.values() if same_result]
    # Results take turns, so that consecutive ones differ; each set takes a stretch.
    half = min(CALLS, len(turns) // 2)
    first, second = tuple(turns[:half]), tuple(turns[half : 2 * half])
    return (first, second) if first and second else None
