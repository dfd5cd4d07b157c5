"""The funnel: every outcome, in the order of the checks, and that nothing changes before all have passed."""

import numpy as np
import pytest

from loremesh.crypto.frames import seal_frame
from loremesh.crypto.identity import Identity
from loremesh.sync.admission import admission_for
from loremesh.sync.bodies import encode_blocks
from loremesh.sync.content import block_id
from loremesh.sync.feed import FeedKey, Want
from loremesh.sync.fixed import ONE
from loremesh.sync.funnel import (
    admit_carried,
    at_rest,
    examine,
)
from loremesh.sync.intake import MAX_WAITING_FRAMES
from loremesh.sync.limits import Budgets
from loremesh.sync.opening import Carried
from loremesh.sync.outcomes import (
    Applied,
    Buffered,
    Duplicate,
    Passed,
    Reason,
    Rejected,
)
from loremesh.sync.spacestate import accept
from loremesh.sync.wire import MAX_FRAME_BYTES, Chain, Kind, compose, seal_signed
from tests.sync.world import (
    EPOCH_KEY,
    TIME_MS,
    Peer,
    Row,
    Space,
    everything,
    evidence_body,
    fingerprint,
    many_rows,
    masses,
    met,
    reason_of,
)


async def test_evidence_and_texts_of_a_member_are_applied() -> None:
    space = Space()
    node = space.node()
    ann = await met(node, space)
    blocks = await node.take(ann.blocks("restart the indexer", "keep the logs"))
    assert isinstance(blocks, Applied)
    assert node.state.index.ids(blocks.accepted.content.tolist()) == [
        block_id("restart the indexer"),
        block_id("keep the logs"),
    ]
    applied = await node.take(ann.evidence(Row("restart the indexer", 2, 1, context="deploy")))
    assert isinstance(applied, Applied)
    assert applied.accepted.rows.tolist() == [blocks.accepted.content[0]]
    assert masses(node.state, "restart the indexer") == {ann.public: (2.0, 1.0)}


async def test_examining_changes_nothing_and_accepting_does() -> None:
    space = Space()
    node = space.node()
    ann = await met(node, space)
    frame = ann.evidence(Row("a", 1, 0))
    before = everything(node.state)
    verdict = examine(node.state, frame, node.now_s, node.hour)
    assert isinstance(verdict, Passed)
    assert everything(node.state) == before
    accept(node.state, verdict, 2, node.hour, verdict.stamps)
    assert fingerprint(node.state) != before[0]


async def test_accepting_what_was_stored_gives_the_state_of_live_admission() -> None:
    space = Space()
    node = space.node()
    ann, bob = await met(node, space), await met(node, space, "bob")
    old = b"o" * 16
    for number in range(1, 6):
        node.hour = float(number)
        await node.take(
            ann.blocks(f"text {number}", "shared"),
            ann.evidence(
                Row("shared", number, 0, number), Row(f"text {number}", 1, number, number, "deploy")
            ),
            bob.evidence(Row("shared", 0, 0.25, number), Row("elsewhere", 1, 1, number, incarnation=old)),
        )
    assert fingerprint(node.replayed()) == fingerprint(node.state)


async def test_the_same_frame_again_is_a_duplicate_that_changes_nothing() -> None:
    space = Space()
    node = space.node()
    ann = await met(node, space)
    frame = ann.evidence(Row("a", 1, 0))
    await node.take(frame)
    before = fingerprint(node.state)
    assert await node.take(frame) == Duplicate(ann.public)
    assert fingerprint(node.state) == before
    assert len(node.journal.log) == 2


async def test_a_frame_beyond_a_gap_waits_and_follows_when_the_gap_closes() -> None:
    space = Space()
    node = space.node()
    ann = await met(node, space)
    first, second, third = (ann.evidence(Row("a", number, 0, number)) for number in (1, 2, 3))
    assert await node.take(third) == Buffered(
        ann.public, Want(ann.public, ann.incarnation, Chain.DATA, 1, 2), kept=True
    )
    await node.take(second)
    assert masses(node.state, "a") == {}
    applied = await node.take(first)
    followed = await node.follow(applied)
    assert [type(outcome) for outcome in followed] == [Applied, Applied]
    assert masses(node.state, "a") == {ann.public: (3.0, 0.0)}
    assert node.state.intake.waiting == {}
    assert node.state.intake.waiting_bytes == 0


