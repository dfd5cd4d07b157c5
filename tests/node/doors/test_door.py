"""The running node's door: who gets in, what is refused, and how commands come and go with it."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from loremesh.node.http.doorfile import DoorFile, read_door
from loremesh.node.verbs import VERBS
from tests.node.doors.program import TIMEOUT_S, Program, made

Answer = tuple[int, Any]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A home with a node running on it, shared by the tests of this module that leave it running."""
    program = made(tmp_path_factory.mktemp("door"))
    with program.up():
        yield program


@pytest.fixture
def door(program: Program) -> DoorFile:
    """Where that node's door is."""
    found = read_door(program.home)
    assert found is not None
    return found


def ask(
    door: DoorFile,
    verb: str,
    body: bytes | Iterable[bytes] | None = b"{}",
    *,
    method: str = "POST",
    token: str | None = None,
    **headers: str,
) -> tuple[int, bytes]:
    """One request as any HTTP client makes it; status and body."""
    connection = http.client.HTTPConnection(door.host, door.port, timeout=TIMEOUT_S)
    own = {"Authorization": f"Bearer {door.token if token is None else token}"} if token != "" else {}
    try:
        connection.request(method, f"/v1/{verb}", body, {**own, **headers})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def refusal(door: DoorFile, verb: str, body: bytes = b"{}", **rest: Any) -> tuple[int, str]:
    """Status and error of a request that is refused, which always comes with a hint."""
    status, raw = ask(door, verb, body, **rest)
    said = json.loads(raw)
    assert set(said) == {"error", "hint"}
    assert said["hint"]
    return status, said["error"]


def test_what_it_says_when_ready_is_where_it_is(program: Program, door: DoorFile) -> None:
    """door.json holds the address and a token, for the owner's eyes only."""
    path = program.home / "door.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert (door.host, len(door.token) >= 43) == ("127.0.0.1", True)
    assert json.loads(ask(door, "status")[1])["pid"] == door.pid


def test_commands_go_through_the_door(program: Program, door: DoorFile) -> None:
    """While the node runs every command asks it: answers are the node's own, and so are its errors."""
    block = program.ask("learn", "Through the door")["block"]
    assert program.ask("recall", "door", "-k", "1")["hits"][0]["block"] == block
    status = program.ask("status")
    assert (status["running"], status["pid"]) == (True, door.pid)
    wrong = program.run("--json", "recall", "x", "--frame", "nonsense")
    assert (wrong.code, "nonsense" in wrong.error["error"]) == (2, True)
    unknown = program.run("--json", "explain", "ab" * 32)
    assert (unknown.code, "ab" * 32 in unknown.error["error"]) == (1, True)


def test_a_second_owner_is_refused(program: Program, door: DoorFile) -> None:
    """A second `up` names the process that owns the home."""
    refused = program.run("--json", "up")
    assert (refused.code, str(door.pid) in refused.error["error"]) == (1, True)


def test_only_the_token_lets_in(door: DoorFile) -> None:
    """No token, a wrong one, a part of it, or another scheme: 401, for unknown verbs as well."""
    for token in ("", "nonsense", door.token[:-1], door.token + "x"):
        assert refusal(door, "status", token=token)[0] == 401
        assert refusal(door, "nonsense", token=token)[0] == 401
    assert refusal(door, "status", token="", Authorization=f"Basic {door.token}")[0] == 401
    assert ask(door, "health", None, method="GET", token="") == (200, b'{"ok":true}')


def test_a_page_under_another_name_is_refused(door: DoorFile) -> None:
    """A Host header of a name that a web page could have (DNS rebinding): 403, whatever the token."""
    for host in ("evil.example", f"evil.example:{door.port}", "127.0.0.1.evil.example", "", "10.0.0.1"):
        assert refusal(door, "status", Host=host)[0] == 403
        assert refusal(door, "health", method="GET", token="", Host=host)[0] == 403
    for host in ("localhost", f"127.0.0.1:{door.port}", "[::1]:1"):
        assert ask(door, "status", Host=host)[0] == 200


