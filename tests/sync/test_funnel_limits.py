"""The funnel and its limits: quarantine, buckets per principal, and what is free of them."""

import pytest

from loremesh.sync import intake
from loremesh.sync.admission import encode_admission
from loremesh.sync.bodies import encode_blocks
from loremesh.sync.effects import MAX_INCARNATIONS
from loremesh.sync.feed import Want
from loremesh.sync.fixed import ONE
from loremesh.sync.funnel import (
    at_rest,
    examine,
)
from loremesh.sync.limits import Budgets
from loremesh.sync.outcomes import (
    Applied,
    Deferred,
    Limit,
    Passed,
    Quarantined,
    Reason,
)
from loremesh.sync.trust import PeerTrust, Policy
from loremesh.sync.wire import Chain, Kind
from tests.sync.world import (
    Row,
    Space,
    masses,
    met,
    reason_of,
)


async def test_frames_of_a_peer_without_trust_are_kept_and_count_once_it_is_trusted() -> None:
    space = Space(member_trust=0)
    node = space.node()
    ann = await met(node, space)
    outcome = await node.take(ann.evidence(Row("a", 1, 0)))
    assert isinstance(outcome, Quarantined)
    assert node.state.lens().tau_fx.tolist() == [0]
    node.state.policy = Policy(peers={ann.public: PeerTrust(ONE)})
    assert node.state.lens().tau_fx.tolist() == [ONE]
    assert masses(node.state, "a") == {ann.public: (1.0, 0.0)}


async def test_quarantine_is_bounded_and_opens_when_trust_rises() -> None:
    space = Space(member_trust=0)
    node = space.node(budgets=Budgets(quarantine_bytes=1000))
    ann = await met(node, space)
    frames = [ann.evidence(Row(f"text {number}", 1, 0, number)) for number in range(1, 9)]
    outcomes = [await node.take(frame) for frame in frames]
    assert isinstance(outcomes[0], Quarantined)
    assert isinstance(outcomes[-1], Deferred)
    assert outcomes[-1].limit is Limit.QUARANTINE
    assert at_rest(node.state, node.space, node.now_s) == {ann.key()}
    node.state.policy = Policy(peers={ann.public: PeerTrust(ONE)})
    assert at_rest(node.state, node.space, node.now_s) == set()
    for frame in frames:
        await node.take(frame)
    assert node.space.position(ann.key()).number == len(frames)


@pytest.mark.parametrize(
    ("limit", "budgets"),
    [
        (Limit.FRAMES, Budgets(frames_per_s=1, frames_burst=2)),
        (Limit.BYTES, Budgets(bytes_per_s=1000, bytes_burst=600)),
        (Limit.MASS, Budgets(mass_per_h=3600, mass_burst=3, initial_registers=0)),
    ],
)
async def test_a_frame_over_a_limit_is_deferred_and_taken_when_the_budget_is_back(
    limit: Limit, budgets: Budgets
) -> None:
    space = Space()
    node = space.node(budgets=budgets)
    ann = await met(node, space)
    frames = [ann.evidence(Row(f"text {number}", 2, 0, number)) for number in range(1, 4)]
    outcomes = [await node.take(frame) for frame in frames]
    assert [type(outcome) for outcome in outcomes] == [Applied, Applied, Deferred]
    deferred = outcomes[-1]
    assert isinstance(deferred, Deferred)
    assert deferred.limit is limit
    assert deferred.want == Want(ann.public, ann.incarnation, Chain.DATA, 3, 3)
    assert deferred.until_s > node.now_s
    follower = ann.evidence(Row("after", 2, 0, 4))
    assert isinstance(await node.take(follower), Deferred)
    assert node.state.intake.waiting == {}
    node.now_s = deferred.until_s
    assert isinstance(await node.take(frames[2]), Applied)
    assert at_rest(node.state, node.space, node.now_s) == set()


