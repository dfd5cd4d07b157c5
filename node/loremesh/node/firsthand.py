"""First-hand evidence: this node's own registers, per (incarnation, block, context) (DESIGN §1, register).

The fold adds to a register once per outcome. The registers' table takes batches, so the current incarnation
is counted in growable arrays, and what changed is settled into the table when somebody looks.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from loremesh.node import arrays
from loremesh.sync.registers import NO_FRAME, Batch, Registers, Source
from loremesh.sync.rows import CONTEXT_BITS

MAX_CONTEXTS_PER_BLOCK: Final = 64
"""DESIGN §1, context: at most 64 per block and origin."""


class Stated(NamedTuple):
    """One register in full: whose, in which context (index), and its values; `hour` is its stamp."""

    incarnation: bytes
    context: int
    alpha_fx: int
    beta_fx: int
    stability_h: float
    version: int
    hour: float


OWN_SPACE: Final = b""
"""The space of a source that is this node's own count, not what a frame stated."""


class FirstHand:
    """Own registers of every incarnation; the last one counts on.

    `origin`: this node's public key[32]. `incarnation`: id[16], b"" before the first. `version`: the
    incarnation's evidence counter.
    """

    __slots__ = (
        "_alpha",
        "_beta",
        "_changed",
        "_context",
        "_contexts_of",
        "_hour",
        "_registers",
        "_row",
        "_slot_of",
        "_stability_h",
        "_version",
        "incarnation",
        "origin",
        "version",
    )

    def __init__(self, origin: bytes) -> None:
        self.origin = origin
        self.incarnation = b""
        self.version = 0
        self._registers = Registers()
        self._slot_of: dict[int, int] = {}  # row << CONTEXT_BITS | context, of any incarnation
        self._contexts_of: dict[int, int] = {}  # row → how many contexts
        self._changed: set[int] = set()
        self._row = array("q")
        self._context = array("q")
        self._alpha = array("q")
        self._beta = array("q")
        self._stability_h = array("d")
        self._version = array("q")
        self._hour = array("d")

    def begin(self, incarnation: bytes) -> None:
        """Count from zero under a fresh incarnation id. Raises ValueError for one that is not fresh."""
        source = Source(self.origin, incarnation, OWN_SPACE)
        if self._registers.find(source) is not None:
            raise ValueError(f"incarnation {incarnation.hex()} is not new")
        self._settle()
        self._registers.source(source)
        self.incarnation = incarnation
        self.version = 0
        zeros = bytes(8 * len(self._row))
        self._alpha = array("q", zeros)
        self._beta = array("q", zeros)
        self._stability_h = array("d", zeros)
        self._version = array("q", zeros)
        self._hour = array("d", zeros)

    def mass_fx(self, row: int, context: int) -> int:
        """α + β of the current incarnation's register, 0 when there is none."""
        slot = self._slot_of.get(row << CONTEXT_BITS | context)
        return 0 if slot is None else self._alpha[slot] + self._beta[slot]

    def has_room(self, row: int, context: int | None) -> bool:
        """Whether the block may have evidence in this context (None: one nobody has used yet)."""
        if context is not None and row << CONTEXT_BITS | context in self._slot_of:
            return True
        return self._contexts_of.get(row, 0) < MAX_CONTEXTS_PER_BLOCK

    def add(
        self,
        row: int,
        context: int,
        alpha_fx: int,
        beta_fx: int,
        stability_h: float,
        version: int,
        hour: float,
    ) -> None:
        """Add one outcome's evidence to the register; `version` is the counter after it.

        The caller has checked room, mass (at most MAX_FX together) and that the counter grows.
        """
        key = row << CONTEXT_BITS | context
        slot = self._slot_of.get(key)
        if slot is None:
            slot = self._place(key)
        self._alpha[slot] += alpha_fx
        self._beta[slot] += beta_fx
        self._stability_h[slot] = stability_h
        self._version[slot] = version
        self._hour[slot] = hour
        self._changed.add(slot)
        self.version = version

    def restate(self, row: int, stated: Sequence[Stated]) -> None:
        """The registers of a block are these and no others. Raises ValueError for an unknown incarnation."""
        for one in stated:
            if self._registers.find(Source(self.origin, one.incarnation, OWN_SPACE)) is None:
                raise ValueError(f"incarnation {one.incarnation.hex()} never began")
        if row in self._contexts_of:
            self.drop(row)
        for one in stated:
            key = row << CONTEXT_BITS | one.context
            slot = self._slot_of.get(key)
            if slot is None:
                slot = self._place(key)
            if one.incarnation == self.incarnation:
                self._alpha[slot], self._beta[slot] = one.alpha_fx, one.beta_fx
                self._stability_h[slot], self._version[slot] = one.stability_h, one.version
                self._hour[slot] = one.hour
                self._changed.add(slot)
                self.version = max(self.version, one.version)
                continue
            batch = Batch(
                rows=np.array([row], np.int64),
                contexts=np.array([one.context], np.int32),
                alpha=np.array([one.alpha_fx], np.int64),
                beta=np.array([one.beta_fx], np.int64),
                stability_h=np.array([one.stability_h], np.float64),
                version=np.array([one.version], np.int64),
            )
            source = Source(self.origin, one.incarnation, OWN_SPACE)
            self._registers.apply(source, batch, NO_FRAME, one.hour, np.array([one.hour], np.float64))

    def of(self, row: int) -> list[Stated]:
        """The registers of a block, by incarnation id and context."""
        registers = self.settled()
        held = registers.held(registers.select(np.array([row], np.int64)))
        columns = (held.source, held.context, held.alpha, held.beta, held.stability_h, held.version)
        return sorted(
            Stated(registers.sources[source].incarnation, *rest)
            for source, *rest in zip(*(column.tolist() for column in (*columns, held.stamp_h)), strict=True)
        )

    def _place(self, key: int) -> int:
        slot = self._slot_of[key] = len(self._row)
        row = key >> CONTEXT_BITS
        self._contexts_of[row] = self._contexts_of.get(row, 0) + 1
        self._row.append(row)
        self._context.append(key & ((1 << CONTEXT_BITS) - 1))
        self._alpha.append(0)
        self._beta.append(0)
        self._stability_h.append(0.0)
        self._version.append(0)
        self._hour.append(0.0)
        return slot

    def settled(self) -> Registers:
        """The table of own registers with everything counted so far; its sources have the space b"".

        A register's stamp is the hour of its last evidence. Do not write to the table.
        """
        self._settle()
        return self._registers

    def _settle(self) -> None:
        if not self._changed:
            return
        slots = np.fromiter(self._changed, np.int64, len(self._changed))
        slots.sort()
        length = len(self._row)
        batch = Batch(
            rows=arrays.view(self._row, np.int64, length)[slots],
            contexts=arrays.view(self._context, np.int64, length)[slots].astype(np.int32),
            alpha=arrays.view(self._alpha, np.int64, length)[slots],
            beta=arrays.view(self._beta, np.int64, length)[slots],
            stability_h=arrays.view(self._stability_h, np.float64, length)[slots],
            version=arrays.view(self._version, np.int64, length)[slots],
        )
        hours = arrays.view(self._hour, np.float64, length)[slots]
        source = Source(self.origin, self.incarnation, OWN_SPACE)
        self._registers.apply(source, batch, NO_FRAME, float(hours.max()), hours)
        self._changed.clear()

    def drop(self, row: int) -> None:
        """Forget every register of a block. The counter stands: versions are never given twice."""
        self._settle()
        slots = self._registers.select(np.array([row], np.int64))
        for context in np.unique(self._registers.held(slots).context).tolist():
            del self._slot_of[row << CONTEXT_BITS | context]  # the slot is not used again until the next load
        self._contexts_of.pop(row, None)
        self._registers.drop(row)

    @classmethod
    def load(cls, origin: bytes, registers: Registers, incarnation: bytes, version: int) -> FirstHand:
        """Count on from a loaded table. Raises ValueError when the table lacks the incarnation."""
        firsthand = cls(origin)
        firsthand._registers = registers
        firsthand.incarnation = incarnation
        firsthand.version = version
        current = registers.find(Source(origin, incarnation, OWN_SPACE))
        if current is None and (incarnation or len(registers)):
            raise ValueError(f"own registers know no incarnation {incarnation.hex()}")
        held = registers.held(registers.live())
        keys = held.row.astype(np.int64) << CONTEXT_BITS | held.context
        slots, of_key = np.unique(keys, return_inverse=True)
        firsthand._slot_of = dict(zip(slots.tolist(), range(len(slots)), strict=True))
        rows, contexts = np.unique(slots >> CONTEXT_BITS, return_counts=True)
        firsthand._contexts_of = dict(zip(rows.tolist(), contexts.tolist(), strict=True))
        firsthand._row = array("q", (slots >> CONTEXT_BITS).tobytes())
        firsthand._context = array("q", (slots & ((1 << CONTEXT_BITS) - 1)).tobytes())
        mine = held.source == (-1 if current is None else current)

        def counted(values: NDArray[np.int64] | NDArray[np.float64]) -> bytes:
            column = np.zeros(len(slots), values.dtype)
            column[of_key[mine]] = values[mine]
            return column.tobytes()

        firsthand._alpha = array("q", counted(held.alpha))
        firsthand._beta = array("q", counted(held.beta))
        firsthand._stability_h = array("d", counted(held.stability_h))
        firsthand._version = array("q", counted(held.version))
        firsthand._hour = array("d", counted(held.stamp_h))
        return firsthand
