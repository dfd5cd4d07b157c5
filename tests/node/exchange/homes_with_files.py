"""A home that has lived a little, and files made of it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from loremesh.node.exchange import lines
from loremesh.node.exchange.files import export_to
from loremesh.node.node import Node
from tests.node.homes import Homes, fact

CONTEXTS = ("", "deploy", "legal-review")

Line = dict[str, Any]


async def live(node: Node, homes: Homes, seed: int = 0, steps: int = 25) -> list[str]:
    """Learn, recall, judge, rate and link, with time between; the blocks' ids."""
    random = Random(seed)
    blocks = [(await node.learn(fact(n), tags=[f"t{n % 3}"])).block for n in range(6)]
    for _ in range(steps):
        homes.pass_minutes(random.uniform(0, 50))
        match random.randrange(5):
            case 0:
                blocks.append((await node.learn(fact(random.randrange(1000)), tags=["ops"])).block)
            case 1 | 2:
                found = await node.recall("restart the indexer", context=random.choice(CONTEXTS))
                await node.outcome(random.random(), episode=found.episode)
            case 3:
                chosen = random.sample(sorted(set(blocks)), 3)
                label = random.choice(CONTEXTS)
                await node.outcome(random.random(), blocks=chosen, weight=random.uniform(0, 9), context=label)
            case _:
                await node.confirm([random.choice(blocks)])
    await node.consolidate()
    return sorted(set(blocks))


async def exported(node: Node, path: Path) -> bytes:
    """The bytes of an export."""
    await export_to(node, path)
    return path.read_bytes()


def taken_apart(raw: bytes) -> list[Line]:
    """The lines of a file as JSON values."""
    return [msgspec.json.decode(line) for line in raw.splitlines()]


def put_together(path: Path, told: Sequence[Line | bytes], *, end: bool = True) -> Path:
    """A file of these lines with an end line that fits them."""
    raw = b"".join(
        (line if isinstance(line, bytes) else msgspec.json.encode(line)) + b"\n"
        for line in told
        if isinstance(line, bytes) or line.get("line") != "end"
    )
    kinds = [line["line"] for line in told if not isinstance(line, bytes) and "line" in line]
    if end:
        last = lines.End(kinds.count("block"), kinds.count("event"), hashlib.sha256(raw).hexdigest())
        raw += msgspec.json.encode(last) + b"\n"
    path.write_bytes(raw)
    return path
