"""What rule sets remember besides the columns of own state: per block, and per block and context.

Most sets remember nothing, and then nothing is kept. Both tables are a fold of own events like the columns:
laid down in the checkpoint, compared by `replay --check`, and gone for a block that is forgotten.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from loremesh.node import arrays
from loremesh.node.rules import Past, Pasts
from loremesh.node.utility import Utility
from loremesh.sync.rows import CONTEXT_BITS

Ints = NDArray[np.int64]
Named = tuple[tuple[str, float], ...]
"""Names of numbers, with the values they start at."""

CONTEXT_MASK = (1 << CONTEXT_BITS) - 1


class History:
    """The `history` of a forgetting model by row: a float64 column per name."""

    __slots__ = ("_columns", "_named")

    def __init__(self, named: Named) -> None:
        self._named = named
        self._columns = [array("d") for _ in named]

    def past(self, row: int) -> Past:
        """What is remembered of the block in `row`; put it back with `keep`."""
        if self._columns and row >= len(self._columns[0]):
            self._ensure(row + 1)
        return [column[row] for column in self._columns]

    def keep(self, row: int, past: Past) -> None:
        """Remember this of the block in `row`, which `past` was asked for."""
        for column, value in zip(self._columns, past, strict=True):
            column[row] = value

    def clear(self, row: int) -> None:
        """Forget the block in `row`."""
        for column, (_, start) in zip(self._columns, self._named, strict=True):
            if row < len(column):
                column[row] = start

    def pasts(self, hour: float, length: int) -> Pasts | None:
        """What is remembered of rows 0 … length-1, for `hour`; None when the set remembers nothing."""
        if not self._named:
            return None
        self._ensure(length)
        return Pasts(hour, tuple(arrays.view(column, np.float64, length) for column in self._columns))

    def _ensure(self, length: int) -> None:
        if self._columns and length > len(self._columns[0]):
            capacity = arrays.capacity_for(length, len(self._columns[0]))
            self._columns = [
                arrays.grown(column, start, capacity)
                for column, (_, start) in zip(self._columns, self._named, strict=True)
            ]

    def export(self, length: int) -> dict[str, NDArray[np.generic]]:
        """A copy of every column over rows 0 … length-1, by name."""
        pasts = self.pasts(0.0, length)
        columns = () if pasts is None else pasts.columns
        return {name: column.copy() for (name, _), column in zip(self._named, columns, strict=True)}

    @classmethod
    def load(cls, named: Named, exported: Mapping[str, object]) -> History:
        """What `export` gave, again. Raises ValueError naming a column that is missing or of another form."""
        history = cls(named)
        length = None
        loaded = []
        for name, _ in named:
            column = _floats(exported, name)
            if length not in (None, len(column)):
                raise ValueError(f"{name} has another length than the rest of what the rules remember")
            length = len(column)
            loaded.append(array("d", column.tobytes()))
        history._columns = loaded
        return history


class Tally:
    """What a utility model remembers of each block in each context, and what it all comes to by block.

    `alpha_fx` and `beta_fx` by row are the sums over contexts of what the model reads: kept as integers, so
    that they are exact whatever came in which order.
    """

    __slots__ = ("_alpha", "_beta", "_columns", "_free", "_key", "_model", "_slot_of")

    def __init__(self, model: Utility) -> None:
        self._model = model
        self._slot_of: dict[int, int] = {}  # row << CONTEXT_BITS | context
        self._free: list[int] = []
        self._key = array("q")
        self._columns = [array("d") for _ in model.memory]
        self._alpha = array("q")
        self._beta = array("q")

    def add(self, row: int, context: int, alpha_fx: int, beta_fx: int) -> None:
        """One outcome of the block in that context."""
        slot = self._slot(row << CONTEXT_BITS | context)
        memo = [column[slot] for column in self._columns]
        was = self._model.read(memo)
        self._model.learn(memo, alpha_fx, beta_fx)
        for column, value in zip(self._columns, memo, strict=True):
            column[slot] = value
        now = self._model.read(memo)
        self._ensure(row + 1)
        self._alpha[row] += now[0] - was[0]
        self._beta[row] += now[1] - was[1]

    def memo(self, row: int, context: int) -> list[float]:
        """What is remembered of the block in that context; what remembering starts with where nothing is."""
        slot = self._slot_of.get(row << CONTEXT_BITS | context)
        if slot is None:
            return [start for _, start in self._model.memory]
        return [column[slot] for column in self._columns]

    def put(self, row: int, context: int, memo: Sequence[float]) -> None:
        """Remember this of the block in that context, whatever was remembered before."""
        slot = self._slot(row << CONTEXT_BITS | context)
        was = self._model.read([column[slot] for column in self._columns])
        for column, value in zip(self._columns, memo, strict=True):
            column[slot] = value
        now = self._model.read(list(memo))
        self._ensure(row + 1)
        self._alpha[row] += now[0] - was[0]
        self._beta[row] += now[1] - was[1]

    def restart(self, row: int, context: int, alpha_fx: int, beta_fx: int) -> None:
        """Remember no more of the block in that context than one outcome of that evidence would leave."""
        memo = [start for _, start in self._model.memory]
        self._model.learn(memo, alpha_fx, beta_fx)
        self.put(row, context, memo)

    def drop(self, row: int) -> None:
        """Forget the block in every context."""
        for key in [key for key in self._slot_of if key >> CONTEXT_BITS == row]:
            self._free.append(self._slot_of.pop(key))
        if row < len(self._alpha):
            self._alpha[row] = self._beta[row] = 0

    def totals(self, length: int) -> tuple[Ints, Ints]:
        """α and β of rows 0 … length-1 in fixed point, int64[length] each, read-only."""
        self._ensure(length)
        return arrays.view(self._alpha, np.int64, length), arrays.view(self._beta, np.int64, length)

    def of_context(self, keys: Ints) -> tuple[Ints, Ints]:
        """α and β (fixed point) of blocks in contexts, `keys` = row << CONTEXT_BITS | context, 0 for none."""
        found = [(0, 0)] * len(keys)
        for place, key in enumerate(keys.tolist()):
            slot = self._slot_of.get(key)
            if slot is not None:
                found[place] = self._model.read([column[slot] for column in self._columns])
        both = np.array(found, np.int64).reshape(-1, 2)
        return both[:, 0].copy(), both[:, 1].copy()

    def _slot(self, key: int) -> int:
        slot = self._slot_of.get(key)
        if slot is not None:
            return slot
        if self._free:
            slot = self._free.pop()
            self._key[slot] = key
            for column, (_, start) in zip(self._columns, self._model.memory, strict=True):
                column[slot] = start
        else:
            slot = len(self._key)
            self._key.append(key)
            for column, (_, start) in zip(self._columns, self._model.memory, strict=True):
                column.append(start)
        self._slot_of[key] = slot
        return slot

    def _ensure(self, length: int) -> None:
        if length > len(self._alpha):
            capacity = arrays.capacity_for(length, len(self._alpha))
            self._alpha = arrays.grown(self._alpha, 0, capacity)
            self._beta = arrays.grown(self._beta, 0, capacity)

    def export(self) -> dict[str, NDArray[np.generic]]:
        """Everything remembered, by ascending row and context: `row`, `context`, and a column per name."""
        keys = np.array(sorted(self._slot_of), np.int64)
        slots = np.array([self._slot_of[key] for key in keys.tolist()], np.int64)
        length = len(self._key)
        exported: dict[str, NDArray[np.generic]] = {
            "row": keys >> CONTEXT_BITS,
            "context": keys & CONTEXT_MASK,
        }
        for (name, _), column in zip(self._model.memory, self._columns, strict=True):
            exported[name] = arrays.view(column, np.float64, length)[slots]
        return exported

    @classmethod
    def load(cls, model: Utility, exported: Mapping[str, object]) -> Tally:
        """What `export` gave, again. Raises ValueError naming a column that is missing or of another form."""
        tally = cls(model)
        rows, contexts = (_whole(exported, name) for name in ("row", "context"))
        columns = [_floats(exported, name) for name, _ in model.memory]
        if any(len(column) != len(rows) for column in (contexts, *columns)):
            raise ValueError("the columns of what the utility model remembers have different lengths")
        keys = (rows << CONTEXT_BITS | contexts).tolist()
        tally._slot_of = dict(zip(keys, range(len(keys)), strict=True))
        if len(tally._slot_of) != len(keys):
            raise ValueError("the utility model remembers a block twice in one context")
        tally._key = array("q", keys)
        tally._columns = [array("d", column.tobytes()) for column in columns]
        tally._ensure(int(rows.max(initial=-1)) + 1)
        for slot, row in enumerate(rows.tolist()):
            alpha_fx, beta_fx = model.read([column[slot] for column in tally._columns])
            tally._alpha[row] += alpha_fx
            tally._beta[row] += beta_fx
        return tally


def _floats(exported: Mapping[str, object], name: str) -> NDArray[np.float64]:
    column = exported.get(name)
    if not isinstance(column, np.ndarray) or column.ndim != 1 or column.dtype != np.float64:
        raise ValueError(f"what the rules remember as {name} is missing or of another form")
    return column


def _whole(exported: Mapping[str, object], name: str) -> Ints:
    column = exported.get(name)
    if not isinstance(column, np.ndarray) or column.ndim != 1 or column.dtype != np.int64:
        raise ValueError(f"what the utility model remembers as {name} is missing or of another form")
    return column
