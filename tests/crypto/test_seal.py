"""Sealed bytes open under the same key and associated data, and in no other way."""

import hashlib

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given, settings
from hypothesis import strategies as st

from loremesh.crypto.errors import SealBroken
from loremesh.crypto.seal import CHUNK_BYTES, SEAL_OVERHEAD_BYTES, seal, seal_large, unseal, unseal_large
from tests.crypto import oracle

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))
HEAD = 36  # magic and salt of the chunked form
STRIDE = CHUNK_BYTES + 16


def sample(length: int) -> bytes:
    return hashlib.shake_128(b"sample").digest(length)


@settings(deadline=None)
@given(st.binary(max_size=1000), st.binary(max_size=100))
def test_what_was_sealed_opens(plaintext: bytes, aad: bytes) -> None:
    """Opening is the inverse, at a stated cost in bytes."""
    sealed = seal(KEY, plaintext, aad)
    assert len(sealed) == len(plaintext) + SEAL_OVERHEAD_BYTES
    assert unseal(KEY, sealed, aad) == plaintext


def test_the_sealed_form_is_nonce_and_aes_256_gcm() -> None:
    """Any implementation of AES-256-GCM opens it from the page's description."""
    sealed = seal(KEY, b"text", b"aad")
    assert AESGCM(KEY).decrypt(sealed[:12], sealed[12:], b"aad") == b"text"


def test_a_bit_changed_anywhere_is_refused() -> None:
    """Nonce, ciphertext and tag are all covered."""
    for changed in oracle.flipped(seal(KEY, b"some text", b"aad")):
        with pytest.raises(SealBroken):
            unseal(KEY, changed, b"aad")


def test_another_key_or_other_associated_data_is_refused() -> None:
    """The seal is bound to both."""
    sealed = seal(KEY, b"text", b"aad")
    for key, aad in ((OTHER, b"aad"), (KEY, b"aae"), (KEY, b"")):
        with pytest.raises(SealBroken):
            unseal(key, sealed, aad)


@settings(deadline=None)
@given(st.binary(max_size=100))
def test_arbitrary_bytes_do_not_open(data: bytes) -> None:
    """Whatever the bytes, and however few, the error is the one for it."""
    with pytest.raises(SealBroken):
        unseal(KEY, data, b"")
    with pytest.raises(SealBroken):
        unseal_large(KEY, data, b"")


def test_two_seals_of_one_text_differ() -> None:
    """A fresh nonce each time: equal texts do not show."""
    assert len({seal(KEY, b"same", b"")[12:] for _ in range(50)}) == 50
    assert len({seal_large(KEY, b"same", b"")[36:] for _ in range(50)}) == 50


@pytest.mark.parametrize("length", [0, 16, 31, 33])
def test_a_key_of_another_length_is_a_mistake(length: int) -> None:
    """AES-128 would take 16 bytes; here it is an error."""
    for operation in (seal, unseal, seal_large, unseal_large):
        with pytest.raises(ValueError, match="32 bytes"):
            operation(bytes(length), bytes(100), b"")


@pytest.mark.parametrize(
    "length", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES, 2**22 - 7]
)
def test_large_data_of_any_size_opens(length: int) -> None:
    """Sizes around the chunk's edge, given as bytes or as a view."""
    data = sample(length)
    sealed = seal_large(KEY, memoryview(data), b"aad")
    assert unseal_large(KEY, memoryview(sealed), b"aad") == data == unseal_large(KEY, sealed, b"aad")


def test_the_chunked_form_is_as_the_page_describes_it() -> None:
    """A second implementation opens it chunk by chunk."""
    data = sample(CHUNK_BYTES + 5)
    sealed = seal_large(KEY, data, b"aad")
    assert sealed[:4] == b"LMC\x01"
    cipher = AESGCM(oracle.hkdf(KEY, b"loremesh/1/chunks", 32, sealed[4:36]))
    first = cipher.decrypt(bytes(12), sealed[36 : 36 + STRIDE], b"aad")
    last = cipher.decrypt(bytes(7) + b"\0\0\0\1\1", sealed[36 + STRIDE :], b"aad")
    assert first + last == data


def chunks_of(sealed: bytes) -> tuple[bytes, list[bytes]]:
    return sealed[:HEAD], [sealed[i : i + STRIDE] for i in range(HEAD, len(sealed), STRIDE)]


def test_chunks_cannot_be_swapped_dropped_repeated_or_cut_off() -> None:
    """Every rearrangement of whole chunks is refused, also when the data still ends at a chunk's edge."""
    head, (a, b, c) = chunks_of(seal_large(KEY, sample(3 * CHUNK_BYTES), b"aad"))
    for rearranged in (
        [b, a, c],
        [a, c],
        [b, c],
        [a, b],
        [a],
        [],
        [a, b, b, c],
        [a, b, c, c],
        [a, c, b],
        [c],
    ):
        with pytest.raises(SealBroken):
            unseal_large(KEY, head + b"".join(rearranged), b"aad")


def test_a_chunk_of_another_whole_is_refused() -> None:
    """Two wholes under one key have chunk keys of their own, so that their parts do not mix."""
    head, (a, _) = chunks_of(seal_large(KEY, sample(CHUNK_BYTES + 10), b""))
    _, (_, d) = chunks_of(seal_large(KEY, sample(CHUNK_BYTES + 10), b""))
    with pytest.raises(SealBroken):
        unseal_large(KEY, head + a + d, b"")


def test_cutting_or_lengthening_the_last_chunk_is_refused() -> None:
    """At any byte."""
    sealed = seal_large(KEY, b"a short whole", b"")
    for end in range(len(sealed)):
        with pytest.raises(SealBroken):
            unseal_large(KEY, sealed[:end], b"")
    with pytest.raises(SealBroken):
        unseal_large(KEY, sealed + b"\0", b"")


def test_a_bit_changed_anywhere_in_a_large_whole_is_refused() -> None:
    """Magic, salt, chunk and tag are all covered; so are key and associated data."""
    sealed = seal_large(KEY, b"a short whole", b"aad")
    for changed in oracle.flipped(sealed):
        with pytest.raises(SealBroken):
            unseal_large(KEY, changed, b"aad")
    for key, aad in ((OTHER, b"aad"), (KEY, b"")):
        with pytest.raises(SealBroken):
            unseal_large(key, sealed, aad)
