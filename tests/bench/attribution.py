"""How much sooner attribution tells an anchor from a hitchhiker than worth does, and what it calls riders.

Pair: an anchor of utility 0.90 and a hitchhiker of 0.05 travel together, but for a share of the episodes
where one of them comes alone; random ones of 98 other blocks fill five places; success with the mean utility,
a tenth of the outcomes flipped; 20 seeds. Told apart: the two 90 % intervals do not overlap, the anchor's
above, at this number of episodes and at all later ones looked at, up to 30,000, each 1.4 times the last.
Riders: ten specialists of 0.9 on hard tasks only, ten easy riders of 0.5 on easy ones, twenty generalists
of 0.5 on both, five to an episode, success with base + mean utility - 0.5, bases 0.75 and 0.35, half of the
tasks hard, 8,000 episodes, ten seeds, the first through `Node.outcome` and `Node.attribute` as well.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from statistics import median
from typing import Final

import msgspec
import numpy as np

from loremesh.node.attribution import Role, attribute
from loremesh.node.worth import interval
from tests.bench.figures import Figure, Report, at_least, table
from tests.bench.worlds import BLOCKS, Floats, Ints, K, as_episodes, some, travelling
from tests.bench.worth import ANCHOR, HITCHHIKER, whole

SEEDS: Final = 20
LONGEST: Final = 30_000
STEP: Final = 1.4
SHARES: Final = (0.05, 0.2)

RIDER_SEEDS: Final = 10
RIDER_EPISODES: Final = 8_000
EACH: Final = 10
RIDERS: Final = 4 * EACH
SPECIALIST: Final = 0.9
AVERAGE: Final = 0.5
BASES: Final = {"easy": 0.75, "hard": 0.35}


def checkpoints() -> list[int]:
    """Numbers of episodes at which both are asked."""
    found = [100.0]
    while found[-1] * STEP <= LONGEST:
        found.append(found[-1] * STEP)
    return [round(one) for one in found]


def told_apart(seed: int, share: float) -> tuple[float, float]:
    """Episodes until worth and until attribution has the two apart; infinite where never."""
    random = np.random.default_rng([seed, 5])
    utility = np.concatenate([[ANCHOR, HITCHHIKER], random.random(BLOCKS - 2)])
    blocks, signal = travelling(random, utility, LONGEST, share)
    counts = checkpoints()
    return (
        lasting(counts, [by_worth(blocks[:count], signal[:count]) for count in counts]),
        lasting(counts, [by_effect(blocks[:count], signal[:count]) for count in counts]),
    )


def lasting(counts: list[int], found: list[bool]) -> float:
    """The first count from which on all is found; infinite when it is not found at the end."""
    lost = [at for at, one in enumerate(found) if not one]
    return float([*counts, np.inf][lost[-1] + 1]) if lost else float(counts[0])


def by_worth(blocks: Ints, signal: Floats) -> bool:
    """Whether the anchor's interval of worth lies above the hitchhiker's."""
    good = np.bincount(blocks.ravel(), np.repeat(signal, blocks.shape[1]), BLOCKS)[:2].astype(np.float64)
    seen = np.bincount(blocks.ravel(), minlength=BLOCKS)[:2].astype(np.float64)
    low, high = interval(good, seen - good)
    return bool(low[0] > high[1])


def by_effect(blocks: Ints, signal: Floats) -> bool:
    """Whether the anchor's interval of the effect lies above the hitchhiker's."""
    found = attribute(as_episodes(blocks, signal))
    place = {row: at for at, row in enumerate(found.row.tolist())}
    if 0 not in place or 1 not in place:
        return False
    return bool(found.effect.low[place[0]] > found.effect.high[place[1]])


def riders(seed: int) -> tuple[Ints, list[str], Floats]:
    """Blocks, context and outcome by episode: ten specialists, ten easy riders, then the generalists."""
    random = np.random.default_rng([seed, 9])
    hard = random.random(RIDER_EPISODES) < 0.5
    drawn = some(random, RIDER_EPISODES, RIDERS - EACH)
    # On hard tasks specialists and generalists are drawn from, on easy ones easy riders and generalists.
    blocks = np.where(hard[:, None], np.where(drawn < EACH, drawn, drawn + EACH), drawn + EACH)
    utility = np.where(np.arange(RIDERS) < EACH, SPECIALIST, AVERAGE)
    rate = np.where(hard, BASES["hard"], BASES["easy"]) + utility[blocks].mean(axis=1) - AVERAGE
    good = (random.random(RIDER_EPISODES) < rate).astype(np.float64)
    return blocks, ["hard" if one else "easy" for one in hard.tolist()], good


def called(seed: int) -> list[float]:
    """Chance that a specialist is above an easy rider, by worth and by effect; share of the specialists that
    are said to help, and of the easy riders that are called so.
    """
    blocks, contexts, good = riders(seed)
    context = np.array([int(one == "hard") for one in contexts], np.int64)
    found = attribute(msgspec.structs.replace(as_episodes(blocks, good), context=context))
    seen = np.bincount(blocks.ravel(), minlength=RIDERS)
    worth = np.bincount(blocks.ravel(), np.repeat(good, K), RIDERS) / seen
    roles = [found.role(at)[0] for at in range(RIDERS)]
    return [
        above(worth),
        above(found.effect.value),
        float(np.mean([role in (Role.SPECIALIST, Role.ANCHOR) for role in roles[:EACH]])),
        float(np.mean([role is Role.EASY_RIDER for role in roles[EACH : 2 * EACH]])),
    ]


def above(values: Floats) -> float:
    """Share of the pairs in which the specialist has more than the easy rider."""
    return float((values[:EACH, None] > values[None, EACH : 2 * EACH]).mean())


async def in_node(seed: int) -> int:
    """Through `Node`: in how many blocks role or effect differ from what `attribute` says; 0 it should be."""
    blocks, contexts, good = riders(seed)
    context = np.array([int(one == "hard") for one in contexts], np.int64)
    found = attribute(msgspec.structs.replace(as_episodes(blocks, good), context=context))
    async with whole([f"block number {number}" for number in range(RIDERS)]) as mind:
        for some_, label, signal in zip(blocks.tolist(), contexts, good.tolist(), strict=True):
            await mind.outcome(some_, signal, label)
        told = {one.block: one for one in (await mind.node.attribute()).found}
    differing = 0
    for at, block in enumerate(mind.ids):
        same = abs(told[block].effect[0] - float(found.effect.value[at])) < 1e-9
        differing += not (same and told[block].role == found.role(at)[0].value)
    return differing


async def measure(scratch: Path) -> Report:
    """Both worlds."""
    figures = []
    for share in SHARES:
        runs = [told_apart(seed, share) for seed in range(SEEDS)]
        by_hits, by_cause = median(one for one, _ in runs), median(one for _, one in runs)
        hits = f"{by_hits:,.0f}" if np.isfinite(by_hits) else f"more than {LONGEST:,}"
        figures.append(
            Figure(
                f"pair, {share:.0%} apart: episodes until worth, until effects tell",
                f"{hits}; {by_cause:,.0f}",
            )
        )
        figures.append(
            Figure(
                f"pair, {share:.0%} apart: sooner by, median", f"{min(by_hits, LONGEST) / by_cause:.0f} times"
            )
        )
    by_hits, by_cause, helps, rides = np.mean([called(seed) for seed in range(RIDER_SEEDS)], axis=0).tolist()
    figures += [
        Figure("riders: specialist above easy rider by worth", f"{by_hits:.3f} of pairs"),
        at_least("riders: specialist above easy rider by effect", by_cause, 0.95, "of pairs"),
        Figure("riders: specialists said to help", f"{helps:.2f}"),
        Figure("riders: easy riders called so", f"{rides:.2f}"),
    ]
    differing = await in_node(0)
    figures.append(
        Figure("riders: blocks of which Node says otherwise", str(differing), "none", differing == 0)
    )
    return Report("Attribution", " ".join((__doc__ or "").split()), figures)


if __name__ == "__main__":
    print(table(asyncio.run(measure(Path()))))
    sys.exit(0)
