"""A chat model behind a real HTTP server: answers, deadlines, retries, budget, and the key never shown."""

import msgspec
import pytest

from loremesh.node.errors import NodeError, UsageError
from loremesh.node.providers.budget import Budget, BudgetSpent
from loremesh.node.providers.chat import MAX_PROMPT_CHARACTERS, MAX_REPLY_BYTES, Chat
from loremesh.node.providers.http import DEFAULT_TIMEOUTS, Endpoint, ServiceError, Timeouts
from loremesh.node.providers.registry import open_chat, open_rater
from loremesh.node.rate import SpecificityRater
from tests.node.embed_service import Answer, Reply, Request, Service, says, service, silence, talks

KEY = "sk-test-0123456789-do-not-show"
ENVIRON = {"OPENAI_API_KEY": KEY}
SECRET = "the vault's code is 7410"


class Pauses:
    """Stands in for sleeping, so that retries take no time."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)


def chat_at(
    it: Service,
    pauses: Pauses | None = None,
    budget: Budget | None = None,
    timeouts: Timeouts = DEFAULT_TIMEOUTS,
) -> Chat:
    return Chat(
        Endpoint(it.url, "m"),
        ENVIRON,
        budget or Budget(100, 1_000_000, lambda: 0),
        timeouts=timeouts,
        sleep=pauses or Pauses(),
    )


async def failure(
    *replies: Reply, timeouts: Timeouts = DEFAULT_TIMEOUTS
) -> tuple[ServiceError, Service, Pauses]:
    """Asks a service with these replies; the error, what was asked, and the pauses taken."""
    pauses = Pauses()
    async with service(*replies) as it:
        chat = chat_at(it, pauses, timeouts=timeouts)
        with pytest.raises(ServiceError) as caught:
            await chat.complete(SECRET, 20)
        await chat.close()
    for shown in (str(caught.value), caught.value.hint, repr(caught.value), repr(caught.value.__cause__)):
        assert KEY not in shown
        assert SECRET not in shown
    assert it.url in str(caught.value)
    assert caught.value.hint
    return caught.value, it, pauses


def body_of(request: Request) -> dict[str, object]:
    found: dict[str, object] = msgspec.json.decode(request.body)
    return found


async def test_a_question_goes_out_with_its_limit_and_the_answer_comes_back() -> None:
    """One user message behind one system message, at temperature 0, and what the service says it took."""
    async with service(talks("Because the index was stale.", tokens=31)) as it:
        chat = chat_at(it)
        found = await chat.complete("Why?", 20, system="Be brief.")
        await chat.close()
    assert (found.text, found.cut, found.tokens) == ("Because the index was stale.", False, 31)
    request = it.requests[0]
    assert request.line == "POST /v1/chat/completions HTTP/1.1"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert body_of(request) == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}],
        "max_tokens": 20,
        "temperature": 0,
        "stream": False,
    }


async def test_an_answer_cut_off_at_the_limit_says_so() -> None:
    """finish_reason "length" is told, and so is an answer without content: an empty one."""
    async with service(talks("and then", finish="length"), talks(None)) as it:
        chat = chat_at(it)
        assert (await chat.complete("q", 5)).cut
        assert (await chat.complete("q", 5)).text == ""
        await chat.close()


async def test_a_pause_that_the_service_asks_for_is_kept_and_a_long_one_is_an_error() -> None:
    """Retry-After of 3 s is waited for; of an hour it is the caller's to wait."""
    pauses = Pauses()
    async with service(says(429, headers={"Retry-After": "3"}), talks("yes")) as it:
        chat = chat_at(it, pauses)
        assert (await chat.complete("q", 5)).text == "yes"
        await chat.close()
    assert pauses.taken == [3.0]
    error, it, pauses = await failure(says(429, "slow down", headers={"Retry-After": "3600"}))
    assert (error.status, len(it.requests), pauses.taken) == (429, 1, [])


async def test_faults_of_the_service_are_tried_a_few_times_with_growing_pauses() -> None:
    """Four attempts in all, then the error names the status."""
    error, it, pauses = await failure(says(500, "cuda out of memory"))
    assert "status 500: cuda out of memory" in str(error)
    assert (len(it.requests), pauses.taken) == (4, [0.5, 1.0, 2.0])


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (says(401, f"Incorrect key {KEY}"), "Incorrect key [key]"),
        (says(404, "no model m"), "no model m"),
        (says(302, headers={"Location": "https://example.org/"}), "status 302"),
        (says(200, "<html>"), "not what a chat service sends"),
        (says(200, '{"choices": []}'), "holds no answer"),
        (says(200, '{"choices": [{"message": {"content": ["a"]}}]}'), "not what a chat service sends"),
        (says(200, "[" * 100_000), "not what a chat service sends"),
        (says(200, "x" * (MAX_REPLY_BYTES + 1)), f"more than {MAX_REPLY_BYTES} bytes"),
    ],
)
async def test_an_answer_that_cannot_be_used_is_an_error_at_once(reply: Reply, said: str) -> None:
    """Refusals, other interfaces, garbage and what never ends are reported, not tried again."""
    error, it, _ = await failure(reply)
    assert said in str(error)
    assert len(it.requests) == 1


async def test_a_packed_answer_is_not_unpacked() -> None:
    """A few bytes of gzip could be a gigabyte: nothing packed is asked for, and none is taken."""
    import gzip

    packed = gzip.compress(b" " * 10_000_000)
    error, it, _ = await failure(lambda _: Answer(body=packed, headers={"Content-Encoding": "gzip"}))
    assert "not what a chat service sends" in str(error)
    assert it.requests[0].headers["accept-encoding"] == "identity"


