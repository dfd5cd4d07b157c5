"""Where the demonstration's texts come from, and how they are dealt."""

from __future__ import annotations

import random

import pytest

from loremesh.node.demo.corpus import Fact, deal, described, name_in, read_facts, read_others
from loremesh.node.demo.kin import members, outcome, same
from loremesh.node.demo.plan import SIZES, make_plan, size_named
from loremesh.node.errors import Unavailable, UsageError


def test_a_block_names_what_it_is_about_even_with_colons_in_its_text() -> None:
    fact = described("str.find", "S.find: the lowest index\n  in S")

    assert fact.text == "str.find: S.find: the lowest index in S"
    assert name_in(fact.text) == "str.find"


def test_every_function_is_described_by_the_running_python() -> None:
    facts = read_facts(members())

    assert len(facts) > 150
    assert facts["str.upper"].text.startswith("str.upper: Return a copy of the string converted to uppercase")
    assert all(len(fact.text.split()) > 1 for fact in facts.values())


def test_other_texts_are_about_other_things() -> None:
    facts = read_facts(members())

    others = read_others(facts, 60, random.Random(3))

    assert len({other.text for other in others}) == 60
    assert not facts.keys() & {other.name for other in others}


def test_a_python_without_documentation_is_told_how_to_help_itself() -> None:
    with pytest.raises(Unavailable, match="no documentation") as error:
        read_others({}, 5, random.Random(1))

    assert "-OO" in error.value.hint


def test_hands_are_disjoint_complete_and_equal_to_within_one() -> None:
    facts = [Fact(str(number), f"{number}: text") for number in range(11)]

    hands = deal(facts, 3, random.Random(1))

    assert sorted(len(hand) for hand in hands) == [3, 4, 4]
    assert sorted(fact.name for hand in hands for fact in hand) == sorted(fact.name for fact in facts)


def test_one_seed_gives_one_plan_and_another_gives_another() -> None:
    one, again, other = (make_plan(SIZES["small"], seed) for seed in (7, 7, 8))

    assert one.hands == again.hands
    assert [task.question for task in one.exercises.work] == [task.question for task in again.exercises.work]
    assert [task.question for task in one.exercises.work] != [task.question for task in other.exercises.work]


def test_a_size_that_there_is_not_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="'huge' is unknown"):
        size_named("huge")


def test_results_are_the_same_only_in_type_value_and_effect() -> None:
    def appended(to: list[int], value: int) -> None:
        to.append(value)

    def ignored(to: list[int], value: int) -> None:
        return None

    assert same(outcome(abs, (-1,)), outcome(abs, (1,))) is False  # the arguments differ
    assert same(outcome(appended, ([1], 2)), outcome(list.append, ([1], 2)))
    assert not same(outcome(ignored, ([1], 2)), outcome(list.append, ([1], 2)))
    assert not same(outcome(float, (2,)), outcome(int, (2,)))
    assert not same(outcome(int, ("x",)), outcome(int, ("x",)))  # nobody is right who fails


def test_calling_leaves_the_arguments_of_a_task_as_they_are() -> None:
    given = [3, 1]

    outcome(list.sort, (given,))

    assert given == [3, 1]
