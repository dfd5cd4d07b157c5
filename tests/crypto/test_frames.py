"""Sealed frames: fixed bytes, one plaintext per key and nonce, and only what was sealed comes out."""

from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loremesh.crypto.errors import CryptoError, MalformedFrame, SealBroken, UnknownEpoch
from loremesh.crypto.frames import (
    FRAME_OVERHEAD_BYTES,
    HEADER_BYTES_MAX,
    SEALED_BYTES_MAX,
    OpenedFrame,
    frame_id,
    open_frame,
    peek_frame,
    seal_frame,
)
from tests.crypto import oracle

KEY = bytes(range(32))
SPACE = bytes(range(32, 64))
SIGNATURE = bytes(range(64))
BODY = b"body"
HEADER = b"header " + sha256(BODY).digest()


def key_of(space: bytes, epoch: int) -> bytes | None:
    return KEY if (space, epoch) == (SPACE, 7) else None


def sealed_sample(body: bytes = BODY, header: bytes = b"header ", epoch: int = 7) -> bytes:
    digest = sha256(body).digest()
    return seal_frame(KEY, SPACE, epoch, header + digest, SIGNATURE, body, digest)


def test_a_sealed_frame_is_what_it_always_was() -> None:
    """Golden bytes: releases that differ here could not read one another."""
    assert sealed_sample().hex() == (
        "4c4d4601202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f00000007"
        "703be7c4dac97d842c0da36bc26a55924ec7b410889c79350468bf3dd5f5770a98ae879916db0791"
        "02185bcb32ce250f854d41486e7488c4810453dfec3e610ace23fb774cb2e8af2bab3d0f1cfb2318"
        "bebbbd64e23e95b2a4208bf79ad24ec4637a56d3b1450ce4dfec5d3dda63f132e60a23faa27c8d00"
        "0b03b090a0d4767fd6cfbbd6ea331295aae4e9e59d2d10ab26d5d8c2552c3c44fec43ce1bd"
    )


@settings(deadline=None)
@given(st.binary(max_size=200), st.binary(max_size=2000), st.integers(0, 2**32 - 1))
def test_frames_are_as_the_page_describes_them(start: bytes, body: bytes, epoch: int) -> None:
    """A second implementation seals the same bytes, and opening gives every part back."""
    digest = sha256(body).digest()
    header = start + digest
    sealed = seal_frame(KEY, SPACE, epoch, header, SIGNATURE, body, digest)
    assert sealed == oracle.seal_frame(KEY, SPACE, epoch, header, SIGNATURE, body)
    assert len(sealed) == FRAME_OVERHEAD_BYTES + len(header) + len(body)
    identifier = oracle.frame_id(KEY, header, SIGNATURE)
    assert open_frame(sealed, lambda _space, _epoch: KEY) == OpenedFrame(
        SPACE, epoch, identifier, header, SIGNATURE, body
    )


def test_peeking_shows_space_epoch_and_id_without_a_key() -> None:
    """What routes and recognises a frame stands in clear."""
    assert peek_frame(sealed_sample()) == (SPACE, 7, frame_id(KEY, HEADER, SIGNATURE))


def test_nothing_else_shows() -> None:
    """Header, signature and body are not to be found in the sealed bytes."""
    body = b"the indexer restarts after a schema change"
    sealed = sealed_sample(body)
    for part in (body, sha256(body).digest(), SIGNATURE, b"header"):
        assert part not in sealed


def test_a_bit_changed_anywhere_is_refused() -> None:
    """In clear or sealed, whichever keys the receiver holds."""
    for changed in oracle.flipped(sealed_sample()):
        with pytest.raises(CryptoError):
            open_frame(changed, key_of)
        with pytest.raises((SealBroken, MalformedFrame)):
            open_frame(changed, lambda _space, _epoch: KEY)


def test_a_frame_cut_or_lengthened_anywhere_is_refused() -> None:
    """No prefix of a frame is a frame."""
    sealed = sealed_sample()
    for end in range(len(sealed)):
        with pytest.raises((SealBroken, MalformedFrame)):
            open_frame(sealed[:end], key_of)
    with pytest.raises(SealBroken):
        open_frame(sealed + b"\0", key_of)


def test_an_epoch_without_a_key_is_told_from_a_wrong_key() -> None:
    """The one is cured by fetching the key, the other is not."""
    with pytest.raises(UnknownEpoch, match="epoch 8"):
        open_frame(sealed_sample(epoch=8), key_of)
    with pytest.raises(SealBroken):
        open_frame(sealed_sample(), lambda _space, _epoch: bytes(32))


def test_the_same_frame_under_another_epoch_has_another_id() -> None:
    """Re-sealing links nothing for those without the keys."""
    assert frame_id(KEY, HEADER, SIGNATURE) != frame_id(bytes(32), HEADER, SIGNATURE)


