"""A vault opens with its own master key, rotates it atomically, and says what is wrong otherwise."""

import hashlib
import os
import stat
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from hypothesis import given, settings
from hypothesis import strategies as st

from loremesh.crypto.atrest import HomeKeys
from loremesh.crypto.errors import (
    CryptoError,
    InsecureKeyFile,
    KeyUnavailable,
    VaultDamaged,
    VaultExists,
    WrongKey,
)
from loremesh.crypto.keystores import (
    EnvironmentKey,
    KeyFile,
    KeySource,
    Passphrase,
    Secret,
    create_vault,
    open_vault,
    rewrap_vault,
)
from loremesh.crypto.seal import unseal
from loremesh.crypto.vaultfile import Argon2Cost, VaultFile, decode, encode, wrap_root
from tests.crypto import oracle

CHEAP = Argon2Cost(memory_kib=8 * 1024, passes=1, lanes=1)
ENVIRON = {"LOREMESH_KEY": "ab" * 32}
HORSE = Passphrase(Secret("correct horse"))
OTHER = Passphrase(Secret("battery staple"))


def make(home: Path, source: KeySource, environ: dict[str, str] = ENVIRON) -> HomeKeys:
    return create_vault(home, source, cost=CHEAP, environ=environ)


def same(one: HomeKeys, other: HomeKeys) -> bool:
    return one.keyed_id(b"probe") == other.keyed_id(b"probe")


def test_each_source_opens_what_it_sealed(tmp_path: Path) -> None:
    """Key file, passphrase, variable; given again, or found by what the vault names."""
    cases: list[tuple[KeySource, dict[str, str]]] = [
        (KeyFile(tmp_path / "key"), {}),
        (HORSE, {"LOREMESH_PASSPHRASE": "correct horse"}),
        (EnvironmentKey(), ENVIRON),
        (EnvironmentKey("OTHER_NAME"), {"OTHER_NAME": "cd" * 32}),
    ]
    for number, (source, environ) in enumerate(cases):
        home = tmp_path / str(number)
        home.mkdir()
        made = make(home, source, environ)
        assert same(made, open_vault(home, source, environ=environ))
        assert same(made, open_vault(home, environ=environ))


def test_two_homes_of_one_key_have_unrelated_root_keys(tmp_path: Path) -> None:
    """The master key only wraps: what seals is random per home."""
    for name in "ab":
        (tmp_path / name).mkdir()
    assert not same(make(tmp_path / "a", EnvironmentKey()), make(tmp_path / "b", EnvironmentKey()))


def test_the_vault_is_as_the_page_describes_it(tmp_path: Path) -> None:
    """A second implementation opens it from the file and the passphrase."""
    made = make(tmp_path, HORSE)
    text = (tmp_path / "vault.json").read_text(encoding="utf-8")
    vault = msgspec.json.decode(text, type=VaultFile)
    master = Argon2id(salt=vault.salt, length=32, iterations=1, lanes=1, memory_cost=8192).derive(
        b"correct horse"
    )
    bound = text
    for name in ("wrapped", "check", "checksum"):
        start = bound.index(f'"{name}": "') + len(f'"{name}": "')
        bound = bound[:start] + bound[bound.index('"', start) :]
    key = oracle.hkdf(master, b"loremesh/1/vault-wrap", 32, vault.salt)
    assert same(made, HomeKeys(unseal(key, vault.wrapped, bound.encode())))
    assert vault.check == oracle.hkdf(master, b"loremesh/1/vault-check", 16, vault.salt)


def test_a_vault_of_the_first_release_opens(tmp_path: Path) -> None:
    """Golden file: later releases must read it."""
    (tmp_path / "vault.json").write_text(GOLDEN_VAULT, encoding="utf-8")
    assert open_vault(tmp_path, HORSE).keyed_id(bytes(32)).hex() == "435862460f571052f5c9153f44855936"


GOLDEN_VAULT = """\
{
  "format": 1,
  "source": "passphrase",
  "key_file": null,
  "variable": null,
  "argon2id": {
    "memory_kib": 8192,
    "passes": 1,
    "lanes": 1
  },
  "salt": "AAECAwQFBgcICQoLDA0ODw==",
  "wrapped": "H/6qGqfEJ6E7Cl6Om7coshu7yB2HFztWE/6ftv+0syUPgi7+RpwS/YjT1FoiZm1vLIcvXccjkRsIWEyI",
  "check": "51IAau1K93fVFb8NPobkKQ==",
  "checksum": "ezryqDAfXMAkp2YGoSlaklhRn8cmAPB8ffRPhHyVY/U="
}
"""


