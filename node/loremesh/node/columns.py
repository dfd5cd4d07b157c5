"""Own state as columns: one row per block, what the node's own events have made of it (DESIGN §1, own state).

Rows are those of the node's `BlockIndex`. A row that no own event has touched has stability 0 and the
defaults below; blocks known only from peers have such rows.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from enum import IntEnum
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.node import arrays
from loremesh.node.rules import START_DIFFICULTY

Exported = dict[str, NDArray[np.generic] | bytes]
"""What a checkpoint holds of some state: numpy columns and MessagePack, by name."""

START_IMPORTANCE: Final = 0.5


class Status(IntEnum):
    """Where a block stands. NONE: not learned here. PENDING: learned, not rated yet. ACTIVE: rated."""

    NONE = 0
    PENDING = 1
    ACTIVE = 2


class Withdrawn(IntEnum):
    """Whether a block was taken out of recall here, and how. DEPRECATED: judged wrong or of no use.
    ARCHIVED: put away. SUPERSEDED: another block took its place.
    """

    NO = 0
    DEPRECATED = 1
    ARCHIVED = 2
    SUPERSEDED = 3


def withdrawal_name(withdrawn: Withdrawn) -> str:
    """As people read it; '' for a block that is not withdrawn."""
    return withdrawn.name.lower() if withdrawn else ""


class OwnViews(msgspec.Struct, frozen=True):
    """The columns as numpy sees them, each [n], read-only, not copied: good until the next growth.

    Evidence (`*_a`, `*_b`) is in fixed point; `self_*` sums first-hand outcomes over contexts and
    incarnations, `imported_*` what came from files. Hours are active hours. `published_*` are S and D by
    fsrs5, whatever rules the state has. `rated_h`: when the block was rated last, 0 for one not `rated`.
    """

    prior_a: NDArray[np.int64]
    prior_b: NDArray[np.int64]
    rated_a: NDArray[np.int64]
    rated_b: NDArray[np.int64]
    self_a: NDArray[np.int64]
    self_b: NDArray[np.int64]
    imported_a: NDArray[np.int64]
    imported_b: NDArray[np.int64]
    stability_h: NDArray[np.float64]
    difficulty: NDArray[np.float64]
    published_stability_h: NDArray[np.float64]
    published_difficulty: NDArray[np.float64]
    t_last_h: NDArray[np.float64]
    importance: NDArray[np.float64]
    rated_h: NDArray[np.float64]
    status: NDArray[np.uint8]
    withdrawn: NDArray[np.uint8]
    held: NDArray[np.uint8]
    rated: NDArray[np.uint8]
    positives: NDArray[np.uint32]
    negatives: NDArray[np.uint32]

    def alpha_fx(self) -> NDArray[np.int64]:
        """Own α: prior, ratings, first-hand outcomes and what came from files."""
        return self.prior_a + self.rated_a + self.self_a + self.imported_a

    def beta_fx(self) -> NDArray[np.int64]:
        """Own β: prior, ratings, first-hand outcomes and what came from files."""
        return self.prior_b + self.rated_b + self.self_b + self.imported_b


class OwnColumns:
    """The arrays the fold writes, by row. Read whole columns through `views`.

    `length`: rows in use. `positives` and `negatives` count explicit outcomes with a signal above and below
    one half.
    """

    __slots__ = (
        "difficulty",
        "held",
        "importance",
        "imported_a",
        "imported_b",
        "length",
        "negatives",
        "positives",
        "prior_a",
        "prior_b",
        "published_difficulty",
        "published_stability_h",
        "rated",
        "rated_a",
        "rated_b",
        "rated_h",
        "self_a",
        "self_b",
        "stability_h",
        "status",
        "t_last_h",
        "withdrawn",
    )

    def __init__(self) -> None:
        self.length = 0
        self.prior_a = array("q")
        self.prior_b = array("q")
        self.rated_a = array("q")
        self.rated_b = array("q")
        self.self_a = array("q")
        self.self_b = array("q")
        self.imported_a = array("q")
        self.imported_b = array("q")
        self.stability_h = array("d")
        self.difficulty = array("d")
        self.published_stability_h = array("d")
        self.published_difficulty = array("d")
        self.t_last_h = array("d")
        self.importance = array("d")
        self.rated_h = array("d")
        self.status = array("B")
        self.withdrawn = array("B")
        self.held = array("B")
        self.rated = array("B")
        self.positives = array("I")
        self.negatives = array("I")
        self._grow(arrays.FIRST_CAPACITY)

    def ensure(self, length: int) -> None:
        """Make rows 0 … length-1 exist; new ones hold the defaults."""
        if length > self.length:
            if length > len(self.prior_a):
                self._grow(arrays.capacity_for(length, len(self.prior_a)))
            self.length = length

    def _grow(self, capacity: int) -> None:
        grown = arrays.grown
        self.prior_a = grown(self.prior_a, 0, capacity)
        self.prior_b = grown(self.prior_b, 0, capacity)
        self.rated_a = grown(self.rated_a, 0, capacity)
        self.rated_b = grown(self.rated_b, 0, capacity)
        self.self_a = grown(self.self_a, 0, capacity)
        self.self_b = grown(self.self_b, 0, capacity)
        self.imported_a = grown(self.imported_a, 0, capacity)
        self.imported_b = grown(self.imported_b, 0, capacity)
        self.stability_h = grown(self.stability_h, 0.0, capacity)
        self.difficulty = grown(self.difficulty, START_DIFFICULTY, capacity)
        self.published_stability_h = grown(self.published_stability_h, 0.0, capacity)
        self.published_difficulty = grown(self.published_difficulty, START_DIFFICULTY, capacity)
        self.t_last_h = grown(self.t_last_h, 0.0, capacity)
        self.importance = grown(self.importance, START_IMPORTANCE, capacity)
        self.rated_h = grown(self.rated_h, 0.0, capacity)
        self.status = grown(self.status, Status.NONE, capacity)
        self.withdrawn = grown(self.withdrawn, Withdrawn.NO, capacity)
        self.held = grown(self.held, 0, capacity)
        self.rated = grown(self.rated, 0, capacity)
        self.positives = grown(self.positives, 0, capacity)
        self.negatives = grown(self.negatives, 0, capacity)

    def clear(self, row: int) -> None:
        """Put the defaults back into `row`: the block was forgotten."""
        if row >= self.length:
            return
        self.prior_a[row] = self.prior_b[row] = self.rated_a[row] = self.rated_b[row] = 0
        self.self_a[row] = self.self_b[row] = self.imported_a[row] = self.imported_b[row] = 0
        self.stability_h[row] = self.published_stability_h[row] = self.t_last_h[row] = 0.0
        self.difficulty[row] = self.published_difficulty[row] = START_DIFFICULTY
        self.importance[row] = START_IMPORTANCE
        self.rated_h[row] = 0.0
        self.status[row] = Status.NONE
        self.withdrawn[row] = Withdrawn.NO
        self.held[row] = self.rated[row] = 0
        self.positives[row] = self.negatives[row] = 0

    def views(self, length: int | None = None) -> OwnViews:
        """The columns over rows 0 … length-1 (all in use when not given; made when they do not exist yet)."""
        if length is None:
            length = self.length
        self.ensure(length)
        view = arrays.view
        return OwnViews(
            prior_a=view(self.prior_a, np.int64, length),
            prior_b=view(self.prior_b, np.int64, length),
            rated_a=view(self.rated_a, np.int64, length),
            rated_b=view(self.rated_b, np.int64, length),
            self_a=view(self.self_a, np.int64, length),
            self_b=view(self.self_b, np.int64, length),
            imported_a=view(self.imported_a, np.int64, length),
            imported_b=view(self.imported_b, np.int64, length),
            stability_h=view(self.stability_h, np.float64, length),
            difficulty=view(self.difficulty, np.float64, length),
            published_stability_h=view(self.published_stability_h, np.float64, length),
            published_difficulty=view(self.published_difficulty, np.float64, length),
            t_last_h=view(self.t_last_h, np.float64, length),
            importance=view(self.importance, np.float64, length),
            rated_h=view(self.rated_h, np.float64, length),
            status=view(self.status, np.uint8, length),
            withdrawn=view(self.withdrawn, np.uint8, length),
            held=view(self.held, np.uint8, length),
            rated=view(self.rated, np.uint8, length),
            positives=view(self.positives, np.uint32, length),
            negatives=view(self.negatives, np.uint32, length),
        )

    def export(self) -> Exported:
        """A copy of every column, by name."""
        seen = self.views()
        return {name: getattr(seen, name).copy() for name in OwnViews.__struct_fields__}

    @classmethod
    def load(cls, exported: Mapping[str, NDArray[np.generic] | bytes]) -> OwnColumns:
        """What `export` gave, again. Raises ValueError naming a column that is missing or of another form."""
        columns = cls()
        length = None
        for name in OwnViews.__struct_fields__:
            column = exported.get(name)
            if not isinstance(column, np.ndarray) or column.ndim != 1 or length not in (None, len(column)):
                raise ValueError(
                    f"column {name} of own state is missing or has another length than the others"
                )
            length = len(column)
            columns.ensure(length)
            target: array[int] | array[float] = getattr(columns, name)
            if column.dtype != np.dtype(target.typecode):
                raise ValueError(f"column {name} of own state has type {column.dtype}, not {target.typecode}")
            np.frombuffer(target, dtype=column.dtype, count=length)[:] = column
        return columns
