"""Worth of real items, and an association without cause: `../shared/data/outcomes/episodes.jsonl`.

1,495 public runs of agents (Reflexion on ALFWorld and WebShop, tau-bench airline): which items were in the
context of a run, on which task, and whether it succeeded. A home per source learns the items and takes each
run through `Node.outcome`, the task as its context; runs without items say nothing of any item. Worth with
its 90 % interval is by `Node.worth`, effects by `Node.attribute`. In the airline's runs the tool
`transfer_to_human_agents` comes with success because there are tasks that are solved by transferring: within
tasks it makes no difference.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import msgspec

from loremesh.node.results import Attributed, WorthSeen
from tests.bench.figures import Figure, Report, table
from tests.bench.worth import whole

DATA: Final = Path(__file__).parents[3] / "shared" / "data" / "outcomes" / "episodes.jsonl"
CASE: Final = "tool:transfer_to_human_agents"
AIRLINE: Final = "tau-bench-airline-gpt4o"
SHOWN: Final = 8
"""Outcomes from which on an item has a line of its own."""


class Run(msgspec.Struct, frozen=True):
    """One run of an agent."""

    source: str
    task: str
    items: list[str]
    success: bool


def read() -> list[Run]:
    """The runs, in order."""
    lines = DATA.read_text(encoding="utf-8").splitlines()
    return [msgspec.convert(json.loads(line), Run) for line in lines]


async def judged(runs: list[Run]) -> tuple[dict[str, WorthSeen], Attributed]:
    """What a home that took these runs says: worth by item, and attribution."""
    items = sorted({item for run in runs for item in run.items})
    number = {item: at for at, item in enumerate(items)}
    async with whole(items) as mind:
        for run in runs:
            blocks = sorted({number[item] for item in run.items})
            if blocks:
                await mind.outcome(blocks, float(run.success), run.task)
        worth = {one.text: one for one in await mind.node.worth()}
        return worth, await mind.node.attribute()


async def measure(scratch: Path) -> Report:
    """Worth by item, and the roles that attribution finds."""
    how = " ".join((__doc__ or "").split())
    if not DATA.exists():
        return Report(
            "Real outcomes", how, [Figure("skipped", f"there is no {DATA.name} in the shared data")]
        )
    runs = read()
    figures = []
    for source in sorted({run.source for run in runs}):
        mine = [run for run in runs if run.source == source]
        if not any(run.items for run in mine):
            continue
        worth, attributed = await judged(mine)
        kinds = Counter(one.kind for one in worth.values())
        said = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        figures.append(Figure(f"{source}: {len(worth)} items, {attributed.episodes} runs with items", said))
        if source != AIRLINE:
            continue
        roles = {one.text: one for one in attributed.found}
        for text, one in sorted(worth.items(), key=lambda named: -named[1].worth):
            if one.alpha + one.beta >= SHOWN and text in roles:
                figures.append(line(text, one, roles[text].effect, roles[text].role))
        case = roles[CASE]
        low, high = case.association[1:]
        figures.append(
            Figure(
                f"{CASE.removeprefix('tool:')}: association, called",
                f"{case.association[0]:+.2f} [{low:+.2f}, {high:+.2f}], {case.role}, "
                f"explained by {case.explained_by or 'nothing'}",
                "without cause",
                case.without_cause and low > 0.0,
            )
        )
    return Report("Real outcomes", how, figures)


def line(text: str, one: WorthSeen, effect: tuple[float, float, float], role: str) -> Figure:
    """One item."""
    return Figure(
        f"{text.removeprefix('tool:')} ({one.alpha + one.beta:.0f})",
        f"worth {one.worth:.2f} [{one.low:.2f}, {one.high:.2f}], corrected {one.corrected:+.2f}, "
        f"effect {effect[0]:+.2f} [{effect[1]:+.2f}, {effect[2]:+.2f}]: {one.kind}, {role}",
    )


if __name__ == "__main__":
    print(table(asyncio.run(measure(Path()))))
    sys.exit(0)
