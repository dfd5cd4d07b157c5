"""From a home's log to its memory: the checkpoint where there is one, then the rows behind it.

Replay and opening are one piece of code: `read_log` folds whatever rows it is given through the same `apply`
and `accept` that live traffic goes through.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec
import numpy as np

from loremesh.node.events import Forgot, decode_home, decode_own
from loremesh.node.fold import apply, apply_home
from loremesh.node.framelog import decode_head, decode_rest, restored, taken_h
from loremesh.node.memory import Memory
from loremesh.node.ownstate import OwnState
from loremesh.node.ports import Fingerprint
from loremesh.node.records import (
    PROOF_PREFIX,
    SPACE_PREFIX,
    SpaceRecord,
    decode_record,
)
from loremesh.node.rules import RuleSet
from loremesh.node.snapshot import export_state, load_state
from loremesh.node.store.checkpoint import Checkpoint, Part, Unusable
from loremesh.node.store.store import Store
from loremesh.node.store.values import Kind, LogRow, State
from loremesh.sync.feed import ForkProof
from loremesh.sync.limits import Budgets
from loremesh.sync.spacestate import SyncState, accept, enter_space, set_aside
from loremesh.sync.spacestate import export as export_sync
from loremesh.sync.spacestate import load as load_sync
from loremesh.sync.trust import Policy

OWN_PARTS: Final = "own."
SYNC_PARTS: Final = "sync."


class Opened(msgspec.Struct, frozen=True):
    """A memory ready for use, and what opening it found.

    `spaces` by id. `dead`: log numbers of frames that have no live row and still have their body.
    `unfinished`: rows that the log says are forgotten and that still have content. `checkpointed`: log row of
    the checkpoint that was used, 0 for none. `checkpoint` says why it was not used, '' when it was.
    """

    memory: Memory
    spaces: dict[bytes, SpaceRecord]
    dead: list[int]
    unfinished: list[int]
    checkpointed: int
    checkpoint: str


class Read(msgspec.Struct, frozen=True):
    """What the log said besides: frames that are dead and still have a body, rows that were forgotten."""

    dead: list[int]
    forgotten: list[int]


async def open_memory(
    store: Store, own_key: bytes, rules: RuleSet, fingerprint: Fingerprint | None, *, texts: bool = True
) -> Opened:
    """The memory of a home. `fingerprint`: whose vectors to load; `texts`: whether to fill the indexes.

    Raises Damaged for a log or block that is not as it was written.
    """
    spaces = await space_records(store)
    found = await store.read_checkpoint(rules.name)
    memory, after, running, unusable = None, 0, None, ""
    if isinstance(found, Checkpoint):
        try:
            memory = _from_checkpoint(found, own_key, rules, spaces)
            after, running = found.position.n, found.position.running
        except (ValueError, KeyError, msgspec.MsgspecError) as error:
            unusable = f"it does not hang together: {error}"
    elif isinstance(found, Unusable):
        unusable = found.reason
    if memory is None:
        memory = blank_memory(own_key, rules, spaces)
    await keep_aside(store, memory.sync)
    memory.effective.refresh()
    waiting = await _read_blocks(store, memory, fingerprint, texts=texts)
    read = await read_log(store, memory, after, running)
    memory.sync.incarnation = memory.own.firsthand.incarnation
    follow_trust(memory)
    memory.refresh()
    readable = memory.readable()
    memory.lexical.add(*_split({row: text for row, text in waiting.items() if readable[row]}))
    memory.lexical.remove(np.flatnonzero(~readable).tolist())
    unfinished = [row for row in read.forgotten if memory.has_content(row)]
    return Opened(memory, spaces, read.dead, unfinished, after, unusable)


def blank_memory(own_key: bytes, rules: RuleSet, spaces: dict[bytes, SpaceRecord]) -> Memory:
    """A memory that has entered its spaces and knows nothing yet."""
    sync = SyncState(own_key, b"", Policy(), Budgets())
    for record in spaces.values():
        enter_space(sync, record.genesis, record.epoch, record.epoch_keys)
    return Memory(OwnState(own_key, sync.contexts, rules), sync)


async def space_records(store: Store) -> dict[bytes, SpaceRecord]:
    """The spaces this home takes part in, by id."""
    stored = await store.records(SPACE_PREFIX)
    return {
        bytes.fromhex(name.removeprefix(SPACE_PREFIX)): decode_record(value, SpaceRecord)
        for name, value in stored.items()
    }


async def place_blocks(store: Store, memory: Memory) -> None:
    """Give every stored block its row, and note which have content; no vectors, no texts."""
    await _read_blocks(store, memory, None, texts=False)


async def read_log(
    store: Store,
    memory: Memory,
    after: int = 0,
    running: bytes | None = None,
    *,
    without: Collection[bytes] = (),
) -> Read:
    """Fold the log's rows behind row `after` into the memory.

    `without`: origins whose frames are passed over, as if they had never come.
    """
    dead: set[int] = set()
    gone: set[int] = set()
    forgotten: list[int] = []
    async for rows in store.scan(after, running=running):
        for row in rows:
            dead.update(_take(memory, row, without, forgotten))
            if row.kind is Kind.FRAME and row.state is State.PRUNED:
                gone.add(row.n)
    return Read(sorted(dead - gone), forgotten)


def _take(memory: Memory, row: LogRow, without: Collection[bytes], forgotten: list[int]) -> list[int]:
    """Fold one log row; the frames it left without a live row."""
    match row.kind:
        case Kind.OWN:
            if row.payload is not None:
                apply(memory.own, row.row, decode_own(row.payload))
                memory.effective.mark_row(row.row)
        case Kind.HOME:
            if row.payload is not None:
                event = decode_home(row.payload)
                apply_home(memory.own, event)
                memory.follow_home(event)
                if isinstance(event, Forgot):
                    forgotten.append(event.row)
        case Kind.FRAME:
            feed = row.feed
            if feed is None or feed.origin in without or feed.space not in memory.sync.spaces:
                return []
            head = decode_head(row.header)
            rest = None if row.payload is None else decode_rest(row.payload)
            passed, stamps = restored(head, rest)
            taken = accept(memory.sync, passed, row.n, taken_h(head, rest), stamps)
            memory.effective.mark(taken.rows)
            return taken.frames_dead
    return []


def follow_trust(memory: Memory) -> None:
    """Let the lens follow the trust that the fold of own events gives."""
    memory.sync.policy = msgspec.structs.replace(memory.sync.policy, peers=dict(memory.own.peers))


def checkpoint_of(store: Store, memory: Memory) -> Checkpoint:
    """The memory's columns as they stand now, for the store to keep."""
    parts = {OWN_PARTS + name: part for name, part in export_state(memory.own).items()}
    parts |= {SYNC_PARTS + name: part for name, part in export_sync(memory.sync).items()}
    return Checkpoint(store.position, memory.own.rules.name, parts)


