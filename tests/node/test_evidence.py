"""Makers of events: every bound is refused with an error that names the field, and nothing has moved."""

from collections.abc import Callable

import pytest

from loremesh.node import evidence
from loremesh.node.errors import UnknownThing
from loremesh.node.events import FrameName
from loremesh.node.firsthand import MAX_CONTEXTS_PER_BLOCK
from loremesh.node.ownstate import MAX_EPISODE_BLOCKS
from loremesh.node.rules import FSRS5
from loremesh.node.snapshot import differences, export_state, load_state
from loremesh.sync.errors import InvalidInput
from loremesh.sync.fixed import MAX_MASS, ONE
from loremesh.sync.rows import Contexts
from tests.node.agents import Agent, fold

NAN, INF = float("nan"), float("inf")


@pytest.fixture
def agent() -> Agent:
    return Agent()


Call = Callable[[Agent], object]

REFUSED: list[tuple[str, Call]] = [
    *(
        ("signal", lambda a, x=x: evidence.outcome_of_blocks(a.state, a.clock, [0], x))
        for x in (NAN, INF, -0.1, 1.5)
    ),
    *(
        ("weight", lambda a, x=x: evidence.outcome_of_blocks(a.state, a.clock, [0], 1.0, x))
        for x in (NAN, INF, -1.0, MAX_MASS * 2.0)
    ),
    *(
        ("signal", lambda a, x=x: evidence.outcome_of_episode(a.state, a.clock, a.last_episode, x))
        for x in (NAN, -1e-9)
    ),
    ("weight", lambda a: evidence.outcome_of_episode(a.state, a.clock, a.last_episode, 1.0, NAN)),
    ("context", lambda a: evidence.outcome_of_episode(a.state, a.clock, a.last_episode, 1.0, 1.0, "x" * 65)),
    ("context", lambda a: evidence.outcome_of_blocks(a.state, a.clock, [0], 1.0, 1.0, "x" * 65)),
    ("context", lambda a: evidence.outcome_of_blocks(a.state, a.clock, [0], 1.0, 1.0, "a\x00b")),
    ("block", lambda a: evidence.outcome_of_blocks(a.state, a.clock, [0, 1, 0], 1.0)),
    *(("w_init", lambda a, x=x: evidence.learn(a.clock, x)) for x in (NAN, INF, -1.0, 0.09, MAX_MASS + 1.0)),
    ("tags", lambda a: evidence.learn(a.clock, 1.0, [f"t{i}" for i in range(33)])),
    ("tags", lambda a: evidence.share(a.state, a.clock, 0, (), [f"t{i}" for i in range(32)])),
    *(
        ("tag", lambda a, x=x: evidence.learn(a.clock, 1.0, [x]))
        for x in ("", "  ", "x" * 65, "\x1b", "\ud800")
    ),
    ("space", lambda a: evidence.share(a.state, a.clock, 0, [b"short"])),
    *(("rating", lambda a, x=x: evidence.rating(a.state, a.clock, 0, x, 1.0)) for x in (NAN, -0.1, 1.1)),
    *(("weight", lambda a, x=x: evidence.rating(a.state, a.clock, 0, 0.5, x)) for x in (NAN, INF, -1.0)),
    ("rater", lambda a: evidence.rating(a.state, a.clock, 0, 0.5, 1.0, "two\nlines")),
    ("score", lambda a: evidence.recall_hits(a.clock, bytes(16), [(0, NAN)], FrameName.SELF)),
    (
        "k",
        lambda a: evidence.recall_hits(
            a.clock, bytes(16), [(i, 1.0) for i in range(MAX_EPISODE_BLOCKS + 1)], FrameName.SELF
        ),
    ),
    ("episode", lambda a: evidence.recall_hits(a.clock, b"e", [(0, 1.0)], FrameName.SELF)),
    ("other", lambda a: evidence.connect(a.clock, 1, 1, 0.5)),
    ("weight", lambda a: evidence.connect(a.clock, 1, 2, 1.5)),
    ("incarnation", lambda a: evidence.incarnation(a.clock, b"short", "created")),
    ("peer", lambda a: evidence.trust(a.clock, b"short", 0.5, "", "me")),
    *(("trust", lambda a, x=x: evidence.trust(a.clock, bytes(32), x, "", "me")) for x in (NAN, -0.5, 1.5)),
    ("why", lambda a: evidence.trust(a.clock, bytes(32), 0.5, "x" * 1_001, "me")),
]


