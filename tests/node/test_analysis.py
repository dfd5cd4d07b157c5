"""Plain ASCII is analysed as everything else is, only sooner."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loremesh.node import analysis
from loremesh.node.analysis import FUNCTION_WORDS, Analyzer

text = st.text(st.characters(max_codepoint=127), max_size=60) | st.lists(
    st.sampled_from([*sorted(FUNCTION_WORDS), "Running", "indexers", "DEPLOYED", "x86_64", "v2", "it's"])
).map(" ".join)


@given(text)
def test_ascii_gives_the_terms_that_tantivy_gives(ascii_text: str) -> None:
    analyzer = Analyzer()
    assert analyzer.words(ascii_text) == analyzer._words.analyze(ascii_text)
    assert analyzer.content_words(ascii_text) == analyzer._content_words.analyze(ascii_text)
    assert analyzer.words(ascii_text) == analyzer._words.analyze(ascii_text), "from the table this time"


def test_function_words_are_left_out_of_any_text() -> None:
    analyzer = Analyzer()
    for asked in ("Where is the indexer's log?", "Where’s the indexer’s log?"):
        assert analyzer.content_words(asked) == ["index", "log"]
    assert analyzer.words("to be or not to be") == ["to", "be", "or", "not", "to", "be"]


def test_the_table_of_words_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "MAX_KNOWN_WORDS", 100)
    analyzer = Analyzer()
    for number in range(1_000):
        assert analyzer.words(f"word{number} again") == [f"word{number}", "again"]
        assert len(analyzer._terms) <= 100
    once = "f" * 1_000
    assert analyzer.words(once) == [once]
    assert once not in analyzer._terms
