"""Combine: equal to the plain oracle whatever the order, copies, frames, spaces, trust and caps."""

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from loremesh.sync.combine import (
    effective,
    effective_t_last,
    freshness,
    scaled,
    shares,
    standing,
    totals,
)
from loremesh.sync.fixed import MAX_FX, ONE, to_fx
from loremesh.sync.providers import Providers
from loremesh.sync.registers import Registers, Source
from loremesh.sync.trust import Lens, Member, PeerTrust, Policy, build_lens
from tests.sync import oracle
from tests.sync.evidence import (
    ALL,
    CONTEXTS,
    EVERYWHERE,
    OWN,
    PEERS,
    ROWS,
    SPACES,
    World,
    batch_of,
    honest,
    lens_of,
    say,
    shares_by_name,
    state,
    stated,
    worlds,
)
from tests.sync.oracle import Statement

A, B, C, D = PEERS
HALF = ONE // 2


@given(honest(), worlds())
def test_shares_and_totals_are_the_oracles_integers(statements: list[Statement], world: World) -> None:
    registers = stated(statements)
    lens = world.lens(registers)
    expected = oracle.shares(statements, world.terms)
    assert shares_by_name(registers, lens) == expected
    alpha, beta = totals(shares(registers, ALL, lens), ALL)
    assert alpha.tolist() == [
        sum(a for (r, _, _), (a, _) in expected.items() if r == row) for row in range(ROWS)
    ]
    assert beta.tolist() == [
        sum(b for (r, _, _), (_, b) in expected.items() if r == row) for row in range(ROWS)
    ]


@given(honest(), worlds())
def test_stability_is_the_oracles(statements: list[Statement], world: World) -> None:
    registers = stated(statements)
    expected = oracle.stability_h(statements, world.terms)
    found = freshness(registers, ALL, world.lens(registers)).stability_h.tolist()
    assert found == [expected.get(row, 0.0) for row in range(ROWS)]


@given(honest(least=2), worlds(), st.data())
def test_any_order_duplication_and_grouping_gives_the_same_integers(
    statements: list[Statement], world: World, data: st.DataObject
) -> None:
    again = data.draw(st.lists(st.sampled_from(statements), max_size=8)) if statements else []
    delivered = data.draw(st.permutations(statements + again))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(delivered)), max_size=4)))
    registers = Registers()
    for number, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(delivered)], strict=True)):
        state(registers, delivered[start:end], frame=1 + 1000 * number, hour=float(number))
    assert shares_by_name(registers, world.lens(registers)) == oracle.shares(statements, world.terms)


@given(honest(), worlds(), st.data())
def test_a_register_counts_once_through_whichever_spaces_it_came(
    statements: list[Statement], world: World, data: st.DataObject
) -> None:
    # The same terms in both, so that the way cannot matter.
    world.member_trust = dict.fromkeys(SPACES, world.member_trust[SPACES[0]])
    world.caps_fx = dict.fromkeys(SPACES, world.caps_fx[SPACES[0]])
    once = [s for s in statements if s.space == SPACES[0]]
    echoed = [s._replace(space=SPACES[1]) for s in once if data.draw(st.booleans())]
    one, both = stated(once), stated(once + echoed)
    assert shares_by_name(both, world.lens(both)) == shares_by_name(one, world.lens(one))


@settings(max_examples=50)
@given(honest(), worlds())
def test_a_row_alone_gets_what_it_gets_among_all(statements: list[Statement], world: World) -> None:
    registers = stated(statements)
    lens = world.lens(registers)
    together = effective(registers, Providers(), ALL, lens)
    for row in range(ROWS):
        alone = effective(registers, Providers(), np.array([row]), lens)
        assert alone.alpha[0] == together.alpha[row]
        assert alone.beta[0] == together.beta[row]
        assert alone.freshness.stability_h[0] == together.freshness.stability_h[row]


@settings(max_examples=50)
@given(honest(), st.sampled_from(PEERS))
def test_own_evidence_is_excluded(statements: list[Statement], me: bytes) -> None:
    registers, others = stated(statements), stated([s for s in statements if s.origin != me])
    trust = dict.fromkeys(SPACES, ONE)
    mine = build_lens(Policy(), registers.sources, EVERYWHERE, trust, CONTEXTS, me)
    assert shares_by_name(registers, mine) == shares_by_name(others, lens_of(others))


