"""Labelled key derivation: every key of loremesh comes from another one through this function."""

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

KEY_BYTES = 32
_PREFIX = b"loremesh/1/"


def derive(key: bytes, label: str, *, context: bytes = b"", length: int = KEY_BYTES) -> bytes:
    """`length` bytes that only the holder of `key` can know, different for each label and context.

    HKDF-SHA256 (RFC 5869) with input keying material `key`, salt `context` and info `loremesh/1/` ‖ label.
    """
    return HKDF(SHA256(), length, context or None, _PREFIX + label.encode("ascii")).derive(key)


def require_key(key: bytes, name: str) -> None:
    """Raise `ValueError` naming `name` unless `key` has 32 bytes. The key itself is never shown."""
    if len(key) != KEY_BYTES:
        raise ValueError(f"{name} must have {KEY_BYTES} bytes, not {len(key)}")
