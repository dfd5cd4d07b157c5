"""Heads, requests and replies: who is behind, by what, and that repair needs nobody in particular."""

from contextlib import suppress
from hashlib import sha256

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loremesh.sync.content import block_id
from loremesh.sync.errors import InvalidInput, Malformed
from loremesh.sync.feed import FeedKey, HeldChain, Position, Want
from loremesh.sync.fixed import ONE
from loremesh.sync.funnel import admit_carried, at_rest
from loremesh.sync.messages import Message, open_message, seal_message
from loremesh.sync.opening import Carried
from loremesh.sync.outcomes import Applied, Reason, Rejected
from loremesh.sync.outgoing import Statement, block_bodies, evidence_bodies
from loremesh.sync.repair import (
    MAX_WANTS,
    HeadBody,
    Known,
    ReplyBody,
    RequestBody,
    behind,
    bodies_missing,
    decode_head,
    decode_reply,
    decode_request,
    encode_message,
    frames_for,
    head,
    live_rows,
    positions,
    replies,
    vector_hash,
    vector_pages,
)
from loremesh.sync.wire import MAX_BODY_BYTES, MAX_MESSAGE_BODY_BYTES, Chain, Kind, SignedFrame
from tests.sync.world import TIME_MS, Node, Row, Space, columns, masses


async def serve(asker: Node, holder: Node, wants: list[Want]) -> list[object]:
    """One request and its answer, through real messages' bodies."""
    request = decode_request(encode_message(RequestBody(wants)))
    frames = await frames_for(holder.journal, holder.space.space, request.wants, 10_000_000)
    outcomes: list[object] = []
    for reply in replies(frames):
        for frame in decode_reply(encode_message(reply)).frames:
            carried = Carried(asker.space.space, frame.header, frame.signature, frame.body)
            done = await admit_carried(carried, asker.state, asker.journal, asker.now_s, asker.hour)
            outcomes += [done]
            outcomes += await asker.follow(done)
    return outcomes


def owed(node: Node, remote: Node) -> list[Want]:
    skip = at_rest(node.state, node.space, node.now_s)
    known = vector_pages(remote.state, remote.space)[0].vector
    return behind(node.space.chains, known, remote.state.own, skip)


async def test_a_node_that_missed_frames_gets_them_from_any_holder() -> None:
    space = Space()
    holder, late = space.node(b"holder"), space.node(b"late")
    ann = space.peer("ann")
    await holder.meet(ann)
    for number in range(1, 8):
        await holder.take(
            ann.blocks(f"text {number}"), ann.evidence(Row(f"text {number}", number, 0, number))
        )
    wants = owed(late, holder)
    assert wants == [
        Want(ann.public, ann.incarnation, Chain.DATA, 1, 14),
        Want(ann.public, ann.incarnation, Chain.CONTROL, 1, 1),
    ]
    await serve(late, holder, wants)
    await serve(late, holder, owed(late, holder))
    assert owed(late, holder) == []
    assert positions(late.state, late.space) == positions(holder.state, holder.space)
    key = ann.key()
    assert live_rows(late.state, late.space, key) == live_rows(holder.state, holder.space, key)
    assert masses(late.state, "text 7") == masses(holder.state, "text 7")


async def test_a_head_says_where_own_chains_end_and_what_changed_since_the_last() -> None:
    space = Space()
    node = space.node()
    ann, bob = space.peer("ann"), space.peer("bob")
    await node.meet(ann, bob)
    await node.take(ann.evidence(Row("a", 1, 0)))
    first = head(node.state, node.space, {})
    assert first.feeds == []
    assert {known.origin for known in first.changed} == {ann.public, bob.public}
    since = positions(node.state, node.space)
    assert head(node.state, node.space, since).changed == []
    await node.take(ann.evidence(Row("b", 1, 0, 2)))
    [changed] = head(node.state, node.space, since).changed
    assert (changed.origin, changed.number) == (ann.public, 2)
    assert changed.hash == node.space.position(ann.key()).hash


