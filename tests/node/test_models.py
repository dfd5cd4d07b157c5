"""The forgetting models beside FSRS, and the utility models: values worked out by hand; what must hold."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loremesh.node import actr, hlr
from loremesh.node import sm2 as sm2_model
from loremesh.node.actr import KEPT, base_level, lay
from loremesh.node.errors import UsageError
from loremesh.node.hlr import half_life_regression
from loremesh.node.rulebook import ACTR, HLR, SM2, get_rules, with_weights
from loremesh.node.rules import FSRS5, FSRS6, Past, Pasts, RuleSet
from loremesh.node.utility import Knowledge, Utility, beta_decay, knowledge_tracing
from loremesh.sync.fixed import ONE

DAY_H = 24.0


def fresh(rules: RuleSet) -> Past:
    """The past of a block nothing has happened to."""
    return [start for _, start in rules.history]


def grade(rules: RuleSet, past: Past, stability_h: float, signal: float, fraction: float = 1.0) -> float:
    """Stability in hours after an outcome a day after the last event."""
    return rules.step(stability_h, 5.0, signal, fraction, DAY_H, 100.0, past)[0]


def test_the_first_success_doubles_a_half_life_and_the_first_failure_halves_it() -> None:
    """HLR: h = h₀·2^(θ(√(1+right) - √(1+wrong))), whatever the order; R = 2^(-t/h)."""
    past = fresh(HLR)
    once = grade(HLR, past, DAY_H, 1.0)
    assert once == pytest.approx(2 * DAY_H, rel=1e-4)
    twice = grade(HLR, past, once, 1.0)
    assert twice == pytest.approx(DAY_H * 2 ** (2.4142 * (math.sqrt(3) - 1)), rel=1e-9)
    failed = grade(HLR, past, twice, 0.0)
    assert failed == pytest.approx(twice / 2, rel=1e-4)
    assert past == [2.0, 1.0]
    half_life_h = failed / math.log2(1 / 0.9)
    assert HLR.retrievability(np.array([half_life_h]), np.array([failed]))[0] == pytest.approx(0.5, rel=1e-12)


@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0)), max_size=30))
def test_the_half_life_is_the_papers_whatever_the_order(outcomes: list[tuple[float, float]]) -> None:
    """Moving by what the features gained ends where θ·x of the counts says, while no bound is met."""
    rules, past, stability_h = half_life_regression((0.3, 0.2)), fresh(HLR), 500.0
    for signal, fraction in outcomes:
        stability_h = grade(rules, past, stability_h, signal, fraction)
    right = sum(signal * fraction for signal, fraction in outcomes)
    wrong = sum((1.0 - signal) * fraction for signal, fraction in outcomes)
    assert past == pytest.approx([right, wrong])
    exponent = 0.3 * (math.sqrt(1 + right) - 1) - 0.2 * (math.sqrt(1 + wrong) - 1)
    assert stability_h == pytest.approx(500.0 * 2**exponent, rel=1e-9)


def test_sm2_gives_the_intervals_of_the_paper() -> None:
    """All fives: 1 day, 6 days, then times an E-Factor that grows by 0.1; a failure starts at 1 day again."""
    past, stability_h = fresh(SM2), DAY_H
    seen = []
    for _ in range(4):
        stability_h = grade(SM2, past, stability_h, 1.0)
        seen.append(stability_h / DAY_H)
    assert seen == pytest.approx([1.0, 6.0, 6.0 * 2.8, 6.0 * 2.8 * 2.9])
    assert past == pytest.approx([4.0, 2.9])
    assert grade(SM2, past, stability_h, 0.0) == pytest.approx(DAY_H)
    assert past == pytest.approx([0.0, 2.9])
    assert grade(SM2, past, DAY_H, 1.0) == pytest.approx(DAY_H)


@pytest.mark.parametrize(
    ("quality", "change", "repetitions"),
    [(0, 0.0, 0), (1, 0.0, 0), (2, 0.0, 0), (3, -0.14, 4), (4, 0.0, 4), (5, 0.1, 4)],
)
def test_sm2_grades_are_five_times_the_signal(quality: int, change: float, repetitions: int) -> None:
    """EF' = EF + 0.1 - (5-q)(0.08 + (5-q)·0.02) from 3 on; below, the count starts again and EF stays."""
    past = [3.0, 2.5]
    grade(SM2, past, 30 * DAY_H, quality / 5)
    assert past == pytest.approx([repetitions, 2.5 + change])
    if quality >= 3:
        assert change == pytest.approx(0.1 - (5 - quality) * (0.08 + (5 - quality) * 0.02))


