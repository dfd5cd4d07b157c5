"""One agent's memory: events and their fold, the sealed store, recall, sharing; the doors at its edge.

`Node` is the whole API: `async with Node.open("home") as node: ...`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loremesh.node.node import Node as Node

__all__ = ["Node"]


def __getattr__(name: str) -> object:
    """`Node` is imported when it is asked for: the command line's `--help` does without it."""
    if name == "Node":
        from loremesh.node.node import Node

        return Node
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
