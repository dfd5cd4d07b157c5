"""Consolidating 10,000 blocks, linking included, without the time that rater and embedder take.

The texts are docstrings and comments of the installed Python and its packages, in pieces of 25 words. Their
vectors are given: in groups of ten around a common direction, so that every block has neighbours above the
threshold (cosines of 0.66 within a group, 0 between) and gets as many links as it may. Timed is
`Node.consolidate` from learned blocks to linked and rated ones: vectors and events sealed and stored, the
links looked for and decided, everything folded. The parts are timed inside the same run: looking for
neighbours (`nearest`), deciding (`Proposing`), the store (sealing and transactions), and the fold of the
events; what is left is reading texts, the state's own columns and the loop. Then once more with links
switched off, and what one new block costs in the full home.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from inspect import iscoroutinefunction
from pathlib import Path
from time import perf_counter, process_time
from typing import Final
from unittest.mock import patch

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.node import ground, linking
from loremesh.node.compose import real_parts
from loremesh.node.node import Node
from loremesh.node.parts import Parts
from loremesh.node.ports import Embedder, Ratings
from loremesh.node.proposing import Proposing
from loremesh.node.settings import Settings
from loremesh.node.store.store import Store
from tests.bench.figures import Figure, Report, at_most
from tests.bench.homes import DIMENSION, MODEL, PASSPHRASE
from tests.bench.passages import passages

BLOCKS: Final = 10_000
TARGET_S: Final = 15.0
GROUP: Final = 10
SPREAD: Final = 0.72
"""Length of what parts a block from its group's direction, over that direction's: cosines of 0.66."""
NEW: Final = 20
"""Blocks that come one at a time afterwards."""

PARTS: Final[tuple[tuple[str, object, str], ...]] = (
    ("looking for neighbours", linking, "nearest"),
    ("deciding on links", Proposing, "propose"),
    ("store", Store, "append"),
    ("store", Store, "set_embeddings"),
    ("fold", ground, "apply"),
)
"""Where the time of each part is taken."""


class Grouped:
    """An embedder that gives ready vectors in the order of the texts, and tells the time it took."""

    fingerprint = MODEL

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._given = 0
        self._centre = np.zeros(DIMENSION, np.float32)
        self.spent_s = 0.0

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
        """Unit vectors, ten in a row around one direction."""
        started = perf_counter()
        vectors = self._random.standard_normal((len(texts), DIMENSION), dtype=np.float32)
        vectors *= np.float32(SPREAD / DIMENSION**0.5)
        for vector in vectors:
            if self._given % GROUP == 0:
                self._centre = self._random.standard_normal(DIMENSION, dtype=np.float32)
                self._centre /= np.linalg.norm(self._centre)
            vector += self._centre
            self._given += 1
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        self.spent_s += perf_counter() - started
        return vectors

    async def close(self) -> None:
        """Nothing to let go of."""


class Half:
    """Rates everything alike, at once."""

    name = "half"

    async def rate(self, texts: Sequence[str]) -> Ratings:
        """One half for each."""
        return Ratings([0.5] * len(texts))

    async def close(self) -> None:
        """Nothing to let go of."""


class Spent:
    """Seconds by part of the work."""

    def __init__(self) -> None:
        self.by: dict[str, float] = {}

    def add(self, part: str, started: float) -> None:
        """What has passed since `started` went into `part`."""
        self.by[part] = self.by.get(part, 0.0) + perf_counter() - started


@contextmanager
def timed() -> Iterator[Spent]:
    """Inside, the parts of consolidation tell how long they take."""
    spent = Spent()

    def around(part: str, inner: Callable[..., object]) -> Callable[..., object]:
        def wrapped(*args: object, **kwargs: object) -> object:
            started = perf_counter()
            try:
                return inner(*args, **kwargs)
            finally:
                spent.add(part, started)

        return wrapped

    def around_async(part: str, inner: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
        async def wrapped(*args: object, **kwargs: object) -> object:
            started = perf_counter()
            try:
                return await inner(*args, **kwargs)
            finally:
                spent.add(part, started)

        return wrapped

    with ExitStack() as stack:
        for part, owner, name in PARTS:
            inner = getattr(owner, name)
            outer = around_async if iscoroutinefunction(inner) else around
            stack.enter_context(patch.object(owner, name, outer(part, inner)))
        yield spent


class Run(msgspec.Struct, frozen=True):
    """One consolidation: seconds without the embedder's, CPU seconds of all threads, parts, links."""

    seconds: float
    cpu_s: float
    spent: dict[str, float]
    linked: int
    one_ms: float


async def consolidated(scratch: Path, links: int) -> Run:
    """A fresh home of BLOCKS blocks, consolidated; then NEW more, one by one."""
    home = scratch / f"consolidating-{links}"
    home.mkdir()
    (home / "config.toml").write_text(f"[graph]\nlinks = {links}\n")
    embedder = Grouped(3)
    texts = passages(BLOCKS + NEW)
    async with Node.create(home, passphrase=PASSPHRASE, parts=parts_with(embedder)) as node:
        await node.learn_many(texts[:BLOCKS])
        with timed() as spent:
            started, cpu = perf_counter(), process_time()
            done = await node.consolidate()
            seconds, cpu_s = perf_counter() - started - embedder.spent_s, process_time() - cpu
        one_s = []
        for text in texts[BLOCKS:]:
            await node.learn(text)
            started = perf_counter()
            await node.consolidate()
            one_s.append(perf_counter() - started)
    return Run(seconds, cpu_s, spent.by, done.linked, float(np.median(one_s)) * 1e3)


def parts_with(embedder: Embedder) -> Parts:
    """The real outside world, but for embedder and rater."""

    async def open_embedder(dimension: int | None) -> Embedder:
        return embedder

    return msgspec.structs.replace(real_parts(Settings(), {}), open_embedder=open_embedder, rater=Half())


async def measure(scratch: Path) -> Report:
    """With links and without."""
    linked, plain = await consolidated(scratch, 5), await consolidated(scratch, 0)
    return Report(
        f"Consolidating {BLOCKS:,} × {DIMENSION}",
        " ".join((__doc__ or "").split()),
        [
            at_most("linking included", linked.seconds, TARGET_S, "s"),
            Figure("of that, CPU time of all threads", f"{linked.cpu_s:.2f} s"),
            *(Figure(f"of that, {part}", f"{seconds:.2f} s") for part, seconds in linked.spent.items()),
            Figure("links proposed", f"{linked.linked:,}"),
            Figure("links switched off", f"{plain.seconds:.2f} s"),
            Figure("one new block, linked (not linked)", f"{linked.one_ms:.1f} ({plain.one_ms:.1f}) ms"),
        ],
    )
