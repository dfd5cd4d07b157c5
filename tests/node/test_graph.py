"""What links are worth today and what they carry, against plain loops."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loremesh.node.errors import UsageError
from loremesh.node.frames import configured, weights_of
from loremesh.node.frametable import FrameSettings
from loremesh.node.graph import Graph, strengths
from loremesh.node.ownstate import OwnState
from loremesh.node.score import best_neighbours, recall_frame, spreading
from loremesh.sync.fixed import ONE
from loremesh.sync.rows import Contexts

ROWS = 8

edges = st.lists(
    st.tuples(
        st.integers(0, ROWS - 1), st.integers(0, ROWS - 1), st.floats(0.001, 1.0), st.booleans()
    ).filter(lambda edge: edge[0] != edge[1]),
    max_size=24,
)
evidence = st.lists(
    st.tuples(st.floats(0, 50), st.floats(0, 50)) | st.just((0.0, 0.0)), min_size=ROWS, max_size=ROWS
)
scores = st.lists(st.floats(0, 1) | st.just(0.0), min_size=ROWS, max_size=ROWS)


def state_with(outcomes: list[tuple[float, float]]) -> OwnState:
    state = OwnState(bytes(32), Contexts())
    state.columns.ensure(len(outcomes))
    for row, (alpha, beta) in enumerate(outcomes):
        state.columns.self_a[row], state.columns.self_b[row] = round(alpha * ONE), round(beta * ONE)
    return state


def slow_strength(alpha: float, beta: float) -> float:
    return math.sqrt(2.0 * (alpha + 1.0) / (alpha + beta + 2.0))


@settings(max_examples=200, deadline=None)
@given(edges, evidence, scores)
def test_the_best_neighbour_is_the_one_that_plain_loops_find(
    made: list[tuple[int, int, float, bool]], outcomes: list[tuple[float, float]], score: list[float]
) -> None:
    """Largest score times today's weight, which is 1 at most, over all links of each row."""
    state = state_with(outcomes)
    links = state.links
    plain: dict[frozenset[int], tuple[float, bool]] = {}
    for one, other, weight, by_hand in made:
        weight_fx = round(weight * ONE)
        (links.connect if by_hand else links.propose)(one, other, weight_fx)
        if by_hand or not plain.get(frozenset((one, other)), (0.0, False))[1]:
            plain[frozenset((one, other))] = (weight_fx / ONE, by_hand)
    expected = [0.0] * ROWS
    for pair, (weight, _) in plain.items():
        one, other = pair
        today = min(weight * slow_strength(*outcomes[one]) * slow_strength(*outcomes[other]), 1.0)
        expected[one] = max(expected[one], today * score[other])
        expected[other] = max(expected[other], today * score[one])
    spread = Graph().spread(state, ROWS)
    assert best_neighbours(np.array(score, np.float32), spread).tolist() == pytest.approx(expected, abs=2e-6)


def test_strength_is_one_without_outcomes_and_stays_between_none_and_the_root_of_two() -> None:
    """Good ones strengthen, bad ones weaken, as many of both leave it."""
    columns = state_with([(0, 0), (5, 5), (1, 0), (0, 1), (1e4, 0), (0, 1e4)]).columns
    none, even, good, bad, best, worst = strengths(columns.views(), 6).tolist()
    assert none == even == 1.0
    assert (good, bad) == (pytest.approx(math.sqrt(4 / 3)), pytest.approx(math.sqrt(2 / 3)))
    assert 1.41 < best < math.sqrt(2.0)
    assert 0.0 < worst < 0.02


def test_a_change_of_links_or_of_outcomes_shows_at_once() -> None:
    """Nothing is remembered of how it was."""
    state, graph = state_with([(0, 0)] * 3), Graph()
    links = state.links
    score = np.array([0.0, 1.0, 0.5], np.float32)

    def carried() -> float:
        return float(best_neighbours(score, graph.spread(state, 3))[0])

    assert carried() == 0.0
    links.propose(0, 2, ONE // 2)
    assert carried() == 0.25
    links.propose(1, 0, ONE // 2)
    assert carried() == 0.5
    links.propose(1, 0, 0)
    assert carried() == 0.25
    state.columns.self_a[2] = 1 << 40
    assert carried() == pytest.approx(0.25 * math.sqrt(2.0))
    links.drop(2)
    assert carried() == 0.0
    assert graph.spread(state_with([(0, 0)] * 3), 3).rows.tolist() == [], "another fold"


def test_a_weight_for_the_graph_takes_the_place_of_the_frames_own() -> None:
    """0 leaves the links out; what is no weight is refused, by name."""
    simulate = recall_frame("simulate")
    assert simulate.graph > 0.0
    assert recall_frame("task").graph == 0.0
    assert spreading(simulate, None) is simulate
    assert spreading(simulate, 0.0).graph == 0.0
    assert spreading(recall_frame("task"), 0.25).graph == 0.25
    for wrong in (-0.1, 1.1, math.nan, math.inf):
        with pytest.raises(UsageError, match="graph is"):
            spreading(simulate, wrong)


def test_own_frames_and_mixtures_have_a_weight_for_links() -> None:
    """An own one's is taken as it is; a mixture's is that of its parts by share."""
    frames = configured({"wide": FrameSettings(sim=3.0, utility=1.0, graph=0.5)})
    wide = frames.named("wide")
    assert (wide.sim, wide.graph) == (0.75, 0.5)
    assert weights_of(wide)["links"] == 0.5
    assert frames.named("wide=1,task=3").graph == pytest.approx(0.125)
    assert "links" not in weights_of(frames.named("task"))
