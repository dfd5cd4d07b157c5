"""Homes that were lived in: a log of any length, of what an agent does in months, made in a minute.

Texts and vectors are those of `homes`. Every event is made by the node's own makers from the state it finds
and folded by the node's own fold; only the transactions are larger than an agent's.
"""

from pathlib import Path
from typing import Final

import numpy as np
from msgspec.structs import replace

from loremesh.node import evidence
from loremesh.node.events import EPISODE_BYTES, FrameName
from loremesh.node.ground import HomeRow
from loremesh.node.node import Node
from loremesh.node.opening import encode_fingerprint
from tests.bench.homes import BATCH, MODEL, PASSPHRASE, Given, parts_with, unit_vectors
from tests.bench.passages import passages

EVENTS: Final = 1_000_000
EVENTS_PER_BLOCK: Final = 10
HANDED_OUT: Final = 5
JUDGED: Final = 0.8
"""Share of the recalls that somebody said an outcome of."""
SHARED: Final = 0.2
LINKED: Final = 0.3
RESCORED: Final = 0.1
"""Shares of the blocks that are in a space, have a link to another, were rated a second time."""
CONTEXTS: Final = ("", "deploy", "review", "incident", "onboarding")
PAUSE_MS: Final = 240_000
RECORDED: Final = 4_000
"""Events stored in one transaction."""
RECALLS: Final = RECORDED // HANDED_OUT
"""Recalls made at a time, before the outcomes of any of them."""


async def lived_in_home(scratch: Path, events: int = EVENTS) -> Path:
    """A home whose log has about that many events, a tenth as many blocks; made at the first call.

    Of the blocks all are learned, embedded and rated, some shared, linked and rated again. The rest are
    recalls of five blocks, some blocks far more often than others, and the outcomes of most of them.
    """
    home = scratch / f"lived-in-{events}"
    if home.exists():
        return home
    random = np.random.default_rng(11)
    blocks = events // EVENTS_PER_BLOCK
    parts = parts_with(Given(unit_vectors(1, random)[0]))
    async with Node.create(home, passphrase=PASSPHRASE, parts=parts) as node:
        await node.space_create("team")
        await node.learn_many(passages(blocks))
        for start in range(0, blocks, BATCH):
            vectors = unit_vectors(min(BATCH, blocks - start), random)
            rows = list(range(start, start + len(vectors)))
            await node.ground.store.set_embeddings(rows, vectors, encode_fingerprint(MODEL))
        await _record(node, _first_days(node, blocks, random))
        while (missing := events - node.ground.store.position.n) > 0:
            recalls = min(RECALLS, -(-missing // (2 * HANDED_OUT)))
            await _record(node, _handed_out(node, blocks, recalls, random))
            await _record(node, _judged(node, recalls, random))
    return home


async def _record(node: Node, events: list[HomeRow]) -> None:
    for start in range(0, len(events), RECORDED):
        await node.ground.record(events[start : start + RECORDED], durable=False)


def _first_days(node: Node, blocks: int, random: np.random.Generator) -> list[HomeRow]:
    """Ratings, spaces and links of all blocks."""
    own, clock = node.ground.memory.own, node.ground.clock
    space = next(iter(node.ground.memory.sync.spaces))
    made: list[HomeRow] = []
    for row, rating in enumerate(random.random(blocks).tolist()):
        made.append((row, evidence.rating(own, clock, row, rating, 0.5, "bench")))
        if random.random() < SHARED and (share := evidence.share(own, clock, row, [space])):
            made.append((row, share))
        if random.random() < LINKED:
            other = (row + 1 + int(random.integers(blocks - 1))) % blocks
            made.append((row, evidence.connect(clock, row, other, float(random.random()))))
        if random.random() < RESCORED:
            made.append((row, evidence.rating(own, clock, row, float(random.random()), 0.5, "bench")))
    return made


def _handed_out(node: Node, blocks: int, recalls: int, random: np.random.Generator) -> list[HomeRow]:
    """What so many recalls handed out."""
    clock = node.ground.clock
    made: list[HomeRow] = []
    for _ in range(recalls):
        clock.advance(clock.wall_ms + PAUSE_MS)
        rows = np.unique((blocks * random.random(HANDED_OUT) ** 2).astype(np.int64)).tolist()
        scores = [(row, 1.0 - place / 10.0) for place, row in enumerate(rows)]
        context = CONTEXTS[int(random.integers(len(CONTEXTS)))]
        made += evidence.recall_hits(clock, random.bytes(EPISODE_BYTES), scores, FrameName.TASK, context)
    return made


def _judged(node: Node, recalls: int, random: np.random.Generator) -> list[HomeRow]:
    """Outcomes of most of the newest recalls that wait for one."""
    own, clock = node.ground.memory.own, node.ground.clock
    made: list[HomeRow] = []
    waiting = [key for key, held in own.episodes.items() if held.outcome is None]
    for episode in waiting[-recalls:]:
        clock.advance(clock.wall_ms + PAUSE_MS)
        if random.random() < JUDGED:
            outcomes = evidence.outcome_of_episode(own, clock, episode, float(random.random() < 0.6))
            # The maker counts on from what is folded already: nothing of this transaction is.
            made += [(row, replace(one, version=one.version + len(made))) for row, one in outcomes]
    return made
