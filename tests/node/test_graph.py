"""What links are worth today and what they carry, against plain loops."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loremesh.node import graph as graph_module
from loremesh.node.errors import UsageError
from loremesh.node.frames import configured, weights_of
from loremesh.node.frametable import FrameSettings
from loremesh.node.graph import lent, strengths
from loremesh.node.ownstate import OwnState
from loremesh.node.score import recall_frame, spreading
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


def slow_lent(
    links: dict[frozenset[int], float],
    outcomes: list[tuple[float, float]],
    score: list[float],
    eligible: list[bool],
    sources: int,
) -> list[float]:
    """The oracle: the best eligible rows one by one, each over all pairs."""
    order = sorted((row for row in range(ROWS) if eligible[row]), key=lambda row: -score[row])
    found = [0.0] * ROWS
    if not order:
        return found
    floor = score[order[sources]] if len(order) > sources else score[order[-1]]
    for source in order[:sources]:
        for pair, weight in links.items():
            if source in pair:
                (other,) = pair - {source}
                today = min(weight * slow_strength(*outcomes[source]) * slow_strength(*outcomes[other]), 1.0)
                if eligible[other]:
                    found[other] = max(found[other], today * (score[source] - floor))
    return found


@settings(max_examples=300, deadline=None)
@given(edges, evidence, scores, st.lists(st.booleans(), min_size=ROWS, max_size=ROWS), st.integers(1, 9))
def test_what_is_lent_is_what_plain_loops_say(
    made: list[tuple[int, int, float, bool]],
    outcomes: list[tuple[float, float]],
    score: list[float],
    eligible: list[bool],
    sources: int,
) -> None:
    """The best lead times today's weight over the links of the best; what is out of recall neither
    lends nor takes.
    """
    state = state_with(outcomes)
    plain: dict[frozenset[int], tuple[float, bool]] = {}
    for one, other, weight, by_hand in made:
        weight_fx = round(weight * ONE)
        (state.links.connect if by_hand else state.links.propose)(one, other, weight_fx)
        if by_hand or not plain.get(frozenset((one, other)), (0.0, False))[1]:
            plain[frozenset((one, other))] = (weight_fx / ONE, by_hand)
    weights = {pair: weight for pair, (weight, _) in plain.items()}
    given_scores = np.array([value * able for value, able in zip(score, eligible, strict=True)], np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph_module, "SOURCES", sources)
        found = lent(state, given_scores, np.array(eligible)).tolist()
    expected = slow_lent(weights, outcomes, given_scores.tolist(), eligible, sources)
    assert found == pytest.approx(expected, abs=2e-6)


def test_strength_is_one_without_outcomes_and_stays_between_none_and_the_root_of_two() -> None:
    """Good ones strengthen, bad ones weaken, as many of both leave it."""
    columns = state_with([(0, 0), (5, 5), (1, 0), (0, 1), (1e4, 0), (0, 1e4)]).columns
    none, even, good, bad, best, worst = strengths(columns.views(), np.arange(6)).tolist()
    assert none == even == 1.0
    assert (good, bad) == (pytest.approx(math.sqrt(4 / 3)), pytest.approx(math.sqrt(2 / 3)))
    assert 1.41 < best < math.sqrt(2.0)
    assert 0.0 < worst < 0.02


def test_a_change_of_links_or_of_outcomes_shows_at_once() -> None:
    """Nothing is remembered of how it was."""
    state = state_with([(0, 0)] * 3)
    score, everyone = np.array([0.0, 1.0, 0.5], np.float32), np.ones(3, np.bool_)

    def taken() -> float:
        return float(lent(state, score, everyone)[0])

    assert taken() == 0.0
    state.links.propose(0, 2, ONE // 2)
    assert taken() == 0.25
    state.links.propose(1, 0, ONE // 2)
    assert taken() == 0.5
    state.links.propose(1, 0, 0)
    assert taken() == 0.25
    state.columns.self_a[2] = 1 << 40
    assert taken() == pytest.approx(0.25 * math.sqrt(2.0))
    state.links.drop(2)
    assert taken() == 0.0


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
