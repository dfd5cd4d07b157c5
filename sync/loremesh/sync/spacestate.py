"""What a node knows of its spaces, and the one way in which a frame changes it.

`accept` is the only mutation by frames, for live traffic and for replay alike. What `Intake` holds (buckets,
waiting frames, tallies) is no part of that state: it is lost at a restart, and nothing but time with it.
"""

from collections.abc import Iterable, Mapping
from typing import assert_never

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.sync.admission import Admittance, Genesis, decode_genesis, space_id
from loremesh.sync.bodies import Blocks, Evidence
from loremesh.sync.errors import InvalidInput, Malformed
from loremesh.sync.feed import START, FeedKey, ForkProof, HeldChain, Position, extend, fill
from loremesh.sync.fixed import MAX_FX
from loremesh.sync.intake import Intake
from loremesh.sync.limits import Budgets
from loremesh.sync.outcomes import Accepted, Passed
from loremesh.sync.providers import Providers
from loremesh.sync.registers import Batch, Registers, Source
from loremesh.sync.rows import BlockIndex, Contexts
from loremesh.sync.trust import Lens, Member, Policy, build_lens, peer_tau_fx
from loremesh.sync.wire import Chain

MAX_MEMBERS = 4096
"""Peers admitted to a space: each costs an entry in several tables; teams and federations are far below."""
MAX_SPACES = 256
"""Spaces of one node."""


class SpaceState(msgspec.Struct):
    """One space. Everything but keys and genesis is what `accept` made of the frames, in log order."""

    space: bytes
    genesis: Genesis
    epoch: int
    """The epoch under which this node seals."""
    epoch_keys: dict[int, bytes]
    members: dict[bytes, Admittance] = {}
    """By origin, in the order of arrival."""
    uses: dict[bytes, int] = {}
    """How many peers each invitation key has admitted."""
    chains: dict[FeedKey, HeldChain] = {}
    incarnations: dict[bytes, set[bytes]] = {}
    """By origin: those it published under, and those it stated rows of."""
    contexts: dict[bytes, set[int]] = {}
    """By origin: indexes of the labels it used."""
    registers: dict[bytes, int] = {}
    """By origin: how many it stated."""

    def __repr__(self) -> str:
        return f"SpaceState({self.genesis.name!r}, {self.space.hex()[:16]}…)"

    def position(self, key: FeedKey) -> Position:
        """How far a chain is held."""
        chain = self.chains.get(key)
        return START if chain is None else chain.position

    def stored_bytes(self, origin: bytes) -> int:
        """Of all data frames held from one peer."""
        return sum(
            chain.stored_bytes
            for key, chain in self.chains.items()
            if key.origin == origin and key.chain is Chain.DATA
        )


class SyncState:
    """All spaces of one node, and the tables they share. One task at a time works on it."""

    def __init__(self, own: bytes, incarnation: bytes, policy: Policy, budgets: Budgets) -> None:
        self.own = own
        """This node's public key."""
        self.incarnation = incarnation
        """The incarnation under which it publishes now."""
        self.policy = policy
        """Replace it to change trust: the lens follows."""
        self.budgets = budgets
        self.spaces: dict[bytes, SpaceState] = {}
        self.index = BlockIndex()
        self.contexts = Contexts()
        self.registers = Registers()
        self.providers = Providers()
        self.set_aside: dict[tuple[bytes, bytes], ForkProof] = {}
        """(origin, incarnation) of proven forks, in all spaces."""
        self.intake = Intake()
        self._lens: tuple[object, Lens] | None = None

    def lens(self) -> Lens:
        """How much each source counts under today's policy, memberships and proofs."""
        sources, labels = self.registers.sources, self.contexts.labels()
        members = sum(len(space.members) for space in self.spaces.values())
        stands_for = (self.policy, len(sources), len(labels), members, len(self.spaces), len(self.set_aside))
        if self._lens is None or self._lens[0] != stands_for:
            trust = {space.space: space.genesis.member_trust_fx for space in self.spaces.values()}
            lens = build_lens(
                self.policy, sources, self.members(), trust, labels, self.own, self.set_aside.keys()
            )
            caps = [
                self.spaces[one.space].genesis.cap_fx if one.space in self.spaces else MAX_FX
                for one in sources
            ]
            # A space may ask for a smaller cap than this node's; a larger one is not its to ask for.
            capped = np.minimum(lens.cap_fx, np.array(caps, np.int64))
            self._lens = (stands_for, msgspec.structs.replace(lens, cap_fx=capped))
        return self._lens[1]

    def members(self) -> list[Member]:
        """Everybody admitted anywhere."""
        return [
            Member(origin, admittance.principal, space.space)
            for space in self.spaces.values()
            for origin, admittance in space.members.items()
        ]

    def trust_fx(self, space: SpaceState, origin: bytes) -> int:
        """Today's trust in what `origin` states in `space`, in 2⁻¹⁶."""
        trust = {space.space: space.genesis.member_trust_fx}
        return peer_tau_fx(self.policy, origin, space.space, origin in space.members, trust)

    def principal(self, space: SpaceState, origin: bytes) -> str:
        """Whose budgets in `space` a peer draws on. Names of different kinds never meet."""
        named = self.policy.principals.get(origin)
        if named is not None:
            return f"policy/{named}"
        member = space.members.get(origin)
        return f"invited/{member.principal}" if member and member.principal else f"peer/{origin.hex()}"

    def registers_of(self, space: SpaceState, principal: str) -> int:
        """How many registers a principal's peers have stated in a space."""
        return sum(n for origin, n in space.registers.items() if self.principal(space, origin) == principal)


