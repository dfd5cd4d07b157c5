"""Summaries without a model: verbatim sentences, within the budget, what the texts have in common first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loremesh.node.extract import Extractive, extract, sentences, tokens
from loremesh.sync.content import normalise

NOTES = [
    "The indexer stalls after a schema change. Coffee was cold today.",
    "After a schema change restart the indexer on both nodes. Bob is on leave.",
    "A stalled indexer means that the schema change was not announced! Lunch is at noon.",
]


def test_what_several_texts_say_comes_before_what_one_says() -> None:
    """The first sentence chosen is about what they share, not about coffee, leave or lunch."""
    said = extract(NOTES, 12)
    assert said is not None
    assert "indexer" in said
    assert not {"Coffee", "Bob", "Lunch"} & set(said.split())


def test_no_sentence_says_again_what_another_has_said() -> None:
    """Of two alike, one is enough: what is left of the budget goes to something else."""
    said = extract(["Rotate the keys on Monday.", "Rotate the keys on Monday.", "Backups run at night."], 40)
    assert said == "Rotate the keys on Monday. Backups run at night."


def test_where_no_sentence_fits_there_is_no_summary() -> None:
    """Nothing is cut off in the middle, and nothing made up."""
    assert extract(["one sentence of many words that does not end before it is too long " * 3], 5) is None
    assert extract([], 100) is None
    assert extract(["", "  "], 100) is None


def test_a_sentence_from_the_middle_of_a_labelled_text_keeps_the_label() -> None:
    """Who said it is part of what is said; the label's own words weigh nothing."""
    said = extract(["Ada: Hello there. The deploy of search failed twice."], 12)
    assert said == "Ada: The deploy of search failed twice."


def test_the_words_of_a_label_weigh_nothing() -> None:
    """A sentence full of the speaker's name does not come before one that says something."""
    said = extract(["Ada Lovelace: Ada Lovelace left. The printer broke."], 9)
    assert said == "Ada Lovelace: The printer broke."


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Stop. Wait! Why? Go", ["Stop.", "Wait!", "Why?", "Go"]),
        ("Set it to 0.5 and call f.g() now.", ["Set it to 0.5 and call f.g() now."]),
        ("- first\n- second", ["- first", "- second"]),
        ("索引器停了。重启它！", ["索引器停了。", "重启它！"]),
        ("  \n ", []),
    ],
)
def test_sentences_end_where_people_end_them(text: str, found: list[str]) -> None:
    """At full stops before white space, at line ends, and at those of scripts without white space."""
    assert sentences(text) == found


@given(st.lists(st.text(max_size=200), max_size=8), st.integers(1, 200))
def test_a_summary_is_whole_sentences_within_the_budget_and_always_the_same(
    texts: list[str], budget: int
) -> None:
    """Every sentence stands in a text as it is in normal form, a space or a semicolon between; the budget
    holds; nothing is chance.
    """
    said = extract(texts, budget)
    assert said == extract(texts, budget)
    if said is None:
        return
    assert tokens(said) <= budget
    left = said
    for sentence in sorted({one for text in texts for one in sentences(text)}, key=len, reverse=True):
        left = left.replace(sentence, "")
    labels = {normalise(text).partition(": ")[0] + ":" for text in texts}
    between = {";"}
    assert set(left.split()) <= between | {word for label in labels for word in label.split()}


async def test_it_is_a_summariser_that_needs_nothing() -> None:
    """The port's form: a name, an answer, and closing twice."""
    summariser = Extractive()
    assert (summariser.name, await summariser.summarise(NOTES, 40)) == ("extractive", extract(NOTES, 40))
    await summariser.close()
    await summariser.close()
