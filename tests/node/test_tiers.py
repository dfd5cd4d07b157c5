"""Summaries in the fold: what an event of one makes, what cannot be, and what goes with a source."""

import pytest

from loremesh.node import evidence
from loremesh.node.events import Summarise
from loremesh.node.ownstate import FoldError, OwnState
from loremesh.node.rules import FSRS5
from loremesh.node.snapshot import differences, export_state, load_state
from loremesh.node.tiers import MAX_SOURCES, Level
from loremesh.sync.errors import InvalidInput
from loremesh.sync.rows import Contexts
from tests.node.agents import Agent, fold


@pytest.fixture
def agent() -> Agent:
    """Rows 0 to 5 are blocks; 10 is a summary of 0, 1, 2, and 11 its abstract."""
    agent = Agent()
    for row in range(6):
        agent.learn(row)
    summarise(agent, 10, (0, 1, 2))
    agent.tell(11, evidence.summarised(agent.clock, Level.ABSTRACT, (0, 1, 2), "test", 10))
    return agent


def summarise(agent: Agent, row: int, sources: tuple[int, ...]) -> None:
    agent.tell(row, evidence.summarised(agent.clock, Level.SUMMARY, sources, "test"))


def rows(state: OwnState) -> list[int]:
    return [row for row, _ in state.tiers.items()]


def test_a_summary_stands_above_its_sources_and_is_no_block(agent: Agent) -> None:
    """It is known by its sources; nothing of it is held, rated or evidence, and no use of the memory."""
    used_ms = agent.state.wall_ms
    agent.clock.wall_ms += 1
    summarise(agent, 12, (3, 4, 5))
    tiers, seen = agent.state.tiers, agent.state.columns.views(20)
    assert [tiers.above(row) for row in range(6)] == [10, 10, 10, 12, 12, 12]
    assert (tiers.abstract_of(10), tiers.abstract_of(12)) == (11, None)
    assert tiers.summaries() == [10, 12]
    assert not seen.held[10:].any()
    assert not seen.stability_h[10:].any()
    assert not seen.alpha_fx()[10:].any()
    assert len(agent.state.registers) == 0
    assert agent.state.wall_ms == used_ms, "the clock goes on"


def test_the_last_form_of_a_summary_holds_and_an_older_abstract_is_out_of_date(agent: Agent) -> None:
    """Sources that left are free for another summary; what it was made from is remembered."""
    summarise(agent, 10, (1, 2, 3))
    tiers = agent.state.tiers
    held = tiers.get(10)
    assert held is not None
    assert (held.sources, held.had) == ((1, 2, 3), (0, 1, 2, 3))
    assert (tiers.above(0), tiers.above(3)) == (None, 10)
    assert tiers.abstract_of(10) is None
    assert not tiers.whole(11, lambda row: True)
    agent.tell(11, evidence.summarised(agent.clock, Level.ABSTRACT, (1, 2, 3), "test", 10))
    assert tiers.abstract_of(10) == 11


@pytest.mark.parametrize(
    ("row", "event"),
    [
        (12, Summarise(0, 0, 3, (3, 4), "")),
        (12, Summarise(0, 0, 1, (), "")),
        (12, Summarise(0, 0, 1, tuple(range(20, 21 + MAX_SOURCES)), "")),
        (12, Summarise(0, 0, 1, (4, 3), "")),
        (12, Summarise(0, 0, 1, (3, 3), "")),
        (12, Summarise(0, 0, 1, (-1, 3), "")),
        (12, Summarise(0, 0, 1, (2, 3), "")),
        (12, Summarise(0, 0, 1, (3, 10), "")),
        (12, Summarise(0, 0, 1, (3, 12), "")),
        (12, Summarise(0, 0, 1, (3, 4), "", 10)),
        (0, Summarise(0, 0, 1, (3, 4), "")),
        (10, Summarise(0, 0, 2, (0, 1, 2), "", 10)),
        (12, Summarise(0, 0, 2, (0, 1, 2), "", 10)),
        (12, Summarise(0, 0, 2, (0, 1, 2), "", 5)),
        (12, Summarise(0, 0, 2, (0, 1, 2), "")),
    ],
    ids=[
        "tier",
        "no sources",
        "too many",
        "order",
        "twice",
        "negative",
        "in another summary",
        "of a summary",
        "of itself",
        "summary of a summary",
        "a source itself",
        "another tier",
        "second abstract",
        "abstract of a block",
        "abstract of nothing",
    ],
)
def test_a_summary_that_cannot_be_is_refused_and_changes_nothing(
    agent: Agent, row: int, event: Summarise
) -> None:
    """The fold holds to it, whatever wrote the log."""
    before = agent.state.tiers.export()
    with pytest.raises(FoldError):
        agent.tell(row, event)
    assert agent.state.tiers.export() == before


def test_forgetting_a_block_takes_every_text_that_was_ever_made_from_it(agent: Agent) -> None:
    """Its summary and that one's abstract go, also a summary that was made again without it; others stay."""
    summarise(agent, 12, (3, 4, 5))
    summarise(agent, 10, (1, 2))
    assert agent.state.tiers.doomed(0) == [11, 10]
    agent.note(evidence.forgot(agent.state, agent.clock, 0))
    assert rows(agent.state) == [12]
    assert [agent.state.tiers.above(row) for row in (1, 2, 3)] == [None, None, 12]


def test_a_summary_is_whole_while_all_of_its_sources_may_be_read(agent: Agent) -> None:
    """One that may not be read takes summary and abstract out of view."""
    assert all(agent.state.tiers.whole(row, lambda _: True) for row in (10, 11))
    assert not any(agent.state.tiers.whole(row, lambda source: source != 1) for row in (10, 11))


def test_replay_and_a_checkpoint_give_the_same_summaries(agent: Agent) -> None:
    """The log folded again, and the state laid down and taken up, are equal to the bit; a change shows."""
    summarise(agent, 10, (1, 2, 3))
    agent.note(evidence.forgot(agent.state, agent.clock, 5))
    assert differences(agent.state, fold(agent.log)) == []
    again = load_state(export_state(agent.state), Contexts(), FSRS5)
    assert differences(agent.state, again) == []
    assert (again.tiers.above(3), again.tiers.abstract_row(10)) == (10, 11)
    again.tiers.drop(11)
    assert differences(agent.state, again) == ["summaries differ"]


def test_the_maker_checks_what_a_summary_says_of_itself(agent: Agent) -> None:
    """No sources, too many, and a name that is no line are refused by name."""
    with pytest.raises(InvalidInput, match="sources"):
        evidence.summarised(agent.clock, Level.SUMMARY, [], "test")
    with pytest.raises(InvalidInput, match="sources"):
        evidence.summarised(agent.clock, Level.SUMMARY, range(MAX_SOURCES + 1), "test")
    with pytest.raises(InvalidInput, match="summariser"):
        evidence.summarised(agent.clock, Level.SUMMARY, [1], "two\nlines")
