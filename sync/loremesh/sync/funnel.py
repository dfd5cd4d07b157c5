"""One funnel for every frame, whoever brought it: cheap checks first, nothing changed before all have passed.

size → open → decode → space and admission → signature → number and chain → limits → rows → journal → accept.
`examine` goes as far as it gets without changing anything; `admit` lets the journal store what passed, in one
transaction, and only then lets `accept` change the state.
"""

from collections.abc import AsyncIterator

import msgspec
import numpy as np

from loremesh.sync.admission import Admittance, admittance_of, decode_admission
from loremesh.sync.bodies import Blocks, Evidence, decode_blocks, decode_evidence
from loremesh.sync.effects import MAX_INCARNATIONS, Weighed, weigh
from loremesh.sync.errors import Malformed
from loremesh.sync.feed import FeedKey, ForkKind, ForkProof, Standing, Want, standing
from loremesh.sync.intake import Stopped, count, draw, halt, keep, limited, size_bytes, take_waiting
from loremesh.sync.opening import Carried, TurnedAway, check_signature, decode, open_sealed
from loremesh.sync.outcomes import (
    Applied,
    Buffered,
    Charge,
    Deferred,
    Duplicate,
    Limit,
    Outcome,
    Passed,
    Quarantined,
    Reason,
    Rejected,
)
from loremesh.sync.ports import Journal, Placement
from loremesh.sync.spacestate import SpaceState, SyncState, accept, set_aside
from loremesh.sync.wire import (
    MAX_FRAME_BYTES,
    Chain,
    Header,
    Kind,
    SignedFrame,
    decode_header,
    header_hash,
)

STOPPING = frozenset(
    {
        Reason.MALFORMED,
        Reason.NO_CONTENT,
        Reason.TOO_MANY_INCARNATIONS,
        Reason.TOO_MANY_CONTEXTS,
        Reason.TOO_MANY_REGISTERS,
    }
)
"""Reasons that stop a chain when its next frame meets them: that frame would be refused again."""


Verdict = Passed | Duplicate | Buffered | Deferred | Rejected
"""What `examine` finds. A `Buffered` is not kept anywhere yet."""


def examine(state: SyncState, sealed: bytes, now_s: float, hour: float) -> Verdict:
    """What would become of a sealed frame at `now_s` (any steady clock, seconds) and active hour `hour`.

    Changes nothing at all, and raises nothing for whatever the bytes are.
    """
    carried = open_sealed(state, sealed)
    return carried if isinstance(carried, Rejected) else examine_carried(state, carried, now_s, hour)


def examine_carried(state: SyncState, carried: Carried, now_s: float, hour: float) -> Verdict:
    """`examine` for a frame that is out of its seal."""
    try:
        return _through(state, carried, now_s, hour)
    except TurnedAway as turned:
        return turned.verdict


def _through(state: SyncState, carried: Carried, now_s: float, hour: float) -> Passed:
    frame = decode(carried)
    header = frame.header
    space = state.spaces.get(carried.space)
    if space is None:
        raise TurnedAway(Rejected(Reason.UNKNOWN_SPACE, carried.space.hex()))
    if header.chain is Chain.NONE:
        raise TurnedAway(Rejected(Reason.WRONG_CHAIN, f"{header.kind.name} is a message"))
    chain, frame_hash = space.chains.get(key_of(header)), header_hash(frame.header_bytes)
    stands = standing(chain, header.number, header.previous, frame_hash)
    fills = chain is not None and header.number in chain.bodiless and frame.body is not None
    if stands is Standing.HELD and not fills:
        raise TurnedAway(Duplicate(header.origin))  # this very header was verified when it came first
    check_signature(frame)
    _check_place(state, space, frame, stands, now_s)
    own = header.origin == state.own
    trusted = own or header.chain is Chain.CONTROL or state.trust_fx(space, header.origin) > 0
    charge = Charge(state.principal(space, header.origin), size_bytes(frame), exempt=own)
    _check_limits(state, space, header, charge, trusted, now_s)
    weighed = _weigh(state, space, frame, hour)
    charge = msgspec.structs.replace(charge, mass_fx=weighed.mass_fx, blocks=weighed.blocks)
    _check_limits(state, space, header, charge, trusted, now_s)
    return Passed(
        space=header.space,
        header=header,
        header_bytes=frame.header_bytes,
        signature=frame.signature,
        body=frame.body,
        hash=frame_hash,
        effect=weighed.effect,
        size_bytes=charge.size_bytes,
        rows=weighed.rows,
        stamps=weighed.stamps,
        slots=weighed.slots,
        fills=fills,
        bodiless=frame.body is None,
        trusted=trusted,
        charge=charge,
    )


