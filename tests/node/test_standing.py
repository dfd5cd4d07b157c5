"""Where a block stands for a question: the same that recall does, taken apart, and nothing logged."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from loremesh.node.errors import UnknownThing, UsageError
from loremesh.node.finding import Question, check, find, look
from loremesh.node.node import Node
from loremesh.node.standing import standing
from loremesh.node.weighed import Standing
from loremesh.sync.content import block_id
from tests.node.guests import Guest, guest_in, take
from tests.node.homes import Homes, fact, faultless
from tests.sync.world import Row

QUERY = "restart the queue after the schema deploy"


def named(text: str) -> str:
    return block_id(text).hex()


async def stands(node: Node, text: str, query: str = QUERY, **asked: Any) -> Standing:
    """Where the block of this text stands."""
    explained = await node.explain(named(text), query=query, **asked)
    assert explained.standing is not None
    return explained.standing


@pytest.fixture
async def lived(homes: Homes) -> AsyncIterator[Node]:
    """Thirty blocks, some embedded, some used."""
    async with homes.create("alice") as node:
        for n in range(30):
            homes.pass_minutes(7)
            await node.learn(fact(n) if n % 4 else f"Ada: {fact(n)}", tags=["even"] if n % 2 == 0 else [])
            if n == 24:
                await node.consolidate()
        await node.outcome(1.0, blocks=[named(fact(5)), named(fact(6))], context="deploy")
        yield node
        await faultless(node)


TEXTS = [fact(n) if n % 4 else f"Ada: {fact(n)}" for n in range(30)]


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"frame": "self", "k": 1},
        {"frame": "task", "context": "deploy", "k": 30},
        {"frame": "park"},
        {"frame": "simulate"},
        {"frame": "self", "graph": 0.5, "k": 3},
        {"frame": "task=0.5,self=0.5", "tags": ["even"]},
    ],
)
async def test_every_block_stands_where_recall_puts_it(lived: Node, asked: dict[str, Any]) -> None:
    """Score, rank and terms of each of thirty blocks, against a recall of all of them right after."""
    seen = [await stands(lived, text, **asked) for text in TEXTS]
    found = await lived.recall(QUERY, **{**asked, "k": 30})
    order = {hit.block: (rank, hit) for rank, hit in enumerate(found.hits, start=1)}
    k = asked.get("k", 5)
    linked: list[float] = []
    for text, one in zip(TEXTS, seen, strict=True):
        if named(text) not in order:
            assert (one.barred, one.rank, one.terms, one.surfaces) == ("scope", 0, [], False)
            continue
        rank, hit = order[named(text)]
        assert (one.rank, one.score, one.surfaces) == (rank, hit.score, rank <= k)
        assert {term.term: term.value for term in one.terms} == hit.parts
        assert {term.term: term.weight for term in one.terms} == found.weights
        assert sum(term.product for term in one.terms) == pytest.approx(one.score, abs=1e-12)
        assert one.eligible == len(found.hits)
        last = found.hits[k - 1] if k <= len(found.hits) else None
        if "graph" in asked:
            linked.append(hit.parts["links"])
        assert (one.last, one.last_score) == ((last.block, last.score) if last else ("", 0.0))
        if last is not None:
            assert one.margin == pytest.approx(one.score - last.score)
            assert {term.term: term.last_value for term in one.terms} == last.parts
    assert not linked or max(linked) > 0.0


async def test_what_a_block_lacks_to_the_last_hit_is_named(homes: Homes) -> None:
    """The term in which it falls short most, and by how much in all."""
    async with homes.create("alice") as node:
        words = ["queue red", "queue blue", "queue green"]
        await node.learn_many([f"{word} alike" for word in words])
        for word in words[:2]:
            for _ in range(4):
                await node.outcome(1.0, blocks=[named(f"{word} alike")])
        await node.outcome(0.0, blocks=[named("queue green alike")])
        one = await stands(node, "queue green alike", "queue alike", frame="task", k=2)
        assert (one.surfaces, one.rank, one.short_in) == (False, 3, "utility")
        assert one.margin < 0.0
        assert f"{-one.margin:.3f} short of the last of 2 hits, most of it in utility" in one.why


async def test_sim_is_taken_apart_into_what_it_came_from(lived: Node) -> None:
    """Vector, words, what is carried over and the label sum to `sim`, for every block and some questions."""
    carried = labelled = unembedded = 0
    for query in (QUERY, "what did Ada say of the certificate", "nothing of it", ""):
        for text in TEXTS:
            one = await stands(lived, text, query)
            assert one.sim is not None
            sim = next(term.value for term in one.terms if term.term == "sim")
            parts = (one.sim.vector, one.sim.words, one.sim.carried, one.sim.label)
            assert min(parts) >= 0.0
            assert sum(parts) == pytest.approx(sim, abs=1e-6)
            assert bool(one.sim.carried_from) == (one.sim.carried > 0.0)
            carried += one.sim.carried > 0.0
            labelled += one.sim.label > 0.0
            unembedded += not one.sim.embedded
    assert (carried > 0, labelled, unembedded) == (True, 8, 4 * 5)


async def test_what_is_carried_over_names_the_block_it_came_from(node: Node) -> None:
    """The block learned just before, whose words the query has."""
    await node.learn("Where do we keep the certificate?")
    await node.learn("In the blue folder")
    one = await stands(node, "In the blue folder", "certificate")
    assert one.sim is not None
    assert (one.sim.words, one.sim.carried_from) == (0.0, named("Where do we keep the certificate?"))


async def test_blocks_that_score_alike_are_ranked_by_id_as_recall_does(node: Node) -> None:
    """Nothing tells them apart but their ids, and that is what is said."""
    texts = ["alpha one", "alpha two", "alpha three"]
    await node.learn_many(texts)
    seen = {named(text): await stands(node, text, "beta", k=1) for text in texts}
    assert [seen[block].rank for block in sorted(seen)] == [1, 2, 3]
    last = seen[max(seen)]
    assert (last.surfaces, last.margin, last.short_in) == (False, 0.0, "")
    assert last.why == "it scores as the last of 1 hits, whose id comes first"


async def test_it_is_a_read(homes: Homes, lived: Node) -> None:
    """No episode, no row in the log, and the clock stands still, though it is asked as of now."""
    homes.pass_minutes(20)
    before = (await lived.status()).log_rows, lived.ground.clock.hour
    first = await stands(lived, TEXTS[3])
    assert await stands(lived, TEXTS[3]) == first
    assert ((await lived.status()).log_rows, lived.ground.clock.hour) == before


async def test_what_keeps_a_block_out_is_named(homes: Homes) -> None:
    """Deprecated, archived, superseded, known only from peers, out of scope, nobody trusted behind it."""
    async with homes.create("alice") as node:
        bob = await guest_in(node, "bob", 1.0)
        await take(node, bob.blocks("The queue of bob"))
        ids = {name: (await node.learn(f"The queue is {name}")).block for name in ("old", "worn", "shelved")}
        await node.revise(ids["old"], "The queue is new")
        await node.deprecate(ids["worn"], why="wrong")
        await node.archive(ids["shelved"], why="done with")
        barred: dict[str, tuple[str, dict[str, Any]]] = {
            "The queue is old": ("superseded", {}),
            "The queue is worn": ("deprecated", {}),
            "The queue is shelved": ("archived", {}),
            "The queue of bob": ("own_only", {"frame": "self"}),
            "The queue is new": ("scope", {"tags": ["ops"]}),
        }
        for text, (why, asked) in barred.items():
            one = await stands(node, text, "queue", **asked)
            assert (one.barred, one.surfaces, one.rank, one.terms) == (why, False, 0, [])
            assert one.why
        assert (await stands(node, "The queue of bob", "queue")).surfaces
        await node.trust_set(bob.id, 0.0)
        assert (await stands(node, "The queue of bob", "queue")).barred == "nobody"
        assert (await node.explain(named("The queue of bob"), query="queue")).text == ""
        with pytest.raises(UnknownThing):
            await node.explain(named("The queue of bob"))
        await node.forget(ids["worn"])
        for unknown in (named("never heard of"), ids["worn"]):
            with pytest.raises(UnknownThing):
                await node.explain(unknown, query="queue")


async def test_a_block_whose_text_never_came_says_so(homes: Homes) -> None:
    """Evidence may come without content: the block is met, and its text is not here."""
    async with homes.create("alice") as node:
        bob = await guest_in(node, "bob", 1.0)
        await take(node, bob.evidence(Row("The queue of bob", 2, 0)))
        await node.learn("The queue is ours")
        assert (await stands(node, "The queue of bob", "queue")).barred == "no_text"


async def test_a_full_quota_of_one_foreign_principal_is_told_from_a_low_score(homes: Homes) -> None:
    """Better ones of the same principal took its places; those of others come after it by score."""
    async with homes.create("alice") as node:
        bob = Guest("bob", (await node.space_create("team", member_trust=1.0)).token)
        await take(node, bob.admitted(), bob.blocks(*(f"queue queue {n}" for n in range(4))))
        await node.learn_many([f"queue and other things, {n}" for n in range(4)])
        seen = [await stands(node, f"queue queue {n}", "queue", k=4) for n in range(4)]
        found = {hit.block for hit in (await node.recall("queue", k=4)).hits}
        for n, one in enumerate(seen):
            assert one.surfaces == (named(f"queue queue {n}") in found)
        assert [one.barred for one in seen].count("quota") == 2
        assert all(one.rank <= 4 for one in seen if one.barred == "quota")
        alone = await stands(node, "queue and other things, 0", "queue", k=256)
        assert (alone.last, alone.surfaces) == ("", True)


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"frame": "task"}, "those of a query"),
        ({"k": 3}, "those of a query"),
        ({"tags": []}, "those of a query"),
        ({"query": "q", "k": 0}, "k is 0"),
        ({"query": "q", "frame": "dream"}, "dream"),
        ({"query": "q" * 65_537}, "65537 bytes"),
        ({"query": "q", "tags": [""]}, "tag ''"),
    ],
)
async def test_a_question_that_cannot_be_is_refused(node: Node, asked: dict[str, Any], error: str) -> None:
    """As recall refuses it; and what belongs to a question is not passed over without one."""
    await node.learn("The queue")
    with pytest.raises(UsageError, match=error):
        await node.explain(named("The queue"), **asked)


async def test_the_arithmetic_takes_a_memory_and_nothing_else(lived: Node) -> None:
    """One look serves ranking and standing: the hits of `find` are those that surface."""
    memory = lived.ground.memory
    query = await lived.ground.query_vector(QUERY)
    vector = None if query is None else query.vector
    question = check(Question(QUERY))
    hits = find(memory, question, vector, 9.0, foreign_share=0.5, backoff=4.0)
    seen = look(memory, question, vector, 9.0, backoff=4.0)
    surfacing = [row for row in range(memory.length) if standing(memory, question, seen, row, 0.5).surfaces]
    assert sorted(hit.row for hit in hits) == surfacing
