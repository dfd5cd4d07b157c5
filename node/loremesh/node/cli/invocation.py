"""What holds for a whole run of the program: the home, the form of the answer, and the words given to it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from loremesh.node.errors import UsageError

HOME_VARIABLE: Final = "LOREMESH_HOME"
DEBUG_VARIABLE: Final = "LOREMESH_DEBUG"
DEFAULT_HOME: Final = "~/.loremesh"


class Invocation(msgspec.Struct, frozen=True):
    """One run: the home it is about, whether the answer is JSON, whether a bug shows its traceback."""

    home: Path
    as_json: bool = False
    debug: bool = False


class Words(msgspec.Struct, frozen=True):
    """The arguments with what may stand anywhere among them taken out."""

    rest: list[str]
    home: str | None = None
    as_json: bool = False
    debug: bool = False


def take_common(arguments: Sequence[str]) -> Words:
    """Take `--home DIR`, `--json` and `--debug` out of the arguments, wherever they stand before a `--`.

    Done before the parser sees them, so that its own complaints come out in the form asked for.
    Raises UsageError for `--home` without a directory.

    >>> take_common(["recall", "x", "--json"]).rest
    ['recall', 'x']
    """
    rest: list[str] = []
    home, as_json, debug = None, False, False
    words = iter(arguments)
    for word in words:
        match word:
            case "--":
                rest.append(word)
                break
            case "--json":
                as_json = True
            case "--debug":
                debug = True
            case "--home":
                home = next(words, None)
                if home is None:
                    raise UsageError("--home lacks its directory", "write --home DIR")
            case _ if word.startswith("--home="):
                home = word.removeprefix("--home=")
            case _:
                rest.append(word)
    rest.extend(words)
    return Words(rest, home, as_json, debug)


def invocation_of(words: Words, environ: Mapping[str, str]) -> Invocation:
    """The run that the words and the environment ask for. Raises UsageError for a home that cannot be one."""
    given = words.home if words.home is not None else environ.get(HOME_VARIABLE) or DEFAULT_HOME
    if not given or "\0" in given:
        raise UsageError("--home names no directory", "write --home DIR")
    debug = words.debug or environ.get(DEBUG_VARIABLE, "") not in ("", "0")
    try:
        home = Path(given).expanduser().absolute()
    except RuntimeError as error:
        raise UsageError(f"--home {given!r}: {error}", "give the directory without ~") from None
    return Invocation(home, words.as_json, debug)


def utf8_arguments(arguments: Sequence[str]) -> list[str]:
    """The arguments read as UTF-8 whatever the locale said they were.

    Python has decoded them by the locale; where their bytes are UTF-8 this undoes it. Bytes that are neither
    stay as they are, with lone surrogates, and are refused where they are used, by name.
    """
    read = []
    for argument in arguments:
        try:
            read.append(os.fsencode(argument).decode("utf-8"))
        except (UnicodeDecodeError, UnicodeEncodeError):
            read.append(argument)
    return read


def program_arguments() -> list[str]:
    """The arguments of this process."""
    return utf8_arguments(sys.argv[1:])
