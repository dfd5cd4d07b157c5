"""Own state as columns: growth, views without a copy, what a checkpoint gives back."""

import numpy as np
import pytest

from loremesh.node.arrays import FIRST_CAPACITY
from loremesh.node.columns import OwnColumns, OwnViews
from loremesh.node.rules import FSRS5, SURVEY
from loremesh.node.snapshot import REST, differences, export_state, load_state
from loremesh.sync.rows import Contexts
from tests.node.agents import Agent


def test_rows_that_nothing_touched_hold_the_defaults() -> None:
    """No evidence, S = 0 (nothing known), D = 5, importance 0.5; also after many growths."""
    columns = OwnColumns()
    columns.ensure(FIRST_CAPACITY * 5)
    seen = columns.views()
    for name in OwnViews.__struct_fields__:
        default = {"difficulty": 5.0, "published_difficulty": 5.0, "importance": 0.5}.get(name, 0)
        assert getattr(seen, name).tolist() == [default] * FIRST_CAPACITY * 5


def test_growing_keeps_what_is_there_and_the_views_on_it() -> None:
    """A view taken before the growth stays readable; the columns go on in longer arrays."""
    columns = OwnColumns()
    columns.ensure(1)
    columns.self_a[0] = 7
    before = columns.views()
    columns.self_a[0] = 8
    assert before.self_a.tolist() == [8], "a view is not a copy"
    columns.ensure(FIRST_CAPACITY + 1)
    columns.self_a[0] = 9
    assert before.self_a.tolist() == [8]
    assert columns.views().self_a[0] == 9


def test_views_are_read_only_and_as_long_as_asked_for() -> None:
    """Only the fold writes; asking for more rows than there are makes them."""
    seen = OwnColumns().views(3)
    assert len(seen.importance) == 3
    with pytest.raises(ValueError, match="read-only"):
        seen.importance[0] = 1.0


def test_an_empty_home_round_trips() -> None:
    """No rows, no incarnation yet."""
    assert OwnColumns.load(OwnColumns().export()).length == 0
    agent = Agent()
    assert differences(agent.state, load_state(export_state(agent.state), Contexts(), FSRS5)) == []


def test_a_damaged_export_is_refused() -> None:
    """A column that is missing, short or of another type; other rules; no rest: an error, not a state."""
    agent = Agent()
    agent.learn(0)
    agent.outcome(0, context="deploy")
    whole = export_state(agent.state)
    for damaged, why in (
        ({name: part for name, part in whole.items() if name != "columns.self_a"}, "column self_a"),
        ({**whole, "columns.self_a": np.zeros(5, np.int64)}, "column self_a|length"),
        ({**whole, "columns.self_a": np.zeros(1, np.float64)}, "column self_a"),
        ({name: part for name, part in whole.items() if name != "registers.alpha"}, "alpha"),
        ({name: part for name, part in whole.items() if name != "registers.context"}, "context"),
        ({**whole, REST: b"\x90"}, "cannot be taken up"),
        ({name: part for name, part in whole.items() if name != REST}, "cannot be taken up"),
    ):
        with pytest.raises(ValueError, match=why):
            load_state(damaged, Contexts(), FSRS5)
    with pytest.raises(ValueError, match="rules fsrs5, not survey"):
        load_state(whole, Contexts(), SURVEY)


def test_differences_name_what_differs() -> None:
    """Each part of the state is compared, down to the bit, and named."""
    one, two = Agent(), Agent()
    for agent in (one, two):
        agent.learn(0, "ops")
        agent.recall((0, 1.0))
    assert differences(one.state, two.state) == []
    two.outcome(0)
    two.state.columns.difficulty[0] = np.nextafter(two.state.columns.difficulty[0], 10.0)
    two.state.tags[0] = ("other",)
    two.state.hour = 1.0
    two.state.episodes[two.last_episode].context = "deploy"
    found = differences(one.state, two.state)
    for part in ("difficulty", "self_a", "registers", "counter", "hour", "tags", "episodes"):
        assert any(part in line for line in found), part


def test_an_export_from_before_withdrawn_is_refused() -> None:
    """A checkpoint with the old column `deprecated` is not misread: the home folds its log instead."""
    agent = Agent()
    agent.learn(0)
    old = export_state(agent.state)
    old["columns.deprecated"] = old.pop("columns.withdrawn")
    with pytest.raises(ValueError, match="column withdrawn"):
        load_state(old, Contexts(), FSRS5)
