"""What `doctor recalibrate` does to forecasts: log loss of first outcomes before and after, by kind of rater.

A home learns 600 blocks, which help with chances drawn from Beta(1, 1) (even) or Beta(4, 2) (mostly good);
the rater says a number of each, and each is used five times, good as often as it helps, whatever its rating.
Then the home weighs its rater, all through `Node`. Judged on 600 more blocks that are rated and not used yet:
the log loss expected of the first outcome, by each block's true chance, when forecast with utility α/(α+β),
in nats; ½ for every block costs 0.693. Raters: *worth four* says Beta(4c, 4(1−c)) of the chance c, which is
what four outcomes would say; *knows* says c; *noisy* c + N(0, 0.25), kept in [0, 1]; *flatters* 0.6 + 0.4 c;
*level* 0.7 of everything; *useless* U(0, 1); *inverted* 1 − c. A rating states half an outcome, the default.
Four seeds each: means, the worth found in the middle, and in how many homes the weight was taken up.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.node.compose import real_parts
from loremesh.node.node import Node
from loremesh.node.ports import Ratings
from loremesh.node.settings import CONFIG_NAME, read_settings
from tests.bench.figures import Figure, Report, table
from tests.bench.homes import PASSPHRASE
from tests.bench.worlds import SHARED_MEMORY

SEEDS: Final = 4
BLOCKS: Final = 600
OUTCOMES: Final = 5
PER_CALL: Final = 200
CONFIG: Final = '[embedder]\nname = "hashing:64"\n[memory]\noutcomes_per_hour = 1000000\n'

Floats = NDArray[np.float64]
Says = Callable[[Floats, np.random.Generator], Floats]

CHANCES: Final = {"even": (1.0, 1.0), "mostly good": (4.0, 2.0)}
RATERS: Final[dict[str, Says]] = {
    "worth four": lambda c, random: random.beta(4.0 * c + 1e-3, 4.0 * (1.0 - c) + 1e-3),
    "knows": lambda c, _: c,
    "noisy": lambda c, random: np.clip(c + random.normal(0.0, 0.25, len(c)), 0.0, 1.0),
    "flatters": lambda c, _: 0.6 + 0.4 * c,
    "level": lambda c, _: np.full(len(c), 0.7),
    "useless": lambda c, random: random.uniform(0.0, 1.0, len(c)),
    "inverted": lambda c, _: 1.0 - c,
}


class Told:
    """A rater that says what it was given to say."""

    name = "simulated"

    def __init__(self, ratings: dict[str, float]) -> None:
        self.ratings = ratings

    async def rate(self, texts: Sequence[str]) -> Ratings:
        """The number for each text."""
        return Ratings([self.ratings[text] for text in texts])

    async def close(self) -> None:
        """Nothing to let go of."""


class Weighed(msgspec.Struct, frozen=True):
    """One home: whether its rater's weight changed, the likeliest worth, and the losses of first outcomes."""

    kept: bool
    worth: float
    before: float
    after: float


def expected_loss(chance: Floats, forecast: Floats) -> float:
    """Mean log loss of one outcome per block, over its true chance, nats."""
    return float(np.mean(-(chance * np.log(forecast) + (1.0 - chance) * np.log1p(-forecast))))


async def weighed(says: Says, shape: tuple[float, float], seed: int) -> Weighed:
    """One home from first text to its rater's weight."""
    random = np.random.default_rng([seed, 17])
    chance = random.beta(*shape, size=2 * BLOCKS)
    said = says(chance, random)
    texts = [f"Note {number} of this world" for number in range(2 * BLOCKS)]
    rater = Told(dict(zip(texts, said.tolist(), strict=True)))
    place = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="loremesh-bench-", dir=place) as scratch:
        home = Path(scratch)
        (home / CONFIG_NAME).write_text(CONFIG, encoding="utf-8")
        parts = msgspec.structs.replace(real_parts(read_settings(home), {}), rater=rater)
        async with Node.create(home, passphrase=PASSPHRASE, parts=parts) as node:
            blocks = [one.block for one in await node.learn_many(texts)]
            await node.consolidate()
            for _ in range(OUTCOMES):
                good = random.random(BLOCKS) < chance[:BLOCKS]
                for signal in (0.0, 1.0):
                    named = [blocks[at] for at in np.flatnonzero(good == bool(signal)).tolist()]
                    for start in range(0, len(named), PER_CALL):
                        await node.outcome(signal, blocks=named[start : start + PER_CALL])
            before = expected_loss(chance[BLOCKS:], await utilities(node, blocks[BLOCKS:]))
            (found,) = (await node.recalibrate()).raters
            after = expected_loss(chance[BLOCKS:], await utilities(node, blocks[BLOCKS:]))
    return Weighed(found.kept, found.worth, before, after)


async def utilities(node: Node, blocks: Sequence[str]) -> Floats:
    """α/(α+β) of the blocks, as recall reads it."""

    async def work() -> Floats:
        await node.ground.refresh()
        memory = node.ground.memory
        at = [memory.row_named(block) for block in blocks]
        alpha, beta = memory.effective.rows.alpha[at], memory.effective.rows.beta[at]
        found: Floats = alpha / (alpha + beta)
        return found

    return await node.ground.exclusive(work)


async def measure(_: Path) -> Report:
    """Every rater in every world."""
    figures = []
    for world, shape in CHANCES.items():
        for rater, says in RATERS.items():
            homes = [await weighed(says, shape, seed) for seed in range(SEEDS)]
            worth = median(one.worth for one in homes)
            before, after = mean(one.before for one in homes), mean(one.after for one in homes)
            figures.append(
                Figure(
                    f"{world}, {rater}: loss before > after; worth, taken up",
                    f"{before:.3f} > {after:.3f}; {worth:.1f}, {sum(one.kept for one in homes)} of {SEEDS}",
                    "not worse",
                    after <= before + 5e-4,
                )
            )
    how = " ".join((__doc__ or "").split())
    return Report("Calibration of raters", how, figures)


if __name__ == "__main__":
    print(table(asyncio.run(measure(Path()))))
    sys.exit(0)
