"""What lies on disk opens in its own place, in its own home, and nowhere else."""

import hashlib
import hmac

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loremesh.crypto.atrest import KEYED_ID_BYTES, WRAPPED_KEY_BYTES, HomeKeys, open_block, seal_block
from loremesh.crypto.errors import SealBroken
from loremesh.crypto.seal import unseal, unseal_large
from tests.crypto import oracle

ROOT = bytes(range(32))
HOME, OTHER_HOME = HomeKeys(ROOT), HomeKeys(bytes(32))
BLOCK_KEY = bytes(range(64, 96))


@settings(deadline=None)
@given(st.from_regex(r"[a-z0-9-]{1,32}", fullmatch=True), st.binary(max_size=200), st.binary(max_size=50))
def test_what_a_home_sealed_it_opens(label: str, plaintext: bytes, aad: bytes) -> None:
    """For any label, text and associated data, small or large form."""
    assert HOME.open_home(label, HOME.seal_home(label, plaintext, aad), aad) == plaintext
    assert HOME.open_home_large(label, HOME.seal_home_large(label, plaintext, aad), aad) == plaintext


def test_the_keys_of_a_home_are_what_they_always_were() -> None:
    """Golden bytes and the page's derivation: a change would make every home unreadable."""
    assert HOME.keyed_id(bytes(32)).hex() == "435862460f571052f5c9153f44855936"
    index_key = oracle.hkdf(ROOT, b"loremesh/1/index", 32)
    assert HOME.keyed_id(b"id") == hmac.new(index_key, b"id", hashlib.sha256).digest()[:KEYED_ID_BYTES]
    frames_key = oracle.hkdf(ROOT, b"loremesh/1/home/frames", 32)
    assert unseal(frames_key, HOME.seal_home("frames", b"text", b"aad"), b"aad") == b"text"
    assert unseal_large(frames_key, HOME.seal_home_large("frames", b"text", b"aad"), b"aad") == b"text"
    key, wrapped = HOME.new_block_key(5)
    aad = b"loremesh/1/block-key\0" + (5).to_bytes(8, "big")
    assert unseal(oracle.hkdf(ROOT, b"loremesh/1/wrap", 32), wrapped, aad) == key


def test_the_parts_of_a_block_are_bound_as_the_page_says() -> None:
    """Associated data: part, row and numbers, in fixed widths."""
    sealed = seal_block(BLOCK_KEY, "event", 5, b"text", 77)
    aad = b"loremesh/1/event\0" + (5).to_bytes(8, "big") + (77).to_bytes(8, "big")
    assert unseal(BLOCK_KEY, sealed, aad) == b"text"


def test_one_label_does_not_open_another() -> None:
    """A frame put in the place of a column is refused, and so is a frame of another row or home."""
    sealed = HOME.seal_home("frames", b"text", b"row 1")
    for home, label, aad in (
        (HOME, "columns", b"row 1"),
        (HOME, "frames", b"row 2"),
        (OTHER_HOME, "frames", b"row 1"),
    ):
        with pytest.raises(SealBroken):
            home.open_home(label, sealed, aad)
    large = HOME.seal_home_large("frames", b"text", b"row 1")
    for home, label, aad in (
        (HOME, "columns", b"row 1"),
        (HOME, "frames", b"row 2"),
        (OTHER_HOME, "frames", b"row 1"),
    ):
        with pytest.raises(SealBroken):
            home.open_home_large(label, large, aad)


def test_keyed_ids_tell_nothing_across_homes() -> None:
    """The same block has unrelated ids in two homes, and always the same one in one."""
    block = hashlib.sha256(b"text").digest()
    assert HOME.keyed_id(block) == HomeKeys(ROOT).keyed_id(block)
    assert HOME.keyed_id(block) != OTHER_HOME.keyed_id(block)
    assert HOME.keyed_id(block) not in block


