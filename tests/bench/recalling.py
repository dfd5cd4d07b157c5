"""One recall of an open node at 100,000 blocks of 384 dimensions, the query's vector given.

Ours: all of `Node.recall` with k = 10, from the question to hits with texts, parts and provenance, the
episode logged. Bare: the same composite in plain numpy over a ready float32 matrix and ready float columns,
the top ten by argpartition, plus tantivy's own query for a thousand hits; no texts, no log. Both by turns in
one process, six questions over and over, each with another random unit vector. The texts are docstrings and
comments of the installed Python and its packages, cut into pieces of 25 words, all distinct. Every block is
linked to ten others on average, five that it proposed and five that proposed it; with the graph term all of
these links are asked for each question.
"""

from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

import numpy as np

from loremesh.node.node import Node
from loremesh.sync.fixed import ONE
from tests.bench.bare import Columns, K, PlainIndex, top
from tests.bench.figures import Figure, Report, at_most, percentile
from tests.bench.homes import (
    BLOCKS,
    DIMENSION,
    PASSPHRASE,
    QUESTIONS,
    Given,
    large_home,
    parts_with,
    unit_vectors,
)

ROUNDS: Final = 120
WARM_UP: Final = 6
TARGET: Final = 1.5
TARGET_MS: Final = 60.0
SPREAD_TARGET: Final = 2.0
GRAPH: Final = 0.25


def columns_of(node: Node) -> Columns:
    """What a recall of this node computes from, as plain columns."""
    memory = node.ground.memory
    length = memory.length
    own, rows = memory.own.columns.views(length), memory.effective.rows
    assert memory.matrix is not None
    held = [memory.matrix.vector(row) for row in range(length)]
    nothing = np.zeros(DIMENSION, np.float32)
    return Columns(
        matrix=np.array([nothing if vector is None else vector for vector in held], np.float32),
        alpha=rows.alpha[:length] / ONE,
        beta=rows.beta[:length] / ONE,
        elapsed_h=node.ground.hour() - rows.t_last_h[:length],
        stability_h=rows.stability_h[:length].copy(),
        importance=own.importance.copy(),
    )


async def measure(scratch: Path) -> Report:
    """Medians of both, their ratio, and how many of the top ten they share."""
    random = np.random.default_rng(13)
    given = Given(unit_vectors(1, random)[0])
    home = await large_home(scratch)
    mine: list[float] = []
    in_context: list[float] = []
    spread: list[float] = []
    theirs: list[float] = []
    shared = 0
    async with Node.open(home, passphrase=PASSPHRASE, parts=parts_with(given)) as node:
        await node.recall(QUESTIONS[0])  # the first brings index and columns up to date
        columns, ids = columns_of(node), node.ground.memory.sync.index.ids(range(node.ground.memory.length))
        links = len(node.ground.memory.own.links)
        texts = await node.ground.store.texts(range(len(ids)))
        index = PlainIndex([texts[row] for row in range(len(ids))])
        for number in range(WARM_UP + ROUNDS):
            question = QUESTIONS[number % len(QUESTIONS)]
            given.vector = unit_vectors(1, random)[0]
            started = perf_counter()
            best = top(columns, index, question, given.vector)
            between = perf_counter()
            found = await node.recall(question, k=K)
            done = perf_counter()
            await node.recall(question, k=K, graph=GRAPH)
            spread_s = perf_counter() - done
            contextual = perf_counter()
            await node.recall(question, k=K, context="deploy")
            if number >= WARM_UP:
                theirs.append(between - started)
                mine.append(done - between)
                in_context.append(perf_counter() - contextual)
                spread.append(spread_s)
                shared += len({ids[row].hex() for row in best} & {hit.block for hit in found.hits})
    ratio = median(mine) / median(theirs)
    return Report(
        f"Recall at {BLOCKS:,} × {DIMENSION}",
        " ".join((__doc__ or "").split()),
        [
            at_most("ours against bare, p50", ratio, TARGET, "×"),
            at_most("ours, p50", median(mine) * 1e3, TARGET_MS, "ms"),
            Figure("ours, p95", f"{percentile(mine, 0.95) * 1e3:.2f} ms"),
            Figure(
                "bare, p50 (p95)", f"{median(theirs) * 1e3:.2f} ({percentile(theirs, 0.95) * 1e3:.2f}) ms"
            ),
            at_most(
                "with the graph term against bare, p50", median(spread) / median(theirs), SPREAD_TARGET, "×"
            ),
            at_most("with the graph term, p50", median(spread) * 1e3, TARGET_MS, "ms"),
            Figure("links", f"{links:,}"),
            Figure("ours with a context given, p50", f"{median(in_context) * 1e3:.2f} ms"),
            Figure("hits that both have, of ten", f"{shared / ROUNDS:.2f}"),
        ],
    )
