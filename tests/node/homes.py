"""Homes for tests of whole nodes: a clock that tests move, a bus in memory, an embedder that counts."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from hashlib import sha256, shake_256
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from loremesh.crypto.keystores import EnvironmentKey
from loremesh.node.embed.hashing import HashingEmbedder
from loremesh.node.node import Node, NodeContext
from loremesh.node.parts import Parts
from loremesh.node.ports import Embedder, Fingerprint, Ratings
from loremesh.node.replaying import effective_by_id, rebuild, registers_by_id
from loremesh.sync.busport import Bus
from loremesh.sync.memory_bus import Faults, MemoryBus, MemoryHub
from loremesh.sync.nats_bus import NatsBus
from tests.sync.nats_server import until

HUB_URL = "nats://hub.invalid:4222"
START_MS = 1_750_000_000_000
MINUTE_MS = 60_000
KEY = EnvironmentKey("LOREMESH_TEST_KEY")
ENVIRON = {"LOREMESH_TEST_KEY": "5a" * 32}
DIMENSION = 32

CONFIG = """\
[embedder]
name = "hashing:32"
[sharing]
publish_every_s = 0.02
head_every_s = 0.1
consolidate_every_s = 86400
"""
"""Quick sharing; consolidation only when a test asks for it."""


class CountingEmbedder:
    """The hashing embedder, which notes every stored text it is given. `fail_at` is raised at that text."""

    def __init__(self, dimension: int = DIMENSION) -> None:
        self._inner = HashingEmbedder(dimension)
        self.texts: list[str] = []
        self.fail_at = ""

    @property
    def fingerprint(self) -> Fingerprint:
        return self._inner.fingerprint

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
        if self.fail_at and self.fail_at in texts:
            raise RuntimeError("the embedder fell over")
        if not query:
            self.texts += texts
        return await self._inner.embed(texts, query=query)

    async def close(self) -> None:
        await self._inner.close()


class LevelRater:
    """Rates every text alike."""

    name = "level"

    async def rate(self, texts: Sequence[str]) -> Ratings:
        return Ratings([0.75] * len(texts))

    async def close(self) -> None:
        pass


class Homes:
    """Homes under one directory, on one bus in memory (NATS if it is to be `real`), under one clock."""

    def __init__(
        self, root: Path, faults: Faults | None = None, seed: int = 0, *, real: bool = False
    ) -> None:
        self.root = root
        self.real = real
        self.hub = MemoryHub(seed, faults)
        self.now_ms = START_MS
        self.embedder = CountingEmbedder()
        self._drawn: dict[str, int] = {}

    def pass_minutes(self, minutes: float) -> None:
        """Let wall time pass for all of them."""
        self.now_ms += round(minutes * MINUTE_MS)

    def parts(self, name: str) -> Parts:
        """What the home called `name` is given: nothing random, nothing from outside."""

        async def embedder(dimension: int | None) -> Embedder:
            return self.embedder

        def random_bytes(length: int) -> bytes:
            self._drawn[name] = self._drawn.get(name, 0) + 1
            return shake_256(f"{name} {self._drawn[name]}".encode()).digest(length)

        def bus(url: str, credential: str, called: str) -> Bus:
            assert url == HUB_URL, url
            return MemoryBus(self.hub, called)

        open_bus = NatsBus if self.real else bus
        return Parts(embedder, LevelRater(), lambda: self.now_ms, time.monotonic, random_bytes, open_bus)

    def path(self, name: str) -> Path:
        return self.root / name

    def create(self, name: str, config: str = CONFIG) -> NodeContext:
        """A new home, open inside `async with`."""
        self.path(name).mkdir(parents=True)
        (self.path(name) / "config.toml").write_text(config)
        return Node.create(self.path(name), name=name, source=KEY, environ=ENVIRON, parts=self.parts(name))

    def open(self, name: str) -> NodeContext:
        """The home again."""
        return Node.open(self.path(name), environ=ENVIRON, parts=self.parts(name))


class Team:
    """Nodes of one space that are up, the first of them its founder."""

    def __init__(self, homes: Homes, member_trust: float = 0.5) -> None:
        self.homes = homes
        self.member_trust = member_trust
        self.nodes: dict[str, Node] = {}
        self._stacks: dict[str, AsyncExitStack] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *details: object) -> None:
        for name in list(self.nodes):
            await self.leave(name)

    def __getitem__(self, name: str) -> Node:
        return self.nodes[name]

    async def found(self, *names: str) -> None:
        """Make homes, found the space `team` with the first, and bring the others in."""
        for name in names:
            await self._enter(name, self.homes.create(name))
            if len(self.nodes) == 1:
                await self[name].space_create("team", member_trust=self.member_trust)
            else:
                await self.join(name)

    async def join(self, name: str) -> None:
        """Bring an open home in with a token of its own."""
        founder = next(iter(self.nodes.values()))
        await self[name].space_join((await founder.space_invite("team")).token)

    async def open(self, name: str) -> Node:
        """Open the home again and have it share."""
        return await self._enter(name, self.homes.open(name))

    async def leave(self, name: str) -> None:
        """Close one."""
        del self.nodes[name]
        await self._stacks.pop(name).aclose()

    async def alike(self, timeout: float = 15.0) -> None:
        """Publish everything, then wait until all hold the same frames and registers."""
        for node in self.nodes.values():
            await node.settle()
        await until(lambda: alike(*self.nodes.values()), "all nodes hold the same", timeout)

    async def _enter(self, name: str, opening: NodeContext) -> Node:
        stack = AsyncExitStack()
        node = await stack.enter_async_context(opening)
        await node.start(nats=HUB_URL)
        self.nodes[name], self._stacks[name] = node, stack
        return node


def alike(*nodes: Node) -> bool:
    """Whether all hold the same feed positions and the same registers."""
    held = [(positions(node), stated(node)) for node in nodes]
    return all(one == held[0] for one in held)


def positions(node: Node) -> dict[tuple[bytes, object], tuple[int, bytes]]:
    """Number and hash of every chain, by space and feed."""
    return {
        (space.space, key): (chain.position.number, chain.position.hash)
        for space in node.ground.memory.sync.spaces.values()
        for key, chain in space.chains.items()
    }


def stated(node: Node) -> list[tuple[object, ...]]:
    """Every register without its freshness stamp, which is in the node's own hours."""
    return [register[:-1] for register in registers_by_id(node.ground.memory)]