def test_a_block_key_unwraps_in_its_own_row_only() -> None:
    """Wrapped keys exchanged between rows or homes are refused."""
    key, wrapped = HOME.new_block_key(5)
    assert len(wrapped) == WRAPPED_KEY_BYTES
    assert HOME.unwrap_block_key(5, wrapped) == key
    with pytest.raises(SealBroken, match="block row 6"):
        HOME.unwrap_block_key(6, wrapped)
    with pytest.raises(SealBroken, match="block row 5"):
        OTHER_HOME.unwrap_block_key(5, wrapped)


def test_a_wrapped_key_is_no_home_data_and_the_other_way_round() -> None:
    """The wrapping key is not the key of any label."""
    _, wrapped = HOME.new_block_key(5)
    for label in ("wrap", "block-key", "frames"):
        with pytest.raises(SealBroken):
            HOME.open_home(label, wrapped, b"loremesh/1/block-key\0" + (5).to_bytes(8, "big"))


def test_every_block_has_a_key_of_its_own() -> None:
    """Also a row used again after forgetting: destroying the wrapped key destroys the block."""
    assert len({HOME.new_block_key(5)[0] for _ in range(50)}) == 50


@pytest.mark.parametrize(
    ("part", "row", "numbers"),
    [
        ("content", 5, (1, 2)),
        ("event", 6, (1, 2)),
        ("event", 5, (2, 1)),
        ("event", 5, (1,)),
        ("event", 5, (1, 2, 0)),
        ("event", 5, ()),
    ],
)
def test_a_part_of_a_block_opens_in_its_own_place_only(part: str, row: int, numbers: tuple[int, ...]) -> None:
    """Another part, row, log row, or count of numbers: refused, naming the part and row asked for."""
    sealed = seal_block(BLOCK_KEY, "event", 5, b"text", 1, 2)
    assert open_block(BLOCK_KEY, "event", 5, sealed, 1, 2) == b"text"
    with pytest.raises(SealBroken, match=f"the {part} of block row {row}"):
        open_block(BLOCK_KEY, part, row, sealed, *numbers)


def test_a_part_opens_under_its_own_block_key_only() -> None:
    """A key that was destroyed and made anew opens nothing old."""
    with pytest.raises(SealBroken):
        open_block(ROOT, "event", 5, seal_block(BLOCK_KEY, "event", 5, b"text"))


def test_a_bit_changed_in_any_row_is_refused() -> None:
    """Block parts, wrapped keys and home data alike."""
    for changed in oracle.flipped(seal_block(BLOCK_KEY, "content", 5, b"text")):
        with pytest.raises(SealBroken):
            open_block(BLOCK_KEY, "content", 5, changed)
    for changed in oracle.flipped(HOME.new_block_key(5)[1]):
        with pytest.raises(SealBroken):
            HOME.unwrap_block_key(5, changed)
    for changed in oracle.flipped(HOME.seal_home("meta", b"text")):
        with pytest.raises(SealBroken):
            HOME.open_home("meta", changed)


@pytest.mark.parametrize("name", ["", "A", "a\0b", "x" * 33, "a b", "a\n", "ü"])
def test_labels_and_parts_outside_their_alphabet_are_a_mistake(name: str) -> None:
    """So that no two of them can ever be read as one."""
    with pytest.raises(ValueError, match="a-z"):
        HOME.seal_home(name, b"")
    with pytest.raises(ValueError, match="a-z"):
        seal_block(BLOCK_KEY, name, 5, b"")


@pytest.mark.parametrize("row", [-1, 2**63])
def test_row_numbers_out_of_range_are_a_mistake(row: int) -> None:
    """SQLite's row numbers are the range."""
    with pytest.raises(ValueError, match="rows"):
        HOME.new_block_key(row)
    with pytest.raises(ValueError, match="rows"):
        seal_block(BLOCK_KEY, "event", 5, b"", row)


def test_a_root_key_of_another_length_is_a_mistake() -> None:
    """Nothing is padded in silence."""
    with pytest.raises(ValueError, match="32 bytes"):
        HomeKeys(bytes(16))
