"""The last and dearest checks of the funnel: what a frame's body says, against what is known here.

Everything here reads and changes nothing. A frame with one bad row is refused as a whole: its signer made all
of it, and what half of a frame means is anybody's guess.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.crypto.errors import BadSignature
from loremesh.sync.admission import Admittance, check_admission, decode_admission
from loremesh.sync.bodies import (
    MAX_BLOCK_CONTEXTS,
    MAX_FRAME_INCARNATIONS,
    Blocks,
    Evidence,
    decode_blocks,
    decode_evidence,
)
from loremesh.sync.errors import Malformed
from loremesh.sync.feed import FeedKey, ForkKind, ForkProof
from loremesh.sync.opening import TurnedAway
from loremesh.sync.outcomes import Reason, Rejected
from loremesh.sync.registers import Batch, Preview, Source
from loremesh.sync.spacestate import MAX_MEMBERS, SpaceState, SyncState, batches
from loremesh.sync.wire import Chain, Header, Kind, SignedFrame

MAX_INCARNATIONS = MAX_FRAME_INCARNATIONS
"""Of one origin in a space. A new one comes with a restore or a copy of the home, which is rare."""
MAX_ORIGIN_CONTEXTS = 4096
"""Distinct labels of one origin in a space: labels name kinds of tasks, not tasks."""


class Weighed(msgspec.Struct, frozen=True, eq=False):
    """A body's meaning and its weight."""

    effect: Evidence | Blocks | Admittance | None
    """None where the body is missing."""
    mass_fx: int = 0
    """Raw change of mass that limits count."""
    blocks: int = 0
    """Texts that nobody has provided yet."""
    rows: NDArray[np.int64] | None = None
    """Of the body's ids, −1 where unknown."""
    stamps: NDArray[np.float64] | None = None
    slots: NDArray[np.int64] | None = None
    """Of evidence: where each row's register is, −1 for a new one."""


def weigh(state: SyncState, space: SpaceState, frame: SignedFrame, body: bytes, hour: float) -> Weighed:
    """What `body` says and what it would change at active hour `hour`. Raises `TurnedAway`."""
    origin = frame.header.origin
    try:
        match frame.header.kind:
            case Kind.EVIDENCE:
                return _weigh_evidence(state, space, frame, decode_evidence(body), hour)
            case Kind.BLOCKS:
                if not space.genesis.content:
                    raise TurnedAway(Rejected(Reason.NO_CONTENT, "", origin))
                blocks = decode_blocks(body)
                rows = state.index.rows(blocks.ids)
                return Weighed(blocks, 0, _unprovided(state, rows), rows)
            case Kind.ADMISSION:
                return Weighed(_admittance(space, origin, body))
            case _:
                raise TurnedAway(Rejected(Reason.WRONG_CHAIN, frame.header.kind.name, origin))
    except Malformed as wrong:
        raise TurnedAway(Rejected(Reason.MALFORMED, str(wrong), origin)) from None


def _admittance(space: SpaceState, origin: bytes, body: bytes) -> Admittance:
    try:
        admittance = check_admission(space.genesis, space.space, origin, decode_admission(body))
    except (BadSignature, Malformed) as wrong:
        raise TurnedAway(Rejected(Reason.BAD_ADMISSION, str(wrong), origin)) from None
    if admittance.deliverer and admittance.deliverer not in space.members:
        raise TurnedAway(Rejected(Reason.BAD_ADMISSION, "its deliverer is no member here yet", origin))
    if origin in space.members:
        return space.members[origin]  # the first one counts; another feed of the same peer repeats it
    key = admittance.invitation_key
    if key and space.uses.get(key, 0) >= admittance.uses:
        raise TurnedAway(Rejected(Reason.INVITATION_USED, f"{admittance.uses} were allowed", origin))
    if len(space.members) >= MAX_MEMBERS:
        raise TurnedAway(Rejected(Reason.SPACE_FULL, f"{MAX_MEMBERS} members", origin))
    return admittance


def _unprovided(state: SyncState, rows: NDArray[np.int64]) -> int:
    provided = state.providers.held(state.providers.select(rows)).row
    return len(rows) - len(np.unique(provided))


def _weigh_evidence(
    state: SyncState, space: SpaceState, frame: SignedFrame, evidence: Evidence, hour: float
) -> Weighed:
    origin = frame.header.origin
    _check_incarnations(space, frame.header, evidence)
    rows = state.index.rows(evidence.ids)
    stamps = np.empty(len(evidence.block), np.float64)
    slots = np.empty(len(evidence.block), np.int64)
    mass_fx, added = 0, 0
    principal = state.principal(space, origin)
    registers = state.registers_of(space, principal)
    for source, part, batch in batches(state, space.space, origin, evidence, rows):
        preview = state.registers.preview(source, batch, hour)
        if bool(preview.conflicts.any()) and (origin, source.incarnation) not in state.set_aside:
            raise TurnedAway(_conflict(state, frame, source, batch, preview))
        free = max(0, state.budgets.initial_registers - registers - added)
        mass_fx += _counted_mass_fx(preview, free)
        added += preview.new_registers
        stamps[part], slots[part] = preview.stamps, preview.slots
    if origin != state.own and registers + added > state.budgets.max_registers:
        detail = f"{principal} has {registers} of {state.budgets.max_registers}"
        raise TurnedAway(Rejected(Reason.TOO_MANY_REGISTERS, detail, origin))
    _check_contexts(state, space, origin, evidence, rows)
    return Weighed(evidence, mass_fx, 0, rows, stamps, slots)


