"""Registers: everybody's first-hand evidence, as columns (DESIGN §1 "register", "row"; §4).

A register is kept once per source, and a source is one incarnation of one origin in one space. The columns
hold what was stated, whatever anybody is trusted with: trust is a lens over them (`trust`, `combine`).
"""

from collections.abc import Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.sync.digest import label_word, register_digest
from loremesh.sync.errors import InvalidInput
from loremesh.sync.fixed import MAX_FX, ONE
from loremesh.sync.rows import CONTEXT_BITS, MAX_CONTEXTS, MAX_ROWS, BlockIndex, Contexts
from loremesh.sync.slots import FIRST_CAPACITY, Flags, Floats, Ints, RowSlots, Smalls, grown, starts

COUNTED_CHANGE_FX = 1000 * ONE
"""The most a single register adds to the raw change of mass that limits count (DESIGN §4, "Limits")."""

HALF_UNIT_FX = ONE // 2
FRESH_MASS_FX = 128 * ONE
"""Freshness counts half units of raw mass up to here: more evidence than that says nothing new about "still
in use", and a peer that inflates a register can refresh it at most 256 times."""

NO_STAMP = -np.inf
"""The freshness stamp of a register that never reached half a unit of mass."""

NO_FRAME = 0
"""Log rows are numbered from 1: a register with this in its frame column was stated by no frame."""


MAX_VERSION = (1 << 63) - 1
"""Versions are int64 in the columns."""


class Source(msgspec.Struct, frozen=True, order=True):
    """Who states a register, and where: public key[32], incarnation id[16], space id[32] (b"" for own)."""

    origin: bytes
    incarnation: bytes
    space: bytes


class Batch(msgspec.Struct, frozen=True, eq=False):
    """Registers of one source, column by column; each (row, context) at most once.

    Masses are fixed-point, stability is in hours, the version is the incarnation's evidence counter.
    """

    rows: Ints
    contexts: Smalls
    alpha: Ints
    beta: Ints
    stability_h: Floats
    version: Ints


class Preview(msgspec.Struct, frozen=True, eq=False):
    """What `apply` would do, per register of the batch."""

    mass_change_fx: Ints
    """|Δα| + |Δβ|, at most `COUNTED_CHANGE_FX`; 0 where nothing would change."""
    new: Flags
    stale: Flags
    """No higher version than the one held: nothing would change."""
    conflicts: Flags
    """The version held, here or through another space, with other values: proof against its signer."""
    stamps: Floats
    """The freshness stamp afterwards, where nothing conflicts: known before the frame is stored with it."""
    slots: Ints
    """Where each register is, −1 for a new one: `apply` need not look again when nothing came between."""

    @property
    def raw_mass_change_fx(self) -> int:
        return int(self.mass_change_fx.sum())

    @property
    def new_registers(self) -> int:
        return int(np.count_nonzero(self.new))


class Change(msgspec.Struct, frozen=True, eq=False):
    """What `apply` did."""

    rows: Ints
    """The rows of which a register changed, ascending, each once."""
    stamps: Floats
    """Per register of the batch, its freshness stamp afterwards (active hours), for the frame's log row."""
    frames_dead: list[int]
    """Frames left without a live row, the applied one included when it brought none."""


class Held(msgspec.Struct, frozen=True, eq=False):
    """Registers by column, copied out of the table."""

    source: Smalls
    row: Smalls
    context: Smalls
    alpha: Ints
    beta: Ints
    stability_h: Floats
    version: Ints
    stamp_h: Floats
    frame: Ints


