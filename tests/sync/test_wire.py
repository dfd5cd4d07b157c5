"""The wire format: golden bytes, round trips, and what is refused."""

from contextlib import suppress
from hashlib import sha256

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loremesh.crypto.frames import open_frame
from loremesh.crypto.identity import Identity, verify
from loremesh.sync.bodies import (
    MAX_FRAME_CONTEXTS,
    MAX_FRAME_INCARNATIONS,
    MAX_ROWS,
    Evidence,
    decode_blocks,
    decode_evidence,
    encode_blocks,
    encode_evidence,
)
from loremesh.sync.content import block_id
from loremesh.sync.errors import InvalidInput, Malformed
from loremesh.sync.fixed import MAX_FX, ONE
from loremesh.sync.wire import (
    CHAIN_OF,
    HEADER_BYTES,
    MAX_BODY_BYTES,
    MAX_FRAME_BYTES,
    MAX_MESSAGE_BODY_BYTES,
    NO_HASH,
    Chain,
    Header,
    Kind,
    compose,
    decode_header,
    encode_header,
    header_hash,
    seal_signed,
)

SPACE, KEY = bytes(range(32)), bytes(range(32, 64))
GOLDEN_HEADER = (
    "010100"  # format, kind evidence, chain data
    "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"  # space
    "6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f6f"  # origin
    "69696969696969696969696969696969"  # incarnation
    "0000000000000102"  # number
    "7070707070707070707070707070707070707070707070707070707070707070"  # previous
    "0000019774" "20dc00"  # time
    "6262626262626262626262626262626262626262626262626262626262626262"  # body hash
)  # fmt: skip
GOLDEN_EVIDENCE = (
    "9a"  # ten columns
    "c440" + "11" * 32 + "22" * 32 +  # ids
    "92a0" "a66465706c6f79"  # contexts: '', deploy
    "c410" + "69" * 16 +  # incarnations
    "c406" "000000000001"  # block, u16
    "c403" "000100"  # context, u8
    "c403" "000000"  # incarnation, u8
    "c418" "0000000000018000" "0000000000000000" "0000001000000000"  # alpha: 1.5, 0, 2²⁰
    "c418" "0000000000008000" "0000000000010000" "0000000000000000"  # beta: 0.5, 1, 0
    "c418" "4038000000000000" "4003333333333333" "0000000000000000"  # stability: 24, 2.4, 0
    "c418" "0000000000000001" "0000000000000007" "7fffffffffffffff"  # version
)  # fmt: skip


def golden_evidence() -> Evidence:
    return Evidence(
        [b"\x11" * 32, b"\x22" * 32], ["", "deploy"], [b"i" * 16],
        np.array([0, 0, 1]), np.array([0, 1, 0]), np.array([0, 0, 0]),
        np.array([98304, 0, MAX_FX]), np.array([32768, ONE, 0]),
        np.array([24.0, 2.4, 0.0]), np.array([1, 7, 2**63 - 1]),
    )  # fmt: skip


def header(**changes: object) -> Header:
    values = {
        "format": 1, "kind": Kind.EVIDENCE, "chain": Chain.DATA, "space": SPACE, "origin": b"o" * 32,
        "incarnation": b"i" * 16, "number": 258, "previous": b"p" * 32, "time_ms": 1_750_000_000_000,
        "body_hash": b"b" * 32,
    }  # fmt: skip
    return Header(**{**values, **changes})  # type: ignore[arg-type]


def test_a_header_has_these_bytes() -> None:
    assert encode_header(header()).hex() == GOLDEN_HEADER
    assert decode_header(bytes.fromhex(GOLDEN_HEADER)) == header()
    assert HEADER_BYTES == 163


def test_evidence_has_these_bytes() -> None:
    assert encode_evidence(golden_evidence()).hex() == GOLDEN_EVIDENCE
    assert_same(decode_evidence(bytes.fromhex(GOLDEN_EVIDENCE)), golden_evidence())


def test_blocks_have_these_bytes() -> None:
    body = encode_blocks(["a", "é"])
    assert body.hex() == "9192a161a2c3a9"
    assert decode_blocks(body).ids == [block_id("a"), block_id("é")]


def test_a_sealed_frame_has_these_bytes() -> None:
    identity = Identity.from_seed(bytes(32))
    frame = compose(
        identity, space=SPACE, incarnation=b"i" * 16, kind=Kind.BLOCKS, body=encode_blocks(["a"]),
        time_ms=1_750_000_000_000, number=1,
    )  # fmt: skip
    sealed = seal_signed(frame, 3, KEY)
    assert len(sealed) == 317 + len(b"\x91\x91\xa1a")
    assert sha256(sealed).hexdigest() == "8529a33dbda9ccbb6f4905c5b1214af793951c9853925965589ddd44da510ebe"
    opened = open_frame(sealed, lambda space, epoch: KEY if (space, epoch) == (SPACE, 3) else None)
    assert (opened.header, opened.signature, opened.body) == (frame.header_bytes, frame.signature, frame.body)
    verify(identity.public, "frame", frame.header_bytes, frame.signature)


