"""A second implementation of the formats in crypto/README.md, slow and obvious.

It is written from the page and the RFCs with the standard library; only AES-GCM is borrowed. It shares no
code with `loremesh.crypto`, so that both must agree with the page.
"""

import hashlib
import hmac

from cryptography.hazmat.primitives.ciphers.aead import AESGCM


def hkdf(key: bytes, info: bytes, length: int, salt: bytes = b"") -> bytes:
    """RFC 5869 with SHA-256."""
    pseudorandom = hmac.new(salt or bytes(32), key, hashlib.sha256).digest()
    block, output, counter = b"", b"", 1
    while len(output) < length:
        block = hmac.new(pseudorandom, block + info + bytes([counter]), hashlib.sha256).digest()
        output += block
        counter += 1
    return output[:length]


def frame_id(epoch_key: bytes, header: bytes, signature: bytes) -> bytes:
    """The id in clear of a frame."""
    key = hkdf(epoch_key, b"loremesh/1/frame-id", 32)
    return hmac.new(key, hashlib.sha256(header + signature).digest(), hashlib.sha256).digest()


def seal_frame_as(epoch_key: bytes, space: bytes, epoch: int, identifier: bytes, plaintext: bytes) -> bytes:
    """Any plaintext under any id, as a member who does not keep to the format could seal it."""
    clear = b"LMF\x01" + space + epoch.to_bytes(4, "big") + identifier
    material = hkdf(epoch_key, b"loremesh/1/frame-seal", 44, identifier)
    return clear + AESGCM(material[:32]).encrypt(material[32:], plaintext, clear)


def seal_frame(
    epoch_key: bytes, space: bytes, epoch: int, header: bytes, signature: bytes, body: bytes
) -> bytes:
    """A frame as the page describes it."""
    plaintext = len(header).to_bytes(2, "big") + header + signature + body
    return seal_frame_as(epoch_key, space, epoch, frame_id(epoch_key, header, signature), plaintext)


def peer_id(public: bytes) -> str:
    """A peer id, by way of bits and decimal arithmetic."""
    alphabet = "0123456789abcdefghjkmnpqrstvwxyz"
    bits = "".join(f"{byte:08b}" for byte in hashlib.sha256(b"loremesh/1/peer-id\x00" + public).digest())[:90]
    check = int(bits, 2) * 1024 % 1021
    bits += f"{check:010b}"
    characters = [alphabet[int(bits[i : i + 5], 2)] for i in range(0, 100, 5)]
    return "-".join("".join(characters[i : i + 5]) for i in range(0, 20, 5))


def flipped(data: bytes) -> list[bytes]:
    """Every copy of `data` with one bit changed."""
    copies = []
    for bit in range(len(data) * 8):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        copies.append(bytes(changed))
    return copies
