"""How a command talks to the node that runs on its home: one request per verb over loopback."""

from __future__ import annotations

import http.client
from pathlib import Path
from typing import Final

import msgspec

from loremesh.node.errors import NodeError, Unavailable, UsageError
from loremesh.node.failures import ErrorSaid
from loremesh.node.http.doorfile import DoorFile, read_door
from loremesh.node.params import P
from loremesh.node.verbs import Progress, R, Verb

CONNECT_TIMEOUT_S: Final = 5.0
ANSWER_TIMEOUT_S: Final = 300.0
"""Silence after which a node is given up. Long verbs are never silent: they say every few seconds how far
they are."""
MAX_ANSWER_BYTES: Final = 256 << 20
NO_RESULT: Final = msgspec.Raw(b"")
STREAM: Final = "application/x-ndjson"


class DoorClosed(Unavailable):
    """Nothing was asked: nobody answers at the door's address, or its token is no longer the one."""


class NodeGone(Unavailable):
    """The node went away before it answered: what was asked may or may not have been done."""


class Failed(msgspec.Struct, frozen=True):
    """An error in place of the result, with the status it would have had as an answer of its own."""

    status: int
    error: str
    hint: str


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of a long verb's answer; exactly one of the three is there."""

    progress: tuple[int, int] | None = None
    result: msgspec.Raw = NO_RESULT
    failed: Failed | None = None


class Door:
    """The door of a running node, as its own user uses it."""

    def __init__(self, home: Path, file: DoorFile) -> None:
        self.home = home
        self.file = file

    def call(self, verb: Verb[P, R], params: P, progress: Progress | None = None) -> R:
        """Have the running node do `verb`.

        Raises the node's own errors as UsageError or NodeError; DoorClosed when nothing was asked, NodeGone
        when the node ended while it worked.
        """
        body = msgspec.json.encode(params)
        connection = self._connect()
        try:
            headers = {
                "Authorization": f"Bearer {self.file.token}",
                "Content-Type": "application/json",
                "Accept": STREAM if verb.long else "application/json",
            }
            connection.request("POST", f"/v1/{verb.name}", body, headers)
            answer = connection.getresponse()
            if answer.status != http.client.OK:
                raise self._refusal(answer.status, answer.read(1 << 20))
            if verb.long:
                raw = self._follow(answer, progress)
            else:
                raw = _whole(answer)
        except (http.client.HTTPException, OSError) as error:
            raise self._gone(verb.name, error) from error
        finally:
            connection.close()
        try:
            return msgspec.json.decode(raw, type=verb.result)
        except msgspec.DecodeError as error:
            raise Unavailable(
                f"the node at {self.file.url} answered in a form this release does not know",
                "run the command and the node from the same release of loremesh",
            ) from error

    def _connect(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection(self.file.host, self.file.port, timeout=CONNECT_TIMEOUT_S)
        try:
            connection.connect()
        except OSError as error:
            raise DoorClosed(
                f"process {self.file.pid} owns {self.home} but does not answer at {self.file.url}",
                f"if it hangs, end it (kill {self.file.pid}) and start the node again with `loremesh up`",
            ) from error
        if connection.sock is not None:
            connection.sock.settimeout(ANSWER_TIMEOUT_S)
        return connection

    def _follow(self, answer: http.client.HTTPResponse, progress: Progress | None) -> bytes:
        """Read a long verb's lines up to its result."""
        while True:
            line = answer.readline(MAX_ANSWER_BYTES)
            if not line.endswith(b"\n"):
                raise http.client.IncompleteRead(line)
            said = msgspec.json.decode(line, type=Line)
            if said.result != NO_RESULT:
                return bytes(said.result)
            if said.failed is not None:
                raise _as_error(said.failed.status, said.failed.error, said.failed.hint)
            if said.progress is not None and progress is not None:
                progress(*said.progress)

    def _refusal(self, status: int, body: bytes) -> NodeError:
        if status == http.client.UNAUTHORIZED:
            return DoorClosed(
                f"the node at {self.file.url} does not know the token in door.json",
                "the node was started again just now, or the file is a copy: run the command once more",
            )
        try:
            said = msgspec.json.decode(body, type=ErrorSaid)
        except msgspec.DecodeError:
            said = ErrorSaid(f"the node at {self.file.url} answered with status {status}", "try again")
        return _as_error(status, said.error, said.hint)

    def _gone(self, verb: str, error: Exception) -> NodeGone:
        late = isinstance(error, TimeoutError)
        said = f"said nothing for {ANSWER_TIMEOUT_S:.0f} s" if late else "went away"
        return NodeGone(
            f"the node on {self.home} (process {self.file.pid}) {said} before it had answered {verb!r}",
            "whether it was done is not known: `loremesh events` shows what was; the home's log directory "
            "tells why the node ended",
        )


def find_door(home: Path) -> Door | None:
    """The door of the node that runs on `home`; None when nothing says that one does."""
    file = read_door(home)
    return None if file is None else Door(home, file)


def _whole(answer: http.client.HTTPResponse) -> bytes:
    raw = answer.read(MAX_ANSWER_BYTES + 1)
    if len(raw) > MAX_ANSWER_BYTES:
        raise Unavailable("the node's answer is too large", "ask for fewer items at a time")
    if answer.length:  # a bounded read of an answer that was cut off returns what there is
        raise http.client.IncompleteRead(raw, answer.length)
    return raw


def _as_error(status: int, error: str, hint: str) -> NodeError:
    usage = status in (http.client.BAD_REQUEST, http.client.REQUEST_ENTITY_TOO_LARGE)
    return UsageError(error, hint) if usage else NodeError(error, hint)
