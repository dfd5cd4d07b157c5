"""The five experiments of Memory Worth, N = 100 blocks, K = 5 an episode, 20 seeds unless said otherwise.

Outcomes go through the node's own makers of events and its fold, without a disk; one seed of base, softmax
(1,000 episodes), difficulty and stale goes through `Node.outcome` and `Node.worth` as well, and must give the
same numbers to the last bit. Base: uniform choice, success with the mean utility, a tenth of the outcomes
flipped, 10,000 episodes. Softmax: the same, blocks chosen by exp(worth/τ). Difficulty: 70 generalists of
utility U(0,1) on easy and hard tasks, 30 specialists of 0.85 on hard ones only, success with base + 0.085 ·
mean utility, bases 0.78 and 0.28, half of the tasks hard; once with the bases told, once estimated from the
other blocks' outcomes. Pair: an anchor of 0.90 and a hitchhiker of 0.05 that travel together, with random
others; 200 episodes, 2,000 runs. They are apart only because recall parts them, in the share of the
episodes that `[memory] diversity` says. (The most that 200 episodes can tell at 0.2 is about 0.81: twenty
episodes with either one alone.) Stale: a block in each of 3,000 episodes, good with 0.97 up to the 300th,
with 0.08 from then on. ± is the 95 % interval of the mean, s the standard deviation over seeds.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import numpy as np

from loremesh.node.node import Node
from loremesh.node.settings import CONFIG_NAME
from loremesh.node.worth import Proposal, Trend, proposal
from tests.bench.figures import Figure, Report, table
from tests.bench.homes import PASSPHRASE
from tests.bench.worlds import (
    BLOCKS,
    FLIPPED,
    SHARED_MEMORY,
    Floats,
    Folded,
    K,
    Mind,
    Whole,
    rank_correlation,
    some,
)

SEEDS: Final = 20
EPISODES: Final = 10_000
FOLLOWED: Final = 1_000
"""Episodes of softmax in a node, which is asked for every block's worth before each."""
TEMPERATURES: Final = (1.0, 0.2)

GENERALISTS: Final = 70
SPECIALIST: Final = 0.85
BASES: Final = {"easy": 0.78, "hard": 0.28}
GAIN: Final = 0.085

ANCHOR: Final = 0.90
HITCHHIKER: Final = 0.05
PAIR_RUNS: Final = 2_000
PAIR_EPISODES: Final = 200
SHARES: Final = (0.1, 0.2, 0.3)
WHOLE_PAIR_RUNS: Final = 3

STALE_EPISODES: Final = 3_000
STALE_AT: Final = 300
BEFORE: Final = 0.97
AFTER: Final = 0.08

CONFIG: Final = """\
[embedder]
name = "hashing:1024"
[memory]
diversity = {diversity}
outcomes_per_hour = 1000000
[memory.base_rates]
easy = 0.78
hard = 0.28
"""

Experiment = Callable[[Mind, int, int], Awaitable[list[Floats]]]
"""One seed in one mind, so many episodes; values by block, the true utilities first."""


async def base(mind: Mind, seed: int, episodes: int) -> list[Floats]:
    """Uniform choice."""
    random = np.random.default_rng(seed)
    utility = random.random(BLOCKS)
    for blocks in some(random, episodes, BLOCKS).tolist():
        good = (random.random() < utility[blocks].mean()) ^ (random.random() < FLIPPED)
        await mind.outcome(blocks, float(good))
    return [utility, await mind.worth()]


def softmax(temperature: float) -> Experiment:
    """Choice by what worth says so far: by adding Gumbel noise, which draws without replacement."""

    async def experiment(mind: Mind, seed: int, episodes: int) -> list[Floats]:
        random = np.random.default_rng(seed)
        utility = random.random(BLOCKS)
        for _ in range(episodes):
            wish = await mind.worth() / temperature + random.gumbel(size=BLOCKS)
            blocks = np.argpartition(-wish, K)[:K].tolist()
            good = (random.random() < utility[blocks].mean()) ^ (random.random() < FLIPPED)
            await mind.outcome(blocks, float(good))
        return [utility, await mind.worth()]

    return experiment


