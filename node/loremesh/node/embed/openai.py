"""An embedder over HTTP: any service with OpenAI's `POST /embeddings` (OpenAI, vLLM, Ollama, llama.cpp, TEI
…).

The key comes from an environment variable, goes into one header, and appears in no error, representation or
log. It is sent over https, or to this machine, and never anywhere else. Texts leave the machine: that is what
choosing this embedder means.
"""

import asyncio
import ipaddress
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Final

import httpx
import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from loremesh.node.errors import UsageError
from loremesh.node.ports import DEFAULT_KEY_ENV, EmbedderError, Fingerprint

BATCH_TEXTS: Final = 64
BATCH_CHARACTERS: Final = 128_000
"""Per request; services refuse more than some 300,000 tokens, and a lost request is lost work."""

MAX_TEXT_CHARACTERS: Final = 8_000
"""Of one text; services refuse more than 8,192 tokens, and a character is at most about one token. The rest
of a longer text is found by its words."""

MAX_REPLY_BYTES: Final = 64 * 1024 * 1024
"""64 vectors of 8,192 numbers as text are 12 MB."""

MAX_DIMENSION: Final = 8_192

CONNECT_TIMEOUT_S: Final = 5.0
TIMEOUT_S: Final = 30.0
"""For one read or write; a model on a processor may take several seconds for a batch."""

ATTEMPTS: Final = 4
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 20.0
"""A service that asks for a longer pause is reported instead: the caller has a turn of its own later."""

_SHOWN_CHARACTERS: Final = 200
_AGAIN: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})

Sleep = Callable[[float], Awaitable[None]]


class Endpoint(Struct, frozen=True):
    """Where to ask, and which model. `url` is the base, as in https://api.openai.com/v1."""

    url: str
    model: str
    key_env: str = DEFAULT_KEY_ENV


class Timeouts(Struct, frozen=True):
    """Seconds for connecting, and for one read or write."""

    connect_s: float = CONNECT_TIMEOUT_S
    read_s: float = TIMEOUT_S


DEFAULT_TIMEOUTS: Final = Timeouts()


class _Item(Struct):
    index: int
    embedding: list[float]


class _Reply(Struct):
    data: list[_Item]


class _Problem(Struct, frozen=True):
    """Why one attempt failed; `again` when another may succeed, after `pause_s` where the service said so."""

    message: str
    hint: str
    again: bool
    pause_s: float | None = None