@pytest.mark.parametrize(
    ("verb", "body", "status", "named"),
    [
        ("nonsense", b"{}", 404, "nonsense"),
        ("learn", b"", 400, "text"),
        ("learn", b"[]", 400, "object"),
        ("learn", b"{", 400, "JSON"),
        ("learn", b"[" * 100_000, 400, "object"),
        ("learn", b'{"text":"\xff"}', 400, "UTF-8"),
        ("learn", b'{"text":"\\ud800"}', 400, "JSON"),
        ("learn", b'{"text":7}', 400, "text"),
        ("learn", b'{"text":null}', 400, "text"),
        ("learn", b'{"text":""}', 400, "text"),
        ("learn", b'{"text":"a","nonsense":1}', 400, "nonsense"),
        ("learn", b'{"text":"a","tags":"ops"}', 400, "tags"),
        ("learn_many", b'{"texts":[]}', 400, "texts"),
        ("learn_many", b'{"texts":["fine","a\\u0000b"]}', 400, "NUL"),
        ("recall", b'{"query":"q","k":100000}', 400, "k"),
        ("recall", b'{"query":"q","k":true}', 400, "k"),
        ("recall", b'{"query":"q","frame":7}', 400, "frame"),
        ("recall", b'{"query":"q","frame":{}}', 400, "frame"),
        ("recall", b'{"query":"q","frame":{"task":"1"}}', 400, "frame"),
        ("recall", b'{"query":"q","frame":{"task":1,"dream":1}}', 400, "dream"),
        ("recall", b'{"query":"q","tags":"ops"}', 400, "tags"),
        ("recall", b'{"query":"q","tags":[""]}', 400, "tag"),
        ("recall", b'{"query":"q","spaces":["tea"]}', 404, "tea"),
        ("explain", b'{"block":"%s","k":3}' % (b"ab" * 32), 400, "query"),
        ("explain", b'{"block":"%s","query":"q","k":0}' % (b"ab" * 32), 400, "k"),
        ("explain", b'{"block":"%s","query":"q","spaces":["tea"]}' % (b"ab" * 32), 404, "tea"),
        ("explain", b'{"block":"%s","query":7}' % (b"ab" * 32), 400, "query"),
        ("frames", b'{"limit":0}', 400, "limit"),
        ("outcome", b'{"signal":NaN,"blocks":["%s"]}' % (b"ab" * 32), 400, "JSON"),
        ("outcome", b'{"signal":1e999,"blocks":["%s"]}' % (b"ab" * 32), 400, "signal"),
        ("outcome", b'{"signal":-1e-9,"blocks":["%s"]}' % (b"ab" * 32), 400, "signal"),
        ("outcome", b'{"signal":"1","blocks":["%s"]}' % (b"ab" * 32), 400, "signal"),
        ("outcome", b'{"signal":1,"blocks":["%s"]}' % (b"ab" * 32), 404, "ab" * 32),
        ("events", b'{"after":9007199254740993}', 400, "after"),
        ("space_join", b'{"token":"nonsense"}', 400, "token"),
    ],
)
def test_bad_requests_are_named(door: DoorFile, verb: str, body: bytes, status: int, named: str) -> None:
    """Whatever is wrong with a request: its status, the field by name, and a hint."""
    code, error = refusal(door, verb, body)
    assert (code, named in error) == (status, True), error


def test_an_empty_limit_is_none_at_all_and_null_is_no_limit(program: Program, door: DoorFile) -> None:
    """Through the door an empty list stays one: it is not taken for a list that was left out."""
    program.ask("learn", "Limited through the door", "--tag", "door")

    def hits(limits: bytes) -> tuple[int, list[str] | None]:
        status, raw = ask(door, "recall", b'{"query":"limited","k":1,%s}' % limits)
        assert status == 200
        found = json.loads(raw)
        return len(found["hits"]), found["tags"]

    assert hits(b'"tags":["door"],"frame":{"task":1,"self":3}') == (1, ["door"])
    assert hits(b'"tags":[]') == (0, [])
    assert hits(b'"spaces":[],"tags":["door"]') == (0, ["door"])
    assert hits(b'"tags":null,"spaces":null') == (1, None)


def test_only_posts_are_taken(door: DoorFile) -> None:
    """A verb by GET, a path that is none: 405 and 404, in the same form."""
    assert refusal(door, "status", b"", method="GET")[0] == 405
    assert refusal(door, "status/more", b"{}")[0] == 404


def test_a_body_without_end_is_cut_off(door: DoorFile) -> None:
    """More than 8 MiB is refused, announced or not, and the node goes on."""
    assert refusal(door, "learn", b"x" * ((8 << 20) + 1))[0] == 413

    def endless() -> Iterator[bytes]:
        for _ in range(64):
            yield b"x" * (1 << 20)

    try:
        status, _ = ask(door, "learn", endless(), **{"Transfer-Encoding": "chunked"})
    except ConnectionError:
        status = 413  # cut off before the answer could be read
    assert status == 413
    assert ask(door, "status")[0] == 200


