"""The state: replay through `accept`, the checkpoint, and one space entered once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loremesh.sync.errors import InvalidInput
from loremesh.sync.fixed import ONE
from loremesh.sync.spacestate import SyncState, enter_space, export, load
from loremesh.sync.trust import Policy
from tests.sync.world import EPOCH_KEY, Node, Row, Space, fingerprint

SPACE, OTHER = Space(), Space(name="other", member_trust=0.25)

# Who says what in which space, in which order it arrives, and at which active hour.
scripts = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob"]),
        st.booleans(),
        st.sampled_from(["evidence", "blocks", "both"]),
        st.integers(0, 3),
        st.integers(0, 300),
        st.sampled_from(["", "deploy"]),
    ),
    min_size=1,
    max_size=12,
)
Script = list[tuple[str, bool, str, int, int, str]]


def frames_of(script: Script) -> list[bytes]:
    peers = {
        (name, there): (OTHER if there else SPACE).peer(name)
        for name in ("ann", "bob")
        for there in (False, True)
    }
    frames = [peer.admission_frame() for peer in peers.values()]
    for version, (name, there, what, block, mass, context) in enumerate(script, 1):
        peer, text = peers[name, there], f"text {block}"
        if what != "evidence":
            frames.append(peer.blocks(text, f"more {block}"))
        if what != "blocks":
            frames.append(
                peer.evidence(Row(text, mass, mass / 3, version, context), Row("all", 1, 0, version))
            )
    return frames


async def fed(script: Script, order: list[int]) -> Node:
    node = SPACE.node()
    node.enter(OTHER)
    frames = frames_of(script)
    for step, at in enumerate([*order, *range(len(frames))]):
        node.hour = 1.0 + step / 4
        done = await node.take(frames[at % len(frames)])
        await node.follow(done)
    return node


@settings(max_examples=40, deadline=None)
@given(scripts, st.lists(st.integers(0, 40), max_size=60))
async def test_replay_of_what_was_stored_gives_the_live_state_whatever_came(
    script: Script, order: list[int]
) -> None:
    node = await fed(script, order)
    assert fingerprint(node.replayed()) == fingerprint(node.state)


@settings(max_examples=20, deadline=None)
@given(scripts, st.lists(st.integers(0, 40), max_size=60))
async def test_a_checkpoint_brings_back_the_state(script: Script, order: list[int]) -> None:
    node = await fed(script, order)
    again = SyncState(node.state.own, node.state.incarnation, node.state.policy, node.state.budgets)
    for space in (SPACE, OTHER):
        enter_space(again, space.genesis_bytes, 0, {0: EPOCH_KEY})
    load(again, export(node.state))
    assert fingerprint(again) == fingerprint(node.state)
    np.testing.assert_array_equal(again.lens().tau_fx, node.state.lens().tau_fx)


async def test_a_checkpoint_holds_no_space_key() -> None:
    node = SPACE.node()
    await node.meet(SPACE.peer("ann"))
    assert all(EPOCH_KEY not in value for value in fingerprint(node.state).values())


async def test_a_checkpoint_of_other_spaces_is_refused() -> None:
    node = SPACE.node()
    exported = export(node.state)
    again = OTHER.node().state
    with pytest.raises(InvalidInput, match="other spaces"):
        load(again, exported)


def test_a_space_is_entered_once_and_with_its_key() -> None:
    state = SPACE.node().state
    with pytest.raises(InvalidInput, match="already"):
        enter_space(state, SPACE.genesis_bytes, 0, {0: EPOCH_KEY})
    with pytest.raises(InvalidInput, match="no key"):
        enter_space(state, OTHER.genesis_bytes, 1, {0: EPOCH_KEY})
    with pytest.raises(InvalidInput, match="genesis"):
        enter_space(state, b"junk", 0, {0: EPOCH_KEY})


async def test_a_principal_is_what_the_policy_says_else_the_invitation_else_the_peer_itself() -> None:
    node = SPACE.node()
    ann, admin = SPACE.peer("ann", label="crew"), SPACE.admin()
    await node.meet(ann, admin)
    assert node.state.principal(node.space, ann.public) == "invited/crew"
    assert node.state.principal(node.space, admin.public) == f"peer/{admin.public.hex()}"
    node.state.policy = Policy(principals={ann.public: "alice"})
    assert node.state.principal(node.space, ann.public) == "policy/alice"


async def test_the_smaller_of_this_nodes_cap_and_the_spaces_holds() -> None:
    for ours, theirs, smaller in ((32.0, 4.0, 4.0), (2.0, 4.0, 2.0)):
        space = Space(cap=theirs)
        node = space.node(policy=Policy(cap=ours))
        ann = space.peer("ann")
        await node.meet(ann)
        await node.take(ann.evidence(Row("a", 1, 0)))
        assert node.state.lens().cap_fx.tolist() == [smaller * ONE]


def test_neither_a_space_nor_a_state_shows_its_keys() -> None:
    node = SPACE.node()
    assert repr(EPOCH_KEY)[2:-1] not in repr(node.space)