def _from_checkpoint(
    found: Checkpoint, own_key: bytes, rules: RuleSet, spaces: dict[bytes, SpaceRecord]
) -> Memory:
    sync = blank_memory(own_key, rules, spaces).sync
    load_sync(sync, _part(found, SYNC_PARTS))
    memory = Memory(load_state(_part(found, OWN_PARTS), sync.contexts, rules), sync)
    follow_trust(memory)
    return memory


def _part(found: Checkpoint, prefix: str) -> dict[str, Part]:
    return {name.removeprefix(prefix): part for name, part in found.parts.items() if name.startswith(prefix)}


async def keep_aside(store: Store, sync: SyncState) -> None:
    """Count nothing of the incarnations that were proven to have forked."""
    for stored in (await store.records(PROOF_PREFIX)).values():
        set_aside(sync, decode_record(stored, ForkProof))


async def _read_blocks(
    store: Store, memory: Memory, fingerprint: Fingerprint | None, *, texts: bool
) -> dict[int, str]:
    """Rows, vectors and texts of all blocks; the texts of those not known to be readable yet."""
    model = "" if fingerprint is None else encode_fingerprint(fingerprint)
    waiting: dict[int, str] = {}
    seen = memory.effective.rows.visible
    async for batch in store.scan_blocks(model, fingerprint.dimension if fingerprint else 0):
        with_text: dict[int, str] = {}
        for row, block_id, text in zip(batch.rows.tolist(), batch.ids, batch.texts, strict=True):
            memory.sync.index.place(block_id, row)
            if text is not None:
                with_text[row] = text
        for row in with_text:
            memory.note_content(row)
        if not texts:
            continue
        now = {row: text for row, text in with_text.items() if row < len(seen) and seen[row]}
        memory.lexical.add(*_split(now))
        waiting.update((row, text) for row, text in with_text.items() if row not in now)
        if fingerprint is not None and len(batch.vector_rows):
            memory.use_vectors(fingerprint).set(batch.vector_rows, batch.vectors)
    memory.sync.index.reserve(store.next_row)
    return waiting


def _split(texts: dict[int, str]) -> tuple[list[int], list[str]]:
    return list(texts), list(texts.values())


def encode_fingerprint(fingerprint: Fingerprint) -> str:
    """The fingerprint as the store names a model."""
    return msgspec.json.encode(fingerprint).decode("ascii", "backslashreplace")


def decode_fingerprint(text: str) -> Fingerprint | None:
    """The fingerprint that `encode_fingerprint` gave; None for a text that is none."""
    try:
        return msgspec.json.decode(text.encode("utf-8"), type=Fingerprint)
    except msgspec.MsgspecError:
        return None
