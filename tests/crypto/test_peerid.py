"""Peer ids are stable, readable in any typing, and refused when a character is wrong or two are exchanged."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loremesh.crypto.errors import MistypedPeerId
from loremesh.crypto.peerid import ALPHABET, parse_peer_id, peer_id
from tests.crypto import oracle

GOLDEN = {
    bytes(32): "smfy3-zp04v-f7g8p-bz8jw",
    bytes(range(32)): "ak1h3-181ag-ygp49-c64s6",
}
SAMPLE = peer_id(bytes(range(32)))
CHARACTERS = SAMPLE.replace("-", "")


def grouped(characters: str) -> str:
    return "-".join(characters[i : i + 5] for i in range(0, len(characters), 5))


@pytest.mark.parametrize(("public", "text"), GOLDEN.items())
def test_the_id_of_a_key_is_what_it_always_was(public: bytes, text: str) -> None:
    """Golden ids: a change of the derivation would rename every peer."""
    assert peer_id(public) == text


@settings(deadline=None)
@given(st.binary(min_size=32, max_size=32))
def test_ids_are_as_the_page_describes_them(public: bytes) -> None:
    """A second implementation gives the same id, and reading it back is the identity."""
    assert peer_id(public) == oracle.peer_id(public)
    assert parse_peer_id(peer_id(public)) == peer_id(public)


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_only_a_key_has_an_id(length: int) -> None:
    """A key of another length is the caller's mistake and named as such."""
    with pytest.raises(ValueError, match="32 bytes"):
        peer_id(bytes(length))


def test_every_substitution_of_one_character_is_refused() -> None:
    """No single wrong letter or digit, at any of the 20 places, leads to another peer."""
    for place, original in enumerate(CHARACTERS):
        for other in set(ALPHABET) - {original}:
            mistyped = grouped(CHARACTERS[:place] + other + CHARACTERS[place + 1 :])
            with pytest.raises(MistypedPeerId, match="check"):
                parse_peer_id(mistyped)


@settings(deadline=None)
@given(st.binary(min_size=32, max_size=32))
def test_every_exchange_of_two_characters_is_refused(public: bytes) -> None:
    """Exchanging any two different characters, neighbours or not, leads to no peer."""
    characters = peer_id(public).replace("-", "")
    for i in range(20):
        for j in range(i + 1, 20):
            if characters[i] != characters[j]:
                swapped = list(characters)
                swapped[i], swapped[j] = swapped[j], swapped[i]
                with pytest.raises(MistypedPeerId, match="check"):
                    parse_peer_id("".join(swapped))


def test_check_values_that_no_id_has_are_refused() -> None:
    """The check is below 1021, though two characters could say more: 1021 more is not the same check."""
    small = next(
        grouped(text)
        for text in (peer_id(i.to_bytes(32, "big")).replace("-", "") for i in range(100_000))
        if text[18:] in ("00", "01", "02")
    ).replace("-", "")
    same_modulo_1021 = {"00": "zx", "01": "zy", "02": "zz"}[small[18:]]
    with pytest.raises(MistypedPeerId, match="check"):
        parse_peer_id(small[:18] + same_modulo_1021)


@pytest.mark.parametrize(
    "typed",
    [
        SAMPLE.upper(),
        SAMPLE.replace("-", ""),
        SAMPLE.replace("-", " "),
        SAMPLE.replace("-", "\u2013"),
        f"  {SAMPLE}\n",
        "--".join(CHARACTERS),
        SAMPLE.replace("0", "o").replace("1", "l"),
        SAMPLE.replace("0", "O").replace("1", "I"),
    ],
)
def test_an_id_is_read_however_people_type_it(typed: str) -> None:
    """Case, spaces, dashes and the look-alikes of 0 and 1 are folded into the canonical form."""
    assert parse_peer_id(typed) == SAMPLE


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("", "this one has 0"),
        (CHARACTERS[:-1], "this one has 19"),
        (CHARACTERS + "0", "this one has 21"),
        ("!" * 1_000_000, "this one has 1000000"),
        ("u" + CHARACTERS[1:], "character 1 "),
        (SAMPLE[:-1] + "!", "character 23 of the peer id, '!'"),
        (SAMPLE[:-1] + "\u212a", "character 23 "),
        (SAMPLE[:-1] + "\u0660", "character 23 "),
    ],
)
def test_a_mistyped_id_is_refused_saying_where(typed: str, says: str) -> None:
    """The message counts the characters or points at the one that cannot be."""
    with pytest.raises(MistypedPeerId, match=says):
        parse_peer_id(typed)


@settings(deadline=None)
@given(st.text())
def test_any_text_is_read_or_refused_as_mistyped(text: str) -> None:
    """No text makes the reader fail in another way."""
    with suppress(MistypedPeerId):
        assert parse_peer_id(text).count("-") == 3
