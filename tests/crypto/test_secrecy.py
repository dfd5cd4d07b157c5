"""Secrets do not come out by accident: not printed, not in an error, not pickled."""

import copy
import json
import pickle
import traceback
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from loremesh.crypto.atrest import HomeKeys, open_block, seal_block
from loremesh.crypto.errors import CryptoError
from loremesh.crypto.frames import open_frame, seal_frame
from loremesh.crypto.identity import Identity, SigningKey, verify
from loremesh.crypto.keystores import EnvironmentKey, KeyFile, Passphrase, Secret, create_vault, open_vault
from loremesh.crypto.seal import seal, seal_large, unseal, unseal_large
from loremesh.crypto.spacekeys import EpochKey, new_epoch_key
from loremesh.crypto.vaultfile import Argon2Cost

KEY = bytes.fromhex("5ec2e7" * 10 + "5ec2")
WORDS = "correct horse battery staple"
CHEAP = Argon2Cost(memory_kib=8 * 1024, passes=1, lanes=1)
HOLDERS = [
    Identity(KEY),
    SigningKey(KEY),
    HomeKeys(KEY),
    EpochKey(3, KEY),
    Secret(WORDS),
    Passphrase(Secret(WORDS)),
]


def shows_a_secret(text: str) -> bool:
    """Whether `text` holds the key as hex or repr, or the passphrase, in part."""
    return any(part in text for part in ("5ec2e75ec2", repr(KEY)[2:20], "horse", "battery"))


def test_the_search_for_secrets_finds_them() -> None:
    """The tests below would fail on a leak."""
    for text in (repr(KEY), KEY.hex(), f"{KEY!r}", WORDS):
        assert shows_a_secret(text)


@pytest.mark.parametrize("holder", HOLDERS, ids=lambda holder: type(holder).__name__)
def test_what_holds_a_secret_does_not_print_it(holder: object) -> None:
    """By repr, str, format, in a list, or through rich's protocol."""
    rich = getattr(holder, "__rich_repr__", lambda: ())
    for text in (repr(holder), str(holder), f"{holder}", str([holder]), repr(list(rich()))):
        assert not shows_a_secret(text)


@pytest.mark.parametrize("holder", HOLDERS, ids=lambda holder: type(holder).__name__)
def test_what_holds_a_secret_is_not_pickled_or_copied(holder: object) -> None:
    """So that no cache, queue or crash report takes it along."""
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError):
            pickle.dumps(holder, protocol)
    with pytest.raises(TypeError):
        copy.deepcopy(holder)


@pytest.mark.parametrize(
    "holder", [h for h in HOLDERS if not isinstance(h, EpochKey)], ids=lambda h: type(h).__name__
)
def test_what_holds_a_secret_is_not_written_as_json(holder: object) -> None:
    """Logs that encode whatever they are given fail instead."""
    with pytest.raises(TypeError):
        msgspec.json.encode(holder)
    with pytest.raises(TypeError):
        json.dumps(holder)


def test_an_identity_shows_its_peer_id() -> None:
    """And nothing else."""
    identity = Identity.generate()
    assert repr(identity) == f"Identity({identity.peer_id})"


def test_a_passphrase_is_taken_wrapped_only() -> None:
    """A bare text would print with everything that holds it."""
    with pytest.raises(TypeError, match="Secret"):
        Passphrase(WORDS)  # type: ignore[arg-type]


def test_an_epoch_key_is_checked() -> None:
    """Number and length; and new ones differ."""
    for epoch, key in ((-1, KEY), (2**32, KEY), (0, KEY[:31])):
        with pytest.raises(ValueError, match="epoch") as caught:
            EpochKey(epoch, key)
        assert not shows_a_secret(str(caught.value))
    assert len({new_epoch_key() for _ in range(20)}) == 20
    assert len(new_epoch_key()) == 32


def failures(home: Path) -> list[Callable[[], object]]:
    """Ways to fail with a secret at hand."""
    wrong = bytes(32)
    digest = sha256(KEY).digest()
    frame = seal_frame(wrong, wrong, 1, digest, bytes(64), KEY, digest)
    (home / "key").write_bytes(KEY.hex().encode() + b"5ec2e75ec2")
    (home / "key").chmod(0o600)
    (home / "binary").write_bytes(KEY)
    (home / "binary").chmod(0o600)
    return [
        lambda: Identity(KEY + KEY),
        lambda: SigningKey(KEY + KEY),
        lambda: HomeKeys(KEY + KEY),
        lambda: Identity(KEY).sign("BAD", KEY),
        lambda: verify(Identity(KEY).public, "x", KEY, bytes(64)),
        lambda: unseal(KEY, seal(wrong, KEY, b""), b""),
        lambda: seal(KEY + KEY, KEY, b""),
        lambda: unseal_large(KEY, seal_large(wrong, KEY, b""), b""),
        lambda: open_frame(frame, lambda _space, _epoch: KEY),
        lambda: seal_frame(KEY, wrong, 1, digest, bytes(64), KEY[:-1], digest),
        lambda: open_block(KEY, "content", 1, seal_block(wrong, "content", 1, KEY)),
        lambda: HomeKeys(KEY).unwrap_block_key(1, HomeKeys(wrong).new_block_key(1)[1]),
        lambda: HomeKeys(KEY).open_home("meta", HomeKeys(wrong).seal_home("meta", KEY)),
        lambda: open_vault(home, Passphrase(Secret(WORDS))),
        lambda: open_vault(home, Passphrase(Secret(WORDS + "\ud800"))),
        lambda: open_vault(home, environ={"LOREMESH_PASSPHRASE": WORDS}),
        lambda: open_vault(home, EnvironmentKey(), environ={"LOREMESH_KEY": WORDS}),
        lambda: create_vault(home / "new", KeyFile(home / "key")),
        lambda: create_vault(home / "new", KeyFile(home / "binary")),
        lambda: create_vault(home / "new", EnvironmentKey(), environ={"LOREMESH_KEY": KEY.hex() + WORDS}),
        lambda: msgspec.convert({"epoch": 1, "key": KEY + KEY}, EpochKey),
    ]


def test_no_error_carries_a_secret(tmp_path: Path) -> None:
    """Not in its message, its arguments, or anything chained to it."""
    (tmp_path / "new").mkdir()
    create_vault(tmp_path, Passphrase(Secret("another")), cost=CHEAP)
    for number, failure in enumerate(failures(tmp_path)):
        with pytest.raises((CryptoError, ValueError)) as caught:
            failure()
        error: BaseException | None = caught.value
        while error is not None:
            held = [str(error), repr(error.args), repr(vars(error)), repr(getattr(error, "object", None))]
            assert not any(map(shows_a_secret, held)), number
            error = error.__cause__ or error.__context__
        shown = "".join(traceback.format_exception_only(caught.value))
        assert not shows_a_secret(shown)