async def effective(node: Node) -> dict[str, tuple[int, int, float, float, float, float]]:
    """Effective numbers of every readable block, as recall would use them now."""
    await node.ground.exclusive(node.ground.refresh)
    return effective_by_id(node.ground.memory)


async def faultless(node: Node) -> None:
    """The log is whole, says what is in use, and effective numbers are those of a fresh start."""
    replayed = await node.replay(check=True)
    assert replayed.ok, replayed.faults
    again = await rebuild(node.ground.store, node.ground.identity.public, node.ground.memory.own.rules)
    assert effective_by_id(again) == await effective(node)


async def eventually(check: Callable[[], Awaitable[bool]], what: str, timeout: float = 15.0) -> None:
    """Wait for a condition that has to ask a node."""
    await until(check, what, timeout)


def fact(number: int) -> str:
    """A text of its own that shares words with others."""
    words = ("indexer", "deploy", "schema", "cache", "queue", "certificate", "backup", "quota")
    digest = sha256(str(number).encode()).digest()
    chosen = " ".join(words[byte % len(words)] for byte in digest[:5])
    return f"Rule {number}: restart the {chosen} after {digest[5]} minutes"


def private_environ(root: Path) -> dict[str, str]:
    """The environment of a program under test: nothing of whoever runs the tests but the path."""
    return {"PATH": os.environ.get("PATH", ""), "XDG_CONFIG_HOME": str(root / "config"), "HOME": str(root)}
