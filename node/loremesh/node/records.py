"""What a home keeps besides its log, sealed under the home's key: who it is, its spaces, its bus."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from loremesh.node.errors import NodeError

IDENTITY_KEY = "identity"
BUS_KEY = "bus"
PROOF_PREFIX = "fork-proof/"
"""A proof's record is named by this, the forked incarnation's origin and its id, in hex."""
SPACE_PREFIX = "space/"
"""A space's record is named by this and its id in hex."""


class IdentityRecord(msgspec.Struct, frozen=True, array_like=True):
    """The node's seed (32 bytes, secret) and the name people gave it."""

    seed: bytes
    name: str

    def __repr__(self) -> str:
        return f"IdentityRecord({self.name!r})"


class GrantRecord(msgspec.Struct, frozen=True, array_like=True):
    """A bus user that a token was made for: its public nkey, the space it may use."""

    public: str
    space: bytes


class BusRecord(msgspec.Struct, frozen=True, array_like=True):
    """This home's bus: the embedded server's port (0: none chosen yet) with the users it lets in.

    `url` is another server to use instead, '' for the embedded one.
    """

    port: int = 0
    url: str = ""
    grants: tuple[GrantRecord, ...] = ()


class SpaceRecord(msgspec.Struct, frozen=True, array_like=True):
    """All that this home needs to take part in a space.

    `server` is the URL of its bus, '' for this home's own; `credential` the secret nkey seed to use there, ''
    for this node's own user. `admission` is the body of the admission frame.
    """

    genesis: bytes
    epoch: int
    epoch_keys: dict[int, bytes]
    server: str
    credential: str
    admission: bytes
    administrator: bool

    def __repr__(self) -> str:
        return f"SpaceRecord(server={self.server!r}, administrator={self.administrator})"


Record = TypeVar("Record", bound=msgspec.Struct)


def encode_record(record: msgspec.Struct) -> bytes:
    """The record's bytes, as they are sealed."""
    return msgspec.msgpack.encode(record)


def decode_record(data: bytes, kind: type[Record]) -> Record:
    """The record in `data`. Raises NodeError when another release wrote it."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise NodeError(
            f"the home's {kind.__name__} cannot be read: {error}",
            "Open the home with the release of loremesh that wrote it",
        ) from error
