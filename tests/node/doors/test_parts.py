"""The doors' parts by themselves: errors in words, addresses, keys, and texts on a terminal."""

from __future__ import annotations

import importlib
import pkgutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import loremesh.crypto
import loremesh.node
import loremesh.sync
from loremesh.node import verbs
from loremesh.node.cli.inputs import batches
from loremesh.node.cli.invocation import take_common
from loremesh.node.cli.keys import default_key_file
from loremesh.node.cli.plain import plain
from loremesh.node.cli.session import Patience
from loremesh.node.client import Door, DoorClosed, NodeGone
from loremesh.node.errors import NodeError, UsageError
from loremesh.node.failures import Exit, explain_error
from loremesh.node.http.doorfile import FORMAT, DoorFile
from loremesh.node.http.hosts import Listen, answers_to, parse_listen
from loremesh.node.params import MAX_TEXTS, Nothing, Outcome, checked
from loremesh.sync.errors import InvalidInput

INTERNAL = {"TurnedAway", "RowClash"}
"""Exceptions that their own module turns into something else."""


def own_exceptions() -> list[type[BaseException]]:
    """Every public exception class that the three packages define."""
    found: dict[str, type[BaseException]] = {}
    for package in (loremesh.crypto, loremesh.sync, loremesh.node):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for thing in vars(importlib.import_module(module.name)).values():
                kind = thing if isinstance(thing, type) and issubclass(thing, BaseException) else None
                if kind is not None and kind.__module__.startswith("loremesh.") and kind.__name__[0] != "_":
                    found[kind.__name__] = kind
    return [kind for name, kind in sorted(found.items()) if name not in INTERNAL]


def test_every_error_of_the_program_has_a_remedy() -> None:
    """None of its own exceptions is called a bug, and each comes with a hint."""
    lacking = []
    for kind in own_exceptions():
        error = kind.__new__(kind, "what was wrong")
        if issubclass(kind, NodeError):
            NodeError.__init__(error, "what was wrong")  # type: ignore[arg-type]
        explained = explain_error(error)
        if "bug" in explained.message or not explained.hint:
            lacking.append(kind.__name__)
    assert lacking == []


def test_exit_codes_tell_usage_from_failure() -> None:
    """What can never be right is 2; what may be right another time is 1."""
    assert explain_error(UsageError("x")).exit_code is Exit.USAGE
    assert explain_error(InvalidInput("text", "is empty")).exit_code is Exit.USAGE
    assert explain_error(NodeError("x")).exit_code is Exit.FAILURE
    assert explain_error(PermissionError(13, "Permission denied", "f")).message == "f: Permission denied"


def test_an_unforeseen_error_keeps_its_text_to_itself() -> None:
    """Nobody knows what it holds: type and place have to do."""
    try:
        raise KeyError("a learned text")
    except KeyError as error:
        said = explain_error(error)
    assert "bug" in said.message
    assert "KeyError" in said.message
    assert "learned" not in said.message + said.hint


@pytest.mark.parametrize("text", ["", "host", ":80", "127.0.0.1:", "127.0.0.1:-1", "127.0.0.1:٣", "a b:1"])
def test_an_address_that_is_none_is_refused(text: str) -> None:
    """--listen takes an address and a port, and nothing that merely looks like one."""
    with pytest.raises(UsageError, match="--listen"):
        parse_listen(text)


def test_only_loopback_is_without_warning() -> None:
    """127.0.0.0/8, ::1 and localhost stay on the machine; every other address does not."""
    loopback = {
        text: parse_listen(f"{text}:0").loopback for text in ("127.0.0.1", "127.1.2.3", "[::1]", "localhost")
    }
    beyond = {text: parse_listen(f"{text}:0").loopback for text in ("0.0.0.0", "[::]", "10.0.0.1")}
    assert (set(loopback.values()), set(beyond.values())) == ({True}, {False})


def test_a_door_on_all_addresses_answers_to_addresses_only() -> None:
    """There a bare address will do as Host; a name, which a web page could have, will not."""
    everywhere = Listen("0.0.0.0", 80)
    assert answers_to(everywhere, "10.0.0.1:80")
    assert answers_to(everywhere, "[fe80::1]:80")
    assert not answers_to(everywhere, "evil.example:80")
    assert not answers_to(Listen("10.0.0.1", 80), "10.0.0.2")