def key_of(header: Header) -> FeedKey:
    """The chain a header belongs to."""
    return FeedKey(header.origin, header.incarnation, header.chain)


def _check_place(
    state: SyncState, space: SpaceState, frame: SignedFrame, stands: Standing, now_s: float
) -> None:
    """Whether a signed frame may come next in its chain. Raises `TurnedAway`."""
    header = frame.header
    own = header.origin == state.own and header.incarnation == state.incarnation
    if own and stands is not Standing.HELD:
        detail = f"{header.chain.name} frame {header.number}"
        raise TurnedAway(Rejected(Reason.COPIED, detail, header.origin))
    if stands is Standing.FORKED:
        raise TurnedAway(_forked(state, frame))
    if header.chain is Chain.DATA and (header.origin, header.incarnation) in state.set_aside:
        raise TurnedAway(Rejected(Reason.SET_ASIDE, header.incarnation.hex(), header.origin))
    if header.origin not in space.members and header.kind is not Kind.ADMISSION:
        missing = Want(header.origin, header.incarnation, Chain.CONTROL, 1, 1)
        raise TurnedAway(Buffered(header.origin, missing))
    known = space.incarnations.get(header.origin, set())
    if header.incarnation not in known and len(known) >= MAX_INCARNATIONS:
        detail = f"{MAX_INCARNATIONS} are allowed"
        raise TurnedAway(Rejected(Reason.TOO_MANY_INCARNATIONS, detail, header.origin))
    if stands is Standing.GAP:
        raise TurnedAway(_gap(state, space, frame, now_s))


def _forked(state: SyncState, frame: SignedFrame) -> Rejected:
    header, key = frame.header, key_of(frame.header)
    position = state.spaces[header.space].position(key)
    if header.number <= position.number:
        kind, held = ForkKind.NUMBER, header.number
    else:
        kind, held = ForkKind.LINK, position.number
    detail = f"{header.chain.name} frame {header.number}: {kind.value}"
    if (header.origin, header.incarnation) in state.set_aside:
        return Rejected(Reason.FORK, detail, header.origin)
    proof = ForkProof(kind, header.space, header.origin, header.incarnation, frame, (header.space, key, held))
    return Rejected(Reason.FORK, detail, header.origin, proof)


def _gap(
    state: SyncState, space: SpaceState, frame: SignedFrame, now_s: float
) -> Buffered | Deferred | Rejected:
    """A frame beyond the next one: it waits, unless what comes before it cannot be taken now, or ever."""
    header, key = frame.header, key_of(frame.header)
    first = space.position(key).number + 1
    stopped = state.intake.stopped.get((space.space, key))
    if stopped is not None and stopped.number == first:
        detail = f"follows frame {first}, which was refused: {stopped.rejected.detail}"
        return Rejected(stopped.rejected.reason, detail, header.origin)
    if resting := resting_until(state, space, key, now_s):
        want = Want(key.origin, key.incarnation, key.chain, first, header.number)
        return Deferred(header.origin, resting.limit, resting.until_s, want)
    missing = Want(key.origin, key.incarnation, key.chain, first, header.number - 1)
    return Buffered(header.origin, missing)


def resting_until(state: SyncState, space: SpaceState, key: FeedKey, now_s: float) -> Deferred | None:
    """The deferral that still holds a chain up: its budget is not back, or its origin still has no trust."""
    deferred = state.intake.deferred.get((space.space, key))
    if deferred is None or deferred.until_s <= now_s:
        return None
    if deferred.limit is Limit.QUARANTINE and state.trust_fx(space, key.origin) > 0:
        return None
    return deferred


