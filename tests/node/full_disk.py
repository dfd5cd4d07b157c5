"""What a whole node does on a full or read-only disk: `python -m tests.node.full_disk DISK WORK`.

Run by `test_node_disk` on a small tmpfs of its own; prints "done" when all was as it should be.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from loremesh.node.errors import NodeError
from loremesh.node.failures import explain_error
from loremesh.node.node import Node
from loremesh.node.store.errors import DiskFull, ReadOnlyHome
from loremesh.sync.content import block_id
from tests.node.guests import Guest, take
from tests.node.homes import ENVIRON, KEY, Homes, effective, fact, faultless
from tests.sync.world import Row


async def full(disk: Path) -> None:
    """Verbs are refused whole, a peer's frames too; reading goes on; with room again, so does everything."""
    homes = Homes(disk)
    ballast = disk / "ballast"
    async with homes.create("alice") as node:
        bob = Guest("bob", (await node.space_create("team")).token)
        await take(node, bob.admitted())
        await node.learn_many([fact(n) for n in range(20)])
        await node.consolidate()
        ballast.write_bytes(bytes(4_000_000))
        with pytest.raises(DiskFull, match=str(homes.path("alice"))) as full:
            await learn_until_full(node)
        assert explain_error(full.value).exit_code == 1
        stored = (await node.status()).blocks
        assert 20 < stored < 80
        before = await effective(node)
        frame = bob.blocks("A text of bob's " * 3_000)
        refused: list[Awaitable[object]] = [
            node.learn("one more " * 5_000),
            node.learn_many(["two more " * 5_000, "three more"]),
            take(node, frame),
        ]
        for work in refused:
            with pytest.raises(DiskFull):
                await work
        assert await effective(node) == before
        assert (await node.explain(block_id(fact(3)).hex())).alpha == 0.875
        assert (await node.status()).blocks == stored
        ballast.unlink()
        await take(node, frame, bob.evidence(Row(fact(3), 2, 0)))
        assert (await node.learn("one more " * 5_000)).created
        await node.outcome(1.0, episode=(await node.recall("restart")).episode)
        await faultless(node)
        numbers = await effective(node)
    async with homes.open("alice") as node:
        assert await effective(node) == numbers
        await faultless(node)


async def learn_until_full(node: Node) -> None:
    while True:
        await node.learn(f"{(await node.status()).blocks} " + "long text " * 6_000)


async def read_only(disk: Path) -> None:
    """A home that cannot be written is refused with the reason, and none can be made there."""
    homes = Homes(disk)
    async with homes.create("alice") as node:
        await node.learn("Restart the indexer")
    _remount(disk, "ro")
    with pytest.raises(ReadOnlyHome, match="read-only") as refused:
        async with homes.open("alice"):
            pass
    assert refused.value.hint
    with pytest.raises(NodeError, match="cannot be made a home"):
        async with Node.create(disk / "bob", source=KEY, environ=ENVIRON):
            pass
    _remount(disk, "rw")
    async with homes.open("alice") as node:
        await faultless(node)


def _remount(disk: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(disk)], check=True)


WORKS: dict[str, Callable[[Path], Awaitable[None]]] = {work.__name__: work for work in (full, read_only)}


async def _main(disk: Path, work: str) -> None:
    await WORKS[work](disk)


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1]), sys.argv[2]))
    sys.stdout.write("done\n")
