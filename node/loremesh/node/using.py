"""Using the memory: recall hands blocks out, outcomes say how well they worked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.node import evidence
from loremesh.node.companions import held_back
from loremesh.node.errors import Unavailable, UsageError
from loremesh.node.events import EPISODE_BYTES, FrameName, Outcome
from loremesh.node.explaining import NameOf, provenance
from loremesh.node.extract import tokens
from loremesh.node.finding import Question, find, may_be_handed_out
from loremesh.node.frames import weights_of
from loremesh.node.ground import Ground, QueryVector
from loremesh.node.memory import Memory
from loremesh.node.overview import Overview, within_budget
from loremesh.node.ownstate import MAX_EPISODE_BLOCKS
from loremesh.node.results import Hit, OutcomeTaken, Recalled
from loremesh.node.scoping import Scope
from loremesh.node.score import FRAMES, Ranked
from loremesh.sync.limits import Bucket, Meter, drawn, open_again_s

MAX_OUTCOME_BLOCKS: Final = 256
"""Blocks named in one outcome: as many as one recall hands out."""


class OutcomeLimit:
    """Outcomes per hour that this node takes of its own agent: a runaway loop must not flood its peers."""

    def __init__(self, per_hour: int) -> None:
        self._meter = Meter(per_hour / 3600.0, float(per_hour))
        self._per_hour = per_hour
        self._bucket: Bucket | None = None

    def spend(self, outcomes: int, now_s: float) -> None:
        """Raises Unavailable when the hour's outcomes are used up; takes nothing then."""
        until_s = open_again_s(self._bucket, self._meter, now_s)
        if until_s > now_s:
            raise Unavailable(
                f"this node took {self._per_hour} outcomes within an hour",
                f"wait {until_s - now_s:.0f} s, or raise [memory] outcomes_per_hour in config.toml",
            )
        self._bucket = drawn(self._bucket, self._meter, now_s, float(outcomes))


async def recall(
    ground: Ground, question: Question, name_of: NameOf, budget_tokens: int | None = None
) -> Recalled:
    """One episode: the k best blocks for a checked question, or those of them that fit into `budget_tokens`
    beside summaries of the others, logged as handed out. Nothing moves.
    """
    asked, frame = question, question.frame
    if budget_tokens is not None:  # what has no room is looked at too: for the summaries it is in
        asked = msgspec.structs.replace(asked, k=MAX_EPISODE_BLOCKS)
    query = await ground.query_vector(asked.text)

    async def work() -> Recalled:
        hour = ground.tick()
        await ground.refresh()
        memory, settings = ground.memory, ground.settings.memory
        episode = ground.parts.random_bytes(EPISODE_BYTES)

        def ranking(without: int | None = None) -> list[Ranked]:
            return find(
                memory,
                asked,
                comparable(memory, query),
                hour,
                foreign_share=settings.foreign_share,
                backoff=settings.context_backoff,
                without=without,
            )

        async def choosing(without: int | None = None) -> tuple[list[Ranked], Overview | None]:
            ranked = ranking(without)
            if budget_tokens is None:
                return ranked, None
            eligible = may_be_handed_out(memory, asked, without)
            return await within_budget(ground, ranked, budget_tokens, question.k, eligible)

        ranked, overview = await choosing()
        apart = held_back(
            memory.own.episodes.values(), [one.row for one in ranked], episode, settings.diversity
        )
        if apart is not None:
            ranked, overview = await choosing(apart)
        reading = asyncio.ensure_future(ground.store.texts([one.row for one in ranked]))
        hits = evidence.recall_hits(
            ground.clock,
            episode,
            [(one.row, one.score) for one in ranked],
            FrameName[frame.name.upper()] if frame.name in FRAMES else FrameName.OTHER,
            asked.context,
            uniform=settings.retrieval_weights == "uniform",
            frame_name="" if frame.name in FRAMES else frame.name,
        )
        try:
            if hits:
                await ground.record(hits, durable=False)
        finally:
            texts = await reading  # both were given to the store at once: its thread is woken once
        weights = weights_of(frame)
        return Recalled(
            episode=episode.hex(),
            hits=[_hit(ground, one, texts[one.row], name_of, weights, budget_tokens) for one in ranked],
            frame=frame.name,
            context=asked.context,
            weights=weights,
            held_back="" if apart is None else memory.block_hex(apart),
            spaces=_spaces(memory, asked.scope),
            tags=None if asked.scope.tags is None else list(asked.scope.tags),
            above=[] if overview is None else overview.above,
            tokens=0 if overview is None else overview.tokens,
            budget=budget_tokens,
        )

    return await ground.exclusive(work)


