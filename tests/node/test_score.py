"""The composite score against ten plain lines, and the order and fairness of what recall hands out."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from loremesh.node.errors import UsageError
from loremesh.node.score import (
    FRAMES,
    ContextEvidence,
    Ranked,
    Terms,
    composite,
    hybrid_sim,
    lift_named,
    rank,
    recall_frame,
    spreading,
    utility_terms,
)

ONE = 1 << 16
TASK = recall_frame("task")


def floats(*values: float) -> NDArray[np.float32]:
    return np.array(values, dtype=np.float32)


def rows(*values: int) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def terms_of(size: int, sim: NDArray[np.float32] | None = None) -> Terms:
    flat = np.full(size, 0.5, dtype=np.float32)
    return Terms(flat if sim is None else sim, flat, flat, flat, flat)


def everyone(size: int) -> NDArray[np.bool_]:
    return np.ones(size, dtype=np.bool_)


def by_number(row: int) -> bytes:
    return row.to_bytes(32, "big")


def slow_rank(
    terms: Terms, k: int, eligible: list[bool], ids: list[bytes], principals: list[int], quota: int
) -> list[tuple[int, float]]:
    """The oracle: every row scored one by one, sorted, then taken while its principal has places left."""
    scored = []
    for row in range(len(ids)):
        score = TASK.sim * float(terms.sim[row]) + TASK.utility * float(terms.utility[row])
        score += TASK.retrievability * float(terms.retrievability[row])
        score += TASK.importance * float(terms.importance[row])
        score += TASK.explore * float(terms.explore[row])
        if eligible[row]:
            scored.append((-score, ids[row], row))
    taken: list[tuple[int, float]] = []
    for negative, _, row in sorted(scored):
        same = sum(principals[other] == principals[row] for other, _ in taken)
        if len(taken) < k and (principals[row] < 0 or same < quota):
            taken.append((row, -negative))
    return taken


def test_frames_have_the_published_weights() -> None:
    table = {
        frame.name: (frame.sim, frame.utility, frame.retrievability, frame.importance, frame.explore)
        for frame in FRAMES.values()
    }
    assert table == {
        "self": (0.30, 0.10, 0.15, 0.40, 0.05),
        "attention": (0.55, 0.15, 0.20, 0.05, 0.05),
        "task": (0.40, 0.30, 0.15, 0.10, 0.05),
        "simulate": (0.45, 0.15, 0.20, 0.15, 0.05),
    }


def test_only_the_self_frame_keeps_peers_blocks_out() -> None:
    assert [frame.name for frame in FRAMES.values() if frame.own_only] == ["self"]


def test_an_unknown_frame_is_an_error_that_lists_the_frames() -> None:
    with pytest.raises(UsageError, match="dream") as caught:
        recall_frame("dream")
    assert caught.value.hint == "use one of self, attention, task, simulate"


def test_sim_is_six_tenths_cosine_and_four_tenths_bm25_over_the_best() -> None:
    sim = hybrid_sim(floats(1.0, 0.5, 0.0, 0.2), rows(2, 1), floats(8.0, 2.0))
    assert sim.tolist() == pytest.approx([0.6, 0.3 + 0.1, 0.4, 0.12])


def test_negative_cosine_counts_as_none_and_cosine_above_one_as_one() -> None:
    assert hybrid_sim(floats(-0.7, 1.0000001), rows(), floats()).tolist() == pytest.approx([0.0, 0.6])


def test_what_cannot_be_returned_does_not_set_the_lexical_scale() -> None:
    eligible = np.array([True, False])
    sim = hybrid_sim(floats(0.0, 0.0), rows(1, 0), floats(100.0, 1.0), eligible)
    assert sim.tolist() == pytest.approx([0.4, 0.0])


def test_a_named_label_lifts_its_rows_by_a_part_of_what_they_lack_and_no_others() -> None:
    sim = lift_named(floats(0.2, 0.6, 1.0, 0.4), rows(0, 1, 2), floats(1.0, 0.5, 1.0))
    assert sim.tolist() == pytest.approx([0.2 + 0.25 * 0.8, 0.6 + 0.125 * 0.4, 1.0, 0.4])


masses = st.integers(0, 1 << 36)


@given(st.lists(st.tuples(masses, masses), min_size=1, max_size=30))
def test_utility_and_spread_are_those_of_the_beta_distribution(evidence: list[tuple[int, int]]) -> None:
    alpha, beta = (np.array(column, dtype=np.int64) for column in zip(*evidence, strict=True))
    utility, explore = utility_terms(alpha, beta)
    for row, (a, b) in enumerate(evidence):
        mass = Fraction(a + b, ONE)
        u = Fraction(a, a + b) if a + b else Fraction(1, 2)
        v = u * (1 - u) / (mass + 1)
        assert utility[row] == pytest.approx(float(u), rel=1e-6, abs=1e-6)
        assert float(explore[row]) ** 2 == pytest.approx(float(v), rel=1e-5, abs=1e-7)


@given(masses, masses, st.integers(0, 1 << 30), st.integers(0, 1 << 30), st.sampled_from([0.5, 4.0, 100.0]))
def test_a_context_is_backed_off_to_the_total(a: int, b: int, ca: int, cb: int, backoff: float) -> None:
    total = np.array([a, a], dtype=np.int64), np.array([b, b], dtype=np.int64)
    context = ContextEvidence(rows(1), rows(ca), rows(cb))
    plain = utility_terms(*total)[0]
    utility, explore = utility_terms(*total, context, backoff)
    expected = (ca / ONE + backoff * float(plain[1])) / ((ca + cb) / ONE + backoff)
    assert utility[0] == plain[0]  # no evidence in the context: the total's
    assert utility[1] == pytest.approx(expected, rel=1e-5, abs=1e-6)
    assert explore[0] ** 2 == pytest.approx(float(plain[0]) * (1 - float(plain[0])) / (backoff + 1), abs=1e-6)
    assert explore[1] ** 2 == pytest.approx(
        expected * (1 - expected) / ((ca + cb) / ONE + backoff + 1), abs=1e-6
    )


def test_evidence_of_the_context_outweighs_the_total_the_more_there_is() -> None:
    total = rows(ONE * 100), rows(0)
    found = [
        float(utility_terms(*total, ContextEvidence(rows(0), rows(0), rows(ONE * failures)))[0][0])
        for failures in (0, 4, 400)
    ]
    assert found == pytest.approx([1.0, 0.5, 4 / 404])


coarse = st.sampled_from([0.0, 0.25, 0.5, 0.5000001, 1.0])
row_inputs = st.tuples(coarse, coarse, coarse, coarse, coarse, st.booleans(), st.integers(-1, 2))


@given(st.lists(row_inputs, max_size=40), st.integers(1, 12), st.sampled_from([0.0, 0.34, 0.5, 1.0]))
def test_rank_equals_scoring_and_sorting_everything(
    inputs: list[tuple[float, float, float, float, float, bool, int]], k: int, share: float
) -> None:
    columns = [floats(*(row[term] for row in inputs)) for term in range(5)]
    eligible = [row[5] for row in inputs]
    principals = [row[6] for row in inputs]
    ids = [by_number((row * 7919) % 101) for row in range(len(inputs))]
    found = rank(
        TASK,
        Terms(*columns),
        k,
        eligible=np.array(eligible, dtype=np.bool_),
        block_id=ids.__getitem__,
        sole_principal=np.array(principals, dtype=np.int32),
        foreign_share=share,
    )
    expected = slow_rank(Terms(*columns), k, eligible, ids, principals, max(1, int(k * share)))
    assert [(hit.row, hit.score) for hit in found] == expected


def test_rank_is_exact_where_float32_has_the_order_wrong() -> None:
    random = np.random.default_rng(5)
    columns = [np.float32(0.5) + random.random(500, dtype=np.float32) * np.float32(2e-7) for _ in range(5)]
    rough = composite(TASK, Terms(*columns))
    exact = {
        hit.row: hit.score
        for hit in rank(TASK, Terms(*columns), 500, eligible=everyone(500), block_id=by_number)
    }
    best, other = next((a, b) for a in exact for b in exact if exact[a] > exact[b] and rough[a] < rough[b])
    # The truly best row once, the one that only looks better fifty times.
    crowd = Terms(*(column[[other] * 50 + [best]] for column in columns))
    assert rank(TASK, crowd, 1, eligible=everyone(51), block_id=by_number)[0].row == 50


def test_the_score_is_exactly_the_sum_of_the_parts_shown() -> None:
    random = np.random.default_rng(3)
    terms = Terms(*(random.random(500, dtype=np.float32) for _ in range(5)))
    for hit in rank(TASK, terms, 20, eligible=everyone(500), block_id=by_number):
        parts = hit.parts
        assert hit.score == (
            0.0
            + 0.40 * parts.sim
            + 0.30 * parts.utility
            + 0.15 * parts.retrievability
            + 0.10 * parts.importance
            + 0.05 * parts.explore
        )


def test_equal_scores_are_ordered_by_block_id() -> None:
    ids = [bytes([value]) * 32 for value in (9, 3, 7, 1)]
    found = rank(TASK, terms_of(4), 3, eligible=everyone(4), block_id=ids.__getitem__)
    assert [hit.row for hit in found] == [3, 1, 2]


def flood(k: int, share: float = 0.5) -> list[Ranked]:
    """Rows 0 to 999 come from one peer and score highest, the ten after them are the node's own."""
    sim = np.full(1010, 0.9, dtype=np.float32)
    sim[1000:] = 0.1
    foreign = np.full(1010, 4, dtype=np.int32)
    foreign[1000:] = -1
    return rank(
        TASK,
        terms_of(1010, sim),
        k,
        eligible=everyone(1010),
        block_id=by_number,
        sole_principal=foreign,
        foreign_share=share,
    )


