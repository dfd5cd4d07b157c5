"""A change of embedder: the old vectors serve until the new ones are all there, then they are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from loremesh.crypto.keystores import open_vault
from loremesh.node.embed.hashing import HashingEmbedder
from loremesh.node.embed.registry import name_of, names, open_former
from loremesh.node.errors import Conflict, Unavailable
from loremesh.node.node import Node
from loremesh.node.opening import encode_fingerprint
from loremesh.node.parts import Parts
from loremesh.node.ports import Embedder, EmbedderError, Fingerprint
from loremesh.node.store.store import Store
from tests.node.embed_service import lengths, service
from tests.node.homes import DIMENSION, ENVIRON, CountingEmbedder, Homes, fact, faultless

BLOCKS = 150


class Turned:
    """Another model of the same dimension: the hashing embedder's vectors, mirrored."""

    def __init__(self, name: str = "turned", dimension: int = DIMENSION) -> None:
        self._inner = HashingEmbedder(dimension)
        self.fingerprint = Fingerprint(name, "1", dimension)
        self.texts: list[str] = []
        self.queries = 0
        self.closed = False
        self.during: Callable[[], None] | None = None
        self.fail_after = 10**9

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
        if query:
            self.queries += 1
        else:
            if len(self.texts) + len(texts) > self.fail_after:
                raise EmbedderError("the service is gone", "wait")
            self.texts += texts
        if self.during is not None:
            self.during()
        return (await self._inner.embed(texts))[:, ::-1].copy()

    async def close(self) -> None:
        self.closed = True


@pytest.fixture
def changed(homes: Homes, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Turned]:
    """The settings name another embedder from the next opening on; `former` still opens the one before."""
    plain = homes.parts

    def to(new: Turned | None = None, *, former: bool = True) -> Turned:
        turned = new or Turned()

        async def named(dimension: int | None) -> Embedder:
            return turned

        async def before(made_by: Fingerprint) -> Embedder:
            if not former:
                raise EmbedderError("the former model is not installed", "install it")
            return homes.embedder

        def parts(name: str) -> Parts:
            return msgspec.structs.replace(plain(name), open_embedder=named, open_former=before)

        monkeypatch.setattr(homes, "parts", parts)
        return turned

    return to


To = Callable[..., Turned]


async def filled(homes: Homes, count: int = BLOCKS) -> list[str]:
    async with homes.create("alice") as node:
        learned = await node.learn_many([fact(n) for n in range(count)])
        assert (await node.consolidate()).embedded == count
        return [one.block for one in learned]


async def vectors(node: Node, by: Fingerprint) -> dict[int, bytes]:
    """Vectors in the store that this model made, by row."""
    found = {}
    async for batch in node.ground.store.scan_blocks(encode_fingerprint(by), by.dimension):
        found.update({int(row): v.tobytes() for row, v in zip(batch.vector_rows, batch.vectors, strict=True)})
    return found


async def test_opening_with_another_embedder_changes_nothing_and_recall_goes_on(
    homes: Homes, changed: To
) -> None:
    """The model before goes on, for questions and new blocks alike; status says what is to be done."""
    await filled(homes)
    async with homes.open("alice") as node:
        asked = [(hit.block, hit.score) for hit in (await node.recall("indexer schema", k=9)).hits]
    new = changed()
    async with homes.open("alice") as node:
        assert [(hit.block, hit.score) for hit in (await node.recall("indexer schema", k=9)).hits] == asked
        await node.learn("One more about the indexer")
        assert (await node.consolidate()).embedded == 1
        assert new.texts == []
        assert new.queries == 0
        status = await node.status()
        assert status.vectors_by == "hashing"
        assert status.reembedding == ""
        assert len(await vectors(node, homes.embedder.fingerprint)) == BLOCKS + 1


