"""The sealed checkpoint: it comes back bit for bit, or is not used, with the reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loremesh.crypto.atrest import HomeKeys
from loremesh.node.store import Checkpoint, HomeEvent, Position, Store, Unusable
from loremesh.node.store import checkpoint as checkpoints
from loremesh.node.store.checkpoint import Part, open_checkpoint, seal_checkpoint
from tests.node.store.doubles import fill, filled_home, home_keys

PARTS: dict[str, Part] = {
    "empty": np.empty(0, np.float64),
    "no rows": np.empty((0, 3), np.int32),
    "odd": np.array([np.nan, -0.0, np.inf, 5e-324]),
    "square": np.arange(12, dtype=np.int64).reshape(3, 4),
    "column": np.arange(12, dtype=np.int64).reshape(3, 4)[:, 1],
    "flags": np.array([True, False]),
    "bytes": b"\0\xff" * 9,
    "nothing": b"",
}


def bits(parts: dict[str, Part]) -> dict[str, object]:
    """What two dictionaries must agree in: type, shape and every bit."""
    return {
        name: part if isinstance(part, bytes) else (part.dtype.str, part.shape, part.tobytes())
        for name, part in parts.items()
    }


async def test_a_checkpoint_comes_back_bit_for_bit(tmp_path: Path) -> None:
    """Also behind the rows that came since; and its arrays can be written to."""
    async with await Store.create(tmp_path, home_keys()) as store:
        await fill(store)
        at = store.position
        assert await store.write_checkpoint(Checkpoint(at, "fsrs5", PARTS))
        await store.append([HomeEvent(b"since")])
        found = await store.read_checkpoint("fsrs5")
        assert isinstance(found, Checkpoint)
        assert (found.position, bits(found.parts)) == (at, bits(PARTS))
        square = found.parts["square"]
        assert isinstance(square, np.ndarray)
        square[0, 0] = 9
    assert (tmp_path / "checkpoint").stat().st_mode & 0o777 == 0o600


async def test_a_newer_checkpoint_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    """In one step, with nothing left beside it."""
    async with await Store.create(tmp_path, home_keys()) as store:
        for text in (b"one", b"two"):
            await store.append([HomeEvent(text)])
            await store.write_checkpoint(Checkpoint(store.position, "r", {"x": text}))
        found = await store.read_checkpoint("r")
        assert isinstance(found, Checkpoint)
        assert found.parts == {"x": b"two"}
        assert sorted(path.name for path in tmp_path.iterdir() if "checkpoint" in path.name) == ["checkpoint"]


async def test_what_a_killed_process_was_writing_is_removed_at_opening(tmp_path: Path) -> None:
    """An unfinished checkpoint is none."""
    await filled_home(tmp_path)
    beside = checkpoints.unfinished(tmp_path / "checkpoint")
    beside.write_bytes(b"half")
    async with await Store.open(tmp_path, home_keys()) as store:
        assert not beside.exists()
        assert await store.read_checkpoint("r") == Unusable("there is none")


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "other file"])
async def test_a_damaged_checkpoint_is_not_used(tmp_path: Path, damage: str) -> None:
    """Whatever happened to the file: the reason is said and the log is read instead."""
    await filled_home(tmp_path)
    path = tmp_path / "checkpoint"
    async with await Store.open(tmp_path, home_keys()) as store:
        await store.write_checkpoint(Checkpoint(store.position, "r", PARTS))
        body = path.read_bytes()
        middle = len(body) // 2
        path.write_bytes(
            {
                "flip": body[:middle] + bytes([body[middle] ^ 1]) + body[middle + 1 :],
                "cut": body[:-1],
                "empty": b"",
                "other file": b"A shopping list\n" * 10,
            }[damage]
        )
        found = await store.read_checkpoint("r")
        assert isinstance(found, Unusable)
        assert "does not open" in found.reason


async def test_a_checkpoint_of_another_log_is_not_used(tmp_path: Path) -> None:
    """Neither of a log that was longer, nor of one that took another way, even under the same keys."""
    one, two = tmp_path / "one", tmp_path / "two"
    for home in (one, two):
        await filled_home(home)
    async with await Store.open(one, home_keys()) as store:
        await store.write_checkpoint(Checkpoint(store.position, "r", PARTS))
        same_length = (one / "checkpoint").read_bytes()
        await store.append([HomeEvent(b"x")])
        await store.write_checkpoint(Checkpoint(store.position, "r", PARTS))
    async with await Store.open(two, home_keys()) as store:
        for body in (same_length, (one / "checkpoint").read_bytes()):
            (two / "checkpoint").write_bytes(body)
            found = await store.read_checkpoint("r")
            assert isinstance(found, Unusable)
            assert "another log" in found.reason


def test_other_rules_builds_keys_and_formats_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each gives its own reason."""
    sealed = seal_checkpoint(home_keys(), Checkpoint(Position(3, b"h" * 32, 0), "fsrs5", PARTS))
    assert isinstance(open_checkpoint(home_keys(), sealed, "fsrs5"), Checkpoint)
    assert "does not open" in reason(open_checkpoint(HomeKeys(bytes(32)), sealed, "fsrs5"))
    assert "rules 'fsrs5', not 'survey'" in reason(open_checkpoint(home_keys(), sealed, "survey"))
    with monkeypatch.context() as patched:
        patched.setattr(checkpoints, "build_fingerprint", lambda: "numpy 0")
        assert "numpy build and processor" in reason(open_checkpoint(home_keys(), sealed, "fsrs5"))
    with monkeypatch.context() as patched:
        patched.setattr(checkpoints, "FORMAT", 2)
        assert "format 1, not 2" in reason(open_checkpoint(home_keys(), sealed, "fsrs5"))
    other = home_keys().seal_home_large("checkpoint", b"\0\0\0\x05other thing")
    assert "another format" in reason(open_checkpoint(home_keys(), other, "fsrs5"))


def reason(found: Checkpoint | Unusable) -> str:
    """Why it is not used."""
    assert isinstance(found, Unusable)
    return found.reason


def test_arrays_of_objects_are_refused() -> None:
    """They would need pickle, which runs what it reads."""
    parts: dict[str, Part] = {"x": np.array([object()])}
    with pytest.raises(ValueError, match="'x' holds Python objects"):
        seal_checkpoint(home_keys(), Checkpoint(Position(0, bytes(32), 0), "r", parts))


def test_the_build_is_named_by_numpy_and_machine() -> None:
    """So that a reason can be read, and the same build always has the same name."""
    assert checkpoints.build_fingerprint().startswith(f"numpy {np.__version__} ")
    assert checkpoints.build_fingerprint() == checkpoints.build_fingerprint()
