"""The offline rater prefers what can be used again, and never claims to be certain."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loremesh.node.rate import HIGHEST, LOWEST, SpecificityRater, specificity


def rated(text: str) -> float:
    rating = specificity(text)
    assert rating is not None
    return rating


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ("Restart the indexer after a schema change", "The weather is nice today"),
        ("Run `alembic upgrade head` before each deploy", "Run the migration before each deploy"),
        ("The report goes to Margaret in Lisbon", "The report goes to her in town"),
        ("Never force-push the release branch", "Somebody pushed the release branch"),
        ("The build fails when the cache is full", "The build has a cache that is full"),
        ("The staging cluster uses certificates that rotate every single Monday", "Certificates rotate"),
        ("The disk is full", "Maybe the disk is something"),
        ("The tests passed", "ok thanks, the tests passed"),
        ("The tests failed", "Did the tests fail?"),
        ("Set LOG_LEVEL=debug", "Set it higher"),
    ],
)
def test_the_more_specific_and_usable_of_two_texts_is_rated_higher(better: str, worse: str) -> None:
    assert rated(better) > rated(worse)


def test_a_good_note_is_above_the_middle_and_small_talk_far_below() -> None:
    assert rated("Restart the indexer after a schema change") > 0.6
    assert rated("ok thanks!") < 0.25


def test_length_counts_up_to_a_paragraph_and_not_beyond() -> None:
    word, sentence, document = (rated("plain " * count) for count in (1, 12, 600))
    assert word < document < sentence


def test_texts_in_scripts_without_spaces_are_rated_by_their_length_too() -> None:
    assert rated("修改架构后需要重启索引器") > rated("索引")


@pytest.mark.parametrize("text", ["", "…", "?!", "🙂"])
def test_without_letters_or_digits_there_is_no_opinion(text: str) -> None:
    assert specificity(text) is None


@given(st.text(max_size=300))
def test_a_rating_is_never_certain(text: str) -> None:
    rating = specificity(text)
    assert rating is None or LOWEST <= rating <= HIGHEST


@pytest.mark.parametrize("piece", ["a", "a_", "-\n", "`", "A ", "a-", "1.", "if "])
def test_the_largest_text_is_rated_without_delay(piece: str) -> None:
    """Patterns that try every split of a text would take minutes here, and the test would never end."""
    specificity((piece * 65_536)[:65_536])


async def test_the_rater_answers_in_order() -> None:
    texts = ["ok thanks!", "…", "Restart the indexer after a schema change"]
    assert (await SpecificityRater().rate(texts)).values == [specificity(text) for text in texts]
    assert SpecificityRater().name == "specificity-1"
