"""The funnel under arbitrary and altered bytes: nothing raises, nothing passes, nothing changes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from loremesh.sync.funnel import (
    admit,
    admit_carried,
    examine,
)
from loremesh.sync.opening import Carried
from loremesh.sync.outcomes import (
    Rejected,
)
from loremesh.sync.wire import Kind
from tests.sync.world import (
    Row,
    Space,
    everything,
    fingerprint,
)

SPACE = Space()
ANN = SPACE.peer("ann")
ADMISSION = ANN.admission_frame()
EVIDENCE = ANN.evidence(Row("a", 1, 0), Row("b", 2, 1, context="deploy"))


async def fuzzed(sealed: bytes) -> None:
    node = SPACE.node()
    await node.take(ADMISSION)
    before = everything(node.state)
    assert isinstance(examine(node.state, sealed, node.now_s, node.hour), Rejected)
    assert everything(node.state) == before
    outcome = await admit(sealed, node.state, node.journal, node.now_s, node.hour)
    assert isinstance(outcome, Rejected)
    assert fingerprint(node.state) == before[0]
    assert len(node.journal.log) == 1


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=400))
async def test_arbitrary_bytes_are_rejected_and_change_nothing(data: bytes) -> None:
    await fuzzed(data)


@settings(max_examples=150, deadline=None)
@given(at=st.integers(0, len(EVIDENCE) - 1), flip=st.integers(1, 255))
async def test_a_changed_byte_is_rejected_and_changes_nothing(at: int, flip: int) -> None:
    changed = bytearray(EVIDENCE)
    changed[at] ^= flip
    await fuzzed(bytes(changed))


@settings(max_examples=50, deadline=None)
@given(end=st.integers(0, len(EVIDENCE) - 1), more=st.binary(max_size=8))
async def test_a_cut_frame_is_rejected_and_changes_nothing(end: int, more: bytes) -> None:
    if EVIDENCE[:end] + more != EVIDENCE:
        await fuzzed(EVIDENCE[:end] + more)


@settings(max_examples=150, deadline=None)
@given(body=st.binary(max_size=300), kind=st.sampled_from([Kind.EVIDENCE, Kind.BLOCKS, Kind.ADMISSION]))
async def test_a_well_signed_frame_of_arbitrary_bytes_is_rejected(body: bytes, kind: Kind) -> None:
    peer = SPACE.peer("ann", incarnation=b"j" * 16)
    await fuzzed(peer.sealed(kind, body))


@settings(max_examples=100, deadline=None)
@given(data=st.data())
async def test_changed_parts_of_a_carried_frame_never_raise_and_never_pass(data: st.DataObject) -> None:
    node = SPACE.node()
    await node.take(ADMISSION)
    peer = SPACE.peer("ann", incarnation=b"j" * 16)
    frame = peer.signed(Kind.EVIDENCE, peer.body(Row("a", 1, 0)))
    assert frame.body is not None
    parts = [frame.header_bytes, frame.signature, frame.body]
    which = data.draw(st.integers(0, 2))
    at = data.draw(st.integers(0, len(parts[which]) - 1))
    changed = bytearray(parts[which])
    changed[at] ^= data.draw(st.integers(1, 255))
    parts[which] = bytes(changed)
    before = fingerprint(node.state)
    outcome = await admit_carried(
        Carried(SPACE.id, parts[0], parts[1], parts[2]), node.state, node.journal, node.now_s, node.hour
    )
    assert isinstance(outcome, Rejected)
    assert fingerprint(node.state) == before
