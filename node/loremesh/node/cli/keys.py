"""Where the command line finds a home's key: outside the home, so that a copied home alone opens nothing."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from loremesh.crypto.durable import replace_file
from loremesh.crypto.keystores import EnvironmentKey, KeyFile, KeySource, Passphrase, Secret
from loremesh.node.errors import NodeError, UsageError

PASSPHRASE_NOTE: Final = "passphrase-env"
"""In a home sealed with a passphrase: the name of the variable that `init` took it from."""
VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


def default_key_file(home: Path, environ: Mapping[str, str]) -> Path:
    """`keys/<16 hex digits of the home's path>.key` in the user's configuration directory for loremesh.

    That is `$XDG_CONFIG_HOME/loremesh`, or `~/.config/loremesh`. One file per home, so that `init` in one
    place never meets the key of another.
    """
    configured = environ.get("XDG_CONFIG_HOME", "")
    base = Path(configured) if configured.startswith("/") else Path("~/.config").expanduser()
    digest = hashlib.sha256(os.fsencode(home.absolute())).hexdigest()
    return base / "loremesh" / "keys" / f"{digest[:16]}.key"


def key_source(
    home: Path,
    environ: Mapping[str, str],
    *,
    key_file: Path | None,
    passphrase_env: str | None,
    key_env: str | None,
) -> KeySource:
    """The source that `init` was given; without one, the default key file, whose directory is then made.

    Raises UsageError for more than one source or a variable that is not set, NodeError when the directory
    cannot be made.
    """
    if sum(given is not None for given in (key_file, passphrase_env, key_env)) > 1:
        raise UsageError(
            "a home has one key source, and more than one is given",
            "give --key-file, --passphrase-env or --key-env, or none of them for a key file of its own",
        )
    if passphrase_env is not None:
        return Passphrase(Secret(passphrase_of(passphrase_env, environ)))
    if key_env is not None:
        _check_variable(key_env)
        return EnvironmentKey(key_env)
    if key_file is not None:
        return KeyFile(key_file.absolute())
    path = default_key_file(home, environ)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise NodeError(
            f"the directory {path.parent} for the home's key cannot be made: {error.strerror}",
            "name another place with --key-file",
        ) from error
    return KeyFile(path)


def passphrase_of(variable: str, environ: Mapping[str, str]) -> str:
    """The passphrase in an environment variable. Raises UsageError, naming the variable only."""
    _check_variable(variable)
    text = environ.get(variable, "")
    if not text:
        raise UsageError(
            f"the environment variable {variable} for the passphrase is not set, or empty",
            f"set {variable} to the passphrase, for instance with read -rs {variable}; export {variable}",
        )
    return text


def note_passphrase_variable(home: Path, variable: str) -> None:
    """Note in the home which variable holds its passphrase, for the commands that come. Raises OSError."""
    replace_file(home / PASSPHRASE_NOTE, variable.encode("ascii") + b"\n")


def noted_passphrase(home: Path, environ: Mapping[str, str]) -> str | None:
    """The passphrase for a home that `init` took one for; None when the home's own vault is to say.

    Raises UsageError when the variable that was noted is not set.
    """
    try:
        variable = (home / PASSPHRASE_NOTE).read_text("ascii").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if environ.get("LOREMESH_PASSPHRASE") and not environ.get(variable):
        return None  # the one variable that every home with a passphrase goes by
    return passphrase_of(variable, environ)


def _check_variable(name: str) -> None:
    if not VARIABLE.fullmatch(name):
        raise UsageError(
            f"{name[:100]!r} is no name of an environment variable", "give the name, not the secret itself"
        )
