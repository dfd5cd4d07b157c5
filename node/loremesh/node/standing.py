"""Where a block stands for a question: whether it would be handed out, at which rank, and why or why not.

Pure arithmetic over what `finding.look` sees, so that it cannot say anything else than recall does. One thing
is left to chance and not told here: of two blocks that always come together recall may hold one back.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from loremesh.node.columns import Withdrawn
from loremesh.node.finding import Look, Question, ranked
from loremesh.node.frames import LINKS, weights_of
from loremesh.node.graph import lent
from loremesh.node.memory import Memory
from loremesh.node.scoping import within
from loremesh.node.score import DENSE_SHARE, LABEL_LIFT, Ranked, exact_scores, links_term
from loremesh.node.weighed import SimSeen, Standing, TermSeen


class Barred(Enum):
    """Why a block is not handed out for a question, whatever its score; the value says it to people."""

    NO_TEXT = "its text is not here"
    NOBODY = "nobody who counts stands behind it: the peers that gave it are not trusted"
    DEPRECATED = "it was deprecated here"
    ARCHIVED = "it was archived here"
    SUPERSEDED = "another block took its place"
    OWN_ONLY = "it is known only from peers, and the frame keeps their texts out"
    SCOPE = "it is outside of the spaces or tags asked for"
    QUOTA = "it is known from one foreign principal alone, whose share of the hits is taken by better ones"


_WITHDRAWN: Final = {
    Withdrawn.DEPRECATED: Barred.DEPRECATED,
    Withdrawn.ARCHIVED: Barred.ARCHIVED,
    Withdrawn.SUPERSEDED: Barred.SUPERSEDED,
}


def standing(memory: Memory, question: Question, seen: Look, row: int, foreign_share: float) -> Standing:
    """Where the block in `row` stands for a checked question of which `seen` is the look. The memory has been
    refreshed.
    """
    hits = ranked(memory, question, seen, foreign_share)
    answer = Standing(
        query=question.text,
        frame=question.frame.name,
        context=question.context,
        k=question.k,
        surfaces=any(one.row == row for one in hits),
        eligible=int(np.count_nonzero(seen.eligible)),
    )
    if not seen.eligible[row]:
        barred = why_barred(memory, question, row)
        return structs.replace(answer, barred=barred.name.lower(), why=barred.value)
    rows = np.flatnonzero(seen.eligible)
    links = linked(memory, question, seen)
    scores = exact_scores(question.frame, seen.terms, rows, links)
    place = int(np.searchsorted(rows, row))
    score = float(scores[place])
    ids, tied = memory.sync.index.id, rows[scores == score].tolist()
    rank = 1 + int(np.count_nonzero(scores > score)) + sum(ids(other) < ids(row) for other in tied)
    last = hits[-1] if len(hits) == question.k else None
    answer = structs.replace(
        answer,
        rank=rank,
        score=score,
        terms=terms_seen(question, seen, links, row, last),
        sim=sim_seen(memory, question, seen, row),
        last=memory.block_hex(last.row) if last else "",
        last_score=last.score if last else 0.0,
        margin=score - last.score if last else 0.0,
    )
    if answer.surfaces:
        return structs.replace(
            answer, why=f"it is hit {1 + [one.row for one in hits].index(row)} of {len(hits)}"
        )
    if last is None or _before(memory, row, score, last):
        return structs.replace(answer, barred=Barred.QUOTA.name.lower(), why=Barred.QUOTA.value)
    if score == last.score:
        return structs.replace(answer, why=f"it scores as the last of {answer.k} hits, whose id comes first")
    weakest = min(answer.terms, key=lambda one: one.product - one.last_product)
    return structs.replace(answer, short_in=weakest.term, why=_short(answer, weakest))


def why_barred(memory: Memory, question: Question, row: int) -> Barred:
    """Why a row that is not eligible for the question is not: the first thing in its way."""
    if not memory.has_content(row):
        return Barred.NO_TEXT
    if not memory.knows(row):
        return Barred.NOBODY
    withdrawn = memory.withdrawal(row)
    if withdrawn is not Withdrawn.NO:
        return _WITHDRAWN[withdrawn]
    inside = within(memory, question.scope)
    if inside is not None and not inside[row]:
        return Barred.SCOPE
    return Barred.OWN_ONLY


def linked(memory: Memory, question: Question, seen: Look) -> NDArray[np.float32] | None:
    """The links' term of every row, None where the frame does not ask for it."""
    if not question.frame.graph:
        return None
    return links_term(
        question.frame, seen.terms, seen.eligible, lambda scores: lent(memory.own, scores, seen.eligible)
    )


def terms_seen(
    question: Question, seen: Look, links: NDArray[np.float32] | None, row: int, last: Ranked | None
) -> list[TermSeen]:
    """Term by term what the block's score is made of, beside that of the last hit."""
    found = []
    for term, weight in weights_of(question.frame).items():
        column = links if term == LINKS and links is not None else getattr(seen.terms, term)
        value = float(column[row])
        other = getattr(last.parts, term) if last else 0.0
        found.append(TermSeen(term, weight, value, weight * value, other, weight * other))
    return found


def sim_seen(memory: Memory, question: Question, seen: Look, row: int) -> SimSeen:
    """What the block's `sim` came from, before any scaling: the parts sum to it."""
    lexical, learned = memory.lexical, memory.own.learned
    rows, bm25 = lexical.search(question.text, among=seen.eligible)
    own = dict(zip(rows.tolist(), bm25.tolist(), strict=True))
    found, carried = learned.carry(rows, bm25, len(seen.cosine))
    best = float(carried.max(initial=0.0))
    here = dict(zip(found.tolist(), carried.tolist(), strict=True)).get(row, 0.0)
    unit = (1.0 - DENSE_SHARE) / best if best else 0.0
    words = own.get(row, 0.0)
    vector = DENSE_SHARE * float(np.clip(seen.cosine[row], 0.0, 1.0))
    named, share = lexical.named(question.text)
    label = dict(zip(named.tolist(), share.tolist(), strict=True)).get(row, 0.0)
    before = vector + unit * here
    source = max(learned.before(row), key=lambda one: own.get(one[0], 0.0) * one[1], default=None)
    return SimSeen(
        vector=vector,
        words=unit * words,
        carried=unit * (here - words),
        carried_from=memory.block_hex(source[0]) if source and here > words else "",
        label=LABEL_LIFT * label * (1.0 - before),
        embedded=memory.matrix is not None and bool(memory.matrix.held(memory.length)[row]),
    )


def _before(memory: Memory, row: int, score: float, last: Ranked) -> bool:
    """Whether the row comes before the last hit in the order of `rank`."""
    ids = memory.sync.index.id
    return (-score, ids(row)) < (-last.score, ids(last.row))


def _short(answer: Standing, weakest: TermSeen) -> str:
    lacking = weakest.last_product - weakest.product
    return (
        f"it is {-answer.margin:.3f} short of the last of {answer.k} hits, "
        f"most of it in {weakest.term} ({lacking:.3f})"
    )
