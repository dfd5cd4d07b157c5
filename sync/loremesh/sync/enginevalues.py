"""What the engine is given and how long it waits: values shared by its parts."""

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from loremesh.crypto.identity import Identity
from loremesh.sync.opening import Carried
from loremesh.sync.outcomes import Outcome
from loremesh.sync.ports import Journal
from loremesh.sync.spacestate import SyncState

__all__ = ["Admit", "EngineOptions", "OnOutcome", "Surroundings"]

Admit = Callable[[bytes | Carried], Awaitable[Sequence[Outcome]]]
"""The funnel as the node runs it, one frame at a time: sealed bytes from the bus, or a frame out of its seal
as a repair reply carries it. Gives the frame's outcome first, then those of frames that had waited for it.
Its seconds (`Deferred.until_s`) are those of the event loop's clock. What it raises left nothing changed: it
is tried again."""

OnOutcome = Callable[[bytes, Outcome], None]
"""Told of every outcome, with the space."""


class EngineOptions(Struct, frozen=True):
    """Times, in seconds. The reasons are in `sync/BUS.md`, "The engine"."""

    head_s: float = 5.0
    """Between heads of one space while something changes."""
    quiet_head_s: float = 60.0
    """Between heads while nothing does: a head that was lost is made up for by then."""
    grace_s: float = 1.0
    """What a head shows to be missing may be on its way: it is asked for after this long."""
    ask_s: float = 5.0
    """An asked peer's time to answer."""
    silent_s: float = 15.0
    """A peer that did not answer is not asked again before."""
    retry_first_s: float = 0.5
    retry_max_s: float = 60.0
    """Waits between attempts of anything that failed, doubling."""
    rest_max_s: float = 30.0
    """A deferred chain is tried again at least this often: its budget, or trust, may have been raised."""
    vector_s: float = 15.0
    """Between requests for one peer's whole vector."""
    check_s: float = 30.0
    """Between looks at what the bus ends with, while nothing is published: a stream can lose its end."""


class Surroundings(Struct, frozen=True):
    """What every part of the engine works with."""

    state: SyncState
    """Read only: `admit` alone changes it."""
    admit: Admit
    journal: Journal
    identity: Identity
    clock_ms: Callable[[], int]
    """Wall clock, Unix milliseconds: shown in messages, never used to order."""
    options: EngineOptions
    on_outcome: OnOutcome
