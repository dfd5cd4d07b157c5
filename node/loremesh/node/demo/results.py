"""What the demonstration found, as values: the table, the page and `--json` all show these."""

from __future__ import annotations

import msgspec


class Score(msgspec.Struct, frozen=True):
    """How one agent (or all together) did in one examination.

    `known` counts the questions that a block at hand answers; `low` and `high` bound the share that was right
    (Wilson, 95 %).
    """

    agent: str
    right: int
    asked: int
    known: int
    share: float
    low: float
    high: float
    within: int = 0
    """Questions that one of the first three hits answers: what an agent that tries again gets."""
    misled: int = 0
    """First hits that the hostile peer made up."""


class Phase(msgspec.Struct, frozen=True):
    """One examination: when it was held, and how each agent and all together did."""

    key: str
    title: str
    scores: list[Score]
    together: Score


class Stretch(msgspec.Struct, frozen=True):
    """A stretch of work: tasks done by each agent, and how often the first hit worked."""

    phase: str
    first: int
    last: int
    share: float
    tasks: int


class Hostile(msgspec.Struct, frozen=True):
    """What the hostile peer sent, and what each honest node made of it."""

    peer: str
    trust: float
    blocks_made_up: int
    frames_sent: int
    registers_claimed: int
    largest_claim: float
    """α + β of the largest register it stated, in outcomes."""
    outcomes: dict[str, dict[str, int]]
    """By agent and outcome of the funnel, frames (a deferred one is looked at again, and counted again)."""
    unsigned: dict[str, dict[str, int]]
    """By agent, what nobody was proven to have signed: forged and broken frames."""


class Moved(msgspec.Struct, frozen=True):
    """One block of one agent under attack: mass of everyone else's evidence, and how far its mean moved."""

    mass: float
    moved: float
    bound: float


class Influence(msgspec.Struct, frozen=True):
    """Every block looked at, against the stated bound τC/(τC + m)."""

    trust: float
    cap: float
    blocks: list[Moved]
    over: int
    nearest: float
    """The largest part of its bound that any block's mean moved."""


class Twin(msgspec.Struct, frozen=True):
    """One honest node against its twin: the same own events and the honest frames, nothing else."""

    agent: str
    blocks: int
    numbers: int
    numbers_different: int
    registers: int
    registers_different: int
    answers: int
    """Examination questions answered by the running node and again by the twin."""
    answers_different: int
    numbers_while_trusted: int
    """Of the same numbers, how many are not the twin's with the hostile peer trusted as before: what the
    comparison is able to see."""
    frames_left_out: int
    log_rows: int
    log_faults: int

    @property
    def equal(self) -> bool:
        """Whether nothing at all is different, and the comparison was one that can tell."""
        wrong = self.numbers_different + self.registers_different + self.answers_different + self.log_faults
        return wrong == 0 and self.numbers_while_trusted > 0 and self.answers > 0


class Crash(msgspec.Struct, frozen=True):
    """One node killed while it published, and how all agreed after its restart."""

    agent: str
    acknowledged: int
    """Calls that were answered before the kill."""
    lost: int
    """Of them, what is not there afterwards."""
    published_when_killed: int
    """Frames that other nodes held of it at that moment, of this stretch."""
    frames_after: int
    """Frames of this stretch that all hold in the end."""
    restart_s: float
    """From the start of the new process until all agreed."""
    feeds: int
    feeds_different: int
    digests: dict[str, str]
    """By agent, the order-free digest of all registers of honest origin."""
    faults: int
    """Found by `replay --check` in all logs."""

    @property
    def equal(self) -> bool:
        """Whether nothing was lost and all agree."""
        return (
            not self.lost + self.feeds_different + self.faults
            and len(set(self.digests.values())) == 1
            and self.feeds > 0
        )


class Check(msgspec.Struct, frozen=True):
    """One thing that must hold, and what was found."""

    name: str
    holds: bool
    found: str


class DemoResult(msgspec.Struct, frozen=True):
    """All of it. `ok` says whether every check holds."""

    ok: bool
    seed: int
    size: str
    seconds: float
    python: str
    embedder: str
    blocks: int
    functions: int
    questions: int
    processes: list[int]
    phases: list[Phase]
    work: list[Stretch]
    hostile: Hostile
    influence: Influence
    twins: list[Twin]
    crash: Crash
    checks: list[Check]
    page: str
    """Path of the HTML page."""
    homes: str
    """Where the homes were kept, '' when they are gone."""
