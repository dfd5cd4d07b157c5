"""Power law or exponential: 300 active hours of learning and using, and what recall still reaches.

The objection: under a power law old blocks hardly fade, so that they crowd out what was learned lately. It
was raised after a simulation (elfmem) whose blocks all had one stability of 100 h, and which lost 44 to 66
points of reach to recent items; that simulation is not repeated here, its condition is. One world is lived
under it, and under rule sets with S and D of each block's own. It is the product's arithmetic throughout: the
fold, its rules, and the score; of `attention`, and of a frame in which retrievability weighs half (likeness
0.3), where the curve can do most harm.

The world: ten texts are learned an hour, 3,000 in all, on 50 topics. A fifth are good (they work 90 % of the
time), half so-so (50 %), the rest bad (15 %). Twenty recalls an hour, k = 5: half of them want a block of the
last 24 hours, whatever its quality, half a good one of any earlier time, early ones more often (needs follow
a Zipf law). The wanted block is the most alike by a little on average; blocks on its topic are nearly as
alike; noise decides between them, and so do utility, retrievability and the rest of the score. Each block
handed out on the topic is judged by its own quality, one of another topic fails.

Told are the share of recalls that hand out the wanted block, for recent and for older ones; and quality, the
chance that a block handed out works. Means over five worlds, the same for every arm; ± is 95 % of the paired
difference to fsrs5.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.node import evidence
from loremesh.node.clock import ActiveClock
from loremesh.node.fold import apply, apply_home
from loremesh.node.ownstate import OwnState
from loremesh.node.rulebook import ACTR, HLR
from loremesh.node.rules import EXPONENTIAL, FSRS5, FSRS6, Past, Pasts, RuleSet
from loremesh.node.score import RecallFrame, Terms, rank, recall_frame, utility_terms
from loremesh.sync.rows import Contexts
from tests.bench.figures import Figure, Report

HOURS: Final = 300
LEARNED_PER_HOUR: Final = 10
RECALLS_PER_HOUR: Final = 20
TOPICS: Final = 50
K: Final = 5
WORLDS: Final = 5
RECENT_H: Final = 24.0
FIXED_H: Final = 100.0
GOOD, FAIR, BAD = 0.9, 0.5, 0.15
WANTED_SIM, TOPIC_SIM, OTHER_SIM, NOISE = 0.66, 0.60, 0.20, 0.08
LOST_POINTS: Final = 5.0
"""Points of reach to recent blocks that the power law may lose against the exponential: a tenth of what the
objection is about."""
STUDENT: Final = 2.776
"""97.5 % point of t with four degrees of freedom, for differences over five worlds."""

Floats = NDArray[np.float64]


class World(msgspec.Struct, frozen=True, eq=False):
    """What is the same for every arm: blocks in order of learning, and the recalls of each hour."""

    topic: NDArray[np.int64]
    quality: Floats
    seed: int


class Lived(msgspec.Struct, frozen=True):
    """Shares of recalls that found what they wanted, the quality handed out, and S at the end (hours)."""

    recent: float
    older: float
    quality: float
    stability_h: tuple[float, float, float]


def fixed(name: str, curve: RuleSet) -> RuleSet:
    """A curve with one stability of FIXED_H for every block, whatever happens to it."""

    def step(
        stability_h: float,
        difficulty: float,
        _signal: float,
        _fraction: float,
        _elapsed_h: float,
        _hour: float = 0.0,
        _past: Past | None = None,
        /,
    ) -> tuple[float, float]:
        return stability_h, difficulty

    def retrievability(elapsed_h: Floats, stability_h: Floats, pasts: Pasts | None = None, /) -> Floats:
        return curve.retrievability(elapsed_h, np.full_like(stability_h, FIXED_H), pasts)

    return RuleSet(name, step, retrievability)


def elfmem(elapsed_h: Floats, stability_h: Floats, pasts: Pasts | None = None, /) -> Floats:
    """e^(-t/100 h), as elfmem decays at a rate of 0.01 an hour."""
    faded: Floats = np.exp(-np.maximum(elapsed_h, 0.0) / FIXED_H)
    return faded


ARMS: Final = (
    FSRS5,
    EXPONENTIAL,
    FSRS6,
    HLR,
    ACTR,
    fixed("power law, S = 100 h for all", FSRS5),
    msgspec.structs.replace(fixed("exponential, e^(-t/100 h) for all", FSRS5), retrievability=elfmem),
)


FRAMES: Final = (
    recall_frame("attention"),
    RecallFrame("R at one half", 0.30, 0.10, 0.50, 0.05, 0.05),
)


def made(seed: int) -> World:
    """A world."""
    random = np.random.default_rng(seed)
    blocks = HOURS * LEARNED_PER_HOUR
    quality = random.choice([GOOD, FAIR, BAD], blocks, p=[0.2, 0.5, 0.3])
    return World(random.integers(0, TOPICS, blocks), quality, seed)


def live(world: World, rules: RuleSet, frame: RecallFrame) -> Lived:
    """The world under these rules, recalled in this frame. What chance decides is alike in every arm."""
    random = np.random.default_rng([world.seed, 1])
    clock = ActiveClock(0.0, 1_700_000_000_000)
    own = OwnState(bytes(32), Contexts(), rules)
    apply_home(own, evidence.incarnation(clock, bytes(15) + b"\1", "created"))
    found: dict[bool, list[bool]] = {True: [], False: []}
    handed: list[float] = []
    for hour in range(HOURS):
        for row in range(hour * LEARNED_PER_HOUR, (hour + 1) * LEARNED_PER_HOUR):
            apply(own, row, evidence.learn(clock, 1.0))
        blocks = (hour + 1) * LEARNED_PER_HOUR
        for _ in range(RECALLS_PER_HOUR):
            clock.advance(clock.wall_ms + 3_600_000 // RECALLS_PER_HOUR)
            recent, draw, noise, luck = _drawn(random)
            wanted = _wanted(world, blocks, recent, draw)
            if wanted is None:
                continue
            sim = np.where(world.topic[:blocks] == world.topic[wanted], TOPIC_SIM, OTHER_SIM)
            sim[wanted] = WANTED_SIM
            sim += NOISE * noise[:blocks]
            hits = _recalled(own, frame, sim, clock.hour, blocks)
            found[recent].append(wanted in hits)
            for row in hits:
                works = world.quality[row] if world.topic[row] == world.topic[wanted] else 0.0
                handed.append(works)
                signal = float(luck[row] < works)
                for one, event in evidence.outcome_of_blocks(own, clock, [row], signal):
                    apply(own, one, event)
    stability_h = np.percentile(own.columns.views().stability_h, [10, 50, 90])
    return Lived(
        float(np.mean(found[True])),
        float(np.mean(found[False])),
        float(np.mean(handed)),
        (float(stability_h[0]), float(stability_h[1]), float(stability_h[2])),
    )


def _drawn(random: np.random.Generator) -> tuple[bool, float, Floats, Floats]:
    """Kind of need, which block, the noise of similarity and the luck of each outcome."""
    blocks = HOURS * LEARNED_PER_HOUR
    return (
        bool(random.random() < 0.5),
        random.random(),
        random.standard_normal(blocks),
        random.random(blocks),
    )


def _wanted(world: World, blocks: int, recent: bool, draw: float) -> int | None:
    """A block learned within RECENT_H; or a good one learned before, the n-th of them wanted 1/n as often."""
    border = max(blocks - int(RECENT_H * LEARNED_PER_HOUR), 0)
    if recent:
        return border + int(draw * (blocks - border))
    good = np.flatnonzero(world.quality[:border] == GOOD)
    if not len(good):
        return None
    need = np.cumsum(1.0 / np.arange(1, len(good) + 1))
    return int(good[np.searchsorted(need, draw * need[-1])])


def _recalled(own: OwnState, frame: RecallFrame, sim: Floats, hour: float, blocks: int) -> list[int]:
    """The K best by the score, of a home without peers."""
    seen = own.columns.views(blocks)
    utility, explore = utility_terms(seen.alpha_fx(), seen.beta_fx())
    recall = own.rules.retrievability(hour - seen.t_last_h, seen.stability_h, own.history.pasts(hour, blocks))
    terms = Terms(
        sim=np.clip(sim, 0.0, 1.0).astype(np.float32),
        utility=utility,
        retrievability=recall.astype(np.float32),
        importance=seen.importance.astype(np.float32),
        explore=explore,
    )
    ranked = rank(
        frame,
        terms,
        K,
        eligible=np.ones(blocks, np.bool_),
        block_id=lambda row: row.to_bytes(32, "big"),
    )
    return [hit.row for hit in ranked]


def _figure(what: str, lives: list[Lived], against: list[Lived]) -> Figure:
    shown = []
    for name in ("recent", "older", "quality"):
        values = np.array([getattr(one, name) for one in lives])
        apart = values - np.array([getattr(one, name) for one in against])
        error = apart.std(ddof=1) / np.sqrt(len(apart))
        shown.append(f"{100 * values.mean():.1f} ({100 * apart.mean():+.1f} ± {100 * STUDENT * error:.1f})")
    spread = np.mean([one.stability_h for one in lives], axis=0)
    shown.append("/".join(f"{hours:.0f}" for hours in spread))
    return Figure(what, ", ".join(shown))


async def measure(scratch: Path) -> Report:
    """Reach and quality under every arm, and whether the power law loses what the objection says."""
    worlds = [made(seed) for seed in range(WORLDS)]
    figures = []
    for frame in FRAMES:
        lives = [[live(world, rules, frame) for world in worlds] for rules in ARMS]
        figures += [
            _figure(f"{frame.name}: {rules.name}", one, lives[0])
            for rules, one in zip(ARMS, lives, strict=True)
        ]
        power, exponential = lives[0], lives[1]
        lost = 100.0 * float(np.mean([b.recent - a.recent for a, b in zip(power, exponential, strict=True)]))
        figures.append(
            Figure(
                f"{frame.name}: reach to recent blocks that fsrs5 loses to exponential",
                f"{lost:.1f} points",
                f"at most {LOST_POINTS:g} points",
                lost <= LOST_POINTS,
            )
        )
    how = (__doc__ or "").strip() + (
        "\n\nFigures in per cent (difference to fsrs5): reach to recent blocks, reach to older good ones, "
        "quality handed out; then S at the end, hours, 10th, 50th and 90th percentile."
    )
    return Report("Reach to recent blocks: power law against exponential", how, figures)
