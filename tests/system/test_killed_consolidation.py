"""Consolidation by the real program, with services over HTTP: killed half-way, and gone on with."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.node.doors.program import PROGRAM, TIMEOUT_S, Program, made
from tests.node.embed_service import Answer, Request, Service, service, silence, talks
from tests.node.homes import fact

BLOCKS = 200
PROBE = "dimension"
"""What the embedder asks with, once, to see how long its vectors are."""
BATCH = 64
"""As consolidation has it: what is done is kept after so many."""


class Services:
    """An embedder and a rater at one address; they fall silent for good once `ratings_left` are given."""

    def __init__(self) -> None:
        self.ratings_left = 10**9
        self.embedded: list[str] = []
        self.rated: list[str] = []
        self.stuck = asyncio.Event()

    def answer(self, request: Request) -> Answer:
        if "/embeddings" in request.line:
            texts = request.texts()
            self.embedded += [text for text in texts if text != PROBE]
            data = [
                {"index": n, "embedding": [1.0, float(len(text)), float(sum(map(ord, text)) % 97)]}
                for n, text in enumerate(texts)
            ]
            return Answer(body=msgspec.json.encode({"data": data}))
        if self.ratings_left <= 0:
            self.stuck.set()
            return silence(request)
        self.ratings_left -= 1
        said = request.body.decode()
        self.rated += [text for text in map(fact, range(BLOCKS + 1)) if text in said]
        return talks("0.75")(request)

    def forget(self) -> None:
        """Count from here on."""
        self.embedded.clear()
        self.rated.clear()


def configured(program: Program, url: str) -> None:
    (program.home / "config.toml").write_text(
        f'[embedder]\nname = "openai:m@{url}"\n[rater]\nname = "openai:m@{url}"\n'
    )


async def ask(program: Program, *arguments: str) -> Any:
    """One command with --json, beside the services that run in this process."""
    return await asyncio.to_thread(program.ask, *arguments)


def watched(program: Program, *arguments: str) -> str:
    """What a command shows on a terminal while it works; it has to succeed."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [PROGRAM, "--home", str(program.home), *arguments],
        env={**program.environ, "TERM": "xterm", "COLUMNS": "80"},
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 65_536):
                shown += piece
        except OSError:
            pass  # the other end is closed: the program has ended
        finally:
            os.close(ours)
        assert process.wait(TIMEOUT_S) == 0, shown
    return shown.decode("utf-8", "replace")


async def killed_at(program: Program, stuck: asyncio.Event) -> None:
    """Consolidate until the service falls silent, and then SIGKILL."""
    process = program.start("--json", "consolidate")
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await stuck.wait()
        assert process.poll() is None
    finally:
        process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(process.communicate)
    assert process.returncode == -signal.SIGKILL


@pytest.mark.slow
async def test_fault_34_a_killed_consolidation_goes_on_where_it_was(tmp_path: Path) -> None:
    """Of 200 blocks, 128 are embedded and 64 rated when the program is killed: the next run does the rest,
    shows its progress, and every block has one rating. One new block embeds one text and rates one.
    """
    services = Services()
    program = await asyncio.to_thread(made, tmp_path)
    lines = tmp_path / "lines"
    lines.write_text("\n".join(map(fact, range(BLOCKS))))
    running: Service
    async with service(services.answer) as running:
        configured(program, running.url)
        learned = await ask(program, "learn", "--lines", str(lines))
        services.ratings_left = BATCH + BATCH // 2
        await killed_at(program, services.stuck)
        assert len(services.embedded) == 2 * BATCH
        before = set(services.embedded)
        status = await ask(program, "status")
        assert (status["held"], status["embedded"], status["waiting"]) == (BLOCKS, 2 * BATCH, BLOCKS - BATCH)

        services.forget()
        services.ratings_left = 10**9
        shown = await asyncio.to_thread(watched, program, "consolidate")
        assert "consolidating" in shown
        assert f"/{BLOCKS - BATCH}" in shown
        assert len(services.embedded) == BLOCKS - 2 * BATCH
        assert not before.intersection(services.embedded)
        assert len(set(services.rated)) == len(services.rated) == BLOCKS - BATCH
        status = await ask(program, "status")
        assert (status["embedded"], status["waiting"]) == (BLOCKS, 0)
        for one in learned[:: BLOCKS // 3]:
            explained = await ask(program, "explain", one["block"])
            assert (explained["alpha"], explained["beta"]) == (0.5 + 0.375, 0.5 + 0.125)
        assert (await ask(program, "replay", "--check"))["ok"]

        services.forget()
        await ask(program, "learn", fact(BLOCKS))
        done = await ask(program, "consolidate")
        assert (done["embedded"], done["rated"], done["waiting"]) == (1, 1, 0)
        assert (services.embedded, services.rated) == ([fact(BLOCKS)], [fact(BLOCKS)])
