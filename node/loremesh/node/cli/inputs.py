"""Texts from the command line, from standard input and from files: always UTF-8, always within a bound."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from loremesh.node.errors import NodeError, UsageError
from loremesh.node.params import MAX_TEXTS
from loremesh.sync.content import MAX_TEXT_BYTES, check_text
from loremesh.sync.errors import InvalidInput

MAX_LINES_BYTES: Final = 256 << 20
"""A file of lines is read whole, so that a bad line is found before anything is learned."""
MAX_BATCH_BYTES: Final = 1 << 20
"""Text that goes to a running node in one request."""
STANDARD_INPUT: Final = "-"


def text_given(text: str) -> str:
    """The text itself, or what standard input holds when it is `-`. Raises UsageError saying what is off."""
    if text != STANDARD_INPUT:
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise UsageError(
                "TEXT is not UTF-8", "give it in UTF-8, or through standard input with -"
            ) from None
        return text
    raw = _standard_input().read(MAX_TEXT_BYTES + 4)
    if len(raw) > MAX_TEXT_BYTES + 3:  # a byte order mark more than a block holds
        raise UsageError(
            f"standard input has more than the {MAX_TEXT_BYTES} bytes that a block holds",
            "split it; with --lines - every line becomes a block of its own",
        )
    return _decoded(raw, "standard input")


def lines_given(name: str) -> list[str]:
    """The texts of a file of lines (`-`: standard input), blank ones left out: all of them sound, or none.

    Raises UsageError naming the file, the line and what is wrong with it, and NodeError for a file that
    cannot be read.
    """
    shown = "standard input" if name == STANDARD_INPUT else name
    lines = _decoded(_read(name, shown), shown).split("\n")
    texts = []
    for number, line in enumerate(lines, start=1):
        text = line.strip()  # the end of a line, \r\n ones included, is the file's and not the text's
        if text:
            try:
                check_text(text, "it")
            except InvalidInput as error:
                raise UsageError(
                    f"{shown}, line {number}: {error}", "mend that line; nothing was learned from the file"
                ) from None
            texts.append(text)
    if not texts:
        raise UsageError(f"{shown} has no line with a text in it", "give a file with a text on each line")
    return texts


def batches(texts: Sequence[str], budget: int = MAX_BATCH_BYTES) -> Iterator[Sequence[str]]:
    """The texts in order, in groups of at most MAX_TEXTS and `budget` bytes, or of one text that has more."""
    begin = size = 0
    for at, text in enumerate(texts):
        length = len(text.encode("utf-8"))
        if at > begin and (at - begin == MAX_TEXTS or size + length > budget):
            yield texts[begin:at]
            begin, size = at, 0
        size += length
    if begin < len(texts):
        yield texts[begin:]


def _read(name: str, shown: str) -> bytes:
    try:
        if name == STANDARD_INPUT:
            raw = _standard_input().read(MAX_LINES_BYTES + 1)
        else:
            with Path(name).open("rb") as file:
                raw = file.read(MAX_LINES_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise NodeError(
            f"{shown!a} cannot be read: {reason}", "name a file of lines that this user can read"
        ) from error
    if len(raw) > MAX_LINES_BYTES:
        raise UsageError(
            f"{shown} has more than {MAX_LINES_BYTES} bytes", "split it; what is known is passed over"
        )
    return raw


def _decoded(raw: bytes, shown: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UsageError(
            f"{shown} is not UTF-8: byte {error.start}, in line {line}",
            "convert it, for instance with iconv -t UTF-8; nothing was learned from it",
        ) from None


def _standard_input() -> BinaryIO:
    if sys.stdin is None:
        raise UsageError("there is no standard input to read", "give the text as an argument")
    return sys.stdin.buffer
