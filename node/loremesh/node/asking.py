"""Questions as callers put them: frame, spaces and tags by name, checked and found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from loremesh.node.errors import UsageError
from loremesh.node.finding import Question, check
from loremesh.node.frames import FrameAsked
from loremesh.node.ground import Ground
from loremesh.node.scoping import Scope, tags_asked
from loremesh.node.score import spreading

SpacesNamed = Callable[[Sequence[str]], tuple[bytes, ...]]
"""Names or ids of spaces → ids. Raises UnknownThing for a space that this node is not in."""


class Asked(msgspec.Struct, frozen=True):
    """How something is asked: frame, context, number of hits, limits, weight of the links (see `recall`)."""

    frame: FrameAsked = "attention"
    context: str = ""
    k: int = 5
    spaces: Sequence[str] | None = None
    tags: Sequence[str] | None = None
    graph: float | None = None


AS_EVER: Final = Asked()


def question(ground: Ground, spaces_named: SpacesNamed, query: str, asked: Asked) -> Question:
    """The question, checked, with frame, spaces and tags found. Raises UsageError and UnknownThing."""
    scope = Scope(
        spaces=None if asked.spaces is None else spaces_named(items(asked.spaces, "spaces")),
        tags=None if asked.tags is None else tags_asked(items(asked.tags, "tags")),
    )
    frame = spreading(ground.frames.named(asked.frame), asked.graph)
    return check(Question(query, frame, asked.context, asked.k, scope))


def question_or_none(
    ground: Ground, spaces_named: SpacesNamed, query: str | None, asked: Asked
) -> Question | None:
    """The question if there is one. Without one nothing may be asked for that only a question has."""
    if query is not None:
        return question(ground, spaces_named, query, asked)
    if asked != AS_EVER:
        raise UsageError(
            "frame, context, k, spaces, tags and graph are those of a query", "give the query, too"
        )
    return None


def items(values: Sequence[str], field: str) -> Sequence[str]:
    """The values, unless they are one text: it would be taken for a list of its characters."""
    if isinstance(values, str):
        raise UsageError(f"{field} is one text, {values[:80]!r}, not a list", f"give {field}=[…]")
    return values