def test_the_next_frame_names_the_sha256_of_the_header() -> None:
    assert header_hash(b"header") == sha256(b"header").digest()


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("header.format", {"format": 2}),
        ("header.kind", {"kind": 3}),
        ("header.chain", {"chain": Chain.CONTROL}),
        ("header.chain", {"kind": Kind.HEAD}),
        ("header.number", {"number": 0, "previous": NO_HASH}),
        ("header.number", {"number": 2**63}),
        ("header.previous", {"number": 1}),
        ("header.previous", {"previous": NO_HASH}),
        ("header.number", {"kind": Kind.HEAD, "chain": Chain.NONE, "number": 1, "previous": NO_HASH}),
        ("header.time_ms", {"time_ms": 2**63}),
    ],
)
def test_a_header_that_contradicts_itself_is_refused(field: str, changes: dict[str, object]) -> None:
    with pytest.raises(Malformed) as caught:
        decode_header(encode_header(header(**changes)))
    assert caught.value.field == field


@pytest.mark.parametrize("length", [0, 162, 164])
def test_a_header_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(Malformed, match=f"{length} bytes"):
        decode_header(bytes(length))


def test_every_kind_belongs_to_one_chain() -> None:
    assert set(CHAIN_OF) == set(Kind)


def test_a_frame_of_the_largest_body_fits_the_bus_and_a_reply() -> None:
    assert MAX_MESSAGE_BODY_BYTES + 317 == MAX_FRAME_BYTES
    assert MAX_BODY_BYTES + HEADER_BYTES + 64 + 32 <= MAX_MESSAGE_BODY_BYTES


def test_an_evidence_body_with_every_table_full_fits_a_frame() -> None:
    label_bytes = MAX_FRAME_CONTEXTS * (64 * 4 + 3)
    assert MAX_ROWS * 68 + label_bytes + MAX_FRAME_INCARNATIONS * 16 + 64 <= MAX_BODY_BYTES


def test_composing_refuses_a_body_over_the_bound() -> None:
    identity = Identity.from_seed(bytes(32))
    with pytest.raises(InvalidInput, match=r"body has .* split it"):
        compose(
            identity, space=SPACE, incarnation=b"i" * 16, kind=Kind.BLOCKS, body=bytes(MAX_BODY_BYTES + 1),
            time_ms=0, number=1,
        )  # fmt: skip


@pytest.mark.parametrize(
    "wrong", [{"space": b"s"}, {"incarnation": b"i" * 17}, {"number": 0}, {"time_ms": -1}]
)
def test_composing_refuses_what_no_receiver_would_take(wrong: dict[str, object]) -> None:
    arguments: dict[str, object] = {
        "space": SPACE, "incarnation": b"i" * 16, "kind": Kind.BLOCKS, "body": b"", "time_ms": 0, "number": 1,
    }  # fmt: skip
    with pytest.raises(InvalidInput, match="header"):
        compose(Identity.from_seed(bytes(32)), **{**arguments, **wrong})  # type: ignore[arg-type]