async def test_a_head_counts_and_digests_the_live_rows_of_own_chains() -> None:
    space = Space()
    node = space.node(b"ann")
    ann = space.peer("ann")
    node.state.own, node.state.incarnation = ann.public, b"later" + bytes(11)
    await node.meet(ann)
    await node.take(ann.evidence(Row("a", 1, 0), Row("b", 1, 0)), ann.evidence(Row("a", 2, 0, 2)))
    feeds = {feed.chain: feed for feed in head(node.state, node.space, {}).feeds}
    assert feeds[Chain.DATA].live == 2
    assert (feeds[Chain.DATA].live, feeds[Chain.DATA].digest) == live_rows(node.state, node.space, ann.key())
    assert feeds[Chain.CONTROL].live == 0
    other = space.node()
    await other.meet(space.peer("ann"))
    again = space.peer("ann")
    await other.take(again.evidence(Row("a", 1, 0), Row("b", 1, 0)), again.evidence(Row("a", 3, 0, 2)))
    assert live_rows(other.state, other.space, ann.key())[1] != feeds[Chain.DATA].digest


@given(st.permutations(range(6)))
def test_the_vector_hash_does_not_depend_on_order_and_tells_positions_apart(order: list[int]) -> None:
    at = {
        FeedKey(bytes([number]) * 32, b"i" * 16, Chain(number % 2)): Position(
            number + 1, bytes([number]) * 32
        )
        for number in range(6)
    }
    shuffled = {key: at[key] for key in [list(at)[number] for number in order]}
    assert vector_hash(shuffled) == vector_hash(at)
    moved = dict(at)
    moved[next(iter(at))] = Position(9, b"x" * 32)
    assert vector_hash(moved) != vector_hash(at)


def test_the_vector_hash_has_this_value() -> None:
    at = {FeedKey(b"o" * 32, b"i" * 16, Chain.DATA): Position(258, b"h" * 32)}
    text = (
        b"loremesh/1/vector\0" + b"o" * 32 + b"i" * 16 + b"\0" + bytes.fromhex("0000000000000102") + b"h" * 32
    )
    assert vector_hash(at) == sha256(text).digest()


async def test_another_hash_at_a_number_that_is_held_asks_for_the_proof() -> None:
    space = Space()
    node, other = space.node(b"one"), space.node(b"two")
    ann, copy = space.peer("ann"), space.peer("ann")
    await node.meet(ann)
    await other.meet(copy)
    await node.take(ann.evidence(Row("a", 1, 0)), ann.evidence(Row("a", 2, 0, 2)))
    await other.take(copy.evidence(Row("a", 9, 0)))
    assert owed(node, other) == [Want(ann.public, ann.incarnation, Chain.DATA, 1, 1)]
    [outcome] = await serve(node, other, owed(node, other))
    assert isinstance(outcome, Rejected)
    assert outcome.reason is Reason.FORK
    assert owed(node, node) == []


