"""Who is trusted with what: peers as seen from here, changes of trust, and the node at a glance."""

from __future__ import annotations

import contextlib
import getpass
import os
from collections import Counter, defaultdict
from pathlib import Path
from typing import Final

import msgspec

from loremesh.crypto.errors import MistypedPeerId
from loremesh.crypto.peerid import parse_peer_id, peer_id
from loremesh.node import evidence
from loremesh.node.embed.registry import names
from loremesh.node.errors import UnknownThing, UsageError
from loremesh.node.events import Trust, decode_home
from loremesh.node.ground import NO_ROW, Ground
from loremesh.node.opening import decode_fingerprint, follow_trust
from loremesh.node.replaying import digest
from loremesh.node.results import Feed, PeerSeen, Status, TrustChange
from loremesh.node.sharing import Sharing
from loremesh.node.wording import reword
from loremesh.sync.fixed import ONE
from loremesh.sync.intake import Intake

SHOWN_DEFERRED: Final = 20
"""Chains that wait for a limit, listed in the status; more are counted."""


class Administration:
    """Trust and status of one node. `trouble` is what background work complains of, '' for nothing."""

    def __init__(self, ground: Ground, sharing: Sharing) -> None:
        self._ground = ground
        self._sharing = sharing
        self.trouble = ""

    def name_of(self, origin: bytes) -> str:
        """What a peer calls itself, '' when it does not say."""
        for space in self._ground.memory.sync.spaces.values():
            member = space.members.get(origin)
            if member is not None and member.name:
                return member.name
        return ""

    def origin_of(self, text: str) -> bytes:
        """The public key of the peer with this id. Raises UsageError when mistyped, UnknownThing."""
        try:
            wanted = parse_peer_id(text)
        except MistypedPeerId as error:
            raise UsageError(f"{text[:80]!r} is no peer id: {error}", "see `loremesh peers`") from error
        if wanted == self._ground.identity.peer_id:
            raise UsageError(f"{wanted} is this node itself", "trust is for peers; see `loremesh peers`")
        found = [origin for origin in self._origins() if peer_id(origin) == wanted]
        if len(found) > 1:
            raise UnknownThing(
                f"{len(found)} peers have the id {wanted}", "one of them made its key to look alike"
            )
        if not found:
            raise UnknownThing(
                f"no peer {wanted} has been seen here", "see `loremesh peers` for those that have"
            )
        return found[0]

    def note_trouble(self, trouble: str) -> None:
        """Background work complains of this now; '' when it is over."""
        self.trouble = trouble

    async def peers(self) -> list[PeerSeen]:
        """Every peer seen, by name and id."""
        status = self._sharing.status()
        behind: Counter[bytes] = Counter()
        for space in status.spaces if status else ():
            for missing in space.behind:
                behind[missing.key.origin] += missing.frames
        outcomes: dict[bytes, Counter[str]] = defaultdict(Counter)
        for (_, origin), counts in self._ground.memory.sync.intake.tally.items():
            outcomes[origin].update(counts)
        seen = [self._peer(origin, behind[origin], dict(outcomes[origin])) for origin in self._origins()]
        return sorted(seen, key=lambda one: (one.name, one.peer))

    async def set_trust(self, peer: str, value: float, why: str) -> TrustChange:
        """Set the trust in a peer. Raises UsageError, UnknownThing, InvalidInput."""
        return await self._change(self.origin_of(peer), value, why, revoked=False)

    async def revoke(self, peer: str, why: str) -> TrustChange:
        """Let a peer count for nothing, until trust is set again."""
        return await self._change(self.origin_of(peer), 0.0, why, revoked=True)

    async def trust_log(self) -> list[TrustChange]:
        """Every change of trust, oldest first."""
        changes = []
        for row in await self._ground.store.home_events():
            event = None if row.payload is None else decode_home(row.payload)
            if isinstance(event, Trust):
                changes.append(_change_seen(event))
        return changes

    async def status(self, running: bool) -> Status:
        """The node at a glance, of one moment: nothing comes in while it is put together."""

        async def work() -> Status:
            await self._ground.refresh()
            return msgspec.structs.replace(self._status(running), reembedding=await self._reembedding())

        return await self._ground.exclusive(work)

    def _status(self, running: bool) -> Status:
        ground = self._ground
        memory, sync = ground.memory, ground.memory.sync
        home = ground.store.paths.root
        summaries = memory.own.tiers.summaries()
        feeds = [
            Feed(
                space.genesis.name,
                peer_id(key.origin),
                key.incarnation.hex(),
                key.chain.name.lower(),
                chain.position.number,
                chain.position.hash.hex(),
            )
            for space in sync.spaces.values()
            for key, chain in sorted(space.chains.items())
        ]
        return Status(
            peer=ground.identity.peer_id,
            name=ground.name,
            home=str(home),
            hour=ground.hour(),
            blocks=int(memory.readable().sum()),
            held=int(memory.own.columns.views().held.sum()),
            waiting=len(memory.waiting(ground.parts.rater is not None, ground.settings.graph.links > 0)),
            embedded=0 if memory.matrix is None else len(memory.matrix),
            embedder=ground.settings.embedder.name,
            log_rows=ground.store.position.n,
            size_bytes=_size_bytes(home),
            spaces=self._sharing.spaces(),
            feeds=feeds,
            registers=len(sync.registers),
            registers_digest=digest(memory),
            counters=_totals(sync.intake),
            deferred=self._deferred(),
            running=running,
            pid=os.getpid(),
            trouble=self._troubles(),
            vectors_by="" if memory.fingerprint is None else memory.fingerprint.name,
            summaries=len(summaries),
            abstracts=len(memory.own.tiers) - len(summaries),
        )

    async def _reembedding(self) -> str:
        """How far a change of embedder is, whether it goes on now or waits to be gone on with."""
        under_way = self._ground.reembedding
        if under_way is not None and under_way.total:
            return f"{under_way.done} of {under_way.total} blocks by {under_way.model}"
        staged = await self._ground.store.staged()
        if staged is None:
            return ""
        named = decode_fingerprint(staged[0])
        return (
            f"{staged[2]} blocks by {named.name if named else staged[0]}, stopped: go on with "
            "`loremesh doctor reembed`"
        )

    async def _change(self, origin: bytes, value: float, why: str, *, revoked: bool) -> TrustChange:
        ground = self._ground

        async def work() -> TrustChange:
            event = evidence.trust(ground.stamp(), origin, value, why, _who(), revoked)
            await ground.record([(NO_ROW, event)])
            follow_trust(ground.memory)
            await ground.refresh()
            await reword(ground)
            return _change_seen(event)

        change = await ground.exclusive(work)
        self._sharing.retry()
        return change

    def _origins(self) -> list[bytes]:
        """Every peer that anything is known of, this node excepted."""
        sync = self._ground.memory.sync
        seen = {origin for space in sync.spaces.values() for origin in space.members}
        seen |= {source.origin for source in sync.registers.sources}
        return sorted(seen - {sync.own})

    def _peer(self, origin: bytes, behind: int, outcomes: dict[str, int]) -> PeerSeen:
        sync = self._ground.memory.sync
        spaces = [space for space in sync.spaces.values() if origin in space.members]
        trust_fx = max((sync.trust_fx(space, origin) for space in spaces), default=0)
        setting = sync.policy.peers.get(origin)
        if any(of == origin for of, _ in sync.set_aside):
            state = "forked"
        elif setting is not None and setting.revoked:
            state = "revoked"
        elif trust_fx:
            state = "trusted"
        else:
            state = "untrusted"
        held = sync.registers
        sources = [source for source in held.sources if source.origin == origin]
        return PeerSeen(
            peer=peer_id(origin),
            name=self.name_of(origin),
            trust=trust_fx / ONE,
            state=state,
            behind=behind,
            spaces=sorted(space.genesis.name for space in spaces),
            principal=", ".join(sorted({space.members[origin].principal for space in spaces})),
            registers=sum(held.count(source) for source in sources),
            blocks=sync.providers.count({held.source(source) for source in sources}),
            outcomes=outcomes,
        )

    def _deferred(self) -> list[str]:
        found = [
            f"{peer_id(key.origin)} {key.chain.name.lower()} in {self._name(space)}: {deferred.limit.value}"
            for (space, key), deferred in self._ground.memory.sync.intake.deferred.items()
        ]
        more = len(found) - SHOWN_DEFERRED
        return found if more <= 0 else [*found[:SHOWN_DEFERRED], f"and {more} more"]

    def _name(self, space: bytes) -> str:
        found = self._ground.memory.sync.spaces.get(space)
        return found.genesis.name if found else space.hex()

    def _troubles(self) -> list[str]:
        status = self._sharing.status()
        found = [self.trouble] if self.trouble else []
        made_by, named = self._ground.memory.fingerprint, self._ground.settings.embedder.name
        if made_by is not None and not names(named, made_by):
            found.append(
                f"the vectors in use are by {made_by.name}, the settings name {named}: `loremesh doctor "
                "reembed` changes over"
            )
        for space in status.spaces if status else ():
            found += [f"{self._name(space.space)}: {error}" for error in space.last_errors]
        server = self._sharing.hosting.server
        if server is not None and server.last_error:
            found.append(f"bus: {server.last_error}")
        return found


def _size_bytes(home: Path) -> int:
    """Of all files in the home. One that goes away meanwhile (the bus's, a checkpoint's) is none."""
    size = 0
    for directory, _, files in os.walk(home):
        for name in files:
            with contextlib.suppress(OSError):
                size += os.stat(os.path.join(directory, name), follow_symlinks=False).st_size
    return size


def _totals(intake: Intake) -> dict[str, int]:
    found: Counter[str] = Counter()
    for counts in intake.tally.values():
        found.update(counts)
    return dict(found)


def _change_seen(event: Trust) -> TrustChange:
    return TrustChange(
        peer=peer_id(event.peer),
        trust=event.value_fx / ONE,
        revoked=event.revoked,
        why=event.why,
        who=event.who,
        wall_ms=event.wall_ms,
        hour=event.hour,
    )


def _who() -> str:
    """The account that asked for the change, for the trust log."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"
