"""What the engine tells about itself: values for `status`, `peers` and `doctor`. Nothing secret in any of
them."""

from enum import Enum

from msgspec import Struct

from loremesh.sync.busport import BusState, Cursor
from loremesh.sync.feed import FeedKey

__all__ = ["UNSEEN", "Behind", "EngineStatus", "FeedStatus", "SpacePhase", "SpaceStatus"]


class SpacePhase(Enum):
    """Where a space stands.

    ```
    STOPPED ──start()──▶ OFFLINE ──connected──▶ SYNCING ──nothing known missing──▶ CURRENT
       ▲                    ▲                     │  ▲                               │
       │                    └──────lost───────────┴──┼─────── lost ──────────────────┤
       │                                             └── a gap, a head, own frames ──┘
       └───────────────────────────── stop(), from anywhere
    ```
    """

    STOPPED = "stopped"
    OFFLINE = "offline"
    SYNCING = "syncing"
    CURRENT = "current"


class FeedStatus(Enum):
    """Where publishing of one own chain stands."""

    PUBLISHED = "published"
    """The bus ends with our last frame."""
    PENDING = "pending"
    """Frames wait to be published."""
    COPIED = "copied"
    """The bus holds a valid frame of ours that we do not hold: the home was copied or restored. Nothing more
    is published in this incarnation."""


UNSEEN = "somebody to show it"
"""Asked for again and again, and nobody showed it: a claim that may be false, so it holds nothing else up."""
MAX_FRAMES_SHOWN = 10**9
"""Numbers that peers claim may be any; what is shown stays a number that every reader of JSON can hold."""


class Behind(Struct, frozen=True):
    """A chain of which frames are known to exist that are not here."""

    key: FeedKey
    position: int
    """The last number held here."""
    known: int
    """The highest number somebody has shown to exist."""
    waiting_for: str
    """Why it is not here yet: 'repair', the limit that holds it up, or UNSEEN."""

    @property
    def frames(self) -> int:
        """How many are missing; a frame held without its body counts as held."""
        return min(max(self.known - self.position, 0), MAX_FRAMES_SHOWN)


class SpaceStatus(Struct, frozen=True):
    """One space, as of now."""

    space: bytes
    phase: SpacePhase
    bus: BusState
    cursor: Cursor
    """How far the bus's stream was read; may be kept and given back at the next start."""
    behind: tuple[Behind, ...]
    own: dict[FeedKey, FeedStatus]
    outcomes: dict[str, int]
    """Frames taken in since start, by outcome (`intake.label`)."""
    counters: dict[str, int]
    """Heads, requests, replies, frames published, and what the bus reported, since start."""
    last_errors: tuple[str, ...]
    """The latest, newest last."""


class EngineStatus(Struct, frozen=True):
    """The engine, as of now."""

    running: bool
    spaces: tuple[SpaceStatus, ...]