def test_an_easiness_never_falls_below_its_floor() -> None:
    """1.3, as published."""
    past, stability_h = fresh(SM2), DAY_H
    for _ in range(20):
        stability_h = grade(SM2, past, stability_h, 0.6)
    assert past[sm2_model.EASINESS] == 1.3


def pasts(*rows: Past, hour: float) -> Pasts:
    return Pasts(hour, tuple(np.array(rows).T.copy()))


def test_activation_is_the_sum_over_uses() -> None:
    """B = ln Σ t^-½: uses 100, 25 and 4 hours ago give 0.1 + 0.2 + 0.5; odds are 9 at e^B = 24^-½."""
    past = fresh(ACTR)
    for hour in (0.0, 75.0, 96.0):
        lay(past, hour, 1.0)
    seen = pasts(past, hour=100.0)
    assert actr.strength(100.0, seen.columns)[0] == pytest.approx(0.8, rel=1e-12)
    odds = 9.0 * 0.8 * math.sqrt(24.0)
    recall = ACTR.retrievability(np.array([4.0]), np.array([24.0]), seen)
    assert recall[0] == pytest.approx(odds / (1.0 + odds), rel=1e-12)
    sharper = base_level((24.0, 0.5)).retrievability(np.array([4.0]), np.array([24.0]), seen)
    odds = 9.0 * (0.8 * math.sqrt(24.0)) ** 2
    assert sharper[0] == pytest.approx(odds / (1.0 + odds), rel=1e-12)


def test_a_block_used_once_has_nine_tenths_after_a_day() -> None:
    """The threshold is set so that learning means what it means under the other rules: S = 24 h."""
    past = fresh(ACTR)
    actr.touch(past, 10.0)
    recall = ACTR.retrievability(np.array([24.0]), np.array([24.0]), pasts(past, hour=34.0))
    assert recall[0] == pytest.approx(0.9, rel=1e-12)


@given(
    st.lists(st.tuples(st.floats(0.01, 200.0), st.floats(0.05, 1.0)), min_size=KEPT + 1, max_size=60),
    st.floats(1.0, 500.0),
)
def test_uses_beyond_those_kept_are_approximated_between_bounds(
    uses: list[tuple[float, float]], later_h: float
) -> None:
    """Petrov's hybrid: the kept uses are exact; the rest lies between all old ones at the first and at the
    oldest kept.
    """
    past, hour, laid = fresh(ACTR), 0.0, []
    for wait_h, weight in uses:
        hour += wait_h
        lay(past, hour, weight)
        laid.append((hour, weight))
    now = hour + later_h
    found = actr.strength(now, pasts(past, hour=now).columns)[0]
    recent = sum(weight / math.sqrt(now - at) for at, weight in laid[-KEPT:])
    rest = sum(weight for _, weight in laid[:-KEPT])
    low, high = rest / math.sqrt(now - laid[0][0]), rest / math.sqrt(now - laid[-KEPT][0])
    assert (recent + low) * (1 - 1e-9) <= found <= (recent + high) * (1 + 1e-9)


def test_the_approximation_is_near_the_exact_sum_for_steady_use() -> None:
    """A thousand uses, one an hour: within 2 % of the whole sum, from 12 numbers."""
    past = fresh(ACTR)
    for hour in range(1000):
        lay(past, float(hour), 1.0)
    exact = sum(1.0 / math.sqrt(1010.0 - hour) for hour in range(1000))
    assert actr.strength(1010.0, pasts(past, hour=1010.0).columns)[0] == pytest.approx(exact, rel=0.02)


