"""The arithmetic behind the figures, and what must hold of them."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loremesh.node.demo.checks import checks
from loremesh.node.demo.figures import interval, moved, stretches
from loremesh.node.demo.results import Crash, Hostile, Influence, Twin
from loremesh.node.results import Explanation, SourceClaim
from tests.node.demo.samples import CRASH, HOSTILE, INFLUENCE, TWINS, twin


@given(st.integers(0, 400), st.integers(0, 400))
def test_an_interval_holds_the_share_and_stays_within_bounds(right: int, wrong: int) -> None:
    low, high = interval(right, right + wrong)

    assert 0.0 <= low <= high <= 1.0
    if right + wrong:
        assert low <= right / (right + wrong) <= high


def test_the_interval_is_wilsons() -> None:
    assert interval(15, 50) == pytest.approx((0.1910, 0.4375), abs=1e-4)
    assert interval(0, 0) == (0.0, 1.0)


def test_work_is_cut_into_stretches_over_all_agents() -> None:
    found = stretches("shared", 10, [[True, False, True], [True, True, False]], 2)

    assert [(one.first, one.last, one.tasks) for one in found] == [(11, 12, 4), (13, 13, 2)]
    assert [one.share for one in found] == [0.75, 0.5]


def explanation(*sources: SourceClaim) -> Explanation:
    alpha, beta = sum(one.counted_alpha for one in sources), sum(one.counted_beta for one in sources)
    return Explanation(
        "00" * 32, "text", "active", True, [], [], alpha, beta, alpha / (alpha + beta), 24.0, 5.0, 0.5, 1.0,
        0.0, 0.0, list(sources), {},
    )  # fmt: skip


def claim(source: str, alpha: float, beta: float, trust: float = 1.0) -> SourceClaim:
    return SourceClaim(source, "", trust, alpha, beta, 24.0, alpha, beta)


def test_influence_is_the_difference_to_the_mean_without_the_peer() -> None:
    found = moved(explanation(claim("self", 3.0, 1.0), claim("bad", 0.0, 16.0, 0.5)), "bad", 32.0)

    assert found is not None
    assert found.mass == 4.0
    assert found.moved == pytest.approx(0.75 - 3 / 20)
    assert found.bound == pytest.approx(16 / 20)
    assert found.moved <= found.bound


def test_a_peer_that_counts_for_nothing_moves_nothing() -> None:
    assert moved(explanation(claim("self", 3.0, 1.0)), "bad", 32.0) is None


def test_all_checks_hold_when_nothing_is_wrong() -> None:
    assert all(check.holds for check in checks(TWINS, CRASH, INFLUENCE, HOSTILE))


@pytest.mark.parametrize(
    ("changed", "failing"),
    [
        (msgspec.structs.replace(INFLUENCE, over=1), "bound"),
        (msgspec.structs.replace(INFLUENCE, blocks=[]), "bound"),
        (msgspec.structs.replace(HOSTILE, unsigned={"ada": {"forged": 0}, "ben": {}, "cyd": {}}), "refused"),
        (msgspec.structs.replace(HOSTILE, outcomes={"ada": {"applied": 9}}), "refused"),
        (msgspec.structs.replace(twin("ada"), numbers_different=1), "ada equals"),
        (msgspec.structs.replace(twin("ada"), registers_different=1), "ada equals"),
        (msgspec.structs.replace(twin("ada"), answers_different=1), "ada equals"),
        (msgspec.structs.replace(twin("ada"), log_faults=1), "ada equals"),
        (msgspec.structs.replace(twin("ada"), numbers_while_trusted=0), "ada equals"),
        (msgspec.structs.replace(twin("ada"), answers=0), "ada equals"),
        (msgspec.structs.replace(CRASH, lost=1), "lost nothing"),
        (msgspec.structs.replace(CRASH, acknowledged=0), "lost nothing"),
        (msgspec.structs.replace(CRASH, feeds_different=1), "feed positions"),
        (msgspec.structs.replace(CRASH, digests={"ada": "1", "ben": "2"}), "same registers"),
        (msgspec.structs.replace(CRASH, faults=1), "log folds"),
    ],
)
def test_a_check_fails_when_its_figure_does(
    changed: Influence | Hostile | Twin | Crash, failing: str
) -> None:
    found = checks(
        [changed] if isinstance(changed, Twin) else TWINS,
        changed if isinstance(changed, Crash) else CRASH,
        changed if isinstance(changed, Influence) else INFLUENCE,
        changed if isinstance(changed, Hostile) else HOSTILE,
    )

    assert [check.name for check in found if not check.holds and failing in check.name]
    assert len([check for check in found if not check.holds]) == 1
