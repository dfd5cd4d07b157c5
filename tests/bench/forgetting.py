"""Forgetting models on real reviews: how well the R before a review forecasts whether it succeeds.

The log is one learner's (12,580 reviews of 1,205 cards, 191 days). A card's first review is its learning;
each later one is an outcome, 0 for Again and 1 for the rest, and moves S, D and what the rules remember.
Judged are the reviews twelve hours or more after the one before. Weights are either the published ones or
fitted: to four fifths of the cards, told on the other fifth, each fifth in turn, so that every judged review
is forecast by weights that saw nothing of its card. Intervals are of 95 %, cards being the independent units.

Calibration is the root of the mean square of forecast minus frequency over twenty bins of equally many
forecasts (0 is perfect); AUC is the chance that a success was forecast higher than a failure.
"""

from __future__ import annotations

import csv
import itertools
import math
from datetime import datetime
from pathlib import Path
from time import process_time
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.node import fsrs
from loremesh.node.fitting import (
    CLIP,
    Blocks,
    Forecasts,
    Happened,
    clustered_mean,
    fit,
    fitted_weights,
    forecasts,
    log_loss,
)
from loremesh.node.rulebook import RULE_SETS
from loremesh.node.rules import FSRS5, HOURS_PER_DAY, RuleSet
from tests.bench.figures import Figure, Report

DATA: Final = Path(__file__).parents[3] / "shared" / "data" / "fsrs" / "review_logs_josh.csv"
FOLDS: Final = 5
BINS: Final = 20
JUDGED_H: Final = 12.0
"""Below it a review is a step of the same sitting: no forgetting model means to forecast these."""
WIDE: Final = 1.96
AGAIN, HARD, GOOD, EASY = 1, 2, 3, 4
REPEATED: Final = 100_000
"""Outcomes of the fit whose time is told: as many as `doctor fit` looks at."""

Floats = NDArray[np.float64]


class Review(msgspec.Struct, frozen=True):
    """One review: card, rating 1 to 4, hours since the first review of the log."""

    card: str
    rating: int
    hour: float


def read(path: Path = DATA) -> list[list[Review]]:
    """The reviews by card, in order of time."""
    with path.open(encoding="utf-8", newline="") as lines:
        rows = [
            (row["card_id"], int(row["review_rating"]), datetime.fromisoformat(row["review_time"]))
            for row in csv.DictReader(lines)
        ]
    start = min(at for _, _, at in rows)
    cards: dict[str, list[Review]] = {}
    for card, rating, at in sorted(rows, key=lambda row: row[2]):
        hour = (at - start).total_seconds() / 3600.0
        cards.setdefault(card, []).append(Review(card, rating, hour))
    return list(cards.values())


def as_events(cards: list[list[Review]]) -> list[list[Happened]]:
    """The cards as blocks: learned, then outcomes."""
    order = {hour: n for n, hour in enumerate(sorted(one.hour for card in cards for one in card))}
    blocks = []
    for card in cards:
        events = [Happened(order[card[0].hour], card[0].hour, 0.0, None)]
        for before, one in itertools.pairwise(card):
            elapsed_h = one.hour - before.hour
            judged = 1.0 if elapsed_h >= JUDGED_H else 0.0
            signal = 0.0 if one.rating == AGAIN else 1.0
            events.append(Happened(order[one.hour], one.hour, elapsed_h, signal, 1.0, judged))
        blocks.append(events)
    return blocks


def cross_fitted(rules: RuleSet, blocks: Blocks, folds: NDArray[np.int64]) -> Forecasts:
    """Forecasts of every judged outcome by weights fitted to the cards of the other folds."""
    told = forecasts(rules, blocks)
    recall = told.recall.copy()
    for fold in range(FOLDS):
        weights, _ = fitted_weights(
            rules, rules.weights, [blocks[at] for at in np.flatnonzero(folds != fold).tolist()]
        )
        assert rules.reweighted is not None
        mine = folds[told.block] == fold
        recall[mine] = forecasts(rules.reweighted(weights), blocks).recall[mine]
    return msgspec.structs.replace(told, recall=recall)


