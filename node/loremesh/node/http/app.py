"""The door's HTTP side: who may come in, what they may ask, and how the answer goes out.

A plain ASGI function stands before the router: wrong `Host`, 403; no or wrong token, 401; before a byte of
the body is read. Then one handler serves every verb of the table.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec
from litestar import Litestar, Request, Response, get, post
from litestar.enums import MediaType, ScopeType
from litestar.exceptions import HTTPException
from litestar.response import Stream

from loremesh.node.client import STREAM, Failed, Line
from loremesh.node.errors import Conflict, Unavailable, UnknownThing, UsageError
from loremesh.node.failures import BUG_HINT, ErrorSaid, explain_error
from loremesh.node.http.hosts import Listen, answers_to
from loremesh.node.http.openapi import PREFIX, describe
from loremesh.node.params import Params, decoded
from loremesh.node.verbs import VERBS, Verb
from loremesh.sync.errors import InvalidInput

if TYPE_CHECKING:
    from litestar.types import ASGIApp, Receive, Scope, Send
    from structlog.stdlib import BoundLogger

    from loremesh.node.node import Node

MAX_BODY_BYTES: Final = 8 << 20
"""One `learn_many` as the client cuts it, 1 MiB of text, with every character escaped as JSON allows."""
PROGRESS_EVERY_S: Final = 0.1
ALIVE_EVERY_S: Final = 5.0
"""A long verb says at least this often that it works, far below the client's patience."""
OPEN: Final = frozenset({f"{PREFIX}/health", f"{PREFIX}/openapi.json"})
"""Paths that need no token: they tell nothing of the home."""


def build_app(node: Node, token: str, listen: Listen, version: str, log: BoundLogger) -> ASGIApp:
    """The door's ASGI application. The log gets verb, status and time of each request, never its content."""
    document = msgspec.json.encode(describe(version))

    @get(f"{PREFIX}/health", media_type=MediaType.JSON)
    async def health() -> bytes:
        return b'{"ok":true}'

    @get(f"{PREFIX}/openapi.json", media_type=MediaType.JSON)
    async def openapi() -> bytes:
        return document

    @post(PREFIX + "/{name:str}", status_code=HTTPStatus.OK)
    async def ask(name: str, request: Request[Any, Any, Any]) -> Response[bytes] | Stream:
        begun = time.monotonic()
        try:
            verb = VERBS.get(name)
            if verb is None:
                raise UnknownThing(f"there is no verb {name[:80]!r}", f"use one of {', '.join(VERBS)}")
            params = decoded(await request.body(), verb.params)
            if verb.long and STREAM in request.headers.get("accept", ""):
                lines = _lines(node, verb, params, log, lambda status: _note(log, name, status, begun))
                return Stream(lines, media_type=STREAM)
            result = msgspec.json.encode(await verb.run(node, params, None))
        except Exception as error:
            status, said = _said(error, log)
            _note(log, name, status, begun)
            return _json(status, msgspec.json.encode(said))
        _note(log, name, HTTPStatus.OK, begun)
        return _json(HTTPStatus.OK, result)

    def refused(_: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
        status, said = _said(error, log)
        return _json(status, msgspec.json.encode(said))

    app = Litestar(
        [health, openapi, ask],
        openapi_config=None,
        logging_config=None,
        request_max_body_size=MAX_BODY_BYTES,
        exception_handlers={Exception: refused, HTTPException: refused},
    )
    return guarded(app, token, listen)


def guarded(app: ASGIApp, token: str, listen: Listen) -> ASGIApp:
    """`app` behind the two checks that every request has to pass."""
    expected = f"Bearer {token}".encode("ascii")

    async def door(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == ScopeType.HTTP:
            headers = {bytes(name).lower(): bytes(value) for name, value in scope["headers"]}
            if not answers_to(listen, headers.get(b"host", b"").decode("latin-1")):
                await _turn_away(send, HTTPStatus.FORBIDDEN, ErrorSaid(*WRONG_HOST))
                return
            given = headers.get(b"authorization", b"")
            if scope["path"] not in OPEN and not hmac.compare_digest(given, expected):
                await _turn_away(send, HTTPStatus.UNAUTHORIZED, ErrorSaid(*WRONG_TOKEN))
                return
        else:
            await send({"type": "websocket.close", "code": 1008, "reason": ""})
            return
        await app(scope, receive, send)

    return door


DOOR_BUG_HINT: Final = (
    "report it, with the last lines of log/node.log in the home; what was stored before is intact"
)
WRONG_HOST: Final = (
    "this door does not answer to that Host header",
    "use the address it listens on, as door.json and `loremesh up` state it",
)
WRONG_TOKEN: Final = (
    "the bearer token is missing or not this door's",
    "take it from door.json in the home; each start of the node makes a new one",
)


async def _turn_away(send: Send, status: HTTPStatus, said: ErrorSaid) -> None:
    body = msgspec.json.encode(said)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode("ascii")),
        (b"connection", b"close"),  # the body was not read, so nothing more can come over this connection
    ]
    if status == HTTPStatus.UNAUTHORIZED:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": int(status), "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _lines(
    node: Node, verb: Verb[Any, Any], params: Params, log: BoundLogger, done: Callable[[HTTPStatus], None]
) -> AsyncIterator[bytes]:
    """A long verb's answer, line by line: how far it is, then its result or its error.

    Progress is read off ten times a second, so that a verb which reports a million steps sends few lines.
    When the reader goes away the verb is cancelled; what it had finished stays.
    """
    latest: tuple[int, int] = (0, 0)

    def progress(at: int, total: int) -> None:
        nonlocal latest
        latest = (at, total)

    work = asyncio.ensure_future(_run(verb.run(node, params, progress)))
    told, told_at = latest, time.monotonic()
    try:
        while not work.done():
            await asyncio.wait({work}, timeout=PROGRESS_EVERY_S)
            if latest != told or time.monotonic() - told_at > ALIVE_EVERY_S:
                told, told_at = latest, time.monotonic()
                yield _line(Line(progress=told))
        try:
            result = msgspec.json.encode(work.result())
        except Exception as error:
            status, said = _said(error, log)
            done(status)
            yield _line(Line(failed=Failed(int(status), said.error, said.hint)))
        else:
            done(HTTPStatus.OK)
            yield _line(Line(result=msgspec.Raw(result)))
    finally:
        if not work.done():
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)


