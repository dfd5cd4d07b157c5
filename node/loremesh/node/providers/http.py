"""One question to a service over HTTP: deadlines, bounded retries, bounded answers, and the key never shown.

The key comes from an environment variable, goes into one header, and appears in no error, representation or
log. It is sent over https, or to this machine, and never anywhere else.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

import httpx
from msgspec import Struct

from loremesh.node.errors import Unavailable, UsageError
from loremesh.node.ports import DEFAULT_KEY_ENV

CONNECT_TIMEOUT_S: Final = 5.0
TIMEOUT_S: Final = 30.0
"""For one read or write; a model on a processor may take several seconds for a batch."""
WHOLE_TIMEOUT_S: Final = 120.0
"""For one attempt from the first byte sent to the last one read: a service that sends a byte now and then
keeps nobody waiting."""

ATTEMPTS: Final = 4
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 20.0
"""A service that asks for a longer pause is reported instead: the caller has a turn of its own later."""

OF_ONE_QUESTION: Final = frozenset({400, 413, 422})
"""What services say of a single question (too long, refused by a filter); all else concerns every one."""

_SHOWN_CHARACTERS: Final = 200
_AGAIN: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})

Sleep = Callable[[float], Awaitable[None]]
T = TypeVar("T")


class ServiceError(Unavailable):
    """A service did not do what was asked of it. Neither message nor hint holds a key or what was sent.

    `status` is that of its answer, 0 when there was none that could be used.
    """

    def __init__(self, message: str, hint: str = "", status: int = 0) -> None:
        super().__init__(message, hint)
        self.status = status


class Endpoint(Struct, frozen=True):
    """Where to ask, and which model. `url` is the base, as in https://api.openai.com/v1."""

    url: str
    model: str
    key_env: str = DEFAULT_KEY_ENV


class Timeouts(Struct, frozen=True):
    """Seconds for connecting, for one read or write, and for a whole attempt."""

    connect_s: float = CONNECT_TIMEOUT_S
    read_s: float = TIMEOUT_S
    whole_s: float = WHOLE_TIMEOUT_S


DEFAULT_TIMEOUTS: Final = Timeouts()


class Problem(Struct, frozen=True):
    """Why one attempt failed; `again` when another may succeed, after `pause_s` where the service said so.

    `status` is that of the answer, 0 where there was none or it was 200 and could not be used.
    """

    message: str
    hint: str
    again: bool = False
    pause_s: float | None = None
    status: int = 0


