"""BM25 over postings is that of a slow oracle, and what was removed counts in nothing."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loremesh.node.postings import K1, B, Postings

words = st.sampled_from("abcdefgh")
texts = st.lists(st.lists(words, min_size=1, max_size=12), min_size=1, max_size=25)
queries = st.lists(words, min_size=1, max_size=4, unique=True)


def oracle(held: dict[int, list[str]], query: list[str]) -> dict[int, float]:
    """Robertson's BM25 in plain numbers."""
    mean = sum(map(len, held.values())) / max(len(held), 1)
    scores: dict[int, float] = {}
    for row, text in held.items():
        score = 0.0
        for term in query:
            having = sum(term in other for other in held.values())
            f = text.count(term)
            idf = math.log(1.0 + (len(held) - having + 0.5) / (having + 0.5))
            score += idf * f * (K1 + 1.0) / (f + K1 * (1.0 - B + B * len(text) / mean))
        if score > 0.0:
            scores[row] = score
    return scores


def found(postings: Postings, query: list[str]) -> dict[int, float]:
    rows, scores = postings.bm25(query)
    return dict(zip(rows.tolist(), scores.tolist(), strict=True))


def of(held: dict[int, list[str]]) -> Postings:
    postings = Postings()
    for row, text in held.items():
        postings.add(row, text)
    return postings


@given(texts, queries)
def test_scores_are_those_of_the_formula(given_texts: list[list[str]], query: list[str]) -> None:
    held = dict(enumerate(given_texts))
    assert found(of(held), query) == pytest.approx(oracle(held, query), rel=1e-5)


@given(texts, st.sets(st.integers(0, 24)), st.lists(st.lists(words, min_size=1), max_size=3), queries)
def test_removed_rows_leave_no_trace_and_can_come_back_otherwise(
    given_texts: list[list[str]], gone: set[int], back: list[list[str]], query: list[str]
) -> None:
    held = dict(enumerate(given_texts))
    postings = of(held)
    for row in gone:
        postings.remove(row)
        held.pop(row, None)
    assert found(postings, query) == found(of(held), query)
    for row, text in zip(sorted(gone), back, strict=False):
        postings.add(row, text)
        held[row] = text
    assert found(postings, query) == found(of(held), query)
    assert len(postings) == len(held)
    assert [postings.has(row) for row in range(25)] == [row in held for row in range(25)]


def test_the_postings_of_many_removed_rows_are_given_up() -> None:
    postings = of({row: [f"word{row}"] for row in range(1_000)})
    for row in range(500):
        postings.remove(row)
    assert found(postings, ["word7"]) == {}
    assert set(postings._of) == {f"word{row}" for row in range(500, 1_000)}


def test_a_term_repeated_without_end_counts_as_often_as_it_is_there() -> None:
    held = {0: ["a"] * 1_000, 1: ["b"], 2: ["a", "b"]}
    assert found(of(held), ["a"]) == pytest.approx(oracle(held, ["a"]), rel=1e-5)


def test_coverage_is_the_part_of_a_rows_terms_that_is_named() -> None:
    postings = of({0: ["ada", "lovelace"], 1: ["ada"], 2: ["grace"], 3: ["ada", "ada"]})
    rows, share = postings.coverage(["ada", "nobody"])
    assert dict(zip(rows.tolist(), share.tolist(), strict=True)) == {0: 0.5, 1: 1.0, 3: 1.0}
    postings.remove(1)
    assert postings.coverage(["ada"])[0].tolist() == [0, 3]


def test_rows_may_lie_far_apart() -> None:
    postings = of({70_000: ["a"], 3: ["a", "b"]})
    assert sorted(found(postings, ["a"])) == [3, 70_000]
