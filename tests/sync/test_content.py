"""What makes two texts one block, and what cannot be a block at all."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loremesh.sync.content import MAX_TEXT_BYTES, block_id, check_text, context_label, normalise
from loremesh.sync.errors import InvalidInput

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


def test_a_block_id_is_the_sha256_of_the_normal_form() -> None:
    assert block_id("  caf\u0065\u0301\r\n\tau  lait ") == sha256("café au lait".encode()).digest()


@pytest.mark.parametrize(
    "same", ["a b", " a b", "a\nb", "a \r\n b\n", "a\u00a0b", "a\u3000\u2003b", "a\u2028b", "a\x1cb"]
)
def test_texts_that_differ_in_white_space_are_one_block(same: str) -> None:
    assert block_id(same) == block_id("a b")


@pytest.mark.parametrize("other", ["ab", "A b", "a b.", "a\u200bb", "ａ b"])
def test_texts_that_differ_in_anything_else_are_two(other: str) -> None:
    assert block_id(other) != block_id("a b")


@given(texts)
def test_the_normal_form_of_a_normal_form_is_itself(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        (" \n\t ", "is empty"),
        ("a\0b", "NUL"),
        ("a\ud800", "lone surrogate at position 1"),
        ("é" * (MAX_TEXT_BYTES // 2 + 1), f"{MAX_TEXT_BYTES + 2} bytes"),
    ],
)
def test_what_cannot_be_a_block_is_refused_by_name(text: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=f"summary .*{says}") as caught:
        check_text(text, "summary")
    assert caught.value.field == "summary"


def test_a_text_may_have_64_kib() -> None:
    check_text("é" * (MAX_TEXT_BYTES // 2))


def test_a_context_is_a_normalised_label() -> None:
    assert context_label("  legal \n review ") == "legal review"
    assert context_label("") == ""
    assert context_label("e\u0301") == "é"


@pytest.mark.parametrize("label", ["x" * 65, "a\x07b", "a\udfff"])
def test_a_label_out_of_bounds_is_refused(label: str) -> None:
    with pytest.raises(InvalidInput, match="context"):
        context_label(label)