def test_a_cut_or_changed_body_is_never_sealed() -> None:
    """The key and nonce of a header serve one body only: sealing another is refused."""
    digest = sha256(BODY).digest()
    for body in (b"", b"bod", b"bodY"):
        with pytest.raises(ValueError, match="cut body"):
            seal_frame(KEY, SPACE, 7, HEADER, SIGNATURE, body, digest)


def test_a_header_that_does_not_commit_to_its_body_is_never_sealed() -> None:
    """Else two honest calls could put two bodies under one key and nonce."""
    with pytest.raises(ValueError, match="header does not carry"):
        seal_frame(KEY, SPACE, 7, b"header", SIGNATURE, b"other", sha256(b"other").digest())
    with pytest.raises(ValueError, match="hash"):
        seal_frame(KEY, SPACE, 7, b"header", SIGNATURE, b"other", b"")


@pytest.mark.parametrize(
    ("key", "space", "epoch", "header", "signature"),
    [
        (bytes(31), SPACE, 7, HEADER, SIGNATURE),
        (KEY, bytes(31), 7, HEADER, SIGNATURE),
        (KEY, SPACE, -1, HEADER, SIGNATURE),
        (KEY, SPACE, 2**32, HEADER, SIGNATURE),
        (KEY, SPACE, 7, HEADER.ljust(HEADER_BYTES_MAX + 1), SIGNATURE),
        (KEY, SPACE, 7, HEADER, SIGNATURE[:63]),
    ],
)
def test_parts_of_a_wrong_size_are_a_mistake(
    key: bytes, space: bytes, epoch: int, header: bytes, signature: bytes
) -> None:
    """Nothing is padded, wrapped round or cut in silence."""
    with pytest.raises(ValueError, match=r"bytes|epoch"):
        seal_frame(key, space, epoch, header, signature, BODY, sha256(BODY).digest())


def test_the_size_of_a_frame_is_bounded_on_both_sides() -> None:
    """The largest frame opens; one byte more is neither sealed nor looked at."""
    largest = SEALED_BYTES_MAX - FRAME_OVERHEAD_BYTES - len(b"header ") - 32
    sealed = sealed_sample(bytes(largest))
    assert len(sealed) == SEALED_BYTES_MAX
    assert len(open_frame(sealed, key_of).body) == largest
    with pytest.raises(ValueError, match="over the bound"):
        sealed_sample(bytes(largest + 1))
    with pytest.raises(MalformedFrame, match=str(SEALED_BYTES_MAX)):
        open_frame(sealed + b"\0", key_of)


def test_other_formats_are_refused_by_name() -> None:
    """A frame of a later format is told from noise."""
    sealed = sealed_sample()
    with pytest.raises(MalformedFrame, match="format 2"):
        peek_frame(b"LMF\x02" + sealed[4:])
    with pytest.raises(MalformedFrame, match="not a sealed frame"):
        peek_frame(b"XXX" + sealed[3:])


@settings(deadline=None)
@given(st.binary(max_size=400))
def test_arbitrary_bytes_are_refused(data: bytes) -> None:
    """Noise, with or without the right beginning, raises nothing but our own errors."""
    for sealed in (data, b"LMF\x01" + SPACE + b"\0\0\0\7" + data):
        with pytest.raises(CryptoError):
            open_frame(sealed, key_of)


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_a_member_who_seals_nonsense_is_refused(plaintext: bytes) -> None:
    """Whoever holds the key can seal anything: what is not header, signature and body is malformed."""
    with pytest.raises(MalformedFrame):
        open_frame(oracle.seal_frame_as(KEY, SPACE, 7, bytes(32), plaintext), key_of)


def test_a_member_who_lies_about_the_id_is_refused() -> None:
    """An id in clear that belongs to another frame would make receivers skip that one."""
    plaintext = len(HEADER).to_bytes(2, "big") + HEADER + SIGNATURE + BODY
    with pytest.raises(MalformedFrame, match="id in clear"):
        open_frame(oracle.seal_frame_as(KEY, SPACE, 7, bytes(32), plaintext), key_of)


@pytest.mark.parametrize("length", [HEADER_BYTES_MAX + 1, 0xFFFF])
def test_a_header_longer_than_its_bound_is_refused(length: int) -> None:
    """Also when a member seals it and all its bytes are there."""
    sealed = oracle.seal_frame(KEY, SPACE, 7, bytes(length), SIGNATURE, BODY)
    with pytest.raises(MalformedFrame, match="header length"):
        open_frame(sealed, key_of)


def test_a_header_longer_than_the_frame_is_refused() -> None:
    """The signature must still fit behind it."""
    plaintext = (len(HEADER) + len(BODY) + 1).to_bytes(2, "big") + HEADER + SIGNATURE + BODY
    with pytest.raises(MalformedFrame, match="header length"):
        open_frame(oracle.seal_frame_as(KEY, SPACE, 7, bytes(32), plaintext), key_of)
