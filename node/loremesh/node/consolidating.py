"""Consolidation: what was learned is embedded and rated, a batch at a time, each batch kept as it is done.

Incremental and resumable: only rows without a vector are embedded, only own rows whose links were not looked
for are linked, only own rows without a rating are rated, so that a run that was killed goes on where it
stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from loremesh.node.ground import Ground
from loremesh.node.linking import link
from loremesh.node.opening import encode_fingerprint
from loremesh.node.parts import Progress
from loremesh.node.rating import RatingRun
from loremesh.node.results import Consolidated
from loremesh.sync.content import normalise

BATCH_BLOCKS: Final = 64
"""Blocks embedded and rated before they are stored: under a second of work for the default model."""


async def consolidate(
    ground: Ground, progress: Progress | None = None, limit: int | None = None, *, patient: bool = False
) -> Consolidated:
    """Embed and rate what waits for it, at most `limit` blocks. Raises EmbedderError; what was done stays.

    `patient`: leave out what the rater had no answer for until its turn has come again.
    """
    rating = RatingRun(ground, patient)

    async def find_waiting() -> list[int]:
        await ground.refresh()
        rating_, linking = ground.parts.rater is not None, ground.settings.graph.links > 0
        rows, matrix = ground.memory.waiting(rating_, linking), ground.memory.matrix
        if matrix is not None:
            # Those without a vector first, then those without links: what the rater has no answer for must
            # not hold them up for ever.
            order = matrix.held(ground.memory.length).astype(np.int64) * 2 + ~ground.memory.unlinked()
            rows = rows[np.argsort(order[rows], kind="stable")]
        return [int(row) for row in rows]

    rows = rating.worthwhile(await ground.exclusive(find_waiting))
    todo = rows if limit is None else rows[:limit]
    embedded = linked = 0
    for start in range(0, len(todo), BATCH_BLOCKS):
        batch = todo[start : start + BATCH_BLOCKS]
        texts = await ground.store.texts(batch)
        here = [row for row in batch if row in texts]  # one may have been forgotten meanwhile
        embedded += await _embed(ground, here, texts)
        linked += await link(ground, here)
        await rating.rate(here, texts)
        if progress is not None:
            progress(min(start + BATCH_BLOCKS, len(todo)), len(todo))
    waiting = await ground.exclusive(find_waiting)
    return Consolidated(embedded, rating.rated, rating.unrated, len(waiting), rating.why, linked)


async def _embed(ground: Ground, rows: Sequence[int], texts: dict[int, str]) -> int:
    matrix = ground.memory.matrix
    lacking = [row for row in rows if matrix is None or not matrix.has(row)]
    if not lacking:
        return 0
    # In the form that the block's id stands for: a vector must not depend on who brought the text.
    fingerprint, vectors = await ground.embed([normalise(texts[row]) for row in lacking])

    async def work() -> int:
        if ground.memory.fingerprint not in (None, fingerprint):
            return 0  # the home changed its embedder meanwhile; these rows have the new one's vectors
        kept = [at for at, row in enumerate(lacking) if ground.memory.has_content(row)]
        if kept:
            at = np.array(lacking, np.int64)[kept]
            await ground.store.set_embeddings(at.tolist(), vectors[kept], encode_fingerprint(fingerprint))
            ground.memory.use_vectors(fingerprint).set(at, vectors[kept])
        return len(kept)

    return await ground.exclusive(work)
