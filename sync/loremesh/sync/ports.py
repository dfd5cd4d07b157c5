"""What the sync core needs from outside. The bus's port is `busport.Bus`."""

from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.sync.feed import FeedKey, ForkProof
from loremesh.sync.outcomes import Passed
from loremesh.sync.wire import SignedFrame


class Placement(msgspec.Struct, frozen=True, eq=False):
    """Where the parts of a frame go, decided before it is stored so that one transaction stores all of it."""

    rows: NDArray[np.int64]
    """The local row of each of the frame's `ids`."""
    hour: float
    """The active hour of its arrival."""
    stamps: NDArray[np.float64]
    """The freshness stamp that each evidence row will have, in active hours."""


class Journal(Protocol):
    """Where frames are kept. One writer at a time.

    What the journal raises (a full disk, say) passes through the funnel to its caller; nothing has changed.
    """

    async def store_frame(self, passed: Passed, placement: Placement) -> int:
        """Store frame, texts, position and placement in one transaction; returns the log number (≥ 1).

        A frame that `fills` replaces the bodiless one of its number, and keeps that one's log number. Whether
        it is on disk already when this returns is the journal's choice: a peer's frame can be fetched again.
        """
        ...

    async def store_proof(self, proof: ForkProof) -> None:
        """Keep the proof that an incarnation forked."""
        ...

    async def frames(
        self, space: bytes, key: FeedKey, first: int, last: int, budget_bytes: int
    ) -> list[SignedFrame]:
        """Held frames of a chain from `first` to at most `last`, in order and without gaps from `first` on.

        At least one where `first` is held, then as many as the budget allows. A pruned frame has no body.
        """
        ...
