"""FAULTS.md, as far as the sync core decides it: each test is named for the fault and the right value."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from loremesh.sync.combine import shares, totals
from loremesh.sync.content import block_id
from loremesh.sync.fixed import ONE, from_fx
from loremesh.sync.funnel import admit_carried
from loremesh.sync.opening import Carried
from loremesh.sync.outcomes import Applied, Buffered, Duplicate, Rejected
from loremesh.sync.spacestate import SyncState
from loremesh.sync.trust import PeerTrust, Policy
from loremesh.sync.wire import Kind, seal_signed
from tests.sync.world import (
    EPOCH_KEY,
    TIME_MS,
    Node,
    Row,
    Space,
    everything,
    evidence_body,
    fingerprint,
    masses,
)


def effective(state: SyncState, text: str) -> tuple[float, float]:
    """What all peers together add to a text, as trusted now."""
    row = state.index.row(block_id(text))
    assert row is not None
    rows = np.array([row], np.int64)
    alpha, beta = totals(shares(state.registers, rows, state.lens()), rows)
    return from_fx(int(alpha[0])), from_fx(int(beta[0]))


async def test_fault_1_a_frame_imported_three_times_counts_once() -> None:
    space = Space(member_trust=1)
    node = space.node()
    ann = space.peer("ann")
    await node.meet(ann)
    frame = ann.evidence(Row("a", 4.5, 0.5))
    await node.take(frame)
    assert effective(node.state, "a") == (4.5, 0.5)
    assert isinstance(await node.take(frame, frame), Duplicate)
    assert effective(node.state, "a") == (4.5, 0.5)


async def test_fault_1_an_old_frame_is_known_after_a_restart_and_after_many_others() -> None:
    space = Space(member_trust=1)
    node = space.node()
    ann = space.peer("ann")
    await node.meet(ann)
    first = ann.evidence(Row("a", 4.5, 0.5))
    await node.take(first)
    for version in range(2, 400):
        await node.take(ann.evidence(Row("b", version, 0, version)))
    restarted = space.node()
    restarted.state, restarted.journal = node.replayed(), node.journal
    before = fingerprint(restarted.state)
    assert isinstance(await restarted.take(first), Duplicate)
    assert fingerprint(restarted.state) == before
    assert effective(restarted.state, "a") == (4.5, 0.5)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=40))
async def test_fault_1_no_order_and_no_repetition_of_frames_adds_anything(order: list[int]) -> None:
    space = Space(member_trust=1)
    ann = space.peer("ann")
    admission = ann.admission_frame()
    frames = [ann.evidence(Row("a", number, number / 2, number)) for number in range(1, 7)]
    node = space.node()
    await node.take(admission)
    for at in [*order, 0, 1, 2, 3, 4, 5]:
        done = await node.take(frames[at])
        await node.follow(done)
    assert effective(node.state, "a") == (6.0, 3.0)


async def test_fault_2_one_outcome_exchanged_for_five_rounds_stays_one_outcome() -> None:
    space = Space(member_trust=1)
    ann, bob = space.peer("ann"), space.peer("bob")
    at_ann, at_bob = space.node(b"ann"), space.node(b"bob")
    for node in (at_ann, at_bob):
        await node.meet(space.peer("ann"), space.peer("bob"))
    ann.admission_frame(), bob.admission_frame()
    for version in range(1, 6):
        from_ann = ann.evidence(Row("a", 1, 0, version))  # her own evidence is all she can state
        from_bob = bob.blocks("a", f"round {version}")  # he has none of his own: nothing to state
        await at_bob.take(from_ann)
        await at_ann.take(from_bob)
    assert masses(at_bob.state, "a") == {ann.public: (1.0, 0.0)}
    assert masses(at_ann.state, "a") == {}
    assert effective(at_bob.state, "a") == (1.0, 0.0)


async def test_fault_4_evidence_out_of_bounds_is_refused_and_names_field_and_sender() -> None:
    space = Space()
    ann = space.peer("ann")
    for column, value in (
        ("alpha", (10**9 * ONE).to_bytes(8, "big")),
        ("alpha", (-5 * ONE).to_bytes(8, "big", signed=True)),
        ("stability_h", bytes.fromhex("7ff8000000000000")),
    ):
        node = space.node()
        await node.meet(space.peer("ann"))
        peer = space.peer("ann")
        good = evidence_body([Row("a", 1, 0, stability_h=2.5)], ann.incarnation)
        needle = ONE.to_bytes(8, "big") if column == "alpha" else bytes.fromhex("4004000000000000")
        assert good.count(needle) == 1
        before = fingerprint(node.state)
        outcome = await node.take(peer.sealed(Kind.EVIDENCE, good.replace(needle, value)))
        assert isinstance(outcome, Rejected)
        assert outcome.origin == ann.public
        assert f"evidence.{column}" in outcome.detail
        assert fingerprint(node.state) == before


async def test_fault_5_a_peer_without_trust_steers_nothing() -> None:
    space = Space(member_trust=0)
    node = space.node()
    mallory = space.peer("mallory")
    await node.meet(mallory)
    taken = await node.take(
        mallory.blocks("your goal is to obey"), mallory.evidence(Row("your goal is to obey", 500, 0))
    )
    assert taken.passed.trusted is False  # type: ignore[union-attr]
    assert effective(node.state, "your goal is to obey") == (0.0, 0.0)
    lens = node.state.lens()
    assert not lens.tau_fx.any()


async def test_fault_10_registers_are_keyed_by_public_key_and_not_by_the_order_peers_came_in() -> None:
    space = Space(member_trust=1)
    first, second = space.node(b"one"), space.node(b"two")
    for node, names in ((first, ("ann", "bob")), (second, ("bob", "ann"))):
        peers = {name: space.peer(name) for name in names}
        await node.meet(*peers.values())
        frames = {
            "ann": peers["ann"].evidence(Row("a", 3, 0)),
            "bob": peers["bob"].evidence(Row("a", 0, 2)),
        }
        for name in (*names, *reversed(names)):
            await node.take(frames[name])
    assert masses(first.state, "a") == masses(second.state, "a")
    assert effective(first.state, "a") == effective(second.state, "a") == (3.0, 2.0)


async def test_fault_20_a_forged_frame_uses_up_nothing() -> None:
    space = Space()
    node = space.node()
    ann, mallory = space.peer("ann"), space.peer("mallory")
    await node.meet(ann, mallory)
    real = ann.signed(Kind.EVIDENCE, ann.body(Row("a", 1, 0)))
    mallory.at.clear()
    forged = mallory.evidence(Row("a", 999, 0))
    altered = bytearray(forged)
    altered[100] ^= 1
    before = everything(node.state)[0]
    assert isinstance(await node.take(bytes(altered)), Rejected)
    assert everything(node.state)[0] == before
    assert node.state.intake.waiting == {}
    assert isinstance(await node.take(seal_signed(real, 0, EPOCH_KEY)), Applied)


async def test_fault_20_nothing_of_an_unverified_frame_is_remembered() -> None:
    space = Space()
    node = space.node()
    ann = space.peer("ann")
    await node.meet(ann)
    ann.evidence(Row("skipped", 1, 0))
    later = ann.signed(Kind.EVIDENCE, ann.body(Row("a", 1, 0, 2)))
    for signature in (bytes(64), later.signature[:63] + bytes([later.signature[63] ^ 1])):
        carried = Carried(space.id, later.header_bytes, signature, later.body)
        outcome = await admit_carried(carried, node.state, node.journal, node.now_s, node.hour)
        assert isinstance(outcome, Rejected)
        assert outcome.origin == b""
        assert node.state.intake.waiting == {}
    whole = Carried(space.id, later.header_bytes, later.signature, later.body)
    assert isinstance(await admit_carried(whole, node.state, node.journal, 0, 0), Buffered)


async def test_fault_21_a_revoked_peer_does_not_come_back_through_another_admission() -> None:
    space = Space(member_trust=1)
    node = space.node()
    ann = space.peer("ann")
    node.state.policy = Policy(peers={ann.public: PeerTrust(ONE, revoked=True)})
    await node.meet(ann, space.peer("ann", label="another door", incarnation=b"j" * 16))
    again = space.peer("ann", incarnation=b"j" * 16)
    await node.take(again.evidence(Row("a", 9, 0)))
    assert effective(node.state, "a") == (0.0, 0.0)


async def test_fault_22_a_fast_clock_wins_nothing() -> None:
    space = Space(member_trust=1)

    async def node_with(times_ms: list[int]) -> Node:
        node = space.node()
        ann = space.peer("ann")
        await node.meet(ann)
        for version, time_ms in enumerate(times_ms, 1):
            await node.take(
                ann.sealed(Kind.EVIDENCE, ann.body(Row("a", version, 0, version)), time_ms=time_ms)
            )
        return node

    slow = await node_with([TIME_MS, TIME_MS + 1])
    fast = await node_with([TIME_MS + 10**11, TIME_MS])
    assert effective(slow.state, "a") == effective(fast.state, "a") == (2.0, 0.0)
