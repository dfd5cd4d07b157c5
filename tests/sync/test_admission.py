"""Genesis, invitations, admissions and tokens: golden bytes, and everything that must not admit."""

import base64
from collections.abc import Callable
from hashlib import sha256

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loremesh.crypto.errors import BadSignature
from loremesh.crypto.identity import Identity, SigningKey
from loremesh.sync.admission import (
    Admission,
    Genesis,
    Invitation,
    SignedInvitation,
    admission_for,
    check_admission,
    decode_admission,
    decode_genesis,
    encode_admission,
    encode_genesis,
    invite,
    space_id,
)
from loremesh.sync.errors import InvalidInput, Malformed
from loremesh.sync.token import PREFIX, decode_token, encode_token
from tests.sync.world import EPOCH_KEY, Space

GENESIS = Genesis(1, (b"\x11" * 32,), b"\x22" * 32, "team", 32768, 2097152, True)
GOLDEN_GENESIS = f"970191c420{'11' * 32}c420{'22' * 32}a47465616dcd8000ce00200000c3"
SERVER = "nats://127.0.0.1:4222"


def test_a_genesis_has_these_bytes_and_a_space_this_id() -> None:
    assert encode_genesis(GENESIS).hex() == GOLDEN_GENESIS
    assert decode_genesis(bytes.fromhex(GOLDEN_GENESIS)) == GENESIS
    expected = sha256(b"loremesh/1/genesis\0" + bytes.fromhex(GOLDEN_GENESIS))
    assert space_id(encode_genesis(GENESIS)) == expected.digest()


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("genesis.format", {"format": 2}),
        ("genesis.admins", {"admins": ()}),
        ("genesis.admins", {"admins": (b"a" * 31,)}),
        ("genesis.admins", {"admins": (b"b" * 32, b"a" * 32)}),
        ("genesis.admins", {"admins": (b"a" * 32, b"a" * 32)}),
        ("genesis.nonce", {"nonce": b"n"}),
        ("genesis.name", {"name": ""}),
        ("genesis.name", {"name": "x" * 65}),
        ("genesis.name", {"name": "a\nb"}),
        ("genesis.member_trust_fx", {"member_trust_fx": 65537}),
        ("genesis.member_trust_fx", {"member_trust_fx": -1}),
        ("genesis.cap_fx", {"cap_fx": 0}),
    ],
)
def test_a_genesis_out_of_bounds_is_refused(field: str, changes: dict[str, object]) -> None:
    wrong = msgspec.structs.replace(GENESIS, **changes)
    with pytest.raises(InvalidInput) as caught:
        encode_genesis(wrong)
    assert caught.value.field == field
    with pytest.raises(Malformed):
        decode_genesis(msgspec.msgpack.encode(wrong))


def test_a_genesis_has_one_form_only() -> None:
    longer = bytes.fromhex(GOLDEN_GENESIS.replace("cd8000", "ce00008000"))
    with pytest.raises(Malformed, match="shortest form"):
        decode_genesis(longer)


def test_an_invited_peer_is_admitted_under_the_invitations_principal() -> None:
    space = Space()
    ann = space.peer("ann", label="crew", uses=3)
    admittance = check_admission(space.genesis, space.id, ann.public, ann.admission)
    assert (admittance.principal, admittance.uses) == ("crew", 3)
    assert decode_admission(encode_admission(ann.admission)) == ann.admission


def test_an_administrator_is_a_principal_by_itself() -> None:
    space = Space()
    assert check_admission(space.genesis, space.id, space.admin().public, Admission()).principal == ""


def test_what_does_not_admit() -> None:
    space, other = Space(), Space(name="other")
    key, invited = space.invitation("ann")
    ann, bob = space.peer("ann"), space.peer("bob")
    with pytest.raises(Malformed, match="no first administrator"):
        check_admission(space.genesis, space.id, ann.public, Admission())
    with pytest.raises(BadSignature):
        check_admission(space.genesis, space.id, bob.public, ann.admission)
    with pytest.raises(Malformed, match="another space"):
        check_admission(other.genesis, other.id, ann.public, ann.admission)
    forged = invite(Identity.from_seed(b"m" * 32), invited.invitation)
    with pytest.raises(Malformed, match="no administrator"):
        check_admission(space.genesis, space.id, ann.public, admission_for(forged, key, ann.public))
    widened = invite(space.admin_identity, msgspec.structs.replace(invited.invitation, uses=9))
    mixed = SignedInvitation(widened.invitation, widened.invitation_bytes, invited.admin, invited.signature)
    with pytest.raises(BadSignature):
        check_admission(space.genesis, space.id, ann.public, admission_for(mixed, key, ann.public))
    half = msgspec.structs.replace(ann.admission, deliverer=bob.public)
    with pytest.raises(Malformed, match="neither"):
        check_admission(space.genesis, space.id, ann.public, half)