def test_a_cap_scales_all_contexts_and_incarnations_of_a_peer_together() -> None:
    registers = stated(
        [
            say(A, 30, 10),
            say(A, 20, 0, incarnation=b"2" * 16),
            say(A, 40, 28, context=1),
        ]
    )
    lens = lens_of(registers, Policy(cap=32.0))  # M = 128, so everything counts a quarter
    assert shares_by_name(registers, lens) == {
        (0, 0, A): (50 * ONE // 4, 10 * ONE // 4),
        (0, 1, A): (10 * ONE, 7 * ONE),
    }


def test_shares_round_down_at_each_step() -> None:
    registers = stated([say(A, 7 / ONE, 4 / ONE, context=1)])
    policy = Policy(peers={A: PeerTrust(ONE - 1)}, multipliers={"deploy": 0.5}, cap=10 / ONE)
    # C = 10, M = 11: ⌊7·10/11⌋ = 6, ⌊4·10/11⌋ = 3; ⌊τ·m⌋ = 32767; ⌊6·32767/65536⌋ = 2, ⌊3·…⌋ = 1.
    assert shares_by_name(registers, lens_of(registers, policy)) == {(0, 1, A): (2, 1)}


@settings(max_examples=50)
@given(st.integers(1, 4), st.integers(1, 10**5), st.integers(0, ONE))
def test_more_keys_of_a_principal_bring_no_more_than_one(keys: int, outcomes: int, tau: int) -> None:
    registers = stated([say(peer, outcomes) for peer in PEERS[:keys]])
    one_owner = Policy(principals=dict.fromkeys(PEERS, "acme"), peers={p: PeerTrust(tau) for p in PEERS})
    alpha, _ = totals(shares(registers, ALL, lens_of(registers, one_owner)), ALL)
    assert alpha[0] <= tau * 32
    assert alpha[0] >= min(outcomes, 32) * tau - keys  # and rounding takes no more than a unit of each


def test_a_principals_limit_is_that_of_its_most_trusted_peer_with_a_share() -> None:
    registers = stated([say(A, 100), say(B, 100), say(C, 0, context=1)])
    policy = Policy(
        principals=dict.fromkeys(PEERS, "acme"),
        peers={A: PeerTrust(HALF), B: PeerTrust(ONE // 4), C: PeerTrust(ONE)},  # C brings nothing here
    )
    # 16 and 8 outcomes together are above 16, the most that ½ allows.
    assert shares_by_name(registers, lens_of(registers, policy)) == {
        (0, 0, A): (16 * ONE * 16 // 24, 0),
        (0, 0, B): (8 * ONE * 16 // 24, 0),
    }


def test_a_principals_limit_is_that_of_the_largest_trust_any_share_came_at() -> None:
    low = say(A, 20)
    high = say(A, 20, incarnation=b"2" * 16, space=SPACES[1])
    registers = stated([low, high, say(B, 40)])
    policy = Policy(principals=dict.fromkeys(PEERS, "acme"))
    lens = lens_of(registers, policy, {SPACES[0]: ONE // 4, SPACES[1]: HALF})
    # A is capped to 16 + 16, which count 4 + 8; B's 32 count 8; together 20, and ½·32 = 16 are allowed.
    assert shares_by_name(registers, lens) == {
        (0, 0, A): (12 * ONE * 16 // 20, 0),
        (0, 0, B): (8 * ONE * 16 // 20, 0),
    }


@pytest.mark.parametrize("echo", [[], [say(B, 1), say(B, 1, space=SPACES[1])]])
def test_incarnations_at_one_trust_are_summed_before_rounding(echo: list[Statement]) -> None:
    least = 1 / ONE  # at trust ½ two of them together make one unit, and each alone none
    statements = [
        say(A, least, incarnation=b"1" * 16),
        say(A, least, incarnation=b"2" * 16, space=SPACES[1]),
        say(A, least, incarnation=b"3" * 16),
    ]
    registers = stated([*statements, *echo])
    lens = lens_of(registers, member_trust={SPACES[0]: HALF, SPACES[1]: HALF + 1})
    assert shares_by_name(registers, lens)[0, 0, A] == (1, 0)


def test_even_two_values_of_one_version_give_the_same_shares_whichever_came_first() -> None:
    lies = [say(A, 1, 9), say(A, 3, 2, space=SPACES[1]), say(A, 3, 4, space=b"u" * 32)]
    members = [Member(A, "", lie.space) for lie in lies]
    for order in permutations(lies):
        registers = stated(order)
        lens = lens_of(registers, member_trust={lie.space: ONE for lie in lies}, members=members)
        assert shares_by_name(registers, lens) == {(0, 0, A): (3 * ONE, 4 * ONE)}


@settings(max_examples=50)
@given(
    honest(peers=(A, B)),
    st.integers(1, MAX_FX),
    st.fractions(0, 1),
    worlds(),
)
def test_one_principal_moves_a_mean_by_no_more_than_the_stated_bound(
    statements: list[Statement], others: int, mean: Fraction, world: World
) -> None:
    registers = stated(statements)
    policy = Policy(principals={A: "acme", B: "acme"}, peers=world.policy.peers, cap=world.policy.cap)
    lens = lens_of(registers, policy, world.member_trust)
    most = Fraction(int(lens.tau_fx.max(initial=0)) * to_fx(policy.cap, "cap"), ONE)
    before = Fraction(int(mean * others), others)
    for row, (alpha, beta) in enumerate(zip(*totals(shares(registers, ALL, lens), ALL), strict=True)):
        after = (before * others + int(alpha)) / (others + int(alpha) + int(beta))
        assert abs(after - before) <= most / (most + others), row


@given(st.lists(st.tuples(st.integers(0, MAX_FX), st.integers(0, MAX_FX), st.integers(1, 2**40)), min_size=1))
@example([(MAX_FX, MAX_FX, MAX_FX)])
@example([(MAX_FX, 2**27 - 1, MAX_FX), (1, 1, 1)])
@example([(MAX_FX, 2**27, MAX_FX), (1, 1, 1)])
def test_scaling_is_exact_on_both_sides_of_63_bits(terms: list[tuple[int, int, int]]) -> None:
    terms = [(value, min(up, down), down) for value, up, down in terms]
    columns = [np.array(column, np.int64) for column in zip(*terms, strict=True)]
    assert scaled(*columns).tolist() == [value * up // down for value, up, down in terms]


class TestTrustIsALens:
    @given(honest(least=1), st.sampled_from(PEERS), worlds())
    def test_revocation_equals_never_having_trusted_and_never_having_heard(
        self, statements: list[Statement], hostile: bytes, world: World
    ) -> None:
        invited = [Member(peer, f"team {i // 2}", space) for i, peer in enumerate(PEERS) for space in SPACES]
        trusting = Policy(peers={**world.policy.peers, hostile: PeerTrust(ONE)}, cap=world.policy.cap)
        revoked = Policy(
            peers={**world.policy.peers, hostile: PeerTrust(ONE, revoked=True)}, cap=world.policy.cap
        )
        never = Policy(peers={**world.policy.peers, hostile: PeerTrust(0)}, cap=world.policy.cap)
        registers, providers = stated(statements), Providers()
        for number in range(len(registers.sources)):
            providers.add(ALL[: 1 + number % ROWS], number, float(number))
        looked = lens_of(registers, trusting, world.member_trust, invited)
        effective(registers, providers, ALL, looked)  # whatever was seen through the old lens leaves no trace
        after = _seen(registers, providers, lens_of(registers, revoked, world.member_trust, invited))
        assert after == _seen(registers, providers, lens_of(registers, never, world.member_trust, invited))

        twin, content = Registers(), Providers()
        for number, source in enumerate(registers.sources):
            if source.origin != hostile:
                content.add(ALL[: 1 + number % ROWS], twin.source(source), float(number))
        state(twin, [s for s in statements if s.origin != hostile])
        there = [member for member in invited if member.origin != hostile]
        assert after == _seen(twin, content, lens_of(twin, never, world.member_trust, there))

    def test_a_revoked_peer_does_not_tie_two_principals_together(self) -> None:
        registers = stated([say(A, 100), say(B, 100, space=SPACES[1]), say(C, 100)])
        members = [
            Member(A, "left", SPACES[0]),
            Member(B, "right", SPACES[1]),
            Member(C, "left", SPACES[0]),
            Member(C, "right", SPACES[1]),
        ]
        tied = lens_of(registers, members=members)
        assert len({tied.principal[tied.peers.index(peer)] for peer in (A, B, C)}) == 1
        freed = lens_of(registers, Policy(peers={C: PeerTrust(ONE, revoked=True)}), members=members)
        assert shares_by_name(registers, freed) == {(0, 0, A): (32 * ONE, 0), (0, 0, B): (32 * ONE, 0)}

    def test_a_proven_fork_sets_its_incarnation_aside_in_all_spaces(self) -> None:
        registers = stated(
            [say(A, 5), say(A, 6, version=2, space=SPACES[1]), say(A, 7, incarnation=b"2" * 16)]
        )
        trust = dict.fromkeys(SPACES, ONE)
        lens = build_lens(
            Policy(), registers.sources, EVERYWHERE, trust, CONTEXTS, OWN, set_aside={(A, b"1" * 16)}
        )
        assert shares_by_name(registers, lens) == {(0, 0, A): (7 * ONE, 0)}

    def test_what_came_through_an_untrusted_space_counts_for_nothing(self) -> None:
        registers = stated([say(A, 5), say(A, 50, version=9, space=SPACES[1])])
        lens = lens_of(registers, member_trust={SPACES[0]: ONE, SPACES[1]: 0})
        assert shares_by_name(registers, lens) == {(0, 0, A): (5 * ONE, 0)}

    def test_through_two_spaces_the_highest_version_and_the_largest_trust_count(self) -> None:
        registers = stated([say(A, 5), say(A, 6, version=2, space=SPACES[1])])
        lens = lens_of(registers, member_trust={SPACES[0]: ONE, SPACES[1]: HALF})
        assert shares_by_name(registers, lens) == {(0, 0, A): (6 * ONE, 0)}


class TestFreshness:
    def test_it_takes_mass_of_one_to_vouch_for_stability(self) -> None:
        registers = stated([say(A, 1 - 1 / ONE, stability_h=900.0), say(B, 1, stability_h=40.0)])
        policy = Policy(peers={B: PeerTrust(HALF)})
        assert freshness(registers, ALL, lens_of(registers, policy)).stability_h.tolist() == [20.0, 0.0, 0.0]

    def test_nobody_vouches_for_more_than_ten_years(self) -> None:
        registers = stated([say(A, 1, stability_h=1e9)])
        assert freshness(registers, ALL, lens_of(registers)).stability_h[0] == 10 * 365 * 24

    def test_the_latest_counted_stamp_is_taken(self) -> None:
        registers = Registers()
        state(registers, [say(A, 1)], hour=5.0)
        state(registers, [say(B, 1)], hour=9.0)
        assert freshness(registers, ALL, lens_of(registers)).stamp_h.tolist() == [9.0, -np.inf, -np.inf]
        without = lens_of(registers, Policy(peers={B: PeerTrust(0)}))
        assert freshness(registers, ALL, without).stamp_h[0] == 5.0

    def test_an_echo_through_another_space_refreshes_nothing(self) -> None:
        registers = Registers()
        state(registers, [say(A, 3)], hour=5.0)
        state(registers, [say(A, 3, space=SPACES[1])], hour=9.0)
        assert freshness(registers, ALL, lens_of(registers)).stamp_h[0] == 5.0

    def test_a_context_with_multiplier_zero_refreshes_nothing(self) -> None:
        registers = stated([say(A, 3, context=1)])
        found = freshness(registers, ALL, lens_of(registers, Policy(multipliers={"deploy": 0.0})))
        assert (found.stamp_h[0], found.stability_h[0]) == (-np.inf, 0.0)

    def test_content_dates_only_what_has_no_other_date(self) -> None:
        registers, providers = stated([]), Providers()
        source = registers.source(Source(A, b"1" * 16, SPACES[0]))
        providers.add(np.array([0, 1]), source, 7.0)
        lens = lens_of(registers)
        own = np.array([3.0, -np.inf, -np.inf])
        fresh, content = freshness(registers, ALL, lens), standing(providers, ALL, lens)
        assert effective_t_last(own, fresh, content).tolist() == [3.0, 7.0, -np.inf]


class TestStanding:
    def test_visible_and_sole_principal_follow_the_counted_providers(self) -> None:
        registers, providers = Registers(), Providers()
        for hour, (peer, rows) in enumerate([(A, [0, 1]), (B, [0, 1]), (C, [1]), (D, [2])]):
            number = registers.source(Source(peer, b"1" * 16, SPACES[0]))
            providers.add(np.array(rows), number, float(hour))
        policy = Policy(
            principals={A: "acme", B: "acme", C: "umbrella"}, peers={D: PeerTrust(ONE, revoked=True)}
        )
        lens = lens_of(registers, policy)
        found = standing(providers, ALL, lens)
        assert found.visible.tolist() == [True, True, False]
        assert [lens.principals[p] if p >= 0 else None for p in found.sole_principal] == ["acme", None, None]
        assert found.arrival_h.tolist() == [0.0, 0.0, np.inf]


def test_a_lens_that_is_too_old_for_the_columns_is_refused() -> None:
    registers = stated([say(A, 1)])
    lens = lens_of(registers)
    registers.apply(Source(B, b"1" * 16, SPACES[0]), batch_of([say(B, 1)]), 2, 1.0)
    with pytest.raises(IndexError):
        shares(registers, ALL, lens)


def _seen(registers: Registers, providers: Providers, lens: Lens) -> dict[str, object]:
    """All that a node derives from its columns, by name, so that two nodes can be compared."""
    found = effective(registers, providers, ALL, lens)
    return {
        "shares": shares_by_name(registers, lens),
        "alpha": found.alpha.tolist(),
        "beta": found.beta.tolist(),
        "stability": found.freshness.stability_h.tolist(),
        "stamps": found.freshness.stamp_h.tolist(),
        "visible": found.standing.visible.tolist(),
        "arrival": found.standing.arrival_h.tolist(),
        "sole": [lens.principals[p] if p >= 0 else None for p in found.standing.sole_principal],
    }
