"""One owner per home, and who it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from loremesh.crypto.atrest import HomeKeys
from loremesh.node.store import Damaged, Holder, InUse, NotAHome, Store, UnsafeFilesystem, holder
from loremesh.node.store import store as store_module
from loremesh.node.store.filesystem import filesystem_of, shared_filesystem
from loremesh.node.store.owner import ATTEMPT_EVERY_S, LOCK_BYTES, LOCK_NAME, acquire
from tests.node.store.doubles import filled_home, home_keys, rows_of

ROOT = Path(__file__).parents[3]
TRIES_TO_OPEN = """
import asyncio, sys
from pathlib import Path
from loremesh.node.store import InUse, Store
from tests.node.store.doubles import home_keys
try:
    asyncio.run(Store.open(Path(sys.argv[1]), home_keys()))
except InUse as refused:
    print(refused.pid, refused.door, refused, refused.hint, sep="|")
"""

MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw
30 22 0:40 / /srv/homes rw - nfs4 server:/homes rw
31 22 0:41 / /srv/homes/local rw - xfs /dev/sdb rw
32 22 0:42 / /mnt/with\\040space rw - fuse.sshfs me@there: rw
33 22 0:43 / /mnt/over rw - ext4 /dev/sdc rw
34 22 0:44 / /mnt/over rw - cifs //server/share rw
35 22 0:45 / /mnt/fuse rw - fuse.mergerfs pool rw
nonsense
"""


async def test_a_second_process_is_told_who_has_the_home_and_what_to_do(tmp_path: Path) -> None:
    """It learns process and door, and that it can end the owner; the owner goes on undisturbed."""
    await filled_home(tmp_path)
    async with await Store.open(tmp_path, home_keys()) as store:
        store.owner.announce("http://127.0.0.1:7777")
        other = subprocess.run(
            [sys.executable, "-c", TRIES_TO_OPEN, str(tmp_path)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        pid, door, said, hint = other.stdout.strip().split("|")
        assert (pid, door) == (str(os.getpid()), "http://127.0.0.1:7777")
        assert f"in use by process {os.getpid()}" in said
        assert "http://127.0.0.1:7777" in hint
        assert f"kill {os.getpid()}" in hint
        assert len(await rows_of(store)) == 16
    assert holder(tmp_path) is None


async def test_the_same_process_cannot_open_a_home_twice(tmp_path: Path) -> None:
    """Nor create one where one is open."""
    await filled_home(tmp_path)
    async with await Store.open(tmp_path, home_keys()):
        with pytest.raises(InUse):
            await Store.open(tmp_path, home_keys())
        with pytest.raises(InUse):
            await Store.create(tmp_path, home_keys())
    await (await Store.open(tmp_path, home_keys())).close()


async def test_the_holder_is_known_while_there_is_one(tmp_path: Path) -> None:
    """Asking neither takes the home nor needs its keys."""
    assert holder(tmp_path) is None
    await filled_home(tmp_path)
    assert holder(tmp_path) is None
    async with await Store.open(tmp_path, home_keys()) as store:
        assert holder(tmp_path) == Holder(os.getpid(), "")
        store.owner.announce("door")
        store.owner.announce("x")
        assert holder(tmp_path) == Holder(os.getpid(), "x")
        with pytest.raises(ValueError, match="too long"):
            store.owner.announce("x" * LOCK_BYTES)


def test_a_lock_file_with_nonsense_in_it_is_a_lock_all_the_same(tmp_path: Path) -> None:
    """The lock counts, not what the file says."""
    (tmp_path / LOCK_NAME).write_bytes(b"\xffnonsense")
    owner = acquire(tmp_path)
    (tmp_path / LOCK_NAME).write_bytes(b"\xffnonsense")
    assert holder(tmp_path) == Holder(None, "")
    with pytest.raises(InUse, match="another process"):
        acquire(tmp_path)
    owner.release()
    owner.release()
    acquire(tmp_path).release()


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    """Somebody who can write the directory must not get another file overwritten."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    home = tmp_path / "home"
    home.mkdir()
    (home / LOCK_NAME).symlink_to(victim)
    with pytest.raises(Exception, match="cannot be taken"):
        acquire(home)
    assert victim.read_text() == "precious"
    with pytest.raises(NotAHome):
        acquire(tmp_path / "nowhere")
    assert ATTEMPT_EVERY_S < 1


async def test_a_failed_opening_gives_the_home_up_again(tmp_path: Path) -> None:
    """With wrong keys nothing opens, and nothing stays locked."""
    await filled_home(tmp_path)
    with pytest.raises(Damaged, match="another home's"):
        await Store.open(tmp_path, HomeKeys(bytes(32)))
    assert holder(tmp_path) is None


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/me", "ext4"),
        ("/srv/homes/me", "nfs4"),
        ("/srv/homesick", "ext4"),
        ("/srv/homes/local/me", "xfs"),
        ("/mnt/with space/x", "fuse.sshfs"),
        ("/mnt/over/x", "cifs"),
    ],
)
def test_the_file_system_is_that_of_the_nearest_mount(path: str, kind: str) -> None:
    """The deepest mount point above the path, the last one mounted there; names in full."""
    assert filesystem_of(Path(path), MOUNTS) == kind


def test_shared_file_systems_are_known(tmp_path: Path) -> None:
    """Network file systems, also through FUSE, are; local ones, and what nothing is known of, are not."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    assert shared_filesystem(Path("/srv/homes/me"), mounts) == "nfs4"
    assert shared_filesystem(Path("/mnt/with space/x"), mounts) == "fuse.sshfs"
    assert shared_filesystem(Path("/mnt/fuse/x"), mounts) == ""
    assert shared_filesystem(Path("/home/me"), mounts) == ""
    assert shared_filesystem(Path("/srv/homes/me"), tmp_path / "none") == ""


async def test_a_home_on_a_shared_file_system_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the reason, before anything is made there; and the lock is given up."""
    monkeypatch.setattr(store_module, "shared_filesystem", lambda home: "nfs4")
    with pytest.raises(UnsafeFilesystem, match="nfs4") as refused:
        await Store.create(tmp_path, home_keys())
    assert "local disk" in refused.value.hint
    assert not (tmp_path / "memory.db").exists()
    assert holder(tmp_path) is None
