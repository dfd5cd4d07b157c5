"""Peer ids: names of public keys, short enough to read aloud, refused when mistyped.

An id is a display name. It carries 90 bits of a hash, so an owner of two keys could, with some 2⁴⁵ work, give
them one id; code compares full public keys and uses ids only to show and to ask.
"""

from hashlib import sha256

from loremesh.crypto.errors import MistypedPeerId

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base32: no i, l, o, u
DATA_CHARACTERS = 18
CHARACTERS = DATA_CHARACTERS + 2
_GROUP = 5
_MODULUS = 1021  # the largest prime below 32²
_VALUE_OF = {character: value for value, character in enumerate(ALPHABET)}
_ALIASES = {"o": 0, "i": 1, "l": 1}
_SEPARATORS = frozenset(" \t\r\n-\u00a0\u2010\u2011\u2012\u2013\u2014\u2212")
_TEXT_CHARACTERS_MAX = 80


def peer_id(public: bytes) -> str:
    """The id of a 32-byte Ed25519 public key, as in `3m9k2-x0a7v-…`: 20 characters in 4 groups of 5.

    18 characters are the first 90 bits of SHA-256(`loremesh/1/peer-id` ‖ 0 ‖ public), most significant first;
    the last two are `_check` of them. Raises `ValueError` for a key of another length.
    """
    if len(public) != 32:
        raise ValueError(f"public key must have 32 bytes, not {len(public)}")
    digest = sha256(b"loremesh/1/peer-id\0" + public).digest()
    value = int.from_bytes(digest[:12], "big") >> 6
    return _text_of(value)


def parse_peer_id(text: str) -> str:
    """The canonical form of an id as people type it: any case, spaces and dashes; o for 0; i or l for 1.

    Raises `MistypedPeerId`, saying which character cannot be, or how many there are, or that the check fails.
    """
    if len(text) > _TEXT_CHARACTERS_MAX:
        raise MistypedPeerId(_wrong_length(len(text)))
    digits: list[int] = []
    for position, character in enumerate(text, 1):
        if character in _SEPARATORS:
            continue
        digit = _digit(character)
        if digit is None:
            raise MistypedPeerId(
                f"character {position} of the peer id, {character!a}, cannot occur in one: "
                f"an id uses the letters and digits {ALPHABET}"
            )
        digits.append(digit)
    if len(digits) != CHARACTERS:
        raise MistypedPeerId(_wrong_length(len(digits)))
    value = _number(digits[:DATA_CHARACTERS])
    if _number(digits[DATA_CHARACTERS:]) != _check(value):
        raise MistypedPeerId("the check characters of the peer id do not fit: compare it with the original")
    return _text_of(value)


def _check(value: int) -> int:
    """value·32² mod 1021.

    The whole id, read as a base-32 number with the check subtracted, is then 0 mod 1021. Every position has
    a weight ±32ⁱ of its own mod 1021 (32 has order 68, and −1 = 32³⁴), all differences of digits are below
    1021, and 1021 is prime: so every single substitution and every transposition of any two characters shows.
    """
    return value * 32**2 % _MODULUS


def _wrong_length(length: int) -> str:
    return f"a peer id has {CHARACTERS} characters in groups of {_GROUP}; this one has {length}"


def _digit(character: str) -> int | None:
    if not character.isascii():  # lower() would fold some foreign letters into these
        return None
    folded = character.lower()
    return _VALUE_OF.get(folded, _ALIASES.get(folded))


def _number(digits: list[int]) -> int:
    number = 0
    for digit in digits:
        number = number * 32 + digit
    return number


def _text_of(value: int) -> str:
    number = value * 32**2 + _check(value)
    characters = "".join(ALPHABET[number >> 5 * i & 31] for i in reversed(range(CHARACTERS)))
    return "-".join(characters[i : i + _GROUP] for i in range(0, CHARACTERS, _GROUP))
