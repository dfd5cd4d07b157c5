"""A whole node on a full and on a read-only disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.node.full_disk import WORKS
from tests.node.store.test_disk import ROOT, why_not


@pytest.mark.parametrize("work", WORKS)
def test_a_full_or_read_only_disk_costs_nothing_that_was_acknowledged(tmp_path: Path, work: str) -> None:
    """Each of `full_disk`'s scenes, which say what must hold."""
    if why_not():
        pytest.skip(why_not())
    script = 'mount -t tmpfs -o size=8m,mode=700 none "$1" && exec "$2" -m tests.node.full_disk "$1" "$3"'
    scene = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", str(tmp_path), sys.executable, work],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (scene.stdout[-5:], scene.stderr) == ("done\n", "")
