"""The hostile peer: a member with a node like the others', and a writer that says what no node would.

What the API allows it does through its node's door: it reads what the team knows, and shares made-up blocks.
What an honest node's API refuses, the writer states itself, in frames that are composed and signed as the
protocol asks, under this peer's own identity: inverted evidence at the largest mass a register can hold, over
and over; and frames that no funnel may let through.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from loremesh.crypto.identity import Identity
from loremesh.node import params as p
from loremesh.node import verbs
from loremesh.node.client import Door
from loremesh.node.demo.corpus import Fact
from loremesh.node.demo.tasks import Task
from loremesh.node.errors import NodeError
from loremesh.node.node import Node
from loremesh.node.records import SPACE_PREFIX, SpaceRecord, decode_record
from loremesh.sync.admission import decode_genesis
from loremesh.sync.busport import FrameSubject, Published
from loremesh.sync.fixed import MAX_FX, ONE
from loremesh.sync.nats_bus import NatsBus
from loremesh.sync.outgoing import Statement, evidence_bodies
from loremesh.sync.wire import Chain, Kind, SignedFrame, Signer, compose, header_hash, seal_signed

STABILITY_H: Final = 10 * 365.25 * 24
"""What it says its evidence is good for: as long as any receiver takes into account."""
SPOILT_FRAMES: Final = 12
"""Of each kind that no funnel lets through."""
HITS: Final = 20
INCARNATION_BYTES: Final = 16

Claim = tuple[str, str, float, float]
"""Block, context, and the parts of a claim's mass that are α and β."""


class Keys(msgspec.Struct, frozen=True):
    """What the writer takes out of its own home: its identity, and its way into the space."""

    identity: Identity
    space: bytes
    epoch: int
    epoch_key: bytes
    server: str
    credential: str
    founder: bytes
    """Public key of the space's first administrator, as its genesis names it."""

    def __repr__(self) -> str:
        return f"Keys({self.identity.peer_id})"


class Sent(msgspec.Struct, frozen=True):
    """What the writer sent."""

    frames: int
    registers: int
    largest: float
    """α + β of the largest register stated, in outcomes."""
    forged: int
    broken: int
    over_bound: int


async def join(home: Path, token: str, environ: Mapping[str, str]) -> Keys:
    """Join the space from a home whose node does not run, and take the keys out of it."""
    async with Node.open(home, environ=environ) as node:
        seen = await node.space_join(token)
        stored = await node.ground.store.record(SPACE_PREFIX + seen.space)
        if stored is None:
            raise NodeError(f"the home {home} has no record of the space it joined")
        record = decode_record(stored, SpaceRecord)
        return Keys(
            identity=node.ground.identity,
            space=bytes.fromhex(seen.space),
            epoch=record.epoch,
            epoch_key=record.epoch_keys[record.epoch],
            server=record.server,
            credential=record.credential,
            founder=decode_genesis(record.genesis).admins[0],
        )


def spy(door: Door, tasks: Sequence[Task]) -> list[Claim]:
    """What the team found out, the wrong way round: all evidence by block and context, α and β swapped."""
    texts: dict[str, str] = {}
    for task in tasks:
        recalled = door.call(verbs.RECALL, p.Recall(task.question, "task", task.context, HITS))
        texts.update((hit.block, hit.text) for hit in recalled.hits)
    claims = []
    for block in sorted(texts):
        explanation = door.call(verbs.EXPLAIN, p.Explain(block))
        for context, (alpha, beta) in explanation.contexts.items():
            if alpha + beta:
                claims.append((block, context, beta / (alpha + beta), alpha / (alpha + beta)))
    return claims


def make_up(tasks: Sequence[Task], facts: Mapping[str, Fact]) -> list[tuple[Fact, str]]:
    """A block for each task that has its words and names a function of quite another family; with its
    context.
    """
    made = []
    for place, task in enumerate(tasks):
        plain = task.answer.rpartition(".")[2]
        others = sorted(name for name in facts if name.rpartition(".")[2] != plain)
        wrong = others[place * 7 % len(others)]
        documentation = facts[task.answer].text.partition(": ")[2]
        text = f"{wrong}: {task.question.partition(' ')[2]}. {documentation}"
        made.append((Fact(wrong, text), task.context))
    return made


def praise(door: Door, space: str, made_up: Sequence[tuple[Fact, str]]) -> list[Claim]:
    """Share the made-up blocks through the door; the claims that they always work."""
    texts = [fact.text for fact, _ in made_up]
    learned = door.call(verbs.LEARN_MANY, p.LearnMany(texts, share=[space]))
    claims = {(one.block, context) for one, (_, context) in zip(learned, made_up, strict=True)}
    return [(block, context, 1.0, 0.0) for block, context in sorted(claims)]