async def test_fault_29_reembedding_changes_over_at_once_and_nothing_of_the_old_is_left(
    homes: Homes, changed: To
) -> None:
    """Same dimension, other model: every vector is the new one's, before and after a restart."""
    await filled(homes)
    new = changed()
    seen: list[tuple[int, int]] = []
    old: list[int] = []
    async with homes.open("alice") as node:
        new.during = lambda: old.append(len(node.ground.memory.matrix or ()))
        done = await node.reembed(lambda at, of: seen.append((at, of)))
        assert (done.changed, done.embedded, done.blocks) == (True, BLOCKS, BLOCKS)
        assert (done.before, done.embedder) == ("hashing", "turned")
        assert seen[-1] == (BLOCKS, BLOCKS)
        assert [at for at, _ in seen] == sorted(at for at, _ in seen)
        assert old == [BLOCKS] * len(old)  # the old ones were in use all the while
        assert await vectors(node, homes.embedder.fingerprint) == {}
        kept = await vectors(node, new.fingerprint)
        assert len(kept) == BLOCKS
        expected = (await new.embed([fact(7)]))[0]
        best = (await node.recall(fact(7), k=1)).hits[0]
        assert best.text == fact(7)
        assert best.parts["sim"] == pytest.approx(1.0, abs=1e-3)
        row = node.ground.memory.row_named(best.block)
        assert node.ground.memory.matrix is not None
        vector = node.ground.memory.matrix.vector(row)
        assert vector is not None
        assert vector @ expected == pytest.approx(1.0, abs=1e-5)
        assert homes.embedder.texts == [fact(n) for n in range(BLOCKS)]
        await faultless(node)
        again = await node.reembed()
        assert (again.changed, again.embedded) == (False, 0)
        assert await vectors(node, new.fingerprint) == kept
    new.closed = False
    async with homes.open("alice") as node:
        assert await vectors(node, new.fingerprint) == kept
        assert (await node.recall(fact(7), k=1)).hits[0].text == fact(7)
        assert (await node.status()).vectors_by == "turned"
        await faultless(node)


async def test_a_run_that_stops_goes_on_where_it_was_and_the_old_vectors_are_whole_meanwhile(
    homes: Homes, changed: To
) -> None:
    """The service goes away after two batches; the next run, after a restart, embeds the rest only."""
    await filled(homes)
    new = changed()
    new.fail_after = 128
    async with homes.open("alice") as node:
        with pytest.raises(EmbedderError, match="gone"):
            await node.reembed()
        assert len(await vectors(node, homes.embedder.fingerprint)) == BLOCKS
        assert "128 blocks by turned" in (await node.status()).reembedding
        assert (await node.recall(fact(7), k=1)).hits[0].text == fact(7)
        await faultless(node)
    new.fail_after = 10**9
    async with homes.open("alice") as node:
        assert "128 blocks by turned" in (await node.status()).reembedding
        done = await node.reembed()
        assert (done.embedded, done.blocks) == (BLOCKS - 128, BLOCKS)
        assert (await node.status()).reembedding == ""
        assert sorted(new.texts) == sorted(fact(n) for n in range(BLOCKS))
        await faultless(node)


async def test_going_back_before_the_end_costs_nothing(homes: Homes, changed: To) -> None:
    """The old embedder named again: its vectors never left, and what lay aside goes with `reembed`."""
    await filled(homes)
    plain = homes.parts
    new = changed()
    new.fail_after = 64
    async with homes.open("alice") as node:
        with pytest.raises(EmbedderError):
            await node.reembed()
    homes.parts = plain  # type: ignore[method-assign]
    async with homes.open("alice") as node:
        assert not (await node.reembed()).changed
        assert (await node.status()).reembedding == ""
        assert len(await vectors(node, homes.embedder.fingerprint)) == BLOCKS
        assert len(homes.embedder.texts) == BLOCKS


async def test_a_third_embedder_does_not_take_over_what_the_second_left(homes: Homes, changed: To) -> None:
    """Same dimension again: what lies aside is checked by model, not by shape."""
    await filled(homes)
    changed().fail_after = 64
    async with homes.open("alice") as node:
        with pytest.raises(EmbedderError):
            await node.reembed()
    third = changed(Turned("third"))
    async with homes.open("alice") as node:
        done = await node.reembed()
        assert (done.embedded, done.embedder) == (BLOCKS, "third")
        assert len(await vectors(node, third.fingerprint)) == BLOCKS


