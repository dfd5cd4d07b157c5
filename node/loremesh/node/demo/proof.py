"""The proofs, made from the homes themselves once their nodes have ended.

A twin is what a node's own log makes when the hostile peer's frames are left out: the same own events, the
honest frames, nothing else. Every number of the node must equal the twin's, and every answer that the running
node gave after the revocation must come out of the twin again, to the last bit of its score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.node.demo.agents import HITS, Answer
from loremesh.node.demo.results import Twin
from loremesh.node.embed.registry import open_embedder
from loremesh.node.events import RecallHit, decode_own
from loremesh.node.finding import Question, check, find
from loremesh.node.ground import Ground, stored_fingerprint
from loremesh.node.memory import Memory
from loremesh.node.node import Node
from loremesh.node.opening import encode_fingerprint
from loremesh.node.replaying import effective_by_id, rebuild, registers_by_id
from loremesh.node.score import recall_frame
from loremesh.node.snapshot import differences
from loremesh.node.store.values import Kind
from loremesh.sync.fixed import ONE

NUMBERS: Final = 6
"""Per block: α, β, S, t_last, D and importance."""

Scored = list[tuple[str, float]]
"""Block ids with their scores, best first."""


async def compare_with_twin(
    agent: str, home: Path, environ: Mapping[str, str], hostile: bytes, answers: Sequence[Answer]
) -> Twin:
    """One home against its twin without `hostile` (a public key). `answers` are the running node's own."""
    async with Node.open(home, environ=environ) as node:
        ground = node.ground
        await ground.exclusive(ground.refresh)
        used = ground.memory
        twin = await rebuild(ground.store, ground.identity.public, used.own.rules, without=[hostile])
        numbers, different = _numbers(used, twin)
        registers, registers_different = _registers(used, twin, hostile)
        await _fill_indexes(ground, twin)
        replayed = await node.replay(check=True)
        frames = sum(len(c.tags) for s in twin.sync.spaces.values() for c in s.chains.values())
        return Twin(
            agent=agent,
            blocks=numbers // NUMBERS,
            numbers=numbers,
            numbers_different=different + len(differences(used.own, twin.own)),
            registers=registers,
            registers_different=registers_different,
            numbers_while_trusted=await _numbers_while_trusted(ground, twin, hostile),
            answers=len(answers),
            answers_different=await _answers_different(ground, twin, answers),
            frames_left_out=replayed.frames - frames,
            log_rows=replayed.rows,
            log_faults=len(replayed.faults),
        )


class LastLook(msgspec.Struct, frozen=True):
    """What a home holds in the end: honest registers' digest, faults of its log, lost blocks."""

    digest: str
    faults: int
    lost: int


async def look_last(
    home: Path, environ: Mapping[str, str], hostile: bytes, acknowledged: Mapping[str, int]
) -> LastLook:
    """Look at a home whose node has ended.

    The digest is that of all registers but `hostile`'s, order-free, as `status` gives it of all.
    `acknowledged`: by block, good outcomes whose calls were answered; a block that is not held, or has fewer,
    is lost.
    """
    async with Node.open(home, environ=environ) as node:
        memory = node.ground.memory
        registers = memory.sync.registers
        slots = registers.live()
        of = [number for number, source in enumerate(registers.sources) if source.origin != hostile]
        honest = slots[np.isin(registers.held(slots).source, of)]
        digest = registers.live_digest(honest, memory.sync.index, memory.sync.contexts).hex()
        lost = sum(_is_lost(memory, block, count) for block, count in acknowledged.items())
        return LastLook(digest, len((await node.replay(check=True)).faults), lost)


def _is_lost(memory: Memory, block: str, outcomes: int) -> bool:
    row, own = memory.sync.index.row(bytes.fromhex(block)), memory.own.columns
    if row is None or row >= own.length or not memory.has_content(row) or not own.held[row]:
        return True
    return int(own.self_a[row]) < outcomes * ONE


def _numbers(used: Memory, twin: Memory) -> tuple[int, int]:
    """How many effective numbers were compared, and how many are not the same (a missing block counts)."""
    ours, theirs = effective_by_id(used), effective_by_id(twin)
    different = NUMBERS * len(ours.keys() ^ theirs.keys())
    for block in ours.keys() & theirs.keys():
        different += sum(_bits(a) != _bits(b) for a, b in zip(ours[block], theirs[block], strict=True))
    return NUMBERS * len(ours), different


async def _numbers_while_trusted(ground: Ground, twin: Memory, hostile: bytes) -> int:
    """How many of the twin's numbers are others where the same log is read with the revocation left out."""
    trusting = await rebuild(ground.store, ground.identity.public, ground.memory.own.rules)
    peers = {peer: trust for peer, trust in trusting.own.peers.items() if peer != hostile}
    trusting.sync.policy = msgspec.structs.replace(trusting.sync.policy, peers=peers)
    trusting.refresh()
    theirs, known = effective_by_id(trusting), effective_by_id(twin)
    return sum(
        _bits(a) != _bits(b)
        for block, numbers in known.items()
        for a, b in zip(numbers, theirs[block], strict=True)
    )


def _bits(number: object) -> str:
    return number.hex() if isinstance(number, float) else str(number)


def _registers(used: Memory, twin: Memory, hostile: bytes) -> tuple[int, int]:
    """The registers of everybody else, freshness stamps included, here and in the twin."""
    ours = {one for one in registers_by_id(used) if one[1] != hostile}
    theirs = set(registers_by_id(twin))
    return len(ours), len(ours ^ theirs)


async def _fill_indexes(ground: Ground, twin: Memory) -> None:
    """The twin's texts and vectors, those of its own readable blocks only: it never had any others."""
    readable = twin.readable()
    rows = np.flatnonzero(readable).tolist()
    texts = await ground.store.texts(rows)
    twin.lexical.add(list(texts), list(texts.values()))
    fingerprint = await stored_fingerprint(ground.store)
    if fingerprint is None:
        return
    async for batch in ground.store.scan_blocks(encode_fingerprint(fingerprint), fingerprint.dimension):
        mine = readable[batch.vector_rows]
        twin.use_vectors(fingerprint).set(batch.vector_rows[mine], batch.vectors[mine])


async def _answers_different(ground: Ground, twin: Memory, answers: Sequence[Answer]) -> int:
    """How many of the running node's answers the twin gives otherwise: other blocks, order or scores.

    The active hour of each answer is the one that the node logged with it.
    """
    hours = await _hours(ground)
    settings = ground.settings.memory
    embedder = await open_embedder(ground.settings.embedder.name, {})
    different = 0
    try:
        for answer in answers:
            question = check(Question(answer.task.question, recall_frame("task"), answer.task.context, HITS))
            vector: NDArray[np.float32] = (await embedder.embed([question.text], query=True))[0]
            ranked = find(
                twin,
                question,
                vector,
                hours.get(bytes.fromhex(answer.recalled.episode), ground.hour()),
                foreign_share=settings.foreign_share,
                backoff=settings.context_backoff,
            )
            again: Scored = [(twin.block_hex(one.row), one.score) for one in ranked]
            given: Scored = [(hit.block, hit.score) for hit in answer.recalled.hits]
            different += again != given
    finally:
        await embedder.close()
    return different


async def _hours(ground: Ground) -> dict[bytes, float]:
    """The active hour of every recall in the log, by episode."""
    hours: dict[bytes, float] = {}
    async for rows in ground.store.scan():
        for row in rows:
            if row.kind is Kind.OWN and row.payload is not None:
                event = decode_own(row.payload)
                if isinstance(event, RecallHit):
                    hours[event.episode] = event.hour
    return hours
