"""elfmem's memory as lines of an import: blocks, outcomes, edges, and what it had counted.

Counts there hold one pseudo-observation, the rating that promoted the block. Here it goes into the prior, and
outcomes alone are evidence, so that the mean stays what it was. `block_outcomes` cannot rebuild the counts:
outcomes come as events that tell, and what counts is the statement of the sum (`Counted`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

import msgspec

from loremesh.node.errors import UsageError
from loremesh.node.events import Connect, Counted, Learn, Outcome
from loremesh.node.evidence import MAX_NAME_CHARACTERS, MAX_TAG_CHARACTERS, MAX_TAGS
from loremesh.node.exchange import lines
from loremesh.node.exchange.elfmem_tables import ElfBlock, ElfEdge, ElfMemory, ElfOutcome
from loremesh.node.exchange.reading import Checked, Sized
from loremesh.node.exchange.telling import Told, tell
from loremesh.node.firsthand import MAX_CONTEXTS_PER_BLOCK
from loremesh.node.rules import MAX_STABILITY_H
from loremesh.sync.content import block_id, check_text, context_label, normalise
from loremesh.sync.errors import InvalidInput
from loremesh.sync.fixed import ONE, to_fx

CONSTITUTIONAL: Final = "self/constitutional"
FROM_DATABASE: Final = "0" * 32
FROM_BUNDLE: Final = "0" * 31 + "1"
"""In place of an incarnation: the two number their statements each by itself."""
PSEUDO_MASS: Final = 1.0
"""What promotion adds to the counts: one observation."""

_encoder: Final = msgspec.json.Encoder()


class Prepared(msgspec.Struct, frozen=True):
    """Lines that can be paged into a home, and what to say about them."""

    checked: Checked
    told: list[Sized]
    remarks: list[str]


class Split(msgspec.Struct, frozen=True):
    """Counts taken apart, in fixed point: what stands for no outcome, and outcomes."""

    prior_a_fx: int
    prior_b_fx: int
    alpha_fx: int
    beta_fx: int


def split(block: ElfBlock) -> Split:
    """The counts without the pseudo-observation, and what is left of them as the prior; their sum is whole.

    With the alignment stated: α - alignment and β - (1 - alignment), not below 0. A block that was never
    promoted starts from (½, ½) instead. Where a bundle does not state the alignment, one observation's mass
    is taken out at the block's own mean.
    """
    alpha_fx, beta_fx = to_fx(block.alpha, "success_count"), to_fx(block.beta, "failure_count")
    if block.exact:
        aligned = 0.5 if block.alignment is None else block.alignment
        prior_a_fx = min(alpha_fx, to_fx(aligned, "self_alignment"))
        prior_b_fx = min(beta_fx, to_fx(1.0 - aligned, "self_alignment"))
    else:
        mass = block.alpha + block.beta
        share = min(PSEUDO_MASS / mass, 1.0) if mass > 0.0 else 1.0
        prior_a_fx, prior_b_fx = round(alpha_fx * share), round(beta_fx * share)
    return Split(prior_a_fx, prior_b_fx, alpha_fx - prior_a_fx, beta_fx - prior_b_fx)


def prepare(memory: ElfMemory, *, archived: bool) -> Prepared:
    """The lines of an import. Raises UsageError for ids that are there twice."""
    preparing = _Preparing(memory, archived)
    for block in sorted(memory.blocks, key=lambda block: (block.created_us, block.id)):
        preparing.block(block)
    for outcome in sorted(memory.outcomes, key=lambda outcome: outcome.created_us):
        preparing.outcome(outcome)
    for edge in sorted(memory.edges, key=lambda edge: (edge.created_us, edge.one, edge.other)):
        preparing.edge(edge)
    return preparing.done()


class _Taken(msgspec.Struct):
    """A block of theirs on its way in; several with one text come together."""

    first: ElfBlock
    text: str
    tags: list[str]
    split: Split
    stability_h: float
    age_h: float
    alignment: float | None
    events: list[tuple[int, Told]]


class _Preparing:
    """Blocks by the id they get here, with their events by time."""

    def __init__(self, memory: ElfMemory, archived: bool) -> None:
        self._memory, self._archived = memory, archived
        self._here: dict[str, bytes] = {}
        self._taken: dict[bytes, _Taken] = {}
        self._counts: dict[str, int] = {}
        self._contexts: dict[bytes, set[str]] = {}
        self._ids: set[str] = set()
        self._place: dict[bytes, int] = {}

    def _count(self, what: str) -> None:
        self._counts[what] = self._counts.get(what, 0) + 1

    def block(self, block: ElfBlock) -> None:
        """Take a block, or count why not."""
        if block.id in self._ids:
            raise UsageError(f"block {block.id[:80]!r} is there twice", "nothing was imported")
        self._ids.add(block.id)
        if block.archived and not self._archived:
            self._count("left out: {} archived blocks; --archived takes them")
            return
        try:
            check_text(block.text)
        except InvalidInput:
            self._count("left out: {} blocks that are empty, have a NUL, or more than 64 KiB of text")
            return
        id_ = self._here[block.id] = block_id(block.text)
        if CONSTITUTIONAL in block.tags:
            self._count("{} constitutional blocks keep their tag; nothing is pinned here")
        if block.created_us == 0:
            self._count("{} blocks do not say when they were learned")
        tags = self._tags(block.tags)
        before = self._taken.get(id_)
        if before is None:
            self._place[id_] = len(self._taken)
            self._taken[id_] = _Taken(
                block, block.text, tags, split(block), block.stability_h, block.age_h, block.alignment, []
            )
            return
        self._count("{} blocks have the text of another one, and are one block with it here")
        more = split(block)
        before.tags = list(dict.fromkeys([*before.tags, *tags]))[:MAX_TAGS]
        before.split = msgspec.structs.replace(
            before.split,
            alpha_fx=before.split.alpha_fx + more.alpha_fx,
            beta_fx=before.split.beta_fx + more.beta_fx,
        )
        before.stability_h = max(before.stability_h, block.stability_h)
        before.age_h = min(before.age_h, block.age_h)

    def _tags(self, tags: Iterable[str]) -> list[str]:
        kept: list[str] = []
        for tag in dict.fromkeys(normalise(tag) for tag in tags):
            if tag and len(tag) <= MAX_TAG_CHARACTERS and tag.isprintable() and len(kept) < MAX_TAGS:
                kept.append(tag)
            else:
                self._count("left out: {} tags that are too long, too many, or not printable")
        return kept

    def outcome(self, outcome: ElfOutcome) -> None:
        """An outcome as an event; what it counts is in the block's sum."""
        id_ = self._here.get(outcome.block)
        if id_ is None:
            self._count("left out: {} outcomes of blocks that are not taken")
            return
        taken = self._taken[id_]
        weight_fx = to_fx(outcome.weight, "weight")
        event = Outcome(
            self._hour(taken),
            outcome.created_us // 1000,
            outcome.signal,
            weight_fx,
            ONE,
            to_fx(outcome.signal * outcome.weight, "weight"),
            to_fx((1.0 - outcome.signal) * outcome.weight, "weight"),
            0,
            self._context(id_, outcome.source),
        )
        taken.events.append((outcome.created_us, event))
        self._count("{} outcomes as events; their evidence is in the counts")

    def _context(self, id_: bytes, source: str) -> str:
        """Who judged, as the label of the outcome; '' where it is too long, or one too many."""
        try:
            label = context_label(source)
        except InvalidInput:
            return ""
        known = self._contexts.setdefault(id_, set())
        if label in known or len(known) < MAX_CONTEXTS_PER_BLOCK:
            known.add(label)
            return label
        return ""

    def edge(self, edge: ElfEdge) -> None:
        """An edge as a link."""
        one, other = self._here.get(edge.one), self._here.get(edge.other)
        if one is None or other is None or one == other:
            self._count("left out: {} edges to blocks that are not taken")
            return
        taken = self._taken[one]
        weight_fx = to_fx(edge.weight, "weight")
        event = Connect(self._hour(taken), edge.created_us // 1000, self._place[other], weight_fx)
        taken.events.append((edge.created_us, event))
        self._count("{} edges as links; of what kind they are, and notes on them, nothing is kept")

    def _hour(self, taken: _Taken) -> float:
        return self._memory.hour - taken.age_h

    def done(self) -> Prepared:
        """The lines: blocks, the source, and all events by time, numbered upwards block by block."""
        memory, ids = self._memory, list(self._taken)
        events: list[tuple[int, int, Told]] = []
        for place, taken in enumerate(self._taken.values()):
            learned = Learn(self._hour(taken), taken.first.created_us // 1000, 0, tuple(taken.tags))
            n = -1
            for moment_us, event in [
                (taken.first.created_us, learned),
                *sorted(taken.events, key=lambda timed: timed[0]),
                (memory.as_of_us, self._counted(taken)),
            ]:
                n = max(n + 1, moment_us)
                events.append((n, place, event))
        events.sort(key=lambda numbered: numbered[:2])
        origin = hashlib.sha256(b"elfmem\0" + memory.owner.encode("utf-8")).hexdigest()
        name = "".join(one if one.isprintable() else "?" for one in f"elfmem {memory.owner}")
        which = FROM_BUNDLE if memory.estimated else FROM_DATABASE
        told: list[lines.Line] = [lines.Source(origin, which, name[:MAX_NAME_CHARACTERS])]
        told += [lines.Block(id_.hex(), taken.text) for id_, taken in self._taken.items()]
        for n, place, event in events:
            kind, detail = tell(event, ids.__getitem__)
            told.append(lines.Event(0, n, kind, ids[place].hex(), event.hour, event.wall_ms, detail))
        raw = [_encoder.encode(line) for line in told]
        digest = hashlib.sha256(b"\n".join(raw)).hexdigest()
        return Prepared(
            Checked(digest, memory.hour, len(ids), len(events)),
            [(line, len(one)) for line, one in zip(told, raw, strict=True)],
            [
                f"{memory.what}, of {memory.owner or 'nobody'}: {len(ids)} of {len(memory.blocks)} blocks",
                *(what.format(count) for what, count in self._counts.items()),
                *memory.remarks,
            ],
        )

    def _counted(self, taken: _Taken) -> Counted:
        parts = taken.split
        return Counted(
            self._hour(taken),
            self._memory.as_of_us // 1000,
            parts.prior_a_fx,
            parts.prior_b_fx,
            parts.alpha_fx,
            parts.beta_fx,
            min(taken.stability_h, MAX_STABILITY_H),
            -1.0 if taken.alignment is None else taken.alignment,
            taken.first.exact,
        )