@pytest.mark.parametrize(("field", "call"), REFUSED, ids=[f"{i}-{f}" for i, (f, _) in enumerate(REFUSED)])
def test_what_is_out_of_bounds_is_refused_by_name(agent: Agent, field: str, call: Call) -> None:
    """The error names the field, and the state is what the log says."""
    agent.learn(0, "t")
    agent.recall((0, 1.0))
    with pytest.raises(InvalidInput) as refused:
        call(agent)
    assert refused.value.field == field
    assert differences(agent.state, fold(agent.log)) == []


def test_a_block_takes_sixty_four_contexts(agent: Agent) -> None:
    """One more is refused, over all incarnations; a context the block has goes on."""
    for i in range(MAX_CONTEXTS_PER_BLOCK):
        if i == 10:
            agent.note(evidence.incarnation(agent.clock, agent.fresh(), "restored"))
        agent.outcome(0, context=f"c{i}")
    agent.outcome(1, context="another")
    for label in ("another", "brand new"):
        with pytest.raises(InvalidInput, match="context number 65"):
            agent.outcome(0, context=label)
    agent.outcome(0, context="c3")
    agent.state = load_state(export_state(agent.state), Contexts(), FSRS5)
    with pytest.raises(InvalidInput, match="context number 65"):
        agent.outcome(0, context="another")
    agent.forget(0)
    agent.outcome(0, context="another")


def test_a_register_holds_a_bounded_mass(agent: Agent) -> None:
    """Evidence beyond 2^20 on one register is refused where it is made, naming the weight."""
    agent.outcome(0, weight=float(MAX_MASS))
    with pytest.raises(InvalidInput, match="more than 1048576 outcomes") as refused:
        agent.outcome(0, weight=1.0)
    assert refused.value.field == "weight"
    agent.outcome(0, weight=1.0, context="elsewhere")


def test_an_unknown_episode_is_an_error_that_says_what_to_do(agent: Agent) -> None:
    """Not an empty success."""
    with pytest.raises(UnknownThing, match="no episode 0000") as unknown:
        agent.finish(bytes(16), 1.0)
    assert "name the blocks" in unknown.value.hint


def test_retrieval_weights_are_one_or_the_score_over_the_best(agent: Agent) -> None:
    """Uniform by default; by score the best has 1 and a negative score 0; all scores 0 means uniform."""
    scores = [(4, 0.5), (5, 0.25), (6, -0.1)]

    def weights(uniform: bool, of: list[tuple[int, float]] = scores) -> list[int]:
        hits = evidence.recall_hits(agent.clock, bytes(16), of, FrameName.TASK, "", uniform)
        return [hit.retrieval_fx for _, hit in hits]

    assert weights(True) == [ONE, ONE, ONE]
    assert weights(False) == [ONE, ONE // 2, 0]
    assert weights(False, [(1, 0.0), (2, 0.0)]) == [ONE, ONE]


def test_labels_and_tags_are_taken_in_their_normal_form(agent: Agent) -> None:
    """White space and composition do not make a second context or tag."""
    agent.outcome(0, context="  de\u0301ploi ")
    agent.outcome(0, context="d\u00e9ploi")
    assert len(agent.state.registers) == 1
    assert evidence.check_tags([" ops", "ops ", "e\u0301"]) == ("ops", "\u00e9")