async def _run(work: Awaitable[object]) -> object:
    return await work


def _line(line: Line) -> bytes:
    return msgspec.json.encode(line) + b"\n"


def _json(status: HTTPStatus, body: bytes) -> Response[bytes]:
    return Response(body, status_code=int(status), media_type=MediaType.JSON)


def _note(log: BoundLogger, verb: str, status: HTTPStatus, begun: float) -> None:
    log.info(
        "asked",
        verb=verb if verb in VERBS else "?",
        status=int(status),
        ms=round(1e3 * (time.monotonic() - begun), 1),
    )


def _said(error: Exception, log: BoundLogger) -> tuple[HTTPStatus, ErrorSaid]:
    """Status and text of an error at this door."""
    if isinstance(error, HTTPException):
        status = HTTPStatus(error.status_code)
        if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            return status, ErrorSaid(
                f"the request has more than {MAX_BODY_BYTES} bytes", "send less at a time"
            )
        return status, ErrorSaid(status.phrase.lower(), f"see {PREFIX}/openapi.json for what there is")
    explained = explain_error(error)
    match error:
        case UsageError() | InvalidInput():
            status = HTTPStatus.BAD_REQUEST
        case UnknownThing():
            status = HTTPStatus.NOT_FOUND
        case Conflict():
            status = HTTPStatus.CONFLICT
        case Unavailable():
            status = HTTPStatus.SERVICE_UNAVAILABLE
        case _:
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            log.error("failed", what=explained.message)
            if explained.hint == BUG_HINT:
                return status, ErrorSaid(explained.message, DOOR_BUG_HINT)
    return status, ErrorSaid(explained.message, explained.hint)
