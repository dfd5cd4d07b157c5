"""What a node knows, in memory: the fold of its events, the registers of its peers, and the indexes.

Everything here can be rebuilt from the log. `Memory` keeps the parts in step; it does no IO, and one task at
a time works on it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from loremesh.node.columns import Withdrawn
from loremesh.node.effective import Effective
from loremesh.node.errors import UnknownThing, UsageError
from loremesh.node.events import Forgot, HomeEvent, Recalibrated
from loremesh.node.fading import Fading
from loremesh.node.lexical import LexicalIndex
from loremesh.node.matrix import VectorMatrix
from loremesh.node.ownstate import OwnState
from loremesh.node.ports import Fingerprint
from loremesh.sync.combine import standing
from loremesh.sync.spacestate import SyncState

Rows = NDArray[np.int64]

MIN_BLOCK_PREFIX: Final = 8
"""Hex digits by which a person may name a block: 32 bits, so a clash is rare, and it is then refused."""


class Memory:
    """One node's knowledge. `content` tells which rows have text in the store."""

    def __init__(self, own: OwnState, sync: SyncState) -> None:
        self.own = own
        self.sync = sync
        self.effective = Effective(self.own, self.sync)
        self.lexical = LexicalIndex()
        self.matrix: VectorMatrix | None = None
        self.fingerprint: Fingerprint | None = None
        self.content = bytearray()

    @property
    def length(self) -> int:
        """Rows given out so far."""
        return len(self.sync.index)

    def has_content(self, row: int) -> bool:
        """Whether the store has the row's text."""
        return row < len(self.content) and self.content[row] == 1

    def note_content(self, row: int) -> None:
        """This row has its text in the store now."""
        if row >= len(self.content):
            self.content.extend(bytes(row + 1 - len(self.content) + len(self.content) // 2))
        self.content[row] = 1

    def forget_content(self, row: int) -> None:
        """The store has no text of this row any more."""
        if row < len(self.content):
            self.content[row] = 0
        self.effective.mark_row(row)

    def use_vectors(self, fingerprint: Fingerprint) -> VectorMatrix:
        """The matrix for vectors of this model, made when there is none yet; ValueError for another."""
        if self.matrix is None:
            self.matrix, self.fingerprint = VectorMatrix(fingerprint.dimension), fingerprint
        if fingerprint != self.fingerprint:
            raise ValueError("the vectors in use are another model's")
        return self.matrix

    def change_vectors(self, fingerprint: Fingerprint, matrix: VectorMatrix) -> None:
        """Use these vectors, of another model, in place of those in use."""
        self.fingerprint, self.matrix = fingerprint, matrix

    def refresh(self) -> tuple[Rows, Rows]:
        """Bring the effective columns up to date; returns the rows that came into view and those that left,
        because of who stands behind them, or because they were withdrawn or brought back.

        Only rows with content count. The caller has the lexical index follow.
        """
        changed = self.effective.refresh()
        moved = np.array(self.own.decisions.take_moved(), np.int64)
        changed = np.union1d(changed, moved[moved < self.length])
        if not len(changed):
            return changed, changed
        readable = np.fromiter((self.has_content(row) for row in changed.tolist()), np.bool_, len(changed))
        changed = changed[readable]
        visible = self.effective.rows.visible[changed]
        if len(changed):
            visible &= ~self.withdrawn()[changed]
        return changed[visible], changed[~visible]

    def retrievability(self, hour: float) -> NDArray[np.float64]:
        """R of every row at the active hour `hour`, by the rules in use, as of the last refresh."""
        length, rows = self.length, self.effective.rows
        return self.own.rules.retrievability(
            hour - rows.t_last_h[:length], rows.stability_h[:length], self.own.history.pasts(hour, length)
        )

    def fading(self, rows: Rows, hour: float) -> Fading:
        """How recall of these rows fades from the active hour `hour` on, as of the last refresh."""
        effective = self.effective.rows
        pasts = self.own.history.pasts(hour, self.length)
        return Fading(
            self.own.rules,
            hour,
            effective.t_last_h[rows],
            effective.stability_h[rows],
            None if pasts is None else tuple(column[rows] for column in pasts.columns),
        )

    def follow_home(self, event: HomeEvent) -> None:
        """Own state has folded this event: what hangs on it is out of date."""
        if isinstance(event, Forgot):
            self.effective.mark_row(event.row)
        elif isinstance(event, Recalibrated):
            self.effective.mark(self.own.raters.rows_of(event.rater))

    def take_up(self, own: OwnState) -> None:
        """Use another fold of the same log: one under other rules. The caller refreshes."""
        self.own = own
        self.effective.follow(own)

    def readable(self) -> NDArray[np.bool_]:
        """Which rows a recall may hand out: those with content that somebody who counts stands behind and
        that nobody withdrew here (deprecated, archived, superseded). Rows that came after the last refresh
        are not among them yet.
        """
        length = self.length
        found = np.zeros(length, np.bool_)
        visible = self.effective.rows.visible[:length]
        with_content = np.frombuffer(bytes(self.content[: len(visible)]), np.uint8) > 0
        found[: len(with_content)] = visible[: len(with_content)] & with_content
        found &= ~self.withdrawn()
        return found

    def withdrawn(self) -> NDArray[np.bool_]:
        """Which rows were taken out of recall here, however."""
        length = self.length
        own = self.own.columns.views(max(length, self.own.columns.length))
        found: NDArray[np.bool_] = own.withdrawn[:length] != Withdrawn.NO
        return found

    def withdrawal(self, row: int) -> Withdrawn:
        """Whether and how the block in `row` was taken out of recall here."""
        own = self.own.columns
        return Withdrawn(own.withdrawn[row]) if row < own.length else Withdrawn.NO

    def waiting(self, rating: bool = True, linking: bool = False) -> Rows:
        """Rows that consolidation has work with: readable ones without a vector, and own ones not rated, or
        whose links were not looked for.

        `rating` false: there is nobody to rate them; `linking` false: links are looked for of none.
        """
        length = self.length
        readable = self.readable()
        embedded = np.zeros(length, np.bool_) if self.matrix is None else self.matrix.held(length)
        own = self.own.columns.views(max(length, self.own.columns.length))
        unrated = (own.held[:length] > 0) & (own.rated[:length] == 0)
        work = ~embedded
        if rating:
            work |= unrated
        if linking:
            work |= self.unlinked()
        return np.flatnonzero(readable & work)

    def linkable(self) -> NDArray[np.bool_]:
        """Which rows similarity may link: readable, held here and with a vector, bool[length]."""
        length = self.length
        if self.matrix is None:
            return np.zeros(length, np.bool_)
        held = self.own.columns.views(max(length, self.own.columns.length)).held[:length] > 0
        found: NDArray[np.bool_] = self.readable() & held & self.matrix.held(length)
        return found

    def unlinked(self) -> NDArray[np.bool_]:
        """Which of the linkable rows wait for their links to be looked for, bool[length]."""
        found: NDArray[np.bool_] = self.linkable() & ~self.own.links.looked(self.length)
        return found

    def row_named(self, block: str, *, known: bool = True) -> int:
        """The row of the block that a person names: 64 hex digits, or an unambiguous prefix of at least 8.

        `known`: only a block that can be spoken of; else any that this home has met, where no such one fits.

        Raises UsageError for what cannot name a block, UnknownThing for one that is not here or not unique.
        """
        if not isinstance(block, str):
            raise UsageError(
                f"a {type(block).__name__} is no block id", "give the id, for instance `learned.block`"
            )
        text = block.strip().lower()
        if not MIN_BLOCK_PREFIX <= len(text) <= 64 or any(c not in "0123456789abcdef" for c in text):
            raise UsageError(
                f"{block[:80]!r} is no block id",
                f"give the 64 hex digits that learn or recall printed, or the first {MIN_BLOCK_PREFIX}",
            )
        if len(text) == 64:
            found = self.sync.index.row(bytes.fromhex(text))
            rows = [] if found is None else [found]
        else:
            head = bytes.fromhex(text[: len(text) // 2 * 2])
            named = (row for row in range(self.length) if self.sync.index.id(row).startswith(head))
            rows = [row for row in named if self.sync.index.id(row).hex().startswith(text)]
        rows = [row for row in rows if self.knows(row)] or ([] if known else rows)
        if len(rows) > 1:
            raise UnknownThing(
                f"{len(rows)} blocks begin with {text}", "give more digits of the one you mean"
            )
        if not rows:
            raise UnknownThing(
                f"no block {text} is known here", "see `recall` or `events` for the ids there are"
            )
        return rows[0]

    def unclaimed(self, rows: Rows) -> Rows:
        """Of these rows, those whose text is here though nobody who counts gave it."""
        with_text = np.array([row for row in np.unique(rows).tolist() if self.has_content(row)], np.int64)
        held = self.own.columns.views(max(self.length, self.own.columns.length)).held
        foreign = with_text[held[with_text] == 0]
        found: Rows = foreign[~standing(self.sync.providers, foreign, self.sync.lens()).visible]
        return found

    def knows(self, row: int) -> bool:
        """Whether a block can be spoken of: it has content here and somebody who counts stands behind it."""
        return (
            self.has_content(row)
            and row < len(self.effective.rows.visible)
            and bool(self.effective.rows.visible[row])
        )

    def block_hex(self, row: int) -> str:
        """The block's id as people see it."""
        return self.sync.index.id(row).hex()
