"""What a block of text is: its normal form, its id, and the bounds on it (DESIGN §1, §7)."""

import unicodedata
from hashlib import sha256

from loremesh.sync.errors import InvalidInput

MAX_TEXT_BYTES = 64 * 1024
MAX_CONTEXT_CHARACTERS = 64


def normalise(text: str) -> str:
    """The form under which two texts are the same: NFC, each run of white space one space, ends stripped.

    White space, line ends included, is Unicode's White_Space and U+001C–U+001F. Idempotent.

    >>> normalise("  Restart the\\r\\n\\tindexer ")
    'Restart the indexer'
    """
    return " ".join(unicodedata.normalize("NFC", text).split())


def block_id(text: str) -> bytes:
    """The 32-byte id of the block that holds `text`: SHA-256 of its normal form in UTF-8.

    Raises `UnicodeEncodeError` for a text that `check_text` refuses for its lone surrogates.
    """
    return sha256(normalise(text).encode("utf-8")).digest()


def check_text(text: str, field: str = "text") -> None:
    """Raise `InvalidInput` naming `field` unless `text` can be a block.

    It has something besides white space, at most 64 KiB in UTF-8 as given, no lone surrogates (they have no
    UTF-8) and no NUL (C libraries below SQLite and the index end a string there).
    """
    size = len(_utf8(text, field))
    if size > MAX_TEXT_BYTES:
        raise InvalidInput(
            field, f"has {size} bytes in UTF-8; a block holds at most {MAX_TEXT_BYTES}: split it into several"
        )
    if "\0" in text:
        raise InvalidInput(field, f"has a NUL character at position {text.index(chr(0))}: remove it")
    if not text or text.isspace():
        raise InvalidInput(field, "is empty: a block needs something to say")


def context_label(text: str, field: str = "context") -> str:
    """The label of a context as it is stored and sent: normalised as a text is; '' means none.

    Raises `InvalidInput` naming `field` for more than 64 characters, control characters or lone surrogates.
    """
    _utf8(text, field)
    label = text.strip() if text.isascii() and text.isprintable() and "  " not in text else normalise(text)
    if len(label) > MAX_CONTEXT_CHARACTERS:
        raise InvalidInput(
            field, f"has {len(label)} characters; a context is a label of at most {MAX_CONTEXT_CHARACTERS}"
        )
    if any(unicodedata.category(character) == "Cc" for character in label):
        raise InvalidInput(field, f"{label!a} has control characters: remove them")
    return label


def _utf8(text: str, field: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidInput(
            field, f"has a lone surrogate at position {error.start}, which has no UTF-8: remove it"
        ) from None
