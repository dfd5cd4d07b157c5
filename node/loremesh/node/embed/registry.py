"""Embedders by name, as settings and the command line write them."""

from collections.abc import Mapping
from typing import Final

from loremesh.node.embed.hashing import DEFAULT_DIMENSION, MAX_DIMENSION, MIN_DIMENSION, HashingEmbedder
from loremesh.node.errors import UsageError
from loremesh.node.ports import DEFAULT_KEY_ENV, Embedder, EmbedderError, Fingerprint

MINILM_NAME: Final = "all-MiniLM-L6-v2-onnx-int8"
"""`minilm.FINGERPRINT`'s name; importing it would load the model's libraries."""

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


def name_of(fingerprint: Fingerprint) -> str:
    """The name under which settings would have this embedder; '' for one that no name here opens."""
    kind, _, model = fingerprint.name.partition(":")
    if kind == "hashing":
        return f"hashing:{fingerprint.dimension}"
    if kind == "openai":
        return f"openai:{model}@{fingerprint.version.removesuffix('/embeddings')}"
    return "minilm" if fingerprint.name == MINILM_NAME else ""


def names(name: str, fingerprint: Fingerprint) -> bool:
    """Whether the settings' `name` means the embedder behind this fingerprint, as far as names tell."""
    other = name_of(fingerprint)
    if name == "hashing":
        name = f"hashing:{DEFAULT_DIMENSION}"
    return name.rstrip("/") == other.rstrip("/")


async def open_former(
    fingerprint: Fingerprint, named: str, environ: Mapping[str, str], *, key_env: str = DEFAULT_KEY_ENV
) -> Embedder:
    """The embedder that made vectors which are stored already, while the settings name another, `named`.

    The key that the settings name is for the service they name: another host is asked without one. Raises
    EmbedderError, UsageError.
    """
    name = name_of(fingerprint)
    if not name:
        raise EmbedderError(f"no embedder {fingerprint.name} is known here", f"there are {FORMS}")
    known = environ if _host(name) == _host(named) else {}
    return await open_embedder(name, known, key_env=key_env, dimension=fingerprint.dimension)


def _host(name: str) -> str:
    """Scheme, host and port of an embedder over HTTP, '' for others."""
    return "/".join(name.partition("@")[2].split("/")[:3])