async def test_what_is_learned_and_forgotten_meanwhile_is_in_neither_too_few_nor_too_many(
    homes: Homes, changed: To
) -> None:
    """A block learned during the run has its vector at the end; a forgotten one has none anywhere."""
    learned = await filled(homes)
    new = changed(Turned("wide", 64))
    async with homes.open("alice") as node:
        calls = 0

        async def embed(texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
            nonlocal calls
            calls += 1
            if calls == 2:
                await node.forget(learned[0])  # its new vector lies aside already
                await node.forget(learned[-1])
                await node.learn("Learned in the middle of it")
                await node.consolidate()
            return await Turned.embed(new, texts, query=query)

        new.embed = embed  # type: ignore[method-assign]
        done = await node.reembed()
        assert done.blocks == BLOCKS - 1
        assert len(await vectors(node, new.fingerprint)) == BLOCKS - 1
        assert (await node.recall("Learned in the middle of it", k=1)).hits[0].parts["sim"] > 0.9
        await faultless(node)


async def test_consolidation_that_was_on_its_way_at_the_change_mixes_nothing_in(
    homes: Homes, changed: To
) -> None:
    """A batch embedded by the old model that arrives after the change is dropped, and done again."""
    await filled(homes, 10)
    new = changed()
    async with homes.open("alice") as node:
        await node.learn("Late to the party")
        real = homes.embedder.embed

        async def late(texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
            found = await real(texts, query=query)
            if not query:
                await node.reembed()
                await node.forget((await node.learn("something else")).block)
            return found

        homes.embedder.embed = late  # type: ignore[method-assign]
        await node.consolidate()
        homes.embedder.embed = real  # type: ignore[method-assign]
        await node.consolidate()
        assert len(await vectors(node, new.fingerprint)) == 11
        assert await vectors(node, homes.embedder.fingerprint) == {}
        with pytest.raises(ValueError, match="another model"):
            node.ground.memory.use_vectors(homes.embedder.fingerprint)


async def test_where_the_former_model_is_gone_words_do_until_the_change_is_done(
    homes: Homes, changed: To
) -> None:
    """Recall answers; consolidation says what to do instead of mixing models; reembed then mends it."""
    await filled(homes)
    changed(former=False)
    async with homes.open("alice") as node:
        found = await node.recall(fact(7), k=1)
        assert found.hits[0].text == fact(7)
        assert found.hits[0].parts["sim"] < 0.6  # words, and the label that the question names
        await node.learn("Something new")
        with pytest.raises(Unavailable, match="not installed") as caught:
            await node.consolidate()
        assert "doctor reembed" in caught.value.hint
        assert (await node.reembed()).blocks == BLOCKS + 1
        assert (await node.recall(fact(7), k=1)).hits[0].parts["sim"] > 0.9


async def test_one_run_at_a_time(homes: Homes, changed: To) -> None:
    """A second one is told how to see how far the first is, and the first ends as it should."""
    await filled(homes, 70)
    new = changed()
    async with homes.open("alice") as node:
        told: list[str] = []

        async def embed(texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
            if not told:
                told.append((await node.status()).reembedding)
                with pytest.raises(Conflict, match="already"):
                    await node.reembed()
            return await Turned.embed(new, texts, query=query)

        new.embed = embed  # type: ignore[method-assign]
        assert (await node.reembed()).blocks == 70
        assert told == ["0 of 70 blocks by turned"]


async def test_a_home_without_vectors_has_nothing_to_change(homes: Homes, changed: To) -> None:
    """The first consolidation uses what the settings name."""
    async with homes.create("alice"):
        pass
    new = changed()
    async with homes.open("alice") as node:
        await node.learn(fact(0))
        assert not (await node.reembed()).changed
        await node.consolidate()
        assert len(await vectors(node, new.fingerprint)) == 1


async def test_damage_to_a_vector_that_lies_aside_is_found(homes: Homes, changed: To) -> None:
    """`replay --check` names the block; so does the run that would use it."""
    import sqlite3

    await filled(homes, 70)
    changed().fail_after = 64
    async with homes.open("alice") as node:
        with pytest.raises(EmbedderError):
            await node.reembed()
    with sqlite3.connect(homes.path("alice") / "memory.db") as database:
        database.execute("UPDATE staged SET body = (SELECT body FROM staged WHERE row = 2) WHERE row = 3")
    database.close()
    async with homes.open("alice") as node:
        checked = await node.replay(check=True)
        assert any("block row 3" in fault for fault in checked.faults)


async def test_a_killed_change_over_leaves_the_old_or_the_new(homes: Homes, changed: To) -> None:
    """The table changes its name in one transaction: a copy from before it has all of the old."""
    await filled(homes, 70)
    new = changed()
    async with homes.open("alice") as node:
        take_up = node.ground.store.take_up_staged

        async def killed() -> None:
            raise RuntimeError("killed")

        node.ground.store.take_up_staged = killed  # type: ignore[method-assign]
        with pytest.raises(RuntimeError, match="killed"):
            await node.reembed()
        assert len(await vectors(node, homes.embedder.fingerprint)) == 70
        node.ground.store.take_up_staged = take_up  # type: ignore[method-assign]
    store = await Store.open(homes.path("alice"), open_vault(homes.path("alice"), None, environ=ENVIRON))
    async with store:
        assert [count for _, _, count in await store.models()] == [70]
        assert await store.staged() == (encode_fingerprint(new.fingerprint), DIMENSION, 70)
    async with homes.open("alice") as node:
        done = await node.reembed()
        assert (done.embedded, done.blocks) == (0, 70)


def test_an_embedder_is_named_by_the_fingerprint_of_its_vectors() -> None:
    """The name that settings would have; nothing for a model that no name opens."""
    assert name_of(HashingEmbedder(64).fingerprint) == "hashing:64"
    assert names("hashing", HashingEmbedder().fingerprint)
    assert not names("hashing", HashingEmbedder(64).fingerprint)
    from loremesh.node.embed.minilm import FINGERPRINT

    assert name_of(FINGERPRINT) == "minilm"
    made = Fingerprint("openai:m", "https://host/v1/embeddings", 3)
    assert name_of(made) == "openai:m@https://host/v1"
    assert names("openai:m@https://host/v1/", made)
    assert name_of(Fingerprint("word2vec", "1", 3)) == ""


async def test_the_former_service_is_asked_and_another_hosts_key_is_not_shown_to_it() -> None:
    """The key in the settings is for the service the settings name."""
    async with service(lengths) as it:
        made = Fingerprint("openai:m", f"{it.url}/embeddings", 2)
        for named, shown in ((f"openai:n@{it.url}", True), ("openai:n@https://other.example/v1", False)):
            former = await open_former(made, named, {"OPENAI_API_KEY": "sk-mine"})
            assert former.fingerprint == made
            await former.embed(["text"])
            await former.close()
            assert ("authorization" in it.requests[-1].headers) is shown
    with pytest.raises(EmbedderError, match="word2vec"):
        await open_former(Fingerprint("word2vec", "1", 3), "minilm", {})


def test_counting_stands_for_hashing() -> None:
    """The tests' embedder has the fingerprint that the built-in one has: the names above mean it."""
    assert CountingEmbedder().fingerprint == HashingEmbedder(DIMENSION).fingerprint


async def test_an_embedder_that_is_asked_while_another_comes_into_use_answers_first(
    homes: Homes, changed: To
) -> None:
    """A recall under way is answered, not broken off, and only then is the model before let go."""
    await filled(homes, 3)
    former, asked, go_on = Turned("former"), asyncio.Event(), asyncio.Event()
    inner = homes.embedder

    async def embed(texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
        if query:
            asked.set()
            await go_on.wait()
        assert not former.closed
        return await inner.embed(texts, query=query)

    former.fingerprint = inner.fingerprint
    former.embed = embed  # type: ignore[method-assign]
    homes.embedder = former  # type: ignore[assignment]
    changed()
    async with homes.open("alice") as node:
        recall = asyncio.create_task(node.recall(fact(1)))
        await asked.wait()
        assert (await node.reembed()).changed
        assert not former.closed
        go_on.set()
        assert (await recall).hits
        assert former.closed