async def test_frames_that_come_before_their_admission_wait_for_it() -> None:
    space = Space()
    node = space.node()
    ann = space.peer("ann")
    admission = ann.admission_frame()
    outcome = await node.take(ann.evidence(Row("a", 1, 0)))
    assert outcome == Buffered(ann.public, Want(ann.public, ann.incarnation, Chain.CONTROL, 1, 1))
    applied = await node.take(admission)
    assert isinstance(applied, Applied)
    assert applied.accepted.member == ann.public
    followed = await node.follow(applied)
    assert [type(one) for one in followed] == [Applied]
    assert node.state.intake.stranger_bytes == 0


async def test_the_gap_buffer_is_bounded() -> None:
    space = Space()
    node = space.node()
    ann = await met(node, space)
    ann.evidence(Row("a", 1, 0))
    for number in range(MAX_WAITING_FRAMES):
        outcome = await node.take(ann.evidence(Row("a", number + 2, 0, number + 2)))
        assert isinstance(outcome, Buffered)
        assert outcome.kept
    outcome = await node.take(ann.evidence(Row("a", 1000, 0, 1000)))
    assert isinstance(outcome, Buffered)
    assert not outcome.kept


async def test_strangers_cannot_fill_the_gap_buffer() -> None:
    space = Space()
    node = space.node()
    text = "x" * 60_000
    kept = 0
    for number in range(30):
        outcome = await node.take(space.peer(f"stranger {number}").blocks(f"{number} {text}"))
        assert isinstance(outcome, Buffered)
        kept += outcome.kept
    assert 0 < kept < 20


async def test_frames_of_another_format_space_epoch_or_size_are_rejected() -> None:
    space, other = Space(), Space(name="other")
    node = space.node()
    ann = await met(node, space)
    assert reason_of(await node.take(bytes(MAX_FRAME_BYTES + 1))) is Reason.TOO_LARGE
    assert reason_of(await node.take(b"hello")) is Reason.NOT_A_FRAME
    assert reason_of(await node.take(other.peer("ann").admission_frame())) is Reason.UNKNOWN_SPACE
    frame = ann.signed(Kind.BLOCKS, encode_blocks(["a"]))
    assert reason_of(await node.take(seal_signed(frame, 1, EPOCH_KEY))) is Reason.UNKNOWN_EPOCH
    assert reason_of(await node.take(seal_signed(frame, 0, bytes(32)))) is Reason.SEAL_BROKEN


async def test_a_frame_cannot_be_moved_to_another_space() -> None:
    space, other = Space(), Space(name="other")
    node = space.node()
    node.enter(other)
    frame = other.peer("ann").signed(Kind.BLOCKS, encode_blocks(["a"]))
    assert frame.body is not None
    moved = seal_frame(
        EPOCH_KEY, space.id, 0, frame.header_bytes, frame.signature, frame.body, frame.header.body_hash
    )
    assert reason_of(await node.take(moved)) is Reason.MALFORMED


async def test_a_body_other_than_the_signed_one_is_rejected() -> None:
    space = Space()
    node = space.node()
    ann = await met(node, space)
    frame = ann.signed(Kind.BLOCKS, encode_blocks(["a"]))
    carried = Carried(space.id, frame.header_bytes, frame.signature, encode_blocks(["b"]))
    outcome = await admit_carried(carried, node.state, node.journal, 0, 0)
    assert reason_of(outcome) is Reason.BODY_MISMATCH


async def test_a_refused_row_refuses_its_whole_frame_and_names_field_and_sender() -> None:
    space = Space()
    node = space.node()
    ann = await met(node, space)
    body = bytearray(evidence_body([Row("a", 1, 0), Row("b", 1, 1)], ann.incarnation))
    one = ONE.to_bytes(8, "big")
    body[body.index(one) : body.index(one) + 8] = (-5 * ONE).to_bytes(8, "big", signed=True)
    before = fingerprint(node.state)
    outcome = await node.take(ann.sealed(Kind.EVIDENCE, bytes(body)))
    assert isinstance(outcome, Rejected)
    assert outcome.reason is Reason.MALFORMED
    assert outcome.origin == ann.public
    assert "evidence.alpha" in outcome.detail
    assert fingerprint(node.state) == before


