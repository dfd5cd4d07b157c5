"""Compaction of own events: the fold of what is left is what is in use, to the bit, under every rule set."""

import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loremesh.node import events, evidence
from loremesh.node.compaction import Row, Rule, choose, plan
from loremesh.node.events import Aggregate, Compacted, HomeEvent
from loremesh.node.fold import apply
from loremesh.node.ownstate import FoldError
from loremesh.node.rules import RuleSet
from loremesh.node.snapshot import differences, export_state
from tests.node.agents import Agent, Deed, deeds, fold
from tests.node.test_fold import every_set, registers_of


def compact(agent: Agent, keep: int = 0, older_h: float = 0.0, least: int = 1) -> int:
    """Compact the agent's log as a home does, keeping numbers as places; how many rows went."""
    blocks: dict[int, list[Row]] = {}
    home: list[tuple[int, HomeEvent]] = []
    for n, (row, payload) in enumerate(agent.log):
        if row is None:
            home.append((n, events.decode_home(payload)))
        else:
            blocks.setdefault(row, []).append(Row(n, events.decode_own(payload)))
    rule = Rule(keep, agent.state.hour - older_h, set(agent.state.episodes), least)
    done = plan(blocks, home, agent.state, rule)
    assert done.uneven == []
    for row, n, made in done.aggregates:
        agent.log[n] = (row, events.encode(made))
    gone = set(done.gone)
    agent.log = [entry for n, entry in enumerate(agent.log) if n not in gone]
    agent.note(
        Compacted(agent.state.hour, agent.clock.wall_ms, keep, older_h, len(agent.state.episodes), "test")
    )
    return len(gone)


def aggregates_in(agent: Agent) -> list[Aggregate]:
    told = [events.decode_own(payload) for row, payload in agent.log if row is not None]
    return [event for event in told if isinstance(event, Aggregate)]


def used(agent: Agent, rounds: int = 12) -> None:
    """Two blocks with outcomes of several kinds, in several contexts and two incarnations."""
    agent.learn(0, "ops")
    for number in range(rounds):
        agent.wait(20 + number)
        agent.outcome(
            0, 1, signal=number % 3 / 2, weight=0.5 + number % 2, context=("", "deploy")[number % 2]
        )
        agent.outcome(0, signal=1.0, weight=0.1, implicit=True)
        if number == rounds // 2:
            agent.note(evidence.incarnation(agent.clock, agent.fresh(), "restored"))
        if number == rounds // 3:
            agent.rate(0, 0.75)
            agent.tell(0, evidence.decision(agent.clock, events.Deprecate, "because", "me"))


@every_set
@settings(deadline=None, max_examples=40)
@given(st.lists(deeds, min_size=10, max_size=60), st.lists(deeds, max_size=30), st.integers(0, 3))
def test_a_compacted_log_folds_to_what_is_in_use(
    rules: RuleSet, before: list[Deed], after: list[Deed], keep: int
) -> None:
    """Any work, compaction, any work, compaction again: bit for bit, and as if there had been none."""
    agent, twin = Agent(rules), Agent(rules)
    for deed in before:
        agent.do(deed)
        twin.do(deed)
    compact(agent, keep)
    assert differences(agent.state, fold(agent.log, rules)) == []
    for deed in after:
        agent.do(deed)
        twin.do(deed)
    compact(agent)
    assert differences(agent.state, fold(agent.log, rules)) == []
    assert differences(agent.state, twin.state) == []


def by_hand(agent: Agent, row: int) -> list[Row]:
    """The block's events with their places in the log."""
    return [
        Row(n, events.decode_own(payload))
        for n, (of, payload) in enumerate(agent.log)
        if of is not None and of == row
    ]


def test_the_outcome_that_began_a_block_stays() -> None:
    """What came first decides whether a file that comes later finds a block with a history of its own."""
    agent = Agent()
    for _ in range(5):
        agent.outcome(0)
    agent.learn(1)
    for _ in range(5):
        agent.outcome(1)
    rule = Rule(0, math.inf, (), 1)
    begun, learned = choose(by_hand(agent, 0), rule), choose(by_hand(agent, 1), rule)
    assert begun is not None
    assert learned is not None
    first = by_hand(agent, 0)[0].n
    assert first not in begun.gone
    assert len(begun.gone) == 3
    assert len(learned.gone) == 4


def test_what_waited_goes_later_without_another_sum() -> None:
    """Rows before an aggregate are told by it already: they go, and it stays as it is."""
    agent = Agent()
    agent.learn(0)
    waiting = agent.recall((0, 1.0))
    for _ in range(6):
        agent.outcome(0)
    assert compact(agent) == 5
    held = aggregates_in(agent)
    assert [(one.outcomes, one.recalls) for one in held] == [(6, 1)]
    del agent.state.episodes[waiting]
    assert compact(agent) == 1
    assert aggregates_in(agent) == held
    state = fold(agent.log)
    assert waiting not in state.episodes
    assert state.columns.positives[0] == 6


def test_counts_go_on_from_sum_to_sum() -> None:
    """An aggregate that takes up another one tells of all that there was, from the first on."""
    agent = Agent()
    agent.learn(0)
    agent.wait(10)
    first_ms, first_hour = agent.clock.wall_ms, agent.clock.hour
    for _ in range(3):
        for _ in range(4):
            agent.outcome(0)
            agent.wait(10)
        compact(agent, keep=1)
    (held,) = aggregates_in(agent)
    assert (held.outcomes, held.first_ms, held.first_hour) == (11, first_ms, first_hour)
    assert held.positives == 11


def test_an_episode_that_could_take_none_any_more_cannot_after_a_replay() -> None:
    """Of an old episode one block's rows may be left; the log says that it is over."""
    agent = Agent()
    agent.learn(0)
    old = agent.recall((0, 1.0), (1, 0.5))
    agent.state.episodes.pop(old)  # as if thousands had come after it
    for _ in range(4):
        agent.outcome(0)
    compact(agent)
    assert old not in fold(agent.log).episodes


def test_an_aggregate_of_another_log_is_refused_and_changes_nothing() -> None:
    """An incarnation that never began; parts that do not go together."""
    agent = Agent()
    used(agent)
    compact(agent)
    held = aggregates_in(agent)[0]
    other = Agent()
    other.learn(0)
    before = export_state(other.state)
    wrong = (held, msgspec.structs.replace(held, recent=()), msgspec.structs.replace(held, labels=("x",)))
    for event in wrong:
        with pytest.raises(FoldError):
            apply(other.state, 0, event)
    assert all(bytes(export_state(other.state)[name]) == bytes(part) for name, part in before.items())


@every_set
def test_other_rules_go_on_from_what_is_published(rules: RuleSet) -> None:
    """S behind a sum: that of the home's own rules where they are the same, else the published one."""
    agent = Agent()
    used(agent)
    compact(agent)
    state, live = fold(agent.log, rules), agent.state.columns
    same = rules.name.partition("+")[0] in ("fsrs5", "beta-decay:0.99", "bkt")
    for row in (0, 1):
        assert state.columns.published_stability_h[row] == live.published_stability_h[row]
        assert not same or state.columns.stability_h[row] == live.stability_h[row]
        assert state.columns.stability_h[row] > 0.0
    assert sorted(registers_of(state).version) == sorted(registers_of(agent.state).version)
