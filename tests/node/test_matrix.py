"""Vectors by row: what a cosine is, and that it depends on nothing but the two vectors."""

import numpy as np
import pytest
from numpy.typing import NDArray

from loremesh.node.matrix import VectorMatrix


def unit(count: int, dimension: int, seed: int = 0) -> NDArray[np.float32]:
    vectors = np.random.default_rng(seed).standard_normal((count, dimension), dtype=np.float32)
    lengths: NDArray[np.float32] = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / lengths


def filled(count: int, dimension: int = 16, chunk_bytes: int = 64 * 64) -> VectorMatrix:
    """Small chunks (64 rows), so that a few rows need several of them."""
    matrix = VectorMatrix(dimension, chunk_bytes)
    matrix.set(range(count), unit(count, dimension))
    return matrix


def test_cosine_is_the_dot_product_with_every_row() -> None:
    vectors, query = unit(300, 16), unit(1, 16, seed=1)[0]
    matrix = filled(300)
    assert matrix.cosine(query, 300) == pytest.approx(vectors.astype(np.float64) @ query, abs=1e-6)


def test_rows_without_a_vector_have_cosine_zero() -> None:
    matrix = VectorMatrix(16)
    matrix.set([2], unit(1, 16))
    assert matrix.cosine(unit(1, 16)[0], 5).tolist() == pytest.approx([0.0, 0.0, 1.0, 0.0, 0.0], abs=1e-6)


def test_asking_for_more_rows_than_there_are_gives_zeros() -> None:
    assert filled(10).cosine(unit(1, 16)[0], 500)[10:].tolist() == [0.0] * 490


def test_a_cosine_does_not_depend_on_how_many_rows_there_are() -> None:
    matrix, query = filled(300, 384, chunk_bytes=1 << 30), unit(1, 384, seed=1)[0]
    all_rows = matrix.cosine(query, 300)
    for size in (1, 2, 3, 63, 64, 65, 130, 299):
        assert matrix.cosine(query, size).tolist() == all_rows[:size].tolist()


def test_a_vector_set_again_is_replaced() -> None:
    matrix = filled(3)
    other = unit(1, 16, seed=5)
    matrix.set([1], other)
    kept = matrix.vector(1)
    assert kept is not None
    assert kept.tolist() == other[0].tolist()
    assert len(matrix) == 3


def test_a_dropped_vector_is_overwritten_and_counts_as_none() -> None:
    matrix = filled(100)
    matrix.drop(70)
    matrix.drop(70)
    matrix.drop(5_000)
    assert not matrix.has(70)
    assert matrix.vector(70) is None
    assert matrix.cosine(unit(100, 16)[70], 100)[70] == 0.0
    assert len(matrix) == 99


def test_held_tells_the_rows_with_a_vector() -> None:
    matrix = VectorMatrix(16, 64 * 64)
    matrix.set([0, 70, 130], unit(3, 16))
    assert np.flatnonzero(matrix.held(200)).tolist() == [0, 70, 130]
    assert np.flatnonzero(matrix.held(71)).tolist() == [0, 70]
    assert [row for row in range(-1, 200) if matrix.has(row)] == [0, 70, 130]


@pytest.mark.parametrize("factor", [0.0, 0.9, 1.1, np.nan, np.inf])
def test_what_is_no_unit_vector_is_refused_and_nothing_changes(factor: float) -> None:
    matrix = VectorMatrix(16)
    vectors = unit(3, 16)
    vectors[1] = factor
    with pytest.raises(ValueError, match="row 8 has length"):
        matrix.set([7, 8, 9], vectors)
    assert len(matrix) == 0


def test_other_dimensions_are_refused() -> None:
    matrix = VectorMatrix(16)
    with pytest.raises(ValueError, match="shape"):
        matrix.set([0], unit(1, 17))
    with pytest.raises(ValueError, match="shape"):
        matrix.cosine(unit(1, 17)[0], 1)
    with pytest.raises(ValueError, match="dimension"):
        VectorMatrix(0)


def test_a_negative_row_is_refused() -> None:
    with pytest.raises(ValueError, match="-3"):
        VectorMatrix(16).set([-3], unit(1, 16))
