"""Doubles for the tests of the sync core: peers that compose frames, a journal, a receiving node."""

from collections.abc import Sequence
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from loremesh.crypto.identity import Identity, SigningKey
from loremesh.sync.admission import (
    Admission,
    Genesis,
    Invitation,
    SignedInvitation,
    admission_for,
    encode_admission,
    encode_genesis,
    invite,
    space_id,
)
from loremesh.sync.bodies import Evidence, encode_blocks, encode_evidence
from loremesh.sync.content import block_id
from loremesh.sync.feed import FeedKey, ForkProof, Position
from loremesh.sync.fixed import ONE
from loremesh.sync.funnel import admit, admit_following, passed_again
from loremesh.sync.limits import Budgets
from loremesh.sync.outcomes import Outcome, Passed, Reason, Rejected
from loremesh.sync.outgoing import Statement, evidence_bodies
from loremesh.sync.ports import Placement
from loremesh.sync.spacestate import SpaceState, SyncState, accept, enter_space, export
from loremesh.sync.trust import Policy
from loremesh.sync.wire import NO_HASH, Chain, Kind, SignedFrame, compose, header_hash, seal_signed

EPOCH_KEY = bytes(range(32))
TIME_MS = 1_750_000_000_000


class MemoryJournal:
    """A journal in memory. `fail` is raised by the next store."""

    def __init__(self) -> None:
        self.log: list[tuple[Passed, Placement]] = []
        self.proofs: list[ForkProof] = []
        self.fail: Exception | None = None

    async def store_frame(self, passed: Passed, placement: Placement) -> int:
        if self.fail is not None:
            raise self.fail
        if passed.fills:
            for at, (stored, _) in enumerate(self.log):
                if stored.header == passed.header:
                    self.log[at] = (passed, placement)
                    return at + 1
        self.log.append((passed, placement))
        return len(self.log)

    async def store_proof(self, proof: ForkProof) -> None:
        self.proofs.append(proof)

    async def frames(
        self, space: bytes, key: FeedKey, first: int, last: int, budget_bytes: int
    ) -> list[SignedFrame]:
        found: list[SignedFrame] = []
        for passed, _ in sorted(self.log, key=lambda entry: entry[0].header.number):
            header = passed.header
            of = FeedKey(header.origin, header.incarnation, header.chain)
            wanted = header.space == space and of == key and first <= header.number <= last
            if wanted and (budget_bytes > 0 or not found):
                found.append(SignedFrame(header, passed.header_bytes, passed.signature, passed.body))
                budget_bytes -= passed.size_bytes
        return found


class Peer:
    """Somebody who publishes in one space: composes frames and remembers where its chains stand."""

    def __init__(self, seed: bytes, space: bytes, incarnation: bytes = b"i" * 16) -> None:
        self.identity = Identity.from_seed(sha256(seed).digest())
        self.space = space
        self.incarnation = incarnation
        self.at: dict[Chain, Position] = {}
        self.admission = Admission()

    @property
    def public(self) -> bytes:
        return self.identity.public

    def key(self, chain: Chain = Chain.DATA) -> FeedKey:
        return FeedKey(self.public, self.incarnation, chain)

    def signed(
        self,
        kind: Kind,
        body: bytes,
        number: int | None = None,
        previous: bytes | None = None,
        time_ms: int = TIME_MS,
    ) -> SignedFrame:
        """The next frame of its chain; one with a `number` of its own leaves the chain where it is."""
        chain = Chain.CONTROL if kind is Kind.ADMISSION else Chain.DATA
        at = self.at.get(chain, Position())
        astray, number = number is not None, at.number + 1 if number is None else number
        if previous is None:
            previous = NO_HASH if number == 1 else at.hash
        frame = compose(
            self.identity, space=self.space, incarnation=self.incarnation, kind=kind, body=body,
            time_ms=time_ms, number=number, previous=previous,
        )  # fmt: skip
        if not astray:
            self.at[chain] = Position(number, header_hash(frame.header_bytes))
        return frame

    def sealed(
        self,
        kind: Kind,
        body: bytes,
        number: int | None = None,
        previous: bytes | None = None,
        time_ms: int = TIME_MS,
    ) -> bytes:
        return seal_signed(self.signed(kind, body, number, previous, time_ms), 0, EPOCH_KEY)

    def admission_frame(self) -> bytes:
        return self.sealed(Kind.ADMISSION, encode_admission(self.admission))

    def blocks(self, *texts: str) -> bytes:
        return self.sealed(Kind.BLOCKS, encode_blocks(list(texts)))

    def evidence(self, *rows: "Row") -> bytes:
        return self.sealed(Kind.EVIDENCE, self.body(*rows))

    def body(self, *rows: "Row") -> bytes:
        return evidence_body(rows, self.incarnation)


class Row:
    """One register of a statement, in floats."""

    def __init__(
        self,
        text: str,
        alpha: float,
        beta: float,
        version: int = 1,
        context: str = "",
        stability_h: float = 24.0,
        incarnation: bytes | None = None,
    ) -> None:
        self.id = block_id(text)
        self.alpha, self.beta = round(alpha * ONE), round(beta * ONE)
        self.version, self.context, self.stability_h = version, context, stability_h
        self.incarnation = incarnation


def evidence_body(rows: Sequence[Row], incarnation: bytes) -> bytes:
    bodies = evidence_bodies(
        Statement(
            [row.id for row in rows],
            [row.context for row in rows],
            [row.incarnation or incarnation for row in rows],
            np.array([row.alpha for row in rows], np.int64),
            np.array([row.beta for row in rows], np.int64),
            np.array([row.stability_h for row in rows], np.float64),
            np.array([row.version for row in rows], np.int64),
        )
    )
    assert len(bodies) == 1
    return bodies[0]