def test_a_failure_lays_no_trace_and_half_a_success_half_of_one() -> None:
    """What failed was not retrieved; S and D are no part of this model."""
    past = fresh(ACTR)
    actr.touch(past, 0.0)
    assert ACTR.step(24.0, 5.0, 0.0, 1.0, 9.0, 9.0, past) == (24.0, 5.0)
    assert actr.strength(25.0, pasts(past, hour=25.0).columns)[0] == pytest.approx(0.2)
    ACTR.step(24.0, 5.0, 0.5, 1.0, 12.0, 21.0, past)
    assert actr.strength(25.0, pasts(past, hour=25.0).columns)[0] == pytest.approx(0.2 + 0.5 / 2)


def test_what_peers_saw_later_counts_as_one_more_use_and_unknown_blocks_as_used_once() -> None:
    """A fresher stamp than the last own event adds a trace; without own events R(S) = 0.9 holds."""
    used, unused = fresh(ACTR), fresh(ACTR)
    actr.touch(used, 0.0)
    both = pasts(used, unused, used, hour=100.0)
    recall = ACTR.retrievability(np.array([25.0, 500.0, 100.0]), np.array([24.0, 500.0, 24.0]), both)
    odds = 9.0 * (0.1 + 0.2) * math.sqrt(24.0)
    assert recall == pytest.approx([odds / (1 + odds), 0.9, 1 / (1 + math.sqrt(100 / 24) / 9)], rel=1e-12)


def test_an_outcome_on_a_block_known_only_from_peers_starts_from_its_stability() -> None:
    """The first own event finds the activation that recall had read from S: no jump at a tiny weight."""
    past = fresh(ACTR)
    before = ACTR.retrievability(np.array([30.0]), np.array([600.0]))[0]
    ACTR.step(600.0, 5.0, 1.0, 1e-9, 30.0, 1000.0, past)
    after = ACTR.retrievability(np.array([30.0]), np.array([600.0]), pasts(past, hour=1000.0 + 1e-3))[0]
    assert after == pytest.approx(before, rel=1e-4)


def tell(model: Utility, *outcomes: tuple[float, float]) -> tuple[float, float]:
    """α and β that (signal, mass) in order come to."""
    memo = [start for _, start in model.memory]
    for signal, mass in outcomes:
        model.learn(memo, round(signal * mass * ONE), round((1.0 - signal) * mass * ONE))
    alpha_fx, beta_fx = model.read(memo)
    return alpha_fx / ONE, beta_fx / ONE


def test_decayed_evidence_is_an_exponentially_weighted_count() -> None:
    """λ = ½: good, good, bad is α = (1·½ + 1)·½, β = 1; an outcome of mass 2 fades by λ²."""
    half = beta_decay(0.5)
    assert tell(half, (1.0, 1.0), (1.0, 1.0), (0.0, 1.0)) == (0.75, 1.0)
    assert tell(half, (1.0, 1.0), (0.0, 2.0)) == (0.25, 2.0)
    assert sum(tell(beta_decay(0.9), *[(1.0, 1.0)] * 500)) == pytest.approx(10.0, abs=1e-3)


def test_a_memory_that_turned_bad_is_seen_through_by_decay_and_not_by_plain_sums() -> None:
    """300 good outcomes, then 300 bad: the mean is near 0, plain sums say one half."""
    alpha, beta = tell(beta_decay(0.99), *[(1.0, 1.0)] * 300, *[(0.0, 1.0)] * 300)
    assert alpha / (alpha + beta) < 0.05


def test_knowledge_tracing_is_the_papers() -> None:
    """P(L) by Bayes and P(T), as Corbett & Anderson write it; read as the chance of the next success."""
    by = Knowledge(initial=0.3, transit=0.2, slip=0.1, guess=0.25)
    known, expected = by.initial, []
    for good in (True, False, True, True):
        if good:
            known = known * 0.9 / (known * 0.9 + (1 - known) * 0.25)
        else:
            known = known * 0.1 / (known * 0.1 + (1 - known) * 0.75)
        known += (1 - known) * by.transit
        expected.append(known * 0.9 + (1 - known) * 0.25)
    outcomes = [(1.0, 1.0), (0.0, 1.0), (1.0, 1.0), (1.0, 1.0)]
    for count, chance in enumerate(expected, 1):
        alpha, beta = tell(knowledge_tracing(by), *outcomes[:count])
        assert alpha + beta == count
        assert alpha / (alpha + beta) == pytest.approx(chance, abs=1e-5)


