"""Whole members of a space for tests: a peer that publishes, a node that receives, an engine for both."""

import asyncio
from collections.abc import Sequence
from hashlib import sha256

import numpy as np

from loremesh.sync.admission import encode_admission
from loremesh.sync.busport import Bus
from loremesh.sync.engine import EngineOptions, SyncEngine
from loremesh.sync.enginevalues import OnOutcome
from loremesh.sync.feed import FeedKey, Position
from loremesh.sync.funnel import admit, admit_carried, admit_following, passed_again
from loremesh.sync.limits import Budgets
from loremesh.sync.opening import Carried
from loremesh.sync.outcomes import Outcome
from loremesh.sync.ports import Placement
from loremesh.sync.repair import live_rows, positions
from loremesh.sync.spacestate import accept
from loremesh.sync.status import SpaceStatus
from loremesh.sync.trust import Policy
from loremesh.sync.wire import Chain, Kind
from tests.sync.world import TIME_MS, Node, Row, Space

QUICK = EngineOptions(
    head_s=0.02,
    quiet_head_s=0.1,
    grace_s=0.02,
    ask_s=0.5,
    silent_s=0.05,
    retry_first_s=0.01,
    retry_max_s=0.2,
    rest_max_s=0.1,
    vector_s=0.05,
    check_s=0.1,
)

Held = dict[FeedKey, tuple[Position, int, bytes]]
"""By chain: where it ends, how many of its rows are live, and their digest."""


class Member:
    """One node of a space with its own feed, on one bus."""

    def __init__(
        self,
        space: Space,
        name: str,
        bus: Bus,
        *,
        budgets: Budgets | None = None,
        policy: Policy | None = None,
        label: str | None = None,
        uses: int = 1,
        on_outcome: OnOutcome | None = None,
        options: EngineOptions = QUICK,
    ) -> None:
        self.space = space
        self.peer = space.peer(name, label, uses, incarnation=sha256(name.encode()).digest()[:16])
        self.node: Node = space.node(name.encode(), policy, budgets)
        self.node.state.incarnation = self.peer.incarnation
        self.lock = asyncio.Lock()
        self.bus = bus
        self.engine = SyncEngine(
            self.node.state, self.admit, self.node.journal, self.peer.identity, lambda: TIME_MS,
            {space.id: bus}, on_outcome=on_outcome, options=options,
        )  # fmt: skip

    async def admit(self, frame: bytes | Carried) -> Sequence[Outcome]:
        """The funnel with this node's lock and clock."""
        async with self.lock:
            state, journal, now_s = self.node.state, self.node.journal, asyncio.get_running_loop().time()
            if isinstance(frame, Carried):
                outcome = await admit_carried(frame, state, journal, now_s, self.node.hour)
            else:
                outcome = await admit(frame, state, journal, now_s, self.node.hour)
            following = admit_following(outcome, state, journal, now_s, self.node.hour)
            return [outcome, *[one async for one in following]]

    async def say(self, kind: Kind, body: bytes) -> None:
        """Record an own frame durably, then publish it."""
        state = self.node.state
        frame = self.peer.signed(kind, body)
        passed = passed_again(frame.header_bytes, frame.signature, frame.body)
        async with self.lock:
            rows = state.index.ensure(passed.ids)
            log = await self.node.journal.store_frame(passed, Placement(rows, self.node.hour, np.empty(0)))
            accept(state, passed, log, self.node.hour)
        await self.engine.publish([frame])

    async def join(self) -> None:
        """Say that this peer was admitted, and start."""
        if Chain.CONTROL not in self.peer.at:
            await self.say(Kind.ADMISSION, encode_admission(self.peer.admission))
        await self.engine.start()

    async def learn(self, text: str, alpha: float, beta: float, version: int) -> None:
        """State one register."""
        await self.say(Kind.EVIDENCE, self.peer.body(Row(text, alpha, beta, version)))

    def held(self) -> Held:
        """What this node holds, comparable between nodes."""
        state, space = self.node.state, self.node.space
        return {key: (at, *live_rows(state, space, key)) for key, at in positions(state, space).items()}

    @property
    def status(self) -> SpaceStatus:
        """The engine's status of the space."""
        (status,) = self.engine.status().spaces
        return status


def alike(*members: Member) -> bool:
    """Whether all hold the same, everybody's feed included."""
    first, *others = [member.held() for member in members]
    everybody = {member.peer.public for member in members}
    return {key.origin for key in first} >= everybody and all(other == first for other in others)