rows = st.dictionaries(
    st.tuples(st.integers(1, 5), st.sampled_from(["", "a", "deploy", "é"]), st.integers(0, 2)),
    st.tuples(
        st.integers(0, MAX_FX // 2),
        st.integers(0, MAX_FX // 2),
        st.floats(0, 1e300),
        st.integers(1, 2**63 - 1),
    ),
    min_size=1,
    max_size=20,
)
Rows = dict[tuple[int, str, int], tuple[int, int, float, int]]


def evidence_of(chosen: Rows) -> Evidence:
    keys = sorted(chosen)
    ids = sorted({bytes([key[0]]) * 32 for key in keys})
    labels = sorted({key[1] for key in keys})
    incarnations = sorted({bytes([key[2]]) * 16 for key in keys})
    return Evidence(
        ids, labels, incarnations,
        np.array([ids.index(bytes([block]) * 32) for block, _, _ in keys]),
        np.array([labels.index(label) for _, label, _ in keys]),
        np.array([incarnations.index(bytes([one]) * 16) for _, _, one in keys]),
        *(np.array([chosen[key][column] for key in keys]) for column in range(4)),
    )  # fmt: skip


@given(rows)
def test_evidence_comes_back_as_it_was(chosen: Rows) -> None:
    evidence = evidence_of(chosen)
    assert_same(decode_evidence(encode_evidence(evidence)), evidence)


def assert_same(one: Evidence, other: Evidence) -> None:
    assert (one.ids, one.contexts, one.incarnations) == (other.ids, other.contexts, other.incarnations)
    for name in ("block", "context", "incarnation", "alpha", "beta", "stability_h", "version"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.stability_h.tobytes() == other.stability_h.tobytes()


def changed(**columns: object) -> Evidence:
    golden = golden_evidence()
    values = {name: getattr(golden, name) for name in golden.__struct_fields__}
    return Evidence(**{**values, **columns})


@pytest.mark.parametrize(
    ("field", "columns"),
    [
        ("evidence.alpha", {"alpha": np.array([-1, 0, 0])}),
        ("evidence.alpha", {"alpha": np.array([MAX_FX + 1, 0, 0])}),
        ("evidence.beta", {"beta": np.array([0, 2**62, 0])}),
        ("evidence.alpha", {"beta": np.array([0, 0, 1])}),
        ("evidence.stability_h", {"stability_h": np.array([1.0, np.nan, 1.0])}),
        ("evidence.stability_h", {"stability_h": np.array([1.0, np.inf, 1.0])}),
        ("evidence.stability_h", {"stability_h": np.array([1.0, -1.0, 1.0])}),
        ("evidence.stability_h", {"stability_h": np.array([1.0, -0.0, 1.0])}),
        ("evidence.version", {"version": np.array([0, 1, 1])}),
        ("evidence.block", {"context": np.array([1, 0, 0])}),
        ("evidence.block", {"context": np.array([1, 1, 0])}),
        ("evidence.ids", {"block": np.array([0, 0, 2])}),
        ("evidence.ids", {"block": np.array([0, 0, 0])}),
        ("evidence.ids", {"ids": [b"\x22" * 32, b"\x11" * 32]}),
        ("evidence.ids", {"ids": [b"\x11" * 32, b"\x11" * 32]}),
        ("evidence.ids", {"ids": [b"\x11" * 31, b"\x22" * 32]}),
        ("evidence.ids", {"ids": [bytes(32), b"\x22" * 32]}),
        ("evidence.incarnations", {"incarnations": [b"i" * 15]}),
        ("evidence.contexts", {"contexts": ["", " deploy"]}),
        ("evidence.contexts", {"contexts": ["", "x" * 65]}),
        ("evidence.contexts", {"contexts": ["", "e\u0301"]}),
        ("evidence", {"alpha": np.array([1, 1])}),
        ("evidence", {name: np.array([], np.int64) for name in ("block", "context", "incarnation")}),
    ],
)
def test_a_row_out_of_bounds_is_refused_by_its_field(field: str, columns: dict[str, object]) -> None:
    with pytest.raises(InvalidInput) as caught:
        encode_evidence(changed(**columns))
    assert caught.value.field == field


def test_a_block_has_at_most_64_contexts_in_a_frame() -> None:
    def with_contexts(count: int) -> Evidence:
        n = np.zeros(count, np.int64)
        labels = [f"{number:03}" for number in range(count)]
        return Evidence([b"b" * 32], labels, [b"i" * 16], n, np.arange(count), n, n, n, np.ones(count), n + 1)

    assert len(decode_evidence(encode_evidence(with_contexts(64))).block) == 64
    with pytest.raises(InvalidInput, match="contexts of one block"):
        encode_evidence(with_contexts(65))


@pytest.mark.parametrize("at", range(10))
def test_a_column_of_another_length_is_refused(at: int) -> None:
    columns = msgspec.msgpack.decode(bytes.fromhex(GOLDEN_EVIDENCE))
    columns[at] = columns[at][:-1]
    with pytest.raises(Malformed, match="evidence"):
        decode_evidence(msgspec.msgpack.encode(columns))


@pytest.mark.parametrize("texts", [[], ["a", " a "], ["a", ""], ["a\0"], ["é" * 40_000]])
def test_texts_that_are_no_blocks_are_refused(texts: list[str]) -> None:
    with pytest.raises(Malformed, match="blocks"):
        decode_blocks(msgspec.msgpack.encode([texts]))
    with pytest.raises(InvalidInput, match="blocks"):
        encode_blocks(texts)


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_arbitrary_bytes_decode_or_are_malformed(data: bytes) -> None:
    for decode in (decode_evidence, decode_blocks, decode_header):
        with suppress(Malformed):
            decode(data)


@settings(max_examples=300)
@given(st.integers(0, len(GOLDEN_EVIDENCE) // 2 - 1), st.integers(1, 255))
def test_a_changed_byte_of_evidence_is_malformed_or_still_in_bounds(at: int, flip: int) -> None:
    data = bytearray.fromhex(GOLDEN_EVIDENCE)
    data[at] ^= flip
    try:
        evidence = decode_evidence(bytes(data))
    except Malformed:
        return
    encode_evidence(evidence)
