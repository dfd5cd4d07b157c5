"""Recall within a budget of tokens on LoCoMo, with summaries and without (node/MEMORY.md, "Summaries").

Through the public API: a home per conversation, which learned its turns in order, each session by itself, was
consolidated and summarised. Every question of categories 1 to 4 with evidence is asked with a budget of
tokens, in homes that give summaries no share of it (plain recall, cut off by tokens), a tenth and a quarter.

R is the mean share of a question's evidence turns among all blocks handed out, R@10 among the first ten;
"said" is the mean share of the answer's content words, less the question's own, that stand in what was handed
out, summaries included; "above" is how many summaries and abstracts that was.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from loremesh.node.analysis import Analyzer
from loremesh.node.node import Node
from loremesh.node.results import Recalled
from loremesh.sync.content import block_id
from tests.bench.figures import Figure, Report
from tests.bench.homes import PASSPHRASE
from tests.bench.locomo import DATA, Conversation, read

BUDGETS: Final = (500, 1_000, 2_000)
SHARES: Final = (0.0, 0.1, 0.25)
SESSION_H: Final = 1.0


class Score(msgspec.Struct):
    """What was found, by question."""

    recall: list[float] = msgspec.field(default_factory=list)
    first_ten: list[float] = msgspec.field(default_factory=list)
    said: list[float] = msgspec.field(default_factory=list)
    tokens: list[int] = msgspec.field(default_factory=list)
    above: list[int] = msgspec.field(default_factory=list)

    def take(
        self, found: Recalled, evidence: frozenset[str], answer: frozenset[str], words: Analyzer
    ) -> None:
        """Counts one answer; a question whose answer has no words of its own is not in `said`."""
        handed_out = [hit.block for hit in found.hits]
        self.recall.append(len(evidence.intersection(handed_out)) / len(evidence))
        self.first_ten.append(len(evidence.intersection(handed_out[:10])) / len(evidence))
        if answer:
            texts = [hit.text for hit in found.hits] + [one.text for one in found.above]
            there = {word for text in texts for word in words.content_words(text)}
            self.said.append(len(answer & there) / len(answer))
        self.tokens.append(found.tokens)
        self.above.append(len(found.above))

    def __str__(self) -> str:
        columns = (self.recall, self.first_ten, self.said)
        found = "   ".join(f"{np.mean(column):.3f}" for column in columns)
        return f"{found}   {np.mean(self.tokens):.0f} tokens, {np.mean(self.above):.1f} above"


async def live(home: Path, conversation: Conversation) -> tuple[str, float]:
    """A home that learned the turns and summarised them: what came of it, and the seconds that took."""
    async with Node.create(home, passphrase=PASSPHRASE) as node:
        for session in sorted(set(conversation.sessions)):
            node.ground.go_on_from((session + 1) * SESSION_H)
            pairs = zip(conversation.turns, conversation.sessions, strict=True)
            await node.learn_many([turn for turn, of in pairs if of == session])
        await node.consolidate()
        started = time.process_time()
        done = await node.summarise()
        assert not done.failed, done.trouble
        took_s = time.process_time() - started
        return f"{done.summaries}/{done.abstracts}", took_s


async def ask(
    home: Path, conversation: Conversation, answers: dict[str, str], share: float, scores: dict[int, Score]
) -> None:
    """Ask every question with every budget, summaries having this share of it."""
    (home / "config.toml").write_text(f"[tiers]\nshare = {share}\n[memory]\ndiversity = 0.0\n")
    words = Analyzer()
    async with Node.open(home, passphrase=PASSPHRASE) as node:
        for question in conversation.questions:
            evidence = frozenset(block_id(conversation.turns[at]).hex() for at in question.evidence)
            own = words.content_words(question.text)
            answer = frozenset(words.content_words(answers[question.text])).difference(own)
            for budget, score in scores.items():
                found = await node.recall(question.text, budget_tokens=budget)
                score.take(found, evidence, answer, words)


async def measure(scratch: Path) -> Report:
    """R, R@10 and words of the answer by budget and share; without the data set a figure says so."""
    title, how = "Recall within a budget of tokens", " ".join((__doc__ or "").split())
    if not DATA.exists():
        return Report(title, how, [Figure("skipped", f"there is no {DATA.name}")])
    scores = {share: {budget: Score() for budget in BUDGETS} for share in SHARES}
    samples = json.loads(DATA.read_text(encoding="utf-8"))
    made, took_s = [], 0.0
    for number, (conversation, sample) in enumerate(zip(read(), samples, strict=True)):
        home = scratch / f"conversation-{number}"
        answers = {asked["question"]: str(asked.get("answer", "")) for asked in sample["qa"]}
        counts, seconds = await live(home, conversation)
        made.append(counts)
        took_s += seconds
        for share in SHARES:
            await ask(home, conversation, answers, share, scores[share])
    figures = [
        Figure("summaries/abstracts by conversation", ", ".join(made)),
        Figure("CPU seconds to summarise all of them", f"{took_s:.1f}"),
    ]
    figures += [
        Figure(f"{budget} tokens, share {share:g}: R, R@10, said", str(scores[share][budget]))
        for budget in BUDGETS
        for share in SHARES
    ]
    return Report(title, how, figures)
