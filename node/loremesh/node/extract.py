"""Summaries without a model: the sentences that say most of what several of the texts say, word for word.

Every term weighs as much as texts have it, so that what they have in common comes first; the words of labels
("Ada: …") weigh nothing. A sentence is worth the weight of its terms that no chosen one has yet. The sentence
of most worth per token is taken next, as long as one fits: greedy maximum coverage under a budget (Khuller,
Moss and Naor 1999; with terms as concepts, Gillick and Favre 2009). Equal worths go by the texts' order. What
is chosen is told in that order, each sentence whole and as its block has it in normal form; one from the
middle of a labelled text is told with the label.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from loremesh.node.analysis import Analyzer
from loremesh.node.lexical import label_of
from loremesh.sync.content import normalise

BYTES_PER_TOKEN: Final = 4
"""A token is counted as four bytes of UTF-8: about what tokenizers of language models take for English; other
scripts, which take more, are counted with more.
"""

SENTENCE_TOKENS: Final = 8
"""What a sentence costs besides its own length: without it, "Wow!" and "Good to see you!" come first."""

MAX_SENTENCES: Final = 2_000
"""Sentences looked at, the first ones: 32 texts of 64 KiB would have tens of thousands."""

_END: Final = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+(?=\S)|(?<=[。！？])(?=\S)|\n+")

_OPEN: Final = re.compile(r"[^.!?…。！？:;\"'”’)\]][\"'”’)\]]*$")


class _Sentence(msgspec.Struct, frozen=True):
    """One sentence as it would be told; `text` is the number of the text it is from."""

    said: str
    text: int
    terms: frozenset[str]
    tokens: int


def tokens(text: str) -> int:
    """How many tokens a text counts as: a quarter of its bytes in UTF-8, rounded up, one at least.

    >>> tokens("ok"), tokens("Restart the indexer."), tokens("重启索引器")
    (1, 5, 4)
    """
    return max(1, -(-len(text.encode("utf-8")) // BYTES_PER_TOKEN))


def sentences(text: str) -> list[str]:
    """The sentences of a text in normal form, in order, none empty.

    >>> sentences("Stop the job. Then wait!\\nWhy?")
    ['Stop the job.', 'Then wait!', 'Why?']
    """
    found: list[str] = []
    at = 0
    for end in _END.finditer(text):
        found.append(text[at : end.end()])
        at = end.end()
    found.append(text[at:])
    return [one for one in map(normalise, found) if one]


class Extractive:
    """The summariser that every home has: offline, the same for the same texts, nothing of its own words."""

    name: Final = "extractive"

    async def summarise(self, texts: Sequence[str], budget: int) -> str | None:
        """At most `budget` tokens; None where no sentence fits. See `ports.Summariser`."""
        return extract(texts, budget)

    async def close(self) -> None:
        """Nothing is held."""


def extract(texts: Sequence[str], budget: int) -> str | None:
    """The sentences chosen from the texts, at most `budget` tokens in all; None where none fits."""
    analyzer = Analyzer()
    all_ = _sentences(texts, analyzer)
    by_text: dict[int, set[str]] = {}
    for one in all_:
        by_text.setdefault(one.text, set()).update(one.terms)
    texts_with = Counter(term for terms in by_text.values() for term in terms)
    labels = {term for text in texts for term in analyzer.content_words(label_of(normalise(text)))}
    weight = {term: 0 if term in labels else count for term, count in texts_with.items()}
    chosen: list[int] = []
    covered: set[str] = set()
    left = budget
    while True:
        best, worth = -1, 0.0
        for at, one in enumerate(all_):
            if one.tokens + (1 if chosen else 0) > left or at in chosen:
                continue
            gained = sum(weight[term] for term in one.terms if term not in covered)
            gain = gained / (one.tokens + SENTENCE_TOKENS)
            if gain > worth:
                best, worth = at, gain
        if best < 0:
            break
        chosen.append(best)
        covered |= all_[best].terms
        left -= all_[best].tokens + (1 if len(chosen) > 1 else 0)
    return _joined([all_[at].said for at in sorted(chosen)]) or None


def _joined(said: Sequence[str]) -> str:
    """The sentences one after another; behind one without an end mark stands a semicolon.

    >>> _joined(["Stop the job (now.)", "Purge the cache", "Wait"])
    'Stop the job (now.) Purge the cache; Wait'
    """
    told = ""
    for one in said:
        told += ("; " if _OPEN.search(told) else " " if told else "") + one
    return told


def _sentences(texts: Sequence[str], analyzer: Analyzer) -> list[_Sentence]:
    found: list[_Sentence] = []
    for number, text in enumerate(texts):
        label = label_of(normalise(text))
        for at, sentence in enumerate(sentences(text)):
            if len(found) >= MAX_SENTENCES:
                return found
            said = f"{label}: {sentence}" if label and at else sentence
            terms = frozenset(analyzer.content_words(sentence))
            found.append(_Sentence(said, number, terms, tokens(said)))
    return found
