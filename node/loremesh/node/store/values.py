"""What goes into the store and comes out of it. Ids are raw bytes; see the README for the tables."""

from __future__ import annotations

import enum
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt


class Kind(enum.IntEnum):
    """What a log row is."""

    OWN = 1
    """An event of one's own about a block, sealed under that block's key."""
    HOME = 2
    """An event of one's own about no block (trust, incarnation …), sealed under the home's key."""
    FRAME = 3
    """A frame, a peer's or one's own: header under the home's key, body under a key of its own."""


class State(enum.IntEnum):
    """What became of a log row after it was written. Number and digest stay in every state.

    a frame: WHOLE ─ rewrite ─▶ CUT ─ prune ─▶ PRUNED, or WHOLE ─ prune ─▶ PRUNED
    an own event: WHOLE ─ compact ─▶ AGGREGATE ─ compact ─▶ AGGREGATED, or WHOLE ─ compact ─▶ AGGREGATED,
    and WHOLE or AGGREGATE ─ forget ─▶ FORGOTTEN
    """

    WHOLE = 0
    CUT = 1
    """A frame's body without the rows of what was forgotten: not what its header's hash says."""
    PRUNED = 2
    """A frame's header alone."""
    FORGOTTEN = 3
    """An own event whose block was forgotten: nothing but number and digest."""
    AGGREGATE = 4
    """An own event in whose place stands what it and others of its block before it came to."""
    AGGREGATED = 5
    """An own event that an aggregate stands for: nothing but number and digest."""
    DAMAGED = 9
    """Never stored: what `scan(salvage=True)` gives in place of a row that cannot be opened."""


class Feed(msgspec.Struct, frozen=True, array_like=True):
    """A chain of frames: space and origin of 32 bytes, incarnation of 16, chain 0 (data) or 1 (control)."""

    space: bytes
    origin: bytes
    incarnation: bytes
    chain: int


class OwnEvent(msgspec.Struct, frozen=True):
    """An event about the block in `row`, to be appended."""

    row: int
    payload: bytes


class HomeEvent(msgspec.Struct, frozen=True):
    """An event about no block, to be appended."""

    payload: bytes


class FrameRow(msgspec.Struct, frozen=True):
    """A frame to be appended. `header` is what pruning keeps, `payload` what it destroys."""

    feed: Feed
    number: int
    payload: bytes
    header: bytes = b""


NewRow: TypeAlias = OwnEvent | HomeEvent | FrameRow


class NewBlock(msgspec.Struct, frozen=True):
    """A block for `row`: its 32-byte id, and its text, None while only the id is known.

    For a row that is there already without a text this brings the text; with `replaces`, also for one that
    has the text in another form (white space, composition).
    """

    row: int
    block_id: bytes
    text: str | None
    replaces: bool = False


class LogRow(msgspec.Struct, frozen=True):
    """One row of the log. `row` is the block row of OWN, −1 otherwise; `feed` and `number` are a FRAME's."""

    n: int
    kind: Kind
    state: State
    row: int
    feed: Feed | None
    number: int
    header: bytes
    payload: bytes | None
    """None when PRUNED, FORGOTTEN, AGGREGATED or DAMAGED."""


class StoredFrame(msgspec.Struct, frozen=True):
    """A frame as it is held: `payload` is None when PRUNED, shorter than signed when CUT."""

    n: int
    number: int
    state: State
    header: bytes
    payload: bytes | None


class FeedPosition(msgspec.Struct, frozen=True):
    """The first and last number held of a feed, and how many (fewer than last − first + 1 means gaps)."""

    feed: Feed
    first: int
    last: int
    count: int


class BlockBatch(msgspec.Struct, frozen=True):
    """Blocks in ascending rows, and the vectors of those that have one of the model asked for."""

    rows: npt.NDArray[np.int64]
    ids: list[bytes]
    texts: list[str | None]
    vector_rows: npt.NDArray[np.int64]
    vectors: npt.NDArray[np.float32]
    """(len(vector_rows), dimension)."""


class Cut(msgspec.Struct, frozen=True):
    """The frame in log row `n` shall have this body instead."""

    n: int
    payload: bytes


class Replaced(msgspec.Struct, frozen=True):
    """In place of the own event in log row `n` this aggregate shall stand."""

    n: int
    payload: bytes


class Compacted(msgspec.Struct, frozen=True):
    """What compaction did: own events that are gone, and how much smaller the rows are."""

    events: int
    freed_bytes: int


class Position(msgspec.Struct, frozen=True):
    """A place in the log: its last row's number, the running hash there, and how often something was erased.

    A checkpoint taken at a position is worth nothing once `erasures` has moved on: it may hold what is gone.
    """

    n: int
    running: bytes
    erasures: int


class Fault(msgspec.Struct, frozen=True):
    """One thing `verify` found: where it is and how it differs from what was written."""

    where: str
    what: str


class Verified(msgspec.Struct, frozen=True):
    """What `verify` read. The home is sound when `faults` is empty."""

    rows: int
    whole: int
    cut: int
    pruned: int
    forgotten: int
    aggregates: int
    aggregated: int
    blocks: int
    faults: list[Fault]
    more_faults: int
    """How many faults were found beyond those listed (FAULTS_MAX)."""