async def test_what_follows_a_refused_frame_is_refused_and_not_asked_for_again() -> None:
    space = Space()
    node = space.node()
    ann = await met(node, space)
    await node.take(ann.sealed(Kind.EVIDENCE, b"\xc0"))
    outcome = await node.take(ann.evidence(Row("a", 1, 0)))
    assert isinstance(outcome, Rejected)
    assert "follows frame 1" in outcome.detail
    assert at_rest(node.state, node.space, node.now_s) == {ann.key()}
    assert node.state.intake.waiting == {}


async def test_texts_are_refused_in_a_space_that_shares_statistics_only() -> None:
    space = Space(content=False)
    node = space.node()
    ann = await met(node, space)
    assert isinstance(await node.take(space.peer("bob").admission_frame()), Applied)
    assert reason_of(await node.take(ann.blocks("a"))) is Reason.NO_CONTENT


async def test_an_invitation_admits_as_many_peers_as_it_says() -> None:
    space = Space()
    node = space.node()
    first, second, third = (space.peer(name, label="crew", uses=2) for name in ("a", "b", "c"))
    await node.meet(first, second)
    assert reason_of(await node.take(third.admission_frame())) is Reason.INVITATION_USED
    again = space.peer("a", label="crew", uses=2, incarnation=b"j" * 16)
    assert isinstance(await node.take(again.admission_frame()), Applied)
    assert set(node.space.members) == {first.public, second.public}


async def test_an_administrator_of_the_genesis_needs_no_invitation() -> None:
    space = Space()
    node = space.node()
    await node.meet(space.admin())
    assert set(node.space.members) == {space.admin().public}


async def test_an_admission_that_does_not_admit_is_rejected() -> None:
    space = Space()
    node = space.node()
    key, invited = space.invitation("ann")
    nobody = Peer(b"nobody", space.id)
    assert reason_of(await node.take(nobody.admission_frame())) is Reason.BAD_ADMISSION
    stolen = Peer(b"thief", space.id)
    stolen.admission = admission_for(invited, key, space.peer("ann").public)
    assert reason_of(await node.take(stolen.admission_frame())) is Reason.BAD_ADMISSION
    assert node.space.members == {}


async def test_a_control_frame_that_admits_nobody_can_be_followed_by_the_right_one() -> None:
    space = Space()
    node = space.node()
    ann = await met(node, space)
    assert ann.public in node.space.members
    assert at_rest(node.state, node.space, node.now_s) == set()


async def test_a_header_without_its_body_holds_the_place_and_the_body_can_come_later() -> None:
    space = Space()
    node = space.node()
    ann = await met(node, space)
    frame = ann.signed(Kind.EVIDENCE, ann.body(Row("a", 1, 0)))
    bare = Carried(space.id, frame.header_bytes, frame.signature, None)
    outcome = await admit_carried(bare, node.state, node.journal, node.now_s, node.hour)
    assert isinstance(outcome, Applied)
    assert node.space.chains[ann.key()].bodiless == {1}
    assert isinstance(await node.take(ann.evidence(Row("b", 1, 0, 2))), Applied)
    assert masses(node.state, "a") == {}
    whole = Carried(space.id, frame.header_bytes, frame.signature, frame.body)
    assert isinstance(await admit_carried(whole, node.state, node.journal, node.now_s, node.hour), Applied)
    assert masses(node.state, "a") == {ann.public: (1.0, 0.0)}
    assert node.space.chains[ann.key()].bodiless == set()
    assert isinstance(await admit_carried(whole, node.state, node.journal, 0, 0), Duplicate)
    replayed, live = fingerprint(node.replayed()), fingerprint(node.state)
    assert replayed["spaces"] == live["spaces"]  # rows are numbered in another order, nothing else differs
    assert masses(node.replayed(), "b") == masses(node.state, "b")


async def test_a_frame_whose_rows_are_all_superseded_is_reported_dead() -> None:
    space = Space()
    node = space.node()
    ann = await met(node, space)
    first = await node.take(ann.evidence(Row("a", 1, 0)))
    second = await node.take(ann.evidence(Row("a", 2, 0, 2)))
    assert isinstance(first, Applied)
    assert isinstance(second, Applied)
    assert second.accepted.frames_dead == [first.frame]


async def test_a_journal_that_fails_changes_nothing() -> None:
    space = Space()
    node = space.node()
    ann = await met(node, space)
    await node.take(ann.blocks("a"))
    frame = ann.evidence(Row("a", 1, 0))
    before = everything(node.state)
    node.journal.fail = OSError("disk full")
    with pytest.raises(OSError, match="disk full"):
        await node.take(frame)
    assert everything(node.state) == before
    node.journal.fail = None
    assert isinstance(await node.take(frame), Applied)


