"""What the verbs answer that tend a memory: revise, rescore, connect, due. Forms as in `results`."""

from __future__ import annotations

import msgspec


class Revised(msgspec.Struct, frozen=True):
    """`block` stands in the place of `superseded` now.

    `created`: its text was not held before. `restored`: it was out of recall itself and is back. `mean` and
    `mass` are its head start; mass 0: it has none, because the old block has no evidence of this home, or the
    new one has outcomes of its own or a head start already.
    """

    block: str
    superseded: str
    created: bool
    restored: bool
    mean: float
    mass: float
    tags: list[str]
    spaces: list[str]


class BlockRated(msgspec.Struct, frozen=True):
    """A new rating of a block, which is its importance now, and its importance before."""

    block: str
    rating: float
    before: float


class Rescored(msgspec.Struct, frozen=True):
    """How many blocks were rated again by `rater`, and how many stay as they are because it gave no answer;
    `why` says what went wrong, '' when there is nothing to say. `found`: the first hundred, one by one.
    """

    rated: int
    unrated: int
    why: str
    rater: str
    found: list[BlockRated]


class Connected(msgspec.Struct, frozen=True):
    """The link of two blocks: its weight as made now and before (0: none), and whether that is news."""

    block: str
    other: str
    weight: float
    before: float
    changed: bool


class DueBlock(msgspec.Struct, frozen=True):
    """A block worth keeping that is about to fade. `retrievability` is now, `retrievability_then` at the end
    of the horizon, `to_90_h` and `to_50_h` as in `Explanation`. `utility` in the context asked for, its
    interval (90 %) in all. `loss` is utility · importance · what retrievability loses within the horizon.
    """

    block: str
    text: str
    retrievability: float
    retrievability_then: float
    to_90_h: float | None
    to_50_h: float | None
    utility: float
    utility_low: float
    utility_high: float
    importance: float
    loss: float


class Due(msgspec.Struct, frozen=True):
    """What is due within `horizon_h` active hours of `hour`: `blocks`, greatest loss first, of `count`."""

    hour: float
    horizon_h: float
    context: str
    count: int
    blocks: list[DueBlock]
