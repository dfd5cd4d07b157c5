"""Own state: everything that this node's own events have made. Only the fold writes to it."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.node.columns import OwnColumns
from loremesh.node.decisions import Decisions
from loremesh.node.firsthand import FirstHand
from loremesh.node.history import History, Tally
from loremesh.node.imported import FromFiles
from loremesh.node.links import Links
from loremesh.node.order import LearningOrder
from loremesh.node.raters import Raters
from loremesh.node.rules import FSRS5, RuleSet
from loremesh.node.tiers import Tiers
from loremesh.node.utility import beta_decay
from loremesh.node.worth import RECENT_DECAY
from loremesh.sync.registers import Registers
from loremesh.sync.rows import CONTEXT_BITS, Contexts
from loremesh.sync.trust import PeerTrust

MAX_EPISODES: Final = 4_096
"""Episodes that can still take their outcome; the oldest goes first. About 4 MB."""

MAX_EPISODE_BLOCKS: Final = 256
"""Blocks handed out by one recall."""

RECENT: Final = beta_decay(RECENT_DECAY)
"""How the recent window counts; it is kept whatever utility model the rules have."""

Ints = NDArray[np.int64]


class FoldError(Exception):
    """An event that cannot have happened in this state. Nothing was changed."""


class Taken(msgspec.Struct, frozen=True):
    """The outcome an episode took."""

    signal: float
    weight_fx: int
    context: str


class Episode(msgspec.Struct):
    """One recall: rows handed out, their retrieval weights, the context, the outcome once there is one."""

    context: str
    rows: list[int]
    retrieval_fx: list[int]
    outcome: Taken | None = None


class OwnState:
    """Everything the node's own events have made: a fold under one rule set.

    `contexts`: the home's table of labels, shared with the registers of peers. `hour` and `wall_ms`: of the
    last use, where the clock goes on. `tags` and `shared` by row, `links` between rows,
    `peers`: trust set here by public key, `episodes` by id, oldest first. `history` and `tally`: what
    the rules remember besides the columns; `tally` is None where utility is the plain sum of outcomes.
    `fits`: weights fitted to this log, by forgetting model; told here, chosen before the log is read.
    `imported`: what came from files. `recent`: first-hand evidence with later outcomes counting more, for
    worth. `raters`: ratings as stated, by rater, and what each counts. `decisions`: what was deprecated or
    restored. `tiers`: summaries and abstracts.
    """

    __slots__ = (
        "columns",
        "contexts",
        "decisions",
        "episodes",
        "firsthand",
        "fits",
        "history",
        "hour",
        "imported",
        "learned",
        "links",
        "peers",
        "raters",
        "recent",
        "rules",
        "shared",
        "tags",
        "tally",
        "tiers",
        "wall_ms",
    )

    def __init__(self, origin: bytes, contexts: Contexts, rules: RuleSet = FSRS5) -> None:
        self.rules = rules
        self.contexts = contexts
        self.columns = OwnColumns()
        self.firsthand = FirstHand(origin)
        self.imported = FromFiles()
        self.history = History(rules.history)
        self.tally = Tally(rules.utility) if rules.utility.memory else None
        self.recent = Tally(RECENT)
        self.decisions = Decisions()
        self.tiers = Tiers()
        self.raters = Raters()
        self.learned = LearningOrder()
        self.tags: dict[int, tuple[str, ...]] = {}
        self.shared: dict[int, set[bytes]] = {}
        self.links = Links()
        self.peers: dict[bytes, PeerTrust] = {}
        self.fits: dict[str, tuple[float, ...]] = {}
        self.episodes: dict[bytes, Episode] = {}
        self.hour = 0.0
        self.wall_ms = 0

    @property
    def registers(self) -> Registers:
        """Own registers of every incarnation, up to the last event (see `FirstHand.settled`)."""
        return self.firsthand.settled()

    def first_hand(self, rows: Ints) -> tuple[Ints, Ints]:
        """α and β that first-hand outcomes come to under the rules' utility model, fixed point, [n] each."""
        length = int(rows.max(initial=-1)) + 1
        if self.tally is not None:
            alpha, beta = self.tally.totals(length)
        else:
            seen = self.columns.views(max(length, self.columns.length))
            alpha, beta = seen.self_a, seen.self_b
        return alpha[rows], beta[rows]

    def first_hand_in(self, rows: Ints, context: int) -> tuple[Ints, Ints, Ints]:
        """The same in one context: (rows with evidence there, α, β), a row once per incarnation or once."""
        held = self.registers.held(self.registers.select(rows))
        here = held.context == context
        found = held.row[here].astype(np.int64)
        if self.tally is None:
            return found, held.alpha[here], held.beta[here]
        found = np.unique(found)
        return found, *self.tally.of_context(found << CONTEXT_BITS | context)