def test_each_home_has_a_key_file_of_its_own(tmp_path: Path) -> None:
    """Below $XDG_CONFIG_HOME when that is absolute, named by the home's whole path."""
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    one, other = (default_key_file(tmp_path / name, environ) for name in ("one", "other"))
    assert one != other
    assert one.parent == tmp_path / "loremesh" / "keys"
    assert (len(one.stem), one.suffix) == (16, ".key")


@given(st.text())
def test_a_terminal_is_never_commanded(text: str) -> None:
    """Whatever a peer wrote: no control character and no mark of direction is left, and the rest is."""
    shown = plain(text)
    assert all(c.isprintable() or c in "\n\t" or c.isspace() or ord(c) > 0x9F for c in shown)
    assert not set(shown) & set("\x1b\x9b\u202e\u2066")
    assert plain(shown) == shown


@given(st.lists(st.text(max_size=40), max_size=60), st.integers(1, 200))
def test_batches_hold_every_text_in_order(texts: list[str], budget: int) -> None:
    """Nothing is lost or moved, and no group is above its bounds."""
    groups = list(batches(texts, budget))
    assert [text for group in groups for text in group] == texts
    assert all(len(group) == 1 or sum(len(t.encode()) for t in group) <= budget for group in groups)
    assert max(map(len, batches(["x"] * (3 * MAX_TEXTS))), default=0) == MAX_TEXTS


def test_common_options_behind_two_dashes_are_words() -> None:
    """What follows `--` is the command's own, even when it looks like an option."""
    words = take_common(["learn", "--home", "h", "--", "--json", "--home"])
    assert (words.home, words.as_json, words.rest) == ("h", False, ["learn", "--", "--json", "--home"])


def test_values_made_in_code_are_held_to_their_bounds() -> None:
    """NaN, which JSON cannot even say, is refused by name before it gets anywhere."""
    with pytest.raises(UsageError, match="weight is nan"):
        checked(Outcome(1.0, blocks=["ab" * 32], weight=float("nan")))


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """One owner is waited for so long; a queue of owners longer, but not for ever."""
    now = [0.0]
    monkeypatch.setattr("loremesh.node.cli.session.time.monotonic", lambda: now[0])
    monkeypatch.setattr("loremesh.node.cli.session.time.sleep", lambda s: now.__setitem__(0, now[0] + s))
    refusal = NodeError("in use")

    def exhaust(patience: Patience, pids: Iterator[int]) -> None:
        for pid in pids:
            patience.wait(pid, refusal)

    def wait_out(patience: Patience, pids: Iterator[int]) -> float:
        begun = now[0]
        with pytest.raises(NodeError):
            exhaust(patience, pids)
        return now[0] - begun

    assert 10 < wait_out(Patience(10.0), iter([1] * 10_000)) < 11
    assert 80 < wait_out(Patience(10.0), iter(range(100_000))) < 100


@pytest.fixture
def mute() -> Iterator[tuple[str, int]]:
    """A server that takes a request and hangs up without an answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            connection, _ = server.accept()
            connection.recv(65_536)
            connection.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        yield server.getsockname()
        thread.join()


def test_a_node_that_goes_away_leaves_a_doubt(tmp_path: Path, mute: tuple[str, int]) -> None:
    """Asked and not answered: whether it was done is not known, and the error says so."""
    door = Door(tmp_path, DoorFile(FORMAT, *mute, token="t", pid=1, peer="p"))
    with pytest.raises(NodeGone, match="went away") as gone:
        door.call(verbs.STATUS, Nothing())
    assert "not known" in gone.value.hint


def test_a_door_that_nobody_keeps_was_asked_nothing(tmp_path: Path) -> None:
    """Refused before a word was said: trying again is safe."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    door = Door(tmp_path, DoorFile(FORMAT, "127.0.0.1", port, "t", 1, "p"))
    with pytest.raises(DoorClosed, match="does not answer"):
        door.call(verbs.STATUS, Nothing())


def test_an_answer_that_is_cut_off_means_that_the_node_went_away(tmp_path: Path) -> None:
    """A node killed while it answers has not answered in another form: it is gone."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        file = DoorFile(FORMAT, "127.0.0.1", server.getsockname()[1], "token", 1, "peer")

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                asked = b""
                while not asked.endswith(b"{}"):  # a request left unread would end the connection otherwise
                    asked += connection.recv(65_536)
                connection.sendall(b'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"block":')

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(NodeGone, match="went away"):
            Door(tmp_path, file).call(verbs.STATUS, Nothing())
        thread.join()
