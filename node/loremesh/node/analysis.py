"""What texts and queries are looked up by: words in any script, English ones stemmed.

Texts are composed (NFC) first: which form of a block's text came here moves nothing. Chinese, Japanese kana
and Thai, which are written without spaces, are taken by single characters. tantivy analyses; for plain ASCII,
most of what agents write, the same is done from a table of the words met before, in a quarter of the time.
"""

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

import tantivy

_FUNCTION_WORDS: Final = (
    "a about am an and are as at be been being but by can could d did do does for from had has have he her "
    "hers him his how i if in into is it its ll m me my of on or our ours re s she should so t than that the "
    "their theirs them then there these they this those to us ve was we were what when where which who whom "
    "whose why will with would you your yours"
)
FUNCTION_WORDS: Final = frozenset(_FUNCTION_WORDS.split())
"""English words that say how a question is put rather than what it is about, and what an apostrophe leaves
behind."""

MAX_KNOWN_WORDS: Final = 200_000
"""Words whose terms are kept in the table; it begins anew when it is full. About 30 MB."""

MAX_KNOWN_CHARACTERS: Final = 40
"""Longer words, hashes and the like, rarely come twice."""

_UNSPACED: Final = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}"
_TOKENS: Final = rf"[{_UNSPACED}]|[\p{{L}}\p{{M}}\p{{N}}--[{_UNSPACED}]]+"
_ASCII_TOKENS: Final = re.compile(r"[a-z0-9]+")


class Analyzer:
    """Texts → terms, in order, repetitions included."""

    def __init__(self) -> None:
        self._words = _tantivy(())
        self._content_words = _tantivy(FUNCTION_WORDS)
        self._terms: dict[str, str] = {}

    def words(self, text: str) -> list[str]:
        """The terms of all words."""
        if not text.isascii():
            return self._words.analyze(unicodedata.normalize("NFC", text))
        return self._known(_ASCII_TOKENS.findall(text.lower()))

    def content_words(self, text: str) -> list[str]:
        """The terms of the words that are not function words."""
        if not text.isascii():
            return self._content_words.analyze(unicodedata.normalize("NFC", text))
        return self._known([w for w in _ASCII_TOKENS.findall(text.lower()) if w not in FUNCTION_WORDS])

    def _known(self, words: list[str]) -> list[str]:
        """The terms of lower-case ASCII words."""
        terms = self._terms
        try:
            return [terms[word] for word in words]
        except KeyError:
            fresh = {word: self._words.analyze(word)[0] for word in set(words).difference(terms)}
            found = [terms.get(word) or fresh[word] for word in words]
            self._keep(fresh)
            return found

    def _keep(self, fresh: dict[str, str]) -> None:
        """Have these words and their terms in the table the next time."""
        for word, term in fresh.items():
            if len(word) <= MAX_KNOWN_CHARACTERS:
                if len(self._terms) >= MAX_KNOWN_WORDS:
                    self._terms.clear()
                self._terms[word] = term


def _tantivy(without: Iterable[str]) -> tantivy.TextAnalyzer:
    """tantivy's analysis, leaving out some words."""
    return (
        tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.regex(_TOKENS))
        .filter(tantivy.Filter.lowercase())
        .filter(tantivy.Filter.ascii_fold())
        .filter(tantivy.Filter.custom_stopword(sorted(without)))
        .filter(tantivy.Filter.stemmer("english"))
        .build()
    )
