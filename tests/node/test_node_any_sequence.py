"""Any sequence of operations replays to the same state, under every rule set: a stateful property test.

Hypothesis chooses what is done to a home with a real store, through `Node` alone, and when it is closed and
opened again, with its checkpoint and without. Beside the node every rule set there is folds the log as it
grows, row by row as live traffic does. At any time and at the end all of these are held, bit for bit, against
a fold of the whole log from its first row.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from loremesh.node import fits
from loremesh.node.errors import NodeError
from loremesh.node.events import decode_home, decode_own
from loremesh.node.exchange.files import export_to, import_from
from loremesh.node.fold import apply, apply_home
from loremesh.node.ownstate import OwnState
from loremesh.node.results import Learned
from loremesh.node.rulebook import PLAIN, RULE_SETS, TUNED, get_rules
from loremesh.node.snapshot import differences, export_state, load_state
from loremesh.node.store.values import Kind
from loremesh.sync.content import block_id
from loremesh.sync.errors import InvalidInput
from loremesh.sync.rows import Contexts
from tests.node.exchange.homes_with_files import live
from tests.node.guests import guest_in, take
from tests.node.homes import CONFIG, Homes, effective, fact, faultless
from tests.sync.world import Row

T = TypeVar("T")

EVERY: Final = [f"{forgetting}+{utility}" for forgetting in RULE_SETS for utility in (*PLAIN, *TUNED)]
"""Names of all rule sets: each forgetting model with each utility model."""

FACTS: Final = 12
"""Texts there are: few, so that things happen twice to the same block."""
EXAMPLES: Final = 30
STEPS: Final = 40

texts = st.integers(0, FACTS - 1).map(fact)
which = st.integers(0, 50)
unit = st.sampled_from([0.0, 1.0, 0.3]) | st.floats(0.0, 1.0)
weights = st.sampled_from([1.0, 0.0, 1e-9, 0.5, 7.0])
contexts = st.sampled_from(["", "deploy", "legal-review"])
frames = st.sampled_from(["self", "attention", "task", "simulate"])
minutes = st.sampled_from([0, 0, 1, 12, 50, 3_000])
reasons = st.sampled_from(["wrong", "out of date"])


class AnySequence(RuleBasedStateMachine):
    """A home, and what is done to it. `foreign`: an export of another home."""

    foreign: Path

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.root = tempfile.TemporaryDirectory()
        self.homes = Homes(Path(self.root.name))
        self.stack = AsyncExitStack()
        self.blocks: list[str] = []
        self.episodes: list[tuple[str, float]] = []
        self.exports = 0
        self.folded = 0

    def done(self, work: Coroutine[object, object, T]) -> T | None:
        """Do it, and let every rule set see what the log has of it; None for what was refused."""

        async def run() -> T | None:
            try:
                return await work
            except (NodeError, InvalidInput):
                return None  # a block that was forgotten, an episode with another outcome: that happens
            finally:
                await self.follow()

        return self.runner.run(run())

    async def follow(self) -> None:
        """Fold the rows that came since under every rule set, as the node folds its own."""
        async for rows in self.node.ground.store.scan(self.folded):
            for row in rows:
                self.folded = row.n
                if row.kind is Kind.FRAME or row.payload is None:
                    continue
                for state in self.beside.values():
                    if row.kind is Kind.OWN:
                        apply(state, row.row, decode_own(row.payload))
                    else:
                        apply_home(state, decode_home(row.payload))

    def one(self, at: int) -> str:
        return self.blocks[at % len(self.blocks)]

    def learned(self, *found: Learned | None) -> None:
        self.blocks += [one.block for one in found if one is not None and one.block not in self.blocks]

    @initialize(name=st.sampled_from(EVERY), clock=st.sampled_from(["active", "wall"]))
    def found(self, name: str, clock: str) -> None:
        config = CONFIG + f"[memory]\nrules = '{name}'\nclock = '{clock}'\n"

        async def create() -> None:
            self.node = await self.stack.enter_async_context(self.homes.create("alice", config))
            own = self.node.ground.identity.public
            self.beside = {name: OwnState(own, Contexts(), get_rules(name)) for name in EVERY}
            self.bob = await guest_in(self.node)

        self.done(create())
        self.learned(self.done(self.node.learn(fact(0))), self.done(self.node.learn(fact(1))))

    @rule(passed=minutes)
    def time_passes(self, passed: float) -> None:
        self.homes.pass_minutes(passed)

    @rule(text=texts, tags=st.sampled_from([[], ["ops"], ["ops", "new"]]), spaced=st.booleans())
    def learn(self, text: str, tags: list[str], spaced: bool) -> None:
        self.learned(self.done(self.node.learn(f"  {text}\n" if spaced else text, tags=tags)))

    @rule(some=st.lists(texts, min_size=1, max_size=5))
    def learn_many(self, some: list[str]) -> None:
        self.learned(*(self.done(self.node.learn_many(some)) or []))

    @rule(text=texts)
    def learn_into_a_space(self, text: str) -> None:
        self.learned(self.done(self.node.learn(text, share=["space of bob"])))

    @rule(text=texts, alpha=st.integers(0, 9), beta=st.integers(0, 9), known=st.booleans())
    def a_peer_speaks(self, text: str, alpha: int, beta: int, known: bool) -> None:
        version = self.folded + 1  # grows, as an incarnation's does
        frames = [] if known else [self.bob.blocks(text)]
        self.done(take(self.node, *frames, self.bob.evidence(Row(text, alpha, beta + 1, version))))

    @rule(value=unit, revoked=st.booleans())
    def trust(self, value: float, revoked: bool) -> None:
        trusted = self.node.trust_revoke(self.bob.id) if revoked else self.node.trust_set(self.bob.id, value)
        self.done(trusted)

    @rule(limit=st.sampled_from([None, 1, 3]))
    def consolidate(self, limit: int | None) -> None:
        self.done(self.node.consolidate(limit=limit))

    @rule(at=which)
    def rescore(self, at: int) -> None:
        self.done(self.node.rescore([self.one(at)]))

    @rule(at=which, other=which, weight=st.sampled_from([0.0, 0.4, 1.0]))
    def connect(self, at: int, other: int, weight: float) -> None:
        self.done(self.node.connect(self.one(at), self.one(other), weight=weight))

    @rule(text=texts, frame=frames, context=contexts, k=st.integers(1, 6))
    def recall(self, text: str, frame: str, context: str, k: int) -> None:
        found = self.done(self.node.recall(text, frame=frame, context=context, k=k))
        if found is not None and found.hits:
            self.episodes.append((found.episode, 0.5))

    @precondition(lambda self: self.episodes)
    @rule(at=which, signal=unit, weight=weights, context=st.none() | contexts)
    def outcome_of_an_episode(self, at: int, signal: float, weight: float, context: str | None) -> None:
        place = at % len(self.episodes)
        episode, _ = self.episodes[place]
        given = self.node.outcome(signal, episode=episode, weight=weight, context=context)
        if self.done(given) is not None:
            self.episodes[place] = (episode, signal)

    @precondition(lambda self: self.episodes)
    @rule(at=which)
    def the_same_outcome_again(self, at: int) -> None:
        episode, signal = self.episodes[at % len(self.episodes)]
        self.done(self.node.outcome(signal, episode=episode))

    @rule(some=st.sets(which, min_size=1, max_size=4), signal=unit, weight=weights, context=contexts)
    def outcome_of_blocks(self, some: set[int], signal: float, weight: float, context: str) -> None:
        named = sorted({self.one(at) for at in some})
        self.done(self.node.outcome(signal, blocks=named, weight=weight, context=context))

    @rule(at=which)
    def confirm(self, at: int) -> None:
        self.done(self.node.confirm([self.one(at)]))

    @rule(at=which, signals=st.lists(unit, min_size=12, max_size=16), context=contexts)
    def use_often(self, at: int, signals: list[float], context: str) -> None:
        """Enough outcomes of one block for compaction to gain something by summing them."""
        for signal in signals:
            self.homes.pass_minutes(2)
            self.done(self.node.outcome(signal, blocks=[self.one(at)], context=context))

    @rule(at=which, why=reasons, how=st.sampled_from(["deprecate", "archive", "restore"]))
    def decide(self, at: int, why: str, how: str) -> None:
        decide: Callable[..., Coroutine[object, object, object]] = getattr(self.node, how)
        self.done(decide(self.one(at), why=why))

    @rule(at=which, text=texts)
    def revise(self, at: int, text: str) -> None:
        self.done(self.node.revise(self.one(at), text))
        self.learned(Learned(block_id(text).hex(), created=True))

    @rule(at=which)
    def forget(self, at: int) -> None:
        self.done(self.node.forget(self.one(at)))

    @rule(trust=st.booleans())
    def take_in_a_file(self, trust: bool) -> None:
        self.done(import_from(self.node, self.foreign, trust=trust))

    @rule()
    def take_in_its_own_file(self) -> None:
        self.exports += 1
        file = self.homes.root / f"export-{self.exports}"
        before = self.runner.run(effective(self.node))
        self.done(export_to(self.node, file))
        self.done(import_from(self.node, file))
        assert self.runner.run(effective(self.node)) == before

    @rule(factor=st.sampled_from([None, 0.5, 1.5]))
    def fit(self, factor: float | None) -> None:
        """Weights as `doctor fit` takes them up, and back; what it takes to fit is a matter of its own."""
        ground = self.node.ground
        rules = get_rules(ground.settings.memory.rules)
        if rules.reweighted is None:
            return
        fitted = () if factor is None else tuple(weight * factor for weight in rules.weights)
        name = rules.name.partition("+")[0]
        self.done(fits._take_up(ground, name, fitted, None, "somebody"))

    @rule(keep=st.sampled_from([0, 1, 5]), older_h=st.sampled_from([0.0, 1.0]))
    def compact(self, keep: int, older_h: float) -> None:
        """The home's own rules see no difference; others go on from what the sums say."""
        self.done(self.node.compact(keep=keep, older_h=older_h))
        self.runner.run(self.others_anew())

    async def others_anew(self) -> None:
        memory = self.node.ground.memory
        for name in EVERY:
            if get_rules(name).name != memory.own.rules.name:
                self.beside[name] = await self.replayed(name)

    async def replayed(self, name: str) -> OwnState:
        """The fold of the whole log under one rule set."""
        blank = OwnState(self.node.ground.identity.public, Contexts())
        return await fits.refolded(self.node.ground.store, blank, get_rules(name))

    @rule(back=st.booleans())
    def recalibrate(self, back: bool) -> None:
        self.done(self.node.revert_calibration() if back else self.node.recalibrate())

    @rule()
    def summarise(self) -> None:
        self.done(self.node.summarise())

    @rule()
    def reembed(self) -> None:
        self.done(self.node.reembed())

    @rule(checkpoint=st.booleans())
    def open_again(self, checkpoint: bool) -> None:
        self.runner.run(self.again(checkpoint))

    async def again(self, checkpoint: bool) -> None:
        """Close and open; the state is the same before and after, bit for bit."""
        before, numbers = self.node.ground.memory.own, await effective(self.node)
        await self.stack.aclose()
        if not checkpoint:
            (self.homes.path("alice") / "checkpoint").unlink()
        self.node = await self.stack.enter_async_context(self.homes.open("alice"))
        assert differences(before, self.node.ground.memory.own) == []
        assert await effective(self.node) == numbers

    @rule()
    def nothing_is_amiss(self) -> None:
        self.runner.run(faultless(self.node))

    def teardown(self) -> None:
        try:
            if hasattr(self, "bob"):
                self.runner.run(self.at_the_end())
        finally:
            self.runner.run(self.stack.aclose())
            self.runner.close()
            self.root.cleanup()

    async def at_the_end(self) -> None:
        """Live state is the fold of the log under every rule set, with a checkpoint and without."""
        await faultless(self.node)
        for checkpoint in (True, False):
            await self.again(checkpoint)
            await faultless(self.node)
        for name, lived in self.beside.items():
            assert differences(lived, await self.replayed(name)) == [], name
            loaded = load_state(export_state(lived), Contexts(), get_rules(name))
            assert differences(lived, loaded) == [], name


@pytest.fixture
async def foreign(tmp_path: Path) -> Path:
    """What another home exported: texts of its own and some of those learned here."""
    homes, file = Homes(tmp_path / "elsewhere"), tmp_path / "foreign.jsonl"
    async with homes.create("carol") as node:
        blocks = await live(node, homes, steps=12)
        await node.deprecate(blocks[0], why="wrong")
        await export_to(node, file)
    return file


@pytest.mark.slow
def test_any_sequence_of_operations_replays_to_the_same_state_under_every_rule_set(foreign: Path) -> None:
    """Live, replayed and out of a checkpoint: the same bits, whatever was done in whatever order."""
    chosen = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],  # add Phase.shrink for the shortest sequence: it takes minutes
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(type("Sequence", (AnySequence,), {"foreign": foreign}), settings=chosen)