def test_a_flood_from_one_peer_gets_at_most_half_of_the_places() -> None:
    assert [hit.row for hit in flood(5)] == [0, 1, 1000, 1001, 1002]


def test_a_flood_is_passed_over_without_looking_at_each_of_its_blocks() -> None:
    looked_at: list[int] = []

    def counted(row: int) -> bytes:
        looked_at.append(row)
        return by_number(row)

    sim = np.linspace(1.0, 0.1, 5_010, dtype=np.float32)
    foreign = np.full(5_010, 4, dtype=np.int32)
    foreign[5_000:] = -1
    rank(TASK, terms_of(5_010, sim), 5, eligible=everyone(5_010), block_id=counted, sole_principal=foreign)
    assert len(looked_at) < 50


def test_the_share_of_one_peer_is_configurable() -> None:
    assert [hit.row for hit in flood(5, share=0.2)] == [0, 1000, 1001, 1002, 1003]


def test_a_single_hit_may_come_from_a_peer() -> None:
    assert [hit.row for hit in flood(1)] == [0]


def test_what_is_not_eligible_is_never_returned_even_when_too_few_are_left() -> None:
    eligible = np.array([False, True, False, True])
    found = rank(TASK, terms_of(4, floats(1.0, 0.1, 1.0, 0.2)), 10, eligible=eligible, block_id=by_number)
    assert [hit.row for hit in found] == [3, 1]


