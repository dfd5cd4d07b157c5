"""A disk that is full or read-only, for real: a tmpfs of one megabyte in a mount namespace of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.node.store.small_disk import WORKS

ROOT = Path(__file__).parents[3]


@cache
def why_not() -> str:
    """Why no file system can be mounted here; '' when it can."""
    if os.geteuid() != 0:
        return "mounting a small file system needs root"
    if shutil.which("unshare") is None or shutil.which("mount") is None:
        return "there is no unshare or mount here"
    tried = subprocess.run(
        ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False
    )
    return "" if tried.returncode == 0 else f"unshare or mount is not allowed here: {tried.stderr.decode()}"


@pytest.mark.parametrize("work", WORKS)
def test_a_full_or_read_only_disk_loses_nothing(tmp_path: Path, work: str) -> None:
    """Each of `small_disk`'s scenes, which say what must hold."""
    if why_not():
        pytest.skip(why_not())
    script = (
        'mount -t tmpfs -o size=1m,mode=700 none "$1" && exec "$2" -m tests.node.store.small_disk "$1" "$3"'
    )
    scene = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", str(tmp_path), sys.executable, work],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (scene.stdout, scene.stderr) == ("done\n", "")
