"""What recall finds alike in a whole node: words, what they carry over, labels; nothing of it by peers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from loremesh.node.node import Node
from loremesh.node.order import CARRIED
from loremesh.node.score import DENSE_SHARE, LABEL_LIFT
from tests.node.guests import Guest, take
from tests.node.homes import Homes, faultless

QUESTION = "Which indexer broke?"
ASKED = "Grace: which indexer broke?"
ANSWER = "Ada: number seven, after lunch"
ELSEWHERE = "Ada: nothing at all"


@pytest.fixture
def homes(tmp_path: Path) -> Homes:
    return Homes(tmp_path)


@pytest.fixture
async def node(homes: Homes) -> AsyncIterator[Node]:
    async with homes.create("alice") as node:
        yield node
        await faultless(node)


async def sims(node: Node, question: str = QUESTION) -> dict[str, float]:
    """`sim` by text; no block has a vector, so it is the words' alone."""
    return {hit.text: hit.parts["sim"] for hit in (await node.recall(question, k=20)).hits}


async def test_an_answer_is_found_by_the_words_of_the_question_learned_before_it(node: Node) -> None:
    await node.learn(ELSEWHERE)
    await node.learn(ASKED)
    await node.learn(ANSWER)
    found = await sims(node)
    words = 1.0 - DENSE_SHARE
    assert found == pytest.approx({ASKED: words, ANSWER: words * CARRIED, ELSEWHERE: 0.0}, rel=1e-6)


async def test_what_is_learned_after_a_pause_is_no_answer(homes: Homes, node: Node) -> None:
    await node.learn(ASKED)
    homes.pass_minutes(120)
    await node.learn(ANSWER)
    assert (await sims(node))[ANSWER] == 0.0


async def test_similarity_is_the_same_after_a_restart_with_and_without_a_checkpoint(homes: Homes) -> None:
    async with homes.create("bob") as node:
        await node.learn_many([ELSEWHERE, ASKED, ANSWER])
        before = await sims(node)
    async with homes.open("bob") as node:
        assert await sims(node) == before
    for checkpoint in homes.path("bob").glob("*checkpoint*"):
        checkpoint.unlink()
    async with homes.open("bob") as node:
        assert await sims(node) == before
        await faultless(node)


async def test_a_forgotten_question_passes_nothing_on(node: Node) -> None:
    asked = await node.learn(ASKED)
    await node.learn(ANSWER)
    await node.forget(asked.block)
    assert await sims(node) == {ANSWER: 0.0}


async def test_a_peers_texts_pass_nothing_on_and_come_between_no_two_of_ours(node: Node) -> None:
    guest = Guest("mallory", (await node.space_create("open", member_trust=1.0)).token)
    await take(node, guest.admitted())
    await node.learn(ASKED)
    await take(node, guest.blocks("Mallory: which indexer broke?", "Mallory: yours"))
    await node.learn(ANSWER)
    found = await sims(node)
    assert found["Mallory: yours"] == 0.0
    assert found[ANSWER] == pytest.approx(found[ASKED] * CARRIED, rel=1e-6)


async def test_a_block_whose_label_is_named_is_lifted(node: Node) -> None:
    await node.learn_many(["Ada: it rains", "Grace: it rains"])
    found = await sims(node, "rains, Ada?")
    assert found["Ada: it rains"] == pytest.approx(1.0 - DENSE_SHARE * (1.0 - LABEL_LIFT), rel=1e-6)
    assert found["Grace: it rains"] < found["Ada: it rains"] - LABEL_LIFT * DENSE_SHARE
