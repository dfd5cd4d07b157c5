"""Archive, revise and restore through a whole node: what leaves recall, what it keeps, what is undone."""

from __future__ import annotations

from pathlib import Path

import pytest

from loremesh.node.errors import Conflict, UnknownThing, UsageError
from loremesh.node.events import Restore
from loremesh.node.exchange.files import export_to, import_from
from loremesh.node.node import Node
from loremesh.sync.content import block_id
from loremesh.sync.errors import InvalidInput
from tests.node.guests import guest_in, take
from tests.node.homes import CONFIG, Homes, effective, faultless
from tests.sync.world import Row

OLD = "Restart the indexer after a schema change"
NEW = "Rebuild the indexer after a schema change"
NEWER = "Nothing is to be done after a schema change"


def named(text: str) -> str:
    return block_id(text).hex()


async def found(node: Node) -> set[str]:
    """Texts that a question about all of them brings up."""
    return {hit.text for hit in (await node.recall("schema change", k=9)).hits}


async def used(node: Node, block: str, good: int, bad: int) -> None:
    for number in range(good + bad):
        await node.outcome(float(number < good), blocks=[block])


async def learned(node: Node, text: str = OLD) -> str:
    return (await node.learn(text, tags=["ops"])).block


# archive


async def test_an_archived_block_leaves_recall_and_keeps_everything(homes: Homes) -> None:
    """After a restart too; restored it is found by its words again; each change is an event with its why."""
    async with homes.create("alice") as node:
        block = await learned(node)
        await node.learn(NEW)
        await used(node, block, 3, 1)
        before = await node.explain(block)
        taken = await node.archive(block[:10], why="the project is over")
        assert (taken.block, taken.withdrawn, taken.changed) == (block, "archived", True)
        assert not (await node.archive(block)).changed
        assert await found(node) == {NEW}
        assert len(node.ground.memory.lexical) == 1, "nor does it set what words are common"
        seen = await node.explain(block)
        assert (seen.status, seen.alpha, seen.beta, seen.tags) == (
            "archived",
            before.alpha,
            before.beta,
            ["ops"],
        )
        assert seen.decision is not None
        assert (seen.decision.withdrawn, seen.decision.why) == ("archived", "the project is over")
        await faultless(node)
    async with homes.open("alice") as node:
        assert await found(node) == {NEW}
        back = await node.restore(block)
        assert (back.withdrawn, back.changed) == ("", True)
        assert not (await node.restore(block)).changed
        hits = (await node.recall("restart schema change", k=9)).hits
        assert [hit.text for hit in hits] == [OLD, NEW]
        assert hits[0].parts["sim"] > hits[1].parts["sim"] > 0, "it is in the index again"
        kinds = [event.kind for event in await node.events(block)]
        assert [kind for kind in kinds if kind in ("archive", "restore")] == ["archive", "restore"]
        await faultless(node)


async def test_an_archived_block_can_be_deprecated_and_the_other_way_round(node: Node) -> None:
    """The last decision holds; worth proposes nothing for what was put away."""
    block, other = await learned(node), (await node.learn(NEW)).block
    await used(node, block, 0, 20)
    await used(node, other, 20, 0)
    assert [one.proposal for one in await node.worth(candidates=True)] == ["deprecate"]
    await node.archive(block)
    await used(node, block, 0, 20)
    assert await node.worth(candidates=True) == []
    assert [one.withdrawn for one in await node.worth()] == ["", "archived"]
    assert (await node.deprecate(block, why="it fails")).changed
    assert (await node.explain(block)).status == "deprecated"
    assert (await node.archive(block)).changed
    assert (await node.explain(block)).status == "archived"


async def test_of_decisions_about_a_block_the_last_is_kept_in_memory(homes: Homes) -> None:
    """However often it goes out and comes back; the log has them all, and `replay --check` compares."""
    async with homes.create("alice") as node:
        block = await learned(node)
        own = node.ground.memory.own
        for _ in range(3):
            await node.archive(block, why="later")
            await node.restore(block, why="now")
        assert [one.why for one in own.decisions.trail(0)] == ["now"]
        assert [event.kind for event in await node.events(block)].count("archive") == 3
        own.decisions.apply(own.columns, 0, Restore(0.0, 0, "who knows", "nobody"))
        assert (await node.replay(check=True)).faults == ["own state: decisions differ"]


