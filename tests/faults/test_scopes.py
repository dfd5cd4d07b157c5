"""Fault 23: scopes. Right: an empty limit lets nothing in, names are exact, what held is echoed, and what is
denied is an error; what was superseded is in no scope at all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from loremesh.node import params as p
from loremesh.node import verbs
from loremesh.node.errors import NodeError, UnknownThing, UsageError
from loremesh.node.node import Node
from loremesh.node.params import Params, decoded
from tests.bench.precision import DATA, EVERYTHING, beliefs, cases, forbidden, teach
from tests.node.homes import Homes, faultless


@pytest.fixture
def homes(tmp_path: Path) -> Homes:
    return Homes(tmp_path)


async def through_a_door(node: Node, name: str, params: Params) -> Any:
    """A verb asked as a door is asked: its parameters cross as bytes."""
    verb = verbs.VERBS[name]
    return await verb.run(node, decoded(msgspec.json.encode(params), verb.params), None)


async def test_fault_23_an_empty_limit_lets_nothing_in_at_any_door(homes: Homes) -> None:
    """Neither spaces nor tags, alone or together, in Python or as bytes; left out is another thing."""
    async with homes.create("alice") as node:
        await node.space_create("team")
        await node.learn("Drain the queue", tags=["ops"], share=["team"])
        empty: list[dict[str, list[str]]] = [{"tags": []}, {"spaces": []}, {"tags": [], "spaces": ["team"]}]
        for limits in empty:
            assert (await node.recall("queue", **limits)).hits == []  # type: ignore[arg-type]
            asked = msgspec.convert({"query": "queue", **limits}, p.Recall)
            crossed = await through_a_door(node, "recall", asked)
            assert crossed.hits == []
            assert (crossed.tags, crossed.spaces is None) == (limits.get("tags"), "spaces" not in limits)
        whole = await through_a_door(node, "recall", p.Recall("queue"))
        assert (len(whole.hits), whole.tags, whole.spaces) == (1, None, None)


async def test_fault_23_an_empty_list_of_blocks_is_never_all_of_them(homes: Homes) -> None:
    """Outcomes, confirmations and ratings of no block are refused; no name is not every name."""
    async with homes.create("alice") as node:
        await node.learn("Drain the queue")
        before = (await node.status()).log_rows
        for refused in (
            node.outcome(1.0, blocks=[]),
            node.confirm([]),
            node.rescore([]),
            node.events(""),
            node.explain(""),
            node.worth(block=""),
            node.forget(""),
        ):
            with pytest.raises(NodeError):
                await refused
        assert (await node.status()).log_rows == before


async def test_fault_23_a_prefix_is_not_the_name(homes: Homes) -> None:
    """`test_user` is not `test_user1`, as a tag or as a space, whichever is asked for."""
    names = ("test_user", "test_user1")
    async with homes.create("alice") as node:
        for name in names:
            await node.space_create(name)
            await node.learn(f"The queue of {name}", tags=[name], share=[name])
        for name in names:
            for limits in ({"tags": [name]}, {"spaces": [name]}):
                found = await node.recall("queue", **limits)  # type: ignore[arg-type]
                assert [hit.text for hit in found.hits] == [f"The queue of {name}"]
                assert name in (found.tags or (found.spaces or {}).values())
        assert (await node.recall("queue", tags=["test_use"])).hits == []
        with pytest.raises(UnknownThing, match="no space 'test_use'"):
            await node.recall("queue", spaces=["test_use"])


async def test_fault_23_what_is_denied_is_an_error_and_not_an_empty_answer(homes: Homes) -> None:
    """A space of others, for reading and for writing; nothing is logged and nothing is told of it."""
    async with homes.create("alice") as alice, homes.create("bob") as bob:
        await alice.space_create("secret")
        await alice.learn("The queue is secret", share=["secret"])
        (space,) = await alice.spaces()
        before = (await bob.status()).log_rows
        for name in ("secret", space.space):
            with pytest.raises(UnknownThing, match="no space"):
                await bob.recall("queue", spaces=[name])
            with pytest.raises(UnknownThing, match="no space"):
                await bob.explain("ab" * 32, query="queue", spaces=[name])
            with pytest.raises(UnknownThing, match="no space"):
                await bob.learn("Mine", share=[name])
        with pytest.raises(UsageError, match="one text"):
            await bob.recall("queue", tags="ops")  # not the tags o, p and s
        assert (await bob.status()).log_rows == before


@pytest.mark.parametrize("frame", ["self", "attention", "task", "simulate", "park", "task=0.5,self=0.5"])
async def test_what_was_superseded_is_found_in_no_scope(homes: Homes, frame: str) -> None:
    """Of a chain of revisions only the end, even in the words of what it replaced, and after a restart."""
    texts = ["We lint with TSLint", "We lint with ESLint, no longer TSLint", "We lint with Biome"]
    async with homes.create("alice") as node:
        block = (await node.learn(texts[0], tags=["code"])).block
        for text in texts[1:]:
            block = (await node.revise(block, text)).block
        await node.consolidate()
    async with homes.open("alice") as node:
        for query in ("TSLint migration path", "ESLint rules", texts[0], ""):
            for limits in ({}, {"tags": ["code"]}):
                found = await node.recall(query, frame=frame, k=256, **limits)  # type: ignore[arg-type]
                assert [hit.text for hit in found.hits] == [texts[-1]]
        await faultless(node)


async def test_every_must_not_that_scope_or_supersession_decides_is_respected(homes: Homes) -> None:
    """Of precisionmembench: 35 beliefs, 77 cases and two sessions, everything that recall would hand out."""
    if not DATA.exists():
        pytest.skip(f"there is no {DATA.name} in the shared data")
    known, asked = beliefs(), cases()
    handed_out, clock = 0, [homes.now_ms]
    for user in ("test-user", "other-user", "brand-new-user"):
        async with homes.create(user) as node:
            mine = [one for one in known.values() if one.user_id == user]
            names = await teach(node, mine, True, clock)
            for case in (one for one in asked if one.user == user):
                found = await node.recall(case.query, tags=case.scope, k=EVERYTHING)
                hits = [names[hit.block] for hit in found.hits]
                assert [one for one in hits if forbidden(known[one], case, known)] == [], case.name
                allowed = {one for one in names.values() if not forbidden(known[one], case, known)}
                assert set(hits) == allowed, case.name
                handed_out += len(hits)
            await faultless(node)
    assert handed_out > 1_000
