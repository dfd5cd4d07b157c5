"""Recall within a budget of tokens: summaries above the blocks, and which of them may be shown to whom."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.node.descending import Chosen, Group, Item, choose
from loremesh.node.errors import UsageError
from loremesh.node.extract import tokens
from loremesh.node.ground import Ground
from loremesh.node.memory import MIN_BLOCK_PREFIX, Memory
from loremesh.node.params import MAX_BUDGET
from loremesh.node.results import Explanation
from loremesh.node.score import Ranked
from loremesh.node.tier_results import Above, SummarySeen
from loremesh.node.tiers import Tier
from loremesh.sync.fixed import ONE


class Overview(msgspec.Struct, frozen=True):
    """What stands above the hits, and the tokens of both together."""

    above: list[Above]
    tokens: int


def checked_budget(budget_tokens: int) -> int:
    """The budget. Raises UsageError for one that no recall can keep to."""
    if type(budget_tokens) is not int or not 1 <= budget_tokens <= MAX_BUDGET:
        raise UsageError(f"budget_tokens is {budget_tokens!r}", f"give 1 to {MAX_BUDGET} tokens")
    return budget_tokens


async def within_budget(
    ground: Ground, ranked: Sequence[Ranked], budget: int, most: int, eligible: NDArray[np.bool_]
) -> tuple[list[Ranked], Overview]:
    """Those of the ranked blocks that are handed out, `most` of them, best first, and what stands above them.

    `eligible` (bool[n]): no summary of other rows is told. Inside `exclusive` only; the memory has been
    refreshed.
    """
    memory, settings = ground.memory, ground.settings
    tiers = memory.own.tiers
    summaries = list(dict.fromkeys(at for one in ranked if (at := tiers.above(one.row)) is not None))
    shown = [row for row in summaries if _whole(memory, row, eligible)]
    forms = {row: [at for at in (tiers.abstract_of(row), row) if at is not None] for row in shown}
    texts = await ground.store.texts([one.row for one in ranked] + [at for row in shown for at in forms[row]])
    size = {row: tokens(text) for row, text in texts.items()}
    groups = []
    for row in shown:
        sources = _tier(memory, row).sources
        principal = _sole(memory, sources)
        groups.append(Group(sources, tuple(Item(at, size[at], principal) for at in forms[row])))
    items = [Item(one.row, size[one.row], _sole(memory, (one.row,))) for one in ranked]
    shares = settings.tiers.share, settings.memory.foreign_share
    chosen = choose(items, groups, budget, *shares, most)
    return _handed_out(memory, ranked, chosen, texts, size)


def _handed_out(
    memory: Memory, ranked: Sequence[Ranked], chosen: Chosen, texts: dict[int, str], size: dict[int, int]
) -> tuple[list[Ranked], Overview]:
    by_row = {one.row: one for one in ranked}
    above = []
    for row in chosen.above:
        tier = _tier(memory, row)
        scores = [by_row[source].score for source in tier.sources if source in by_row]
        above.append(
            Above(
                block=memory.block_hex(row),
                level=tier.level.name.lower(),
                text=texts[row],
                sources=[memory.block_hex(source) for source in tier.sources],
                trust=least_trust(memory, tier.sources),
                score=max(scores),
                tokens=size[row],
                summariser=tier.summariser,
            )
        )
    return [by_row[row] for row in chosen.blocks], Overview(above, chosen.tokens)


def least_trust(memory: Memory, sources: Sequence[int]) -> float:
    """The least trust, in [0, 1], that counts for any of these blocks: 1 for one that is held here, for
    others that of the best provider.
    """
    lens, columns = memory.sync.lens(), memory.own.columns
    least = ONE
    for row in sources:
        if row < columns.length and columns.held[row]:
            continue
        providers = memory.sync.providers.of(row)
        least = min(least, max((int(lens.tau_fx[number]) for number in providers), default=0))
    return least / ONE


def summaries_of(memory: Memory, rows: Sequence[int], texts: dict[int, str]) -> list[SummarySeen]:
    """The summaries and abstracts in these rows, shown or not, with those of `texts` that may be read."""
    found, readable = [], memory.readable()
    for at in rows:
        tier = _tier(memory, at)
        shown = _whole(memory, at, readable)
        found.append(
            SummarySeen(
                block=memory.block_hex(at),
                level=tier.level.name.lower(),
                text=texts.get(at, "") if shown else "",
                sources=[memory.block_hex(source) for source in tier.sources],
                trust=least_trust(memory, tier.sources) if shown else 0.0,
                summariser=tier.summariser,
                shown=shown,
            )
        )
    return found


def above(memory: Memory, row: int) -> list[int]:
    """Rows of the summary and the abstract that a block is a source of."""
    tiers = memory.own.tiers
    summary = tiers.above(row)
    if summary is None:
        return []
    abstract = tiers.abstract_row(summary)
    return [summary] if abstract is None else [abstract, summary]


def summary_named(memory: Memory, block: object) -> int | None:
    """The row of the one summary or abstract whose id begins with `block`, 8 hex digits or more; None where
    none or several do, and for what names nothing.
    """
    text = block.strip().lower() if isinstance(block, str) else ""
    if len(text) < MIN_BLOCK_PREFIX:
        return None
    found = [row for row, _ in memory.own.tiers.items() if memory.block_hex(row).startswith(text)]
    return found[0] if len(found) == 1 else None


def explain_summary(memory: Memory, row: int, texts: dict[int, str], hour: float) -> Explanation:
    """What there is to say of a summary: what it stands for. It has no evidence and nothing of it fades."""
    (seen,) = summaries_of(memory, [row], texts)
    return Explanation(
        block=seen.block,
        text=seen.text,
        status=seen.level,
        held=False,
        tags=[],
        spaces=[],
        alpha=0.0,
        beta=0.0,
        utility=0.5,
        stability_h=0.0,
        difficulty=0.0,
        importance=0.0,
        retrievability=0.0,
        last_event_h=_tier(memory, row).hour,
        hour=hour,
        sources=[],
        contexts={},
        summaries=[seen],
    )


def _whole(memory: Memory, row: int, readable: NDArray[np.bool_]) -> bool:
    return memory.own.tiers.whole(row, lambda source: bool(readable[source]))


def _sole(memory: Memory, sources: Sequence[int]) -> int:
    """The one foreign principal that any of these blocks is known from alone; negative for none."""
    known = memory.effective.rows.sole_principal
    return max((int(known[row]) for row in sources), default=-1)


def _tier(memory: Memory, row: int) -> Tier:
    tier = memory.own.tiers.get(row)
    if tier is None:
        raise LookupError(f"row {row} is no summary")
    return tier