async def test_nobody_is_asked_for_chains_at_rest_or_for_what_is_held() -> None:
    held: dict[FeedKey, HeldChain] = {}
    known = [Known(b"o" * 32, b"i" * 16, Chain.DATA, 5, b"h" * 32)]
    key = FeedKey(b"o" * 32, b"i" * 16, Chain.DATA)
    assert behind(held, known, b"x" * 32, ()) == [Want(b"o" * 32, b"i" * 16, Chain.DATA, 1, 5)]
    assert behind(held, known, b"x" * 32, {key}) == []
    many = [Known(bytes([n % 256, n // 256]) * 16, b"i" * 16, Chain.DATA, 5, b"h" * 32) for n in range(600)]
    assert len(behind(held, many, b"x" * 32, ())) == MAX_WANTS


async def test_bodies_that_a_pruned_holder_lacked_are_asked_for_when_the_origin_has_more() -> None:
    space = Space()
    origin, late = space.node(b"origin"), space.node(b"late")
    ann = space.peer("ann")
    origin.state.own, origin.state.incarnation = ann.public, b"later" + bytes(11)
    await origin.meet(ann)
    frames = [
        ann.signed(Kind.EVIDENCE, ann.body(Row(f"text {number}", 1, 0, number))) for number in range(1, 4)
    ]
    for frame in frames:
        carried = Carried(space.id, frame.header_bytes, frame.signature, frame.body)
        await admit_carried(carried, origin.state, origin.journal, 0, 0)
    await late.take(space.peer("ann").admission_frame())
    for frame in frames[:2]:
        bare = Carried(space.id, frame.header_bytes, frame.signature, None)
        await admit_carried(bare, late.state, late.journal, 0, 0)
    whole = Carried(space.id, frames[2].header_bytes, frames[2].signature, frames[2].body)
    await admit_carried(whole, late.state, late.journal, 0, 0)
    data = next(feed for feed in head(origin.state, origin.space, {}).feeds if feed.chain is Chain.DATA)
    wants = bodies_missing(late.state, late.space, ann.public, data)
    assert wants == [Want(ann.public, ann.incarnation, Chain.DATA, 1, 2)]
    outcomes = await serve(late, origin, wants)
    assert all(isinstance(outcome, Applied) for outcome in outcomes)
    assert bodies_missing(late.state, late.space, ann.public, data) == []
    assert live_rows(late.state, late.space, ann.key()) == (data.live, data.digest)


async def test_a_message_comes_from_a_member_or_not_at_all() -> None:
    space = Space()
    node = space.node()
    ann, nobody = space.peer("ann"), space.peer("nobody")
    await node.meet(ann)
    content = RequestBody([Want(ann.public, ann.incarnation, Chain.DATA, 1, 3)], vector=True)
    sealed = seal_message(ann.identity, node.space, ann.incarnation, content, TIME_MS)
    message = open_message(node.state, sealed)
    assert isinstance(message, Message)
    assert (message.origin, message.content) == (ann.public, content)
    stranger = seal_message(nobody.identity, node.space, ann.incarnation, content, TIME_MS)
    rejected = open_message(node.state, stranger)
    assert isinstance(rejected, Rejected)
    assert rejected.reason is Reason.NOT_A_MEMBER
    frame = open_message(node.state, ann.blocks("a"))
    assert isinstance(frame, Rejected)
    assert frame.reason is Reason.WRONG_CHAIN


async def test_a_message_with_a_bad_body_is_rejected_and_names_its_signer() -> None:
    space = Space()
    node = space.node()
    ann = space.peer("ann")
    await node.meet(ann)
    content = RequestBody([Want(ann.public, ann.incarnation, Chain.DATA, 1, 3)])
    sealed = bytearray(seal_message(ann.identity, node.space, ann.incarnation, content, TIME_MS))
    sealed[-1] ^= 1
    assert isinstance(open_message(node.state, bytes(sealed)), Rejected)


@pytest.mark.parametrize(
    "body",
    [
        RequestBody([Want(b"o" * 32, b"i" * 16, Chain.DATA, 3, 2)]),
        RequestBody([Want(b"o" * 32, b"i" * 16, Chain.DATA, 0, 2)]),
        RequestBody([Want(b"o" * 31, b"i" * 16, Chain.DATA, 1, 2)]),
        RequestBody([Want(b"o" * 32, b"i" * 16, Chain.NONE, 1, 2)]),
        RequestBody([Want(b"o" * 32, b"i" * 16, Chain.DATA, 1, 2)] * (MAX_WANTS + 1)),
        HeadBody([], [Known(b"o" * 32, b"i" * 16, Chain.DATA, 1, b"h")], bytes(32)),
        HeadBody([], [], bytes(31)),
    ],
)
def test_a_message_out_of_bounds_is_neither_sent_nor_read(body: HeadBody | RequestBody) -> None:
    with pytest.raises(InvalidInput):
        encode_message(body)
    decode = decode_head if isinstance(body, HeadBody) else decode_request
    with pytest.raises(Malformed):
        decode(msgspec.msgpack.encode(body))


@settings(max_examples=300)
@given(st.binary(max_size=150))
def test_arbitrary_bytes_decode_as_a_message_or_are_malformed(data: bytes) -> None:
    for decode in (decode_head, decode_request, decode_reply):
        with suppress(Malformed):
            decode(data)


def test_a_head_with_everything_at_its_bound_fits_a_message() -> None:
    known = [Known(b"o" * 32, b"i" * 16, Chain.CONTROL, 2**63 - 1, b"h" * 32)]
    page = HeadBody([], [], bytes(32), known * 1024)
    assert len(encode_message(page)) <= MAX_MESSAGE_BODY_BYTES


def test_replies_hold_the_largest_frame_and_cut_where_full() -> None:
    space = Space()
    ann = space.peer("ann")
    frames = [ann.signed(Kind.BLOCKS, bytes(MAX_BODY_BYTES)) for _ in range(3)]
    bodies = replies(frames)
    assert [len(reply.frames) for reply in bodies] == [1, 1, 1]
    assert all(len(encode_message(reply)) <= MAX_MESSAGE_BODY_BYTES for reply in bodies)
    bare = [SignedFrame(frame.header, frame.header_bytes, frame.signature, None) for frame in frames] * 400
    assert sum(len(reply.frames) for reply in replies(bare)) == len(bare)
    assert all(len(encode_message(reply)) <= MAX_MESSAGE_BODY_BYTES for reply in replies(bare))
    assert replies([]) == [ReplyBody([])]


def test_own_registers_are_cut_into_bodies_that_receivers_take() -> None:
    ids = [block_id(f"text {number}") for number in range(700)]
    labels = [["", "a", "b"][row // 700] for row in range(2100)]
    statement = Statement(
        ids * 3, labels, [b"i" * 16] * 2100,
        columns(2100, ONE), columns(2100, 0), np.full(2100, 24.0), columns(2100, 1),
    )  # fmt: skip
    bodies = evidence_bodies(statement)
    assert len(bodies) == 2
    assert all(len(body) <= MAX_BODY_BYTES for body in bodies)


async def test_own_registers_come_out_at_the_receiver_as_they_went_in() -> None:
    space = Space()
    node = space.node()
    ann = space.peer("ann")
    await node.meet(ann)
    rows = [Row(f"text {number % 50}", number, 1, 1, f"label {number // 50}") for number in range(500)]
    statement = Statement(
        [row.id for row in rows], [row.context for row in rows], [ann.incarnation] * 500,
        columns(500, ONE), columns(500, ONE), np.full(500, 24.0), columns(500, 1),
    )  # fmt: skip
    for body in evidence_bodies(statement):
        assert isinstance(await node.take(ann.sealed(Kind.EVIDENCE, body)), Applied)
    assert masses(node.state, "text 7") == {ann.public: (10.0, 10.0)}


def test_a_register_stated_twice_is_refused_by_the_sender() -> None:
    statement = Statement(
        [block_id("a")] * 2, [""] * 2, [b"i" * 16] * 2,
        columns(2, ONE), columns(2, 0), np.full(2, 24.0), columns(2, 1),
    )  # fmt: skip
    with pytest.raises(InvalidInput, match="each once"):
        evidence_bodies(statement)


def test_texts_are_cut_into_bodies_that_fit_each_block_once() -> None:
    texts = [f"{number} " + "é" * 20_000 for number in range(30)] + ["a", " a "]
    bodies = block_bodies(texts)
    assert all(len(body) <= MAX_BODY_BYTES for body in bodies)
    found = [text for body in bodies for text in msgspec.msgpack.decode(body)[0]]
    assert found == texts[:-1]
    assert block_bodies([]) == []


async def test_two_nodes_that_got_the_same_frames_in_other_orders_hold_the_same() -> None:
    space = Space()
    ann, bob = space.peer("ann"), space.peer("bob")
    admissions = [ann.admission_frame(), bob.admission_frame()]
    frames: list[bytes] = []
    for number in range(1, 5):
        frames += [ann.evidence(Row("a", number, 0, number)), bob.evidence(Row("a", 0, number, number))]
    forwards, backwards = space.node(b"one"), space.node(b"two")
    for sealed in admissions + frames:
        await forwards.take(sealed)
    for sealed in list(reversed(frames)) + admissions:
        done = await backwards.take(sealed)
        await backwards.follow(done)
    assert masses(backwards.state, "a") == masses(forwards.state, "a")
    assert positions(backwards.state, backwards.space) == positions(forwards.state, forwards.space)
