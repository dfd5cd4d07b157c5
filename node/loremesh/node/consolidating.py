"""Consolidation: what was learned is embedded and rated, a batch at a time, each batch kept as it is done.

Incremental and resumable: only rows without a vector are embedded, only own rows without a rating are rated,
so that a run that was killed goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from loremesh.node import evidence
from loremesh.node.ground import Ground
from loremesh.node.opening import encode_fingerprint
from loremesh.node.parts import Progress
from loremesh.node.results import Consolidated
from loremesh.sync.content import normalise

BATCH_BLOCKS: Final = 64
"""Blocks embedded and rated before they are stored: under a second of work for the default model."""


async def consolidate(
    ground: Ground, progress: Progress | None = None, limit: int | None = None
) -> Consolidated:
    """Embed and rate what waits for it, at most `limit` blocks. Raises EmbedderError; what was done stays."""

    async def find_waiting() -> list[int]:
        await ground.refresh()
        rows, matrix = ground.memory.waiting(), ground.memory.matrix
        if matrix is not None:
            # Those without a vector first: what the rater has no answer for must not hold them up for ever.
            rows = rows[np.argsort(matrix.held(ground.memory.length)[rows], kind="stable")]
        return [int(row) for row in rows]

    rows = await ground.exclusive(find_waiting)
    todo = rows if limit is None else rows[:limit]
    embedded = rated = unrated = 0
    for start in range(0, len(todo), BATCH_BLOCKS):
        batch = todo[start : start + BATCH_BLOCKS]
        texts = await ground.store.texts(batch)
        here = [row for row in batch if row in texts]  # one may have been forgotten meanwhile
        embedded += await _embed(ground, here, texts)
        given, none = await _rate(ground, here, texts)
        rated, unrated = rated + given, unrated + none
        if progress is not None:
            progress(min(start + BATCH_BLOCKS, len(todo)), len(todo))
    waiting = await ground.exclusive(find_waiting)
    return Consolidated(embedded, rated, unrated, len(waiting))


async def _embed(ground: Ground, rows: Sequence[int], texts: dict[int, str]) -> int:
    matrix = ground.memory.matrix
    lacking = [row for row in rows if matrix is None or not matrix.has(row)]
    if not lacking:
        return 0
    embedder = await ground.embedder()
    # In the form that the block's id stands for: a vector must not depend on who brought the text.
    vectors = await embedder.embed([normalise(texts[row]) for row in lacking])
    fingerprint = embedder.fingerprint

    async def work() -> int:
        kept = [at for at, row in enumerate(lacking) if ground.memory.has_content(row)]
        if kept:
            at = np.array(lacking, np.int64)[kept]
            await ground.store.set_embeddings(at.tolist(), vectors[kept], encode_fingerprint(fingerprint))
            ground.memory.use_vectors(fingerprint).set(at, vectors[kept])
        return len(kept)

    return await ground.exclusive(work)


async def _rate(ground: Ground, rows: Sequence[int], texts: dict[int, str]) -> tuple[int, int]:
    """How many were rated, and how many the rater gave no answer for: those stay unrated."""
    columns = ground.memory.own.columns
    lacking = [row for row in rows if row < columns.length and columns.held[row] and not columns.rated[row]]
    if not lacking:
        return 0, 0
    rater = ground.parts.rater
    ratings = await rater.rate([texts[row] for row in lacking])

    async def work() -> int:
        own, clock = ground.memory.own, ground.stamp()
        events = [
            (row, evidence.rating(own, clock, row, rating, ground.settings.memory.rating_weight, rater.name))
            for row, rating in zip(lacking, ratings, strict=True)
            if rating is not None and ground.memory.has_content(row) and not own.columns.rated[row]
        ]
        if events:
            await ground.record(events)
        return len(events)

    return await ground.exclusive(work), sum(rating is None for rating in ratings)
