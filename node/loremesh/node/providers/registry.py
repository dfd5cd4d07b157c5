"""Raters, summarisers and chat models by name, as settings write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from loremesh.node.errors import UsageError
from loremesh.node.extract import Extractive
from loremesh.node.ports import DEFAULT_KEY_ENV, Rater, Summariser
from loremesh.node.providers.budget import Budget
from loremesh.node.rate import SpecificityRater

if TYPE_CHECKING:
    from loremesh.node.providers.chat import Chat

RATERS: Final = "specificity, none or openai:MODEL@URL"
SUMMARISERS: Final = "extractive or openai:MODEL@URL"
MAX_MODEL_CHARACTERS: Final = 100
"""With the host's name it stands in every rating's event."""


def open_rater(
    name: str,
    environ: Mapping[str, str],
    budget: Budget,
    *,
    key_env: str = DEFAULT_KEY_ENV,
    timeout_s: float | None = None,
) -> Rater | None:
    """The rater that `name` describes (see RATERS); None for "none". Nothing is sent.

    Raises UsageError for a name that cannot be right, ServiceError for a key that cannot be sent.
    """
    if name == "none":
        return None
    if name == "specificity":
        return SpecificityRater()
    if not name.startswith("openai:"):
        raise UsageError(f"[rater] name {name!r} is unknown", f"use {RATERS}")
    from loremesh.node.providers.rater import ChatRater

    return ChatRater(open_chat(name, environ, budget, kind="rater", key_env=key_env, timeout_s=timeout_s))


def open_summariser(
    name: str,
    environ: Mapping[str, str],
    budget: Budget,
    *,
    key_env: str = DEFAULT_KEY_ENV,
    timeout_s: float | None = None,
) -> Summariser:
    """The summariser that `name` describes (see SUMMARISERS). Nothing is sent. Raises as `open_rater`."""
    if name == "extractive":
        return Extractive()
    if not name.startswith("openai:"):
        raise UsageError(f"[summariser] name {name!r} is unknown", f"use {SUMMARISERS}")
    from loremesh.node.providers.summariser import ChatSummariser

    chat = open_chat(name, environ, budget, kind="summariser", key_env=key_env, timeout_s=timeout_s)
    return ChatSummariser(chat)


def open_chat(
    name: str,
    environ: Mapping[str, str],
    budget: Budget,
    *,
    kind: str,
    key_env: str = DEFAULT_KEY_ENV,
    timeout_s: float | None = None,
) -> Chat:
    """The chat model that `openai:MODEL@URL` names; `kind` is what it is for. Nothing is sent.

    Raises UsageError for a name that cannot be right, ServiceError for a key that cannot be sent.
    """
    scheme, _, rest = name.partition(":")
    model, _, url = rest.partition("@")
    if scheme != "openai" or not model or not url:
        raise UsageError(f"{kind} {name!r} lacks a model or a URL", "write openai:MODEL@https://host/v1")
    if len(model) > MAX_MODEL_CHARACTERS or not model.isprintable():
        raise UsageError(
            f"{kind} model {model[:80]!a} cannot be used",
            f"give at most {MAX_MODEL_CHARACTERS} printable characters",
        )
    from loremesh.node.providers.chat import Chat  # its HTTP client takes a third of a second to import
    from loremesh.node.providers.http import DEFAULT_TIMEOUTS, Endpoint, Timeouts

    timeouts = DEFAULT_TIMEOUTS if timeout_s is None else Timeouts(read_s=timeout_s, whole_s=2.0 * timeout_s)
    return Chat(Endpoint(url, model, key_env), environ, budget, kind=kind, timeouts=timeouts)
