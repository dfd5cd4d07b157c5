"""The arithmetic of the demonstration's figures: shares with their intervals, and curves over time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from loremesh.node.demo.agents import Answer
from loremesh.node.demo.corpus import name_in
from loremesh.node.demo.results import Moved, Score, Stretch
from loremesh.node.results import Explanation
from loremesh.sync.trust import influence_bound

Z_95 = 1.959963984540054
"""Of the standard normal distribution, for an interval of 95 %."""


def interval(right: int, asked: int) -> tuple[float, float]:
    """Wilson's score interval, 95 %, of a share; (0, 1) when nothing was asked.

    Source: Wilson (1927), Journal of the American Statistical Association 22.

    >>> [round(bound, 3) for bound in interval(8, 10)]
    [0.49, 0.943]
    """
    if not asked:
        return 0.0, 1.0
    share, square = right / asked, Z_95**2
    middle = (share + square / (2 * asked)) / (1 + square / asked)
    half = Z_95 / (1 + square / asked) * math.sqrt(share * (1 - share) / asked + square / (4 * asked**2))
    # At the ends the exact bound is 0 or 1; rounding must not put it beyond the share itself.
    return max(0.0, min(middle - half, share)), min(1.0, max(middle + half, share))


def score(agent: str, answers: Sequence[Answer], made_up: frozenset[str] = frozenset()) -> Score:
    """How an agent did. `made_up`: block ids of the hostile peer's own making."""
    right, asked = sum(answer.right for answer in answers), len(answers)
    low, high = interval(right, asked)
    firsts = (answer.recalled.hits[0].block for answer in answers if answer.recalled.hits)
    return Score(
        agent=agent,
        right=right,
        asked=asked,
        known=sum(answer.known for answer in answers),
        share=right / asked if asked else 0.0,
        low=low,
        high=high,
        within=sum(answer.within for answer in answers),
        misled=sum(block in made_up for block in firsts),
    )


def stretches(phase: str, begun: int, firsts: Sequence[Sequence[bool]], window: int) -> list[Stretch]:
    """The work of one phase in stretches of `window` tasks per agent.

    `firsts`: by agent, whether each task's first hit worked, in order; `begun`: tasks each did before.
    """
    length = max((len(one) for one in firsts), default=0)
    found = []
    for start in range(0, length, window):
        part = [first for one in firsts for first in one[start : start + window]]
        last = min(start + window, length)
        found.append(Stretch(phase, begun + start + 1, begun + last, sum(part) / len(part), len(part)))
    return found


def moved(explanation: Explanation, peer: str, cap: float) -> Moved | None:
    """How far a peer moves a block's mean, and how far it could; None where nothing of it counts."""
    theirs = [source for source in explanation.sources if source.source == peer]
    alpha, beta = sum(one.counted_alpha for one in theirs), sum(one.counted_beta for one in theirs)
    if not alpha + beta:
        return None
    others = explanation.alpha - alpha, explanation.beta - beta
    mass = sum(others)
    without = others[0] / mass if mass else 0.5
    bound = influence_bound(max(one.trust for one in theirs), cap, mass)
    return Moved(mass, abs(explanation.utility - without), bound)


def held_names(texts: Sequence[str]) -> frozenset[str]:
    """The names of what these blocks are about."""
    return frozenset(name_in(text) for text in texts)