async def flood(keys: Keys, claims: Sequence[Claim], rounds: int) -> Sent:
    """State all claims at the largest mass, then again and again with other values, as fast as the bus takes
    it; then frames that are forged in the founder's name, broken, and over the bound.
    """
    bus = NatsBus(keys.server, keys.credential, "loremesh writer")
    await bus.connect()
    try:
        bodies: list[bytes] = []
        largest = 0
        for version in range(1, rounds + 1):
            stated = statement(claims, version, _incarnation(keys, 1))
            largest = max(largest, int((stated.alpha + stated.beta).max()))
            bodies += evidence_bodies(stated)
        frames = chain(keys, _incarnation(keys, 1), bodies)
        await _publish(bus, keys, frames)
        spoilt = [over_bound(body) for body in bodies[:SPOILT_FRAMES]]
        over = chain(keys, _incarnation(keys, 2), spoilt)
        await _publish(bus, keys, over)
        forged = chain(keys, _incarnation(keys, 3), bodies[:SPOILT_FRAMES], in_the_name_of=keys.founder)
        await _publish(bus, keys, forged)
        broken = frames[:SPOILT_FRAMES]
        await _publish(bus, keys, broken, broken=True)
    finally:
        await bus.close()
    return Sent(len(frames), len(claims), largest / ONE, len(forged), len(broken), len(over))


class _Forger:
    """Signs with its own key under another's name."""

    def __init__(self, identity: Identity, public: bytes) -> None:
        self.public = public
        self._identity = identity

    def sign(self, domain: str, message: bytes) -> bytes:
        return self._identity.sign(domain, message)


def _incarnation(keys: Keys, number: int) -> bytes:
    """Incarnations that its own node knows nothing of: two writers under one would be a fork."""
    return keys.identity.public[: INCARNATION_BYTES - 1] + bytes([number])


def statement(claims: Sequence[Claim], version: int, incarnation: bytes) -> Statement:
    """The claims at a mass that is new with every version: 2²⁰, half of it, 2²⁰ less one, …"""
    mass = MAX_FX // 2 + version * ONE if version % 2 == 0 else MAX_FX - version * ONE
    good = np.array([alpha for _, _, alpha, _ in claims])
    return Statement(
        ids=[bytes.fromhex(block) for block, _, _, _ in claims],
        contexts=[context for _, context, _, _ in claims],
        incarnations=[incarnation] * len(claims),
        alpha=np.floor(good * mass).astype(np.int64),
        beta=np.floor((1.0 - good) * mass).astype(np.int64),
        stability_h=np.full(len(claims), STABILITY_H),
        version=np.full(len(claims), version, np.int64),
    )


def over_bound(body: bytes) -> bytes:
    """The same rows with α above what a register may hold: no encoder makes this."""
    fields = msgspec.msgpack.decode(body)
    alpha, place = 6, len(fields[6]) // 8
    fields[alpha] = np.full(place, 16 * MAX_FX, np.int64).astype(">u8").tobytes()
    return msgspec.msgpack.encode(fields)


def chain(
    keys: Keys, incarnation: bytes, bodies: Sequence[bytes], in_the_name_of: bytes | None = None
) -> list[SignedFrame]:
    """The bodies as frames of one chain, signed by this peer, in its own name or another's (a public key)."""
    signer: Signer = keys.identity if in_the_name_of is None else _Forger(keys.identity, in_the_name_of)
    frames: list[SignedFrame] = []
    for number, body in enumerate(bodies, 1):
        previous = header_hash(frames[-1].header_bytes) if frames else bytes(32)
        frames.append(
            compose(
                signer,
                space=keys.space,
                incarnation=incarnation,
                kind=Kind.EVIDENCE,
                body=body,
                time_ms=number,
                number=number,
                previous=previous,
            )
        )
    return frames


async def _publish(bus: NatsBus, keys: Keys, frames: Sequence[SignedFrame], *, broken: bool = False) -> None:
    """Append the frames to a subject of this peer's, each behind the one before."""
    if not frames:
        return
    incarnation = os.urandom(INCARNATION_BYTES) if broken else frames[0].header.incarnation
    subject = FrameSubject(keys.space, keys.identity.public, incarnation, Chain.DATA)
    last = await bus.last(subject)
    after = last.seq if last is not None else 0
    for frame in frames:
        sealed = bytearray(seal_signed(frame, keys.epoch, keys.epoch_key))
        if broken:
            sealed[-1] ^= 1
        outcome = await bus.publish(subject, bytes(sealed), after)
        if not isinstance(outcome, Published):
            raise NodeError(f"the bus did not take the hostile writer's frame: {outcome}")
        after = outcome.seq
