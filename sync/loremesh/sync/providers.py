"""Providers: which source gave the content of a block, and when (DESIGN §3 "Score", §4 "Forgetting")."""

from collections.abc import Collection, Mapping

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
        self._slots = RowSlots()  # tag: source
        self._hour: Floats = np.zeros(FIRST_CAPACITY, np.float64)

    def __len__(self) -> int:
        return len(self._slots)

    def add(self, rows: Ints, source: int, hour: float) -> int:
        """Note that `source` gave the content of these distinct rows; returns how many that is news for.

        Content that comes again keeps its first hour: repeating oneself refreshes nothing.
        """
        sources = np.full(len(rows), source, np.int64)
        fresh = self._slots.find(rows, sources) < 0
        count = int(np.count_nonzero(fresh))
        if count:
            self._insert(rows[fresh], sources[fresh], np.full(count, hour))
        return count

    def of(self, row: int) -> dict[int, float]:
        """Source number → hour, for one row."""
        held = self.held(self.select(np.array([row], np.int64)))
        return dict(zip(held.source.tolist(), held.hour.tolist(), strict=True))

    def count(self, sources: Collection[int]) -> int:
        """How many blocks' content came from any of these sources."""
        return len(self.rows(sources))

    def rows(self, sources: Collection[int]) -> Ints:
        """The rows, ascending, whose content came from any of these sources."""
        held = self.held(self._slots.live())
        return np.unique(held.row[np.isin(held.source, list(sources))]).astype(np.int64)

    def select(self, rows: Ints) -> Ints:
        """The slots of these distinct rows, in no particular order."""
        return self._slots.select(rows)

    def held(self, slots: Ints) -> Provided:
        source = self._slots.tag[slots].astype(np.int32)
        return Provided(source=source, row=self._slots.row[slots], hour=self._hour[slots])

    def drop(self, row: int) -> None:
        """Forget who gave a row."""
        self._slots.drop(row)

    def export(self) -> dict[str, NDArray[np.generic]]:
        """Everything, for the checkpoint, sorted by (row, source)."""
        held = self.held(self._slots.live())
        order = np.lexsort((held.source, held.row))
        return {name: column[order] for name, column in msgspec.structs.asdict(held).items()}

    @classmethod
    def load(cls, exported: Mapping[str, NDArray[np.generic]]) -> "Providers":
        """What `export` gave, again. Raises KeyError or ValueError when it does not hang together."""
        rows = np.asarray(exported["row"], np.int64)
        sources, hours = np.asarray(exported["source"], np.int64), np.asarray(exported["hour"], np.float64)
        if not len(rows) == len(sources) == len(hours):
            raise ValueError("exported provider columns differ in length")
        if len(rows) and min(rows.min(), sources.min()) < 0:
            raise ValueError("an exported provider names a row or a source that cannot be")
        if not ((rows[1:] > rows[:-1]) | ((rows[1:] == rows[:-1]) & (sources[1:] > sources[:-1]))).all():
            raise ValueError("exported providers are not in order, or one is there twice")
        providers = cls()
        providers._insert(rows, sources, hours)
        return providers

    def _insert(self, rows: Ints, sources: Ints, hours: Floats) -> None:
        used = self._slots.used
        slots = self._slots.allocate(rows, sources)
        self._hour = grown(self._hour, used, self._slots.used)
        self._hour[slots] = hours
