"""Embedders by name, as settings and the command line write them."""

from collections.abc import Mapping
from typing import Final

from loremesh.node.embed.hashing import MAX_DIMENSION, MIN_DIMENSION, HashingEmbedder
from loremesh.node.errors import UsageError
from loremesh.node.ports import DEFAULT_KEY_ENV, Embedder

FORMS: Final = "minilm, hashing, hashing:DIMENSION or openai:MODEL@URL"


async def open_embedder(
    name: str, environ: Mapping[str, str], *, key_env: str = DEFAULT_KEY_ENV, dimension: int | None = None
) -> Embedder:
    """The embedder that `name` describes (see FORMS).

    `dimension` is that of the vectors already stored, if any; without it a service over HTTP is asked at
    once, with it nothing is sent before the first text. Raises UsageError for a name that cannot be right and
    EmbedderError for a service that does not answer.
    """
    kind, _, rest = name.partition(":")
    match kind:
        case "minilm" if name == "minilm":
            from loremesh.node.embed.minilm import MiniLM  # its libraries take a third of a second to import

            return MiniLM()
        case "hashing" if name == "hashing":
            return HashingEmbedder()
        case "hashing" if rest.isascii() and rest.isdigit() and MIN_DIMENSION <= int(rest) <= MAX_DIMENSION:
            return HashingEmbedder(int(rest))
        case "hashing":
            raise UsageError(
                f"embedder {name!r} has no usable dimension", f"take one of {MIN_DIMENSION} … {MAX_DIMENSION}"
            )
        case "openai":
            model, _, url = rest.partition("@")
            if not model or not url:
                raise UsageError(
                    "embedder openai lacks a model or a URL", "write it as openai:MODEL@https://host/v1"
                )
            from loremesh.node.embed.openai import OpenAIEmbedder  # so does its HTTP client
            from loremesh.node.providers.http import Endpoint

            service = OpenAIEmbedder(Endpoint(url, model, key_env), environ, dimension=dimension)
            if dimension is None:
                try:
                    await service.probe()
                except BaseException:
                    await service.close()
                    raise
            return service
        case _:
            raise UsageError(f"embedder {kind!r} is unknown", f"use {FORMS}")