class HttpService:
    """One path of a service, asked with POST and JSON. `kind` is what errors call it: "embedder", "rater" …

    Raises UsageError for a URL that cannot be right, ServiceError for a key that cannot be sent.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        path: str,
        environ: Mapping[str, str],
        *,
        kind: str,
        reply_bytes: int,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        url = _checked_url(endpoint.url, kind)
        self.address = f"{str(url).rstrip('/')}/{path}"
        self.host = url.netloc.decode("ascii")
        self._model = endpoint.model
        self._path = path
        self._key_env = endpoint.key_env
        self._kind = kind
        self._reply_bytes = reply_bytes
        self._timeouts = timeouts
        self._sleep = sleep
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        key = environ.get(endpoint.key_env, "").strip()
        if key:
            if url.scheme != "https" and not _is_loopback(url.host):
                raise ServiceError(
                    f"{url} is plain http to another machine: it would show the key in {endpoint.key_env}",
                    f"use https, or unset {endpoint.key_env} if the service needs no key",
                )
            if not key.isascii() or not key.isprintable():
                raise ServiceError(
                    f"the key in {endpoint.key_env} has characters that no HTTP header can carry",
                    "set it again, without quotes or line ends",
                )
            headers["Authorization"] = f"Bearer {key}"
        self._client = httpx.AsyncClient(
            headers=headers,
            timeout=httpx.Timeout(timeouts.read_s, connect=timeouts.connect_s),
            follow_redirects=False,  # a redirect would carry the texts to somewhere nobody chose
            trust_env=not _is_loopback(url.host),  # what stays on this machine goes through no proxy
        )

    async def ask(
        self, body: bytes, read: Callable[[bytes], T | Problem], admit: Callable[[], None] | None = None
    ) -> T:
        """What `read` makes of the answer, tried up to ATTEMPTS times. Raises ServiceError.

        `admit` is called before every attempt; what it raises ends the question.
        """
        pause_s = FIRST_PAUSE_S
        for left in range(ATTEMPTS - 1, -1, -1):
            if admit is not None:
                admit()
            answer = await self._attempt(body, read)
            if not isinstance(answer, Problem):
                return answer
            wait_s = pause_s if answer.pause_s is None else answer.pause_s
            if not answer.again or not left or wait_s > LONGEST_PAUSE_S:
                raise ServiceError(
                    f"{self.address} (model {self._model}): {answer.message}", answer.hint, answer.status
                )
            await self._sleep(wait_s)
            pause_s *= 2.0
        raise AssertionError("the last attempt returns or raises")

    async def close(self) -> None:
        """Closes the connections. Closing twice does nothing."""
        await self._client.aclose()

    async def _attempt(self, body: bytes, read: Callable[[bytes], T | Problem]) -> T | Problem:
        reply = bytearray()
        try:
            async with (
                asyncio.timeout(self._timeouts.whole_s),
                self._client.stream(
                    "POST", self.address, content=body, headers={"Content-Type": "application/json"}
                ) as response,
            ):
                # As it comes: unpacking could turn few bytes into many, and nothing packed was asked for.
                async for piece in response.aiter_raw():
                    reply += piece
                    if len(reply) > self._reply_bytes:
                        return Problem(
                            f"the reply has more than {self._reply_bytes} bytes",
                            f"check that the URL is that of a service for the {self._kind}",
                        )
        except httpx.TimeoutException:
            return Problem("no answer in time", "check that the service runs and is not overloaded", True)
        except TimeoutError:
            return Problem(
                f"no whole answer within {self._timeouts.whole_s:g} s",
                "check that the service is not overloaded, or take a smaller model",
            )
        except httpx.HTTPError as error:
            # The type is named and not the text: that of some errors quotes headers.
            return Problem(
                f"no connection ({type(error).__name__})", "check the URL, and that the service runs", True
            )
        if response.status_code != 200:
            return self._refusal(response, bytes(reply))
        return read(bytes(reply))

    def _refusal(self, response: httpx.Response, reply: bytes) -> Problem:
        status = response.status_code
        said = self._said(reply)
        pause_s = _retry_after_s(response.headers.get("Retry-After"))
        if status in (401, 403):
            return Problem(
                f"status {status}, the key is missing or not accepted{said}",
                f"put a valid key into the environment variable {self._key_env}",
                status=status,
            )
        if status == 429:
            return Problem(
                f"status 429, too many requests or no quota left{said}",
                "wait, or raise the quota; what is not done yet is tried again later",
                True,
                pause_s,
                status,
            )
        if status == 404:
            return Problem(
                f"status 404{said}",
                f"check the model's name, and that the URL ends where /{self._path} follows",
                status=status,
            )
        if status >= 500 or status in _AGAIN:
            return Problem(
                f"status {status}{said}",
                "the service has a fault; look at its log",
                status in _AGAIN,
                pause_s,
                status,
            )
        return Problem(f"status {status}{said}", "check the URL and the model's name", status=status)

    def _said(self, reply: bytes) -> str:
        """The beginning of what the service says, printable, without the key should the service repeat it."""
        text = reply.decode("utf-8", "replace")
        key = self._client.headers.get("Authorization", "").removeprefix("Bearer ")
        if key:
            text = text.replace(key, "[key]")
        text = text[: 4 * _SHOWN_CHARACTERS]  # not before the key is out: half of one would stay
        text = " ".join("".join(c if c.isprintable() else " " for c in text).split())[:_SHOWN_CHARACTERS]
        return f": {text}" if text else ""


def _retry_after_s(header: str | None) -> float | None:
    """Seconds that a Retry-After asks for; None for none, or for a date, which another clock wrote."""
    try:
        seconds = float(header) if header is not None else math.nan
    except ValueError:
        return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _checked_url(text: str, kind: str) -> httpx.URL:
    hint = "write it as https://host/v1"
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise UsageError(f"the {kind}'s URL cannot be read: {error}", hint) from None
    if url.scheme not in ("http", "https") or not url.host:
        raise UsageError(
            f"the {kind}'s URL is not http or https with a host: {url.scheme!r}, {url.host!r}", hint
        )
    if url.userinfo or url.query or url.fragment:
        raise UsageError(f"the {kind}'s URL has a password, query or fragment, which would be shown", hint)
    return url


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
