"""Attribution against the plain regression it stands for, and the roles it is to tell apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from loremesh.node import attribution
from loremesh.node.attribution import SPREAD, Attribution, Episodes, Role, Source, attribute
from loremesh.node.worth import Z

Presence = NDArray[np.float64]


def episodes(presence: Presence, signal: Presence, context: NDArray[np.int64]) -> Episodes:
    """Episodes out of a matrix of who was present, [e, b]."""
    rows = [np.flatnonzero(line) for line in presence]
    start = np.concatenate([[0], np.cumsum([len(some) for some in rows])])
    return Episodes(signal, np.ones(len(signal)), context, start, np.concatenate(rows).astype(np.int64))


def drawn(seed: int, count: int = 120, blocks: int = 6, contexts: int = 3) -> Episodes:
    random = np.random.default_rng(seed)
    presence = (random.random((count, blocks)) < 0.5).astype(np.float64)
    presence[:, 0] = 1.0 - presence[:, 1:].max(axis=1)  # no episode without a block
    context = random.integers(0, contexts, count)
    signal = np.clip(0.2 + 0.1 * context + presence @ np.linspace(-0.1, 0.2, blocks), 0.0, 1.0)
    return episodes(presence, (random.random(count) < signal).astype(np.float64), context)


def matrix(of: Episodes) -> Presence:
    presence = np.zeros((len(of.signal), int(of.rows.max()) + 1))
    presence[np.repeat(np.arange(len(of.signal)), np.diff(of.start)), of.rows] = 1.0
    return presence


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10_000))
def test_effects_are_those_of_the_ridge_regression_written_out(seed: int) -> None:
    """A slow oracle: centre within contexts, solve (X'X + λI)w = X'y, tell against the middle half."""
    given_ = drawn(seed)
    found = attribute(given_)
    presence, signal = matrix(given_)[:, found.row], given_.signal.copy()
    centred = presence.copy()
    for context in np.unique(given_.context):
        here = given_.context == context
        centred[here] -= centred[here].mean(axis=0)
        signal[here] -= signal[here].mean()
    gram = centred.T @ centred + found.noise**2 / SPREAD**2 * np.eye(len(found.row))
    effect = np.linalg.solve(gram, centred.T @ signal).astype(np.float64)
    against = np.eye(len(effect)) - middle_half(effect, (centred**2).sum(axis=0).astype(np.float64))[None]
    error = np.sqrt(np.diag(against @ (found.noise**2 * np.linalg.inv(gram)) @ against.T))
    assert found.effect.value == pytest.approx(against @ effect, abs=1e-9)
    assert found.effect.high - found.effect.value == pytest.approx(Z * error, abs=1e-9)
    left = float(((signal - centred @ effect) ** 2).sum())
    fitted = float(np.trace(np.linalg.solve(gram, centred.T @ centred)))
    contexts = len(np.unique(given_.context))
    assert found.noise**2 == pytest.approx((left + 0.25) / (len(signal) - contexts + 1 - fitted), rel=1e-5)


def middle_half(effect: Presence, varied: Presence) -> Presence:
    """Weights of the blocks by ascending effect, for the second and third quarter of what varied."""
    weights, at_most = np.zeros(len(effect)), 0.0
    for at in sorted(range(len(effect)), key=lambda at: (effect[at], at)):
        at_least, at_most = at_most, at_most + varied[at] / varied.sum()
        weights[at] = 2.0 * max(min(at_most, 0.75) - max(at_least, 0.25), 0.0)
    return weights


def test_pairs_are_counted_alike_in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound on pairs at a time changes nothing but memory."""
    whole = attribute(drawn(3))
    monkeypatch.setattr(attribution, "MAX_PAIRS", 40)
    assert attribute(drawn(3)).effect.value == pytest.approx(whole.effect.value, abs=1e-12)


def test_association_is_the_difference_of_the_shares_with_and_without() -> None:
    given_ = drawn(5)
    found, presence = attribute(given_), matrix(given_)
    for at, row in enumerate(found.row.tolist()):
        with_ = presence[:, row] > 0.0
        difference = given_.signal[with_].mean() - given_.signal[~with_].mean()
        assert found.association.value[at] == pytest.approx(difference)
        assert found.association.low[at] < difference < found.association.high[at]


def test_a_weight_counts_like_so_many_episodes() -> None:
    given_ = drawn(8, count=60)
    lengths = np.diff(given_.start)
    doubled = Episodes(
        np.concatenate([given_.signal, given_.signal[:20]]),
        np.ones(80),
        np.concatenate([given_.context, given_.context[:20]]),
        np.concatenate([[0], np.cumsum(np.concatenate([lengths, lengths[:20]]))]),
        np.concatenate([given_.rows, given_.rows[: given_.start[20]]]),
    )
    weight = np.where(np.arange(60) < 20, 2.0, 1.0)
    heavy = Episodes(given_.signal, weight, given_.context, given_.start, given_.rows)
    one, other = attribute(heavy), attribute(doubled)
    assert one.association.value == pytest.approx(other.association.value)
    assert one.in_context.value == pytest.approx(other.in_context.value)


def world(
    rates: dict[frozenset[int], float], each: int, context: int = 0
) -> list[tuple[frozenset[int], float, int]]:
    """Episodes of these blocks with that share of good ones, exactly."""
    return [
        (blocks, float(number < round(rate * each)), context)
        for blocks, rate in rates.items()
        for number in range(each)
    ]


def told(
    *parts: list[tuple[frozenset[int], float, int]],
) -> tuple[Attribution, dict[int, Role], dict[int, Source]]:
    """What attribution says of these episodes, roles and sources by block."""
    all_ = [one for part in parts for one in part]
    presence = np.zeros((len(all_), 1 + max(max(blocks) for blocks, _, _ in all_)))
    for at, (blocks, _, _) in enumerate(all_):
        presence[at, sorted(blocks)] = 1.0
    signal = np.array([signal for _, signal, _ in all_])
    found = attribute(episodes(presence, signal, np.array([context for _, _, context in all_], np.int64)))
    roles = {row: found.role(at) for at, row in enumerate(found.row.tolist())}
    return found, {row: role for row, (role, _) in roles.items()}, {row: of for row, (_, of) in roles.items()}


def test_a_hitchhiker_is_told_from_its_anchor() -> None:
    """0 helps; 1 mostly comes with it, is as associated with success, and changes nothing."""
    found, roles, sources = told(
        world({frozenset({0, 1, 2}): 0.9}, 400),
        world({frozenset({0, 2, 3}): 0.9, frozenset({1, 2, 3}): 0.4, frozenset({2, 3, 4}): 0.4}, 80),
    )
    assert found.association.low[1] > 0.0
    assert (roles[0], roles[1], sources[1]) == (Role.ANCHOR, Role.HITCHHIKER, Source.COMPANY)


def test_an_easy_rider_is_told_from_a_specialist() -> None:
    """0 helps on hard tasks, where it is used; 1 is used on easy ones and changes nothing there."""
    found, roles, sources = told(
        world({frozenset({0, 2}): 0.5, frozenset({0, 3}): 0.5, frozenset({2, 3}): 0.2}, 150, context=1),
        world({frozenset({1, 2}): 0.8, frozenset({1, 3}): 0.8, frozenset({2, 3}): 0.8}, 150),
    )
    assert found.association.value[0] < 0.0 < found.association.low[1]
    assert (roles[0], roles[1], sources[1]) == (Role.SPECIALIST, Role.EASY_RIDER, Source.CONTEXT)


def test_one_that_is_only_used_where_it_is_hard_is_no_burden() -> None:
    """Association with failure without cause, explained by the context; a real burden is called one."""
    _, roles, sources = told(
        world({frozenset({0, 2}): 0.2, frozenset({0, 3}): 0.2, frozenset({2, 3}): 0.2}, 150, context=1),
        world({frozenset({1, 2}): 0.4, frozenset({1, 3}): 0.4, frozenset({2, 3}): 0.8}, 150),
    )
    assert (roles[0], sources[0]) == (Role.BYSTANDER, Source.CONTEXT)
    assert roles[1] is Role.BURDEN


def test_blocks_never_apart_are_not_told_apart() -> None:
    """The same episodes, the same effect, and no verdict about either."""
    found, roles, _ = told(
        world({frozenset({0, 1}): 0.9, frozenset({2, 3}): 0.5, frozenset({2, 4}): 0.5}, 12)
    )
    assert found.effect.value[0] == pytest.approx(found.effect.value[1])
    assert (roles[0], roles[1]) == (Role.UNCLEAR, Role.UNCLEAR)


def test_a_handful_of_episodes_makes_no_claim() -> None:
    """Five of eight went well with one block, three of eight with another: too little to say."""
    _, roles, _ = told(world({frozenset({0, 2}): 0.625, frozenset({1, 2}): 0.375}, 8))
    assert set(roles.values()) == {Role.UNCLEAR}


@pytest.mark.parametrize("signal", [0.0, 1.0])
def test_outcomes_that_never_vary_and_none_at_all_are_taken(signal: float) -> None:
    found, roles, _ = told(world({frozenset({0, 1}): signal, frozenset({1, 2}): signal}, 5))
    assert np.isfinite(found.effect.value).all()
    assert set(roles.values()) == {Role.UNCLEAR}
    nothing = np.zeros(0)
    empty = Episodes(
        nothing, nothing, nothing.astype(np.int64), np.zeros(1, np.int64), nothing.astype(np.int64)
    )
    assert len(attribute(empty).row) == 0


def test_only_so_many_blocks_have_effects_those_seen_most() -> None:
    given_ = drawn(2, count=200, blocks=8)
    found = attribute(given_, most=3)
    counts = np.bincount(given_.rows)
    assert found.left_out == (counts > 0).sum() - 3
    assert set(counts[found.row]) == set(sorted(counts)[-3:])
