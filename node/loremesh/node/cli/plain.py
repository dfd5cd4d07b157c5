"""Other people's texts on a terminal: shown as characters, never obeyed."""

from __future__ import annotations

import unicodedata
from typing import Final

KEPT: Final = frozenset("\n\t")
DIRECTIONS: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Marks that reverse the reading direction: with them a text can look like another one."""


def plain(text: str) -> str:
    r"""The text with every character that a terminal would act on written out instead.

    >>> plain("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    if text.isprintable():
        return text
    return "".join(_shown(character) for character in text)


def _shown(character: str) -> str:
    if character in KEPT:
        return character
    if character in DIRECTIONS or unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp"):
        return (
            character.encode("ascii", "backslashreplace").decode("ascii")
            if ord(character) > 0x7F
            else f"\\x{ord(character):02x}"
        )
    return character


def one_line(text: str, width: int) -> str:
    """The first `width` characters of a text, on one line."""
    flat = " ".join(plain(text).split())
    return flat if len(flat) <= width else flat[: max(1, width - 1)] + "…"
