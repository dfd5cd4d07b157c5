"""Words find texts; what was removed leaves no trace in any score; ties have one order."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from loremesh.node.lexical import MAX_QUERY_TERMS, LexicalIndex

TEXTS = [
    "Restart the indexer after a schema change",
    "The indexer needs the schema before it starts",
    "Deploys are frozen on Friday afternoons",
    "Ask for a review before you deploy anything on Friday",
    "The café at the corner closes early",
    "修改架构后需要重启索引器",
    "インデックスを再構築する",
    "รีสตาร์ทดัชนีหลังจากเปลี่ยนสคีมา",
    "Перезапустите индексатор после изменения схемы",
    "Use uv pip compile --universal; it takes 2 s",
]


def index_of(texts: Sequence[str]) -> LexicalIndex:
    index = LexicalIndex()
    index.add(range(len(texts)), texts)
    return index


def found(index: LexicalIndex, query: str, limit: int = 1000) -> list[tuple[int, float]]:
    rows, bm25 = index.search(query, limit)
    return list(zip(rows.tolist(), bm25.tolist(), strict=True))


def rows_of(index: LexicalIndex, query: str) -> list[int]:
    return [row for row, _ in found(index, query)]


def made_up(count: int, seed: int) -> list[str]:
    chooser = random.Random(seed)
    words = [f"word{number}" for number in range(60)]
    return [" ".join(chooser.choices(words, k=chooser.randint(1, 30))) for _ in range(count)]


@pytest.mark.parametrize(
    ("query", "row"),
    [
        ("indexing schemas", 0),
        ("DEPLOYING", 3),
        ("cafe", 4),
        ("索引", 5),
        ("再構築", 6),
        ("ดัชนี", 7),
        ("индексатор", 8),
        ("compile 2", 9),
    ],
)
def test_words_of_any_script_find_their_text(query: str, row: int) -> None:
    assert row in rows_of(index_of(TEXTS), query)[:2]


def test_hits_come_best_first_with_positive_scores() -> None:
    scores = [score for _, score in found(index_of(TEXTS), "indexer schema restart")]
    assert scores == sorted(scores, reverse=True)
    assert min(scores) > 0.0


@pytest.mark.parametrize("query", ["", "   ", "?!…", "nowhere"])
def test_a_query_without_known_words_finds_nothing(query: str) -> None:
    assert found(index_of(TEXTS), query) == []


def test_an_empty_index_finds_nothing() -> None:
    assert found(LexicalIndex(), "indexer") == []


@pytest.mark.parametrize(
    "query", ['"indexer', "indexer AND (", "text:indexer^2", "-indexer", "[indexer TO", "\\"]
)
def test_a_query_has_no_syntax(query: str) -> None:
    expected = [0, 1] if "indexer" in query else []
    assert sorted(rows_of(index_of(TEXTS), query))[:2] == expected


def test_a_word_said_twice_in_a_query_counts_once() -> None:
    index = index_of(TEXTS)
    assert found(index, "indexer schema indexers indexer") == found(index, "indexer schema")


def test_function_words_count_only_when_there_are_no_others() -> None:
    index = index_of(["To whom it may concern", "The indexer", "What was it about the deploy"])
    assert rows_of(index, "What was it about the indexer?") == [1]
    assert rows_of(index, "what was it?")[0] == 2


def test_a_word_that_only_looks_like_a_function_word_once_stemmed_counts() -> None:
    assert rows_of(index_of(["John Doe called", "A colleague called"]), "Does Doe?") == [0]


def named(index: LexicalIndex, query: str) -> dict[int, float]:
    rows, share = index.named(query)
    return dict(zip(rows.tolist(), share.tolist(), strict=True))


def test_a_query_names_the_labels_that_texts_begin_with() -> None:
    index = index_of(
        [
            "Ada: the tests are green",
            "Grace: ask Ada about it",
            "Ada Lovelace: and what the engine weaves",
            "We met Ada: she was in a hurry, and we had very little time",
            "Notes of a meeting with Ada Byron and others: nothing was decided",
            "https://ada.example: moved",
            "ops runbook: restart the indexer",
        ]
    )
    assert named(index, "What did Ada's tests show?") == {0: 1.0, 2: 0.5, 3: 0.5}
    assert named(index, "the ops runbook, please") == {6: 1.0}
    assert named(index, "what did she say?") == {}
    index.remove([0])
    assert named(index, "Ada") == {2: 0.5, 3: 0.5}


def test_a_block_in_other_bytes_is_found_alike() -> None:
    """White space and composition are the giver's; the words and the label are not."""
    plain = index_of(["José Pérez: le café est fermé", "Ada: the tests are green"])
    other = index_of(
        ["Jose\u0301 \n Pe\u0301rez:\tle cafe\u0301 est ferme\u0301", " Ada:\nthe  tests are green"]
    )
    for query in ("José Pérez", "Jose\u0301 Pe\u0301rez", "café fermé", "Ada's tests"):
        assert found(plain, query) == found(other, query) != []
        assert named(plain, query) == named(other, query)
    assert named(other, "José Pérez") == {0: 1.0}


