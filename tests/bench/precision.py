"""What must be found and what must not: `../shared/data/precisionmembench`, 35 beliefs and 77 cases.

Through `Node`, with the default embedder. A user is a home. A belief is a block; its scopes are its tags,
to which recall is limited. One that superseded another is that one's `revise`; one that was resolved is
deprecated. Beliefs were extracted a day apart, so that none is learned in another's train of thought. The
turns of the set's two sessions are asked as cases, too, without the turns before them.

Must-not, over all that recall hands out however large k is: blocks of another user, out of scope,
superseded, resolved. Of the ids that cases exclude by name, those are listed that none of these decides.
Must: the ids that a case wants among the relevant ones, by the share that is among the first 5 hits, and
among as many hits as are wanted (R). The set's own system searches names and aliases, so there are two
arms: the content alone, and with the aliases in the text. Pins and lists by type are what this memory has
not: they are told and not judged.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from loremesh.node.compose import real_parts
from loremesh.node.node import Node
from loremesh.node.settings import Settings
from tests.bench.figures import Figure, Report, table
from tests.bench.homes import PASSPHRASE

DATA: Final = Path(__file__).parents[3] / "shared" / "data" / "precisionmembench"
DAY_MS: Final = 86_400_000
K: Final = 5
EVERYTHING: Final = 256


class Belief(msgspec.Struct, frozen=True):
    """A belief of the data set, as far as it is used."""

    id: str = msgspec.field(name="_id")
    user_id: str
    aliases: list[str]
    content: str
    scope: list[str]
    epistemic_status: str
    superseded_by: str | None
    resolved_at: str | None

    def text(self, aliases: bool) -> str:
        """What is learned of it."""
        return (
            f"{self.content} (also: {', '.join(self.aliases)})" if aliases and self.aliases else self.content
        )


class Case(msgspec.Struct, frozen=True):
    """A question in a scope: what should be found, what must not, and what pins and lists by type would
    give.
    """

    name: str
    category: str
    user: str
    scope: list[str]
    query: str
    must: list[str]
    elsewhere: list[str]
    excluded: list[str]
    noise: list[str]


class Tally(msgspec.Struct):
    """What all cases came to. `wrong`: hits that must not be, by what forbids them; lists are by case."""

    wrong: dict[str, int] = msgspec.field(default_factory=lambda: defaultdict(int))
    unlimited: int = 0
    first: dict[str, list[float]] = msgspec.field(default_factory=lambda: defaultdict(list))
    exact: list[float] = msgspec.field(default_factory=list)
    missed: list[str] = msgspec.field(default_factory=list)
    named: int = 0
    named_seen: list[str] = msgspec.field(default_factory=list)
    noise: list[int] = msgspec.field(default_factory=list)
    nothing: int = 0
    elsewhere: list[float] = msgspec.field(default_factory=list)


def beliefs() -> dict[str, Belief]:
    """The beliefs by id."""
    raw = json.loads((DATA / "beliefs.seed.json").read_text(encoding="utf-8"))
    return {one.id: one for one in msgspec.convert(raw, list[Belief])}


def cases() -> list[Case]:
    """The cases, and the turns of the sessions as cases of their own."""
    found = [
        _case(raw["caseId"], raw["category"], raw, raw["query"], raw.get("userId", "test-user"))
        for raw in json.loads((DATA / "retrieval.cases.json").read_text(encoding="utf-8"))
    ]
    for raw in json.loads((DATA / "session-retrieval.cases.json").read_text(encoding="utf-8")):
        for turn in raw["turns"]:
            name = f"{raw['caseId']}/{turn['turnIndex']}"
            found.append(_case(name, "Sessions", turn, turn["userMessage"], "test-user"))
    return found


def _case(
    name: str, category: str, raw: dict[str, dict[str, dict[str, list[str]]]], query: str, user: str
) -> Case:
    expect = raw["expect"]

    def ids(part: str, field: str) -> list[str]:
        return list(expect.get(part, {}).get(field, []))

    lists = ("relevantBeliefs", "pinnedFacts", "openQuestions")
    return Case(
        name=name,
        category=category,
        user=user,
        scope=list(raw["scope"]),
        query=query,
        must=ids("relevantBeliefs", "shouldOnlyInclude"),
        elsewhere=[one for part in lists[1:] for one in ids(part, "mustInclude")],
        excluded=[one for part in lists for one in ids(part, "mustExclude")],
        noise=ids("noiseCheck", "mustNotSurface"),
    )


def forbidden(belief: Belief, case: Case, known: dict[str, Belief]) -> str:
    """What keeps a belief out of a case's answer: '' when nothing does."""
    if belief.user_id != case.user:
        return "another user's"
    if belief.epistemic_status == "superseded" or belief.superseded_by in known:
        return "superseded"
    if belief.resolved_at is not None:
        return "resolved"
    return "" if set(belief.scope) & set(case.scope) else "out of scope"