def test_a_long_verb_tells_how_far_it_is(door: DoorFile) -> None:
    """Asked for lines, learn_many answers progress that grows, then the result; errors come as a line too."""
    texts = [f"long verb, text {n}, " + "word " * 50 for n in range(1024)]
    body = msgspec.json.encode({"texts": texts})
    status, raw = ask(door, "learn_many", body, Accept="application/x-ndjson")
    lines = [json.loads(line) for line in raw.splitlines()]
    assert (status, len(lines[-1]["result"])) == (200, 1024)
    done = [line["progress"][0] for line in lines[:-1]]
    assert done == sorted(done)
    status, raw = ask(door, "replay", b'{"rules":"nonsense"}', Accept="application/x-ndjson")
    (failed,) = [json.loads(line)["failed"] for line in raw.splitlines()]
    assert (status, failed["status"], "nonsense" in failed["error"]) == (200, 400, True)


def test_the_description_names_every_verb(door: DoorFile) -> None:
    """openapi.json is made of the verbs' own types."""
    document = json.loads(ask(door, "openapi.json", None, method="GET", token="")[1])
    learn = document["paths"]["/v1/learn"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    schema = document["components"]["schemas"][learn["$ref"].rpartition("/")[2]]
    assert (set(schema["properties"]), schema["required"]) == ({"text", "tags", "share"}, ["text"])
    assert set(document["paths"]) == {*(f"/v1/{verb}" for verb in VERBS), "/v1/health"}


def test_the_log_says_what_was_asked_and_nothing_of_it(program: Program, door: DoorFile) -> None:
    """Verbs and statuses are written down; texts, tokens and questions are not."""
    secret = "the launch code is swordfish"
    program.ask("learn", secret)
    program.ask("recall", secret)
    program.run("learn", secret, "--share", secret)
    refusal(door, "learn", b'{"text":5,"tags":["%s"]}' % secret.encode())
    written = b"".join(file.read_bytes() for file in (program.home / "log").iterdir())
    assert b'"verb": "learn"' in written
    assert b"swordfish" not in written
    assert door.token.encode() not in written


def test_a_taken_port_is_named_and_costs_nothing(tmp_path: Path) -> None:
    """`up` on a port that is in use says so before it opens the home; so does an address that is not ours."""
    program = made(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = program.run("--json", "up", "--listen", f"127.0.0.1:{port}")
    assert (refused.code, port in refused.error["error"]) == (1, True)
    foreign = program.run("up", "--listen", "192.0.2.1:0")
    assert foreign.code == 1
    assert b"warning" in foreign.err
    assert b"192.0.2.1" in foreign.err
    assert not (program.home / "door.json").exists()


def test_it_ends_cleanly_on_sigterm_and_survives_kill(tmp_path: Path) -> None:
    """SIGTERM: exit 0, door.json gone, checkpoint there. kill -9: the file left behind misleads nobody."""
    program = made(tmp_path)
    with program.up() as (process, ready):
        assert (ready["ready"], ready["pid"]) == (True, process.pid)
        program.ask("learn", "before the end")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, out, err) == (0, b"", b"")
    assert not (program.home / "door.json").exists()
    assert (program.home / "checkpoint").exists()
    with program.up() as (process, _):
        program.ask("learn", "before the kill")
        process.kill()
        process.communicate(timeout=TIMEOUT_S)
        assert (program.home / "door.json").exists()
        assert program.ask("status")["blocks"] == 2
    with program.up() as (process, _):  # ends the bus that the killed one left behind, too
        assert program.ask("status")["running"] is True
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0


def test_a_command_waits_for_a_node_that_is_just_starting(tmp_path: Path) -> None:
    """A home that is locked and has no door yet is waited for: the command then goes through the door."""
    program = made(tmp_path)
    process = program.start("--json", "up")
    try:
        deadline = time.monotonic() + TIMEOUT_S
        lock = program.home / "lock"
        while str(process.pid).encode() not in lock.read_bytes() and time.monotonic() < deadline:
            time.sleep(0.005)
        status = program.ask("status")
        assert (status["running"], status["pid"]) == (True, process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0


def test_a_door_that_others_could_read_is_not_trusted(program: Program, door: DoorFile) -> None:
    """door.json open to others, or damaged: an error that names it, and no request."""
    path = program.home / "door.json"
    sound = path.read_bytes()
    try:
        path.chmod(0o644)
        open_to_all = program.run("--json", "status")
        path.write_bytes(b"{}")
        path.chmod(0o600)
        damaged = program.run("--json", "status")
        path.write_bytes(sound.replace(door.token.encode(), b"another"))
        stale = program.run("--json", "status")
    finally:
        path.write_bytes(sound)
        path.chmod(0o600)
    for refused in (open_to_all, damaged):
        assert (refused.code, "door.json" in refused.error["error"]) == (1, True)
    assert (stale.code, "token" in stale.error["error"]) == (1, True)
    assert program.ask("status")["running"] is True
