"""The most similar blocks against comparing each with each."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from loremesh.node import nearest as nearest_module
from loremesh.node.matrix import VectorMatrix
from loremesh.node.nearest import nearest

DIMENSION = 4


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    found: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return found


@settings(max_examples=80, deadline=None)
@given(
    st.integers(1, 40),
    st.integers(0, 10_000),
    st.integers(1, 6),
    st.sampled_from([0.01, 0.3, 0.9]),
    st.sampled_from([3, 7, 8_192]),
    st.sampled_from([1, 64]),
)
def test_nearest_are_those_that_comparing_each_with_each_finds(
    size: int, seed: int, count: int, floor: float, slab: int, chunk_bytes: int
) -> None:
    """Whatever the slabs and pieces are; blocks that may not be linked, and the block itself, are not among
    them."""
    random = np.random.default_rng(seed)
    vectors = unit(random.standard_normal((size, DIMENSION)).astype(np.float32))
    eligible = random.random(size) < 0.7
    matrix = VectorMatrix(DIMENSION, chunk_bytes)
    matrix.set(range(size), vectors)
    rows = np.flatnonzero(random.random(size) < 0.5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nearest_module, "SLAB_ROWS", slab)
        found = nearest(vectors[rows], rows, matrix.pieces(size), eligible, count, floor)
    for row, near in zip(rows.tolist(), found, strict=True):
        cosines = {
            other: float(vectors[row] @ vectors[other])
            for other in range(size)
            if eligible[other] and other != row
        }
        best = sorted((other for other in cosines if cosines[other] >= floor), key=lambda o: -cosines[o])
        assert [other for other, _ in near] == best[:count]
        assert [cosine for _, cosine in near] == pytest.approx([cosines[o] for o in best[:count]], abs=1e-6)


def test_a_home_of_one_text_in_many_wordings_is_no_harder() -> None:
    """All cosines equal: each still has as many as it asked for, lower rows first where they are few."""
    vectors = np.tile(np.eye(1, DIMENSION, dtype=np.float32), (100, 1))
    rows = np.arange(50, 54)
    everyone = np.ones(100, np.bool_)
    found = nearest(vectors[rows], rows, [vectors], everyone, 3, 0.5)
    assert [len(near) for near in found] == [3] * 4
    assert all(row not in [other for other, _ in near] for row, near in zip(rows, found, strict=True))
    few = nearest(vectors[:1], np.array([0]), [vectors[:8]], everyone[:8], 3, 0.5)
    assert [other for other, _ in few[0]] == [1, 2, 3]


def test_pieces_are_all_vectors_by_row() -> None:
    """Also when the newest rows have none yet."""
    matrix = VectorMatrix(DIMENSION, 1)
    matrix.set([0, 70], np.eye(2, DIMENSION, dtype=np.float32))
    pieces = np.concatenate(matrix.pieces(200))
    assert pieces.shape == (128, DIMENSION)
    assert np.flatnonzero(pieces.any(axis=1)).tolist() == [0, 70]
    assert len(np.concatenate(matrix.pieces(71))) == 71
