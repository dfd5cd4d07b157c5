"""Trust: whose setting counts, who owns whom, and the stated bound."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loremesh.sync.errors import InvalidInput
from loremesh.sync.fixed import ONE
from loremesh.sync.registers import Source
from loremesh.sync.trust import (
    Member,
    PeerTrust,
    Policy,
    build_lens,
    influence_bound,
    peer_tau_fx,
    principals_of,
)

A, B, C, OWN = (bytes([n]) * 32 for n in (1, 2, 3, 9))
S, T = b"s" * 32, b"t" * 32
SPACE_TRUST = {S: ONE // 2}


def source(origin: bytes, space: bytes = S, incarnation: bytes = b"1" * 16) -> Source:
    return Source(origin, incarnation, space)


class TestWhoseSettingCounts:
    def test_a_member_has_its_spaces_trust_and_a_stranger_none(self) -> None:
        assert peer_tau_fx(Policy(), A, S, True, SPACE_TRUST) == ONE // 2
        assert peer_tau_fx(Policy(), A, S, False, SPACE_TRUST) == 0
        assert peer_tau_fx(Policy(), A, T, True, SPACE_TRUST) == 0

    def test_a_peers_own_setting_goes_before_its_membership(self) -> None:
        lower, higher = (Policy(peers={A: PeerTrust(value)}) for value in (1, ONE))
        assert peer_tau_fx(lower, A, S, True, SPACE_TRUST) == 1
        assert peer_tau_fx(higher, A, T, False, SPACE_TRUST) == ONE

    def test_a_revoked_peer_has_none_whatever_its_value_says(self) -> None:
        policy = Policy(peers={A: PeerTrust(ONE, revoked=True)})
        assert peer_tau_fx(policy, A, S, True, SPACE_TRUST) == 0

    def test_a_lens_gives_each_source_its_spaces_terms_and_own_none(self) -> None:
        sources = [source(A), source(A, T), source(B), source(OWN)]
        policy = Policy(peers={OWN: PeerTrust(ONE)}, multipliers={"deploy": 0.5}, cap=4.0)
        members = [Member(A, "", S), Member(OWN, "", S)]
        lens = build_lens(policy, sources, members, SPACE_TRUST, ["", "deploy"], OWN)
        assert lens.tau_fx.tolist() == [ONE // 2, 0, 0, 0]
        assert lens.multiplier_fx.tolist() == [ONE, ONE // 2]
        assert set(lens.cap_fx.tolist()) == {4 * ONE}
        assert [lens.peers[i] for i in lens.peer] == [A, A, B, OWN]

    def test_a_multiplier_is_for_its_exact_label(self) -> None:
        lens = build_lens(Policy(multipliers={"deploy": 0.0}), [], [], {}, ["", "deploy2", "deploy"], OWN)
        assert lens.multiplier_fx.tolist() == [ONE, ONE, 0]


class TestPrincipals:
    def same(self, policy: Policy, *members: Member) -> list[set[bytes]]:
        """Peers grouped by principal."""
        groups: dict[object, set[bytes]] = {}
        for origin, principal in principals_of(policy, [A, B, C], members).items():
            groups.setdefault(principal, set()).add(origin)
        return sorted(groups.values(), key=min)

    def test_peers_of_one_invitation_are_one_principal(self) -> None:
        found = self.same(Policy(), Member(A, "acme", S), Member(B, "acme", S), Member(C, "umbrella", S))
        assert found == [{A, B}, {C}]

    def test_peers_without_an_invitation_are_each_their_own(self) -> None:
        assert self.same(Policy(), Member(A, "", S), Member(B, "", S)) == [{A}, {B}, {C}]

    def test_one_name_in_two_spaces_is_two_principals(self) -> None:
        assert self.same(Policy(), Member(A, "acme", S), Member(B, "acme", T)) == [{A}, {B}, {C}]

    def test_a_peer_in_two_spaces_makes_its_principals_there_one(self) -> None:
        members = [Member(A, "x", S), Member(B, "x", S), Member(B, "y", T), Member(C, "y", T)]
        for order in (members, members[::-1]):
            assert self.same(Policy(), *order) == [{A, B, C}]

    def test_what_the_administrator_names_goes_before_invitations(self) -> None:
        members = [Member(A, "acme", S), Member(B, "acme", S), Member(C, "umbrella", S)]
        assert self.same(Policy(principals={B: "own"}), *members) == [{A}, {B}, {C}]
        assert self.same(Policy(principals={A: "one", C: "one"}), *members) == [{A, C}, {B}]

    def test_a_principal_is_shown_by_its_name_or_its_key(self) -> None:
        found = principals_of(Policy(principals={B: "ours"}), [A, B, C], [Member(A, "acme", S)])
        assert [found[peer].name for peer in (A, B, C)] == ["acme", "ours", C.hex()]


class TestBounds:
    @pytest.mark.parametrize("value", [-1, ONE + 1])
    def test_trust_beyond_one_is_refused(self, value: int) -> None:
        with pytest.raises(InvalidInput, match="trust"):
            PeerTrust(value)

    def test_a_policy_with_a_bad_cap_or_multiplier_is_refused_by_name(self) -> None:
        with pytest.raises(InvalidInput, match="cap"):
            Policy(cap=float("nan"))
        with pytest.raises(InvalidInput, match="'deploy'"):
            Policy(multipliers={"deploy": 1.5})

    def test_the_bound_is_tau_c_over_tau_c_plus_mass(self) -> None:
        assert influence_bound(0.5, 32, 16) == 0.5
        assert influence_bound(1.0, 32, 96) == 0.25

    def test_without_trust_or_cap_nothing_moves_and_without_others_everything_may(self) -> None:
        assert influence_bound(0.0, 32, 0) == influence_bound(1.0, 0, 0) == 0.0
        assert influence_bound(0.1, 32, 0) == 1.0

    @given(st.floats(0, 1), st.floats(0, 1000), st.floats(0, 1000), st.floats(0, 1000))
    def test_more_mass_of_others_never_loosens_the_bound(
        self, tau: float, cap: float, m: float, more: float
    ) -> None:
        assert 0 <= influence_bound(tau, cap, m + more) <= influence_bound(tau, cap, m) <= 1


def test_a_principals_peers_stand_together_in_a_lens() -> None:
    members = [Member(A, "x", S), Member(B, "y", S), Member(C, "x", S)]
    lens = build_lens(Policy(), [source(p) for p in (C, B, A)], members, {S: ONE}, [""], OWN)
    assert lens.peers == (A, C, B)
    assert (np.diff(lens.principal) >= 0).all()
    assert [lens.principals[i] for i in lens.principal] == ["x", "x", "y"]
