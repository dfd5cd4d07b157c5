"""What a node says of its own: registers and texts, cut into bodies that fit a frame. Pure."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.sync.bodies import (
    MAX_FRAME_CONTEXTS,
    MAX_FRAME_INCARNATIONS,
    MAX_ROWS,
    MAX_TEXTS,
    Evidence,
    encode_blocks,
    encode_evidence,
)
from loremesh.sync.content import block_id
from loremesh.sync.errors import InvalidInput
from loremesh.sync.wire import MAX_BODY_BYTES

Key = TypeVar("Key", bytes, str)

TEXT_OVERHEAD_BYTES = 5
"""What msgpack puts before a text at most."""
BODY_OVERHEAD_BYTES = 8
"""What msgpack puts around the list of texts at most."""


class Statement(msgspec.Struct, frozen=True, eq=False):
    """Own registers to state, one row each, in any order: n rows, each (id, context, incarnation) once.

    Masses in units of 2⁻¹⁶, stability in active hours; `incarnations` are this origin's.
    """

    ids: Sequence[bytes]
    contexts: Sequence[str]
    incarnations: Sequence[bytes]
    alpha: NDArray[np.int64]
    beta: NDArray[np.int64]
    stability_h: NDArray[np.float64]
    version: NDArray[np.int64]


def evidence_bodies(statement: Statement) -> list[bytes]:
    """The statement as evidence bodies, rows ascending by block, each body as full as it may be.

    Raises `InvalidInput` naming the field for rows that no receiver would take.
    """
    ids, contexts, incarnations = statement.ids, statement.contexts, statement.incarnations
    order = sorted(range(len(ids)), key=lambda row: (ids[row], contexts[row], incarnations[row]))
    return [encode_evidence(_evidence(statement, part)) for part in _parts(statement, order)]


def _parts(statement: Statement, order: Sequence[int]) -> Iterable[list[int]]:
    """Stretches of `order` whose rows and tables fit one frame."""
    part: list[int] = []
    labels: set[str] = set()
    incarnations: set[bytes] = set()
    for row in order:
        label, incarnation = statement.contexts[row], statement.incarnations[row]
        full = (
            len(part) == MAX_ROWS
            or (len(labels) == MAX_FRAME_CONTEXTS and label not in labels)
            or (len(incarnations) == MAX_FRAME_INCARNATIONS and incarnation not in incarnations)
        )
        if full:
            yield part
            part, labels, incarnations = [], set(), set()
        part.append(row)
        labels.add(label)
        incarnations.add(incarnation)
    if part:
        yield part


def _evidence(statement: Statement, rows: list[int]) -> Evidence:
    ids = [statement.ids[row] for row in rows]
    contexts = [statement.contexts[row] for row in rows]
    incarnations = [statement.incarnations[row] for row in rows]
    at = np.array(rows, np.int64)
    id_table, block = _table(ids)
    context_table, context = _table(contexts)
    incarnation_table, incarnation = _table(incarnations)
    return Evidence(
        id_table,
        context_table,
        incarnation_table,
        block,
        context,
        incarnation,
        statement.alpha[at],
        statement.beta[at],
        statement.stability_h[at],
        statement.version[at],
    )


def _table(values: list[Key]) -> tuple[list[Key], NDArray[np.int64]]:
    table = sorted(set(values))
    index_of = {value: index for index, value in enumerate(table)}
    return table, np.array([index_of[value] for value in values], np.int64)


def block_bodies(texts: Iterable[str]) -> list[bytes]:
    """The texts as blocks bodies in their order, a block that comes twice only once.

    Raises `InvalidInput` naming the field for a text that no receiver would take.
    """
    bodies: list[bytes] = []
    part: list[str] = []
    size, seen = BODY_OVERHEAD_BYTES, set[bytes]()
    for text in texts:
        try:
            needed = len(text.encode("utf-8")) + TEXT_OVERHEAD_BYTES
            identifier = block_id(text)
        except UnicodeEncodeError:
            raise InvalidInput("text", "has a lone surrogate, which has no UTF-8") from None
        if identifier in seen:
            continue
        seen.add(identifier)
        if part and (size + needed > MAX_BODY_BYTES or len(part) == MAX_TEXTS):
            bodies.append(encode_blocks(part))
            part, size = [], BODY_OVERHEAD_BYTES
        part.append(text)
        size += needed
    if part:
        bodies.append(encode_blocks(part))
    return bodies
