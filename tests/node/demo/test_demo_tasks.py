"""The tasks: two on each function, which only the right kind of function passes."""

from __future__ import annotations

import random
from functools import cache

from loremesh.node.demo.corpus import read_facts
from loremesh.node.demo.kin import members
from loremesh.node.demo.tasks import MAX_SOLVERS, Checker, Exercises, make_exercises


@cache
def exercises() -> Exercises:
    kin = members()
    return make_exercises(
        kin, {name: fact.text for name, fact in read_facts(kin).items()}, 60, random.Random(5)
    )


@cache
def checker() -> Checker:
    return Checker(members())


def test_work_and_examination_are_on_the_same_functions_in_other_words_on_other_data() -> None:
    pairs = list(zip(exercises().work, exercises().examination, strict=True))

    assert len(pairs) >= 60
    for work, examination in pairs:
        assert work.answer == examination.answer
        assert work.question != examination.question
        asked = [repr(call) for call in (*work.calls, *examination.calls)]
        assert len(set(asked)) == len(asked)


def test_the_answer_passes_and_few_others_do() -> None:
    for task in (*exercises().work, *exercises().examination):
        assert checker().solves(f"{task.answer}: whatever it says", task)
        assert 1 <= len(task.solvers) <= MAX_SOLVERS
        assert task.answer in task.solvers


def test_namesakes_of_another_kind_of_data_do_not_pass() -> None:
    kinds = ("text", "bytes", "buffer")
    tasks = [task for task in exercises().examination if task.context in kinds]
    pairs = [
        (task, other)
        for task in tasks
        for other in tasks
        if task.context != other.context and task.answer.rpartition(".")[2] == other.answer.rpartition(".")[2]
    ]

    assert len(pairs) > 10
    for task, other in pairs:
        assert not checker().solves(f"{other.answer}: …", task)


def test_a_question_does_not_name_its_answer() -> None:
    for task in (*exercises().work, *exercises().examination):
        assert task.answer.rpartition(".")[2] not in task.question.split()[2:]


def test_an_agent_calls_nothing_but_the_functions_it_was_given() -> None:
    task = exercises().work[0]

    for name in ("os.system", "builtins.exec", "shutil.rmtree", "no.such.thing", ""):
        assert not checker().solves(f"{name}: {task.question}", task)


def test_families_come_whole_and_with_at_least_two_questions() -> None:
    plain = [task.answer.rpartition(".")[2] for task in exercises().work]

    assert all(plain.count(name) > 1 for name in plain)
    assert {task.answer for task in exercises().work} <= exercises().functions
