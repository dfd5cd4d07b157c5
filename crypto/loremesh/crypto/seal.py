"""Sealing bytes under a key: AES-256-GCM with associated data, and a chunked form for large data.

The AESGCM object is made for each use: 100,000 kept ones cost 240 MB, making one costs a microsecond.
"""

import io
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from loremesh.crypto.derivation import KEY_BYTES, derive, require_key
from loremesh.crypto.errors import SealBroken

NONCE_BYTES = 12
TAG_BYTES = 16
SEAL_OVERHEAD_BYTES = NONCE_BYTES + TAG_BYTES

CHUNK_BYTES = 1 << 20
_LARGE_MAGIC = b"LMC\x01"
_LARGE_SALT_BYTES = 32
_CHUNKS_MAX = 1 << 32


def seal(key: bytes, plaintext: bytes, aad: bytes) -> bytes:
    """Random 96-bit nonce ‖ AES-256-GCM ciphertext and tag; 28 bytes longer than `plaintext`.

    `aad` is authenticated and not contained. One key may seal 2³² messages before two of them share a nonce
    with a probability of 2⁻³³. Raises `ValueError` for a key that has not 32 bytes.
    """
    if len(key) != KEY_BYTES:  # a call for each of a million rows is worth saving
        require_key(key, "a sealing key")
    nonce = os.urandom(NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, plaintext, aad)


def unseal(key: bytes, sealed: bytes, aad: bytes) -> bytes:
    """What `seal` was given. Raises `SealBroken` for another key, another `aad` or altered bytes."""
    if len(key) != KEY_BYTES:  # a call for each of a million rows is worth saving
        require_key(key, "a sealing key")
    if len(sealed) < SEAL_OVERHEAD_BYTES:
        raise SealBroken(f"{len(sealed)} sealed bytes are too few: at least {SEAL_OVERHEAD_BYTES} are needed")
    try:
        return AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], aad)
    except InvalidTag:
        raise SealBroken(_BROKEN) from None


def seal_large(key: bytes, data: bytes | memoryview, aad: bytes) -> bytes:
    """`data` of any size, sealed in chunks of 1 MiB that cannot be swapped, dropped, repeated or cut off.

    magic `LMC` 1 ‖ 32 random bytes ‖ chunks. Their key is HKDF(key, salt = those bytes, `loremesh/1/chunks`);
    chunk i is AES-256-GCM with nonce 0⁷ ‖ i (u32) ‖ last (1 for the last chunk, else 0) and `aad`. Empty data
    is one empty last chunk. The construction is STREAM (Hoang, Reyhanitabar, Rogaway, Vizár, CRYPTO 2015)
    under a key of its own per message. A memoryview must be contiguous.
    """
    require_key(key, "a sealing key")
    view = memoryview(data).cast("B")
    count = max(1, -(-len(view) // CHUNK_BYTES))
    if count > _CHUNKS_MAX:
        raise ValueError(f"{len(view)} bytes are too many to seal at once")
    salt = os.urandom(_LARGE_SALT_BYTES)
    cipher = AESGCM(derive(key, "chunks", context=salt))
    out = io.BytesIO()
    out.write(_LARGE_MAGIC + salt)
    for index in range(count):
        chunk = view[index * CHUNK_BYTES : (index + 1) * CHUNK_BYTES]
        out.write(cipher.encrypt(_chunk_nonce(index, index == count - 1), chunk, aad))
    return out.getvalue()


def unseal_large(key: bytes, sealed: bytes | memoryview, aad: bytes) -> bytes:
    """What `seal_large` was given. Raises `SealBroken` for another key, another `aad`, or anything altered.

    Takes a memoryview, so that a mapped file need not be read first. Nothing is returned before all opened.
    """
    require_key(key, "a sealing key")
    view = memoryview(sealed).cast("B")
    start = len(_LARGE_MAGIC) + _LARGE_SALT_BYTES
    if bytes(view[: len(_LARGE_MAGIC)]) != _LARGE_MAGIC or len(view) < start + TAG_BYTES:
        raise SealBroken("these are not sealed chunks: too few bytes, or of an unknown format")
    cipher = AESGCM(derive(key, "chunks", context=bytes(view[len(_LARGE_MAGIC) : start])))
    stride = CHUNK_BYTES + TAG_BYTES
    count = -(-(len(view) - start) // stride)
    out = io.BytesIO()
    for index in range(count):
        chunk = view[start + index * stride : start + (index + 1) * stride]
        try:
            out.write(cipher.decrypt(_chunk_nonce(index, index == count - 1), chunk, aad))
        except InvalidTag:
            raise SealBroken(f"chunk {index} of {count}: {_BROKEN}") from None
    return out.getvalue()


_BROKEN = "the sealed bytes do not open: another key sealed them, they belong elsewhere, or they were altered"


def _chunk_nonce(index: int, last: bool) -> bytes:
    return bytes(7) + index.to_bytes(4, "big") + bytes([last])