def at_rest(state: SyncState, space: SpaceState, now_s: float) -> set[FeedKey]:
    """The chains whose next frame need not be asked for now: over a limit, or stopped by a refusal."""
    intake = state.intake
    resting = {key for where, key in intake.deferred if where == space.space}
    stopped = {
        key
        for (where, key), stop in intake.stopped.items()
        if where == space.space and stop.number == space.position(key).number + 1
    }
    return stopped | {key for key in resting if resting_until(state, space, key, now_s)}


def _check_limits(
    state: SyncState, space: SpaceState, header: Header, charge: Charge, trusted: bool, now_s: float
) -> None:
    """Raise `TurnedAway` with a `Deferred` where a limit admits nothing now."""
    want = Want(header.origin, header.incarnation, header.chain, header.number, header.number)
    control = header.chain is Chain.CONTROL
    if not trusted:
        kept = space.stored_bytes(header.origin) + charge.size_bytes
        if kept > state.budgets.quarantine_bytes:
            raise TurnedAway(Deferred(header.origin, Limit.QUARANTINE, float("inf"), want))
    over = limited(state.intake, state.budgets, space.space, charge, control, now_s)
    if over is not None:
        raise TurnedAway(Deferred(header.origin, over.limit, over.until_s, want))


def _weigh(state: SyncState, space: SpaceState, frame: SignedFrame, hour: float) -> Weighed:
    if frame.body is not None:
        return weigh(state, space, frame, frame.body, hour)
    if frame.header.chain is Chain.CONTROL:
        detail = "a control frame is never without its body"
        raise TurnedAway(Rejected(Reason.MALFORMED, detail, frame.header.origin))
    return Weighed(None)


async def admit(sealed: bytes, state: SyncState, journal: Journal, now_s: float, hour: float) -> Outcome:
    """Take one sealed frame as far as it goes: examine it, store it, accept it, count it.

    What the journal raises comes out of here, with nothing changed. One frame at a time per state: a second
    call while one runs is a mistake of the caller and raises `RuntimeError`.
    """
    carried = open_sealed(state, sealed)
    if isinstance(carried, Rejected):
        count(state.intake, b"", carried)
        return carried
    return await admit_carried(carried, state, journal, now_s, hour)


async def admit_carried(
    carried: Carried, state: SyncState, journal: Journal, now_s: float, hour: float
) -> Outcome:
    """`admit` for a frame that is out of its seal, as repair replies carry them."""
    intake = state.intake
    if intake.busy:
        raise RuntimeError("a frame is being admitted already: hand frames to the funnel one after another")
    intake.busy = True
    try:
        verdict = examine_carried(state, carried, now_s, hour)
        outcome = await _settle(verdict, carried, state, journal, now_s, hour)
    finally:
        intake.busy = False
    count(intake, carried.space if carried.space in state.spaces else b"", outcome)
    return outcome


async def _settle(
    verdict: Verdict, carried: Carried, state: SyncState, journal: Journal, now_s: float, hour: float
) -> Outcome:
    match verdict:
        case Passed():
            return await _take(verdict, state, journal, now_s, hour)
        case Buffered():
            frame = decode(carried)
            stranger = frame.header.origin not in state.spaces[carried.space].members
            kept = keep(state.intake, (carried.space, key_of(frame.header)), frame, stranger)
            return msgspec.structs.replace(verdict, kept=kept)
        case Deferred(want=want):
            key = FeedKey(want.origin, want.incarnation, want.chain)
            halt(state.intake.deferred, (carried.space, key), verdict)
            return verdict
        case Rejected():
            if verdict.proof is not None:
                return await _keep_proof(verdict, verdict.proof, state, journal)
            known = state.spaces.get(carried.space)
            if known and verdict.reason in STOPPING and verdict.origin in known.members:
                header = decode(carried).header
                place = (carried.space, key_of(header))
                if header.number == known.position(key_of(header)).number + 1:
                    halt(state.intake.stopped, place, Stopped(header.number, verdict))
            return verdict
        case Duplicate():
            return verdict