async def difficulty(mind: Mind, seed: int, episodes: int) -> list[Floats]:
    """Generalists everywhere, specialists where it is hard."""
    random = np.random.default_rng(seed)
    utility = np.concatenate([random.random(GENERALISTS), np.full(BLOCKS - GENERALISTS, SPECIALIST)])
    hard = random.random(episodes) < 0.5
    anybody, generalists = some(random, episodes, BLOCKS), some(random, episodes, GENERALISTS)
    for at in range(episodes):
        blocks = (anybody if hard[at] else generalists)[at].tolist()
        context = "hard" if hard[at] else "easy"
        good = random.random() < BASES[context] + GAIN * utility[blocks].mean()
        await mind.outcome(blocks, float(good), context)
    return [utility, await mind.worth(), await mind.corrected()]


@asynccontextmanager
async def whole(texts: list[str], diversity: float = 0.0) -> AsyncIterator[Whole]:
    """A node that has learned these texts."""
    place = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="loremesh-bench-", dir=place) as scratch:
        (Path(scratch) / CONFIG_NAME).write_text(CONFIG.format(diversity=diversity), encoding="utf-8")
        async with Node.create(Path(scratch), passphrase=PASSPHRASE) as node:
            learned = await node.learn_many(texts)
            await node.consolidate()
            yield Whole(node, [one.block for one in learned])


async def run(experiment: Experiment, in_node: int = EPISODES) -> tuple[list[list[Floats]], bool]:
    """Every seed in the fold, and the first `in_node` episodes of the first one in a node: whether the two
    agree to the last bit.
    """
    found = [await experiment(Folded(BLOCKS, BASES), seed, EPISODES) for seed in range(SEEDS)]
    folded = await experiment(Folded(BLOCKS, BASES), 0, in_node)
    async with whole([f"block number {number}" for number in range(BLOCKS)]) as mind:
        again = await experiment(mind, 0, in_node)
    return found, all((one == other).all() for one, other in zip(folded, again, strict=True))


def correlations(found: list[list[Floats]], of: int = 1) -> Floats:
    """Rank correlation with the true utilities, by seed."""
    return np.array([rank_correlation(one[of], one[0]) for one in found])


def told(what: str, values: Floats, least: float | None = None) -> Figure:
    """A mean with its interval, and the spread over seeds."""
    mean, spread = float(values.mean()), float(values.std(ddof=1))
    half = 1.96 * spread / np.sqrt(len(values))
    text = f"{mean:+.3f} ± {half:.3f} (s {spread:.3f})"
    if least is None:
        return Figure(what, text)
    return Figure(what, text, f"at least {least:+.2f}", mean >= least)


async def pair_in_fold(share: float) -> tuple[float, float]:
    """Share of runs that have the anchor above the hitchhiker, and of episodes with only one of them."""
    right, apart = 0.0, 0
    for seed in range(PAIR_RUNS):
        random = np.random.default_rng(seed)
        utility = np.concatenate([[ANCHOR, HITCHHIKER], random.random(BLOCKS - 2)])
        mind = Folded()
        for others in (some(random, PAIR_EPISODES, BLOCKS - 2, K) + 2).tolist():
            episode, rows = mind.recall([0, 1, *others], share, random)
            good = (random.random() < utility[rows].mean()) ^ (random.random() < FLIPPED)
            mind.finish(episode, float(good))
            apart += not {0, 1} <= set(rows)
        worth = await mind.worth()
        right += 1.0 if worth[0] > worth[1] else 0.5 if worth[0] == worth[1] else 0.0
    return right / PAIR_RUNS, apart / PAIR_RUNS / PAIR_EPISODES


async def pair_in_node(share: float) -> tuple[float, float]:
    """The same through `Node.recall`: share of episodes with only one of the two, and of recalls that
    handed out what was asked for.
    """
    texts = ["deploy anchor", "deploy hitchhiker", *(f"other{number}" for number in range(2, BLOCKS))]
    apart = meant = 0
    for seed in range(WHOLE_PAIR_RUNS):
        random = np.random.default_rng(seed)
        utility = np.concatenate([[ANCHOR, HITCHHIKER], random.random(BLOCKS - 2)])
        async with whole(texts, share) as mind:
            number = {block: at for at, block in enumerate(mind.ids)}
            for others in (some(random, PAIR_EPISODES, BLOCKS - 2, K) + 2).tolist():
                asked = "deploy anchor hitchhiker " + " ".join(texts[other] for other in others)
                found = await mind.node.recall(asked, k=K)
                rows = [number[hit.block] for hit in found.hits]
                good = (random.random() < utility[rows].mean()) ^ (random.random() < FLIPPED)
                await mind.node.outcome(float(good), episode=found.episode)
                apart += not {0, 1} <= set(rows)
                meant += len(rows) == K and set(rows) <= {0, 1, *others}
    count = WHOLE_PAIR_RUNS * PAIR_EPISODES
    return apart / count, meant / count