def enter_space(
    state: SyncState, genesis_bytes: bytes, epoch: int, epoch_keys: dict[int, bytes]
) -> SpaceState:
    """Begin to follow a space. Raises as `space_to_enter`."""
    space = space_to_enter(state, genesis_bytes, epoch, epoch_keys)
    state.spaces[space.space] = space
    return space


def space_to_enter(
    state: SyncState, genesis_bytes: bytes, epoch: int, epoch_keys: dict[int, bytes]
) -> SpaceState:
    """The space as it would be entered, for a caller that has to store it first. Changes nothing.

    Raises `InvalidInput` for what is no genesis, a space entered already, or one too many.
    """
    try:
        genesis = decode_genesis(genesis_bytes)
    except Malformed as wrong:
        raise InvalidInput(wrong.field, wrong.reason) from None
    space = space_id(genesis_bytes)
    if space in state.spaces:
        raise InvalidInput("space", f"{genesis.name!r} ({space.hex()}) is one this node is in already")
    if len(state.spaces) >= MAX_SPACES:
        raise InvalidInput(
            "space", f"{genesis.name!r} would be one more than {MAX_SPACES}: leave another first"
        )
    if epoch not in epoch_keys:
        raise InvalidInput("epoch", f"{epoch} has no key among those given")
    return SpaceState(space, genesis, epoch, dict(epoch_keys))


def set_aside(state: SyncState, proof: ForkProof) -> None:
    """Count nothing of a forked incarnation any more, in any space. The first proof is kept."""
    state.set_aside.setdefault((proof.origin, proof.incarnation), proof)


def accept(
    state: SyncState,
    passed: Passed,
    frame: int,
    hour: float,
    stamps: NDArray[np.float64] | None = None,
    rows: NDArray[np.int64] | None = None,
) -> Accepted:
    """Take a frame that passed and is stored as log number `frame`: the only way frames change state.

    `hour` is the active hour of its arrival and `stamps` its rows' freshness stamps; a replay passes what was
    stored with it. `rows` are the local rows of its ids where they have been given out already. Raises
    `InvalidInput` for a frame out of turn, which comes of a damaged log only.
    """
    space = state.spaces[passed.space]
    header = passed.header
    key = FeedKey(header.origin, header.incarnation, header.chain)
    chain = space.chains.get(key)
    if chain is None:
        chain = HeldChain()
    if passed.fills:
        fill(chain, header.number, len(passed.body or b""))
    else:
        extend(chain, header.number, passed.hash, frame, passed.size_bytes, passed.bodiless)
    space.chains[key] = chain
    space.incarnations.setdefault(header.origin, set()).add(header.incarnation)
    effect = passed.effect
    if rows is None:
        rows = state.index.ensure(passed.ids)
    match effect:
        case Evidence():
            return _accept_evidence(state, space, passed, effect, rows, frame, hour, stamps)
        case Blocks():
            source = state.registers.source(Source(header.origin, header.incarnation, passed.space))
            state.providers.add(rows, source, hour)
            return Accepted(np.sort(rows), rows, _NO_STAMPS, [])
        case Admittance():
            if header.origin not in space.members:
                space.members[header.origin] = effect
                space.uses[effect.invitation_key] = space.uses.get(effect.invitation_key, 0) + 1
                return Accepted(_NO_ROWS, _NO_ROWS, _NO_STAMPS, [], header.origin)
            return Accepted(_NO_ROWS, _NO_ROWS, _NO_STAMPS, [])
        case None:
            return Accepted(_NO_ROWS, _NO_ROWS, _NO_STAMPS, [])
        case _:
            assert_never(effect)


_NO_ROWS: NDArray[np.int64] = np.empty(0, np.int64)
_NO_STAMPS: NDArray[np.float64] = np.empty(0, np.float64)


def batches(
    state: SyncState, space: bytes, origin: bytes, evidence: Evidence, rows: NDArray[np.int64]
) -> Iterable[tuple[Source, NDArray[np.int64] | slice, Batch]]:
    """The evidence by source: (source, which rows of the frame, the batch). Changes nothing.

    `rows` are the local rows of `evidence.ids`, −1 where unknown; contexts that are unknown become −1.
    """
    found = [state.contexts.find(label) for label in evidence.contexts]
    contexts = np.array([-1 if number is None else number for number in found], np.int32)[evidence.context]
    at = rows[evidence.block]
    for number, incarnation in enumerate(evidence.incarnations):
        whole = len(evidence.incarnations) == 1
        part = slice(None) if whole else np.flatnonzero(evidence.incarnation == number)
        yield (
            Source(origin, incarnation, space),
            part,
            Batch(
                at[part],
                contexts[part],
                evidence.alpha[part],
                evidence.beta[part],
                evidence.stability_h[part],
                evidence.version[part],
            ),
        )


