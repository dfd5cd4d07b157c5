"""Effective state: own state combined with peers' registers under today's trust (DESIGN §1, §4).

A pure function of the own columns, the register columns and the lens, kept as columns so that recall need
not work it out anew. `refresh` recomputes the rows that changed, or all of them when trust did; what it
leaves is what a fresh computation of everything gives, to the bit.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.node.overlap import revoked_sources, set_aside
from loremesh.node.ownstate import OwnState
from loremesh.node.rules import START_STABILITY_H
from loremesh.node.score import ContextEvidence
from loremesh.sync.combine import effective, effective_t_last, shares
from loremesh.sync.registers import Held
from loremesh.sync.rows import CONTEXT_BITS
from loremesh.sync.spacestate import SyncState
from loremesh.sync.trust import NOBODY, Lens

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

MAX_CONTEXT_VIEWS: Final = 16
"""Contexts whose evidence is kept at hand; each costs 24 bytes per block with evidence in it. Another one
asked for puts out the one asked for longest ago."""

REFRESH_ROWS: Final = 65_536
"""Rows combined at a time, so that a full refresh needs tens of megabytes at most, not hundreds."""


class EffectiveRows(msgspec.Struct, frozen=True, eq=False):
    """Effective columns over all rows, [n] each; α and β in fixed point, S in hours, t_last in active hours.

    `visible`: the block has content and somebody who counts stands behind it. `sole_principal`: index of the
    one foreign principal it is known from, NOBODY for a block held here or known from several.
    """

    alpha: Ints
    beta: Ints
    stability_h: NDArray[np.float64]
    t_last_h: NDArray[np.float64]
    visible: Flags
    sole_principal: NDArray[np.int32]


class Effective:
    """The effective columns of one node, and which rows of them are out of date."""

    def __init__(self, own: OwnState, sync: SyncState) -> None:
        self._own = own
        self._sync = sync
        self._dirty: Flags = np.zeros(0, np.bool_)
        self._lens: Lens | None = None
        self._revoked: frozenset[int] = frozenset()
        self._rows = _empty(0)
        self._views: dict[int, ContextEvidence] = {}

    def mark(self, rows: Ints) -> None:
        """These rows changed: the next refresh recomputes them."""
        if len(rows):
            self._reach(int(rows.max()) + 1)
            self._dirty[rows] = True

    def mark_row(self, row: int) -> None:
        """This row changed."""
        self._reach(row + 1)
        self._dirty[row] = True

    def _reach(self, length: int) -> None:
        if length > len(self._dirty):
            longer = np.zeros(max(length, 2 * len(self._dirty)), np.bool_)
            longer[: len(self._dirty)] = self._dirty
            self._dirty = longer

    def follow(self, own: OwnState) -> None:
        """Own state is another fold from here on: the next refresh recomputes everything."""
        self._own = own
        self._lens = None

    def refresh(self) -> Ints:
        """Bring everything up to date; returns the rows whose visibility changed, ascending."""
        length = max(len(self._sync.index), self._own.columns.length)
        before = self._rows.visible
        lens = self._sync.lens()
        if length > len(before):
            self._rows = _grown(self._rows, length)
        everything = lens is not self._lens and (self._lens is None or not _same(lens, self._lens))
        revoked = revoked_sources(self._own.imported, self._sync)
        everything = everything or revoked != self._revoked
        self._revoked = revoked
        if everything:
            self._views.clear()
            rows = np.arange(length, dtype=np.int64)
        else:
            rows = np.flatnonzero(self._dirty)
        self._lens = lens
        was = self._rows.visible[rows].copy()
        for start in range(0, len(rows), REFRESH_ROWS):
            self._recompute(rows[start : start + REFRESH_ROWS], lens)
        if len(rows):
            for context in list(self._views):
                self._views[context] = self._updated(self._views[context], rows, context, lens)
        self._dirty[:] = False
        changed: Ints = rows[was != self._rows.visible[rows]]
        return changed

    @property
    def rows(self) -> EffectiveRows:
        """The columns, as of the last refresh. Read only."""
        return self._rows

    def context(self, context: int) -> ContextEvidence:
        """Effective evidence in one context (its index) of every block that has any, as of the refresh."""
        view = self._views.pop(context, None)
        if view is None:
            lens = self._sync.lens()
            rows = self._rows_with(context)
            view = self._evidence(rows, context, lens)
            while len(self._views) >= MAX_CONTEXT_VIEWS:
                del self._views[next(iter(self._views))]
        self._views[context] = view
        return view

    def _recompute(self, rows: Ints, lens: Lens) -> None:
        # Not as long as these columns, which have room to spare: asking makes own columns that long.
        own = self._own.columns.views(int(rows[-1]) + 1 if len(rows) else 0)
        theirs = effective(self._sync.registers, self._sync.providers, rows, lens)
        self_a, self_b = self._own.first_hand(rows)
        alpha = own.prior_a[rows] + own.rated_a[rows] + own.imported_a[rows] + self_a
        beta = own.prior_b[rows] + own.rated_b[rows] + own.imported_b[rows] + self_b
        self._leave_out_what_came_twice(rows, alpha, beta)
        held = own.held[rows] > 0
        stability = np.maximum(own.stability_h[rows], theirs.freshness.stability_h)
        # Content that nobody has stated evidence of starts where a block learned here would.
        stability[stability == 0.0] = START_STABILITY_H
        touched = own.stability_h[rows] > 0.0
        t_last = effective_t_last(
            np.where(touched, own.t_last_h[rows], -np.inf), theirs.freshness, theirs.standing
        )
        target = self._rows
        target.alpha[rows] = alpha + theirs.alpha
        target.beta[rows] = beta + theirs.beta
        target.stability_h[rows] = stability
        target.t_last_h[rows] = t_last
        target.visible[rows] = held | theirs.standing.visible
        target.sole_principal[rows] = np.where(held, NOBODY, theirs.standing.sole_principal)

    def _leave_out_what_came_twice(self, rows: Ints, alpha: Ints, beta: Ints) -> None:
        """Take what files say off `alpha` and `beta` where the peer itself says it, or is revoked."""
        files = self._own.imported
        for row, source, context in set_aside(files, self._sync, rows):
            at = int(np.searchsorted(rows, row))
            a, b = files.evidence[row][source << CONTEXT_BITS | context]
            alpha[at] -= a
            beta[at] -= b

    def _rows_with(self, context: int) -> Ints:
        found = [_rows_in(self._own.registers.held(self._own.registers.live()), context)]
        found.append(_rows_in(self._sync.registers.held(self._sync.registers.live()), context))
        found.append(self._own.imported.rows_in(context))
        return np.unique(np.concatenate(found))

    def _evidence(self, rows: Ints, context: int, lens: Lens) -> ContextEvidence:
        mine, my_alpha, my_beta = self._own.first_hand_in(rows, context)
        theirs = shares(self._sync.registers, rows, lens)
        there = theirs.context == context
        files = self._own.imported
        aside = set_aside(files, self._sync, rows)
        filed, filed_alpha, filed_beta = files.in_context(rows, context, aside)
        of = np.concatenate([mine, theirs.row[there], filed])
        distinct, at = np.unique(of, return_inverse=True)
        alpha, beta = np.zeros(len(distinct), np.int64), np.zeros(len(distinct), np.int64)
        np.add.at(alpha, at, np.concatenate([my_alpha, theirs.alpha[there], filed_alpha]))
        np.add.at(beta, at, np.concatenate([my_beta, theirs.beta[there], filed_beta]))
        return ContextEvidence(distinct, alpha, beta)

    def _updated(self, view: ContextEvidence, rows: Ints, context: int, lens: Lens) -> ContextEvidence:
        fresh = self._evidence(rows, context, lens)
        kept = ~np.isin(view.rows, rows)
        merged = np.concatenate([view.rows[kept], fresh.rows])
        order = np.argsort(merged, kind="stable")
        return ContextEvidence(
            merged[order],
            np.concatenate([view.alpha[kept], fresh.alpha])[order],
            np.concatenate([view.beta[kept], fresh.beta])[order],
        )


def _rows_in(held: Held, context: int) -> Ints:
    return np.unique(held.row[held.context == context].astype(np.int64))


def _same(new: Lens, old: Lens) -> bool:
    """Whether every source of the old lens counts as before, so that only changed rows need a new look."""
    sources, contexts = len(old.tau_fx), len(old.multiplier_fx)
    return (
        new.peers == old.peers
        and new.principals == old.principals
        and new.echoes == old.echoes
        and new.uneven == old.uneven
        and bool((new.tau_fx[:sources] == old.tau_fx).all())
        and bool((new.cap_fx[:sources] == old.cap_fx).all())
        and bool((new.principal == old.principal).all())
        and bool((new.multiplier_fx[:contexts] == old.multiplier_fx).all())
    )


def _empty(length: int) -> EffectiveRows:
    return EffectiveRows(
        alpha=np.zeros(length, np.int64),
        beta=np.zeros(length, np.int64),
        stability_h=np.full(length, START_STABILITY_H),
        t_last_h=np.full(length, -np.inf),
        visible=np.zeros(length, np.bool_),
        sole_principal=np.full(length, NOBODY, np.int32),
    )


def _grown(rows: EffectiveRows, length: int) -> EffectiveRows:
    """The columns with room for at least `length` rows; new ones hold the defaults."""
    grown = _empty(length + length // 4 + 64)
    used = len(rows.alpha)
    for name in EffectiveRows.__struct_fields__:
        getattr(grown, name)[:used] = getattr(rows, name)
    return grown