async def test_the_journal_is_told_rows_hour_and_stamps_before_the_state_changes() -> None:
    space = Space()
    node = space.node()
    ann = await met(node, space)
    node.hour = 7.0
    applied = await node.take(ann.evidence(Row("a", 1, 0), Row("b", 0.25, 0)))
    assert isinstance(applied, Applied)
    _, placement = node.journal.log[-1]
    assert placement.hour == 7.0
    assert sorted(placement.stamps.tolist()) == [-np.inf, 7.0]
    np.testing.assert_array_equal(placement.stamps, applied.accepted.stamps)
    assert node.state.index.ids(placement.rows.tolist()) == applied.passed.ids


async def test_two_frames_at_once_are_a_mistake_of_the_caller() -> None:
    space = Space()
    node = space.node()
    ann = await met(node, space)
    node.state.intake.busy = True
    with pytest.raises(RuntimeError, match="one after another"):
        await node.take(ann.blocks("a"))


async def test_messages_do_not_enter_the_funnel() -> None:
    space = Space()
    node = space.node()
    frame = compose(
        Identity.from_seed(bytes(32)), space=space.id, incarnation=b"i" * 16, kind=Kind.HEAD, body=b"",
        time_ms=TIME_MS,
    )  # fmt: skip
    assert reason_of(await node.take(seal_signed(frame, 0, EPOCH_KEY))) is Reason.WRONG_CHAIN


async def test_a_peer_has_a_bounded_number_of_incarnations_registers_and_contexts() -> None:
    space = Space()
    node = space.node(budgets=Budgets(max_registers=2))
    ann, bob = await met(node, space), await met(node, space, "bob")
    rows = [Row("a", 1, 0, incarnation=bytes([number]) * 16) for number in range(1, 65)]
    outcome = await node.take(ann.evidence(*rows[:3]))
    assert reason_of(outcome) is Reason.TOO_MANY_REGISTERS
    node = space.node()
    await node.meet(space.peer("ann"), space.peer("bob"))
    ann = space.peer("ann")
    assert reason_of(await node.take(ann.evidence(*rows))) is Reason.TOO_MANY_INCARNATIONS
    labels = [Row("a", 1, 0, context=f"label {number}") for number in range(40)]
    bob = space.peer("bob")
    assert isinstance(await node.take(bob.evidence(*labels)), Applied)
    more = [Row("a", 1, 0, 2, context=f"other {number}") for number in range(25)]
    elsewhere = [Row("b", 1, 0, 2, context=f"other {number}") for number in range(25)]
    before = fingerprint(node.state)
    frame = bob.signed(Kind.EVIDENCE, bob.body(*more), number=2)
    assert reason_of(await node.take(seal_signed(frame, 0, EPOCH_KEY))) is Reason.TOO_MANY_CONTEXTS
    assert fingerprint(node.state) == before
    assert isinstance(await node.take(bob.evidence(*elsewhere)), Applied)


async def test_every_outcome_is_counted_for_its_origin() -> None:
    space = Space()
    node = space.node()
    ann = await met(node, space)
    frame = ann.blocks("a")
    await node.take(frame, frame, b"junk")
    tally = node.state.intake.tally
    assert tally[space.id, ann.public] == {"applied": 2, "duplicate": 1}
    assert tally[b"", b""] == {f"rejected: {Reason.NOT_A_FRAME.value}": 1}


async def test_a_large_frame_goes_through_whole() -> None:
    space = Space()
    node = space.node()
    await node.take(space.peer("ann").admission_frame())
    peer = space.peer("ann", incarnation=b"j" * 16)
    ids = [bytes([1 + a, b]) * 16 for a in range(8) for b in range(256)]
    applied = await node.take(peer.sealed(Kind.EVIDENCE, many_rows(ids, incarnation=peer.incarnation)))
    assert isinstance(applied, Applied)
    assert len(node.state.registers) == len(ids)
    assert node.state.registers.count(node.state.registers.sources[0]) == len(ids)


def test_a_feed_key_orders_by_origin_incarnation_and_chain() -> None:
    keys = [
        FeedKey(b"b", b"a", Chain.DATA),
        FeedKey(b"a", b"b", Chain.CONTROL),
        FeedKey(b"a", b"b", Chain.DATA),
    ]
    assert sorted(keys) == [keys[2], keys[1], keys[0]]
