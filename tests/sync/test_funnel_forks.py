"""The funnel and forks: two stories by one signer are proof, kept and acted on."""

from loremesh.sync.admission import encode_admission
from loremesh.sync.feed import ForkKind
from loremesh.sync.fixed import ONE
from loremesh.sync.funnel import (
    passed_again,
)
from loremesh.sync.outcomes import (
    Applied,
    Duplicate,
    Reason,
    Rejected,
)
from loremesh.sync.spacestate import accept
from loremesh.sync.wire import Kind
from tests.sync.world import (
    Peer,
    Row,
    Space,
    met,
    reason_of,
)


async def test_two_frames_with_one_number_set_the_incarnation_aside_with_proof() -> None:
    space = Space()
    node = space.node()
    ann = await met(node, space)
    held = ann.evidence(Row("a", 1, 0))
    await node.take(held, ann.evidence(Row("a", 2, 0, 2)))
    outcome = await node.take(ann.sealed(Kind.EVIDENCE, ann.body(Row("a", 9, 0)), number=1))
    assert isinstance(outcome, Rejected)
    assert outcome.reason is Reason.FORK
    assert outcome.proof is not None
    assert outcome.proof.kind is ForkKind.NUMBER
    assert outcome.proof.held is not None
    assert outcome.proof.held.header.number == outcome.proof.other.header.number == 1
    assert outcome.proof.held.header != outcome.proof.other.header
    assert outcome.proof.held.body is outcome.proof.other.body is None, "a body proves nothing here"
    assert node.journal.proofs == [outcome.proof]
    assert node.state.lens().tau_fx.tolist() == [0]
    assert reason_of(await node.take(ann.evidence(Row("a", 3, 0, 3)))) is Reason.SET_ASIDE
    assert isinstance(await node.take(held), Duplicate)


async def test_a_frame_that_names_another_predecessor_is_a_fork() -> None:
    space = Space()
    node = space.node()
    ann = await met(node, space)
    await node.take(ann.evidence(Row("a", 1, 0)))
    outcome = await node.take(
        ann.sealed(Kind.EVIDENCE, ann.body(Row("a", 2, 0, 2)), number=2, previous=b"x" * 32)
    )
    assert isinstance(outcome, Rejected)
    assert outcome.proof is not None
    assert outcome.proof.kind is ForkKind.LINK


async def test_one_version_with_two_values_is_a_fork() -> None:
    space = Space()
    node = space.node()
    ann = await met(node, space)
    await node.take(ann.evidence(Row("a", 1, 0)))
    outcome = await node.take(ann.evidence(Row("a", 2, 0)))
    assert isinstance(outcome, Rejected)
    assert outcome.proof is not None
    assert outcome.proof.kind is ForkKind.VERSION
    assert outcome.proof.held is not None
    assert outcome.proof.held.header.number == 1
    assert None not in (outcome.proof.held.body, outcome.proof.other.body), "they hold the two values"


async def test_a_fork_seen_in_one_space_counts_in_all() -> None:
    space, other = Space(), Space(name="other")
    node = space.node()
    node.enter(other)
    here, there = space.peer("ann"), other.peer("ann")
    await node.meet(here, there)
    await node.take(here.evidence(Row("a", 1, 0)))
    outcome = await node.take(there.evidence(Row("a", 2, 0)))
    assert isinstance(outcome, Rejected)
    assert outcome.proof is not None
    assert outcome.proof.held is not None
    assert outcome.proof.held.header.space == space.id
    assert reason_of(await node.take(here.evidence(Row("b", 1, 0, 2)))) is Reason.SET_ASIDE


async def test_another_incarnation_of_a_forked_peer_goes_on() -> None:
    space = Space()
    node = space.node()
    ann = await met(node, space)
    await node.take(ann.evidence(Row("a", 1, 0)))
    await node.take(ann.sealed(Kind.EVIDENCE, ann.body(Row("a", 9, 0)), number=1))
    again = space.peer("ann", incarnation=b"j" * 16)
    await node.meet(again)
    assert isinstance(await node.take(again.evidence(Row("a", 3, 0))), Applied)
    restated = again.evidence(Row("a", 7, 0, incarnation=ann.incarnation))
    assert isinstance(await node.take(restated), Applied)
    taus = dict(
        zip((s.incarnation for s in node.state.registers.sources), node.state.lens().tau_fx, strict=True)
    )
    assert taus == {ann.incarnation: 0, again.incarnation: ONE // 2}


async def test_own_frames_that_are_not_held_mean_that_the_home_was_copied() -> None:
    space = Space()
    node = space.node()
    own = Peer(b"receiver", space.id, node.state.incarnation)
    own.admission = space.peer("receiver").admission
    assert own.public == node.state.own
    frame = own.admission_frame()
    outcome = await node.take(frame)
    assert reason_of(outcome) is Reason.COPIED
    opened = own.signed(Kind.ADMISSION, encode_admission(own.admission), number=1)
    accept(node.state, passed_again(opened.header_bytes, opened.signature, opened.body), 1, 0.0)
    assert await node.take(frame) == Duplicate(own.public)
    assert reason_of(await node.take(own.evidence(Row("a", 1, 0)))) is Reason.COPIED
    assert node.state.set_aside == {}
