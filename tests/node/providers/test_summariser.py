"""What counts as a summary, and a home that a model summarises: failures leave groups without one."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from loremesh.node.compose import real_parts
from loremesh.node.errors import UsageError
from loremesh.node.extract import Extractive
from loremesh.node.parts import Parts
from loremesh.node.providers.budget import Budget
from loremesh.node.providers.chat import Chat
from loremesh.node.providers.http import Endpoint, Timeouts
from loremesh.node.providers.summariser import GIVEN_CHARACTERS, ChatSummariser, parsed
from loremesh.node.settings import Settings, SummariserSettings
from tests.node.embed_service import Answer, Reply, Request, Service, says, service, talks
from tests.node.homes import faultless
from tests.node.tier_homes import INDEXER, QUOTA, TierHomes, stored_texts, summaries

KEY = "sk-test-0123456789-do-not-show"


@pytest.mark.parametrize(
    ("said", "summary"),
    [
        ('{"summary": "Restart the indexer."}', "Restart the indexer."),
        (' {"why": "x", "summary": " Restart it. "}\n', "Restart it."),
        ('```json\n{"summary": "Restart it."}\n```', "Restart it."),
        ('<think>{"summary": "no"}</think>{"summary": "yes"}', "yes"),
        ('{"summary": ""}', None),
        ('{"summary": "  "}', None),
        ('{"summary": null}', None),
        ('{"summary": ["a"]}', None),
        ('{"text": "a"}', None),
        ('{"summary": "a"} and more', None),
        ("I cannot summarise this.", None),
        ("", None),
        ('"Restart it."', None),
    ],
)
def test_an_answer_is_the_form_asked_for_or_none(said: str, summary: str | None) -> None:
    """Prose, a refusal, another type, or more than one object is no summary."""
    assert parsed(said) == summary


class ModelHomes(TierHomes):
    """Homes whose groups a model summarises."""

    def __init__(self, root: Path, it: Service, calls: int = 1_000) -> None:
        super().__init__(root)
        self._it, self._calls = it, calls

    def parts(self, name: str) -> Parts:
        budget = Budget(self._calls, 10_000_000, lambda: self.now_ms)
        chat = Chat(
            Endpoint(self._it.url, "m", "K"),
            {"K": KEY},
            budget,
            kind="summariser",
            timeouts=Timeouts(read_s=2.0, whole_s=4.0),
        )
        return msgspec.structs.replace(super().parts(name), summariser=ChatSummariser(chat), budget=budget)


def asked(request: Request) -> list[str]:
    """The texts that a question holds."""
    message = msgspec.json.decode(request.body)["messages"][-1]
    assert message["role"] == "user"
    texts = msgspec.json.decode(message["content"])
    assert isinstance(texts, list)
    return texts


def answers(request: Request) -> Answer:
    """A model that says what a group is about."""
    about = "indexer" if "indexer" in asked(request)[0] else "quota"
    return talks(f'{{"summary": "All about the {about}."}}')(request)


async def test_summaries_come_from_the_model_with_its_name_a_group_at_a_time(tmp_path: Path) -> None:
    """Each question holds one group's texts; the event names model, host and prompt."""
    async with service(answers) as it, ModelHomes(tmp_path, it).create("home") as node:
        await node.learn_many([*INDEXER, *QUOTA])
        await node.consolidate()
        done = await node.summarise()
        assert (done.written, done.failed, done.summaries) == (2, 0, 2)
        assert done.summariser == f"openai:m@{it.url.split('/')[2]} summary 1"
        texts = [text for text in await stored_texts(node) if text.startswith("All about")]
        assert {*texts} == {"All about the indexer.", "All about the quota."}
        assert all(set(asked(request)) in ({*INDEXER}, {*QUOTA}) for request in it.requests)
        found = await node.recall("how is the indexer restarted?", budget_tokens=60)
        assert {one.summariser for one in found.above} <= {done.summariser}
        await faultless(node)


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (says(401, f"bad key {KEY}"), "status 401"),
        (says(400, " " * 785 + KEY), "status 400"),
        (talks("I would rather not."), "no summary"),
        (talks('{"summary": "' + "word " * 2_000 + '"}'), "no summary"),
    ],
    ids=["refused", "refused with half a key", "prose", "endless"],
)
async def test_a_service_that_fails_leaves_groups_without_a_summary_and_says_why(
    tmp_path: Path, reply: Reply, why: str
) -> None:
    """Nothing takes its place, no key is shown; the next run asks again and goes on."""
    async with service(reply) as it, ModelHomes(tmp_path, it).create("home") as node:
        await node.learn_many([*INDEXER, *QUOTA])
        await node.consolidate()
        done = await node.summarise()
        assert (done.written, done.failed, done.summaries) == (0, 2, 0)
        assert why in done.trouble
        assert KEY[:7] not in done.trouble
        it.replies = [answers]
        again = await node.summarise()
        assert (again.written, again.failed, again.trouble) == (2, 0, "")
        assert sorted(map(len, summaries(node.ground).values())) == [3, 5]
        await faultless(node)


