"""FSRS-5 against vectors computed with the reference package (py-fsrs 5.1.3)."""

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from loremesh.node import fsrs
from loremesh.node.rules import FSRS5, HOURS_PER_DAY

VECTORS = Path(__file__).resolve().parents[3] / "shared" / "data" / "fsrs" / "fsrs5_vectors.json"
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


@pytest.fixture(scope="module")
def vectors() -> Vectors:
    if not VECTORS.is_file():
        pytest.skip(f"the reference vectors are not here: {'/'.join(VECTORS.parts[-3:])}")
    return msgspec.convert(json.loads(VECTORS.read_bytes()), Vectors)


def reviews(vectors: Vectors) -> Iterator[tuple[Step, Step]]:
    """Every review with the one before it: what was held then is the state it started from."""
    for sequence in vectors.sequences:
        yield from zip(sequence.steps, sequence.steps[1:], strict=False)


def test_the_weights_are_the_published_ones(vectors: Vectors) -> None:
    """The weights in the product are those the vectors were made with."""
    assert list(fsrs.FSRS5) == vectors.parameters


@pytest.mark.parametrize(("rating", "signal"), [(GOOD, 1.0), (AGAIN, 0.0)], ids=["good", "again"])
def test_stability_after_a_full_outcome_is_that_of_the_reference(
    vectors: Vectors, rating: int, signal: float
) -> None:
    """A whole success is Good, a whole failure is Again, from the state before; same-day steps aside."""
    used = skipped = 0
    for before, after in reviews(vectors):
        if after.rating != rating or after.same_day:
            skipped += 1
            continue
        stability_h, _ = FSRS5.step(
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


def test_retrievability_is_that_of_the_reference(vectors: Vectors) -> None:
    """R at every review and after every interval the vectors give."""
    elapsed, stability, expected = [], [], []
    skipped = 0
    for before, after in reviews(vectors):
        if after.same_day or after.r_at_review is None:
            skipped += 1
            continue
        elapsed.append(float(after.days_since_previous))
        stability.append(before.stability)
        expected.append(after.r_at_review)
    at_reviews = len(expected)
    for sequence in vectors.sequences:
        for step in sequence.steps:
            for days, recall in step.r_after_days.items():
                elapsed.append(float(days))
                stability.append(step.stability)
                expected.append(recall)
    print(f"R: {at_reviews} at reviews, {len(expected) - at_reviews} after them, {skipped} same-day skipped")
    assert at_reviews > 0
    assert len(expected) > at_reviews
    hours = np.array(elapsed) * HOURS_PER_DAY, np.array(stability) * HOURS_PER_DAY
    np.testing.assert_allclose(FSRS5.retrievability(*hours), expected, rtol=RELATIVE, atol=0.0)