def whole_fsrs5(cards: list[list[Review]]) -> Floats:
    """R before every judged review by FSRS-5 entire, with published weights and real-valued days.

    With what this memory leaves out: first S and D by the first rating, the rule for the same day, hard and
    easy, and D's return to its mean (py-fsrs 5.1.3).
    """
    w = fsrs.FSRS5
    recalled = []
    for card in cards:
        first = card[0].rating
        stability = w[first - 1]
        difficulty = _held(w[4] - math.exp(w[5] * (first - 1)) + 1.0)
        for before, one in itertools.pairwise(card):
            days = (one.hour - before.hour) / HOURS_PER_DAY
            recall = (1.0 + fsrs.FACTOR * days / stability) ** -0.5
            if one.hour - before.hour >= JUDGED_H:
                recalled.append(recall)
            if days < 1.0:
                stability *= math.exp(w[17] * (one.rating - 3 + w[18]))
            elif one.rating == AGAIN:
                stability = fsrs.after_failure(w, stability, difficulty, recall)
            else:
                grown = fsrs.after_success(w, stability, difficulty, recall) - stability
                stability += grown * {HARD: w[15], EASY: w[16]}.get(one.rating, 1.0)
            stability = max(stability, fsrs.MIN_STABILITY_DAYS)
            moved = difficulty - w[6] * (one.rating - 3) * (10.0 - difficulty) / 9.0
            difficulty = _held(w[7] * (w[4] - math.exp(w[5] * 3) + 1.0) + (1.0 - w[7]) * moved)
    clipped: Floats = np.clip(np.array(recalled), CLIP, 1.0 - CLIP)
    return clipped


def _held(difficulty: float) -> float:
    return min(max(difficulty, fsrs.MIN_DIFFICULTY), fsrs.MAX_DIFFICULTY)


def calibration(recall: Floats, signal: Floats) -> float:
    """Root mean square of forecast minus frequency over BINS bins of equally many forecasts."""
    parts = np.array_split(np.argsort(recall, kind="stable"), BINS)
    gaps = np.array([recall[part].mean() - signal[part].mean() for part in parts])
    sizes = np.array([len(part) for part in parts])
    return math.sqrt(float(sizes @ gaps**2) / len(recall))


def auc(recall: Floats, signal: Floats) -> float:
    """Chance that a success was forecast higher than a failure; ties count half."""
    _, at, counts = np.unique(recall, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2.0)[at]
    good = signal > 0.5
    successes = int(good.sum())
    above = float(ranks[good].sum()) - successes * (successes + 1) / 2.0
    return above / (successes * (len(signal) - successes))


def _told(recall: Floats, told: Forecasts, against: Floats) -> str:
    """Log loss with its interval, the difference to `against` with its, calibration and AUC."""
    loss = log_loss(recall, told.signal)
    mean, error = clustered_mean(loss, told.weight, told.block)
    more, spread = clustered_mean(loss - log_loss(against, told.signal), told.weight, told.block)
    return (
        f"{mean:.4f} ± {WIDE * error:.4f}, {more:+.4f} ± {WIDE * spread:.4f}, "
        f"{calibration(recall, told.signal):.3f}, {auc(recall, told.signal):.3f}"
    )


async def measure(scratch: Path) -> Report:
    """The table: log loss, difference to fsrs5 as published, calibration, AUC."""
    title = "Forgetting models on real reviews"
    if not DATA.exists():
        return Report(title, f"Skipped: there is no {DATA.name}.", [])
    cards = read()
    blocks = as_events(cards)
    folds = np.random.default_rng(11).permutation(len(blocks)) % FOLDS
    told = forecasts(FSRS5, blocks)
    published = {name: forecasts(rules, blocks).recall for name, rules in RULE_SETS.items()}
    reference = published["fsrs5"]
    mean = np.array([told.signal[folds[told.block] != fold].mean() for fold in range(FOLDS)])
    figures = [Figure("always the mean of the other cards", _told(mean[folds[told.block]], told, reference))]
    figures += [
        Figure(f"{name}, as published", _told(recall, told, reference)) for name, recall in published.items()
    ]
    figures.append(Figure("FSRS-5 entire, as published", _told(whole_fsrs5(cards), told, reference)))
    figures += [
        Figure(f"{name}, fitted", _told(cross_fitted(rules, blocks, folds).recall, told, reference))
        for name, rules in RULE_SETS.items()
    ]
    return Report(title, _how(told), [*figures, *_later(blocks, len(told.n))])


def _later(blocks: Blocks, judged: int) -> list[Figure]:
    """What `doctor fit` says of this log, and how long it takes for the longest it looks at."""
    found = fit(FSRS5, FSRS5.weights, blocks)
    gain = Figure(
        "`doctor fit` of fsrs5: later fifth of the time, gain",
        f"{found.gain:.4f}, at least {found.gain_at_least:.4f}",
        "above 0",
        found.better,
    )
    copies = -(-REPEATED // judged)
    started = process_time()
    fit(FSRS5, FSRS5.weights, [block for block in blocks for _ in range(copies)])
    took_s = process_time() - started
    return [gain, Figure(f"the same for {copies * judged:,} outcomes", f"{took_s:.1f} s")]


def _how(told: Forecasts) -> str:
    failed = 1.0 - float(told.signal.mean())
    text = (__doc__ or "").strip()
    return (
        f"{text}\n\n{len(told.n):,} judged reviews of {len(np.unique(told.block)):,} cards, {failed:.1%} "
        "failed. Figures: log loss in nats, its difference to fsrs5 as published (below 0 is better), "
        "calibration, AUC."
    )
