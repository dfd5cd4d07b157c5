"""What the doctor's verbs answer, beside `results`: ratings weighed anew, vectors made anew."""

from __future__ import annotations

import msgspec


class Reembedded(msgspec.Struct, frozen=True):
    """Whether the home has another embedder's vectors now; `embedded` blocks by this run, `blocks` in all."""

    changed: bool
    embedder: str
    before: str
    embedded: int = 0
    blocks: int = 0


class RaterCalibrated(msgspec.Struct, frozen=True):
    """What later outcomes say of one rater, and whether its weight was changed; `why` says it in words.

    `multiplier`: what its stated evidence counts times. Worths are in outcomes per rating, with the 90 %
    interval of what the ratings are worth. Losses are log losses in nats per held-out outcome,
    `gain_at_least` the lower 95 % bound of what is won. `bias`: mean rating less mean outcome. `correlation`
    of rating and outcome.
    """

    rater: str
    kept: bool
    why: str
    multiplier: float = 1.0
    multiplier_before: float = 1.0
    worth: float = 0.0
    worth_before: float = 0.0
    worth_low: float = 0.0
    worth_high: float = 0.0
    blocks: int = 0
    outcomes: int = 0
    loss_before: float = 0.0
    loss_after: float = 0.0
    gain: float = 0.0
    gain_at_least: float = 0.0
    bias: float = 0.0
    correlation: float = 0.0


class CalibrationReport(msgspec.Struct, frozen=True):
    """Whether any rater's weight was changed or taken back, and what was found of each."""

    changed: bool
    reverted: bool
    raters: list[RaterCalibrated]
