"""What a run of the demonstration is made of: its sizes, its texts, its tasks, all drawn from the seed."""

from __future__ import annotations

import random
from typing import Final

import msgspec

from loremesh.node.demo.corpus import Fact, deal, read_facts, read_others
from loremesh.node.demo.kin import members
from loremesh.node.demo.tasks import Checker, Exercises, Task, make_exercises
from loremesh.node.errors import UsageError

HONEST: Final = ("ada", "ben", "cyd")
HOSTILE: Final = "mal"
SPACE: Final = "team"


class Size(msgspec.Struct, frozen=True):
    """How much of everything. Tasks are per agent."""

    name: str
    questions: int
    other_texts: int
    alone_tasks: int
    shared_tasks: int
    attacked_tasks: int
    after_tasks: int
    flood_rounds: int
    explained: int
    """Blocks whose numbers are looked at under attack, per agent."""
    late_texts: int
    """Learned and shared by the agent that is killed while it does so."""
    window: int
    """Tasks per agent in one point of the curve."""


SIZES: Final = {
    size.name: size
    for size in (
        Size("small", 16, 14, 8, 16, 6, 6, 12, 15, 40, 2),
        Size("full", 84, 72, 48, 120, 36, 36, 160, 80, 120, 12),
    )
}


class Plan(msgspec.Struct, frozen=True):
    """One run: who holds what at first, who does which tasks, what all are examined on."""

    size: Size
    seed: int
    facts: dict[str, Fact]
    """By name, what is known about the functions of the tasks and their kin."""
    hands: list[tuple[Fact, ...]]
    """By agent, the texts it holds at first: about a third of all."""
    late: tuple[Fact, ...]
    """Texts that come at the end."""
    exercises: Exercises
    checker: Checker
    work: dict[str, list[list[Task]]]
    """By phase and agent, the tasks to do, in order."""


def size_named(name: str) -> Size:
    """The size of that name. Raises UsageError that lists the names."""
    try:
        return SIZES[name]
    except KeyError:
        raise UsageError(f"size {name!r} is unknown", f"use one of {', '.join(SIZES)}") from None


def make_plan(size: Size, seed: int) -> Plan:
    """Everything that chance decides, drawn from the seed. Raises Unavailable for a Python without texts."""
    rng = random.Random(seed)
    kin = members()
    known = read_facts(kin)
    exercises = make_exercises(kin, {name: fact.text for name, fact in known.items()}, size.questions, rng)
    facts = {name: fact for name, fact in known.items() if name in exercises.functions}
    others = read_others(known, size.other_texts + size.late_texts, rng)
    early = others[: size.other_texts]
    lengths = {
        "alone": size.alone_tasks,
        "shared": size.shared_tasks,
        "attacked": size.attacked_tasks,
        "after": size.after_tasks,
    }
    return Plan(
        size=size,
        seed=seed,
        facts=facts,
        hands=deal([*facts.values(), *early], len(HONEST), rng),
        late=tuple(others[size.other_texts :]),
        exercises=exercises,
        checker=Checker(kin),
        work={
            phase: [[rng.choice(exercises.work) for _ in range(length)] for _ in HONEST]
            for phase, length in lengths.items()
        },
    )
