"""Who a node is: one 32-byte seed, the keys derived from it, and signatures with domain separation."""

import base64
import binascii
import os
import re
from typing import NoReturn, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from loremesh.crypto.derivation import KEY_BYTES, derive, require_key
from loremesh.crypto.errors import BadSignature
from loremesh.crypto.peerid import peer_id

SIGNATURE_BYTES = 64
_DOMAIN = re.compile(r"[a-z0-9-]{1,32}")

# Encodings of the points of order 1, 2, 4 and 8, the sign bit cleared. Under such a "key" anybody can sign,
# so it is nobody's. (The list is libsodium's, ed25519_ref10.c, ge25519_has_small_order.)
_SMALL_ORDER = frozenset(
    bytes.fromhex(text)
    for text in (
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    )
)


def verify(public: bytes, domain: str, message: bytes, signature: bytes) -> None:
    """Return when `signature` is that of the holder of `public` over `message` in `domain`.

    Raises `BadSignature` otherwise, also for keys and signatures that are none (wrong length, not a point, a
    point of small order); `ValueError` for a domain outside `[a-z0-9-]{1,32}`, which is the caller's mistake.
    """
    to_verify = _signed_bytes(domain, message)
    if len(public) != KEY_BYTES or public[:31] + bytes([public[31] & 0x7F]) in _SMALL_ORDER:
        raise BadSignature("what should be an Ed25519 public key is none")
    if len(signature) != SIGNATURE_BYTES:
        raise BadSignature(f"an Ed25519 signature has {SIGNATURE_BYTES} bytes, not {len(signature)}")
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, to_verify)
    except (InvalidSignature, ValueError):
        raise BadSignature(f"the signature of {peer_id(public)} over a {domain} does not verify") from None


class SigningKey:
    """An Ed25519 key pair by itself, from a 32-byte seed: what an invitation carries."""

    __slots__ = ("_private", "_seed", "public")

    def __init__(self, seed: bytes) -> None:
        """Of the 32-byte private seed of RFC 8032. Raises `ValueError` for another length."""
        require_key(seed, "the seed of a signing key")
        self._seed = bytes(seed)
        self._private = Ed25519PrivateKey.from_private_bytes(self._seed)
        self.public: bytes = self._private.public_key().public_bytes_raw()
        """The 32-byte public key."""

    @classmethod
    def generate(cls) -> Self:
        """A new key from the operating system's randomness."""
        return cls(os.urandom(KEY_BYTES))

    @classmethod
    def from_seed(cls, seed: bytes) -> Self:
        """The key of a 32-byte seed. Raises `ValueError` for another length."""
        return cls(seed)

    def export_seed(self) -> bytes:
        """The 32 secret bytes that `from_seed` takes."""
        return self._seed

    def sign(self, domain: str, message: bytes) -> bytes:
        """64 bytes: Ed25519 over `loremesh/1/` ‖ domain ‖ 0 ‖ message.

        A signature made in one domain never verifies in another. Raises `ValueError` for a domain outside
        `[a-z0-9-]{1,32}`.
        """
        return self._private.sign(_signed_bytes(domain, message))

    def __repr__(self) -> str:
        return f"SigningKey({self.public.hex()})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a SigningKey is secret and not pickled or copied: use export_seed() where you mean it"
        )


class Identity:
    """A node's identity: one 32-byte seed, from which all its key pairs are derived, each under a label.

    | key | derivation |
    |---|---|
    | signing (Ed25519) | HKDF(seed, `loremesh/1/identity-sign`) as the private seed of RFC 8032 |
    | box (X25519) | HKDF(seed, `loremesh/1/identity-box`) as the private key of RFC 7748 |
    | NATS user (Ed25519) | HKDF(seed, `loremesh/1/identity-nats`) as the raw seed of an nkey |
    """

    __slots__ = ("_nats", "_seed", "_signing", "box_public", "peer_id", "public")

    def __init__(self, seed: bytes) -> None:
        """Of a 32-byte seed. Raises `ValueError` for another length."""
        require_key(seed, "the seed of an identity")
        self._seed = bytes(seed)
        self._signing = SigningKey(derive(self._seed, "identity-sign"))
        self._nats = nats_user_from_seed(derive(self._seed, "identity-nats"))
        box = X25519PrivateKey.from_private_bytes(derive(self._seed, "identity-box"))
        self.public: bytes = self._signing.public
        """The 32-byte Ed25519 public key: who this peer is, everywhere."""
        self.peer_id: str = peer_id(self.public)
        """The name of `public` for people; see `loremesh.crypto.peerid`."""
        self.box_public: bytes = box.public_key().public_bytes_raw()
        """The 32-byte X25519 public key to which secrets for this peer are sealed."""

    @classmethod
    def generate(cls) -> Self:
        """A new identity from the operating system's randomness."""
        return cls(os.urandom(KEY_BYTES))

    @classmethod
    def from_seed(cls, seed: bytes) -> Self:
        """The identity of a 32-byte seed. Raises `ValueError` for another length."""
        return cls(seed)

    def export_seed(self) -> bytes:
        """The 32 secret bytes that `from_seed` takes: all that must be kept to stay this peer."""
        return self._seed

    def sign(self, domain: str, message: bytes) -> bytes:
        """64 bytes that `verify(self.public, domain, message, …)` accepts; see `SigningKey.sign`."""
        return self._signing.sign(domain, message)

    def nats_seed(self) -> str:
        """The secret NATS user seed, as nats clients take it (`SU…`)."""
        return self._nats[0]

    @property
    def nats_public(self) -> str:
        """The public NATS user key, as server configurations take it (`U…`)."""
        return self._nats[1]

    def __repr__(self) -> str:
        return f"Identity({self.peer_id})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an Identity is secret and not pickled or copied: use export_seed() where you mean it"
        )


def nats_user_from_seed(raw32: bytes) -> tuple[str, str]:
    """The NATS user key of 32 raw bytes: (secret seed text `SU…`, public text `U…`).

    The nkeys format: base32 without padding of prefix ‖ 32 bytes ‖ CRC-16/XMODEM (little-endian); the seed's
    prefix is the 5 bits of *seed* (18) and the 8 bits of *user* (20·8), then 3 zero bits. Raises `ValueError`
    for another length.
    """
    require_key(raw32, "the seed of a NATS user")
    seed_prefix, user_prefix = 18 << 3, 20 << 3
    public = Ed25519PrivateKey.from_private_bytes(raw32).public_key().public_bytes_raw()
    seed_text = _nkey_text(bytes([seed_prefix | user_prefix >> 5, (user_prefix & 31) << 3]) + raw32)
    return seed_text, _nkey_text(bytes([user_prefix]) + public)


def _nkey_text(prefixed: bytes) -> str:
    checksum = binascii.crc_hqx(prefixed, 0).to_bytes(2, "little")
    return base64.b32encode(prefixed + checksum).rstrip(b"=").decode("ascii")


def _signed_bytes(domain: str, message: bytes) -> bytes:
    if not _DOMAIN.fullmatch(domain):
        raise ValueError(f"a signature domain is 1 to 32 of a-z, 0-9 and -, not {domain!r}")
    return b"loremesh/1/" + domain.encode("ascii") + b"\0" + message