def test_a_label_of_function_words_is_none() -> None:
    assert named(index_of(["I: am here", "To: whom"]), "to whom am I speaking") == {}


def test_a_text_added_after_a_search_is_found_by_the_next() -> None:
    index = index_of(TEXTS[:3])
    assert rows_of(index, "review") == []
    index.add([3], [TEXTS[3]])
    assert rows_of(index, "review") == [3]


def test_a_row_added_again_keeps_its_text_and_counts_once() -> None:
    index = index_of(TEXTS)
    before = found(index, "indexer schema")
    index.add(range(len(TEXTS)), ["something else"] * len(TEXTS))
    assert found(index, "indexer schema") == before
    assert len(index) == len(TEXTS)


def test_removed_texts_are_in_no_search_and_in_no_score() -> None:
    texts = made_up(400, seed=1)
    gone = set(range(0, 400, 3))
    index = index_of(texts)
    index.remove(gone)
    never = LexicalIndex()
    kept = [row for row in range(400) if row not in gone]
    never.add(kept, [texts[row] for row in kept])
    assert len(index) == len(never)
    for query in ("word1", "word2 word3 word4", " ".join(texts[0:3])):
        assert found(index, query) == found(never, query)


def test_removing_before_the_first_search_leaves_no_trace_either() -> None:
    index = index_of(TEXTS)
    index.remove([1])
    never = LexicalIndex()
    never.add([0, *range(2, len(TEXTS))], [TEXTS[0], *TEXTS[2:]])
    assert found(index, "the indexer schema") == found(never, "the indexer schema")


def test_a_removed_row_can_come_back_with_another_text() -> None:
    index = index_of(TEXTS)
    index.remove([0])
    index.add([0], ["A fresh note about goldfish"])
    never = index_of(["A fresh note about goldfish", *TEXTS[1:]])
    for query in ("goldfish", "indexer", "the"):
        assert found(index, query) == found(never, query)


def test_removing_everything_leaves_an_empty_index_that_works_on() -> None:
    index = index_of(TEXTS)
    index.remove(range(1_000))
    assert rows_of(index, "indexer") == []
    assert len(index) == 0
    index.add([4], [TEXTS[4]])
    assert rows_of(index, "cafe") == [4]


def test_scores_do_not_depend_on_the_order_in_which_texts_came() -> None:
    texts = made_up(300, seed=2)
    at_once = index_of(texts)
    bit_by_bit = LexicalIndex()
    order = list(range(300))
    random.Random(3).shuffle(order)
    for start in range(0, 300, 20):
        part = order[start : start + 20]
        bit_by_bit.add(part, [texts[row] for row in part])
    for query in ("word1", "word5 word6 word7 word8", " ".join(texts[9:12])):
        assert found(bit_by_bit, query, 40) == found(at_once, query, 40)


def test_ties_across_the_limit_go_to_the_lower_rows() -> None:
    index = LexicalIndex()
    order = list(range(3_000))
    random.Random(4).shuffle(order)
    index.add(order, ["same words"] * 3_000)
    assert rows_of(index, "words")[:1000] == list(range(1_000))


def test_a_document_as_query_is_cut_to_its_first_words() -> None:
    index = index_of(["needle in here"])
    hay = " ".join(f"hay{number}" for number in range(MAX_QUERY_TERMS))
    assert rows_of(index, "needle " + hay) == [0]
    assert rows_of(index, hay + " needle") == []


def test_nothing_is_written_to_any_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    index = index_of(TEXTS)
    assert rows_of(index, "indexer") != []
    assert list(tmp_path.iterdir()) == []


def test_a_row_out_of_range_and_texts_that_do_not_match_are_refused() -> None:
    with pytest.raises(ValueError, match="-1"):
        LexicalIndex().add([-1], ["text"])
    with pytest.raises(ValueError, match="shorter"):
        LexicalIndex().add([1, 2], ["text"])
    with pytest.raises(ValueError, match="limit"):
        LexicalIndex().search("text", 0)
