"""An agent that works: makes events through the makers, folds them live, and keeps the log as bytes."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec
from hypothesis import strategies as st

from loremesh.node import events, evidence
from loremesh.node.clock import ActiveClock
from loremesh.node.errors import Conflict, UnknownThing
from loremesh.node.events import Archive, Deprecate, FrameName, HomeEvent, OwnEvent, Restore
from loremesh.node.fold import apply, apply_home
from loremesh.node.ownstate import OwnState
from loremesh.node.rules import FSRS5, RuleSet
from loremesh.sync.fixed import ONE, to_fx
from loremesh.sync.rows import Contexts

ORIGIN = bytes(range(32))
MINUTE_MS = 60_000

Verb = Literal[
    "learn",
    "share",
    "rate",
    "outcome",
    "confirm",
    "recall",
    "finish",
    "connect",
    "link",
    "decide",
    "revise",
    "trust",
    "weigh",
    "restart",
    "forget",
]
VERBS: tuple[Verb, ...] = get_args(Verb)
OFTEN: tuple[Verb, ...] = ("learn", "outcome", "recall", "finish")


class Deed(msgspec.Struct, frozen=True):
    """One operation, drawn at random; each verb takes from it what it needs."""

    verb: Verb
    minutes: int
    row: int
    other: int
    signal: float
    weight: float
    context: str
    tag: str


signals = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0.0, 1.0))
weights = st.one_of(st.sampled_from([0.0, 1.0, 2.0]), st.floats(0.0, 50.0), st.floats(0.0, 1e-4))

deeds = st.builds(
    Deed,
    verb=st.sampled_from([*VERBS, *OFTEN]),
    minutes=st.one_of(st.integers(-10, 40), st.integers(-10_000, 100_000)),
    row=st.integers(0, 5),
    other=st.integers(0, 5),
    signal=signals,
    weight=weights,
    context=st.sampled_from(["", "deploy", "légal", "x" * 64]),
    tag=st.sampled_from(["ops", "self", "日本"]),
)


class Agent:
    """`log` holds (row, bytes), row None for events that concern no block."""

    def __init__(self, rules: RuleSet = FSRS5) -> None:
        self.state = OwnState(ORIGIN, Contexts(), rules)
        self.clock = ActiveClock(0.0, 1_700_000_000_000)
        self.log: list[tuple[int | None, bytes]] = []
        self.counted = 0
        self.last_episode = b""
        self.note(evidence.incarnation(self.clock, self.fresh(), "created"))

    def fresh(self) -> bytes:
        """Sixteen bytes never given before."""
        self.counted += 1
        return self.counted.to_bytes(16, "big")

    def tell(self, row: int, event: OwnEvent) -> None:
        """Log an event about a block and fold it."""
        self.log.append((row, events.encode(event)))
        apply(self.state, row, event)

    def note(self, event: HomeEvent) -> None:
        """Log an event about the home and fold it."""
        self.log.append((None, events.encode(event)))
        apply_home(self.state, event)

    def wait(self, minutes: float) -> None:
        self.clock.advance(self.clock.wall_ms + round(minutes * MINUTE_MS))

    def learn(self, row: int, *tags: str, w_init: float = 1.0) -> None:
        """Learn as the node does: what is already held only gains tags."""
        if row < self.state.columns.length and self.state.columns.held[row]:
            self.share(row, tags=tags)
        else:
            self.tell(row, evidence.learn(self.clock, w_init, tags))

    def share(self, row: int, spaces: tuple[bytes, ...] = (), tags: tuple[str, ...] = ()) -> None:
        event = evidence.share(self.state, self.clock, row, spaces, tags)
        if event is not None:
            self.tell(row, event)

    def outcome(
        self, *rows: int, signal: float = 1.0, weight: float = 1.0, context: str = "", implicit: bool = False
    ) -> None:
        for row, event in evidence.outcome_of_blocks(
            self.state, self.clock, rows, signal, weight, context, implicit
        ):
            self.tell(row, event)

    def rate(self, row: int, rating: float, weight: float = 0.5) -> None:
        self.tell(row, evidence.rating(self.state, self.clock, row, rating, weight, "test"))

    def recall(self, *scores: tuple[int, float], context: str = "", uniform: bool = True) -> bytes:
        episode = self.last_episode = self.fresh()
        for row, event in evidence.recall_hits(self.clock, episode, scores, FrameName.TASK, context, uniform):
            self.tell(row, event)
        return episode

    def finish(self, episode: bytes, signal: float, weight: float = 1.0, context: str | None = None) -> int:
        """The number of blocks the outcome reached."""
        made = evidence.outcome_of_episode(self.state, self.clock, episode, signal, weight, context)
        for row, event in made:
            self.tell(row, event)
        return len(made)

    def forget(self, row: int) -> None:
        """Forget as the node does: the block's own rows leave the log, a home event says so."""
        self.log = [(of, payload) for of, payload in self.log if of != row]
        self.note(evidence.forgot(self.state, self.clock, row))

    def do(self, deed: Deed) -> None:
        """One random operation. Forgotten rows are used again here, which no real home does."""
        self.wait(deed.minutes)
        match deed.verb:
            case "learn":
                self.learn(deed.row, deed.tag, w_init=0.1 + deed.weight)
            case "share":
                self.share(deed.row, (deed.other.to_bytes(32, "big"),), (deed.tag,))
            case "rate":
                self.rate(deed.row, deed.signal, deed.weight)
            case "outcome" | "confirm":
                self.outcome(
                    *{deed.row, deed.other},
                    signal=deed.signal,
                    weight=deed.weight,
                    context=deed.context,
                    implicit=deed.verb == "confirm",
                )
            case "recall":
                scores = {deed.row: deed.signal, deed.other: deed.weight}
                self.recall(*scores.items(), context=deed.context, uniform=deed.minutes % 2 == 0)
            case "finish":
                try:
                    self.finish(self.last_episode, deed.signal, deed.weight)
                except (Conflict, UnknownThing):
                    return
            case "connect":
                if deed.row != deed.other:
                    self.tell(deed.row, evidence.connect(self.clock, deed.row, deed.other, deed.signal))
            case "link":
                others = [row for row in range(6) if row != deed.row and row % 2 == deed.other % 2]
                links = [(row, deed.signal if row > deed.other else 0.0) for row in others]
                self.tell(deed.row, evidence.linked(self.clock, deed.row, links, looked=deed.minutes > 0))
            case "decide" | "revise":
                self.decide(deed)
            case "trust" | "weigh":
                self.judge(deed)
            case "restart":
                self.note(evidence.incarnation(self.clock, self.fresh(), "restored"))
            case "forget":
                self.forget(deed.row)

    def judge(self, deed: Deed) -> None:
        """Trust a peer, or weigh the rater anew (as stated again for other 0)."""
        if deed.verb == "weigh":
            weight_fx = to_fx(min(deed.weight, 40.0), "weight") if deed.other else ONE
            self.note(events.Recalibrated(self.clock.hour, self.clock.wall_ms, "test", weight_fx))
        else:
            peer = deed.other.to_bytes(32, "big")
            self.note(evidence.trust(self.clock, peer, deed.signal, "because", "me", deed.row == 0))

    def decide(self, deed: Deed) -> None:
        """Withdraw, restore or revise a block."""
        if deed.verb == "revise":
            self.learn(deed.row)
            mass = 0.1 + deed.weight
            self.tell(deed.row, evidence.revise(self.state, self.clock, deed.other, mass, "because", "me"))
            return
        kind = (Archive, Deprecate, Restore)[int(deed.signal * 2.9)]
        self.tell(deed.row, evidence.decision(self.clock, kind, "because", "me"))


def fold(log: list[tuple[int | None, bytes]], rules: RuleSet = FSRS5) -> OwnState:
    """Replay: the state that the logged bytes make."""
    state = OwnState(ORIGIN, Contexts(), rules)
    for row, payload in log:
        if row is None:
            apply_home(state, events.decode_home(payload))
        else:
            apply(state, row, events.decode_own(payload))
    return state