@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1e6)), max_size=20))
def test_utility_models_give_evidence_that_can_be_counted(outcomes: list[tuple[float, float]]) -> None:
    """α and β are never negative and never more than was seen, whatever comes."""
    mass = sum(amount for _, amount in outcomes)
    for model in (beta_decay(), knowledge_tracing(Knowledge())):
        alpha, beta = tell(model, *outcomes)
        assert alpha >= 0.0
        assert beta >= 0.0
        assert alpha + beta <= mass + (len(outcomes) + 1) / ONE


def test_names_join_a_forgetting_model_and_a_utility_model() -> None:
    """What is not named is the default; a parameter follows a colon."""
    assert get_rules("fsrs6") is FSRS6
    assert get_rules("fsrs6+beta") is FSRS6
    assert get_rules("bkt").step is FSRS5.step
    both = get_rules("hlr+beta-decay:0.95")
    assert (both.name, both.step) == ("hlr+beta-decay:0.95", HLR.step)
    assert get_rules("beta-decay").name == "fsrs5+beta-decay:0.99"
    for wrong in ("fsrs5+sm2", "bkt+beta", "beta-decay:2", "beta-decay:x", "bkt:0.5", "", "+", "fsrs5:1"):
        with pytest.raises(UsageError, match="no rules named") as refused:
            get_rules(wrong)
        assert "beta-decay" in refused.value.hint


def test_other_weights_give_another_name_and_other_steps() -> None:
    """The name tells the weights apart, so that no checkpoint of other weights is taken up."""
    weights = tuple(weight * 1.5 if index == 8 else weight for index, weight in enumerate(FSRS5.weights))
    other = with_weights(get_rules("fsrs5+bkt"), weights)
    assert other.name.startswith("fsrs5+bkt@")
    assert other.utility.name == "bkt"
    assert other.step(240.0, 5.0, 1.0, 1.0, 240.0)[0] > FSRS5.step(240.0, 5.0, 1.0, 1.0, 240.0)[0]
    assert with_weights(FSRS5, weights).name != with_weights(FSRS5, FSRS5.weights).name
    with pytest.raises(ValueError, match="19 weights"):
        with_weights(FSRS5, (1.0,))


@pytest.mark.parametrize("rules", [FSRS5, FSRS6, HLR, SM2, ACTR], ids=lambda rules: str(rules.name))
def test_every_free_weight_has_an_effect_and_lies_within_its_bounds(rules: RuleSet) -> None:
    """What a fit may move is what this memory uses."""
    assert rules.reweighted is not None
    assert hlr.BOUNDS[0] > 0.0
    outcomes = [(0.0, 1e6), (1.0, 30.0), (1.0, 900.0), (0.0, 90.0), *[(1.0, 200.0)] * 3]

    def predicted(rules: RuleSet) -> list[float]:
        stability_h, difficulty, hour, past, found = DAY_H, 5.0, 0.0, fresh(rules), []
        if rules.touch is not None:
            rules.touch(past, hour)
        for signal, wait_h in outcomes:
            hour += wait_h
            seen = pasts(past, hour=hour) if past else None
            found.append(rules.retrievability(np.array([wait_h]), np.array([stability_h]), seen)[0])
            stability_h, difficulty = rules.step(stability_h, difficulty, signal, 1.0, wait_h, hour, past)
        return [*found, stability_h, difficulty]

    for free in rules.free:
        assert 0.0 < free.low < rules.weights[free.index] < free.high
        moved = list(rules.weights)
        moved[free.index] *= 1.2
        assert predicted(rules.reweighted(tuple(moved))) != predicted(rules)
