"""Trust as a lens: how much each source counts today, worked out from policy and membership (DESIGN §4).

Nothing here changes a register. A lens is a small table by source and by context; `combine` looks at the
columns through it, so that a change of trust is a new lens and leaves no trace of the old one.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
import numpy as np

from loremesh.sync.errors import InvalidInput
from loremesh.sync.fixed import ONE, to_fx, unit_to_fx
from loremesh.sync.registers import Source
from loremesh.sync.slots import Ints, Smalls

DEFAULT_CAP = 32.0
"""Mass (outcomes) that one peer, and one principal, can bring to a block at full trust. 32 outcomes pin a
mean to ±0.09 at worst, so more would add little but weight; and at the trust members get by default, 0.5,
sixteen outcomes of one's own are worth as much as anything one principal says."""

NOBODY = -1
"""In place of a principal: none, or not a single one."""


class PeerTrust(msgspec.Struct, frozen=True):
    """What this node's administrator set for one peer: trust in 2⁻¹⁶, and who set it, why and when."""

    value_fx: int
    revoked: bool = False
    why: str = ""
    who: str = ""
    at_ms: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.value_fx <= ONE:
            raise InvalidInput("trust", f"is {self.value_fx}/{ONE}; it must be from 0 to 1")

    @property
    def counted_fx(self) -> int:
        return 0 if self.revoked else self.value_fx


class Policy(msgspec.Struct, frozen=True):
    """The rules of this node: trust set for peers, who owns them, weights of contexts, the cap.

    `peers` and `principals` are by public key. A principal named here is what this administrator says and
    overrides what invitations say; two peers named alike are one. `multipliers` (each in [0,1], 1 when not
    listed) are by context label, `cap` is in outcomes. Raises InvalidInput for one out of bounds.
    """

    peers: dict[bytes, PeerTrust] = {}
    principals: dict[bytes, str] = {}
    multipliers: dict[str, float] = {}
    cap: float = DEFAULT_CAP

    def __post_init__(self) -> None:
        to_fx(self.cap, "cap")
        for label, multiplier in self.multipliers.items():
            unit_to_fx(multiplier, f"multiplier of context {label!r}")


class Member(msgspec.Struct, frozen=True):
    """One peer admitted to one space, with the principal its invitation names ("": itself alone)."""

    origin: bytes
    principal: str
    space: bytes


class Lens(msgspec.Struct, frozen=True, eq=False):
    """How much each source counts. Arrays by source number unless said otherwise."""

    tau_fx: Ints
    cap_fx: Ints
    peer: Smalls
    """Index into `peers`, which is sorted so that a principal's peers stand together."""
    instance: Smalls
    """Number of the source's (origin, incarnation): the same for one incarnation through several spaces."""
    multiplier_fx: Ints
    """By context index."""
    peers: tuple[bytes, ...]
    principal: Smalls
    """By peer index: index into `principals`."""
    principals: tuple[str, ...]
    """A name to show: what the administrator or an invitation called it, else its first peer's key in hex."""
    echoes: bool
    """Whether some incarnation counts through more than one space."""
    uneven: bool
    """Whether some peer is trusted differently in different spaces."""


def peer_tau_fx(
    policy: Policy, origin: bytes, space: bytes, is_member: bool, member_trust: Mapping[bytes, int]
) -> int:
    """Trust in one peer's statements in one space: its own setting, else the space's for members, else 0."""
    setting = policy.peers.get(origin)
    if setting is not None:
        return setting.counted_fx
    return member_trust.get(space, 0) if is_member else 0


class Principal(msgspec.Struct, frozen=True, order=True):
    """Who owns some peers: `name` to show, `first` the lowest of their keys (b"" when named by policy)."""

    first: bytes
    name: str


