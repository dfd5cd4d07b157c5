"""What a recall is limited to: spaces, tags, or both. Exact, and echoed in the answer.

None is no limit; an empty list is one that nothing is within. A block is within spaces when this node shared
it into one of them or a peer that counts gave it there, and within tags when it has one of them here: peers'
tags are theirs and steer nothing. Both limits given, a block has to be within both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.node.errors import UsageError
from loremesh.node.evidence import MAX_TAG_CHARACTERS
from loremesh.node.memory import Memory
from loremesh.node.params import MAX_ASKED
from loremesh.sync.content import normalise


class Scope(msgspec.Struct, frozen=True):
    """Ids of spaces and tags in normal form, without repetition; None where there is no such limit."""

    spaces: tuple[bytes, ...] | None = None
    tags: tuple[str, ...] | None = None


EVERYTHING: Final = Scope()


def tags_asked(tags: Sequence[str]) -> tuple[str, ...]:
    """The tags in normal form. Raises UsageError for one that no block can have, or too many."""
    found = []
    for tag in tags:
        if not isinstance(tag, str):
            raise UsageError(f"a tag is a {type(tag).__name__}", "give texts, or no tags at all")
        clean = normalise(tag)
        if not clean or len(clean) > MAX_TAG_CHARACTERS or not clean.isprintable():
            raise UsageError(
                f"tag {tag[:80]!a} is none that a block can have",
                f"give 1 to {MAX_TAG_CHARACTERS} printable characters, or leave tags out for no limit",
            )
        found.append(clean)
    distinct = tuple(dict.fromkeys(found))
    if len(distinct) > MAX_ASKED:
        raise UsageError(f"{len(distinct)} tags are asked for", f"give at most {MAX_ASKED}")
    return distinct


def within(memory: Memory, scope: Scope) -> NDArray[np.bool_] | None:
    """Which rows are within the scope, bool[n]; None for all of them. The memory has been refreshed."""
    if scope == EVERYTHING:
        return None
    inside = np.ones(memory.length, np.bool_)
    if scope.spaces is not None:
        inside &= _marked(memory, _in_spaces(memory, frozenset(scope.spaces)))
    if scope.tags is not None:
        asked = frozenset(scope.tags)
        tagged = [row for row, tags in memory.own.tags.items() if not asked.isdisjoint(tags)]
        inside &= _marked(memory, np.array(tagged, np.int64))
    return inside


def _in_spaces(memory: Memory, spaces: frozenset[bytes]) -> NDArray[np.int64]:
    """Rows shared into these spaces from here, and those that peers who count gave there."""
    mine = [row for row, shared in memory.own.shared.items() if not spaces.isdisjoint(shared)]
    tau_fx = memory.sync.lens().tau_fx
    sources = [
        number
        for number, source in enumerate(memory.sync.registers.sources)
        if source.space in spaces and tau_fx[number] > 0
    ]
    return np.concatenate([np.array(mine, np.int64), memory.sync.providers.rows(sources)])


def _marked(memory: Memory, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    found = np.zeros(memory.length, np.bool_)
    found[rows] = True
    return found
