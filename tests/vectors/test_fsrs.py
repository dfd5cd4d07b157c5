"""FSRS-5 and FSRS-6 against vectors computed with the reference package (py-fsrs 5.1.3 and 6.3.2)."""

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from loremesh.node import fsrs
from loremesh.node.rules import FSRS5, FSRS6, HOURS_PER_DAY, RuleSet

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "fsrs"
AGAIN, GOOD = 1, 3
RELATIVE = 1e-9


class Step(msgspec.Struct):
    """One review: state after it, days since the one before."""

    rating: int
    days_since_previous: int
    same_day: bool
    r_at_review: float | None
    stability: float
    difficulty: float
    r_after_days: dict[str, float]


class Sequence(msgspec.Struct):
    steps: list[Step]


class Vectors(msgspec.Struct):
    parameters: list[float]
    sequences: list[Sequence]


class Case(msgspec.Struct, frozen=True):
    """A rule set, the weights it should have, and the vectors it should give."""

    rules: RuleSet
    weights: fsrs.Weights
    vectors: Vectors


@pytest.fixture(
    scope="module",
    params=[("fsrs5_vectors.json", FSRS5, fsrs.FSRS5), ("fsrs6_vectors.json", FSRS6, fsrs.FSRS6)],
    ids=["fsrs5", "fsrs6"],
)
def case(request: pytest.FixtureRequest) -> Case:
    name, rules, weights = request.param
    path = DATA / name
    if not path.is_file():
        pytest.skip(f"the reference vectors are not here: {'/'.join(path.parts[-3:])}")
    return Case(rules, weights, msgspec.convert(json.loads(path.read_bytes()), Vectors))


def reviews(vectors: Vectors) -> Iterator[tuple[Step, Step]]:
    """Every review with the one before it: what was held then is the state it started from."""
    for sequence in vectors.sequences:
        yield from zip(sequence.steps, sequence.steps[1:], strict=False)


def test_the_weights_are_the_published_ones(case: Case) -> None:
    """The weights in the product are those the vectors were made with."""
    assert list(case.weights) == list(case.rules.weights) == case.vectors.parameters


@pytest.mark.parametrize(("rating", "signal"), [(GOOD, 1.0), (AGAIN, 0.0)], ids=["good", "again"])
def test_stability_after_a_full_outcome_is_that_of_the_reference(
    case: Case, rating: int, signal: float
) -> None:
    """A whole success is Good, a whole failure is Again, from the state before; same-day steps aside."""
    used = skipped = 0
    for before, after in reviews(case.vectors):
        if after.rating != rating or after.same_day:
            skipped += 1
            continue
        stability_h, _ = case.rules.step(
            before.stability * HOURS_PER_DAY,
            before.difficulty,
            signal,
            1.0,
            after.days_since_previous * HOURS_PER_DAY,
        )
        assert stability_h / HOURS_PER_DAY == pytest.approx(after.stability, rel=RELATIVE, abs=0.0)
        used += 1
    print(f"rating {rating}: {used} reviews used, {skipped} skipped (other ratings, same day)")
    assert used > 0


def test_retrievability_is_that_of_the_reference(case: Case) -> None:
    """R at every review and after every interval the vectors give."""
    elapsed, stability, expected = [], [], []
    skipped = 0
    for before, after in reviews(case.vectors):
        if after.same_day or after.r_at_review is None:
            skipped += 1
            continue
        elapsed.append(float(after.days_since_previous))
        stability.append(before.stability)
        expected.append(after.r_at_review)
    at_reviews = len(expected)
    for sequence in case.vectors.sequences:
        for step in sequence.steps:
            for days, recall in step.r_after_days.items():
                elapsed.append(float(days))
                stability.append(step.stability)
                expected.append(recall)
    print(f"R: {at_reviews} at reviews, {len(expected) - at_reviews} after them, {skipped} same-day skipped")
    assert at_reviews > 0
    assert len(expected) > at_reviews
    hours = np.array(elapsed) * HOURS_PER_DAY, np.array(stability) * HOURS_PER_DAY
    np.testing.assert_allclose(case.rules.retrievability(*hours), expected, rtol=RELATIVE, atol=0.0)