def _counted_mass_fx(preview: Preview, free: int) -> int:
    """The change of mass without that of the first `free` new registers."""
    if not free or not preview.new_registers:
        return preview.raw_mass_change_fx
    if preview.new_registers <= free:
        return int(preview.mass_change_fx[~preview.new].sum())
    counted = np.ones(len(preview.new), np.bool_)
    counted[np.flatnonzero(preview.new)[:free]] = False
    return int(preview.mass_change_fx[counted].sum())


def _check_incarnations(space: SpaceState, header: Header, evidence: Evidence) -> None:
    origin = header.origin
    known = space.incarnations.get(origin, set())
    if len(known.union(evidence.incarnations, (header.incarnation,))) > MAX_INCARNATIONS:
        raise TurnedAway(Rejected(Reason.TOO_MANY_INCARNATIONS, f"{MAX_INCARNATIONS} are allowed", origin))


def _check_contexts(
    state: SyncState, space: SpaceState, origin: bytes, evidence: Evidence, rows: NDArray[np.int64]
) -> None:
    """The bounds on labels: of this home, of the origin, and of each block. The last is looked up only where
    it can be broken: an origin that used no more labels than a block may have cannot break it."""
    found = {label: state.contexts.find(label) for label in evidence.contexts}
    used = space.contexts.get(origin, set())
    fresh = sum(number is None or number not in used for number in found.values())
    if not fresh and len(used) <= MAX_BLOCK_CONTEXTS:
        return
    if len(used) + fresh > MAX_ORIGIN_CONTEXTS or not state.contexts.room_for(evidence.contexts):
        detail = f"it used {len(used)} before; {MAX_ORIGIN_CONTEXTS} are allowed, and as many as fit here"
        raise TurnedAway(Rejected(Reason.TOO_MANY_CONTEXTS, detail, origin))
    if len(used) + fresh <= MAX_BLOCK_CONTEXTS:
        return
    held = state.registers.held(state.registers.select(rows))
    mine = np.array([source.origin == origin for source in state.registers.sources], np.bool_)[held.source]
    names = len(state.contexts) + len(found)
    numbers = [
        len(state.contexts) + at if number is None else number for at, number in enumerate(found.values())
    ]
    # Rows unknown here get numbers of their own below zero; shifted up so that they can be counted.
    unknown = np.where(rows < 0, -1 - np.arange(len(rows)), rows)[evidence.block]
    pairs = np.concatenate(
        [
            held.row[mine].astype(np.int64) * names + held.context[mine],
            unknown * names + np.array(numbers, np.int64)[evidence.context],
        ]
    )
    _, counts = np.unique(np.unique(pairs) // names, return_counts=True)
    if int(counts.max()) > MAX_BLOCK_CONTEXTS:
        detail = f"a block would have more than {MAX_BLOCK_CONTEXTS}"
        raise TurnedAway(Rejected(Reason.TOO_MANY_CONTEXTS, detail, origin))


def _conflict(
    state: SyncState, frame: SignedFrame, source: Source, batch: Batch, preview: Preview
) -> Rejected:
    """One version of a register with two values: the incarnation's counter went two ways."""
    at = int(np.argmax(preview.conflicts))
    row, context, version = int(batch.rows[at]), int(batch.contexts[at]), int(batch.version[at])
    held = state.registers.held(state.registers.select(np.array([row], np.int64)))
    same = [
        number
        for number, of in enumerate(held.source.tolist())
        if held.context[number] == context
        and held.version[number] == version
        and state.registers.sources[of].origin == source.origin
        and state.registers.sources[of].incarnation == source.incarnation
    ]
    detail = f"version {version} of block {state.index.id(row).hex()} has two values"
    where: tuple[bytes, FeedKey, int] | None = None
    for number in same:
        space = state.spaces.get(state.registers.sources[int(held.source[number])].space)
        if where is None and space is not None:
            where = _where(space, source.origin, int(held.frame[number]))
    proof = ForkProof(ForkKind.VERSION, frame.header.space, source.origin, source.incarnation, frame, where)
    return Rejected(Reason.FORK, detail, source.origin, proof)


def _where(space: SpaceState, origin: bytes, frame: int) -> tuple[bytes, FeedKey, int] | None:
    """Which frame has that log number."""
    for key, chain in space.chains.items():
        if key.origin == origin and key.chain is Chain.DATA:
            at = np.flatnonzero(np.frombuffer(chain.frames, np.int64) == frame)
            if len(at):
                return space.space, key, int(at[0]) + 1
    return None
