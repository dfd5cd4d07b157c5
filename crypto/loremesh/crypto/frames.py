"""Sealed frames: what travels on the bus (DESIGN §4, "Feed").

    clear      = "LMF" ‖ version 1 (u8) ‖ space (32) ‖ epoch (u32) ‖ id (32)                  72 bytes
    plaintext  = header length (u16) ‖ header ‖ signature (64) ‖ body
    sealed     = clear ‖ AES-256-GCM(key, nonce, plaintext, aad = clear)                      + 16 bytes

    id         = HMAC-SHA256(HKDF(epoch key, "loremesh/1/frame-id"), SHA-256(header ‖ signature))
    key, nonce = the first 32 and the last 12 bytes of HKDF(epoch key, salt = id, "loremesh/1/frame-seal", 44)

Numbers are big-endian. Sealing is deterministic: whoever seals a frame under an epoch gets the same bytes, so
copies are recognised by their id without being opened. Key and nonce hang on header and signature alone; that
is safe because the header carries the hash of the body, so two bodies never come under one key and nonce.
`seal_frame` enforces it. A header whose body was cut is therefore never sealed as a frame.
"""

import hmac
import struct
from collections.abc import Callable
from hashlib import sha256

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from loremesh.crypto.derivation import KEY_BYTES, derive, require_key
from loremesh.crypto.errors import MalformedFrame, SealBroken, UnknownEpoch
from loremesh.crypto.identity import SIGNATURE_BYTES
from loremesh.crypto.seal import NONCE_BYTES, TAG_BYTES
from loremesh.crypto.spacekeys import EPOCH_MAX

SPACE_BYTES = 32
HEADER_BYTES_MAX = 4096
SEALED_BYTES_MAX = 256 * 1024

_MAGIC = b"LMF"
_VERSION = 1
_CLEAR = struct.Struct(">3sB32sI32s")
_HEADER_LENGTH = struct.Struct(">H")

FRAME_OVERHEAD_BYTES = _CLEAR.size + _HEADER_LENGTH.size + SIGNATURE_BYTES + TAG_BYTES
"""How much longer a sealed frame is than its header and body together."""


class OpenedFrame(msgspec.Struct, frozen=True):
    """A frame that opened under its epoch's key. Its signature and its body's hash are not yet checked."""

    space: bytes
    """The 32-byte id of the space, as named in clear."""
    epoch: int
    """The number of the space key that opened it."""
    id: bytes
    """32 bytes, recomputed from header and signature: equal ids mean equal frames under one epoch."""
    header: bytes
    """The exact bytes that were signed."""
    signature: bytes
    """64 bytes."""
    body: bytes
    """What the header's body hash must fit; that is for whoever decodes the header to check."""


def seal_frame(
    epoch_key: bytes, space: bytes, epoch: int, header: bytes, signature: bytes, body: bytes, body_hash: bytes
) -> bytes:
    """The sealed form of a signed frame: the same bytes for the same arguments.

    `body_hash` is SHA-256 of `body` and stands as these 32 bytes in `header`; where either is not so, sealing
    could put two bodies under one key and nonce, and `ValueError` is raised, as for parts of a wrong size.
    """
    require_key(epoch_key, "an epoch key")
    if sha256(body).digest() != body_hash:
        raise ValueError("the body does not have the hash given for it: a changed or cut body is not sealed")
    if body_hash not in header:
        raise ValueError("the header does not carry the hash of the body: such a frame is not sealed")
    if len(space) != SPACE_BYTES or not 0 <= epoch <= EPOCH_MAX:
        raise ValueError(
            f"a space id has {SPACE_BYTES} bytes, not {len(space)}; an epoch is within 0 … 2³²−1, not {epoch}"
        )
    if len(header) > HEADER_BYTES_MAX or len(signature) != SIGNATURE_BYTES:
        raise ValueError(
            f"a header has at most {HEADER_BYTES_MAX} bytes, not {len(header)}; "
            f"a signature has {SIGNATURE_BYTES}, not {len(signature)}"
        )
    size = FRAME_OVERHEAD_BYTES + len(header) + len(body)
    if size > SEALED_BYTES_MAX:
        raise ValueError(f"a sealed frame of {size} bytes is over the bound of {SEALED_BYTES_MAX}")
    identifier = frame_id(epoch_key, header, signature)
    clear = _CLEAR.pack(_MAGIC, _VERSION, space, epoch, identifier)
    key, nonce = _key_and_nonce(epoch_key, identifier)
    plaintext = b"".join((_HEADER_LENGTH.pack(len(header)), header, signature, body))
    return clear + AESGCM(key).encrypt(nonce, plaintext, clear)


