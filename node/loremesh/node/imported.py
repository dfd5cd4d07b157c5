"""What came from files: evidence that counts here and never travels, by the log it comes from (DESIGN §4).

A fold of `Imported` events like the rest of own state, beside first-hand evidence and never in it: what is
published is first-hand alone. An event is known by its source and its number there, so a file taken in
twice, in part or in another order, adds nothing twice.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.sync.fixed import MAX_FX
from loremesh.sync.rows import CONTEXT_BITS, Contexts

Ints = NDArray[np.int64]

MAX_SOURCES: Final = 4_096
"""Logs that events were taken from; more than anybody has files of, and each costs a hundred bytes."""

CONTEXT_MASK: Final = (1 << CONTEXT_BITS) - 1


class FileSource(msgspec.Struct, frozen=True, array_like=True):
    """A log that events were taken from: a home's public key and incarnation, or what stands for them."""

    origin: bytes
    incarnation: bytes
    name: str


class Prior(msgspec.Struct, frozen=True, array_like=True):
    """What a `Counted` put into the prior pair of its block, to be replaced by the next one."""

    alpha_fx: int
    beta_fx: int
    exact: bool


class FromFiles:
    """Sources by number, files by hash, and what came of each block.

    `files`: content hash → hours added to its hours. `known`: row → source → number of its last event taken.
    `owner`: row → origin whose log is the block's own history here, for blocks that no own event had touched.
    `evidence`: row → source and context (packed) → (α, β) in fixed point.
    """

    __slots__ = ("evidence", "files", "known", "owner", "priors", "sources", "trust_known")

    def __init__(self) -> None:
        self.sources: list[FileSource] = []
        self.files: dict[bytes, float] = {}
        self.known: dict[int, dict[int, int]] = {}
        self.trust_known: dict[int, int] = {}
        self.owner: dict[int, bytes] = {}
        self.evidence: dict[int, dict[int, tuple[int, int]]] = {}
        self.priors: dict[int, dict[int, Prior]] = {}

    def find(self, origin: bytes, incarnation: bytes) -> int | None:
        """The number of a source, None for one that nothing was taken from."""
        for number, source in enumerate(self.sources):
            if source.origin == origin and source.incarnation == incarnation:
                return number
        return None

    def last(self, row: int, source: int) -> int:
        """Number of the last event of this source about the block that was taken; -1 for none."""
        return self.known.get(row, {}).get(source, -1)

    def add(self, row: int, source: int, context: int, alpha_fx: int, beta_fx: int) -> tuple[int, int]:
        """Add evidence; what was added: less at the bound that a register has too."""
        mine = self.evidence.setdefault(row, {})
        key = source << CONTEXT_BITS | context
        alpha, beta = mine.get(key, (0, 0))
        more_a = min(alpha_fx, MAX_FX - alpha - beta)
        more_b = min(beta_fx, MAX_FX - alpha - beta - more_a)
        mine[key] = (alpha + more_a, beta + more_b)
        return more_a, more_b

    def replace(self, row: int, source: int, alpha_fx: int, beta_fx: int) -> tuple[int, int]:
        """State all of a source's evidence without a context; how much that changed it."""
        return self.state(row, source, 0, alpha_fx, beta_fx)

    def state(self, row: int, source: int, context: int, alpha_fx: int, beta_fx: int) -> tuple[int, int]:
        """State all of a source's evidence in a context, up to the bound that a register has too; how much
        that changed it.
        """
        mine = self.evidence.setdefault(row, {})
        key = source << CONTEXT_BITS | context
        alpha, beta = mine.get(key, (0, 0))
        now_a = min(alpha_fx, MAX_FX)
        now_b = min(beta_fx, MAX_FX - now_a)
        mine[key] = (now_a, now_b)
        return now_a - alpha, now_b - beta

    def of(self, row: int) -> list[tuple[int, int, int, int]]:
        """(source, context, α, β) of the block, α and β in fixed point."""
        return [
            (key >> CONTEXT_BITS, key & CONTEXT_MASK, alpha, beta)
            for key, (alpha, beta) in self.evidence.get(row, {}).items()
        ]

    def in_context(
        self, rows: Ints, context: int, without: Collection[tuple[int, int, int]] = ()
    ) -> tuple[Ints, Ints, Ints]:
        """(rows, α, β) of those of `rows` with evidence in the context, a row once per source.

        `without`: (row, source, context) that are passed over.
        """
        found = [
            (row, alpha, beta)
            for row in (rows.tolist() if len(self.evidence) else ())
            for source, here, alpha, beta in self.of(row)
            if here == context and (row, source, context) not in without
        ]
        columns = np.array(found, np.int64).reshape(len(found), 3)
        return columns[:, 0], columns[:, 1], columns[:, 2]

    def rows_in(self, context: int) -> Ints:
        """The rows with evidence in the context, ascending."""
        found = [
            row for row, mine in self.evidence.items() if any(key & CONTEXT_MASK == context for key in mine)
        ]
        return np.array(sorted(found), np.int64)

    def contexts_of(self, row: int) -> set[int]:
        """Contexts in which the block has evidence from files."""
        return {key & CONTEXT_MASK for key in self.evidence.get(row, {})}

    def drop(self, row: int) -> None:
        """Forget everything about the block in `row`."""
        for by_row in (self.evidence, self.known, self.owner, self.priors):
            by_row.pop(row, None)

    def export(self, contexts: Contexts) -> bytes:
        """All of it as MessagePack, contexts by label. Equal for equal states."""
        return msgspec.msgpack.encode(
            _Laid(
                sources=self.sources,
                files=sorted(self.files.items()),
                known=[(row, sorted(of.items())) for row, of in sorted(self.known.items())],
                trust_known=sorted(self.trust_known.items()),
                owner=sorted(self.owner.items()),
                evidence=[
                    (row, sorted((key >> CONTEXT_BITS, contexts.label(key & CONTEXT_MASK), a, b)
                                 for key, (a, b) in of.items()))
                    for row, of in sorted(self.evidence.items())
                ],
                priors=[(row, sorted(of.items())) for row, of in sorted(self.priors.items())],
            )
        )  # fmt: skip

    @classmethod
    def load(cls, exported: bytes, contexts: Contexts) -> FromFiles:
        """What `export` gave, again. Raises ValueError for bytes that are none."""
        try:
            laid = msgspec.msgpack.decode(exported, type=_Laid)
        except msgspec.DecodeError as error:
            raise ValueError(f"what came from files cannot be taken up: {error}") from error
        loaded = cls()
        loaded.sources = laid.sources
        loaded.files = dict(laid.files)
        loaded.known = {row: dict(of) for row, of in laid.known}
        loaded.trust_known = dict(laid.trust_known)
        loaded.owner = dict(laid.owner)
        loaded.evidence = {
            row: {source << CONTEXT_BITS | contexts.ensure(label): (a, b) for source, label, a, b in of}
            for row, of in laid.evidence
        }
        loaded.priors = {row: dict(of) for row, of in laid.priors}
        return loaded


class _Laid(msgspec.Struct, frozen=True, array_like=True):
    """`FromFiles` as it is laid down: sorted lists, so that equal states have equal bytes."""

    sources: list[FileSource]
    files: list[tuple[bytes, float]]
    known: list[tuple[int, list[tuple[int, int]]]]
    trust_known: list[tuple[int, int]]
    owner: list[tuple[int, bytes]]
    evidence: list[tuple[int, list[tuple[int, str, int, int]]]]
    priors: list[tuple[int, list[tuple[int, Prior]]]]