class Space:
    """A space with one administrator, from which peers and nodes are made."""

    def __init__(
        self, member_trust: float = 0.5, content: bool = True, name: str = "team", cap: float = 32
    ) -> None:
        self.admin_identity = Identity.from_seed(sha256(b"admin of " + name.encode()).digest())
        self.genesis = Genesis(
            1, (self.admin_identity.public,), sha256(name.encode()).digest(), name,
            round(member_trust * ONE), round(cap * ONE), content,
        )  # fmt: skip
        self.genesis_bytes = encode_genesis(self.genesis)
        self.id = space_id(self.genesis_bytes)

    def admin(self) -> Peer:
        return Peer(b"admin of " + self.genesis.name.encode(), self.id)

    def invitation(self, label: str, uses: int = 1) -> tuple[SigningKey, SignedInvitation]:
        key = SigningKey.from_seed(sha256(b"invitation " + label.encode()).digest())
        return key, invite(self.admin_identity, Invitation(self.id, key.public, label, uses, 0))

    def peer(
        self, name: str, label: str | None = None, uses: int = 1, incarnation: bytes = b"i" * 16
    ) -> Peer:
        """A peer invited under `label`, its own name by default. Its admission is still to be sent."""
        peer = Peer(name.encode(), self.id, incarnation)
        key, invited = self.invitation(label or name, uses)
        peer.admission = admission_for(invited, key, peer.public)
        return peer

    def node(
        self, name: bytes = b"receiver", policy: Policy | None = None, budgets: Budgets | None = None
    ) -> "Node":
        return Node(self, name, policy or Policy(), budgets or Budgets())


class Node:
    """A receiving node: its state, its journal, and a clock that tests move."""

    def __init__(self, space: Space, name: bytes, policy: Policy, budgets: Budgets) -> None:
        self.space_of = space
        self.state = SyncState(Identity.from_seed(sha256(name).digest()).public, b"r" * 16, policy, budgets)
        self.journal = MemoryJournal()
        self.now_s = 1000.0
        self.hour = 1.0
        self.enter(space)

    def enter(self, space: Space) -> None:
        enter_space(self.state, space.genesis_bytes, 0, {0: EPOCH_KEY})

    @property
    def space(self) -> SpaceState:
        return self.state.spaces[self.space_of.id]

    async def take(self, *sealed: bytes) -> Outcome:
        """Admit frames; the outcome of the last."""
        for one in sealed:
            outcome = await admit(one, self.state, self.journal, self.now_s, self.hour)
        return outcome

    async def follow(self, outcome: Outcome) -> list[Outcome]:
        """Admit what waited for the frame of this outcome; the outcomes in order."""
        following = admit_following(outcome, self.state, self.journal, self.now_s, self.hour)
        return [one async for one in following]

    async def meet(self, *peers: Peer) -> None:
        for peer in peers:
            await self.take(peer.admission_frame())

    def replayed(self) -> SyncState:
        """A new state from the journal alone, through `accept` alone."""
        state = SyncState(self.state.own, self.state.incarnation, self.state.policy, self.state.budgets)
        for space in self.state.spaces.values():
            enter_space(state, encode_genesis(space.genesis), space.epoch, space.epoch_keys)
        for number, (passed, placement) in enumerate(self.journal.log, 1):
            again = passed_again(passed.header_bytes, passed.signature, passed.body)
            accept(state, again, number, placement.hour, placement.stamps if len(placement.stamps) else None)
        return state


def fingerprint(state: SyncState) -> dict[str, bytes]:
    """Everything in a state that frames can change, comparable."""
    return {
        name: value if isinstance(value, bytes) else np.ascontiguousarray(value).tobytes()
        for name, value in export(state).items()
    } | {"set aside": repr(sorted(state.set_aside)).encode()}


def everything(state: SyncState) -> tuple[dict[str, bytes], str]:
    """The fingerprint, and what is kept about frames that were not taken."""
    return fingerprint(state), repr(state.intake)


def masses(state: SyncState, text: str) -> dict[bytes, tuple[float, float]]:
    """By origin, the evidence held about a text, summed."""
    row = state.index.row(block_id(text))
    if row is None:
        return {}
    held = state.registers.held(state.registers.select(np.array([row], np.int64)))
    sums: dict[bytes, tuple[float, float]] = {}
    for source, alpha, beta in zip(
        held.source.tolist(), held.alpha.tolist(), held.beta.tolist(), strict=True
    ):
        origin = state.registers.sources[source].origin
        before = sums.get(origin, (0.0, 0.0))
        sums[origin] = (before[0] + alpha / ONE, before[1] + beta / ONE)
    return sums


def columns(n: int, value: int) -> NDArray[np.int64]:
    return np.full(n, value, np.int64)


def many_rows(ids: Sequence[bytes], version: int = 1, incarnation: bytes = b"i" * 16) -> bytes:
    """An evidence body about each of these blocks, mass 2."""
    n = len(ids)
    return encode_evidence(
        Evidence(
            sorted(ids),
            [""],
            [incarnation],
            np.arange(n, dtype=np.int64),
            columns(n, 0),
            columns(n, 0),
            columns(n, version * ONE),
            columns(n, ONE),
            np.full(n, 24.0),
            columns(n, version),
        )
    )


async def met(node: Node, space: Space, name: str = "ann") -> Peer:
    """A peer of that name, whose admission the node has taken."""
    peer = space.peer(name)
    await node.meet(peer)
    return peer


def reason_of(outcome: object) -> Reason:
    """Why a frame was rejected."""
    assert isinstance(outcome, Rejected)
    return outcome.reason
