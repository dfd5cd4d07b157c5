"""The demonstration itself, small: real nodes, real bus, and everything gone afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from loremesh.node.demo.results import DemoResult

PROGRAM = (sys.executable, "-c", "from loremesh.node.cli.app import main; main()")

pytestmark = pytest.mark.slow


def begin(directory: Path) -> subprocess.Popen[bytes]:
    (directory / "temporary").mkdir()
    return subprocess.Popen(
        [*PROGRAM, "--json", "demo", "--size", "small", "--seed", "3", "--out", str(directory / "page.html")],
        env={**os.environ, "TMPDIR": str(directory / "temporary")},
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def left_processes(directory: Path) -> list[str]:
    """Command lines of processes that have something to do with a directory."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if str(directory / "temporary") in line:
            found.append(line)
    return found


def test_the_demonstration_holds_what_it_says_and_leaves_nothing_behind(tmp_path: Path) -> None:
    running = begin(tmp_path)
    said, errors = running.communicate(timeout=240)

    assert running.returncode == 0, errors.decode()
    result = msgspec.json.decode(said, type=DemoResult)
    assert result.ok
    assert len(result.checks) == 9
    assert all(check.holds for check in result.checks), result.checks
    assert len(set(result.processes)) == 4
    by_key = {phase.key: phase.together for phase in result.phases}
    assert by_key["shared"].share > by_key["alone"].share
    assert by_key["attacked"].share < by_key["shared"].share
    assert by_key["revoked"].share > by_key["attacked"].share
    assert by_key["revoked"].misled == 0
    assert all(twin.equal and twin.numbers > 100 and twin.answers > 10 for twin in result.twins)
    assert result.crash.published_when_killed <= result.crash.frames_after
    outcomes = result.hostile.outcomes["ada"]
    assert outcomes["applied"] < result.hostile.frames_sent / 2
    assert any(label.startswith("deferred") for label in outcomes)
    page = (tmp_path / "page.html").read_text("utf-8")
    assert ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>\n")).tag == "html"
    assert not list((tmp_path / "temporary").glob("loremesh*"))
    if Path("/proc").is_dir():
        assert not left_processes(tmp_path)


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks processes up in /proc")
def test_an_interrupt_ends_the_nodes_and_removes_the_homes(tmp_path: Path) -> None:
    running = begin(tmp_path)
    until = time.monotonic() + 60
    while not any("nats-server" in line for line in left_processes(tmp_path)):
        assert running.poll() is None, running.communicate()[1].decode()
        assert time.monotonic() < until
        time.sleep(0.05)

    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=60)

    assert running.returncode == 130
    assert not left_processes(tmp_path)
    assert not list((tmp_path / "temporary").glob("loremesh*"))