async def test_new_blocks_are_limited_and_known_ones_are_not() -> None:
    space = Space()
    node = space.node(budgets=Budgets(blocks_per_h=3600, blocks_burst=2))
    ann, bob = await met(node, space), await met(node, space, "bob")
    assert isinstance(await node.take(ann.blocks("a", "b", "c")), Applied)
    assert isinstance(await node.take(bob.blocks("a", "b", "c")), Applied)
    assert isinstance(await node.take(bob.blocks("d")), Applied)
    outcome = await node.take(ann.blocks("e"))
    assert isinstance(outcome, Deferred)
    assert outcome.limit is Limit.BLOCKS


async def test_a_limit_counts_per_principal_so_that_more_keys_buy_no_more() -> None:
    space = Space()
    node = space.node(budgets=Budgets(frames_per_s=0, frames_burst=3))
    sybils = [space.peer(f"sybil {number}", label="mallory", uses=9) for number in range(4)]
    await node.meet(*sybils)
    outcomes = [await node.take(sybil.evidence(Row("a", 1, 0))) for sybil in sybils]
    assert [type(outcome) for outcome in outcomes] == [Applied, Applied, Applied, Deferred]
    other = await met(node, space)
    assert isinstance(await node.take(other.evidence(Row("a", 1, 0))), Applied)


async def test_the_first_registers_are_free_of_the_mass_budget() -> None:
    space = Space()
    node = space.node(budgets=Budgets(mass_per_h=0, mass_burst=1, initial_registers=2))
    ann = await met(node, space)
    passed = examine(
        node.state, ann.evidence(Row("a", 8, 0), Row("b", 8, 0), Row("c", 4, 1)), node.now_s, node.hour
    )
    assert isinstance(passed, Passed)
    assert passed.charge.mass_fx in (5 * ONE, 8 * ONE)  # which two are first depends on the ids' order


async def test_at_most_a_thousand_of_a_register_counts_against_the_mass_budget() -> None:
    space = Space()
    node = space.node(budgets=Budgets(initial_registers=0))
    ann = await met(node, space)
    passed = examine(node.state, ann.evidence(Row("a", 900_000, 0)), node.now_s, node.hour)
    assert isinstance(passed, Passed)
    assert passed.charge.mass_fx == 1000 * ONE


async def test_control_frames_are_not_held_up_by_evidence() -> None:
    space = Space()
    node = space.node(budgets=Budgets(frames_per_s=0, frames_burst=1))
    ann = await met(node, space)
    await node.take(ann.evidence(Row("a", 1, 0)))
    assert isinstance(await node.take(ann.evidence(Row("a", 2, 0, 2))), Deferred)
    assert isinstance(await node.take(space.peer("ann", incarnation=b"j" * 16).admission_frame()), Applied)


@pytest.mark.parametrize("kind", [Kind.ADMISSION, Kind.BLOCKS])
async def test_incarnations_are_bounded_whatever_is_published_under_them(kind: Kind) -> None:
    space = Space()
    node = space.node()
    ann = await met(node, space)
    body = encode_admission(ann.admission) if kind is Kind.ADMISSION else encode_blocks(["a"])
    outcomes = []
    for number in range(MAX_INCARNATIONS + 5):
        node.now_s += 3600.0
        ann.incarnation, ann.at = number.to_bytes(16, "big"), {}
        outcomes.append(await node.take(ann.sealed(kind, body)))
    assert len(node.space.incarnations[ann.public]) == MAX_INCARNATIONS
    assert reason_of(outcomes[-1]) is Reason.TOO_MANY_INCARNATIONS


async def test_what_is_noted_of_chains_that_do_not_go_on_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "MAX_HALTED", 3)
    space = Space()
    node = space.node()
    ann = await met(node, space)
    for number in range(10):
        ann.incarnation, ann.at = number.to_bytes(16, "big"), {}
        assert reason_of(await node.take(ann.sealed(Kind.BLOCKS, b"nonsense"))) is Reason.MALFORMED
    assert [key.incarnation for _, key in node.state.intake.stopped] == [
        number.to_bytes(16, "big") for number in (7, 8, 9)
    ]
