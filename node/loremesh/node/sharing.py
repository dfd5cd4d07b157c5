"""Sharing: the spaces a node is in, what it says there, and what it takes from there.

The buses of its spaces are held by the engine; the embedded server, when this home has one, by `Hosting`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial
from typing import Final

import structlog

from loremesh.crypto.identity import SigningKey
from loremesh.crypto.spacekeys import new_epoch_key
from loremesh.node.errors import Conflict, Unavailable, UnknownThing, UsageError
from loremesh.node.ground import Ground
from loremesh.node.hosting import Hosting, Server
from loremesh.node.records import SPACE_PREFIX, SpaceRecord, encode_record
from loremesh.node.results import Invited, SpaceSeen
from loremesh.node.stating import issue, state_news
from loremesh.node.wording import reword
from loremesh.sync.admission import (
    GENESIS_FORMAT,
    Admission,
    Genesis,
    Invitation,
    admission_for,
    encode_admission,
    encode_genesis,
    invite,
    space_id,
)
from loremesh.sync.busport import Bus
from loremesh.sync.engine import EngineOptions, EngineStatus, SpacePhase, SyncEngine
from loremesh.sync.feed import FeedKey
from loremesh.sync.fixed import ONE, to_fx, unit_to_fx
from loremesh.sync.funnel import admit, admit_carried, admit_following
from loremesh.sync.opening import Carried
from loremesh.sync.outcomes import Applied, Outcome, Quarantined, Rejected
from loremesh.sync.spacestate import SpaceState, enter_space, space_to_enter
from loremesh.sync.status import FeedStatus, SpaceStatus
from loremesh.sync.tasks import end_tasks, trace
from loremesh.sync.token import decode_token, encode_token
from loremesh.sync.wire import Chain, Kind, SignedFrame

log = structlog.get_logger(__name__)

FIRST_EPOCH: Final = 1
STATE_ROWS: Final = 2_048
"""Rows looked at in one go for news: the lock is free in between."""
SETTLE_S: Final = 15.0
SETTLE_POLL_S: Final = 0.02
LAST_WORDS_S: Final = 2.0
"""A node that ends waits this long for the bus to take its last frames; they are on disk and go out at the
next start all the same."""


class Sharing:
    """One node's part in its spaces."""

    def __init__(self, ground: Ground, spaces: dict[bytes, SpaceRecord], hosting: Hosting) -> None:
        self._ground = ground
        self._records = dict(spaces)
        self._hosting = hosting
        self._engine: SyncEngine | None = None
        self._buses: dict[Server, Bus] = {}
        self._pending: dict[bytes, set[int]] = {}
        self._news = asyncio.Event()
        self._publisher: asyncio.Task[None] | None = None
        self._entering = asyncio.Lock()
        ground.on_touch = self._news.set

    async def create(self, name: str, member_trust: float, uses: int) -> Invited:
        """Found a space, of which this node is the administrator, and make its first token."""
        async with self._entering:
            space = await self._found(name, member_trust, uses)
        return await self.invite(space.space.hex(), uses)

    async def _found(self, name: str, member_trust: float, uses: int) -> SpaceState:
        own = self._ground.identity.public
        genesis = Genesis(
            GENESIS_FORMAT,
            (own,),
            self._ground.parts.random_bytes(32),
            name,
            unit_to_fx(member_trust, "member_trust"),
            to_fx(self._ground.memory.sync.policy.cap, "cap"),
            content=True,
        )
        if any(space.genesis.name == name for space in self._ground.memory.sync.spaces.values()):
            raise Conflict(f"this node is in a space named {name!r} already", "choose another name")
        _check_uses(uses)
        record = SpaceRecord(
            encode_genesis(genesis),
            FIRST_EPOCH,
            {FIRST_EPOCH: new_epoch_key()},
            server="",
            credential="",
            admission=encode_admission(Admission(name=self._ground.name)),
            administrator=True,
        )
        await self._hosting.choose()
        return await self._enter(record)

    async def invite(self, named: str, uses: int) -> Invited:
        """A token that admits one principal, with `uses` keys at most."""
        _check_uses(uses)
        space = self.space_named(named)
        record = self._records[space.space]
        if not record.administrator:
            raise Conflict(
                f"this node is no administrator of {space.genesis.name!r}", "ask one of them for a token"
            )
        key = SigningKey.from_seed(self._ground.parts.random_bytes(32))
        principal = f"guest-{key.public.hex()[:12]}"
        invited = invite(self._ground.identity, Invitation(space.space, key.public, principal, uses, 0))
        server = await self._hosting.admit_guest(space.space)
        token = encode_token(
            server.url,
            server.credential,
            record.genesis,
            record.epoch,
            record.epoch_keys[record.epoch],
            key,
            invited,
        )
        return Invited(space.space.hex(), token)

    async def join(self, text: str) -> SpaceSeen:
        """Enter the space of a token. Entering one again changes nothing."""
        token = decode_token(text)
        expires_ms = token.invited.invitation.expires_ms
        if expires_ms and expires_ms < self._ground.parts.now_ms():
            raise Unavailable("the token has expired", "ask an administrator of the space for another one")
        async with self._entering:
            if token.space not in self._records:
                own, key = self._ground.identity.public, SigningKey.from_seed(token.seed)
                admission = admission_for(token.invited, key, own, self._ground.name)
                record = SpaceRecord(
                    token.genesis_bytes,
                    token.epoch,
                    {token.epoch: token.epoch_key},
                    token.server,
                    token.credential,
                    encode_admission(admission),
                    administrator=False,
                )
                await self._enter(record)
        return self._seen(self._ground.memory.sync.spaces[token.space])

    def space_named(self, named: str) -> SpaceState:
        """The space with this name or id. Raises UnknownThing when there is none, or more than one."""
        spaces = self._ground.memory.sync.spaces
        found = [space for space in spaces.values() if named in (space.genesis.name, space.space.hex())]
        if len(found) > 1:
            ids = ", ".join(space.space.hex() for space in found)
            raise UnknownThing(f"{len(found)} spaces are named {named!r}", f"give the id of one: {ids}")
        if not found:
            names = ", ".join(sorted(space.genesis.name for space in spaces.values()))
            hint = (
                f"its spaces are: {names}"
                if names
                else "it is in none so far: make one, or join one by its token"
            )
            raise UnknownThing(f"this node is in no space {named[:80]!r}", hint)
        return found[0]

    def spaces_named(self, named: Sequence[str]) -> tuple[bytes, ...]:
        """Ids of the spaces with these names or ids, each once. Raises UnknownThing for any other."""
        return tuple(dict.fromkeys(self.space_named(one).space for one in named))

    def spaces(self) -> list[SpaceSeen]:
        """The spaces this node is in, by name."""
        seen = [self._seen(space) for space in self._ground.memory.sync.spaces.values()]
        return sorted(seen, key=lambda space: (space.name, space.space))

    def status(self) -> EngineStatus | None:
        """The engine as of now, None while it does not run."""
        return None if self._engine is None else self._engine.status()

    @property
    def hosting(self) -> Hosting:
        """The embedded server of this home."""
        return self._hosting

    async def start(self, url: str | None, embedded: bool | None) -> None:
        """Connect to the buses of all spaces and begin to publish; arguments as for `Hosting.start`."""
        sharing = self._ground.settings.sharing
        hosts = any(not record.server for record in self._records.values()) or not self._records
        await self._hosting.start(url, embedded, hosts)
        self._engine = SyncEngine(
            self._ground.memory.sync,
            self.admit,
            self._ground.journal,
            self._ground.identity,
            self._ground.parts.now_ms,
            {space: self._bus(record) for space, record in self._records.items()},
            options=EngineOptions(head_s=sharing.head_every_s),
        )
        for space in self._ground.memory.sync.spaces.values():
            await self._admit_self(space)
            self._pending[space.space] = self._rows_of_interest(space.space)
        await self._engine.start()
        self._news.set()
        self._publisher = asyncio.create_task(self._publish_on(), name="publisher")

    async def stop(self) -> None:
        """Publish what is pending where that is possible, then end everything."""
        publisher, self._publisher = self._publisher, None
        if publisher is not None:
            await end_tasks([publisher])
        if self._engine is not None:
            await self._say_the_rest(self._engine)
        engine, self._engine = self._engine, None
        try:
            if engine is not None:
                await engine.stop()
        finally:
            self._buses.clear()
            await self._hosting.stop()  # whatever happened: the server would outlive this process

    async def settle(self) -> None:
        """Publish now, and wait until the buses hold all that is ours.

        Raises Unavailable when that takes too long.
        """
        if self._engine is None:
            raise Unavailable("the node does not share now", "start it with `loremesh up`")
        deadline = self._ground.parts.monotonic_s() + SETTLE_S
        while True:
            await self._publish_pending()
            waiting = [space for space in self._engine.status().spaces if not self._settled(space)]
            if not waiting:
                return
            if self._ground.parts.monotonic_s() > deadline:
                why = "; ".join(error for space in waiting for error in space.last_errors[-1:])
                raise Unavailable(
                    f"after {SETTLE_S:.0f} s something is still on its way: {why or waiting[0].phase.value}",
                    "see `loremesh status`; what is pending is published when the bus is there again",
                )
            await asyncio.sleep(SETTLE_POLL_S)

    def retry(self) -> None:
        """Trust was raised: fetch what was put off."""
        if self._engine is not None:
            self._engine.retry()

    async def admit(self, frame: bytes | Carried) -> Sequence[Outcome]:
        """One frame through the funnel, then those that had waited for it."""
        ground = self._ground

        async def work() -> Sequence[Outcome]:
            sync, journal = ground.memory.sync, ground.journal
            now_s, hour = asyncio.get_running_loop().time(), ground.hour()
            if isinstance(frame, Carried):
                first = await admit_carried(frame, sync, journal, now_s, hour)
            else:
                first = await admit(frame, sync, journal, now_s, hour)
            outcomes = [await self._settle(first)]
            async for outcome in admit_following(first, sync, journal, now_s, hour):
                outcomes.append(await self._settle(outcome))
            return outcomes

        return await ground.exclusive(work)

    async def _settle(self, outcome: Outcome) -> Outcome:
        """See to what a frame left behind, before the next one that may fail. Inside `exclusive` only."""
        if isinstance(outcome, Applied | Quarantined):
            self._ground.memory.effective.mark(outcome.accepted.rows)
            await self._ground.bury(outcome.accepted.frames_dead)
        elif isinstance(outcome, Rejected) and outcome.proof is not None:
            await self._ground.refresh()
            await reword(self._ground)
        return outcome

    async def _enter(self, record: SpaceRecord) -> SpaceState:
        """Take part in a space: on disk, in memory, and on its bus when this node is up."""
        ground = self._ground
        space_key = space_id(record.genesis)

        async def work() -> SpaceState:
            entering = ground.memory.sync, record.genesis, record.epoch, record.epoch_keys
            space_to_enter(*entering)  # what cannot be entered must not be on disk: no home would open
            await ground.store.append(records={SPACE_PREFIX + space_key.hex(): encode_record(record)})
            self._records[space_key] = record
            return enter_space(*entering)

        space = await ground.exclusive(work)
        await self._admit_self(space)
        self._pending[space_key] = set()
        if self._engine is not None:
            if not record.server:
                await self._hosting.ensure_running()
            await self._engine.add_space(space_key, self._bus(record))
        return space

    async def _admit_self(self, space: SpaceState) -> None:
        """Open this incarnation's control chain with the admission, unless that is done."""
        ground = self._ground

        async def work() -> SignedFrame | None:
            sync = ground.memory.sync
            key = FeedKey(sync.own, sync.incarnation, Chain.CONTROL)
            if space.position(key).number:
                return None
            return await issue(ground, space, Kind.ADMISSION, self._records[space.space].admission)

        await ground.exclusive(work)

    def _bus(self, record: SpaceRecord) -> Bus:
        server = self._hosting.server_for(record)
        if server not in self._buses:
            called = f"loremesh {self._ground.name}".strip()
            self._buses[server] = self._ground.parts.open_bus(server.url, server.credential, called)
        return self._buses[server]

    async def _publish_on(self) -> None:
        """Publish news when there are any, not more often than the settings say."""
        pause_s = self._ground.settings.sharing.publish_every_s
        while True:
            # No `wait_for`: in Python 3.11 it swallows a cancellation that comes together with the news.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(pause_s, 1.0)):
                    await self._news.wait()
            self._news.clear()
            try:
                await self._publish_pending()
            except Exception as error:
                log.error("publish_failed", trace=trace(error))
            await asyncio.sleep(pause_s)

    async def _say_the_rest(self, engine: SyncEngine) -> None:
        """Publish what is pending where the bus is there, so that peers need not wait for a restart."""

        def is_said(space: SpaceStatus) -> bool:
            return space.phase is SpacePhase.OFFLINE or FeedStatus.PENDING not in space.own.values()

        try:
            async with asyncio.timeout(LAST_WORDS_S):
                await self._publish_pending()
                while not all(is_said(space) for space in engine.status().spaces):  # noqa: ASYNC110
                    await asyncio.sleep(SETTLE_POLL_S)
        except TimeoutError:
            log.info("not_all_published", seconds=LAST_WORDS_S)
        except Exception as error:
            log.error("publish_failed", trace=trace(error))

    async def _publish_pending(self) -> None:
        """State what is new to each space whose bus is there; what is not stays pending."""
        engine = self._engine
        if engine is None:
            return
        touched, self._ground.touched = self._ground.touched, set()
        for rows in self._pending.values():
            rows |= touched
        there = {status.space for status in engine.status().spaces if status.phase is not SpacePhase.OFFLINE}
        for key, rows in list(self._pending.items()):
            while rows and key in there:
                part = set(sorted(rows)[:STATE_ROWS])
                space = self._ground.memory.sync.spaces[key]
                frames = await self._ground.exclusive(partial(state_news, self._ground, space, part))
                rows -= part
                if frames:
                    await engine.publish(frames)

    def _settled(self, status: SpaceStatus) -> bool:
        """Whether the bus has all that is ours. What is missing here is others' word, and no matter."""
        return (
            status.phase in (SpacePhase.SYNCING, SpacePhase.CURRENT)
            and not self._pending.get(status.space)
            and all(own is not FeedStatus.PENDING for own in status.own.values())
        )

    def _rows_of_interest(self, space: bytes) -> set[int]:
        """Rows that may have something to say in a space: shared there, or with evidence of this node."""
        own = self._ground.memory.own
        rows = {row for row, spaces in own.shared.items() if space in spaces}
        return rows | set(own.registers.held(own.registers.live()).row.tolist())

    def _seen(self, space: SpaceState) -> SpaceSeen:
        status = self.status()
        here = [one for one in status.spaces if one.space == space.space] if status else []
        record = self._records[space.space]
        return SpaceSeen(
            space=space.space.hex(),
            name=space.genesis.name,
            member_trust=space.genesis.member_trust_fx / ONE,
            members=len(space.members),
            administrator=record.administrator,
            server=self._hosting.server_for(record).url,
            state=here[0].phase.value if here else "stopped",
        )


def _check_uses(uses: int) -> None:
    if not 1 <= uses <= 10_000:
        raise UsageError(f"a token for {uses} keys cannot be made", "give --uses from 1 to 10000")