def test_an_empty_memory_returns_nothing() -> None:
    assert rank(TASK, terms_of(0), 5, eligible=everyone(0), block_id=by_number) == []


def test_asking_for_no_hits_is_an_error() -> None:
    with pytest.raises(UsageError, match="k is 0"):
        rank(TASK, terms_of(1), 0, eligible=everyone(1), block_id=by_number)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_term_that_is_not_finite_is_refused_by_name(bad: float) -> None:
    flat = floats(0.5, 0.5)
    with pytest.raises(ValueError, match="importance"):
        rank(
            TASK,
            Terms(flat, flat, flat, floats(0.5, bad), flat),
            1,
            eligible=everyone(2),
            block_id=by_number,
        )


def test_what_is_lent_is_added_with_the_frames_weight() -> None:
    """It is asked with the scores before, 0 for rows that cannot be handed out, and shown unweighted."""
    terms = terms_of(4, floats(0.0, 0.4, 1.0, 0.2))
    eligible = np.array([True, True, True, False])
    plain = {hit.row: hit for hit in rank(TASK, terms, 4, eligible=eligible, block_id=by_number)}
    asked: list[list[float]] = []

    def lent(scores: NDArray[np.float32]) -> NDArray[np.float32]:
        asked.append(scores.tolist())
        return floats(0.5, 0.0, 0.25, 1.0)

    frame = spreading(TASK, 0.5)
    linked = {hit.row: hit for hit in rank(frame, terms, 4, eligible=eligible, block_id=by_number, lent=lent)}
    assert linked.keys() == {0, 1, 2}
    assert asked == [pytest.approx([*(plain[row].score for row in range(3)), 0.0])]
    for row, share in ((0, 0.5), (1, 0.0), (2, 0.25)):
        assert linked[row].parts.links == share
        assert linked[row].score == pytest.approx(plain[row].score + 0.5 * share)
    rank(TASK, terms, 4, eligible=eligible, block_id=by_number, lent=lent)
    assert len(asked) == 1, "a frame without a weight for links asks nothing"