def test_the_passphrase_is_one_however_its_accents_are_typed(tmp_path: Path) -> None:
    """Composed and decomposed accents are the same passphrase."""
    made = make(tmp_path, Passphrase(Secret("caf\u00e9")))
    assert same(made, open_vault(tmp_path, Passphrase(Secret("cafe\u0301"))))


def test_a_wrong_passphrase_is_told_from_a_damaged_vault(tmp_path: Path) -> None:
    """The one says to type it again, the other to restore the file."""
    make(tmp_path, HORSE)
    with pytest.raises(WrongKey, match="type it again"):
        open_vault(tmp_path, OTHER)
    path = tmp_path / "vault.json"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(VaultDamaged, match=r"restore vault\.json"):
        open_vault(tmp_path, HORSE)


def test_a_bit_changed_anywhere_in_a_vault_is_refused(tmp_path: Path) -> None:
    """White space and names included; found before any key is asked for."""
    make(tmp_path, EnvironmentKey())
    path = tmp_path / "vault.json"
    for changed in oracle.flipped(path.read_bytes()):
        path.write_bytes(changed)
        with pytest.raises(VaultDamaged):
            open_vault(tmp_path, EnvironmentKey(), environ=ENVIRON)


def test_a_vault_altered_with_care_is_refused_too(tmp_path: Path) -> None:
    """Whoever makes the checksum fit again still cannot change a field: the wrapped key is bound to them."""
    make(tmp_path, KeyFile(tmp_path / "key"))
    path = tmp_path / "vault.json"
    vault = decode(path.read_bytes(), "vault.json")
    forged = wrap_root(msgspec.structs.replace(vault, key_file="/elsewhere"), bytes(32), bytes(32))
    kept = msgspec.structs.replace(forged, wrapped=vault.wrapped, check=vault.check, checksum=b"")
    path.write_bytes(encode(with_checksum(kept)))
    with pytest.raises(VaultDamaged, match="the key is right"):
        open_vault(tmp_path, KeyFile(tmp_path / "key"))


def with_checksum(vault: VaultFile) -> VaultFile:
    """`vault` as someone without any key can complete it."""
    return msgspec.structs.replace(vault, checksum=hashlib.sha256(encode(vault)).digest())


@pytest.mark.parametrize(
    "change",
    [
        {"argon2id": {"memory_kib": 8 * 1024 * 1024, "passes": 3, "lanes": 4}},
        {"argon2id": {"memory_kib": 8, "passes": 3, "lanes": 4}},
        {"argon2id": {"memory_kib": 65536, "passes": 1_000_000, "lanes": 4}},
        {"argon2id": {"memory_kib": 65536, "passes": 0, "lanes": 4}},
        {"argon2id": {"memory_kib": 65536, "passes": 3, "lanes": 1000}},
        {"argon2id": None},
        {"source": "key-file"},
        {"source": "keyring"},
        {"salt": ""},
        {"format": 2},
        {"extra": 1},
    ],
)
def test_a_vault_that_asks_for_too_much_or_lacks_something_is_refused(
    tmp_path: Path, change: dict[str, object]
) -> None:
    """Parameters are checked against their bounds before any work is done, whoever made the checksum fit."""
    make(tmp_path, HORSE)
    path = tmp_path / "vault.json"
    fields = msgspec.json.decode(path.read_bytes()) | change | {"checksum": ""}
    path.write_bytes(msgspec.json.format(msgspec.json.encode(fields), indent=2) + b"\n")
    fields["checksum"] = msgspec.to_builtins(hashlib.sha256(path.read_bytes()).digest())
    path.write_bytes(msgspec.json.format(msgspec.json.encode(fields), indent=2) + b"\n")
    with pytest.raises(VaultDamaged):
        open_vault(tmp_path, HORSE)


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_a_damaged_vault(raw: bytes) -> None:
    """Noise raises nothing but the error for it."""
    with pytest.raises(VaultDamaged):
        decode(raw, "vault.json")


@pytest.mark.parametrize(
    ("memory_kib", "passes", "lanes"), [(1, 3, 4), (2**21, 3, 4), (65536, 0, 4), (65536, 3, 17)]
)
def test_a_cost_out_of_bounds_is_a_mistake(memory_kib: int, passes: int, lanes: int) -> None:
    """The bounds are the same for writing as for reading."""
    with pytest.raises(ValueError, match="Argon2id"):
        Argon2Cost(memory_kib, passes, lanes)


