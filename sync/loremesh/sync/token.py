"""Tokens: all that joining a space needs, as one line of text to hand over in confidence.

`lmt1_` ‖ base64url without padding of (payload ‖ first 4 bytes of SHA-256(`lmt1_` ‖ payload)). The checksum
finds what was cut or mistyped; that nobody altered it is for the signature inside to say.
"""

import base64
import binascii
import re
from hashlib import sha256

import msgspec

from loremesh.crypto.identity import SigningKey
from loremesh.sync.admission import (
    Genesis,
    SignedInvitation,
    check_signed_invitation,
    decode_genesis,
    decode_invitation,
    space_id,
)
from loremesh.sync.errors import InvalidInput, Malformed
from loremesh.sync.wire import decoded

PREFIX = "lmt1_"
CHECK_BYTES = 4
MAX_TOKEN_CHARACTERS = 8192
MAX_SERVER_CHARACTERS = 1024
KEY_BYTES = 32
MAX_EPOCH = 2**32 - 1
_TEXT = re.compile(r"[A-Za-z0-9_-]+")


class Token(msgspec.Struct, frozen=True):
    """What a token carries. Whoever reads it can read the space and join it: its repr hides the secrets."""

    server: str
    """URL of the bus."""
    credential: str
    """Secret NATS user seed (`SU…`), or '' where the server asks for none or knows the joiner."""
    space: bytes
    genesis: Genesis
    genesis_bytes: bytes
    epoch: int
    epoch_key: bytes
    """32 bytes, secret."""
    seed: bytes
    """Private seed of the invitation key, 32 bytes, secret."""
    invited: SignedInvitation

    def __repr__(self) -> str:
        return f"Token(space={self.genesis.name!r}, server={self.server!r})"

    def __rich_repr__(self) -> list[tuple[str, str]]:
        return [("space", self.genesis.name), ("server", self.server)]


class _Payload(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    server: str
    credential: str
    genesis: bytes
    epoch: int
    epoch_key: bytes
    seed: bytes
    invitation: bytes
    admin: bytes
    signature: bytes


_decoder = msgspec.msgpack.Decoder(_Payload)


def encode_token(
    server: str,
    credential: str,
    genesis_bytes: bytes,
    epoch: int,
    epoch_key: bytes,
    key: SigningKey,
    invited: SignedInvitation,
) -> str:
    """The token's text. Raises `InvalidInput` for parts that do not fit together."""
    payload = msgspec.msgpack.encode(
        _Payload(
            server,
            credential,
            genesis_bytes,
            epoch,
            epoch_key,
            key.export_seed(),
            invited.invitation_bytes,
            invited.admin,
            invited.signature,
        )
    )
    text = PREFIX + base64.urlsafe_b64encode(payload + _check(payload)).rstrip(b"=").decode("ascii")
    decode_token(text)
    return text


def decode_token(text: str) -> Token:
    """What `text` carries, its signature verified. White space in it, as mail programs add, is ignored.

    Raises `InvalidInput` that says what is wrong and never repeats the token. Expiry is for the caller to
    judge: `invited.invitation.expires_ms`.
    """
    text = "".join(text.split()) if len(text) <= 2 * MAX_TOKEN_CHARACTERS else text
    if not text.startswith(PREFIX):
        raise InvalidInput("token", f"does not begin with {PREFIX}: copy all of it, from the first character")
    coded = text[len(PREFIX) :]
    if len(text) > MAX_TOKEN_CHARACTERS or not _TEXT.fullmatch(coded):
        raise InvalidInput("token", "is too long, or has characters that no token has: copy it again")
    try:
        data = base64.urlsafe_b64decode(coded + "=" * (-len(coded) % 4))
    except (binascii.Error, ValueError):
        raise InvalidInput("token", "was cut: its length cannot be right; copy it again") from None
    payload, check = data[:-CHECK_BYTES], data[-CHECK_BYTES:]
    if check != _check(payload):
        raise InvalidInput("token", "was cut or mistyped: its checksum does not fit; copy it again")
    try:
        return _checked(decoded(_decoder, payload, "token"))
    except Malformed as wrong:
        raise InvalidInput("token", f"is not valid: {wrong}; ask for another one") from None


def _checked(raw: _Payload) -> Token:
    genesis = decode_genesis(raw.genesis)
    space = space_id(raw.genesis)
    invited = SignedInvitation(decode_invitation(raw.invitation), raw.invitation, raw.admin, raw.signature)
    check_signed_invitation(genesis, space, invited)
    if len(raw.epoch_key) != KEY_BYTES or not 0 <= raw.epoch <= MAX_EPOCH:
        raise Malformed("epoch", f"must have a number within 0 … 2³²−1 and a key of {KEY_BYTES} bytes")
    if len(raw.seed) != KEY_BYTES or SigningKey(raw.seed).public != invited.invitation.key:
        raise Malformed("invitation", "key in the token is not the one that was signed")
    if not 0 < len(raw.server) <= MAX_SERVER_CHARACTERS or not raw.server.isprintable():
        raise Malformed("server", f"must be a URL of at most {MAX_SERVER_CHARACTERS} characters")
    if len(raw.credential) > MAX_SERVER_CHARACTERS or not raw.credential.isascii():
        raise Malformed("credential", "must be a NATS user seed, or empty")
    return Token(
        raw.server, raw.credential, space, genesis, raw.genesis, raw.epoch, raw.epoch_key, raw.seed, invited
    )


def _check(payload: bytes) -> bytes:
    return sha256(PREFIX.encode("ascii") + payload).digest()[:CHECK_BYTES]