async def test_a_spent_budget_stops_the_run_and_is_said(tmp_path: Path) -> None:
    """One call an hour: the first group is done, the other is left and told, after a restart as well."""
    async with service(answers) as it:
        homes = ModelHomes(tmp_path, it, calls=1)
        async with homes.create("home", "[tiers]\nthreshold = 0.5\nabstract_from = 99\n") as node:
            await node.learn_many([*INDEXER, *QUOTA])
            await node.consolidate()
            done = await node.summarise()
            assert (done.written, done.failed) == (1, 1)
            assert "budget" in done.trouble
        async with homes.open("home") as node:
            done = await node.summarise()
            assert (done.written, done.failed) == (0, 1)
            assert "budget" in done.trouble


async def test_texts_that_a_service_does_not_take_are_not_sent_again(tmp_path: Path) -> None:
    """By a node that is up: the others have their summary, and what was refused waits to be asked for."""

    def picky(request: Request) -> Answer:
        return (says(422, "no") if "indexer" in asked(request)[0] else answers)(request)

    async with service(picky) as it, ModelHomes(tmp_path, it).create("home") as node:
        await node.learn_many([*INDEXER, *QUOTA])
        await node.consolidate()
        for _ in range(2):
            assert "status 422" in await node._summarising.run_if_due()
            await node.learn(f"What else is new {node.ground.memory.length}")
            await node.consolidate()
        assert len(summaries(node.ground)) == 1
        assert sum("indexer" in asked(request)[0] for request in it.requests) == 1


async def test_a_long_group_is_sent_its_even_share(tmp_path: Path) -> None:
    """Whatever the texts' length, a question stays within its bound, and every text has a part in it."""
    async with service(answers) as it:
        chat = Chat(
            Endpoint(it.url, "m", "K"), {"K": KEY}, Budget(9, 9_000_000, lambda: 0), kind="summariser"
        )
        summariser = ChatSummariser(chat)
        texts = [f"indexer {name} " + "x" * 60_000 for name in "abcd"]
        assert await summariser.summarise(texts, 40) == "All about the indexer."
        await summariser.close()
        (request,) = it.requests
        assert [len(text) for text in asked(request)] == [GIVEN_CHARACTERS // 4] * 4


def test_settings_name_the_summariser() -> None:
    """The built-in one unless another is named; a name that is none is refused with those there are."""
    assert isinstance(real_parts(Settings(), {}).summariser, Extractive)
    named = Settings(summariser=SummariserSettings("openai:m@http://127.0.0.1:1/v1"))
    assert real_parts(named, {}).summariser.name == "openai:m@127.0.0.1:1 summary 1"
    with pytest.raises(UsageError, match=r"\[summariser\] name 'magic'"):
        real_parts(Settings(summariser=SummariserSettings("magic")), {})