async def stale(seed: int) -> tuple[float, float, float, float, float]:
    """Recent worth before the change and at the end, plain worth at the end, outcomes from the change until
    the trend shows and until deprecating is proposed.
    """
    random = np.random.default_rng(seed)
    mind = Folded(1)
    before = falling = proposed = np.nan
    for at in range(STALE_EPISODES):
        await mind.outcome([0], float(random.random() < (BEFORE if at < STALE_AT else AFTER)))
        if at == STALE_AT - 1:
            before = float(mind.worths().recent[0])
        if at >= STALE_AT and np.isnan(proposed):
            found = mind.worths()
            if np.isnan(falling) and found.trend(0) is Trend.FALLING:
                falling = at + 1 - STALE_AT
            if proposal(found, 0, False, None) is Proposal.DEPRECATE:
                proposed = at + 1 - STALE_AT
    found = mind.worths()
    return before, float(found.recent[0]), float(found.worth[0]), falling, proposed


async def stale_in_node() -> tuple[bool, bool]:
    """Through `Node`: whether the recent worth is the fold's, and whether deprecating is proposed."""
    random = np.random.default_rng(0)
    async with whole(["restart the old indexer"]) as mind:
        for at in range(STALE_EPISODES):
            await mind.outcome([0], float(random.random() < (BEFORE if at < STALE_AT else AFTER)))
        (seen,) = await mind.node.worth(candidates=True)
    return seen.recent == (await stale(0))[1], seen.proposal == Proposal.DEPRECATE.value


async def measure(scratch: Path) -> Report:
    """All five."""
    plain, same = await run(base)
    figures = [told("base: rank correlation of worth", correlations(plain), 0.88)]
    agreed = [same]
    for temperature in TEMPERATURES:
        found, same = await run(softmax(temperature), FOLLOWED)
        figures.append(told(f"softmax, τ = {temperature:g}", correlations(found), 0.88))
        agreed.append(same)
    found, same = await run(difficulty)
    agreed.append(same)
    worth = told("difficulty: worth alone", correlations(found))
    figures.append(Figure(worth.what, worth.value, "negative", bool(correlations(found).mean() < 0.0)))
    figures.append(told("difficulty: corrected, base rates known", correlations(found, 2), 0.20))
    estimated = [await difficulty(Folded(BLOCKS), seed, EPISODES) for seed in range(SEEDS)]
    figures.append(told("difficulty: corrected, base rates estimated", correlations(estimated, 2)))
    for share in SHARES:
        right, apart = await pair_in_fold(share)
        half = 1.96 * float(np.sqrt(right * (1.0 - right) / PAIR_RUNS))
        target = ("at least 0.80", right >= 0.80) if share == 0.2 else ("", None)
        what = f"pair, diversity {share:g}: anchor above hitchhiker in"
        figures.append(
            Figure(
                what,
                f"{right:.3f} ± {half:.3f} of runs ({apart:.3f} apart)",
                *target,
            )
        )
    apart, meant = await pair_in_node(0.2)
    figures.append(
        Figure("pair through Node.recall, diversity 0.2: apart in", f"{apart:.3f} ({meant:.3f} as asked)")
    )
    runs = np.array([await stale(seed) for seed in range(SEEDS)])
    before, after, long, falling, proposed = runs.mean(axis=0).tolist()
    figures.append(Figure("stale: recent worth before", f"{before:.3f}", "about 0.97"))
    figures.append(Figure("stale: recent worth at the end", f"{after:.3f}", "at most 0.10", after <= 0.10))
    figures.append(Figure("stale: worth of all outcomes at the end", f"{long:.3f}"))
    figures.append(
        Figure(
            "stale: outcomes until it falls, until deprecating is proposed", f"{falling:.0f}, {proposed:.0f}"
        )
    )
    same, offered = await stale_in_node()
    agreed += [same, offered]
    figures.append(
        Figure("the node gives the fold's numbers", f"{sum(agreed)} of {len(agreed)}", "all", all(agreed))
    )
    return Report("Memory Worth", " ".join((__doc__ or "").split()), figures)


if __name__ == "__main__":
    print(table(asyncio.run(measure(Path()))))
    sys.exit(0)
