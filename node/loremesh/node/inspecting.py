"""The use case `explain`: what memory, links and log say of one block, put together."""

from __future__ import annotations

from msgspec import structs

from loremesh.node import neighbours
from loremesh.node.compacting import summed
from loremesh.node.episodes import last_episodes
from loremesh.node.explaining import NameOf, explain
from loremesh.node.finding import Question, look
from loremesh.node.ground import Ground, QueryVector
from loremesh.node.overview import above, explain_summary, summaries_of, summary_named
from loremesh.node.results import Explanation
from loremesh.node.standing import standing
from loremesh.node.using import comparable
from loremesh.node.weighed import Standing


async def inspect(
    ground: Ground, block: str, name_of: NameOf, question: Question | None = None
) -> Explanation:
    """Why a block stands where it stands, and where for a checked question, or what a summary, which answers
    no question, stands for. A read: nothing is logged.

    For a question a block may be named that nobody who counts stands behind. Raises UsageError, UnknownThing.
    """
    query = None if question is None else await ground.query_vector(question.text)

    async def work() -> Explanation:
        await ground.refresh()
        summary = summary_named(ground.memory, block)
        if summary is not None:
            texts = await ground.store.texts([summary])
            return explain_summary(ground.memory, summary, texts, ground.hour())
        row = ground.memory.row_named(block, known=question is None)
        episodes = await last_episodes(ground, row)
        linked, higher = neighbours.neighbours(ground.memory, row), above(ground.memory, row)
        mine = [row] if ground.memory.knows(row) else []
        texts = await ground.store.texts([*mine, *(edge.other for edge, _ in linked), *higher])
        found = explain(ground.memory, row, texts.get(row, ""), ground.hour(), name_of, episodes)
        return structs.replace(
            found,
            neighbours=neighbours.told(ground.memory, row, linked, texts),
            summaries=summaries_of(ground.memory, higher, texts),
            standing=None if question is None else _standing(ground, question, query, row),
            summed=await summed(ground, row),
        )

    return await ground.exclusive(work)


def _standing(ground: Ground, question: Question, query: QueryVector | None, row: int) -> Standing:
    settings, vector = ground.settings.memory, comparable(ground.memory, query)
    seen = look(ground.memory, question, vector, ground.hour_of_use(), backoff=settings.context_backoff)
    return standing(ground.memory, question, seen, row, settings.foreign_share)
