"""The home's side of an import: a page of lines becomes events of this home, in one transaction.

What is here already is left alone: a block by its id, an event by its source and number. So a page taken
twice changes nothing, nor does a file whose half came in another file before.
"""

from __future__ import annotations

import msgspec

from loremesh.node import evidence
from loremesh.node.aggregates import moved
from loremesh.node.events import (
    Aggregate,
    Connect,
    Counted,
    Event,
    Import,
    Imported,
    ImportedTrust,
    ImportSource,
    Learn,
    Linked,
    Outcome,
    Revise,
    Share,
    Trust,
    encode,
)
from loremesh.node.exchange import lines
from loremesh.node.exchange.telling import Told, block_named, check_line, hear
from loremesh.node.ground import NO_ROW, Ground
from loremesh.node.imported import MAX_SOURCES
from loremesh.node.memory import Memory
from loremesh.node.opening import follow_trust
from loremesh.node.store.values import NewBlock
from loremesh.node.wording import reword
from loremesh.sync.content import block_id, check_text
from loremesh.sync.errors import InvalidInput
from loremesh.sync.registers import Source as RegisterSource

UNKNOWN_ROW = -2
"""A block that is not here, in a dry run; no event is stored about it."""

FORGOTTEN_ROW = -3
"""A block that was forgotten here and stays out; no event is stored about it, no link to it is taken."""


async def import_page(ground: Ground, page: lines.ImportPage) -> lines.ImportedPage:
    """Take a page in, or see what taking it in would do. Raises InvalidInput, and changes nothing then."""

    async def work() -> lines.ImportedPage:
        taking = _Taking(ground, page)
        for place, block in enumerate(page.blocks):
            taking.block(place, block)
        for place, event in enumerate(page.events):
            try:
                taking.event(event)
            except InvalidInput as error:
                raise InvalidInput(f"events[{place}].{error.field}", error.reason) from error
        if not page.dry_run:
            await taking.store()
        return taking.counts

    return await ground.exclusive(work)


