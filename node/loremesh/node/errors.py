"""What can go wrong at the doors: each error says what was wrong, with what, and what to do."""

from __future__ import annotations


class NodeError(Exception):
    """A verb that could not be done. `str()` says what was wrong with what; `hint` is the remedy."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(NodeError):
    """An argument that cannot be right whatever the node's state: exit code 2."""


class UnknownThing(NodeError):
    """A block, episode, peer or space that this node does not know."""


class Conflict(NodeError):
    """Something is already there with other content, for instance an episode's outcome."""


class Unavailable(NodeError):
    """Something outside the node is needed and not there: the bus, an embedder, a port."""


class Refused(Unavailable):
    """A service took this one question for none that it answers; it may take others."""
