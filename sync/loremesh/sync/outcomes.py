"""What becomes of a frame: the closed set of outcomes of the funnel (DESIGN §4, "One funnel").

`Passed` is a frame that every check let through and that has not changed anything yet.
"""

from enum import Enum

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.sync.admission import Admittance
from loremesh.sync.bodies import Blocks, Evidence
from loremesh.sync.feed import ForkProof, Want
from loremesh.sync.wire import Header


class Reason(Enum):
    """Why a frame is refused for good. The value is what people read."""

    TOO_LARGE = "larger than a frame may be"
    NOT_A_FRAME = "not a sealed frame of a known format"
    UNKNOWN_SPACE = "of a space that this node is not in"
    UNKNOWN_EPOCH = "sealed under a key that this node does not hold"
    SEAL_BROKEN = "altered, or sealed under another key"
    MALFORMED = "breaks the wire format"
    BODY_MISMATCH = "has another body than was signed"
    BAD_SIGNATURE = "not signed by the peer it names"
    NOT_A_MEMBER = "a message of a peer that was not admitted to the space"
    BAD_ADMISSION = "an admission that does not admit"
    INVITATION_USED = "its invitation has admitted as many peers as it may"
    SPACE_FULL = "an admission to a space that has all the members it may have"
    NO_CONTENT = "has texts, in a space that shares statistics only"
    TOO_MANY_INCARNATIONS = "one incarnation more than a peer may have"
    TOO_MANY_CONTEXTS = "one context more than a block, a peer or this home may have"
    TOO_MANY_REGISTERS = "one register more than a principal may have"
    FORK = "contradicts what its origin signed before"
    SET_ASIDE = "of an incarnation that was set aside for a fork"
    COPIED = "signed by this very node, which does not hold it: the home was copied or restored"
    WRONG_CHAIN = "not a frame of a feed, or a frame where a message was due"


class Limit(Enum):
    """Which bound makes a frame wait (`limits`, `sync/README.md`, "Limits")."""

    BYTES = "bytes per second"
    FRAMES = "frames per second"
    MASS = "change of mass per hour"
    BLOCKS = "new blocks per hour"
    CONTROL = "control frames per second"
    QUARANTINE = "bytes kept from a peer without trust"


class Accepted(msgspec.Struct, frozen=True, eq=False):
    """What taking a frame changed."""

    rows: NDArray[np.int64]
    """Local rows whose registers or providers changed, ascending, each once."""
    content: NDArray[np.int64]
    """Local row of each text of a blocks frame, in the frame's order; empty for other kinds."""
    stamps: NDArray[np.float64]
    """Freshness stamp of each evidence row afterwards, in active hours."""
    frames_dead: list[int]
    """Log numbers of frames that have no live row left and may be pruned to their headers."""
    member: bytes = b""
    """The origin that was admitted, if this frame did that."""


class Charge(msgspec.Struct, frozen=True):
    """What a frame costs its principal's buckets."""

    principal: str = ""
    size_bytes: int = 0
    mass_fx: int = 0
    blocks: int = 0
    exempt: bool = False
    """Own frames are charged nothing here: the node limits its own outcomes."""


class Passed(msgspec.Struct, frozen=True, eq=False):
    """A frame all checks let through, decoded. Nothing has changed yet."""

    space: bytes
    header: Header
    header_bytes: bytes
    signature: bytes
    body: bytes | None
    """None: only the header is there, the body having been pruned here or where the frame came from."""
    hash: bytes
    """Of the header bytes: what the chain's next frame names."""
    effect: Evidence | Blocks | Admittance | None
    """What the body says; None without a body."""
    size_bytes: int
    """Header, signature and body."""
    rows: NDArray[np.int64] | None = None
    """Of `ids`: the local rows they had when the frame was examined, −1 for those without."""
    stamps: NDArray[np.float64] | None = None
    """Of evidence: the freshness stamp each row will have once taken, in active hours."""
    slots: NDArray[np.int64] | None = None
    """Of evidence: where each row's register is, −1 for a new one."""
    fills: bool = False
    """The header is held already; this brings the body that was missing."""
    bodiless: bool = False
    """The body was never here. One that was, and was pruned when no row of it was live, is not missed."""
    trusted: bool = True
    """Whether its origin counts here now (trust above 0, or this node itself)."""
    charge: Charge = Charge()

    @property
    def ids(self) -> list[bytes]:
        """The block ids it is about, in the order in which they get local rows."""
        return self.effect.ids if isinstance(self.effect, Evidence | Blocks) else []


class Applied(msgspec.Struct, frozen=True, eq=False):
    """Taken: stored under log number `frame`, and counted as its origin is trusted."""

    passed: Passed
    frame: int
    accepted: Accepted

    @property
    def origin(self) -> bytes:
        """Who signed it."""
        return self.passed.header.origin


class Quarantined(msgspec.Struct, frozen=True, eq=False):
    """Taken and stored, counting for nothing: its origin has no trust. Raising that is enough to count it."""

    passed: Passed
    frame: int
    accepted: Accepted

    @property
    def origin(self) -> bytes:
        """Who signed it."""
        return self.passed.header.origin


class Duplicate(msgspec.Struct, frozen=True):
    """Held already; nothing changed."""

    origin: bytes


class Buffered(msgspec.Struct, frozen=True):
    """It comes after frames that are not here yet. `kept`: it waits in the gap buffer, or else is lost."""

    origin: bytes
    missing: Want
    kept: bool = True


class Deferred(msgspec.Struct, frozen=True):
    """Not taken for now: `limit` is used up until about `until_s`. `want` fetches it again."""

    origin: bytes
    limit: Limit
    until_s: float
    want: Want


class Rejected(msgspec.Struct, frozen=True):
    """Refused; nothing of it counts, not even its sound rows."""

    reason: Reason
    detail: str
    origin: bytes = b""
    """Who signed it; empty while no signature was verified, so that nobody is blamed for another's bytes."""
    proof: ForkProof | None = None


Outcome = Applied | Duplicate | Buffered | Deferred | Quarantined | Rejected