async def _take(
    passed: Passed, state: SyncState, journal: Journal, now_s: float, hour: float
) -> Applied | Quarantined:
    # Rows are given out before the frame is stored, so that the journal can store texts under them. If it
    # fails, some ids have a row and nothing else, which nobody can see.
    rows = state.index.ensure(passed.ids, passed.rows)
    stamps = np.empty(0) if passed.stamps is None else passed.stamps
    frame = await journal.store_frame(passed, Placement(rows, hour, stamps))
    accepted = accept(state, passed, frame, hour, passed.stamps, rows)
    control = passed.header.chain is Chain.CONTROL
    draw(state.intake, state.budgets, passed.space, passed.charge, control, now_s)
    place = (passed.space, key_of(passed.header))
    state.intake.deferred.pop(place, None)
    state.intake.stopped.pop(place, None)
    return Applied(passed, frame, accepted) if passed.trusted else Quarantined(passed, frame, accepted)


async def _keep_proof(rejected: Rejected, proof: ForkProof, state: SyncState, journal: Journal) -> Rejected:
    if proof.held_at is not None:
        space, key, number = proof.held_at
        found = await journal.frames(space, key, number, number, MAX_FRAME_BYTES)
        proof = msgspec.structs.replace(proof, held=found[0] if found else None)
    proof = bare(proof)
    await journal.store_proof(proof)
    set_aside(state, proof)
    return msgspec.structs.replace(rejected, proof=proof)


def bare(proof: ForkProof) -> ForkProof:
    """The proof without what proves nothing: header and signature tell two frames of one number, or a wrong
    link, apart; only two values of one version stand in the bodies."""
    if proof.kind is ForkKind.VERSION:
        return proof
    held = None if proof.held is None else msgspec.structs.replace(proof.held, body=None)
    return msgspec.structs.replace(proof, other=msgspec.structs.replace(proof.other, body=None), held=held)


async def admit_following(
    outcome: Outcome, state: SyncState, journal: Journal, now_s: float, hour: float
) -> AsyncIterator[Outcome]:
    """Admit what waited for the frame of this outcome, as far as it goes now; each outcome as it comes.

    What the journal raises comes out of here; the outcomes before it stand.
    """
    todo = [outcome]
    while todo:
        done = todo.pop()
        if not isinstance(done, Applied | Quarantined):
            continue
        for frame in _freed(state, done):
            carried = Carried(done.passed.space, frame.header_bytes, frame.signature, frame.body)
            todo.append(await admit_carried(carried, state, journal, now_s, hour))
            yield todo[-1]


def _freed(state: SyncState, done: Applied | Quarantined) -> list[SignedFrame]:
    space, key = state.spaces[done.passed.space], key_of(done.passed.header)
    keys = [key]
    if done.accepted.member:
        keys += [other for where, other in list(state.intake.waiting) if where == space.space
                 and other.origin == done.accepted.member and other != key]  # fmt: skip
    found = (take_waiting(state.intake, (space.space, one), space.position(one).number + 1) for one in keys)
    return [frame for frame in found if frame is not None]


def passed_again(header_bytes: bytes, signature: bytes, body: bytes | None, pruned: bool = False) -> Passed:
    """A frame as the journal holds it, ready for `accept`: replay verifies no signature a second time.

    `pruned` says that the body was here once. Raises `Malformed` for what no funnel can have let through, so
    that the log must be damaged.
    """
    header = decode_header(header_bytes)
    frame = SignedFrame(header, header_bytes, signature, body)
    effect: Evidence | Blocks | Admittance | None = None
    if body is not None:
        match header.kind:
            case Kind.EVIDENCE:
                effect = decode_evidence(body)
            case Kind.BLOCKS:
                effect = decode_blocks(body)
            case Kind.ADMISSION:
                effect = admittance_of(decode_admission(body))
            case _:
                raise Malformed("header.kind", f"{header.kind.name} is not that of a stored frame")
    return Passed(
        header.space, header, header_bytes, signature, body, header_hash(header_bytes), effect,
        size_bytes(frame), bodiless=body is None and not pruned,
    )  # fmt: skip