class Registers:
    """The register columns. Only `export` and `live` cost more than what they are given."""

    def __init__(self) -> None:
        self.sources: list[Source] = []
        self._source_of: dict[Source, int] = {}
        self._siblings: dict[
            tuple[bytes, bytes], list[int]
        ] = {}  # the sources of an incarnation, one a space
        self._live_rows: dict[int, int] = {}  # frame → its live rows
        self._slots = RowSlots()  # tag: source << CONTEXT_BITS | context
        self._counts: list[int] = []  # registers by source
        self._alpha: Ints = np.zeros(FIRST_CAPACITY, np.int64)
        self._beta: Ints = np.zeros(FIRST_CAPACITY, np.int64)
        self._stability: Floats = np.zeros(FIRST_CAPACITY, np.float64)
        self._version: Ints = np.zeros(FIRST_CAPACITY, np.int64)
        self._stamp: Floats = np.zeros(FIRST_CAPACITY, np.float64)
        self._frame: Ints = np.zeros(FIRST_CAPACITY, np.int64)

    def __len__(self) -> int:
        """Registers held."""
        return len(self._slots)

    def source(self, source: Source) -> int:
        """The source's number; a new one gets the next."""
        found = self._source_of.get(source)
        if found is None:
            found = self._source_of[source] = len(self.sources)
            self.sources.append(source)
            self._counts.append(0)
            self._siblings.setdefault((source.origin, source.incarnation), []).append(found)
        return found

    def find(self, source: Source) -> int | None:
        return self._source_of.get(source)

    def count(self, source: Source) -> int:
        """Registers held of one source."""
        found = self._source_of.get(source)
        return 0 if found is None else self._counts[found]

    def preview(self, source: Source, batch: Batch, hour: float = 0.0) -> Preview:
        """What `apply` would do with this batch at active hour `hour`; changes nothing.

        Unknown rows or contexts are -1.
        """
        known = self._source_of.get(source)
        conflicts = np.zeros(len(batch.rows), np.bool_)
        slots = np.full(len(batch.rows), -1, np.int64)
        for sibling in self._siblings.get((source.origin, source.incarnation), ()):
            theirs = self._slots.find(batch.rows, _tags(sibling, batch.contexts))
            if sibling == known:
                slots = theirs
            conflicts |= (
                (theirs >= 0) & (self._version[theirs] == batch.version) & ~self._equal(theirs, batch)
            )
        new = slots < 0
        stale = ~new & (self._version[slots] >= batch.version)
        alpha = np.where(new, 0, self._alpha[slots])
        beta = np.where(new, 0, self._beta[slots])
        change = np.minimum(np.abs(batch.alpha - alpha) + np.abs(batch.beta - beta), COUNTED_CHANGE_FX)
        change[stale] = 0
        held = np.where(new, NO_STAMP, self._stamp[slots])
        reached = ~stale & (half_units(batch.alpha + batch.beta) > half_units(alpha + beta))
        stamps = np.where(reached, hour, held)
        return Preview(
            mass_change_fx=change, new=new, stale=stale, conflicts=conflicts, stamps=stamps, slots=slots
        )

    def apply(
        self,
        source: Source,
        batch: Batch,
        frame: int,
        hour: float,
        stamps: Floats | None = None,
        slots: Ints | None = None,
    ) -> Change:
        """Keep what is newer than what is held.

        `frame` is the number of the log row that states the batch (NO_FRAME for none), `hour` the active hour
        now; `stamps` are the stamps kept with that row when it is replayed, and are taken as they are.
        `slots` are those of a `preview` of the same batch since which nothing has changed.
        Registers are ordered by (version, α, β, S), so that even a signer who gives one version two values
        leaves the same columns whatever came first. An equal statement moves the register to the later frame
        (a snapshot states again what it replaces) and changes nothing else.

        Raises InvalidInput or ValueError for a batch the wire should have refused; nothing changed then.
        """
        _check(batch)
        slots = self._ensure(self.source(source), batch, slots)
        alpha, beta, version = self._alpha[slots], self._beta[slots], self._version[slots]
        stability, before = self._stability[slots], alpha + beta
        better = (batch.version > version) | (
            (batch.version == version)
            & (
                (batch.alpha > alpha)
                | ((batch.alpha == alpha) & (batch.beta > beta))
                | ((batch.alpha == alpha) & (batch.beta == beta) & (batch.stability_h > stability))
            )
        )
        changed = slots[better]
        after = batch.alpha + batch.beta
        reached = half_units(after) > half_units(before)
        stamp = np.where(reached, hour, self._stamp[slots]) if stamps is None else stamps
        self._stamp[changed] = stamp[better]
        self._alpha[changed] = batch.alpha[better]
        self._beta[changed] = batch.beta[better]
        self._stability[changed] = batch.stability_h[better]
        self._version[changed] = batch.version[better]
        restated = (
            ~better & self._equal(slots, batch) & (batch.version == version) & (self._frame[slots] < frame)
        )
        return Change(
            rows=_distinct(batch.rows[better]),
            stamps=self._stamp[slots],
            frames_dead=self._restate(slots[better | restated], frame),
        )

    def live_count(self, frame: int) -> int:
        """Live rows of one frame."""
        return self._live_rows.get(frame, 0)

    def live(self, source: Source | None = None) -> Ints:
        """The slots in use, of one source or of all."""
        if source is None:
            return self._slots.live()
        found = self._source_of.get(source)
        if found is None:
            return np.empty(0, np.int64)
        slots = self._slots.live()
        theirs: Ints = slots[self.source_at(slots) == found]
        return theirs

    def select(self, rows: Ints) -> Ints:
        """The slots of these distinct rows, of every source and context, in no particular order."""
        return self._slots.select(rows)

    def held(self, slots: Ints) -> Held:
        """The registers at these slots."""
        return Held(
            source=self.source_at(slots),
            row=self._slots.row[slots],
            context=(self._slots.tag[slots] & (MAX_CONTEXTS - 1)).astype(np.int32),
            alpha=self._alpha[slots],
            beta=self._beta[slots],
            stability_h=self._stability[slots],
            version=self._version[slots],
            stamp_h=self._stamp[slots],
            frame=self._frame[slots],
        )

    def source_at(self, slots: Ints) -> Smalls:
        """Their source numbers."""
        return (self._slots.tag[slots] >> CONTEXT_BITS).astype(np.int32)

    def live_digest(self, slots: Ints, index: BlockIndex, contexts: Contexts) -> bytes:
        """The order-free digest (`digest.register_digest`) of the registers at these slots, 16 bytes."""
        held = self.held(slots)
        words = np.array([label_word(label) for label in contexts.labels()], np.uint64)
        incarnations = [source.incarnation for source in self.sources]
        return register_digest(
            index.ids(held.row.tolist()),
            words[held.context],
            [incarnations[i] for i in held.source.tolist()],
            held.version,
            held.alpha,
            held.beta,
            held.stability_h,
        )

    def drop(self, row: int) -> list[int]:
        """Forget every register of a row; returns the frames that have no live row left."""
        slots = self._slots.drop(row)
        for source in self.source_at(slots).tolist():
            self._counts[source] -= 1
        dead = self._restate(slots, NO_FRAME)
        return dead

    def export(self) -> dict[str, NDArray[np.generic] | bytes]:
        """Everything, for the checkpoint: columns sorted by (source, row, context), sources as msgpack."""
        slots = self.live()
        held = self.held(slots)
        order = np.lexsort((held.context, held.row, held.source))
        columns = {name: column[order] for name, column in msgspec.structs.asdict(held).items()}
        return {"sources": msgspec.msgpack.encode(self.sources), **columns}

    @classmethod
    def load(cls, exported: Mapping[str, NDArray[np.generic] | bytes]) -> "Registers":
        """What `export` gave, again. Raises KeyError or ValueError when it does not hang together."""
        registers = cls()
        for source in msgspec.msgpack.decode(bytes(exported["sources"]), type=list[Source]):
            registers.source(source)
        held = Held(**{name: np.asarray(exported[name], dtype) for name, dtype in _DTYPES.items()})
        rows, of = held.row.astype(np.int64), held.source.astype(np.int64)
        if len({len(column) for column in msgspec.structs.astuple(held)}) > 1:
            raise ValueError("exported register columns differ in length")
        if len(of) and not (of[0] >= 0 and of[-1] < len(registers.sources) and rows.min() >= 0):
            raise ValueError("exported registers name a source or a row that cannot be")
        keys = rows << CONTEXT_BITS | held.context
        if not ((of[1:] > of[:-1]) | ((of[1:] == of[:-1]) & (keys[1:] > keys[:-1]))).all():
            raise ValueError("exported registers are not in order, or one is there twice")
        slots = registers._allocate(rows, of << CONTEXT_BITS | held.context)
        registers._alpha[slots], registers._beta[slots] = held.alpha, held.beta
        registers._stability[slots], registers._version[slots] = held.stability_h, held.version
        registers._stamp[slots], registers._frame[slots] = held.stamp_h, held.frame
        registers._counts = np.bincount(of, minlength=len(registers.sources)).tolist()
        frames, counts = np.unique(held.frame, return_counts=True)
        registers._live_rows = dict(zip(frames.tolist(), counts.tolist(), strict=True))
        registers._live_rows.pop(NO_FRAME, None)
        return registers

    def _ensure(self, number: int, batch: Batch, known: Ints | None) -> Ints:
        tags = _tags(number, batch.contexts)
        slots = self._slots.find(batch.rows, tags) if known is None else known.copy()
        new = slots < 0
        if new.any():
            slots[new] = made = self._allocate(batch.rows[new], tags[new])
            self._counts[number] += len(made)
        return slots

    def _allocate(self, rows: Ints, tags: Ints) -> Ints:
        used = self._slots.used
        slots = self._slots.allocate(rows, tags)
        need = self._slots.used
        self._alpha = grown(self._alpha, used, need)
        self._beta = grown(self._beta, used, need)
        self._stability = grown(self._stability, used, need)
        self._version = grown(self._version, used, need)
        self._stamp = grown(self._stamp, used, need)
        self._frame = grown(self._frame, used, need)
        self._alpha[slots] = self._beta[slots] = self._stability[slots] = 0
        self._version[slots], self._stamp[slots], self._frame[slots] = -1, NO_STAMP, NO_FRAME
        return slots

    def _equal(self, slots: Ints, batch: Batch) -> Flags:
        same: Flags = self._alpha[slots] == batch.alpha
        same &= self._beta[slots] == batch.beta
        same &= self._stability[slots] == batch.stability_h
        return same

    def _restate(self, slots: Ints, frame: int) -> list[int]:
        """Note `frame` as the one that states these; returns the frames left without a live row."""
        live = self._live_rows
        touched, counts = _counted(self._frame[slots])
        self._frame[slots] = frame
        dead = []
        for old, count in zip(touched.tolist(), counts.tolist(), strict=True):
            if old != NO_FRAME:
                live[old] -= count
                if not live[old] and old != frame:
                    del live[old]
                    dead.append(old)
        if frame != NO_FRAME:
            live[frame] = live.get(frame, 0) + len(slots)
            if not live[frame]:
                del live[frame]
                dead.append(frame)
        return dead


