"""An embedder over HTTP: any service with OpenAI's `POST /embeddings` (OpenAI, vLLM, Ollama, llama.cpp, TEI
…).

Texts leave the machine: that is what choosing this embedder means. Deadlines, retries and the key are those
of `providers.http`.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from loremesh.node.ports import EmbedderError, Fingerprint
from loremesh.node.providers.http import (
    DEFAULT_TIMEOUTS,
    Endpoint,
    HttpService,
    Problem,
    ServiceError,
    Sleep,
    Timeouts,
)

BATCH_TEXTS: Final = 64
BATCH_CHARACTERS: Final = 128_000
"""Per request; services refuse more than some 300,000 tokens, and a lost request is lost work."""

MAX_TEXT_CHARACTERS: Final = 8_000
"""Of one text; services refuse more than 8,192 tokens, and a character is at most about one token. The rest
of a longer text is found by its words."""

MAX_REPLY_BYTES: Final = 64 * 1024 * 1024
"""64 vectors of 8,192 numbers as text are 12 MB."""

MAX_DIMENSION: Final = 8_192


class _Item(Struct):
    index: int
    embedding: list[float]


class _Reply(Struct):
    data: list[_Item]


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
        self._model = endpoint.model
        self._dimension = dimension
        self._prefix = prefix
        self._query_prefix = query_prefix
        try:
            self._service = HttpService(
                endpoint,
                "embeddings",
                environ,
                kind="embedder",
                reply_bytes=MAX_REPLY_BYTES,
                timeouts=timeouts,
                sleep=sleep,
            )
        except ServiceError as error:
            raise EmbedderError(str(error), error.hint) from None

    @property
    def fingerprint(self) -> Fingerprint:
        """See `ports.Embedder`. A service does not tell its weights' version: it stands for the address."""
        if self._dimension is None:
            raise EmbedderError(f"the dimension of {self._model} is not known yet", "call probe() first")
        return Fingerprint(f"openai:{self._model}", self._service.address, self._dimension, self._prefix)

    async def probe(self) -> None:
        """Learns the dimension by embedding one word. Raises EmbedderError."""
        await self.embed(["dimension"])

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
        """See `ports.Embedder`. Batches go one after another, each tried some times."""
        prefix = self._query_prefix if query else self._prefix
        batches = [await self._batch(batch) for batch in _batches([prefix + text for text in texts])]
        return np.concatenate(batches) if batches else np.zeros((0, self._dimension or 0), dtype=np.float32)

    async def close(self) -> None:
        """Closes the connections."""
        await self._service.close()

    async def _batch(self, texts: list[str]) -> NDArray[np.float32]:
        body = msgspec.json.encode({"model": self._model, "input": texts, "encoding_format": "float"})
        try:
            return await self._service.ask(body, lambda reply: self._vectors(reply, len(texts)))
        except ServiceError as error:
            raise EmbedderError(str(error), error.hint) from None

    def _vectors(self, reply: bytes, count: int) -> NDArray[np.float32] | Problem:
        """Unit vectors in the order of the texts, or what is wrong with the reply."""
        wrong_service = "check that the URL is an embedding service with OpenAI's interface"
        try:
            items = sorted(msgspec.json.decode(reply, type=_Reply).data, key=lambda item: item.index)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return Problem(f"the reply is not what an embedding service sends ({error})", wrong_service)
        if [item.index for item in items] != list(range(count)):
            return Problem(f"{count} texts sent, {len(items)} vectors with wrong numbers came", wrong_service)
        dimension = self._dimension or len(items[0].embedding)
        wrong = next((len(item.embedding) for item in items if len(item.embedding) != dimension), None)
        if wrong is not None:
            return Problem(
                f"a vector has {wrong} dimensions, not {dimension}",
                "the service runs another model than before: name the old one, or change the home's embedder",
            )
        if not 1 <= dimension <= MAX_DIMENSION:
            return Problem(f"vectors have {dimension} dimensions, not 1 … {MAX_DIMENSION}", wrong_service)
        vectors = np.array([item.embedding for item in items], dtype=np.float64)
        with np.errstate(
            over="ignore"
        ):  # a length beyond float64 is refused below like any that is not finite
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(lengths).all() or not (lengths > 0.0).all():
            return Problem("a vector is zero or not finite", wrong_service)
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