def peek_frame(sealed: bytes) -> tuple[bytes, int, bytes]:
    """(space, epoch, id) as a sealed frame states them in clear: claims, until it opens.

    Raises `MalformedFrame` for bytes that are no frame, or one of a format this release does not know.
    """
    if not FRAME_OVERHEAD_BYTES <= len(sealed) <= SEALED_BYTES_MAX:
        raise MalformedFrame(
            f"a sealed frame has {FRAME_OVERHEAD_BYTES} to {SEALED_BYTES_MAX} bytes, not {len(sealed)}"
        )
    magic, version, space, epoch, identifier = _CLEAR.unpack_from(sealed)
    if magic != _MAGIC:
        raise MalformedFrame("these bytes are not a sealed frame")
    if version != _VERSION:
        raise MalformedFrame(f"the frame has format {version}; this release reads format {_VERSION}")
    return space, epoch, identifier


def open_frame(sealed: bytes, key_of: Callable[[bytes, int], bytes | None]) -> OpenedFrame:
    """Open a sealed frame with the key that `key_of(space, epoch)` gives, None meaning it is not held.

    Raises `MalformedFrame` (no frame, or an id in clear that is not that of the content), `UnknownEpoch`,
    `SealBroken` (altered, or sealed under another key).
    """
    space, epoch, claimed = peek_frame(sealed)
    epoch_key = key_of(space, epoch)
    if epoch_key is None:
        raise UnknownEpoch(f"no key is held for epoch {epoch} of space {space.hex()[:16]}…")
    require_key(epoch_key, "an epoch key")
    key, nonce = _key_and_nonce(epoch_key, claimed)
    try:
        plaintext = AESGCM(key).decrypt(nonce, memoryview(sealed)[_CLEAR.size :], sealed[: _CLEAR.size])
    except InvalidTag:
        raise SealBroken("the frame does not open: it was altered, or sealed under another key") from None
    start = _HEADER_LENGTH.size
    middle = start + _HEADER_LENGTH.unpack_from(plaintext)[0]
    end = middle + SIGNATURE_BYTES
    if middle - start > HEADER_BYTES_MAX or end > len(plaintext):
        raise MalformedFrame(f"the frame's header length of {middle - start} does not fit")
    header, signature = plaintext[start:middle], plaintext[middle:end]
    if not hmac.compare_digest(frame_id(epoch_key, header, signature), claimed):
        raise MalformedFrame("the id in clear is not that of the frame's header and signature")
    return OpenedFrame(space, epoch, claimed, header, signature, plaintext[end:])


def frame_id(epoch_key: bytes, header: bytes, signature: bytes) -> bytes:
    """The 32-byte id that a frame has in clear under an epoch: random to those without the key."""
    return hmac.digest(derive(epoch_key, "frame-id"), sha256(header + signature).digest(), "sha256")


def _key_and_nonce(epoch_key: bytes, identifier: bytes) -> tuple[bytes, bytes]:
    material = derive(epoch_key, "frame-seal", context=identifier, length=KEY_BYTES + NONCE_BYTES)
    return material[:KEY_BYTES], material[KEY_BYTES:]