_DTYPES = {
    "source": np.int32,
    "row": np.int32,
    "context": np.int32,
    "alpha": np.int64,
    "beta": np.int64,
    "stability_h": np.float64,
    "version": np.int64,
    "stamp_h": np.float64,
    "frame": np.int64,
}


def half_units(mass_fx: Ints) -> Ints:
    """Whole half units of raw mass, counted up to `FRESH_MASS_FX`."""
    return np.minimum(mass_fx, FRESH_MASS_FX) // HALF_UNIT_FX


def _distinct(values: Ints) -> Ints:
    """Ascending, each once: `np.unique` without its hashing, which takes longer for a frame's worth."""
    ordered = np.sort(values)
    return ordered[starts(ordered)]


def _counted(values: Ints) -> tuple[Ints, Ints]:
    """The distinct values and how often each is there; mostly there is one."""
    if len(values) and bool((values == values[0]).all()):
        return values[:1], np.array([len(values)])
    return np.unique(values, return_counts=True)


def _tags(source: int, contexts: Smalls) -> Ints:
    return source << CONTEXT_BITS | contexts.astype(np.int64)


def _check(batch: Batch) -> None:
    """Raises InvalidInput or ValueError where a later sum could overflow or be poisoned."""
    lengths = {len(column) for column in msgspec.structs.astuple(batch)}
    if len(lengths) != 1:
        raise ValueError(f"the columns of a batch differ in length: {sorted(lengths)}")
    for field, column, limit in (
        ("row", batch.rows, MAX_ROWS - 1),
        ("context", batch.contexts, MAX_CONTEXTS - 1),
        ("alpha", batch.alpha, MAX_FX),
        ("beta", batch.beta, MAX_FX),
        ("mass", batch.alpha + batch.beta, MAX_FX),
        ("version", batch.version, MAX_VERSION),
    ):
        if len(column) and (int(column.min()) < 0 or int(column.max()) > limit):
            wrong = column[(column < 0) | (column > limit)]
            raise InvalidInput(field, f"is {wrong[0]}; it must be from 0 to {limit}")
    good = np.isfinite(batch.stability_h) & (batch.stability_h >= 0)
    if not bool(good.all()):
        odd = batch.stability_h[~good]
        raise InvalidInput("stability_h", f"is {odd[0]}; it must be finite and not negative")
    keys = np.sort(batch.rows << CONTEXT_BITS | batch.contexts)
    if (keys[1:] == keys[:-1]).any():
        raise ValueError("a batch names one (row, context) twice")
