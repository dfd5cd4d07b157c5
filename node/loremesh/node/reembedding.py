"""`doctor reembed`: the home's vectors made anew by the embedder that the settings name now.

Until the last is there the old vectors stay, and recall and consolidation go on with the model that made
them. The new ones wait beside them, so that a run that was killed goes on where it stopped; then all change
at once, and the old ones are gone.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from loremesh.node.doctoring import Reembedded
from loremesh.node.errors import Conflict
from loremesh.node.ground import Ground, Reembedding
from loremesh.node.matrix import VectorMatrix
from loremesh.node.opening import decode_fingerprint, encode_fingerprint
from loremesh.node.parts import Progress
from loremesh.node.ports import Embedder, Fingerprint
from loremesh.sync.content import normalise

BATCH_BLOCKS: Final = 64
"""Blocks embedded before their vectors are stored, as in consolidation."""


async def reembed(ground: Ground, progress: Progress | None = None) -> Reembedded:
    """Embed every block with the settings' embedder and use these vectors from then on.

    Nothing to do where they are that model's already. Raises EmbedderError, Conflict when one is under way;
    what was done stays.
    """
    if ground.reembedding is not None:
        raise Conflict("this home is being embedded anew already", "`loremesh status` says how far it is")
    ground.reembedding = under_way = Reembedding()
    try:
        embedder = await ground.parts.open_embedder(None)
        before, after = ground.memory.fingerprint, embedder.fingerprint
        under_way.model = after.name
        if before is None or before == after:
            await embedder.close()
            await ground.exclusive(ground.store.drop_staged)
            return Reembedded(changed=False, embedder=after.name, before=before.name if before else "")
        try:
            done = await _all(ground, embedder, under_way, progress)
        except BaseException:
            await embedder.close()
            raise
        return Reembedded(True, after.name, before.name, done, len(ground.memory.matrix or ()))
    finally:
        ground.reembedding = None


async def _all(ground: Ground, embedder: Embedder, under_way: Reembedding, progress: Progress | None) -> int:
    """Embed what lacks a vector until nothing does, then change over; how many were embedded."""
    matrix = await _aside(ground, embedder.fingerprint)

    async def lacking_or_done() -> list[int]:
        """Rows to embed; none when there was nothing left to do and the change is made."""
        await ground.refresh()
        wanted = _wanted(ground)
        lacking = wanted[~matrix.held(ground.memory.length)[wanted]]
        under_way.total, under_way.done = len(wanted), len(wanted) - len(lacking)
        if not len(lacking):
            await _change(ground, embedder, matrix)
        return [int(row) for row in lacking]

    embedded = 0
    while todo := await ground.exclusive(lacking_or_done):
        for start in range(0, len(todo), BATCH_BLOCKS):
            embedded += await _batch(ground, embedder, matrix, todo[start : start + BATCH_BLOCKS])
            under_way.done = min(under_way.done + BATCH_BLOCKS, under_way.total)
            if progress is not None:
                progress(under_way.done, under_way.total)
    return embedded


async def _aside(ground: Ground, fingerprint: Fingerprint) -> VectorMatrix:
    """The vectors that an earlier run left; those of another model are no use and go."""
    matrix = VectorMatrix(fingerprint.dimension)
    staged = await ground.store.staged()
    if staged is not None and decode_fingerprint(staged[0]) != fingerprint:
        await ground.exclusive(ground.store.drop_staged)
        return matrix
    async for rows, vectors in ground.store.scan_staged(
        encode_fingerprint(fingerprint), fingerprint.dimension
    ):
        matrix.set(rows, vectors)
    return matrix


def _wanted(ground: Ground) -> NDArray[np.int64]:
    """Rows that need a vector: what can be recalled, and what had one and may come back."""
    memory = ground.memory
    held = np.zeros(memory.length, np.bool_) if memory.matrix is None else memory.matrix.held(memory.length)
    with_text = np.array([memory.has_content(row) for row in range(memory.length)], np.bool_)
    return np.flatnonzero((memory.readable() | held) & with_text)


async def _batch(ground: Ground, embedder: Embedder, matrix: VectorMatrix, rows: list[int]) -> int:
    texts = await ground.store.texts(rows)
    here = [row for row in rows if row in texts]  # one may have been forgotten meanwhile
    vectors = await embedder.embed([normalise(texts[row]) for row in here])

    async def work() -> int:
        kept = [at for at, row in enumerate(here) if ground.memory.has_content(row)]
        if kept:
            at = np.array(here, np.int64)[kept]
            model = encode_fingerprint(embedder.fingerprint)
            await ground.store.stage_embeddings(at.tolist(), vectors[kept], model)
            matrix.set(at, vectors[kept])
        return len(kept)

    return await ground.exclusive(work)


async def _change(ground: Ground, embedder: Embedder, matrix: VectorMatrix) -> None:
    """From now on the new vectors are those in use. Inside `exclusive` only."""
    for row in np.flatnonzero(matrix.held(ground.memory.length)).tolist():
        if not ground.memory.has_content(row):
            matrix.drop(row)
    await ground.store.take_up_staged()
    ground.memory.change_vectors(embedder.fingerprint, matrix)
    await ground.use_embedder(embedder)
