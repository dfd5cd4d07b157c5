"""Recall's arithmetic over a node's memory: which rows a query brings up, and why (DESIGN §3, "Score")."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.node.errors import UsageError
from loremesh.node.lexical import LexicalIndex
from loremesh.node.memory import Memory
from loremesh.node.order import LearningOrder
from loremesh.node.ownstate import MAX_EPISODE_BLOCKS
from loremesh.node.score import (
    ContextEvidence,
    Ranked,
    Terms,
    hybrid_sim,
    lift_named,
    rank,
    recall_frame,
    utility_terms,
)
from loremesh.sync.content import MAX_TEXT_BYTES, context_label

MAX_QUERY_BYTES: Final = MAX_TEXT_BYTES
"""A query may be as long as a block: agents ask with whole documents."""


class Question(msgspec.Struct, frozen=True):
    """A recall's arguments, checked by `check`."""

    text: str
    frame: str = "attention"
    context: str = ""
    k: int = 5


def check(question: Question) -> Question:
    """The question with its context in normal form. Raises UsageError or InvalidInput naming the field."""
    recall_frame(question.frame)
    if not 1 <= question.k <= MAX_EPISODE_BLOCKS:
        raise UsageError(f"k is {question.k}", f"ask for 1 to {MAX_EPISODE_BLOCKS} hits")
    try:
        size = len(question.text.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise UsageError(
            f"the query has a lone surrogate at position {error.start}", "send text that has a UTF-8 form"
        ) from None
    if size > MAX_QUERY_BYTES:
        raise UsageError(f"the query has {size} bytes", f"ask with at most {MAX_QUERY_BYTES}")
    return msgspec.structs.replace(question, context=context_label(question.context))


def find(
    memory: Memory,
    question: Question,
    vector: NDArray[np.float32] | None,
    hour: float,
    *,
    foreign_share: float,
    backoff: float,
    without: int | None = None,
) -> list[Ranked]:
    """The k best rows for a checked question, best first.

    `vector` is the query's unit vector (float32[dimension]), None to go by words alone; `hour` the active
    hour now. `without`: a row to do without. The memory has been refreshed.
    """
    length = memory.length
    if not length:
        return []
    frame = recall_frame(question.frame)
    eligible = memory.readable()
    if without is not None:
        eligible[without] = False
    own = memory.own.columns.views(max(length, memory.own.columns.length))
    if frame.own_only:
        eligible &= own.held[:length] > 0
    if vector is None or memory.matrix is None:
        cosine = np.zeros(length, np.float32)
    else:
        cosine = memory.matrix.cosine(vector, length)
    effective = memory.effective.rows
    utility, explore = utility_terms(
        effective.alpha[:length],
        effective.beta[:length],
        _context_evidence(memory, question.context) if question.context else None,
        backoff,
    )
    retrievability = memory.retrievability(hour).astype(np.float32)
    terms = Terms(
        sim=similarity(memory.lexical, memory.own.learned, question.text, cosine, eligible),
        utility=utility,
        retrievability=retrievability,
        importance=own.importance[:length].astype(np.float32),
        explore=explore,
    )
    return rank(
        frame,
        terms,
        question.k,
        eligible=eligible,
        block_id=memory.sync.index.id,
        sole_principal=effective.sole_principal[:length],
        foreign_share=foreign_share,
    )


def similarity(
    lexical: LexicalIndex,
    learned: LearningOrder,
    text: str,
    cosine: NDArray[np.float32],
    eligible: NDArray[np.bool_],
) -> NDArray[np.float32]:
    """`sim` of every row with a query, float32[n], in [0, 1]: `cosine` and the query's words, what these
    carry over to blocks learned just after, and labels that the query names.

    `cosine` is float32[n], 0 where a row has no vector. Only `eligible` rows (bool[n]), those that can be
    handed out, pass a match on or set its scale.
    """
    rows, bm25 = lexical.search(text)
    found = eligible[rows]
    rows, bm25 = learned.carry(rows[found], bm25[found], len(cosine))
    return lift_named(hybrid_sim(cosine, rows, bm25, eligible), *lexical.named(text))


def _context_evidence(memory: Memory, label: str) -> ContextEvidence:
    """What counts in a context. None of it where the label is new here: whether somebody who does not count
    ever used a label must not show.
    """
    context = memory.own.contexts.find(label)
    if context is not None:
        return memory.effective.context(context)
    nothing = np.empty(0, np.int64)
    return ContextEvidence(nothing, nothing, nothing)
