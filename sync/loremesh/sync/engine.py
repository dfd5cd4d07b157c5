"""The engine: carries frames between a node and the buses of its spaces (DESIGN §4, "The log is the truth").

It decides nothing about frames: what comes goes into the funnel, what is missing is asked for, what is the
node's own goes out. Whatever the bus loses, repeats or reorders, the nodes that can reach one another end
alike.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

import structlog

from loremesh.crypto.identity import Identity
from loremesh.sync.busport import Bus, Cursor, Notice
from loremesh.sync.enginevalues import Admit, EngineOptions, OnOutcome, Surroundings
from loremesh.sync.outcomes import Outcome
from loremesh.sync.ports import Journal
from loremesh.sync.session import Session
from loremesh.sync.spacestate import SyncState
from loremesh.sync.status import Behind, EngineStatus, FeedStatus, SpacePhase, SpaceStatus
from loremesh.sync.wire import SignedFrame

__all__ = [
    "Admit",
    "Behind",
    "EngineOptions",
    "EngineStatus",
    "FeedStatus",
    "OnOutcome",
    "SpacePhase",
    "SpaceStatus",
    "SyncEngine",
]

log = structlog.get_logger(__name__)


class SyncEngine:
    """Drives the buses of a node's spaces.

    The engine owns the buses it is given: it connects them, and closes each with its last space. `state` is
    read, never changed; `admit` is the funnel as the node runs it (see `Admit`). Everything runs on one event
    loop.
    """

    def __init__(
        self,
        state: SyncState,
        admit: Admit,
        journal: Journal,
        identity: Identity,
        clock_ms: Callable[[], int],
        buses: Mapping[bytes, Bus] | None = None,
        *,
        on_outcome: OnOutcome | None = None,
        options: EngineOptions | None = None,
        cursors: Mapping[bytes, Cursor] | None = None,
    ) -> None:
        self._around = Surroundings(
            state, admit, journal, identity, clock_ms, options or EngineOptions(), on_outcome or _ignore
        )
        self._buses = dict(buses or {})
        self._cursors = dict(cursors or {})
        self._sessions: dict[bytes, Session] = {}
        self._observed: list[Bus] = []
        self._running = False

    async def start(self) -> None:
        """Connect the buses and begin; one that cannot be reached is tried until it can.

        Raises BusUnconfigured for a bus that can never work; nothing runs then.
        """
        if self._running:
            return
        self._running = True
        try:
            for bus in _distinct(self._buses.values()):
                self._observe(bus)
            await asyncio.gather(*(bus.connect() for bus in _distinct(self._buses.values())))
        except BaseException:
            await self.stop()
            raise
        for space in self._buses:
            self._begin(space)

    async def stop(self) -> None:
        """End everything and close the buses. What was under way is as if it had not begun."""
        self._running = False
        sessions, self._sessions = self._sessions, {}
        for space, session in sessions.items():
            await session.stop()
            self._cursors[space] = session.status().cursor
        await asyncio.gather(*(bus.close() for bus in _distinct(self._buses.values())))

    async def add_space(self, space: bytes, bus: Bus) -> None:
        """Follow a space that the state has entered. Raises ValueError for one that is followed already."""
        if space in self._buses:
            raise ValueError(f"space {space.hex()} is followed already; remove it first")
        self._buses[space] = bus
        if not self._running:
            return
        self._observe(bus)
        try:
            await bus.connect()
        except BaseException:
            del self._buses[space]
            raise
        self._begin(space)

    async def remove_space(self, space: bytes) -> None:
        """Stop following a space; its bus is closed with the last one on it. An unknown space is none
        already."""
        session = self._sessions.pop(space, None)
        if session is not None:
            await session.stop()
        self._cursors.pop(space, None)
        bus = self._buses.pop(space, None)
        if bus is not None and all(other is not bus for other in self._buses.values()):
            await bus.close()

    async def publish(self, frames: Sequence[SignedFrame]) -> None:
        """Own frames have come into the journal: send them. Returns at once; a bus that is away gets them
        later."""
        for space in {frame.header.space for frame in frames}:
            session = self._sessions.get(space)
            if session is not None:
                session.publish()

    def retry(self) -> None:
        """Trust or a limit was raised: fetch now what was deferred."""
        for session in self._sessions.values():
            session.retry()

    def status(self) -> EngineStatus:
        """The engine as of now."""
        return EngineStatus(self._running, tuple(session.status() for session in self._sessions.values()))

    def _begin(self, space: bytes) -> None:
        session = Session(space, self._buses[space], self._around, self._cursors.get(space, Cursor()))
        self._sessions[space] = session
        session.start()
        session.publish()

    def _observe(self, bus: Bus) -> None:
        if any(known is bus for known in self._observed):
            return
        self._observed.append(bus)

        def noticed(notice: Notice) -> None:
            log.info("bus_notice", kind=notice.kind.value, detail=notice.detail)
            for session in list(self._sessions.values()):
                if session.bus is bus:
                    session.noticed(notice)

        bus.observe(noticed)


def _distinct(buses: Iterable[Bus]) -> list[Bus]:
    """Each bus once, however many spaces share it."""
    found: list[Bus] = []
    for bus in buses:
        if all(bus is not other for other in found):
            found.append(bus)
    return found


def _ignore(space: bytes, outcome: Outcome) -> None:
    """What is told to nobody."""