def comparable(memory: Memory, query: QueryVector | None) -> NDArray[np.float32] | None:
    """The query's vector, None where the stored ones are another model's by now: they cannot be compared."""
    return query.vector if query is not None and query.model == memory.fingerprint else None


async def outcome_of_episode(
    ground: Ground, limit: OutcomeLimit, episode: str, signal: float, weight: float, context: str | None
) -> OutcomeTaken:
    """The outcome of a recall, for every block it handed out."""
    key = _episode_id(episode)

    async def work() -> OutcomeTaken:
        ground.tick()
        own = ground.memory.own
        made = evidence.outcome_of_episode(own, ground.clock, key, signal, weight, context)
        handed_out = list(own.episodes[key].rows)
        rows = [row for row, _ in made] or handed_out
        taken = await _take(ground, limit, made, rows)
        full = [ground.memory.block_hex(row) for row in handed_out if row not in rows]
        return msgspec.structs.replace(taken, full=full)

    return await ground.exclusive(work)


async def outcome_of_blocks(
    ground: Ground,
    limit: OutcomeLimit,
    blocks: Sequence[str],
    signal: float,
    weight: float,
    context: str,
    *,
    implicit: bool = False,
) -> OutcomeTaken:
    """One outcome for each of these blocks; `implicit` makes it a confirm."""
    if not 1 <= len(blocks) <= MAX_OUTCOME_BLOCKS:
        raise UsageError(f"{len(blocks)} blocks are named", f"name 1 to {MAX_OUTCOME_BLOCKS}")

    async def work() -> OutcomeTaken:
        ground.tick()
        await ground.refresh()
        rows = [ground.memory.row_named(block) for block in blocks]
        together = b"" if implicit else ground.parts.random_bytes(EPISODE_BYTES)
        made = evidence.outcome_of_blocks(
            ground.memory.own, ground.clock, rows, signal, weight, context, implicit, together
        )
        return await _take(ground, limit, made, rows)

    return await ground.exclusive(work)


async def _take(
    ground: Ground, limit: OutcomeLimit, made: Sequence[tuple[int, Outcome]], rows: Sequence[int]
) -> OutcomeTaken:
    if made:
        limit.spend(len(made), ground.parts.monotonic_s())
        await ground.record(made)
        ground.touch(rows)
    return OutcomeTaken(recorded=bool(made), blocks=[ground.memory.block_hex(row) for row in rows])


def _episode_id(text: str) -> bytes:
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) != EPISODE_BYTES:
        raise UsageError(
            f"{text[:80]!r} is no episode id", f"give the {2 * EPISODE_BYTES} hex digits that recall printed"
        )
    return key


def _hit(
    ground: Ground,
    one: Ranked,
    text: str,
    name_of: NameOf,
    weights: dict[str, float],
    budget_tokens: int | None,
) -> Hit:
    parts = msgspec.structs.asdict(one.parts)
    return Hit(
        block=ground.memory.block_hex(one.row),
        text=text,
        score=one.score,
        parts={name: parts[name] for name in weights},
        provenance=provenance(ground.memory, one.row, name_of),
        tags=list(ground.memory.own.tags.get(one.row, ())),
        tokens=0 if budget_tokens is None else tokens(text),
    )


def _spaces(memory: Memory, scope: Scope) -> dict[str, str] | None:
    """The spaces that a recall was limited to, as it states them: name by id."""
    if scope.spaces is None:
        return None
    return {space.hex(): memory.sync.spaces[space].genesis.name for space in scope.spaces}
