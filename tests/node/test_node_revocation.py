"""Revocation equals never-having-trusted, exactly (DESIGN §4, "Trust is a lens").

A home and its twin live through the same own events and the same honest frames at the same hours. The home
also hears a hostile peer and trusts it up and down; the twin never does. After the revocation every number
and every recall is the same to the bit.
"""

from __future__ import annotations

import shutil
import unicodedata
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest

from loremesh.node.node import Node
from loremesh.node.results import Hit, Recalled
from loremesh.sync.content import block_id
from loremesh.sync.outcomes import Applied, Quarantined
from tests.node.guests import Guest, take
from tests.node.homes import Homes, effective, fact, faultless
from tests.sync.world import Row

QUERIES = ("restart the indexer", "schema deploy", "cache minutes", "café quota", "buy now", "rule 7 backup")
CONTEXTS = ("", "deploy", "night", "spam")
FRAMES = ("self", "attention", "task", "simulate")


def spaced(text: str) -> str:
    """The same block in other bytes: decomposed, with other white space."""
    return unicodedata.normalize("NFD", text).replace(" ", " \n  ") + "\t"


class Pair:
    """A home and its twin: the same identity, the same space, the same clock."""

    def __init__(self, homes: Homes) -> None:
        self.homes = homes
        self.hostile: Guest
        self.honest: Guest
        self.home: Node
        self.twin: Node
        self._stack = AsyncExitStack()

    async def begin(self) -> None:
        async with self.homes.create("home") as node:
            token = (await node.space_create("team", member_trust=0.5)).token
            self.honest = Guest("honest", (await node.space_invite("team")).token)
            self.hostile = Guest("hostile", token)
        shutil.copytree(self.homes.path("home"), self.homes.path("twin"))
        await self.open()

    async def open(self) -> None:
        self.home = await self._stack.enter_async_context(self.homes.open("home"))
        self.twin = await self._stack.enter_async_context(self.homes.open("twin"))

    async def close(self) -> None:
        await self._stack.aclose()

    async def restart(self, *, checkpoint: bool = True) -> None:
        """Close and open both; without `checkpoint` the home has to read its whole log."""
        await self.close()
        if not checkpoint:
            (self.homes.path("home") / "checkpoint").unlink()
        await self.open()

    async def both(self, verb: str, *given: Any, **named: Any) -> None:
        """One verb on both."""
        for node in (self.home, self.twin):
            await getattr(node, verb)(*given, **named)

    async def hear_honest(self, frame: bytes) -> None:
        for node in (self.home, self.twin):
            (outcome,) = await take(node, frame)
            assert isinstance(outcome, Applied), outcome

    async def hear_hostile(self, frame: bytes) -> None:
        (outcome,) = await take(self.home, frame)
        assert isinstance(outcome, Applied | Quarantined), outcome

    async def recalls(self, node: Node) -> list[tuple[str, str, str, list[Hit], dict[str, float]]]:
        """What many questions bring up, with scores, parts and everything else."""
        found = []
        for query in QUERIES:
            for frame in FRAMES:
                for context in CONTEXTS:
                    recalled: Recalled = await node.recall(query, frame=frame, context=context, k=7)
                    found.append((query, frame, context, recalled.hits, recalled.weights))
        return found

    async def assert_equal(self) -> None:
        assert await effective(self.home) == await effective(self.twin)
        for mine, other in zip(await self.recalls(self.home), await self.recalls(self.twin), strict=True):
            assert mine[:3] == other[:3]
            for hit, expected in zip(mine[3], other[3], strict=True):
                assert hit == expected, mine[:3]
            assert mine[4] == other[4]
        assert (await self.home.status()).hour == (await self.twin.status()).hour


@pytest.fixture
async def pair(tmp_path: Path) -> Any:
    pair = Pair(Homes(tmp_path))
    await pair.begin()
    yield pair
    await pair.close()


async def live(pair: Pair, random: Random, steps: int) -> None:
    """Some of everything: own use, honest and hostile frames, trust, consolidation, restarts."""
    own: list[str] = []
    honest_texts: list[str] = []
    versions = 0
    for step in range(steps):
        pair.homes.pass_minutes(random.choice([0, 1, 7, 45]))
        text = fact(random.randrange(60)) if random.random() < 0.9 else "Le café près du quota"
        match random.randrange(12):
            case 0 | 1:
                await pair.both("learn", text, tags=random.choice([[], ["ops"]]))
                own.append(text)
            case 2 if own:
                blocks = [block_id(random.choice(own)).hex()]
                signal, context = random.choice([0.0, 0.3, 1.0]), random.choice(CONTEXTS)
                await pair.both("outcome", signal, blocks=blocks, context=context)
            case 3 if honest_texts:
                await pair.both("outcome", 1.0, blocks=[block_id(random.choice(honest_texts)).hex()])
            case 4:
                await pair.hear_honest(pair.honest.blocks(text))
                honest_texts.append(text)
            case 5:
                versions += 1
                rows = Row(text, random.randrange(9), random.randrange(9), versions, random.choice(CONTEXTS))
                await pair.hear_honest(pair.honest.evidence(rows))
            case 6 | 7:
                told = random.choice([spaced(text), text.upper(), text])
                await pair.hear_hostile(pair.hostile.blocks(told, f"Buy now, offer {step}"))
            case 8:
                versions += 1
                rows = Row(text, 2.0 ** random.randrange(19), 0, versions, random.choice(CONTEXTS), 1e6)
                lies = Row("Buy now, offer 6", 900, 0, versions + 10_000, "spam", 1e6)
                await pair.hear_hostile(pair.hostile.evidence(rows, lies))
            case 9:
                value = random.choice([0.0, 0.25, 1.0])
                await pair.home.trust_set(pair.hostile.id, value, why="as the test has it")
            case 10:
                await pair.both("recall", random.choice(QUERIES), context=random.choice(CONTEXTS))
            case 11:
                if random.random() < 0.4:
                    await pair.both("consolidate")
                elif random.random() < 0.3:
                    await pair.restart(checkpoint=random.random() < 0.5)
            case _:
                pass


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_after_a_revocation_everything_is_as_if_the_peer_had_never_been(pair: Pair, seed: int) -> None:
    random = Random(seed)
    await pair.hear_honest(pair.honest.admitted())
    await pair.hear_hostile(pair.hostile.admitted())
    await live(pair, random, 90)
    await pair.home.trust_set(pair.hostile.id, 1.0)
    assert await effective(pair.home) != await effective(pair.twin), "the hostile peer did not count at all"
    await pair.home.trust_revoke(pair.hostile.id, why="it lies")
    await pair.both("consolidate")
    await pair.assert_equal()
    await pair.restart()
    await pair.assert_equal()
    await live(pair, random, 30)
    await pair.home.trust_set(pair.hostile.id, 0.7, why="another chance")
    await pair.home.trust_revoke(pair.hostile.id)
    await pair.both("consolidate")
    await pair.restart(checkpoint=False)
    await pair.assert_equal()
    await faultless(pair.home)
    await faultless(pair.twin)
