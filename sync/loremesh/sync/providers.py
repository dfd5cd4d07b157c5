"""Providers: which source gave the content of a block, and when (DESIGN §3 "Score", §4 "Forgetting")."""

from collections.abc import Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.sync.slots import FIRST_CAPACITY, Floats, Ints, RowSlots, Smalls, grown


class Provided(msgspec.Struct, frozen=True, eq=False):
    """Who gave which content, column by column: source number, row, active hour of the first arrival."""

    source: Smalls
    row: Smalls
    hour: Floats


class Providers:
    """(row, source) → the active hour at which that source first gave the row's content."""

    def __init__(self) -> None:
        self._slots = RowSlots()
        self._known: set[int] = set()  # row << 32 | source
        self._source: Smalls = np.zeros(FIRST_CAPACITY, np.int32)
        self._hour: Floats = np.zeros(FIRST_CAPACITY, np.float64)

    def __len__(self) -> int:
        return len(self._slots)

    def add(self, rows: Ints, source: int, hour: float) -> int:
        """Note that `source` gave the content of these distinct rows; returns how many that is news for.

        Content that comes again keeps its first hour: repeating oneself refreshes nothing.
        """
        keys = (rows << 32 | source).tolist()
        fresh = np.array([key not in self._known for key in keys], np.bool_)
        if not fresh.any():
            return 0
        self._insert(
            rows[fresh], np.full(int(fresh.sum()), source, np.int32), np.full(int(fresh.sum()), hour)
        )
        return int(fresh.sum())

    def of(self, row: int) -> dict[int, float]:
        """Source number → hour, for one row."""
        held = self.held(self.select(np.array([row], np.int64)))
        return dict(zip(held.source.tolist(), held.hour.tolist(), strict=True))

    def select(self, rows: Ints) -> Ints:
        """The slots of these distinct rows, in no particular order."""
        return self._slots.select(rows)

    def held(self, slots: Ints) -> Provided:
        return Provided(source=self._source[slots], row=self._slots.row[slots], hour=self._hour[slots])

    def drop(self, row: int) -> None:
        """Forget who gave a row."""
        slots = self._slots.drop(row)
        self._known.difference_update(row << 32 | source for source in self._source[slots].tolist())

    def export(self) -> dict[str, NDArray[np.generic]]:
        """Everything, for the checkpoint, sorted by (row, source)."""
        held = self.held(self._slots.live())
        order = np.lexsort((held.source, held.row))
        return {name: column[order] for name, column in msgspec.structs.asdict(held).items()}

    @classmethod
    def load(cls, exported: Mapping[str, NDArray[np.generic]]) -> "Providers":
        """What `export` gave, again. Raises KeyError or ValueError when it does not hang together."""
        rows = np.asarray(exported["row"], np.int64)
        sources, hours = np.asarray(exported["source"], np.int32), np.asarray(exported["hour"], np.float64)
        if not len(rows) == len(sources) == len(hours):
            raise ValueError("exported provider columns differ in length")
        providers = cls()
        providers._insert(rows, sources, hours)
        if len(providers._known) != len(rows) or (len(rows) and min(rows.min(), sources.min()) < 0):
            raise ValueError("an exported provider is there twice, or names a row or source that cannot be")
        return providers

    def _insert(self, rows: Ints, sources: Smalls, hours: Floats) -> None:
        used = self._slots.used
        slots = self._slots.allocate(rows)
        self._source = grown(self._source, used, self._slots.used)
        self._hour = grown(self._hour, used, self._slots.used)
        self._source[slots], self._hour[slots] = sources, hours
        self._known.update((rows << 32 | sources).tolist())
