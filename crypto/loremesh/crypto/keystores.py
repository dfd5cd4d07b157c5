"""Key stores: where a home's master key comes from, and the vault that it opens.

A home has one random root key. It lies in `vault.json`, wrapped by a master key, which comes from a key file,
a passphrase or an environment variable. Rotating the master key rewrites the vault and nothing else.
"""

import os
import re
import stat
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn, assert_never

import msgspec

from loremesh.crypto.atrest import HomeKeys
from loremesh.crypto.derivation import KEY_BYTES
from loremesh.crypto.durable import create_file, read_small, replace_file
from loremesh.crypto.errors import InsecureKeyFile, KeyUnavailable, VaultExists
from loremesh.crypto.vaultfile import (
    FORMAT,
    SALT_BYTES,
    VAULT_BYTES_MAX,
    Argon2Cost,
    VaultFile,
    decode,
    encode,
    stretch,
    unwrap_root,
    wrap_root,
)

VAULT_NAME = "vault.json"
KEY_VARIABLE = "LOREMESH_KEY"
KEY_FILE_VARIABLE = "LOREMESH_KEY_FILE"
PASSPHRASE_VARIABLE = "LOREMESH_PASSPHRASE"
DEFAULT_COST = Argon2Cost()

_KEY_TEXT = re.compile(rb"\s*([0-9a-fA-F]{64})\s*")
_KEY_FILE_BYTES_MAX = 4096


class Secret:
    """A text that does not print itself, is not pickled, and is had only by asking: `reveal()`."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        """Of any text."""
        self._text = text

    def reveal(self) -> str:
        """The text."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(…)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret is not pickled or copied")


class KeyFile(msgspec.Struct, frozen=True):
    """A file that holds the master key as 64 hexadecimal digits, readable by its owner only."""

    path: Path


class Passphrase(msgspec.Struct, frozen=True):
    """A passphrase, stretched by Argon2id at the cost that the vault records. Compared in Unicode's NFC."""

    text: Secret

    def __post_init__(self) -> None:
        if not isinstance(self.text, Secret):
            raise TypeError("a passphrase is given as Secret(text), so that it does not print")


class EnvironmentKey(msgspec.Struct, frozen=True):
    """An environment variable that holds the master key as 64 hexadecimal digits."""

    var: str = KEY_VARIABLE


KeySource = KeyFile | Passphrase | EnvironmentKey
"""Where a master key comes from. A key file and a variable may hold one key and stand for each other."""


def create_vault(
    home: Path,
    source: KeySource,
    *,
    cost: Argon2Cost = DEFAULT_COST,
    environ: Mapping[str, str] = os.environ,
) -> HomeKeys:
    """Make a new root key for the directory `home` and write its vault, wrapped by the key of `source`.

    A key file that is not there is created, mode 0600; one that is there is used. `cost` is for a passphrase.
    Raises `VaultExists` when the home has a vault; `InsecureKeyFile`, `KeyUnavailable` when the key cannot be
    had, or the vault or key file cannot be written.
    """
    path = home / VAULT_NAME
    if os.path.lexists(path):
        raise VaultExists(_vault_exists(path))
    root = os.urandom(KEY_BYTES)
    vault = _wrapped_for(source, root, cost, environ)
    try:
        create_file(path, encode(vault))
    except FileExistsError:
        raise VaultExists(_vault_exists(path)) from None
    except OSError as error:
        raise _cannot("write the vault", path, error) from error
    return HomeKeys(root)


def open_vault(
    home: Path, source: KeySource | None = None, *, environ: Mapping[str, str] = os.environ
) -> HomeKeys:
    """The keys of `home`, opened with `source`; None: with what the vault names.

    The vault names a key file by its path (`LOREMESH_KEY_FILE` overrides it), a variable by its name, and a
    passphrase not at all: it is then read from `LOREMESH_PASSPHRASE`. Raises `KeyUnavailable` (no vault, no
    such source, not a key), `InsecureKeyFile`, `WrongKey`, `VaultDamaged`.
    """
    return HomeKeys(_root_of(home, source, environ))


