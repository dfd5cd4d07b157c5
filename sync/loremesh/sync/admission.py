"""Who may publish in a space: its genesis, invitations, and the admission that opens a feed (DESIGN §4).

All of it is signatures over exact bytes. No clock is read: whoever delivered the space key judged expiry.
"""

from hashlib import sha256

import msgspec

from loremesh.crypto.errors import BadSignature
from loremesh.crypto.identity import verify
from loremesh.sync.errors import InvalidInput, Malformed
from loremesh.sync.wire import ID_BYTES, MAX_NUMBER, Signer, decoded

INVITATION_DOMAIN = "invitation"
ADMISSION_DOMAIN = "admission"
DELIVERY_DOMAIN = "delivery"

GENESIS_FORMAT = 1
MAX_ADMINS = 16
NONCE_BYTES = 32
MAX_NAME_CHARACTERS = 64
MAX_USES = 10_000
MAX_GENESIS_BYTES = 4096
ONE_FX = 1 << 16
MAX_CAP_FX = 1 << 36
SIGNATURE_BYTES = 64


class Genesis(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a space is from its beginning: its id is the hash of this."""

    format: int
    admins: tuple[bytes, ...]
    """1 to 16 public keys of 32 bytes, ascending: the first administrators."""
    nonce: bytes
    """32 random bytes: two spaces of the same people and name differ."""
    name: str
    """What people call it, 1 to 64 printable characters. Not unique."""
    member_trust_fx: int
    """Trust that members give one another until told otherwise, in units of 2⁻¹⁶, 0 … 2¹⁶."""
    cap_fx: int
    """Cap C per block and peer that members start from, in units of 2⁻¹⁶ (DESIGN §4)."""
    content: bool
    """Whether texts travel; a space without them shares statistics only."""


class Invitation(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What an administrator signs: whoever holds the private half of `key` may admit peers with it."""

    space: bytes
    key: bytes
    """Public half of the invitation key, 32 bytes."""
    principal: str
    """Peers admitted by invitations of one label are one principal; 1 to 64 printable characters."""
    uses: int
    """How many distinct peers each receiver admits by this key, in the order they come; 1 … 10,000."""
    expires_ms: int
    """Unix milliseconds, 0 for never. Judged by the deliverer of the space key, never by receivers."""


class SignedInvitation(msgspec.Struct, frozen=True):
    """An invitation's exact bytes with the administrator's signature over them."""

    invitation: Invitation
    invitation_bytes: bytes
    admin: bytes
    signature: bytes


class Admission(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The body of an admission frame. All fields empty: the origin is one of the genesis' administrators."""

    invitation: bytes = b""
    """An `Invitation` as it was signed."""
    admin: bytes = b""
    admin_signature: bytes = b""
    """Over `invitation`, domain `invitation`."""
    key_signature: bytes = b""
    """By the invitation key over space ‖ origin, domain `admission`."""
    deliverer: bytes = b""
    """The member who handed the space key over; empty when it came in the token, so from `admin`."""
    delivery_signature: bytes = b""
    """By the deliverer over space ‖ invitation key ‖ origin, domain `delivery`; empty without one."""
    name: str = ""
    """What the peer calls itself, at most 64 printable characters: shown to people, proof of nothing."""


class Admittance(msgspec.Struct, frozen=True):
    """What a valid admission says, before uses are counted."""

    principal: str
    """The invitation's label, which means nothing outside its space; '' (an administrator): itself alone."""
    invitation_key: bytes
    """Empty for an administrator."""
    uses: int
    deliverer: bytes
    """Empty, or a peer that has to be a member."""
    name: str = ""
    """What the peer calls itself."""


def encode_genesis(genesis: Genesis) -> bytes:
    """The bytes whose hash is the space's id. Raises `InvalidInput` naming the field out of bounds."""
    try:
        _check_genesis(genesis)
    except Malformed as wrong:
        raise InvalidInput(wrong.field, wrong.reason) from None
    return msgspec.msgpack.encode(genesis)


def decode_genesis(data: bytes) -> Genesis:
    """The genesis in `data`, which must be in its only form. Raises `Malformed`."""
    if len(data) > MAX_GENESIS_BYTES:
        raise Malformed("genesis", f"has {len(data)} bytes; at most {MAX_GENESIS_BYTES} are allowed")
    genesis = decoded(_genesis_decoder, data, "genesis")
    _check_genesis(genesis)
    if msgspec.msgpack.encode(genesis) != data:
        raise Malformed("genesis", "is not in its shortest form")
    return genesis


_genesis_decoder = msgspec.msgpack.Decoder(Genesis)


def space_id(genesis_bytes: bytes) -> bytes:
    """The 32-byte id of the space that `genesis_bytes` begins: SHA-256 of `loremesh/1/genesis` ‖ 0 ‖ them."""
    return sha256(b"loremesh/1/genesis\0" + genesis_bytes).digest()


def invite(signer: Signer, invitation: Invitation) -> SignedInvitation:
    """The invitation signed by an administrator. Raises `InvalidInput` naming the field out of bounds."""
    try:
        _check_invitation(invitation)
    except Malformed as wrong:
        raise InvalidInput(wrong.field, wrong.reason) from None
    data = msgspec.msgpack.encode(invitation)
    return SignedInvitation(invitation, data, signer.public, signer.sign(INVITATION_DOMAIN, data))


def decode_invitation(data: bytes) -> Invitation:
    """The invitation in `data`. Raises `Malformed`."""
    invitation = decoded(_invitation_decoder, data, "invitation")
    _check_invitation(invitation)
    return invitation


_invitation_decoder = msgspec.msgpack.Decoder(Invitation)


def admission_for(invited: SignedInvitation, key: Signer, peer: bytes, name: str = "") -> Admission:
    """What `peer`, holding the invitation key, puts into its first control frame; `name` is its own word."""
    signature = key.sign(ADMISSION_DOMAIN, invited.invitation.space + peer)
    return Admission(invited.invitation_bytes, invited.admin, invited.signature, signature, name=name)


def encode_admission(admission: Admission) -> bytes:
    """The body of an admission frame."""
    return msgspec.msgpack.encode(admission)


def decode_admission(body: bytes) -> Admission:
    """The admission in `body`. Raises `Malformed`."""
    return decoded(_admission_decoder, body, "admission")


_admission_decoder = msgspec.msgpack.Decoder(Admission)


def check_admission(genesis: Genesis, space: bytes, origin: bytes, admission: Admission) -> Admittance:
    """Whether `admission` admits `origin` to `space`, uses and the deliverer's membership aside.

    Raises `Malformed` naming what is missing or contradicts, and `BadSignature`.
    """
    if admission.name:
        _check_name("admission.name", admission.name)
    if not _has_invitation(admission):
        if origin not in genesis.admins:
            raise Malformed("admission.invitation", "is missing, and the peer is no first administrator")
        return admittance_of(admission)
    invitation = decode_invitation(admission.invitation)
    if invitation.space != space:
        raise Malformed("admission.invitation", "is for another space")
    if admission.admin not in genesis.admins:
        raise Malformed("admission.admin", "is no administrator of the space")
    if bool(admission.deliverer) != bool(admission.delivery_signature):
        raise Malformed("admission.deliverer", "and its signature must both be there, or neither")
    verify(admission.admin, INVITATION_DOMAIN, admission.invitation, admission.admin_signature)
    verify(invitation.key, ADMISSION_DOMAIN, space + origin, admission.key_signature)
    if admission.deliverer:
        delivered = space + invitation.key + origin
        verify(admission.deliverer, DELIVERY_DOMAIN, delivered, admission.delivery_signature)
    return admittance_of(admission)


def admittance_of(admission: Admission) -> Admittance:
    """What an admission says, none of it verified: for those that were when they came. Raises `Malformed`."""
    if not _has_invitation(admission):
        return Admittance("", b"", 1, b"", admission.name)
    invitation = decode_invitation(admission.invitation)
    return Admittance(
        invitation.principal, invitation.key, invitation.uses, admission.deliverer, admission.name
    )


def _has_invitation(admission: Admission) -> bool:
    """Whether anything but the name is there: without, the origin claims to be a first administrator."""
    return msgspec.structs.replace(admission, name="") != Admission()


def check_signed_invitation(genesis: Genesis, space: bytes, invited: SignedInvitation) -> None:
    """Raise `Malformed` unless an administrator of `space` signed this invitation to it."""
    if invited.invitation.space != space:
        raise Malformed("invitation.space", "is another space than the genesis begins")
    if invited.admin not in genesis.admins:
        raise Malformed("invitation", "is not signed by an administrator of the space")
    try:
        verify(invited.admin, INVITATION_DOMAIN, invited.invitation_bytes, invited.signature)
    except BadSignature as wrong:
        raise Malformed("invitation", f"is not valid: {wrong}") from None


def _check_genesis(genesis: Genesis) -> None:
    if genesis.format != GENESIS_FORMAT:
        raise Malformed("genesis.format", f"is {genesis.format}; this release reads {GENESIS_FORMAT}")
    if not 1 <= len(genesis.admins) <= MAX_ADMINS:
        raise Malformed("genesis.admins", f"has {len(genesis.admins)} keys; 1 to {MAX_ADMINS} are allowed")
    if any(len(admin) != ID_BYTES for admin in genesis.admins):
        raise Malformed("genesis.admins", f"must be public keys of {ID_BYTES} bytes")
    if list(genesis.admins) != sorted(set(genesis.admins)):
        raise Malformed("genesis.admins", "must be distinct and ascending")
    if len(genesis.nonce) != NONCE_BYTES:
        raise Malformed("genesis.nonce", f"has {len(genesis.nonce)} bytes, not {NONCE_BYTES}")
    _check_name("genesis.name", genesis.name)
    if not 0 <= genesis.member_trust_fx <= ONE_FX:
        raise Malformed("genesis.member_trust_fx", f"is {genesis.member_trust_fx}, not within 0 … {ONE_FX}")
    if not 0 < genesis.cap_fx <= MAX_CAP_FX:
        raise Malformed("genesis.cap_fx", f"is {genesis.cap_fx}, not within 1 … 2³⁶")


def _check_invitation(invitation: Invitation) -> None:
    if len(invitation.space) != ID_BYTES or len(invitation.key) != ID_BYTES:
        raise Malformed("invitation", f"must have a space and a key of {ID_BYTES} bytes")
    _check_name("invitation.principal", invitation.principal)
    if not 1 <= invitation.uses <= MAX_USES:
        raise Malformed("invitation.uses", f"is {invitation.uses}, not within 1 … {MAX_USES}")
    if not 0 <= invitation.expires_ms <= MAX_NUMBER:
        raise Malformed("invitation.expires_ms", f"is {invitation.expires_ms}, not within 0 … 2⁶³−1")


def _check_name(field: str, name: str) -> None:
    if not 1 <= len(name) <= MAX_NAME_CHARACTERS or not name.isprintable() or name != name.strip():
        raise Malformed(
            field, f"{name[:80]!a} must be 1 to {MAX_NAME_CHARACTERS} printable characters, ends not blank"
        )