async def test_what_is_out_of_recall_says_so_when_it_is_learned_again(node: Node) -> None:
    """A no-op that tells how it is out, and what stands in its place: the end of the chain."""
    await learned(node)
    assert (await node.learn(OLD)).withdrawn == ""
    await node.archive(named(OLD))
    again = await node.learn(f"  {OLD} ")
    assert (again.created, again.withdrawn, again.superseded_by) == (False, "archived", "")
    await node.restore(named(OLD))
    await node.revise(named(OLD), NEW)
    await node.revise(named(NEW), NEWER)
    again = await node.learn(OLD)
    assert (again.created, again.withdrawn, again.superseded_by) == (False, "superseded", named(NEWER))
    assert await found(node) == {NEWER}


# revise


async def test_a_revision_starts_from_the_old_mean_at_a_small_mass(homes: Homes) -> None:
    """Mean of the own evidence, prior and outcomes, to the last bit; mass 2; tags and spaces come along."""
    async with homes.create("alice") as node:
        await node.space_create("team")
        old = (await node.learn(OLD, tags=["ops", "search"], share=["team"])).block
        await used(node, old, 7, 1)
        before = await node.explain(old)
        assert (before.alpha, before.beta) == (7.5, 1.5)
        made = await node.revise(old[:12], f" {NEW}\n", why="v2 rebuilds")
        assert (made.block, made.superseded, made.created, made.restored) == (named(NEW), old, True, False)
        assert (made.mass, made.tags, made.spaces) == (2.0, ["ops", "search"], ["team"])
        assert made.mean == pytest.approx(7.5 / 9.0, abs=2**-16)
        new = await node.explain(made.block)
        assert new.alpha + new.beta == 2.0
        assert new.utility == made.mean
        assert (new.supersedes, new.superseded_by, new.spaces) == ([old], "", ["team"])
        after = await node.explain(old)
        assert (after.status, after.superseded_by, after.alpha) == ("superseded", made.block, before.alpha)
        assert after.decision is not None
        assert after.decision.why == "v2 rebuilds"
        assert await found(node) == {f" {NEW}\n"}
        await node.outcome(0.0, blocks=[made.block])
        worth = {one.block: one.alpha + one.beta for one in await node.worth()}
        assert worth[made.block] == 1.0, "the head start is no first-hand evidence"
        await faultless(node)
    for checkpoint in (True, False):
        if not checkpoint:
            (homes.path("alice") / "checkpoint").unlink()
        async with homes.open("alice") as node:
            assert await found(node) == {f" {NEW}\n"}
            assert (await node.explain(old)).superseded_by == made.block
            await faultless(node)


async def test_what_a_revision_takes_over_can_be_told_otherwise(homes: Homes) -> None:
    """Other tags, no space, and another weight from the settings."""
    async with homes.create("alice", CONFIG + "[memory]\nrevision_weight = 0.5\n") as node:
        await node.space_create("team")
        old = (await node.learn(OLD, tags=["ops"], share=["team"])).block
        made = await node.revise(old, NEW, tags=["search"], share=[])
        assert (made.tags, made.spaces, made.mass, made.mean) == (["search"], [], 0.5, 0.5)
        assert (await node.explain(made.block)).spaces == []


