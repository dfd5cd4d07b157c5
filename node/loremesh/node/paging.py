"""Pages of whole items within a budget: no listed answer overflows who asked for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

import msgspec

BYTES_PER_TOKEN: Final = 4
"""How many bytes of JSON count as a token: about what language models make of English and of numbers."""

T = TypeVar("T")


def whole_items(items: Iterable[T], budget_tokens: int) -> list[T]:
    """The first of the items that are together within the budget as JSON; the first one in any case.

    So a page is empty only where nothing is left, and who goes on behind its last item misses none.

    >>> whole_items(["abcdef", "abcdef", "abcdef"], 5), whole_items(["abcdef"], 1)
    (['abcdef', 'abcdef'], ['abcdef'])
    """
    kept: list[T] = []
    left = budget_tokens * BYTES_PER_TOKEN
    for item in items:
        left -= len(msgspec.json.encode(item)) + 1  # with the comma before or the bracket behind it
        if kept and left < 0:
            break
        kept.append(item)
    return kept
