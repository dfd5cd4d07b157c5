"""Links of whole nodes: proposed at consolidation, moved by outcomes, used by recall, gone with a block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from loremesh.node import consolidating, linking
from loremesh.node.consolidating import consolidate
from loremesh.node.errors import UsageError
from loremesh.node.exchange.files import export_to, import_from
from loremesh.node.links import Edges
from loremesh.node.matrix import VectorMatrix
from loremesh.node.nearest import nearest
from loremesh.node.node import Node
from loremesh.node.ports import Ratings
from loremesh.node.results import Neighbour
from tests.node.exchange.homes_with_files import exported, put_together, taken_apart
from tests.node.guests import guest_in, take
from tests.node.homes import CONFIG, Homes, fact, faultless
from tests.sync.world import Row

ALIKE = (
    "Restart the indexer after a schema change",
    "Restart the indexer after each schema change",
    "Restart the indexer after a schema change at night",
)
APART = "Certificates rotate in May"
OFF = CONFIG + "[graph]\nlinks = 0\n"


class Away:
    """A rater whose service does not answer."""

    name = "away"

    async def rate(self, texts: Sequence[str]) -> Ratings:
        return Ratings([None] * len(texts), "the service is away", stopped=True)

    async def close(self) -> None:
        """Nothing to let go of."""


async def learned(node: Node, *texts: str) -> list[str]:
    """The blocks of these texts, learned and consolidated."""
    blocks = [(await node.learn(text)).block for text in texts]
    await node.consolidate()
    return blocks


async def neighbours(node: Node, block: str) -> dict[str, Neighbour]:
    return {one.block: one for one in (await node.explain(block)).neighbours}


async def kinds(node: Node, block: str) -> list[str]:
    return [event.kind for event in await node.events(block)]


def edges(node: Node) -> list[list[int]]:
    found: Edges = node.ground.memory.own.links.edges()
    return [found.row.tolist(), found.other.tolist(), found.weight_fx.tolist(), found.by_hand.tolist()]


async def test_consolidation_links_what_is_alike(node: Node) -> None:
    """At half the cosine, both ways, one event a block; that a block has none is noted too."""
    one, two, three, apart = await learned(node, *ALIKE, APART)
    seen = await neighbours(node, one)
    assert seen.keys() == {two, three}
    for neighbour in seen.values():
        assert neighbour.kind == "similar"
        assert neighbour.similarity is not None
        assert neighbour.base == pytest.approx(neighbour.similarity / 2, abs=1e-4)
        assert neighbour.weight == neighbour.base, "no outcomes yet"
    assert seen[two].text == ALIKE[1]
    assert (await neighbours(node, three)).keys() == {one, two}
    assert (await node.explain(apart)).neighbours == []
    assert await kinds(node, apart) == ["learn", "linked", "consolidate"]
    linked = (await node.events(one))[1]
    assert linked.detail["others"] == sorted(seen, key=lambda block: -seen[block].base)
    assert linked.detail["weights"] == sorted((one.base for one in seen.values()), reverse=True)
    await faultless(node)


async def test_old_blocks_are_not_linked_again(node: Node) -> None:
    """One new block looks at all that were there, and that is all that is written."""
    one, two, _ = await learned(node, *ALIKE)
    done = await node.consolidate()
    assert (done.linked, done.waiting) == (0, 0)
    before = {block: await kinds(node, block) for block in (one, two)}
    (new,) = await learned(node, "Restart the indexer after a schema change by day")
    assert {one, two} <= (await neighbours(node, new)).keys()
    assert new in await neighbours(node, one)
    assert {block: await kinds(node, block) for block in (one, two)} == before
    assert (await kinds(node, new)).count("linked") == 1


async def test_linking_goes_on_where_it_stopped(homes: Homes) -> None:
    """Switched off nothing is linked; switched on, what has its vector already is linked without another."""
    async with homes.create("alice", OFF) as node:
        blocks = await learned(node, *ALIKE)
        assert (await node.explain(blocks[0])).neighbours == []
        assert (await node.status()).waiting == 0
    (homes.path("alice") / "config.toml").write_text(CONFIG)
    async with homes.open("alice") as node:
        assert (await node.status()).waiting == 3
        embedded = len(homes.embedder.texts)
        assert (await node.consolidate(limit=1)).linked == 2
        assert (await node.consolidate()).linked == 1, "the pair that the first one left"
        assert len(homes.embedder.texts) == embedded
        assert (await neighbours(node, blocks[0])).keys() == {blocks[1], blocks[2]}
        await faultless(node)


async def test_peers_blocks_are_not_linked(node: Node) -> None:
    """Their texts steer nothing here; once one is learned here it is linked like any other."""
    bob = await guest_in(node)
    await take(node, bob.blocks(ALIKE[0]), bob.evidence(Row(ALIKE[0], 6, 2)))
    (mine,) = await learned(node, ALIKE[1])
    assert node.ground.memory.matrix is not None
    assert len(node.ground.memory.matrix) == 2, "the peer's block has its vector"
    assert (await node.explain(mine)).neighbours == []
    (theirs,) = await learned(node, ALIKE[0])
    assert (await neighbours(node, mine)).keys() == {theirs}


async def test_a_rater_that_is_away_holds_up_no_links(node: Node) -> None:
    """A running node asks it again later; what has its vector already is linked meanwhile."""
    bob = await guest_in(node)
    await take(node, bob.blocks(ALIKE[0]), bob.evidence(Row(ALIKE[0], 6, 2)))
    mine = (await node.learn(ALIKE[1])).block
    node.ground.parts = msgspec.structs.replace(node.ground.parts, rater=Away())
    assert (await consolidate(node.ground, patient=True)).unrated == 1
    theirs = (await node.learn(ALIKE[0])).block
    done = await consolidate(node.ground, patient=True)
    assert (done.linked, done.unrated) == (1, 0)
    assert (await neighbours(node, mine)).keys() == {theirs}


async def test_an_outcome_at_either_end_moves_the_link_and_nothing_a_peer_says_does(node: Node) -> None:
    """Good ones strengthen, bad ones weaken; what was stored is as it was."""
    one, two, _ = await learned(node, *ALIKE)
    before, stored = (await neighbours(node, one))[two].weight, edges(node)
    await node.outcome(1.0, blocks=[two])
    good = (await neighbours(node, one))[two]
    assert good.weight == pytest.approx(before * (4 / 3) ** 0.5)
    assert (await neighbours(node, two))[one].weight == good.weight
    await node.outcome(0.0, blocks=[one], weight=2.0)
    bad = (await neighbours(node, one))[two]
    assert bad.weight == pytest.approx(good.weight * (1 / 2) ** 0.5)
    bob = await guest_in(node)
    await take(node, bob.blocks(ALIKE[0]), bob.evidence(Row(ALIKE[0], 40, 0)))
    assert (await neighbours(node, one))[two] == bad
    assert edges(node) == stored


async def test_a_forgotten_end_takes_the_link_and_what_its_outcomes_did(node: Node) -> None:
    """Learned anew it is linked anew, as if it had never been judged; others tell of it no more."""
    one, two, three = await learned(node, *ALIKE)
    base = (await neighbours(node, one))[two].weight
    await node.outcome(1.0, blocks=[two], weight=5.0)
    await node.forget(two)
    assert (await neighbours(node, one)).keys() == {three}
    assert "forgotten" in (await node.events(one))[1].detail["others"]  # type: ignore[operator]
    await faultless(node)
    assert await learned(node, ALIKE[1]) == [two]
    assert (await neighbours(node, one))[two].weight == base
    await faultless(node)


async def test_what_is_out_of_recall_is_nobodys_neighbour(node: Node) -> None:
    """It neither shows nor carries anything, and is back when it is restored."""
    one, two, three = await learned(node, *ALIKE)
    await node.deprecate(two, why="wrong")
    assert (await neighbours(node, one)).keys() == {three}
    await node.deprecate(three, why="wrong")
    (hit,) = (await node.recall(ALIKE[0], graph=1.0)).hits
    assert (hit.block, hit.parts["links"]) == (one, 0.0)
    await node.restore(two)
    assert (await neighbours(node, one)).keys() == {two}
    hits = {hit.block: hit for hit in (await node.recall(ALIKE[0], graph=1.0)).hits}
    assert hits[two].parts["links"] > 0.0


async def test_what_was_put_away_before_it_was_linked_waits(node: Node) -> None:
    """A block that is out of recall is linked once it is back."""
    one, two = [(await node.learn(text)).block for text in ALIKE[:2]]
    await node.deprecate(two, why="not sure")
    await node.consolidate()
    assert (await node.status()).waiting == 0
    await node.restore(two)
    await node.consolidate()
    assert (await neighbours(node, one)).keys() == {two}


async def test_simulate_asks_the_links_and_others_on_request(node: Node) -> None:
    """The term is the best neighbour's lead times today's weight, shown with its weight."""
    _, two, _, apart = await learned(node, *ALIKE, APART)
    plain = await node.recall(ALIKE[0], frame="simulate", graph=0.0)
    assert "links" not in plain.weights
    assert all("links" not in hit.parts for hit in plain.hits)
    score = {hit.block: hit.score for hit in plain.hits}
    linked = await node.recall(ALIKE[0], frame="simulate")
    seen = await neighbours(node, two)
    for hit in linked.hits:
        assert hit.score == pytest.approx(score[hit.block] + linked.weights["links"] * hit.parts["links"])
    by_block = {hit.block: hit.parts["links"] for hit in linked.hits}
    assert by_block[two] == pytest.approx(
        max(seen[other].weight * (score[other] - min(score.values())) for other in seen)
    )
    assert by_block[apart] == 0.0
    asked = await node.recall(ALIKE[0], frame="task", graph=0.25)
    assert asked.weights["links"] == 0.25
    assert {hit.block: hit.parts["links"] > 0 for hit in asked.hits}[two]


async def test_a_weight_that_is_none_is_refused(node: Node) -> None:
    """Naming it, and before anything is logged."""
    await learned(node, *ALIKE)
    rows = node.ground.store.position.n
    for wrong in (-1.0, 1.5, float("nan")):
        with pytest.raises(UsageError, match="graph"):
            await node.recall("indexer", graph=wrong)
    assert node.ground.store.position.n == rows


async def test_links_are_the_same_from_the_checkpoint_and_from_the_log(homes: Homes) -> None:
    """Bit for bit, whose neighbours were looked for included."""
    async with homes.create("alice") as node:
        blocks = await learned(node, *ALIKE, *map(fact, range(40)))
        await node.forget(blocks[1])
        held = edges(node)
    for checkpoint in (True, False):
        if not checkpoint:
            node.ground.store.paths.checkpoint.unlink()
        async with homes.open("alice") as node:
            assert edges(node) == held
            assert (await node.consolidate()).linked == 0
            await faultless(node)


async def test_links_travel_in_files(homes: Homes, tmp_path: Path) -> None:
    """A round trip is the identity; taken in twice they change nothing; the taker looks for more itself."""
    async with homes.create("alice") as alice, homes.create("bob") as bob:
        blocks = await learned(alice, *ALIKE, *map(fact, range(20)))
        await alice.forget(blocks[2])
        await export_to(alice, tmp_path / "a.jsonl")
        await import_from(bob, tmp_path / "a.jsonl")
        await export_to(bob, tmp_path / "b.jsonl")
        assert (tmp_path / "b.jsonl").read_bytes() == (tmp_path / "a.jsonl").read_bytes()
        rows = bob.ground.store.position.n
        await import_from(bob, tmp_path / "a.jsonl")
        assert bob.ground.store.position.n == rows
        (mine,) = await learned(bob, ALIKE[2])
        assert {blocks[0], blocks[1]} <= (await neighbours(bob, mine)).keys()
        assert (await neighbours(bob, blocks[0])).keys() >= (await neighbours(alice, blocks[0])).keys()
        await faultless(bob)


async def test_a_file_adds_no_link_to_a_block_forgotten_here(homes: Homes, tmp_path: Path) -> None:
    """The other links of the same event are taken."""
    async with homes.create("alice") as alice, homes.create("bob") as bob:
        one, two, three = await learned(alice, *ALIKE)
        await export_to(alice, tmp_path / "a.jsonl")
        await bob.learn(ALIKE[1])
        await bob.forget(two)
        await import_from(bob, tmp_path / "a.jsonl")
        assert (await neighbours(bob, one)).keys() == {three}
        await faultless(bob)


async def test_what_came_from_a_file_is_compared_with_what_was_here(homes: Homes, tmp_path: Path) -> None:
    """Its links tell who was like it there; here it is looked at once as well."""
    async with homes.create("alice") as alice, homes.create("bob") as bob:
        one, _ = await learned(alice, *ALIKE[:2])
        await export_to(alice, tmp_path / "a.jsonl")
        (mine,) = await learned(bob, ALIKE[2])
        await import_from(bob, tmp_path / "a.jsonl")
        await bob.consolidate()
        assert mine in await neighbours(bob, one)
        await faultless(bob)


async def test_two_consolidations_at_once_link_each_block_once(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both look, one after the other decides: what the first has decided the second leaves alone."""
    blocks = [(await node.learn(text)).block for text in ALIKE]
    await node.consolidate(limit=1)
    both, inner = threading.Barrier(2), nearest

    def together(*arguments: object) -> object:
        both.wait(timeout=30)
        return inner(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(linking, "nearest", together)
    await asyncio.gather(node.consolidate(), node.consolidate())
    assert [(await kinds(node, block)).count("linked") for block in blocks] == [1, 1, 1]
    assert (await neighbours(node, blocks[0])).keys() == {blocks[1], blocks[2]}


async def test_a_block_forgotten_while_neighbours_are_looked_for_is_nobodys(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search goes on beside other work: what it found of a block that is gone is not written down."""
    loop = asyncio.get_running_loop()
    one, two, gone = [(await node.learn(text)).block for text in ALIKE]

    def meanwhile(*arguments: object) -> object:
        found = nearest(*arguments)  # type: ignore[arg-type]
        asyncio.run_coroutine_threadsafe(node.forget(gone), loop).result(30)
        return found

    monkeypatch.setattr(linking, "nearest", meanwhile)
    assert (await node.consolidate()).linked == 1
    assert (await node.events(one))[1].detail["others"] == [two]
    assert edges(node)[:2] == [[0, 1], [1, 0]]
    await faultless(node)


async def test_what_was_found_among_vectors_that_were_replaced_is_dropped(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another embedder came into use while the search went on: the blocks are compared by the next run."""
    memory = node.ground.memory
    blocks = [(await node.learn(text)).block for text in ALIKE]

    def meanwhile(*arguments: object) -> object:
        found = nearest(*arguments)  # type: ignore[arg-type]
        assert memory.matrix is not None
        assert memory.fingerprint is not None
        other = VectorMatrix(memory.matrix.dimension)
        other.set([0, 1, 2], memory.matrix.pieces(3)[0])
        memory.change_vectors(memory.fingerprint, other)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(linking, "nearest", meanwhile)
        done = await node.consolidate()
    assert (done.linked, done.waiting) == (0, 3)
    assert (await node.consolidate()).linked == 3
    assert [(await kinds(node, block)).count("linked") for block in blocks] == [1, 1, 1]


async def test_a_file_changes_no_link_that_is_there(homes: Homes, tmp_path: Path) -> None:
    """Of blocks that were held before, a file adds links and moves none, proposed or made by hand."""
    async with homes.create("alice") as alice, homes.create("bob") as bob:
        await learned(alice, *ALIKE)
        told = taken_apart(await exported(alice, tmp_path / "a.jsonl"))
        for line in told:
            if line.get("kind") == "linked":
                line["detail"]["weights"] = [0.125] * len(line["detail"]["weights"])
        one, two = await learned(bob, *ALIKE[:2])
        three = (await bob.learn(ALIKE[2])).block
        before = (await neighbours(bob, one))[two].base
        await bob.connect(one, three, weight=0.75)
        await import_from(bob, put_together(tmp_path / "other.jsonl", told))
        assert {block: seen.base for block, seen in (await neighbours(bob, one)).items()} == {
            two: before,
            three: 0.75,
        }
        assert {block: seen.base for block, seen in (await neighbours(bob, two)).items()} == {
            one: before,
            three: 0.125,
        }
        await faultless(bob)


async def test_frames_may_come_in_before_and_while_links_are_looked_for(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows given out since the last refresh are nobody's neighbours; linking goes on beside them."""
    bob = await guest_in(node)
    blocks = [(await node.learn(text)).block for text in ALIKE]
    loop, inner = asyncio.get_running_loop(), nearest

    def meanwhile(*arguments: object) -> object:
        texts = [f"Bob says that {number} is a number" for number in range(100, 140)]
        frames = bob.blocks(*texts), bob.evidence(*(Row(text, 6, 2) for text in texts))
        asyncio.run_coroutine_threadsafe(take(node, *frames), loop).result(30)
        return inner(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(linking, "nearest", meanwhile)
    search = linking.link

    async def late(*arguments: object) -> int:
        texts = [f"Bob says that {number} is odd" for number in range(100, 140)]
        await take(node, bob.blocks(*texts), bob.evidence(*(Row(text, 6, 2) for text in texts)))
        return await search(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(consolidating, "link", late)
    await node.consolidate(limit=len(blocks))
    assert (await neighbours(node, blocks[0])).keys() == {blocks[1], blocks[2]}
    assert node.ground.memory.readable().sum() == len(ALIKE) + 80


async def test_a_link_that_no_event_made_is_found(homes: Homes) -> None:
    """`replay --check` compares links, and whose neighbours were looked for."""
    async with homes.create("alice") as node:
        await learned(node, *ALIKE)
        links = node.ground.memory.own.links
        links.propose(0, 1, 1)
        assert (await node.replay(check=True)).faults == ["own state: links differ"]