def rewrap_vault(
    home: Path,
    old: KeySource | None,
    new: KeySource,
    *,
    cost: Argon2Cost = DEFAULT_COST,
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Rotate the master key: henceforth `new` opens the home; `old` (None: what the vault names) does not.

    The root key and all that hangs from it stay. Atomic: a crash leaves the old vault or the new one. A key
    file that is not there is created. A copy of the old vault still opens with the old key. Raises what
    `open_vault` and `create_vault` raise; the old vault then still stands.
    """
    root = _root_of(home, old, environ)
    vault = _wrapped_for(new, root, cost, environ)
    path = home / VAULT_NAME
    try:
        replace_file(path, encode(vault))
    except OSError as error:
        raise _cannot("write the vault", path, error) from error


def _root_of(home: Path, source: KeySource | None, environ: Mapping[str, str]) -> bytes:
    path = home / VAULT_NAME
    vault = _read_vault(path)
    chosen = source if source is not None else _named_by(vault, path, environ)
    if isinstance(chosen, Passphrase) != (vault.source == "passphrase"):
        raise KeyUnavailable(
            f"{path} is sealed with a {_KIND_NAMES[vault.source]}, not with the {_name(chosen)}"
        )
    master = _master(chosen, vault.argon2id or DEFAULT_COST, vault.salt, environ)
    return unwrap_root(vault, master, str(path), _wrong_key(chosen, path))


def _named_by(vault: VaultFile, path: Path, environ: Mapping[str, str]) -> KeySource:
    match vault.source:
        case "key-file":
            return KeyFile(Path(environ.get(KEY_FILE_VARIABLE) or vault.key_file or ""))
        case "environment":
            return EnvironmentKey(vault.variable or KEY_VARIABLE)
        case "passphrase":
            text = environ.get(PASSPHRASE_VARIABLE)
            if not text:
                raise KeyUnavailable(
                    f"{path} is sealed with a passphrase: give it, or set {PASSPHRASE_VARIABLE}"
                )
            return Passphrase(Secret(text))


def _wrapped_for(source: KeySource, root: bytes, cost: Argon2Cost, environ: Mapping[str, str]) -> VaultFile:
    salt = os.urandom(SALT_BYTES)
    match source:
        case KeyFile(path):
            vault = VaultFile(FORMAT, "key-file", _recordable(path), None, None, salt)
            _make_key_file(path)
        case Passphrase():
            vault = VaultFile(FORMAT, "passphrase", None, None, cost, salt)
        case EnvironmentKey(var):
            vault = VaultFile(FORMAT, "environment", None, var, None, salt)
        case _:
            assert_never(source)
    return wrap_root(vault, _master(source, cost, salt, environ), root)


def _master(source: KeySource, cost: Argon2Cost, salt: bytes, environ: Mapping[str, str]) -> bytes:
    """The 32-byte master key of a source."""
    match source:
        case KeyFile(path):
            return _key_of_text(_read_key_file(path), f"the key file {path}")
        case Passphrase(text):
            passphrase = unicodedata.normalize("NFC", text.reveal()).encode("utf-8", "surrogatepass")
            if not passphrase:
                raise KeyUnavailable("the passphrase is empty: give one")
            return stretch(passphrase, cost, salt)
        case EnvironmentKey(var):
            value = environ.get(var)
            if not value:
                raise KeyUnavailable(f"the environment variable {var} is not set: set it to the master key")
            return _key_of_text(value.encode("utf-8", "replace"), f"the environment variable {var}")
        case _:
            assert_never(source)


def _key_of_text(text: bytes, where: str) -> bytes:
    match_ = _KEY_TEXT.fullmatch(text)
    if match_ is None:
        raise KeyUnavailable(
            f"{where} does not hold a master key: 64 hexadecimal digits, as `openssl rand -hex 32` makes"
        )
    return bytes.fromhex(match_[1].decode("ascii"))


def _make_key_file(path: Path) -> None:
    """Create a key file with a new random key, unless there is one."""
    try:
        create_file(path, os.urandom(KEY_BYTES).hex().encode("ascii") + b"\n")
    except FileExistsError:
        return
    except OSError as error:
        raise _cannot("write the key file", path, error) from error


def _read_key_file(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe must not block
    except FileNotFoundError:
        raise KeyUnavailable(
            f"the key file {path} is not there: restore it from your copy, "
            f"or set {KEY_FILE_VARIABLE} to where it is"
        ) from None
    except OSError as error:
        raise _cannot("read the key file", path, error) from error
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise KeyUnavailable(
                f"the key file {path} is not a regular file: name the file that holds the key"
            )
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise InsecureKeyFile(
                f"the key file {path} has mode {stat.S_IMODE(mode):04o}, open to others than its owner: "
                f"run `chmod 600 {path}`, and take a new key if others may have read it"
            )
        return os.read(descriptor, _KEY_FILE_BYTES_MAX)
    finally:
        os.close(descriptor)


def _read_vault(path: Path) -> VaultFile:
    try:
        raw = read_small(path, VAULT_BYTES_MAX + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise KeyUnavailable(
            f"{path} is not there: {path.parent} is not a loremesh home; create it first, or restore a backup"
        ) from None
    except OSError as error:
        raise _cannot("read the vault", path, error) from error
    return decode(raw, str(path))


def _recordable(path: Path) -> str:
    """The absolute path as text for the vault, which is UTF-8."""
    text = str(path.absolute())
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise KeyUnavailable(
            f"the name of the key file, {text!a}, is not UTF-8: choose another name"
        ) from None
    return text


_KIND_NAMES = {
    "key-file": "key file",
    "passphrase": "passphrase",
    "environment": "key in an environment variable",
}


def _name(source: KeySource) -> str:
    match source:
        case KeyFile(path):
            return f"key file ({path})"
        case Passphrase():
            return "passphrase"
        case EnvironmentKey(var):
            return f"key in the environment variable {var}"
        case _:
            assert_never(source)


def _wrong_key(source: KeySource, path: Path) -> str:
    if isinstance(source, Passphrase):
        return f"the passphrase is not the one that {path} is sealed with: type it again (the vault is sound)"
    return (
        f"the {_name(source)} is not the one that {path} is sealed with: name the right one "
        f"({KEY_FILE_VARIABLE} can name a key file; the vault is sound)"
    )


def _vault_exists(path: Path) -> str:
    return f"{path} is there already: open this home, or choose another directory"


def _cannot(what: str, path: Path, error: OSError) -> KeyUnavailable:
    reason = error.strerror or type(error).__name__
    return KeyUnavailable(
        f"cannot {what} {path} ({reason}): see to its permissions, its directory and free space"
    )