def test_a_new_key_file_is_for_its_owner_only(tmp_path: Path) -> None:
    """Mode 0600 from the first moment, whatever the umask; the vault likewise."""
    before = os.umask(0)
    try:
        make(tmp_path, KeyFile(tmp_path / "key"))
    finally:
        os.umask(before)
    for name in ("key", "vault.json"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    assert len(bytes.fromhex((tmp_path / "key").read_text())) == 32


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o620, 0o644, 0o601])
def test_a_key_file_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    """When sealing and when opening; the message holds the command that cures it."""
    key = tmp_path / "key"
    key.write_text("ab" * 32)
    key.chmod(mode)
    with pytest.raises(InsecureKeyFile, match=f"chmod 600 {key}"):
        make(tmp_path, KeyFile(key))
    assert not (tmp_path / "vault.json").exists()
    key.chmod(0o600)
    make(tmp_path, KeyFile(key))
    key.chmod(mode)
    with pytest.raises(InsecureKeyFile, match=f"mode {mode:04o}"):
        open_vault(tmp_path)


def test_an_existing_key_file_is_used_and_left_as_it_is(tmp_path: Path) -> None:
    """One key may open several homes."""
    key = tmp_path / "key"
    key.write_text("AB" * 32 + "\r\n")
    key.chmod(0o600)
    make(tmp_path, KeyFile(key))
    assert key.read_bytes() == b"AB" * 32 + b"\r\n"
    open_vault(tmp_path, EnvironmentKey(), environ={"LOREMESH_KEY": "ab" * 32})


def test_a_moved_key_file_is_named_by_the_environment(tmp_path: Path) -> None:
    """The recorded place is only where to look first."""
    made = make(tmp_path, KeyFile(tmp_path / "key"))
    (tmp_path / "key").rename(tmp_path / "moved")
    with pytest.raises(KeyUnavailable, match="set LOREMESH_KEY_FILE"):
        open_vault(tmp_path, environ={})
    assert same(made, open_vault(tmp_path, environ={"LOREMESH_KEY_FILE": str(tmp_path / "moved")}))


@pytest.mark.parametrize("content", [b"", b"ab" * 31, b"ab" * 33, b"zz" * 32, b"\xff" * 64, b"ab" * 5000])
def test_a_file_that_holds_no_key_is_refused(tmp_path: Path, content: bytes) -> None:
    """The message says what a key looks like and not what was there."""
    (tmp_path / "key").write_bytes(content)
    (tmp_path / "key").chmod(0o600)
    with pytest.raises(KeyUnavailable, match="64 hexadecimal digits") as caught:
        make(tmp_path, KeyFile(tmp_path / "key"))
    assert not content or content.decode("latin-1")[:8] not in str(caught.value)


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path: Path) -> None:
    """A pipe, a directory, a device."""
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "directory").mkdir(mode=0o700)
    for name in ("pipe", "directory", "/dev/null"):
        with pytest.raises(KeyUnavailable, match="not a regular file"):
            make(tmp_path, KeyFile(tmp_path / name))


def test_a_wrong_key_file_or_variable_is_told_as_such(tmp_path: Path) -> None:
    """A key was found, but another one."""
    make(tmp_path, EnvironmentKey())
    with pytest.raises(WrongKey, match="LOREMESH_KEY "):
        open_vault(tmp_path, environ={"LOREMESH_KEY": "00" * 32})
    (tmp_path / "key").write_text("00" * 32)
    (tmp_path / "key").chmod(0o600)
    with pytest.raises(WrongKey, match=str(tmp_path / "key")):
        open_vault(tmp_path, KeyFile(tmp_path / "key"), environ=ENVIRON)


def test_what_is_missing_is_named_with_its_remedy(tmp_path: Path) -> None:
    """No vault, no variable, no passphrase, another kind of key."""
    with pytest.raises(KeyUnavailable, match="not a loremesh home"):
        open_vault(tmp_path / "nowhere")
    with pytest.raises(KeyUnavailable, match="LOREMESH_KEY is not set"):
        make(tmp_path, EnvironmentKey(), {})
    with pytest.raises(KeyUnavailable, match="empty"):
        make(tmp_path, Passphrase(Secret("")))
    make(tmp_path, HORSE)
    with pytest.raises(KeyUnavailable, match="set LOREMESH_PASSPHRASE"):
        open_vault(tmp_path, environ={})
    with pytest.raises(KeyUnavailable, match="sealed with a passphrase, not with the key in"):
        open_vault(tmp_path, EnvironmentKey(), environ=ENVIRON)


