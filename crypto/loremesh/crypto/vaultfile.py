"""The vault file: a home's root key, wrapped, and how the master key that opens it is found. No IO here.

`vault.json` is written in one canonical form (`encode`) and read only in that form, so that any changed bit
shows; `crypto/README.md` gives it field by field. The checksum needs no key: it tells damage from a wrong
key, as far as damage was an accident. Against intent, the wrapped root key is bound to the fields before it.
"""

from hashlib import sha256
from typing import Literal

import msgspec
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from loremesh.crypto.derivation import KEY_BYTES, derive
from loremesh.crypto.errors import SealBroken, VaultDamaged, WrongKey
from loremesh.crypto.seal import seal, unseal

FORMAT = 1
SALT_BYTES = 16
VAULT_BYTES_MAX = 16 * 1024

MEMORY_KIB_BOUNDS = (8 * 1024, 1024 * 1024)
PASSES_BOUNDS = (1, 16)
LANES_BOUNDS = (1, 16)

_CHECK_BYTES = 16
_RESTORE = "restore vault.json from a backup (without it nothing in this home can be read)"

SourceKind = Literal["key-file", "passphrase", "environment"]


class Argon2Cost(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How dear one guess at a passphrase is (Argon2id, RFC 9106, whose second recommendation is the default).

    Raises `ValueError` outside the bounds: 8 MiB … 1 GiB, 1 … 16 passes, 1 … 16 lanes. They also hold for
    what a vault file says, so that an altered one cannot exhaust the machine.
    """

    memory_kib: int = 64 * 1024
    passes: int = 3
    lanes: int = 4

    def __post_init__(self) -> None:
        for name, value, (low, high) in (
            ("memory_kib", self.memory_kib, MEMORY_KIB_BOUNDS),
            ("passes", self.passes, PASSES_BOUNDS),
            ("lanes", self.lanes, LANES_BOUNDS),
        ):
            if not low <= value <= high:
                raise ValueError(f"Argon2id {name} is within {low} … {high}, not {value}")


class VaultFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`vault.json`, in the order of its fields. Bytes stand there as standard base64 with padding."""

    format: int
    source: SourceKind
    key_file: str | None
    """Absolute path of the key file; for source `key-file` only."""
    variable: str | None
    """Name of the environment variable; for source `environment` only."""
    argon2id: Argon2Cost | None
    """For source `passphrase` only."""
    salt: bytes
    """16 random bytes, new with every wrapping."""
    wrapped: bytes = b""
    """The root key, sealed under HKDF(master, salt, `vault-wrap`); the fields above are associated data."""
    check: bytes = b""
    """First 16 bytes of HKDF(master, salt, `vault-check`): tells a wrong key from a damaged wrapping."""
    checksum: bytes = b""
    """SHA-256 of the canonical form with this field empty: tells accidental damage without any key."""


def encode(vault: VaultFile) -> bytes:
    """The canonical form: UTF-8 JSON, fields in order, two spaces of indent, a line feed at the end."""
    return msgspec.json.format(msgspec.json.encode(vault), indent=2) + b"\n"


def decode(raw: bytes, where: str) -> VaultFile:
    """Read the canonical form. Raises `VaultDamaged`, naming `where`, for anything else or a later format."""
    try:
        written_as = msgspec.json.decode(raw, type=_AnyFormat).format
        if written_as != FORMAT:
            raise VaultDamaged(f"{where} has format {written_as}; this release of loremesh reads {FORMAT}")
        vault = msgspec.json.decode(raw, type=VaultFile)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise VaultDamaged(f"{where} is not a vault file ({error}): {_RESTORE}") from error
    if encode(vault) != raw or vault.checksum != _checksum(vault):
        raise VaultDamaged(f"{where} is not as it was written, damaged or edited: {_RESTORE}")
    needed = {"key-file": vault.key_file, "environment": vault.variable, "passphrase": vault.argon2id}
    if needed[vault.source] is None or len(vault.salt) != SALT_BYTES:
        raise VaultDamaged(f"{where} lacks what its source, {vault.source}, needs: {_RESTORE}")
    return vault


def wrap_root(vault: VaultFile, master: bytes, root: bytes) -> VaultFile:
    """`vault` completed: the root key wrapped by the 32-byte master key, check value, checksum."""
    bound = _before_wrapping(vault)
    wrapped = seal(derive(master, "vault-wrap", context=vault.salt), root, encode(bound))
    full = msgspec.structs.replace(bound, wrapped=wrapped, check=_check(master, vault.salt))
    return msgspec.structs.replace(full, checksum=_checksum(full))


def unwrap_root(vault: VaultFile, master: bytes, where: str, wrong: str) -> bytes:
    """The root key.

    Raises `WrongKey` with the message `wrong` when the check value is not that of this master key, and
    `VaultDamaged` when it is and the wrapped key still does not open.
    """
    if vault.check != _check(master, vault.salt):
        raise WrongKey(wrong)
    wrapping_key = derive(master, "vault-wrap", context=vault.salt)
    try:
        return unseal(wrapping_key, vault.wrapped, encode(_before_wrapping(vault)))
    except SealBroken:
        raise VaultDamaged(f"the key is right, but {where} was altered: {_RESTORE}") from None


def stretch(passphrase: bytes, cost: Argon2Cost, salt: bytes) -> bytes:
    """The 32-byte master key of a passphrase: Argon2id version 1.3, no secret, no associated data."""
    return Argon2id(
        salt=salt, length=KEY_BYTES, iterations=cost.passes, lanes=cost.lanes, memory_cost=cost.memory_kib
    ).derive(passphrase)


class _AnyFormat(msgspec.Struct):
    format: int


def _before_wrapping(vault: VaultFile) -> VaultFile:
    return msgspec.structs.replace(vault, wrapped=b"", check=b"", checksum=b"")


def _check(master: bytes, salt: bytes) -> bytes:
    return derive(master, "vault-check", context=salt, length=_CHECK_BYTES)


def _checksum(vault: VaultFile) -> bytes:
    return sha256(encode(msgspec.structs.replace(vault, checksum=b""))).digest()
