"""Statements, as hypothesis makes them and as `Registers` takes them."""

from collections.abc import Sequence

import msgspec
import numpy as np
from hypothesis import strategies as st

from loremesh.sync.combine import Shares, shares
from loremesh.sync.fixed import MAX_FX, ONE
from loremesh.sync.registers import Batch, Change, Registers, Source
from loremesh.sync.trust import Lens, Member, PeerTrust, Policy, build_lens
from tests.sync.oracle import Share, Statement, Terms

OWN = b"o" * 32
PEERS = tuple(bytes([65 + i]) * 32 for i in range(4))
SPACES = (b"s" * 32, b"t" * 32)
INCARNATIONS = (b"1" * 16, b"2" * 16)
ROWS = 3
CONTEXTS = ("", "deploy")
ALL = np.arange(ROWS)
EVERYWHERE = tuple(Member(peer, "", space) for peer in PEERS for space in SPACES)

# Small masses meet often in one block; the large ones go over caps and, multiplied, over 63 bits.
_part = st.one_of(st.integers(0, 4 * ONE), st.integers(0, 200 * ONE), st.integers(0, MAX_FX // 2))


@st.composite
def honest(draw: st.DrawFn, peers: Sequence[bytes] = PEERS, least: int = 0) -> list[Statement]:
    """Statements in which one version of a register has one value, through any spaces."""
    registers = draw(
        st.dictionaries(
            st.tuples(
                st.sampled_from(peers),
                st.sampled_from(INCARNATIONS),
                st.integers(0, ROWS - 1),
                st.integers(0, 1),
            ),
            st.lists(st.tuples(_part, _part, st.floats(2.4, 2e5)), min_size=1, max_size=3),
            min_size=least,
            max_size=10,
        )
    )
    return [
        Statement(origin, incarnation, space, row, context, alpha, beta, stability_h, version)
        for (origin, incarnation, row, context), values in registers.items()
        for version, (alpha, beta, stability_h) in enumerate(values, 1)
        for space in draw(st.lists(st.sampled_from(SPACES), unique=True, max_size=2))
    ]


class World:
    """One set of terms, as a policy for the lens and as functions for the oracle."""

    def __init__(
        self,
        set_trust: dict[bytes, int],
        member_trust: tuple[int, ...],
        owner: tuple[str, ...],
        multipliers: tuple[float, ...],
        caps: tuple[float, ...],
    ) -> None:
        self.policy = Policy(
            peers={peer: PeerTrust(tau) for peer, tau in set_trust.items()},
            principals=dict(zip(PEERS, owner, strict=True)),
            multipliers=dict(zip(CONTEXTS, multipliers, strict=True)),
            cap=min(caps),
        )
        self.caps_fx = {space: round(cap * ONE) for space, cap in zip(SPACES, caps, strict=True)}
        self.member_trust = dict(zip(SPACES, member_trust, strict=True))
        self.terms = Terms(
            tau=lambda origin, space: set_trust.get(origin, self.member_trust[space]),
            principal=lambda origin: owner[PEERS.index(origin)],
            multiplier=lambda context: round(multipliers[context] * ONE),
            cap=self.caps_fx.__getitem__,
        )

    def lens(self, registers: Registers) -> Lens:
        lens = lens_of(registers, self.policy, self.member_trust)
        caps = [self.caps_fx[source.space] for source in registers.sources]  # as policies of spaces will say
        return msgspec.structs.replace(lens, cap_fx=np.array(caps, np.int64))


def worlds() -> st.SearchStrategy[World]:
    """Any trust, owners, multipliers and cap; members of two spaces are mostly trusted differently."""
    trust = st.integers(0, ONE)
    return st.builds(
        World,
        set_trust=st.dictionaries(st.sampled_from(PEERS), trust, max_size=2),
        member_trust=st.tuples(trust, trust),
        owner=st.tuples(*[st.sampled_from(["x", "y"])] * len(PEERS)),
        multipliers=st.tuples(*[st.sampled_from([0.0, 0.25, 0.7, 1.0])] * len(CONTEXTS)),
        caps=st.tuples(*[st.sampled_from([0.0, 0.5, 3.3, 32.0, 2.0**15, 2.0**20])] * len(SPACES)),
    )


def lens_of(
    registers: Registers,
    policy: Policy | None = None,
    member_trust: dict[bytes, int] | None = None,
    members: Sequence[Member] = EVERYWHERE,
) -> Lens:
    """A lens in which every peer is a member everywhere, at trust 1 unless told otherwise."""
    trust = dict.fromkeys(SPACES, ONE) if member_trust is None else member_trust
    return build_lens(policy or Policy(), registers.sources, members, trust, CONTEXTS, OWN)


def say(
    origin: bytes,
    alpha: float,
    beta: float = 0,
    *,
    incarnation: bytes = INCARNATIONS[0],
    space: bytes = SPACES[0],
    row: int = 0,
    context: int = 0,
    stability_h: float = 24.0,
    version: int = 1,
) -> Statement:
    """A statement, its masses in outcomes."""
    masses = round(alpha * ONE), round(beta * ONE)
    return Statement(origin, incarnation, space, row, context, *masses, stability_h, version)


def batch_of(statements: Sequence[Statement]) -> Batch:
    return Batch(
        rows=np.array([s.row for s in statements], np.int64),
        contexts=np.array([s.context for s in statements], np.int32),
        alpha=np.array([s.alpha for s in statements], np.int64),
        beta=np.array([s.beta for s in statements], np.int64),
        stability_h=np.array([s.stability_h for s in statements], np.float64),
        version=np.array([s.version for s in statements], np.int64),
    )


def state(
    registers: Registers, statements: Sequence[Statement], frame: int = 1, hour: float = 1.0
) -> list[Change]:
    """Apply them in as few frames as can be: one source each, no register twice."""
    frames: list[tuple[Source, dict[tuple[int, int], Statement]]] = []
    for s in statements:
        source = Source(s.origin, s.incarnation, s.space)
        for of, held in frames:
            if of == source and (s.row, s.context) not in held:
                held[s.row, s.context] = s
                break
        else:
            frames.append((source, {(s.row, s.context): s}))
    return [
        registers.apply(source, batch_of(list(held.values())), frame + i, hour)
        for i, (source, held) in enumerate(frames)
    ]


def stated(statements: Sequence[Statement]) -> Registers:
    registers = Registers()
    state(registers, statements)
    return registers


def by_name(found: Shares, lens: Lens) -> dict[tuple[int, int, bytes], Share]:
    """(row, context, origin) → (α, β), each key once."""
    columns = (found.row, found.context, found.peer, found.alpha, found.beta)
    named = {
        (row, context, lens.peers[peer]): (alpha, beta)
        for row, context, peer, alpha, beta in zip(*(column.tolist() for column in columns), strict=True)
    }
    assert len(named) == len(found.row)
    return named


def shares_by_name(registers: Registers, lens: Lens) -> dict[tuple[int, int, bytes], Share]:
    return by_name(shares(registers, ALL, lens), lens)