def test_a_second_vault_is_refused(tmp_path: Path) -> None:
    """Overwriting the first would lose all that it seals."""
    make(tmp_path, EnvironmentKey())
    before = (tmp_path / "vault.json").read_bytes()
    with pytest.raises(VaultExists):
        make(tmp_path, KeyFile(tmp_path / "key"))
    assert (tmp_path / "vault.json").read_bytes() == before
    assert not (tmp_path / "key").exists()


def test_a_vault_made_meanwhile_by_another_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check and the creation are one step, not two."""
    make(tmp_path, EnvironmentKey())
    before = (tmp_path / "vault.json").read_bytes()
    monkeypatch.setattr(os.path, "lexists", lambda _path: False)
    with pytest.raises(VaultExists):
        make(tmp_path, EnvironmentKey())
    assert (tmp_path / "vault.json").read_bytes() == before


def test_a_home_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """The vault's and the key file's place, with what to look at."""
    with pytest.raises(KeyUnavailable, match=r"cannot write the vault .*nowhere.*permissions"):
        make(tmp_path / "nowhere", EnvironmentKey())
    with pytest.raises(KeyUnavailable, match=r"cannot write the key file .*nowhere.*permissions"):
        make(tmp_path, KeyFile(tmp_path / "nowhere" / "key"))


def test_rotation_changes_the_key_and_nothing_else(tmp_path: Path) -> None:
    """The new key opens what the old one sealed; the old one opens no more."""
    made = make(tmp_path, HORSE)
    rewrap_vault(tmp_path, HORSE, OTHER, cost=CHEAP)
    assert same(made, open_vault(tmp_path, OTHER))
    with pytest.raises(WrongKey):
        open_vault(tmp_path, HORSE)
    rewrap_vault(tmp_path, OTHER, KeyFile(tmp_path / "key"))
    assert same(made, open_vault(tmp_path, environ={}))
    rewrap_vault(tmp_path, None, EnvironmentKey(), environ=ENVIRON)
    assert same(made, open_vault(tmp_path, environ=ENVIRON))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["key", "vault.json"]


def test_rotation_with_a_wrong_old_or_missing_new_key_changes_nothing(tmp_path: Path) -> None:
    """Whatever fails, the vault stands as it was."""
    make(tmp_path, HORSE)
    before = (tmp_path / "vault.json").read_bytes()
    with pytest.raises(WrongKey):
        rewrap_vault(tmp_path, OTHER, HORSE, cost=CHEAP)
    with pytest.raises(KeyUnavailable):
        rewrap_vault(tmp_path, HORSE, EnvironmentKey(), environ={})
    assert (tmp_path / "vault.json").read_bytes() == before


def test_a_rotation_that_dies_leaves_the_old_vault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the last step before it counts: the old file stands and no copy is left."""
    make(tmp_path, HORSE)

    def fail(_self: Path, _target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(KeyUnavailable, match="No space left"):
        rewrap_vault(tmp_path, HORSE, OTHER, cost=CHEAP)
    open_vault(tmp_path, HORSE)
    assert [path.name for path in tmp_path.iterdir()] == ["vault.json"]


def test_a_rotation_is_on_disk_before_it_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new content is synced before the rename, the directory after it."""
    make(tmp_path, HORSE)
    steps: list[str] = []
    sync, replace = os.fsync, Path.replace

    def fsync(descriptor: int) -> None:
        steps.append("directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        sync(descriptor)

    def renamed(self: Path, target: Path) -> Path:
        steps.append("rename")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", renamed)
    rewrap_vault(tmp_path, HORSE, OTHER, cost=CHEAP)
    assert steps.index("file") < steps.index("rename")
    assert steps[-1] == "directory"


def test_a_creation_that_dies_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that it can be tried again."""

    def fail(_descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        with pytest.raises(KeyUnavailable, match="Input/output error"):
            make(tmp_path, EnvironmentKey())
    assert list(tmp_path.iterdir()) == []
    make(tmp_path, EnvironmentKey())


def test_every_error_of_a_key_store_is_one_of_ours() -> None:
    """Doors catch one root."""
    for kind in (KeyUnavailable, WrongKey, InsecureKeyFile, VaultDamaged, VaultExists):
        assert issubclass(kind, CryptoError)