class OpenAIEmbedder:
    """See the module. `dimension` is known from an earlier vector; without it, call `probe` before
    `fingerprint`.

    `prefix` and `query_prefix` go before stored texts and before questions, for models trained with them.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        environ: Mapping[str, str],
        *,
        dimension: int | None = None,
        prefix: str = "",
        query_prefix: str = "",
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        url = _checked_url(endpoint.url)
        self._endpoint = f"{str(url).rstrip('/')}/embeddings"
        self._model = endpoint.model
        self._key_env = endpoint.key_env
        self._dimension = dimension
        self._prefix = prefix
        self._query_prefix = query_prefix
        self._sleep = sleep
        headers = {"Accept": "application/json"}
        key = environ.get(endpoint.key_env, "").strip()
        if key:
            if url.scheme != "https" and not _is_loopback(url.host):
                raise EmbedderError(
                    f"{url} is plain http to another machine: it would show the key in {endpoint.key_env}",
                    f"use https, or unset {endpoint.key_env} if the service needs no key",
                )
            if not key.isascii() or not key.isprintable():
                raise EmbedderError(
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

    @property
    def fingerprint(self) -> Fingerprint:
        """See `ports.Embedder`. A service does not tell its weights' version: it stands for the address."""
        if self._dimension is None:
            raise EmbedderError(f"the dimension of {self._model} is not known yet", "call probe() first")
        return Fingerprint(f"openai:{self._model}", self._endpoint, self._dimension, self._prefix)

    async def probe(self) -> None:
        """Learns the dimension by embedding one word. Raises EmbedderError."""
        await self.embed(["dimension"])

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
        """See `ports.Embedder`. Batches go one after another, each tried up to ATTEMPTS times."""
        prefix = self._query_prefix if query else self._prefix
        batches = [await self._batch(batch) for batch in _batches([prefix + text for text in texts])]
        return np.concatenate(batches) if batches else np.zeros((0, self._dimension or 0), dtype=np.float32)

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.aclose()

    async def _batch(self, texts: list[str]) -> NDArray[np.float32]:
        pause_s = FIRST_PAUSE_S
        for left in range(ATTEMPTS - 1, -1, -1):
            answer = await self._attempt(texts)
            if isinstance(answer, np.ndarray):
                return answer
            wait_s = pause_s if answer.pause_s is None else answer.pause_s
            if not answer.again or not left or wait_s > LONGEST_PAUSE_S:
                raise EmbedderError(f"{self._endpoint} (model {self._model}): {answer.message}", answer.hint)
            await self._sleep(wait_s)
            pause_s *= 2.0
        raise AssertionError("the last attempt returns or raises")

    async def _attempt(self, texts: list[str]) -> NDArray[np.float32] | _Problem:
        body = msgspec.json.encode({"model": self._model, "input": texts, "encoding_format": "float"})
        try:
            async with self._client.stream(
                "POST", self._endpoint, content=body, headers={"Content-Type": "application/json"}
            ) as response:
                reply = bytearray()
                async for piece in response.aiter_bytes():
                    reply += piece
                    if len(reply) > MAX_REPLY_BYTES:
                        return _Problem(
                            "the reply is endless", "check that the URL is an embedding service", False
                        )
        except httpx.TimeoutException:
            return _Problem("no answer in time", "check that the service runs and is not overloaded", True)
        except httpx.HTTPError as error:
            # The type is named and not the text: that of some errors quotes headers.
            return _Problem(
                f"no connection ({type(error).__name__})", "check the URL, and that the service runs", True
            )
        if response.status_code != 200:
            return self._refusal(response, bytes(reply))
        return self._vectors(bytes(reply), len(texts))

    def _refusal(self, response: httpx.Response, reply: bytes) -> _Problem:
        status = response.status_code
        said = self._said(reply)
        if status in (401, 403):
            return _Problem(
                f"status {status}, the key is missing or not accepted{said}",
                f"put a valid key into the environment variable {self._key_env}",
                False,
            )
        if status == 429:
            return _Problem(
                f"status 429, too many requests or no quota left{said}",
                "wait, or raise the quota; what is not embedded yet is tried again later",
                True,
                _retry_after_s(response.headers.get("Retry-After")),
            )
        if status == 404:
            return _Problem(
                f"status 404{said}",
                "check the model's name, and that the URL ends where /embeddings follows",
                False,
            )
        if status >= 500 or status in _AGAIN:
            return _Problem(
                f"status {status}{said}",
                "the service has a fault; look at its log",
                status in _AGAIN,
                _retry_after_s(response.headers.get("Retry-After")),
            )
        return _Problem(f"status {status}{said}", "check the URL and the model's name", False)

    def _said(self, reply: bytes) -> str:
        """The beginning of what the service says, printable, without the key should the service repeat it."""
        text = reply[: 4 * _SHOWN_CHARACTERS].decode("utf-8", "replace")
        key = self._client.headers.get("Authorization", "").removeprefix("Bearer ")
        if key:
            text = text.replace(key, "[key]")
        text = " ".join("".join(c if c.isprintable() else " " for c in text).split())[:_SHOWN_CHARACTERS]
        return f": {text}" if text else ""

    def _vectors(self, reply: bytes, count: int) -> NDArray[np.float32] | _Problem:
        """Unit vectors in the order of the texts, or what is wrong with the reply."""
        wrong_service = "check that the URL is an embedding service with OpenAI's interface"
        try:
            items = sorted(msgspec.json.decode(reply, type=_Reply).data, key=lambda item: item.index)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return _Problem(
                f"the reply is not what an embedding service sends ({error})", wrong_service, False
            )
        if [item.index for item in items] != list(range(count)):
            return _Problem(
                f"{count} texts sent, {len(items)} vectors with wrong numbers came", wrong_service, False
            )
        dimension = self._dimension or len(items[0].embedding)
        wrong = next((len(item.embedding) for item in items if len(item.embedding) != dimension), None)
        if wrong is not None:
            return _Problem(
                f"a vector has {wrong} dimensions, not {dimension}",
                "the service runs another model than before: name the old one, or change the home's embedder",
                False,
            )
        if not 1 <= dimension <= MAX_DIMENSION:
            return _Problem(
                f"vectors have {dimension} dimensions, not 1 … {MAX_DIMENSION}", wrong_service, False
            )
        vectors = np.array([item.embedding for item in items], dtype=np.float64)
        with np.errstate(
            over="ignore"
        ):  # a length beyond float64 is refused below like any that is not finite
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(lengths).all() or not (lengths > 0.0).all():
            return _Problem("a vector is zero or not finite", wrong_service, False)
        self._dimension = dimension
        unit: NDArray[np.float32] = (vectors / lengths).astype(np.float32)
        return unit


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    characters = 0
    for text in texts:
        # Services refuse an empty text; a space has a vector like any other.
        cut = text[:MAX_TEXT_CHARACTERS] or " "
        if batch and (len(batch) == BATCH_TEXTS or characters + len(cut) > BATCH_CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append(cut)
        characters += len(cut)
    if batch:
        yield batch


def _retry_after_s(header: str | None) -> float | None:
    """Seconds that a Retry-After asks for; None for none, or for a date, which another clock wrote."""
    try:
        seconds = float(header) if header is not None else math.nan
    except ValueError:
        return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _checked_url(text: str) -> httpx.URL:
    hint = "write it as https://host/v1"
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise UsageError(f"the embedder's URL cannot be read: {error}", hint) from None
    if url.scheme not in ("http", "https") or not url.host:
        raise UsageError(
            f"the embedder's URL is not http or https with a host: {url.scheme!r}, {url.host!r}", hint
        )
    if url.userinfo or url.query or url.fragment:
        raise UsageError("the embedder's URL has a password, query or fragment, which would be shown", hint)
    return url


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
