"""Identities derive their keys from one seed; signatures hold for one key, one domain and one message."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st
from nacl.signing import SigningKey as NaclKey

from loremesh.crypto.errors import BadSignature
from loremesh.crypto.identity import Identity, SigningKey, nats_user_from_seed, verify
from loremesh.crypto.peerid import peer_id
from tests.crypto import oracle

SEED = bytes(range(32))
ALICE = Identity.from_seed(SEED)


def test_the_keys_of_a_seed_are_what_they_always_were() -> None:
    """Golden bytes: a change of the derivation would make every peer a stranger."""
    assert ALICE.public.hex() == "efa57cf1d97d03e051e34b9fe57283401e393e2dfb8b279924a0a174e647e80c"
    assert ALICE.box_public.hex() == "2da362f145b2bd70a2bf9578a41079232612e61bffb5a79427ea64aae2834c28"
    assert ALICE.nats_seed() == "SUANLQDM6BZ242AUDO3KIJW57A6PIDFILMOVW6SIOCDIYUDR5EGMDNSG4Q"
    assert ALICE.nats_public == "UBLGVFIMBKHD6HZJKZTBAX74XFZ2642E22I7FRAK3BIXZ3JB5MZA26CB"
    assert ALICE.peer_id == "eh1m0-vcd98-2z933-dzhcr"


def test_a_signature_is_what_it_always_was() -> None:
    """Golden bytes of a signature: the prefix of the signed bytes is part of the protocol."""
    assert ALICE.sign("frame", b"message").hex() == (
        "d1fb86b3c631aa984f65a898c0f3603032515b9bc1adfe84ad8a19dbe47b76e2"
        "c644b1506f8fa9b5fe3d3c6708da9dbcc8d84e004b18b8a3c9c497cfad4c820c"
    )


@settings(deadline=None)
@given(st.binary(min_size=32, max_size=32), st.binary(max_size=300))
def test_identities_are_as_the_page_describes_them(seed: bytes, message: bytes) -> None:
    """Another library, fed by the derivation that the page states, makes the same keys and signatures."""
    identity = Identity.from_seed(seed)
    signing = NaclKey(oracle.hkdf(seed, b"loremesh/1/identity-sign", 32))
    box = X25519PrivateKey.from_private_bytes(oracle.hkdf(seed, b"loremesh/1/identity-box", 32))
    assert identity.public == bytes(signing.verify_key)
    assert identity.box_public == box.public_key().public_bytes_raw()
    assert identity.sign("a-domain", message) == signing.sign(b"loremesh/1/a-domain\0" + message).signature
    assert identity.export_seed() == seed


def test_nats_keys_are_those_of_the_nats_library() -> None:
    """The library that NATS clients use reads the seed and finds the same public key."""
    nkeys = pytest.importorskip("nkeys")
    for raw in (bytes(32), SEED, b"\xff" * 32):
        seed_text, public_text = nats_user_from_seed(raw)
        assert nkeys.encode_seed(raw, nkeys.PREFIX_BYTE_USER).decode() == seed_text
        assert nkeys.from_seed(bytearray(seed_text.encode())).public_key.decode() == public_text


def test_generated_identities_differ() -> None:
    """Randomness reaches every key."""
    assert len({Identity.generate().public for _ in range(20)}) == 20
    assert len({SigningKey.generate().public for _ in range(20)}) == 20


def test_the_three_keys_of_an_identity_are_unrelated() -> None:
    """No key is used for two purposes: the NATS key signs nothing of ours, the box key is no signing key."""
    signing = oracle.hkdf(SEED, b"loremesh/1/identity-sign", 32)
    assert nats_user_from_seed(signing)[1] != ALICE.nats_public
    assert X25519PrivateKey.from_private_bytes(signing).public_key().public_bytes_raw() != ALICE.box_public


def test_a_bare_signing_key_verifies_and_exports() -> None:
    """An invitation's key does what an identity's does, without the derivation."""
    key = SigningKey.from_seed(SEED)
    assert key.export_seed() == SEED
    assert key.public == bytes(NaclKey(SEED).verify_key)
    verify(key.public, "invite", b"x", key.sign("invite", b"x"))


def test_a_signature_of_one_domain_fails_in_another() -> None:
    """What was signed as one thing is never accepted as another."""
    signature = ALICE.sign("frame", b"message")
    verify(ALICE.public, "frame", b"message", signature)
    with pytest.raises(BadSignature):
        verify(ALICE.public, "head", b"message", signature)


def test_a_message_cannot_move_into_the_domain() -> None:
    """Domain and message cannot be split differently: (`a`, `b` 0 …) is not (`a` …)."""
    signature = ALICE.sign("a", b"b\0rest")
    with pytest.raises(BadSignature):
        verify(ALICE.public, "a", b"rest", signature)
    with pytest.raises(BadSignature):
        verify(ALICE.public, "ab", b"\0rest", signature)


@pytest.mark.parametrize("domain", ["", "A", "a b", "a\0", "a\n", "x" * 33, "ä", "a/b"])
def test_a_domain_outside_its_alphabet_is_a_mistake(domain: str) -> None:
    """Such a domain is refused when signing and when verifying, so none is ever ambiguous."""
    with pytest.raises(ValueError, match="domain"):
        ALICE.sign(domain, b"")
    with pytest.raises(ValueError, match="domain"):
        verify(ALICE.public, domain, b"", bytes(64))


def test_a_changed_bit_in_message_signature_or_key_is_refused() -> None:
    """Every single bit counts."""
    signature = ALICE.sign("frame", b"message")
    for message in oracle.flipped(b"message"):
        with pytest.raises(BadSignature):
            verify(ALICE.public, "frame", message, signature)
    for changed in oracle.flipped(signature):
        with pytest.raises(BadSignature):
            verify(ALICE.public, "frame", b"message", changed)
    for public in oracle.flipped(ALICE.public):
        with pytest.raises(BadSignature):
            verify(public, "frame", b"message", signature)


@pytest.mark.parametrize(
    ("public_bytes", "signature_bytes"), [(31, 64), (33, 64), (0, 64), (32, 63), (32, 65)]
)
def test_what_has_the_wrong_length_is_a_bad_signature(public_bytes: int, signature_bytes: int) -> None:
    """Lengths come from peers too: they are refused, not crashed on."""
    with pytest.raises(BadSignature):
        verify(bytes(public_bytes), "frame", b"", bytes(signature_bytes))


def test_a_key_under_which_anyone_can_sign_is_nobodys() -> None:
    """Under the neutral point, R = 1 and S = 0 sign everything; plain Ed25519 takes it, `verify` does not."""
    neutral = bytes([1]) + bytes(31)
    Ed25519PublicKey.from_public_bytes(neutral).verify(neutral + bytes(32), b"loremesh/1/frame\0anything")
    with pytest.raises(BadSignature, match="public key"):
        verify(neutral, "frame", b"anything", neutral + bytes(32))
    with pytest.raises(BadSignature, match="public key"):
        verify(neutral[:31] + b"\x80", "frame", b"anything", neutral + bytes(32))


def test_no_key_of_small_order_is_taken() -> None:
    """Each point that eight additions bring to the neutral one is refused by name, in every encoding."""
    p = 2**255 - 19
    d = -121665 * pow(121666, -1, p) % p

    def doubled(x: int, y: int) -> tuple[int, int]:
        product = d * x * x * y * y % p
        return (
            2 * x * y * pow(1 + product, -1, p) % p,
            (y * y + x * x) * pow(1 - product, -1, p) % p,
        )

    def x_of(y: int) -> int | None:
        square = (y * y - 1) * pow(d * y * y + 1, -1, p) % p
        root = pow(square, (p + 3) // 8, p)
        root = root if root * root % p == square else root * pow(2, (p - 1) // 4, p) % p
        return root if root * root % p == square else None

    order_8 = (
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    )
    refused = [0, 1, p - 1, p, p + 1, *(int.from_bytes(bytes.fromhex(y), "little") for y in order_8)]
    for y in refused:
        x = x_of(y % p)
        assert x is not None
        point = (x, y % p)
        for _ in range(3):
            point = doubled(*point)
        assert point == (0, 1)
        for sign in (0, 1 << 255):
            with pytest.raises(BadSignature, match="public key"):
                verify((y | sign).to_bytes(32, "little"), "frame", b"", bytes(64))


@pytest.mark.parametrize("length", [0, 31, 33])
def test_a_seed_of_another_length_is_refused(length: int) -> None:
    """Nothing is padded or cut in silence."""
    for make in (Identity.from_seed, SigningKey.from_seed, nats_user_from_seed):
        with pytest.raises(ValueError, match="32 bytes"):
            make(bytes(length))


def test_the_id_is_that_of_the_signing_key() -> None:
    """What people read aloud names what signs."""
    assert ALICE.peer_id == peer_id(ALICE.public)
