"""A chat model over HTTP: any service with OpenAI's `POST /chat/completions`.

One question, one answer; no conversation is kept. Texts leave the machine: that is what naming such a model
means.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec

from loremesh.node.errors import UsageError
from loremesh.node.providers.budget import Budget
from loremesh.node.providers.http import (
    DEFAULT_TIMEOUTS,
    Endpoint,
    HttpService,
    Problem,
    ServiceError,
    Sleep,
    Timeouts,
)

MAX_REPLY_BYTES: Final = 1024 * 1024
"""The longest answer asked for is some thousand tokens; with all that services add this is ten times it."""
MAX_PROMPT_CHARACTERS: Final = 200_000
"""Fits the longest contexts in use; more is refused here, before it is paid for."""
MAX_ANSWER_TOKENS: Final = 16_384

BYTES_PER_TOKEN: Final = 3
"""For reserving: English has about four bytes to a token, code and other scripts less. What the service says
it took replaces the guess."""

_NOT_CHAT: Final = "check that the URL is a chat service with OpenAI's interface"


class Completion(msgspec.Struct, frozen=True):
    """What a model said; `cut` when it was not done at the limit of tokens. `tokens`: what it took in all."""

    text: str
    cut: bool
    tokens: int


class _Message(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None


class _Reply(msgspec.Struct):
    choices: list[_Choice]
    usage: msgspec.Raw = msgspec.Raw(b"null")


class _Usage(msgspec.Struct):
    total_tokens: int


class Chat:
    """One model at one service. `name` says which, as events and messages state it; never the key.

    Raises UsageError for a URL that cannot be right, ServiceError for a key that cannot be sent.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        environ: Mapping[str, str],
        budget: Budget,
        *,
        kind: str = "rater",
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._model = endpoint.model
        self._budget = budget
        self._service = HttpService(
            endpoint,
            "chat/completions",
            environ,
            kind=kind,
            reply_bytes=MAX_REPLY_BYTES,
            timeouts=timeouts,
            sleep=sleep,
        )
        self.name = f"openai:{endpoint.model}@{self._service.host}"
        # How services differ: older ones know max_tokens only, newer models refuse it or a temperature.
        self._limit_field = "max_tokens"
        self._cold = True

    async def complete(self, prompt: str, max_tokens: int, *, system: str = "") -> Completion:
        """The model's answer to `prompt`, at most `max_tokens` of it.

        Raises ServiceError for a service that does not answer as it should, BudgetSpent when the home's
        budget has no room for the question, UsageError for one out of bounds. Neither repeats the prompt.
        """
        if len(prompt) + len(system) > MAX_PROMPT_CHARACTERS:
            raise UsageError(
                f"the question has {len(prompt) + len(system)} characters",
                f"ask with at most {MAX_PROMPT_CHARACTERS}",
            )
        if not 1 <= max_tokens <= MAX_ANSWER_TOKENS:
            raise UsageError(f"max_tokens is {max_tokens}", f"give 1 … {MAX_ANSWER_TOKENS}")
        asked_bytes = len((system + prompt).encode("utf-8", "surrogatepass"))
        reserved = asked_bytes // BYTES_PER_TOKEN + max_tokens
        while True:
            try:
                return await self._ask(prompt, max_tokens, system, reserved)
            except ServiceError as error:
                if not self._adapted(error):
                    raise

    async def close(self) -> None:
        """Closes the connections."""
        await self._service.close()

    async def _ask(self, prompt: str, max_tokens: int, system: str, reserved: int) -> Completion:
        messages = [{"role": "user", "content": prompt}]
        if system:
            messages.insert(0, {"role": "system", "content": system})
        body: dict[str, object] = {
            "model": self._model,
            "messages": messages,
            self._limit_field: max_tokens,
            "stream": False,
        }
        if self._cold:
            body["temperature"] = 0
        attempts = 0

        def admit() -> None:
            nonlocal attempts
            self._budget.admit(reserved)
            attempts += 1

        try:
            found = await self._service.ask(_encoded(body), _read, admit)
        except ServiceError as error:
            # What was refused with a status took no tokens; what came to no end may have taken all of them.
            if error.status:
                self._budget.settle(reserved * attempts, 0)
            raise
        self._budget.settle(reserved * attempts, found.tokens or reserved)
        return found

    def _adapted(self, error: ServiceError) -> bool:
        """Whether the service refused one of our fields and is now asked without it; each gives way once."""
        if error.status != 400:
            return False
        if self._limit_field == "max_tokens" and "max_completion_tokens" in str(error):
            self._limit_field = "max_completion_tokens"
            return True
        if self._cold and "temperature" in str(error):
            self._cold = False
            return True
        return False


def _encoded(body: dict[str, object]) -> bytes:
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        raise UsageError("the question is not UTF-8: it has a lone surrogate", "give text in UTF-8") from None


def _read(reply: bytes) -> Completion | Problem:
    try:
        found = msgspec.json.decode(reply, type=_Reply)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # The error's own text could quote what the model said; nothing of that is anybody's business here.
        return Problem("the reply is not what a chat service sends", _NOT_CHAT)
    if not found.choices:
        return Problem("the reply holds no answer", _NOT_CHAT)
    try:
        tokens = msgspec.json.decode(found.usage, type=_Usage).total_tokens
    except msgspec.DecodeError:
        tokens = 0
    first = found.choices[0]
    return Completion(first.message.content or "", first.finish_reason == "length", max(tokens, 0))
