"""Recall's arithmetic over a node's memory: which rows a query brings up, and why (DESIGN §3, "Score")."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.node.errors import UsageError
from loremesh.node.frames import min_max, recency
from loremesh.node.graph import lent
from loremesh.node.lexical import LexicalIndex
from loremesh.node.memory import Memory
from loremesh.node.order import LearningOrder
from loremesh.node.ownstate import MAX_EPISODE_BLOCKS
from loremesh.node.scoping import EVERYTHING, Scope, within
from loremesh.node.score import (
    ContextEvidence,
    Ranked,
    RecallFrame,
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
    """A recall's arguments, checked by `check`; frame and scope have been found by then."""

    text: str
    frame: RecallFrame = recall_frame("attention")
    context: str = ""
    k: int = 5
    scope: Scope = EVERYTHING


def check(question: Question) -> Question:
    """The question with its context in normal form. Raises UsageError or InvalidInput naming the field."""
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


class Look(msgspec.Struct, frozen=True, eq=False):
    """What a ranking goes by, [n] each: `eligible` rows, the terms as the frame scales them, before links.

    `cosine` is the likeness that `sim` was made of. `sole_principal`: see `rank`.
    """

    eligible: NDArray[np.bool_]
    terms: Terms
    cosine: NDArray[np.float32]
    sole_principal: NDArray[np.int32]


def may_be_handed_out(memory: Memory, question: Question, without: int | None = None) -> NDArray[np.bool_]:
    """Which rows can be in the answer to a checked question at all, bool[n]; never the row `without`."""
    eligible = memory.readable()
    if without is not None:
        eligible[without] = False
    if question.frame.own_only:
        own = memory.own.columns.views(max(memory.length, memory.own.columns.length))
        eligible &= own.held[: memory.length] > 0
    inside = within(memory, question.scope)
    if inside is not None:
        eligible &= inside
    return eligible


def look(
    memory: Memory,
    question: Question,
    vector: NDArray[np.float32] | None,
    hour: float,
    *,
    backoff: float,
    without: int | None = None,
) -> Look:
    """Every row seen from a checked question. Arguments as for `find`."""
    length, frame = memory.length, question.frame
    eligible = may_be_handed_out(memory, question, without)
    own = memory.own.columns.views(max(length, memory.own.columns.length))
    if vector is None or memory.matrix is None:
        cosine = np.zeros(length, np.float32)
    else:
        cosine = memory.matrix.cosine(vector, length)
    effective = memory.effective.rows
    utility, explore = utility_terms(
        effective.alpha[:length],
        effective.beta[:length],
        context_evidence(memory, question.context) if question.context else None,
        backoff,
    )
    if frame.hourly_decay is None:
        retrievability = memory.retrievability(hour)
    else:
        retrievability = recency(frame.hourly_decay, hour - effective.t_last_h[:length])
    terms = Terms(
        sim=similarity(memory.lexical, memory.own.learned, question.text, cosine, eligible),
        utility=utility,
        retrievability=retrievability.astype(np.float32),
        importance=own.importance[:length].astype(np.float32),
        explore=explore,
    )
    return Look(
        eligible=eligible,
        terms=min_max(terms, eligible) if frame.min_max else terms,
        cosine=cosine,
        sole_principal=effective.sole_principal[:length],
    )


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
    if not memory.length:
        return []
    seen = look(memory, question, vector, hour, backoff=backoff, without=without)
    return ranked(memory, question, seen, foreign_share)


def ranked(memory: Memory, question: Question, seen: Look, foreign_share: float) -> list[Ranked]:
    """The k best rows of what was seen from the question."""
    return rank(
        question.frame,
        seen.terms,
        question.k,
        eligible=seen.eligible,
        block_id=memory.sync.index.id,
        sole_principal=seen.sole_principal,
        foreign_share=foreign_share,
        lent=lambda scores: lent(memory.own, scores, seen.eligible),
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
    rows, bm25 = learned.carry(*lexical.search(text, among=eligible), len(cosine))
    return lift_named(hybrid_sim(cosine, rows, bm25, eligible), *lexical.named(text))


def context_evidence(memory: Memory, label: str) -> ContextEvidence:
    """What counts in a context. None of it where the label is new here: whether somebody who does not count
    ever used a label must not show.
    """
    context = memory.own.contexts.find(label)
    if context is not None:
        return memory.effective.context(context)
    nothing = np.empty(0, np.int64)
    return ContextEvidence(nothing, nothing, nothing)
