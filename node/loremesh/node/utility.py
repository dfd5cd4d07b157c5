"""Utility models as values: what first-hand outcomes come to, as the α and β that recall reads.

A model sees the outcomes of one block in one context, in order, and says what evidence they come to now.
Recall reads prior, ratings, what counts of peers, and these. What is published, shown as counts or aggregated
stays the plain sums of the outcomes, whatever model the node uses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import msgspec

from loremesh.sync.fixed import ONE

Memo = list[float]
"""What a model remembers of one block in one context: an item per entry of its `memory`."""

DECAY: Final = 0.99
"""λ of `beta-decay`: half of what is counted is from the last 69 outcomes of a block in its context. In the
paper's stale-memory run it follows a memory that turns bad from 0.98 to 0.08 (plain sums: 0.17)."""


class Utility(msgspec.Struct, frozen=True):
    """One way to read outcomes.

    `memory`: name and starting value of each number remembered per block and context; without any, evidence
    is the plain sum. `learn`: (memo, alpha_fx, beta_fx), one outcome's evidence s·w·v and (1-s)·w·v.
    `read`: what the memo comes to as α and β in fixed point.
    """

    name: str
    memory: tuple[tuple[str, float], ...] = ()
    learn: Callable[[Memo, int, int], None] = lambda memo, alpha_fx, beta_fx: None
    read: Callable[[Memo], tuple[int, int]] = lambda memo: (0, 0)


BETA: Final = Utility("beta")
"""Plain sums: Beta(α, β) with every outcome counted alike, however old."""


def beta_decay(decay: float = DECAY) -> Utility:
    """Sums that fade with use: before an outcome of mass m = w·v is added, α and β are multiplied by λ^m.

    With use, not with time: a block nobody used is judged as when it was last used, and is less retrievable
    for it. α and β are thus exponentially weighted counts with at most 1/(1-λ) outcomes' mass; prior and
    ratings do not fade, so that a block falls back to them, not to nothing. λ in (0, 1); ValueError else.
    """
    if not 0.0 < decay < 1.0:
        raise ValueError(f"λ is {decay}; it must lie between 0 and 1")
    rate = math.log(decay)

    def learn(memo: Memo, alpha_fx: int, beta_fx: int) -> None:
        kept = math.exp(rate * (alpha_fx + beta_fx) / ONE)
        memo[0] = kept * memo[0] + alpha_fx
        memo[1] = kept * memo[1] + beta_fx

    def read(memo: Memo) -> tuple[int, int]:
        return round(memo[0]), round(memo[1])

    return Utility(f"beta-decay:{decay:g}", (("alpha", 0.0), ("beta", 0.0)), learn, read)


class Knowledge(msgspec.Struct, frozen=True):
    """Parameters of knowledge tracing: P(L0), P(T), P(S), P(G)."""

    initial: float = 0.5
    transit: float = 0.05
    slip: float = 0.1
    guess: float = 0.1


def knowledge_tracing(by: Knowledge) -> Utility:
    """Bayesian knowledge tracing (Corbett & Anderson 1995): a block is known to work, or it is not.

    P(L) follows by Bayes from each outcome, with slips and guesses, and then moves on by P(T):
    P(L|good) = P(L)(1-S) / (P(L)(1-S) + (1-P(L))G), P(L|bad) = P(L)S / (P(L)S + (1-P(L))(1-G)),
    P(L') = P(L|·) + (1-P(L|·))T. An outcome between good and bad, or of a mass m = w·v that is not 1, enters
    with its likelihood ratios to the powers s·m and (1-s)·m, and with 1-(1-T)^m for T: the paper's formulas
    where s is 0 or 1 and m = 1.

    What recall reads is the chance that the next use goes well, P(L)(1-S) + (1-P(L))G, with the mass of the
    outcomes seen: the mean is BKT's; how sure it is, and what peers say, go by evidence as everywhere else.
    With S = G and P(L0) = 1/2 the mean starts at 1/2, as the prior does. P(T) > 0 lets old failures fade.
    """
    good = math.log((1.0 - by.slip) / by.guess)
    bad = math.log(by.slip / (1.0 - by.guess))
    still = math.log1p(-by.transit)

    def learn(memo: Memo, alpha_fx: int, beta_fx: int) -> None:
        mass = (alpha_fx + beta_fx) / ONE
        odds = memo[0] + good * (alpha_fx / ONE) + bad * (beta_fx / ONE)
        kept = math.exp(still * mass)  # (1-T)^m; known : unknown becomes (odds + 1 - kept) : kept
        memo[0] = _log_sum(odds, math.log1p(-kept) if kept < 1.0 else -math.inf) - still * mass
        memo[1] += alpha_fx + beta_fx

    def read(memo: Memo) -> tuple[int, int]:
        known = 1.0 / (1.0 + math.exp(-memo[0])) if memo[0] > -700.0 else 0.0
        chance = known * (1.0 - by.slip) + (1.0 - known) * by.guess
        alpha_fx = round(chance * memo[1])
        return alpha_fx, round(memo[1]) - alpha_fx

    start = math.log(by.initial / (1.0 - by.initial))
    return Utility("bkt", (("log_odds", start), ("mass", 0.0)), learn, read)


def _log_sum(a: float, b: float) -> float:
    """ln(e^a + e^b)."""
    high, low = max(a, b), min(a, b)
    return high + math.log1p(math.exp(low - high)) if low > -math.inf else high