async def test_a_revision_is_one_transaction(homes: Homes, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the disk refuses it, nothing of it is there: neither the new block nor the old one's leaving."""
    async with homes.create("alice") as node:
        old = await learned(node)

        async def refuse(*_: object, **__: object) -> None:
            raise OSError("no space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(node.ground.store, "append", refuse)
            with pytest.raises(OSError, match="no space"):
                await node.revise(old, NEW)
        assert await found(node) == {OLD}
        with pytest.raises(UnknownThing):
            await node.explain(named(NEW))
        await faultless(node)


async def test_a_text_that_is_held_becomes_the_successor(node: Node) -> None:
    """Without outcomes it gets the head start on top of its prior; with outcomes of its own, or for a second
    block, none.
    """
    old, other, third = await learned(node), (await node.learn(NEW)).block, (await node.learn(NEWER)).block
    await used(node, old, 4, 0)
    made = await node.revise(old, NEW)
    assert (made.block, made.created, made.mass) == (other, False, 2.0)
    assert made.tags == ["ops"]
    seen = await node.explain(other)
    assert (seen.alpha + seen.beta, seen.supersedes) == (3.0, [old])
    assert (await node.revise(third, NEW)).mass == 0.0
    assert (await node.explain(other)).supersedes == sorted([old, third], key=[old, third].index)
    fresh = (await node.learn("It was learned and used")).block
    await used(node, fresh, 1, 0)
    assert (await node.revise(other, "It was learned and used")).mass == 0.0
    assert (await node.explain(fresh)).alpha == 1.5


async def test_going_back_to_an_earlier_text_makes_no_ring(node: Node) -> None:
    """A → B → C, then C revised to A's text: A is in recall again, B and C lead to it."""
    a = await learned(node)
    b = (await node.revise(a, NEW)).block
    c = (await node.revise(b, NEWER)).block
    back = await node.revise(c, OLD)
    assert (back.block, back.created, back.restored) == (a, False, True)
    assert await found(node) == {OLD}
    assert (await node.explain(a)).superseded_by == ""
    assert [(await node.learn(text)).superseded_by for text in (OLD, NEW, NEWER)] == ["", a, a]


async def test_restoring_undoes_a_revision(node: Node) -> None:
    """Both are in recall then, and neither stands in the other's place; the old one can be revised again."""
    old = await learned(node)
    new = (await node.revise(old, NEW)).block
    assert (await node.restore(old, why="v2 was rolled back")).changed
    assert await found(node) == {OLD, NEW}
    assert ((await node.explain(old)).superseded_by, (await node.explain(new)).supersedes) == ("", [])
    assert (await node.revise(old, NEWER)).superseded == old


async def test_what_cannot_be_revised_is_refused_and_changes_nothing(node: Node) -> None:
    """The same text, a block revised before, one not known, texts and tags that cannot be."""
    old = await learned(node)
    with pytest.raises(UsageError, match="itself"):
        await node.revise(old, f" {OLD}\t")
    with pytest.raises(UnknownThing):
        await node.revise("ab" * 32, NEW)
    for text in ("", "  ", "x" * 70_000, "\ud800"):
        with pytest.raises(InvalidInput):
            await node.revise(old, text)
    with pytest.raises(InvalidInput, match="tag"):
        await node.revise(old, NEW, tags=[""])
    with pytest.raises(InvalidInput, match="why"):
        await node.revise(old, NEW, why="a\nb")
    with pytest.raises(UnknownThing):
        await node.revise(old, NEW, share=["no such space"])
    assert await found(node) == {OLD}
    new = (await node.revise(old, NEW)).block
    with pytest.raises(Conflict, match=f"{new} took its place"):
        await node.revise(old, NEWER)
    for withdraw in (node.archive(old), node.deprecate(old, why="wrong")):
        with pytest.raises(Conflict, match=f"{new} took its place"):
            await withdraw
    assert (await node.explain(old)).superseded_by == new


async def test_forgetting_the_new_block_brings_the_old_one_back_as_it_was(homes: Homes) -> None:
    """In recall, or deprecated if it was that before; live, and in a replay of what is left."""
    async with homes.create("alice") as node:
        old = await learned(node)
        new = (await node.revise(old, NEW, why="a secret reason")).block
        await node.forget(new)
        assert await found(node) == {OLD}
        seen = await node.explain(old)
        assert (seen.status, seen.superseded_by, seen.decision) == ("pending", "", None)
        assert (await node.recall("restart")).hits[0].parts["sim"] > 0
        await faultless(node)
        await node.deprecate(old, why="wrong")
        new = (await node.revise(old, NEW)).block
        assert (await node.explain(old)).status == "superseded"
        await node.forget(new)
        assert (await node.explain(old)).status == "deprecated"
        await faultless(node)
    stored = b"".join(path.read_bytes() for path in homes.path("alice").rglob("*") if path.is_file())
    for gone in (b"a secret reason", NEW.encode(), bytes.fromhex(new), new.encode()):
        assert gone not in stored
    async with homes.open("alice") as node:
        assert (await node.explain(old)).status == "deprecated"


async def test_forgetting_the_old_block_leaves_the_new_one_its_head_start(
    homes: Homes, tmp_path: Path
) -> None:
    """It stands in no one's place then; an export tells the head start, and the import has it too."""
    async with homes.create("alice") as node, homes.create("bob") as bob:
        old = await learned(node)
        await used(node, old, 3, 0)
        new = (await node.revise(old, NEW)).block
        await node.forget(old)
        seen = await node.explain(new)
        assert (seen.alpha + seen.beta, seen.supersedes) == (2.0, [])
        assert [event.kind for event in await node.events(new)] == ["learn", "revise"]
        await faultless(node)
        await export_to(node, tmp_path / "a.jsonl")
        assert old.encode() not in (tmp_path / "a.jsonl").read_bytes()
        await import_from(bob, tmp_path / "a.jsonl")
        assert await effective(bob) == await effective(node)


async def test_a_peers_block_is_revised_here_alone(homes: Homes) -> None:
    """It leaves recall here; the new block has no head start, since nothing is known of it first hand; what
    the peer states goes on counting for the old one.
    """
    async with homes.create("alice") as node:
        bob = await guest_in(node, "bob", 1.0)
        await take(node, bob.blocks(OLD), bob.evidence(Row(OLD, 9, 1)))
        made = await node.revise(named(OLD), NEW)
        assert (made.mass, made.mean, made.tags, made.spaces) == (0.0, 0.5, [], [])
        assert ((await node.explain(made.block)).alpha, await found(node)) == (0.5, {NEW})
        seen = await node.explain(named(OLD))
        assert (seen.status, seen.held, seen.superseded_by) == ("superseded", False, made.block)
        again = await node.learn(OLD)
        assert (again.created, again.withdrawn, again.superseded_by) == (True, "superseded", made.block)
        assert len(node.ground.memory.lexical) == 1
        await take(node, bob.evidence(Row(OLD, 12, 1, 2)))
        assert (await node.explain(named(OLD))).alpha == 12.5
        assert await found(node) == {NEW}
        await faultless(node)


async def test_revisions_and_archived_blocks_travel_in_files(homes: Homes, tmp_path: Path) -> None:
    """A round trip is the identity, a peers' block that was revised included."""
    async with homes.create("alice") as node, homes.create("bob") as bob:
        guest = await guest_in(node, "carol", 1.0)
        await take(node, guest.blocks("Only carol knew it"))
        old, gone = await learned(node), (await node.learn("Put away")).block
        await used(node, old, 3, 2)
        await node.revise(old, NEW, why="v2")
        await node.revise(named("Only carol knew it"), NEWER)
        await node.archive(gone, why="over")
        await export_to(node, tmp_path / "a.jsonl")
        await import_from(bob, tmp_path / "a.jsonl")
        await export_to(bob, tmp_path / "b.jsonl")
        assert (tmp_path / "b.jsonl").read_bytes() == (tmp_path / "a.jsonl").read_bytes()
        assert await found(bob) == await found(node) == {NEW, NEWER}
        assert (await bob.explain(old)).superseded_by == named(NEW)
        assert (await bob.explain(gone)).status == "archived"
        assert (await bob.learn("Only carol knew it")).superseded_by == named(NEWER)
        await import_from(bob, tmp_path / "a.jsonl")
        assert (await bob.explain(named(NEW))).alpha == (await node.explain(named(NEW))).alpha
        await faultless(bob)


async def test_a_file_does_not_take_out_of_recall_what_was_held_before(homes: Homes, tmp_path: Path) -> None:
    """Of a block with a history of its own here, the file adds evidence and decides nothing."""
    async with homes.create("alice") as node, homes.create("bob") as bob:
        old = await learned(node)
        await node.revise(old, NEW)
        await learned(bob)
        await export_to(node, tmp_path / "a.jsonl")
        await import_from(bob, tmp_path / "a.jsonl")
        assert await found(bob) == {OLD, NEW}
        assert (await bob.explain(old)).superseded_by == ""
        await faultless(bob)


async def test_a_file_leaves_a_block_that_was_forgotten_here_forgotten(homes: Homes, tmp_path: Path) -> None:
    """The block that took its place in the other home comes in with its head start, and is exported again."""
    async with homes.create("alice") as alice:
        block = await learned(alice)
        await used(alice, block, 3, 1)
        new = (await alice.revise(block, NEW)).block
        head_start = (await alice.explain(new)).alpha
        await export_to(alice, tmp_path / "alice.jsonl")
    async with homes.create("empty") as empty:
        await learned(empty, NEWER)
        await empty.forget(await learned(empty))
        await import_from(empty, tmp_path / "alice.jsonl")
        assert await found(empty) == {NEW, NEWER}
        assert (await empty.explain(new)).alpha == head_start
        assert empty.ground.memory.own.decisions.rows() == []
        await faultless(empty)
        await export_to(empty, tmp_path / "empty.jsonl")