class _Taking:
    """One page on its way into the home: what it adds, gathered before anything is stored."""

    def __init__(self, ground: Ground, page: lines.ImportPage) -> None:
        self._counts = dict.fromkeys(lines.ImportedPage.__struct_fields__, 0)
        self._ground, self._page = ground, page
        self._memory: Memory = ground.memory
        self._own = ground.memory.own
        self._file = bytes.fromhex(page.file)
        self._fresh: dict[bytes, int] = {}
        self._blocks: list[NewBlock] = []
        self._named: list[tuple[int, Event]] = []
        self._events: list[tuple[int, Event]] = []
        self._last: dict[tuple[int, int], int] = {}
        self._tagged: dict[int, int] = {}
        self._labels: set[str] = set()
        self._next_source = len(self._own.imported.sources)
        self._sources = [self._source(source) for source in page.sources]
        self._hour, self._shift_h = self._clock()

    def _count(self, name: str) -> None:
        self._counts[name] += 1

    @property
    def counts(self) -> lines.ImportedPage:
        """What has become of the page so far."""
        return lines.ImportedPage(**self._counts)

    def _clock(self) -> tuple[float, float]:
        """The hour here, and what to add to the file's hours so that ages stay what they are.

        A home that has no block yet goes on where the file's clock stood: its hours are then the file's.
        """
        hour = self._ground.hour()
        shift_h = self._own.imported.files.get(self._file)
        if shift_h is not None:
            return hour, shift_h
        seen = self._own.columns.views()
        if not seen.held.any() and not seen.stability_h.any() and self._page.hour > hour:
            hour = self._page.hour
        return hour, hour - self._page.hour

    def _source(self, source: lines.Source) -> int | None:
        """The number that a source has here, or gets; None for this home's own log."""
        origin, incarnation = bytes.fromhex(source.origin), bytes.fromhex(source.incarnation)
        check_line("name", source.name, evidence.MAX_NAME_CHARACTERS)
        own = self._own
        if origin == self._memory.sync.own and (
            incarnation == own.firsthand.incarnation
            or own.registers.find(RegisterSource(origin, incarnation, b"")) is not None
        ):
            return None
        number = own.imported.find(origin, incarnation)
        if number is not None:
            return number
        number, self._next_source = self._next_source, self._next_source + 1
        if number >= MAX_SOURCES:
            raise InvalidInput("sources", f"would come to more than {MAX_SOURCES} logs in this home")
        stamp = self._ground.stamp()
        named = ImportSource(stamp.hour, stamp.wall_ms, number, origin, incarnation, source.name)
        self._named.append((NO_ROW, named))
        return number

    def block(self, place: int, block: lines.Block) -> None:
        """A block with its text."""
        field = f"blocks[{place}]"
        id_ = bytes.fromhex(block.id)
        if block.text is not None:
            check_text(block.text, f"{field}.text")
            if block_id(block.text) != id_:
                raise InvalidInput(f"{field}.id", "is not the SHA-256 of the normalised text: it was altered")
        if id_ in self._fresh:
            raise InvalidInput(f"{field}.id", "is there twice")
        memory = self._memory
        row = memory.sync.index.row(id_)
        if row is None and self._ground.store.forgotten_mark(id_) is not None:
            self._count("blocks_forgotten")
            return
        held = row is not None and row < self._own.columns.length and self._own.columns.held[row]
        if held or (row is not None and (block.text is None or self._brought(row))):
            self._count("blocks_known")
            return
        if row is None:
            row = self._fresh[id_] = memory.length + len(self._fresh)
        self._count("blocks_new")
        self._blocks.append(NewBlock(row, id_, block.text, replaces=memory.has_content(row)))

    def _brought(self, row: int) -> bool:
        """Whether an earlier page brought the text, and nobody else did."""
        return self._memory.has_content(row) and not self._memory.sync.providers.of(row)

    def _row(self, id_: bytes) -> int | None:
        """The row of a block; None for one that was forgotten here and stays out."""
        row = self._fresh.get(id_)
        if row is None:
            row = self._memory.sync.index.row(id_)
        if row is None and self._ground.store.forgotten_mark(id_) is not None:
            return None
        if row is None:
            if not self._page.dry_run:
                raise InvalidInput("block", f"{id_.hex()} is not here: send its text in a page before")
            return UNKNOWN_ROW
        if row in self._own.tiers:
            raise InvalidInput("block", f"{id_.hex()} is a summary of this home, which nothing happens to")
        return row

    def event(self, line: lines.Event) -> None:
        """An event about a block, or a change of trust."""
        if line.source >= len(self._sources):
            raise InvalidInput("source", f"is {line.source}; the page names {len(self._sources)}")
        hour = min(line.hour + self._shift_h, self._hour)

        def row_of(id_: bytes) -> int:
            row = self._row(id_)
            return FORGOTTEN_ROW if row is None else row

        told = hear(line.kind, hour, line.wall_ms, line.detail, row_of)
        source = self._sources[line.source]
        if isinstance(told, Trust):
            self._trust(line, source, told)
            return
        row = row_of(block_named(line.block))
        if row == FORGOTTEN_ROW or (isinstance(told, Connect) and told.other == FORGOTTEN_ROW):
            self._count("events_forgotten")
        elif source is None:
            self._count("events_own")
        elif row != UNKNOWN_ROW and self._known(source, row, line.n):
            self._count("events_known")
        else:
            self._take(source, row, line, told)

    def _known(self, source: int, row: int, n: int) -> bool:
        last = self._last.get((source, row))
        return n <= (self._own.imported.last(row, source) if last is None else last)

    def _take(self, source: int, row: int, line: lines.Event, told: Told) -> None:
        if isinstance(told, Connect) and told.other == row != UNKNOWN_ROW:
            raise InvalidInput("other", "is the block itself")
        if isinstance(told, Linked):
            if row != UNKNOWN_ROW and row in told.others:
                raise InvalidInput("others", "have the block itself among them")
            told = _without_forgotten(told)
        if isinstance(told, Revise) and told.other == FORGOTTEN_ROW:
            told = msgspec.structs.replace(told, other=row)  # it keeps its head start
        if isinstance(told, Counted) and self._no_news(source, row, told):
            self._count("events_known")
            return
        if isinstance(told, Counted) and told.exact:
            self._withdraw_estimates(source, row, told)
        if isinstance(told, Aggregate):
            told = moved(told, self._shift_h, self._hour)
        told = self._within_bounds(row, told)
        self._count("events_new")
        self._last[source, row] = line.n
        self._events.append((row, Imported(told.hour, told.wall_ms, source, line.n, encode(told))))

    def _no_news(self, source: int, row: int, told: Counted) -> bool:
        """Whether these counts are here as they are, or more exactly from the same memory."""
        files = self._own.imported
        priors = files.priors.get(row, {})
        if not told.exact and any(prior.exact for of, prior in priors.items() if self._kin(source, of)):
            return True
        prior = priors.get(source)
        if prior is None:
            return False
        here = {(of, context): (a, b) for of, context, a, b in files.of(row)}
        if here.get((source, 0)) != (told.alpha_fx, told.beta_fx):
            return False
        whole = files.owner.get(row) == files.sources[source].origin
        return not whole or (prior.alpha_fx, prior.beta_fx) == (told.prior_a_fx, told.prior_b_fx)

    def _kin(self, source: int, other: int) -> bool:
        """Whether two sources are of one origin; one that is new here has no number yet."""
        sources = self._own.imported.sources
        named = {event.number: event.origin for _, event in self._named if isinstance(event, ImportSource)}
        origin = sources[source].origin if source < len(sources) else named[source]
        return sources[other].origin == origin

    def _withdraw_estimates(self, source: int, row: int, told: Counted) -> None:
        """What the same memory had counted by estimate gives way to what it counts exactly."""
        files = self._own.imported
        for other, prior in files.priors.get(row, {}).items():
            if other == source or prior.exact or not self._kin(source, other):
                continue
            n = self._last.get((other, row), files.last(row, other)) + 1
            nothing = Counted(told.hour, told.wall_ms, 0, 0, 0, 0, -1.0, -1.0, exact=False)
            self._last[other, row] = n
            self._events.append((row, Imported(told.hour, told.wall_ms, other, n, encode(nothing))))

    def _within_bounds(self, row: int, told: Told) -> Told:
        """The event as this home can hold it: tags up to the bound; contexts while there is room for them."""
        if isinstance(told, Outcome | Aggregate):
            labels = (told.context,) if isinstance(told, Outcome) else told.labels
            self._labels.update(filter(None, labels))
            if not self._own.contexts.room_for(self._labels):
                raise InvalidInput("context", f"{labels[-1]!r} is one too many for this home")
        if isinstance(told, Learn | Share) and told.tags and row != UNKNOWN_ROW:
            here = self._own.tags.get(row, ())
            count = self._tagged.get(row, len(here))
            new = [tag for tag in told.tags if tag not in here][: evidence.MAX_TAGS - count]
            self._tagged[row] = count + len(new)
            told = msgspec.structs.replace(told, tags=tuple(t for t in told.tags if t in here or t in new))
        return told

    def _trust(self, line: lines.Event, source: int | None, told: Trust) -> None:
        if line.block:
            raise InvalidInput("block", "is given, but trust is about no block")
        if source is None:
            self._count("events_own")
        elif line.n <= self._last.get((source, NO_ROW), self._own.imported.trust_known.get(source, -1)):
            self._count("events_known")
        else:
            self._last[source, NO_ROW] = line.n
            in_force = self._page.trust and told.peer != self._memory.sync.own
            noted = ImportedTrust(told.hour, told.wall_ms, source, line.n, encode(told), in_force)
            self._count("trust_new")
            self._events.append((NO_ROW, noted))

    async def store(self) -> None:
        """Everything gathered, in one transaction; nothing when there is nothing."""
        if not self._blocks and not self._events:
            return
        ground, memory = self._ground, self._memory
        first: list[tuple[int, Event]] = []
        if self._events:
            first += self._named
            if self._file not in self._own.imported.files:
                clock = ground.stamp()
                first.append((NO_ROW, Import(self._hour, clock.wall_ms, self._file, self._shift_h)))
        replaced = {block.row: block.text for block in self._blocks if block.replaces and block.text}
        await ground.record([*first, *self._events], self._blocks)
        ground.go_on_from(self._hour)
        memory.sync.index.ensure(list(self._fresh))
        memory.lexical.add(list(replaced), list(replaced.values()))
        if any(isinstance(event, ImportedTrust) and event.in_force for _, event in self._events):
            follow_trust(memory)
            await ground.refresh()
            await reword(ground)


def _without_forgotten(event: Linked) -> Linked:
    """The links of the event to blocks that were not forgotten here."""
    kept = [
        (other, weight_fx)
        for other, weight_fx in zip(event.others, event.weights_fx, strict=True)
        if other != FORGOTTEN_ROW
    ]
    others, weights_fx = tuple(other for other, _ in kept), tuple(weight_fx for _, weight_fx in kept)
    return msgspec.structs.replace(event, others=others, weights_fx=weights_fx)