async def test_a_service_that_never_answers_is_given_up() -> None:
    """Each of the attempts ends at its deadline."""
    error, it, _ = await failure(silence, timeouts=Timeouts(read_s=0.05))
    assert "no answer in time" in str(error)
    assert len(it.requests) == 4


async def test_a_service_that_drips_is_given_up_although_every_read_is_quick() -> None:
    """The deadline is for the whole attempt: bytes that trickle in do not move it."""
    drip = lambda _: Answer(body=b" " * 100_000, drip=True)  # noqa: E731
    error, it, _ = await failure(drip, timeouts=Timeouts(read_s=5.0, whole_s=0.2))
    assert "no whole answer within 0.2 s" in str(error)
    assert len(it.requests) == 1


async def test_a_service_that_knows_other_fields_is_asked_with_those_from_then_on() -> None:
    """Newer models refuse max_tokens and a temperature; each gives way once, and stays so."""

    def picky(request: Request) -> Answer:
        body = body_of(request)
        if "max_tokens" in body:
            return Answer(400, b"Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
        if "temperature" in body:
            return Answer(400, b"Unsupported value: 'temperature' does not support 0")
        return talks("fine")(request)

    async with service(picky) as it:
        chat = chat_at(it)
        assert (await chat.complete("q", 5)).text == "fine"
        assert (await chat.complete("q", 5)).text == "fine"
        await chat.close()
    assert len(it.requests) == 4
    assert body_of(it.requests[-1])["max_completion_tokens"] == 5


async def test_the_same_refusal_again_is_an_error() -> None:
    """Fields give way once each: a service that always complains is not asked for ever."""
    error, it, _ = await failure(says(400, "max_completion_tokens and temperature are not known"))
    assert error.status == 400
    assert len(it.requests) == 3


async def test_calls_are_counted_with_their_retries_and_tokens_as_the_service_says() -> None:
    """Three attempts are three calls; what was refused with a status took no tokens."""
    budget = Budget(3, 10_000, lambda: 0)
    async with service(says(503), says(503), talks("yes", tokens=77)) as it:
        chat = chat_at(it, budget=budget)
        assert (await chat.complete("q", 5)).text == "yes"
        assert budget.spent().tokens == {0: 77}
        with pytest.raises(BudgetSpent, match="3 calls an hour is used up"):
            await chat.complete("q", 5)
        await chat.close()
    assert len(it.requests) == 3


async def test_tokens_are_reserved_before_asking_and_kept_where_the_service_says_nothing() -> None:
    """A question that does not fit the day's rest is not sent; without a usage the guess counts."""
    budget = Budget(100, 150, lambda: 0)
    async with service(talks("yes", tokens=None)) as it:
        chat = chat_at(it, budget=budget)
        await chat.complete("x" * 30, 90)
        assert budget.spent().tokens == {0: 100}
        with pytest.raises(BudgetSpent, match="150 tokens a day"):
            await chat.complete("x" * 30, 90)
        await chat.close()
    assert len(it.requests) == 1


@pytest.mark.parametrize(
    ("prompt", "tokens"), [("x" * (MAX_PROMPT_CHARACTERS + 1), 5), ("q", 0), ("q", 10**9), ("\ud800", 5)]
)
async def test_a_question_out_of_bounds_is_refused_before_it_is_sent(prompt: str, tokens: int) -> None:
    """Too long, without room for an answer, or no UTF-8: nothing goes out and nothing is counted."""
    budget = Budget(100, 10_000_000, lambda: 0)
    async with service(talks("yes")) as it:
        chat = chat_at(it, budget=budget)
        with pytest.raises(UsageError):
            await chat.complete(prompt, tokens)
        await chat.close()
    assert it.requests == []
    assert budget.spent().calls == {}


@pytest.mark.parametrize(
    "name",
    [
        "",
        "gpt",
        "openai",
        "openai:m",
        "openai:@http://host/v1",
        "openai:m@",
        "openai:m@ftp://host/v1",
        "openai:m@https://me:secret@host/v1",
        "openai:m@https://host/v1?key=secret",
        f"openai:{'m' * 101}@https://host/v1",
        "openai:a\nb@https://host/v1",
    ],
)
async def test_a_raters_name_that_cannot_be_right_is_an_error_with_the_form_to_use(name: str) -> None:
    """Before anything is asked; what could be a password in a URL is not repeated."""
    with pytest.raises(UsageError) as caught:
        open_rater(name, {}, Budget(1, 1, lambda: 0))
    assert caught.value.hint
    assert "secret" not in str(caught.value)


async def test_raters_are_opened_by_name() -> None:
    """The built-in one, none, and a model whose name in events is model, host and prompt."""
    budget = Budget(1, 1, lambda: 0)
    assert isinstance(open_rater("specificity", {}, budget), SpecificityRater)
    assert open_rater("none", {}, budget) is None
    named = open_rater("openai:qwen/3b@http://127.0.0.1:9/v1", {}, budget)
    assert named is not None
    assert named.name == "openai:qwen/3b@127.0.0.1:9 prompt 1"
    await named.close()


async def test_a_key_is_never_sent_in_the_clear_to_another_machine() -> None:
    """Plain http is for this machine, or for a service without a key."""
    with pytest.raises(NodeError, match="OPENAI_API_KEY") as caught:
        open_chat("openai:m@http://models.example.org/v1", ENVIRON, Budget(1, 1, lambda: 0), kind="rater")
    assert KEY not in str(caught.value)