def principals_of(
    policy: Policy, origins: Iterable[bytes], members: Collection[Member]
) -> dict[bytes, Principal]:
    """Every peer mentioned → its principal; equal values are one principal.

    Peers admitted to a space under one principal are one; so are those that a peer connects across spaces,
    since whoever owns that peer was invited in both. Names given in different spaces mean nothing to each
    other. A peer that the policy names is what the policy says, and connects nobody.
    """
    parent: dict[tuple[bytes, str], tuple[bytes, str]] = {}

    def root(node: tuple[bytes, str]) -> tuple[bytes, str]:
        while (above := parent.setdefault(node, node)) != node:
            parent[node] = node = parent[above]
        return node

    invited = [m for m in members if m.principal and m.origin not in policy.principals]
    for member in invited:
        parent[root((member.origin, ""))] = root((member.space, member.principal))
    names: dict[tuple[bytes, str], str] = {}
    for member in invited:
        group = root((member.origin, ""))
        names[group] = min(names.get(group, member.principal), member.principal)
    first: dict[tuple[bytes, str], bytes] = {}
    everyone = sorted({*origins, *(member.origin for member in members)})
    for origin in everyone:
        first.setdefault(root((origin, "")), origin)
    found = {}
    for origin in everyone:
        named, group = policy.principals.get(origin), root((origin, ""))
        if named is not None:
            found[origin] = Principal(b"", named)
        else:
            found[origin] = Principal(first[group], names.get(group, origin.hex()))
    return found


def build_lens(
    policy: Policy,
    sources: Sequence[Source],
    members: Collection[Member],
    member_trust: Mapping[bytes, int],
    contexts: Sequence[str],
    own: bytes,
    set_aside: Collection[tuple[bytes, bytes]] = (),
) -> Lens:
    """The lens for these sources (`Registers.sources`) and context labels (`Contexts.labels()`).

    `member_trust` is space → 2⁻¹⁶ of trust; `own` is this node's public key, which counts for nothing here
    since its evidence is in its own state; `set_aside` holds the (origin, incarnation) pairs of proven forks.
    A lens fits the sources and contexts it was built from: more of either need a new one.
    """
    joined = {(member.origin, member.space) for member in members}
    tau = []
    for source in sources:
        instance = (source.origin, source.incarnation)
        counts = source.origin != own and instance not in set_aside
        is_member = (source.origin, source.space) in joined
        tau.append(peer_tau_fx(policy, source.origin, source.space, is_member, member_trust) if counts else 0)
    counted = [(source, tau_fx) for source, tau_fx in zip(sources, tau, strict=True) if tau_fx]
    levels = {(source.origin, tau_fx) for source, tau_fx in counted}
    trusted = {source.origin for source, _ in counted}
    # Whoever counts for nothing also connects nobody: a revoked peer leaves no trace in others' caps.
    principals = principals_of(
        policy, (source.origin for source in sources), [m for m in members if m.origin in trusted]
    )
    owners = sorted({principals[source.origin] for source in sources})
    owner_index = {owner: i for i, owner in enumerate(owners)}
    origins = {source.origin for source in sources}
    peers = sorted(origins, key=lambda origin: (owner_index[principals[origin]], origin))
    peer_index = {origin: i for i, origin in enumerate(peers)}
    instance_index: dict[tuple[bytes, bytes], int] = {}
    instances = [
        instance_index.setdefault((source.origin, source.incarnation), len(instance_index))
        for source in sources
    ]
    multipliers = [
        unit_to_fx(policy.multipliers.get(label, 1.0), f"multiplier of context {label!r}")
        for label in contexts
    ]
    return Lens(
        tau_fx=np.array(tau, np.int64),
        cap_fx=np.full(len(sources), to_fx(policy.cap, "cap"), np.int64),
        peer=np.array([peer_index[source.origin] for source in sources], np.int32),
        instance=np.array(instances, np.int32),
        multiplier_fx=np.array(multipliers, np.int64),
        peers=tuple(peers),
        principal=np.array([owner_index[principals[origin]] for origin in peers], np.int32),
        principals=tuple(owner.name for owner in owners),
        echoes=len({(source.origin, source.incarnation) for source, _ in counted}) < len(counted),
        uneven=len(trusted) < len(levels),
    )


def influence_bound(tau: float, cap: float, mass: float) -> float:
    """The most one principal can move a block's mean: τC/(τC + m) (DESIGN §4), in [0,1].

    `tau` in [0,1], `cap` and `mass` (everyone else's, the prior included) in outcomes. Raises InvalidInput.
    """
    weight = unit_to_fx(tau, "tau") * to_fx(cap, "cap") / ONE / ONE
    others = to_fx(mass, "mass") / ONE
    return weight / (weight + others) if weight else 0.0
