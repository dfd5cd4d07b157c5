"""Compaction of own events: the fold of what is left is what is in use, to the bit, under every rule set."""

from hypothesis import given, settings
from hypothesis import strategies as st

from loremesh.node import events, evidence
from loremesh.node.compaction import Row, Rule, plan
from loremesh.node.events import Aggregate, Compacted, HomeEvent
from loremesh.node.rules import RuleSet
from loremesh.node.snapshot import differences
from tests.node.agents import Agent, Deed, deeds, fold
from tests.node.test_fold import every_set


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