def test_a_deliverer_signs_for_the_peer_and_the_invitation() -> None:
    space = Space()
    ann, bob = space.peer("ann"), space.peer("bob")
    key, _ = space.invitation("ann")
    signature = bob.identity.sign("delivery", space.id + key.public + ann.public)
    delivered = msgspec.structs.replace(ann.admission, deliverer=bob.public, delivery_signature=signature)
    assert check_admission(space.genesis, space.id, ann.public, delivered).deliverer == bob.public
    other = msgspec.structs.replace(delivered, delivery_signature=bob.identity.sign("delivery", b"x"))
    with pytest.raises(BadSignature):
        check_admission(space.genesis, space.id, ann.public, other)


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("invitation.uses", {"uses": 0}),
        ("invitation.principal", {"principal": " crew"}),
        ("invitation.expires_ms", {"expires_ms": -1}),
        ("invitation", {"key": b"k"}),
    ],
)
def test_an_invitation_out_of_bounds_is_not_signed(field: str, changes: dict[str, object]) -> None:
    space = Space()
    _, invited = space.invitation("ann")
    with pytest.raises(InvalidInput) as caught:
        invite(space.admin_identity, msgspec.structs.replace(invited.invitation, **changes))
    assert caught.value.field == field


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_no_genesis_and_no_admission_that_admits(data: bytes) -> None:
    space = Space()
    with pytest.raises(Malformed):
        decode_genesis(data)
    with pytest.raises((Malformed, BadSignature)):
        check_admission(space.genesis, space.id, b"p" * 32, decode_admission(data))


def token() -> str:
    space = Space()
    key, invited = space.invitation("ann")
    return encode_token(SERVER, "SUSECRET", space.genesis_bytes, 4, EPOCH_KEY, key, invited)


def test_a_token_brings_back_what_was_put_in() -> None:
    space = Space()
    key, invited = space.invitation("ann")
    found = decode_token(token())
    assert (found.server, found.credential, found.epoch, found.epoch_key) == (
        SERVER,
        "SUSECRET",
        4,
        EPOCH_KEY,
    )
    assert (found.space, found.genesis) == (space.id, space.genesis)
    assert (found.seed, found.invited) == (key.export_seed(), invited)


def test_a_token_survives_being_wrapped_by_a_mail_program() -> None:
    text = token()
    assert decode_token(f"  {text[:60]}\n{text[60:]}\n") == decode_token(text)


def test_a_token_does_not_show_its_secrets() -> None:
    shown = repr(decode_token(token()))
    assert "team" in shown
    for secret in ("SUSECRET", repr(EPOCH_KEY)[2:-1], EPOCH_KEY.hex()):
        assert secret not in shown


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda text: text[1:], "does not begin with lmt1_"),
        (lambda text: text[:-1], "cut"),
        (lambda text: text[:-20], "cut"),
        (lambda text: text[:30] + ("A" if text[30] != "A" else "B") + text[31:], "mistyped"),
        (lambda text: text.replace("_", "+", 2).replace("+", "_", 1) + "ä", "characters that no token has"),
        (lambda _: "", "does not begin"),
        (lambda text: text + "A" * 10_000, "too long"),
    ],
)
def test_a_spoilt_token_is_refused_with_what_is_wrong_and_without_repeating_it(
    spoil: Callable[[str], str], says: str
) -> None:
    text = spoil(token())
    with pytest.raises(InvalidInput, match=says) as caught:
        decode_token(text)
    assert text[10:40] not in str(caught.value) or not text


def test_a_token_whose_invitation_no_administrator_signed_is_refused() -> None:
    space = Space()
    key = SigningKey.from_seed(b"k" * 32)
    forged = invite(Identity.from_seed(b"m" * 32), Invitation(space.id, key.public, "mallory", 1, 0))
    with pytest.raises(InvalidInput, match="not signed by an administrator"):
        encode_token(SERVER, "", space.genesis_bytes, 0, EPOCH_KEY, key, forged)


def test_a_token_with_another_invitation_key_is_refused() -> None:
    space = Space()
    _, invited = space.invitation("ann")
    with pytest.raises(InvalidInput, match="not the one that was signed"):
        encode_token(SERVER, "", space.genesis_bytes, 0, EPOCH_KEY, SigningKey.from_seed(b"k" * 32), invited)


@settings(max_examples=200)
@given(st.binary(max_size=120))
def test_arbitrary_bytes_are_no_token(data: bytes) -> None:
    with pytest.raises(InvalidInput):
        decode_token(PREFIX + base64.urlsafe_b64encode(data).rstrip(b"=").decode())