async def teach(node: Node, mine: Sequence[Belief], aliases: bool, clock: list[int]) -> dict[str, str]:
    """Learn, revise and deprecate the beliefs of a user; belief ids by block id."""
    block: dict[str, str] = {}
    replaced = {one.superseded_by: one for one in mine if one.superseded_by}

    async def hold(one: Belief) -> None:
        if one.id in block:
            return
        old = replaced.get(one.id)
        if old is not None:
            await hold(old)
        clock[0] += DAY_MS
        if old is None:
            block[one.id] = (await node.learn(one.text(aliases), tags=one.scope)).block
        else:
            revised = await node.revise(block[old.id], one.text(aliases), why="superseded", tags=one.scope)
            block[one.id] = revised.block
        if one.resolved_at is not None:
            await node.deprecate(block[one.id], why="resolved")

    for one in mine:
        await hold(one)
    await node.consolidate()
    return {block_id: belief for belief, block_id in block.items()}


async def judge(aliases: bool) -> Tally:
    """All cases, each in its user's home."""
    known, asked, tally = beliefs(), cases(), Tally()
    clock = [1_760_000_000_000]
    parts = msgspec.structs.replace(real_parts(Settings(), {}), now_ms=lambda: clock[0])
    with tempfile.TemporaryDirectory(prefix="loremesh-bench-") as scratch:
        for user in sorted({one.user for one in asked} | {one.user_id for one in known.values()}):
            mine = [one for one in known.values() if one.user_id == user]
            async with Node.create(Path(scratch) / user, passphrase=PASSPHRASE, parts=parts) as node:
                names = await teach(node, mine, aliases, clock)
                for case in (one for one in asked if one.user == user):
                    found = await node.recall(case.query, tags=case.scope, k=EVERYTHING)
                    assert found.tags == case.scope, case.name
                    hits = [names[hit.block] for hit in found.hits]
                    take(tally, case, hits, known)
                    free = [names[hit.block] for hit in (await node.recall(case.query, k=K)).hits]
                    tally.unlimited += sum(
                        forbidden(known[one], case, known) == "out of scope" for one in free
                    )
    return tally


def take(tally: Tally, case: Case, hits: Sequence[str], known: dict[str, Belief]) -> None:
    """Count one answer, all of it and its first K."""
    for one in hits:
        if why := forbidden(known[one], case, known):
            tally.wrong[why] += 1
    first = hits[:K]
    excluded = [one for one in case.excluded if one in known]
    tally.named += len(excluded)
    for one in excluded:
        if one in first:
            tally.named_seen.append(f"{one} in {case.name}")
    if case.noise:
        tally.noise.append(sum(one in first for one in case.noise))
    must = [one for one in case.must if one in known]
    if must:
        share = sum(one in first for one in must) / min(len(must), K)
        tally.first[case.category].append(share)
        tally.exact.append(sum(one in hits[: len(must)] for one in must) / len(must))
        if share < 1.0:
            tally.missed.append(case.name)
    elif hits:
        tally.nothing += 1
    if case.elsewhere and case.query.strip():
        tally.elsewhere.append(float(np.mean([one in first for one in case.elsewhere])))


KINDS: Final = ("another user's", "out of scope", "superseded", "resolved")


async def measure(scratch: Path) -> Report:
    """Both arms."""
    how = " ".join((__doc__ or "").split())
    if not DATA.exists():
        return Report(
            "Precision: must and must not",
            how,
            [Figure("skipped", f"there is no {DATA.name} in the shared data")],
        )
    figures = []
    for aliases in (False, True):
        arm = "with aliases" if aliases else "content alone"
        tally = await judge(aliases)
        figures += figures_of(tally, arm)
    return Report("Precision: must and must not", how, figures)


def figures_of(tally: Tally, arm: str) -> list[Figure]:
    """One arm."""
    figures = [
        Figure(f"{arm}: must-not handed out, {kind}", str(tally.wrong[kind]), "0", tally.wrong[kind] == 0)
        for kind in KINDS
    ]
    shares = [share for some in tally.first.values() for share in some]
    figures += [
        Figure(f"{arm}: the same without a limit: out of scope among the first {K}", str(tally.unlimited)),
        Figure(
            f"{arm}: excluded by name, among the first {K}",
            f"{len(tally.named_seen)} of {tally.named}"
            + (f" ({'; '.join(tally.named_seen)})" if tally.named_seen else ""),
        ),
        Figure(f"{arm}: must, share among the first {K}, {len(shares)} cases", f"{np.mean(shares):.3f}"),
        Figure(f"{arm}: must, share among as many hits (R)", f"{np.mean(tally.exact):.3f}"),
    ]
    figures += [
        Figure(f"{arm}: {category} ({len(some)})", f"{np.mean(some):.3f}")
        for category, some in sorted(tally.first.items())
    ]
    figures += [
        Figure(
            f"{arm}: cases with a must that is not among the first {K}", ", ".join(tally.missed) or "none"
        ),
        Figure(f"{arm}: cases that want nothing relevant, and get the best all the same", str(tally.nothing)),
        Figure(
            f"{arm}: pinned and open questions wanted, share among the first {K}",
            f"{np.mean(tally.elsewhere):.3f}",
        ),
        Figure(f"{arm}: noise named in sessions, hits of {K}, by turn", ", ".join(map(str, tally.noise))),
    ]
    return figures


if __name__ == "__main__":
    print(table(asyncio.run(measure(Path()))))
    sys.exit(0)