def _accept_evidence(
    state: SyncState,
    space: SpaceState,
    passed: Passed,
    evidence: Evidence,
    rows: NDArray[np.int64],
    frame: int,
    hour: float,
    stamps: NDArray[np.float64] | None,
) -> Accepted:
    origin = passed.header.origin
    used = space.contexts.setdefault(origin, set())
    used.update(state.contexts.ensure(label) for label in evidence.contexts)
    space.incarnations[origin].update(evidence.incarnations)
    after = np.empty(len(evidence.block), np.float64)
    changed: list[NDArray[np.int64]] = []
    dead: set[int] = set()
    for source, part, batch in batches(state, space.space, origin, evidence, rows):
        before = state.registers.count(source)
        given = None if stamps is None else stamps[part]
        known = None if passed.slots is None else passed.slots[part]
        change = state.registers.apply(source, batch, frame, hour, given, known)
        after[part] = change.stamps
        changed.append(change.rows)
        dead.update(change.frames_dead)
        new = state.registers.count(source) - before
        space.registers[origin] = space.registers.get(origin, 0) + new
    if state.registers.live_count(frame):
        dead.discard(frame)  # an earlier batch of it brought none, a later one did
    merged = changed[0] if len(changed) == 1 else np.unique(np.concatenate(changed))
    return Accepted(merged, _NO_ROWS, after, sorted(dead))


class _SpaceRecord(msgspec.Struct, array_like=True):
    """A space's state by frames, for the checkpoint: no genesis and no keys, which the store keeps sealed."""

    space: bytes
    members: list[tuple[bytes, Admittance]]
    uses: dict[bytes, int]
    chains: list[tuple[FeedKey, Position, bytes, bytes, list[int], int]]
    incarnations: dict[bytes, list[bytes]]
    contexts: dict[bytes, list[int]]
    registers: dict[bytes, int]


def export(state: SyncState) -> dict[str, NDArray[np.generic] | bytes]:
    """Everything that `accept` made, as named columns and bytes for the checkpoint."""
    records = [
        _SpaceRecord(
            space.space,
            list(space.members.items()),
            space.uses,
            [
                (
                    key,
                    one.position,
                    one.tags.tobytes(),
                    one.frames.tobytes(),
                    sorted(one.bodiless),
                    one.stored_bytes,
                )
                for key, one in space.chains.items()
            ],
            {origin: sorted(of) for origin, of in space.incarnations.items()},
            {origin: sorted(of) for origin, of in space.contexts.items()},
            space.registers,
        )
        for space in state.spaces.values()
    ]
    return {
        "index": state.index.export(),
        "contexts": msgspec.msgpack.encode(state.contexts.labels()),
        "spaces": msgspec.msgpack.encode(records),
        **{f"registers/{name}": column for name, column in state.registers.export().items()},
        **{f"providers/{name}": column for name, column in state.providers.export().items()},
    }


def load(state: SyncState, exported: Mapping[str, NDArray[np.generic] | bytes]) -> None:
    """Put back what `export` gave into a state that has entered the same spaces and nothing else.

    Raises `InvalidInput`, `KeyError` or `ValueError` where it does not fit; the state is then not to be used.
    """
    state.index = BlockIndex.load(bytes(exported["index"]))
    state.contexts = Contexts.load(msgspec.msgpack.decode(bytes(exported["contexts"]), type=list[str]))
    state.registers = Registers.load(_part(exported, "registers/"))
    providers = _part(exported, "providers/")
    state.providers = Providers.load({name: np.asarray(column) for name, column in providers.items()})
    records = msgspec.msgpack.decode(bytes(exported["spaces"]), type=list[_SpaceRecord])
    if {record.space for record in records} != state.spaces.keys():
        raise InvalidInput(
            "checkpoint", "is of other spaces than this home has: it is made anew from the log"
        )
    for record in records:
        space = state.spaces[record.space]
        space.members = dict(record.members)
        space.uses = record.uses
        for key, position, tags, frames, bodiless, stored_bytes in record.chains:
            chain = HeldChain(position, bodiless=set(bodiless), stored_bytes=stored_bytes)
            chain.tags.frombytes(tags)
            chain.frames.frombytes(frames)
            space.chains[key] = chain
        space.incarnations = {origin: set(of) for origin, of in record.incarnations.items()}
        space.contexts = {origin: set(of) for origin, of in record.contexts.items()}
        space.registers = record.registers


def _part(
    exported: Mapping[str, NDArray[np.generic] | bytes], prefix: str
) -> dict[str, NDArray[np.generic] | bytes]:
    return {name.removeprefix(prefix): value for name, value in exported.items() if name.startswith(prefix)}
