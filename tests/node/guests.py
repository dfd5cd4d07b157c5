"""Peers that are not nodes: they compose frames into a node's space, honest or not, and hand them over."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from loremesh.crypto.identity import SigningKey
from loremesh.node.node import Node
from loremesh.sync.admission import admission_for, encode_admission
from loremesh.sync.bodies import encode_blocks
from loremesh.sync.outcomes import Outcome
from loremesh.sync.token import Token, decode_token
from loremesh.sync.wire import Kind, seal_signed
from tests.sync.world import Peer, Row, evidence_body


class Guest:
    """A peer with a token to a space."""

    def __init__(self, name: str, token: str) -> None:
        self.token: Token = decode_token(token)
        self.peer = Peer(name.encode(), self.token.space, sha256(name.encode()).digest()[:16])
        key = SigningKey.from_seed(self.token.seed)
        self.admission = admission_for(self.token.invited, key, self.peer.public, name)

    @property
    def id(self) -> str:
        """Its peer id."""
        return self.peer.identity.peer_id

    def frame(self, kind: Kind, body: bytes) -> bytes:
        """Its next frame, sealed."""
        return seal_signed(self.peer.signed(kind, body), self.token.epoch, self.token.epoch_key)

    def admitted(self) -> bytes:
        return self.frame(Kind.ADMISSION, encode_admission(self.admission))

    def blocks(self, *texts: str) -> bytes:
        return self.frame(Kind.BLOCKS, encode_blocks(list(texts)))

    def evidence(self, *rows: Row) -> bytes:
        return self.frame(Kind.EVIDENCE, evidence_body(rows, self.peer.incarnation))


async def take(node: Node, *frames: bytes) -> list[Outcome]:
    """Have a node admit frames as its bus would hand them over; what each came to."""
    outcomes: list[Outcome] = []
    for frame in frames:
        found: Sequence[Outcome] = await node.sharing.admit(frame)
        outcomes.append(found[0])
    return outcomes


async def guest_in(node: Node, name: str = "bob", trust: float = 0.5) -> Guest:
    """A peer in a new space of the node, admitted."""
    guest = Guest(name, (await node.space_create(f"space of {name}", member_trust=trust)).token)
    await take(node, guest.admitted())
    return guest
