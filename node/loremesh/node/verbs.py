"""The use cases, in one table: name, what each takes, what it answers, and how it is done.

Every door goes through this table: the command line when it opens a home itself, and the running node's door
when a command (or another program) talks to it. So a bound holds at each door or at none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from loremesh.node.doctoring import CalibrationReport, Reembedded
from loremesh.node.errors import UsageError
from loremesh.node.exchange.lines import ExportedPage, ExportPage, ImportedPage, ImportPage
from loremesh.node.paging import whole_items
from loremesh.node.params import (
    Archive,
    Attribute,
    Compact,
    Confirm,
    Connect,
    Consolidate,
    Deprecate,
    DoctorFit,
    DoctorRecalibrate,
    DueWithin,
    Events,
    Explain,
    Learn,
    LearnMany,
    Nothing,
    OneBlock,
    Outcome,
    Page,
    Params,
    Recall,
    Replay,
    Rescore,
    Restore,
    Revise,
    SpaceCreate,
    SpaceInvite,
    SpaceJoin,
    Summarise,
    TrustRevoke,
    TrustSet,
    Worth,
)
from loremesh.node.results import (
    Attributed,
    Compaction,
    Consolidated,
    DecisionTaken,
    EventSeen,
    Explanation,
    FitReport,
    Forgotten,
    Invited,
    Learned,
    OutcomeTaken,
    PeerSeen,
    Recalled,
    Replayed,
    SpaceSeen,
    Status,
    TrustChange,
    WorthSeen,
)
from loremesh.node.tended import Connected, Due, Rescored, Revised
from loremesh.node.tier_results import Summarised
from loremesh.node.weighed import FrameSeen

if TYPE_CHECKING:  # the doors that only carry a question to a running node need nothing of the node itself
    from loremesh.node.node import Node

Progress = Callable[[int, int], None]
"""Told (done, total) while a long verb works."""

P = TypeVar("P", bound=Params)
R = TypeVar("R")


class Verb(msgspec.Struct, Generic[P, R], frozen=True):
    """One use case. `long` ones may take minutes: a door tells their progress while they work."""

    name: str
    summary: str
    params: type[P]
    result: type[R]
    run: Callable[[Node, P, Progress | None], Awaitable[R]]
    long: bool = False


async def _learn(node: Node, p: Learn, _: Progress | None) -> Learned:
    return await node.learn(p.text, tags=p.tags, share=p.share)


async def _learn_many(node: Node, p: LearnMany, progress: Progress | None) -> list[Learned]:
    return await node.learn_many(p.texts, tags=p.tags, share=p.share, progress=progress)


async def _recall(node: Node, p: Recall, _: Progress | None) -> Recalled:
    return await node.recall(
        p.query,
        frame=p.frame,
        context=p.context,
        k=p.k,
        spaces=p.spaces,
        tags=p.tags,
        graph=p.graph,
        budget_tokens=p.budget,
    )


async def _outcome(node: Node, p: Outcome, _: Progress | None) -> OutcomeTaken:
    if (p.episode is None) == (not p.blocks):
        raise UsageError(
            "an outcome is for an episode or for blocks, and "
            + ("both are" if p.blocks else "neither is")
            + " given",
            "give the episode that recall printed, or the blocks, one of the two",
        )
    return await node.outcome(
        p.signal, episode=p.episode, blocks=p.blocks, weight=p.weight, context=p.context
    )


async def _confirm(node: Node, p: Confirm, _: Progress | None) -> OutcomeTaken:
    return await node.confirm(p.blocks, context=p.context)


async def _consolidate(node: Node, p: Consolidate, progress: Progress | None) -> Consolidated:
    return await node.consolidate(progress, p.limit)


async def _summarise(node: Node, _: Summarise, progress: Progress | None) -> Summarised:
    return await node.summarise(progress)


async def _rescore(node: Node, p: Rescore, progress: Progress | None) -> Rescored:
    return await node.rescore(p.blocks, all_older_than_h=p.all_older_than_h, progress=progress)


async def _connect(node: Node, p: Connect, _: Progress | None) -> Connected:
    return await node.connect(p.block, p.other, weight=p.weight)


async def _due(node: Node, p: DueWithin, _: Progress | None) -> Due:
    found = await node.due(context=p.context, limit=p.limit, horizon_h=p.horizon_h)
    return msgspec.structs.replace(found, blocks=whole_items(found.blocks, p.budget))


async def _explain(node: Node, p: Explain, _: Progress | None) -> Explanation:
    return await node.explain(
        p.block,
        query=p.query,
        frame=p.frame,
        context=p.context,
        k=p.k,
        spaces=p.spaces,
        tags=p.tags,
        graph=p.graph,
    )


async def _events(node: Node, p: Events, _: Progress | None) -> list[EventSeen]:
    return whole_items(await node.events(p.block, limit=p.limit, after=p.after), p.budget)


async def _replay(node: Node, p: Replay, _: Progress | None) -> Replayed:
    return await node.replay(check=p.check, rules=p.rules)


async def _worth(node: Node, p: Worth, _: Progress | None) -> list[WorthSeen]:
    found = await node.worth(
        context=p.context, block=p.block, candidates=p.candidates, limit=p.limit, skip=p.skip
    )
    return whole_items(found, p.budget)


async def _deprecate(node: Node, p: Deprecate, _: Progress | None) -> DecisionTaken:
    return await node.deprecate(p.block, why=p.why)


async def _archive(node: Node, p: Archive, _: Progress | None) -> DecisionTaken:
    return await node.archive(p.block, why=p.why)


async def _revise(node: Node, p: Revise, _: Progress | None) -> Revised:
    return await node.revise(p.block, p.text, why=p.why, tags=p.tags, share=p.share)


async def _restore(node: Node, p: Restore, _: Progress | None) -> DecisionTaken:
    return await node.restore(p.block, why=p.why)


async def _attribute(node: Node, p: Attribute, progress: Progress | None) -> Attributed:
    told = await node.attribute(context=p.context, limit=p.limit, progress=progress)
    return msgspec.structs.replace(told, found=whole_items(told.found, p.budget))


async def _compact(node: Node, p: Compact, progress: Progress | None) -> Compaction:
    return await node.compact(older_h=p.older_h, keep=p.keep, dry_run=p.dry_run, progress=progress)


async def _doctor_fit(node: Node, p: DoctorFit, progress: Progress | None) -> FitReport:
    if p.dry_run and p.revert:
        raise UsageError("dry_run and revert exclude one another", "give one of them, or neither")
    if p.revert:
        return await node.revert_fit()
    return await node.fit(keep=not p.dry_run, progress=progress)


async def _frames(node: Node, p: Page, _: Progress | None) -> list[FrameSeen]:
    return _page(await node.frames(), p)


async def _doctor_recalibrate(
    node: Node, p: DoctorRecalibrate, progress: Progress | None
) -> CalibrationReport:
    if p.dry_run and p.revert:
        raise UsageError("dry_run and revert exclude one another", "give one of them, or neither")
    if p.revert:
        return await node.revert_calibration()
    return await node.recalibrate(keep=not p.dry_run, progress=progress)


async def _doctor_reembed(node: Node, _: Nothing, progress: Progress | None) -> Reembedded:
    return await node.reembed(progress)


async def _forget(node: Node, p: OneBlock, _: Progress | None) -> Forgotten:
    return await node.forget(p.block)


async def _export_page(node: Node, p: ExportPage, _: Progress | None) -> ExportedPage:
    return await node.export_page(p.cursor)


async def _import_page(node: Node, p: ImportPage, _: Progress | None) -> ImportedPage:
    return await node.import_page(p)


async def _peers(node: Node, p: Page, _: Progress | None) -> list[PeerSeen]:
    return _page(await node.peers(), p)


async def _trust_set(node: Node, p: TrustSet, _: Progress | None) -> TrustChange:
    return await node.trust_set(p.peer, p.value, why=p.why)


async def _trust_revoke(node: Node, p: TrustRevoke, _: Progress | None) -> TrustChange:
    return await node.trust_revoke(p.peer, why=p.why)


async def _trust_log(node: Node, p: Page, _: Progress | None) -> list[TrustChange]:
    return _page(await node.trust_log(), p)


async def _space_create(node: Node, p: SpaceCreate, _: Progress | None) -> Invited:
    return await node.space_create(p.name, member_trust=p.member_trust, uses=p.uses)


async def _space_invite(node: Node, p: SpaceInvite, _: Progress | None) -> Invited:
    return await node.space_invite(p.name, uses=p.uses)


async def _space_join(node: Node, p: SpaceJoin, _: Progress | None) -> SpaceSeen:
    return await node.space_join(p.token)


async def _space_list(node: Node, p: Page, _: Progress | None) -> list[SpaceSeen]:
    return _page(await node.spaces(), p)


async def _status(node: Node, _: Nothing, __: Progress | None) -> Status:
    return await node.status()


LEARN: Final = Verb("learn", "Learn one text.", Learn, Learned, _learn)
LEARN_MANY: Final = Verb("learn_many", "Learn many texts.", LearnMany, list[Learned], _learn_many, long=True)
RECALL: Final = Verb("recall", "Find what helps with a question.", Recall, Recalled, _recall)
OUTCOME: Final = Verb("outcome", "Say how well it went.", Outcome, OutcomeTaken, _outcome)
CONFIRM: Final = Verb("confirm", "Say that blocks were used.", Confirm, OutcomeTaken, _confirm)
CONSOLIDATE: Final = Verb(
    "consolidate", "Embed, link and rate what waits.", Consolidate, Consolidated, _consolidate, long=True
)
SUMMARISE: Final = Verb(
    "summarise", "Summarise blocks that belong together.", Summarise, Summarised, _summarise, long=True
)
RESCORE: Final = Verb("rescore", "Ask the rater again.", Rescore, Rescored, _rescore, long=True)
CONNECT: Final = Verb("connect", "Link two blocks.", Connect, Connected, _connect)
DUE: Final = Verb("due", "What is worth keeping and about to fade.", DueWithin, Due, _due)
EXPLAIN: Final = Verb(
    "explain", "A block's numbers by source, and for a question.", Explain, Explanation, _explain
)
EVENTS: Final = Verb("events", "Rows of the log.", Events, list[EventSeen], _events)
REPLAY: Final = Verb("replay", "Fold the log anew.", Replay, Replayed, _replay, long=True)
WORTH: Final = Verb("worth", "What each block's outcomes say of it.", Worth, list[WorthSeen], _worth)
DEPRECATE: Final = Verb("deprecate", "Take a block out of recall.", Deprecate, DecisionTaken, _deprecate)
ARCHIVE: Final = Verb("archive", "Put a block away.", Archive, DecisionTaken, _archive)
REVISE: Final = Verb("revise", "Put a text in a block's place.", Revise, Revised, _revise)
RESTORE: Final = Verb("restore", "Put a block back into recall.", Restore, DecisionTaken, _restore)
ATTRIBUTE: Final = Verb(
    "attribute", "Which blocks make episodes go well.", Attribute, Attributed, _attribute, long=True
)
COMPACT: Final = Verb(
    "compact", "Let old outcomes give way to sums of them.", Compact, Compaction, _compact, long=True
)
DOCTOR_FIT: Final = Verb(
    "doctor_fit", "Fit the forgetting model to the log.", DoctorFit, FitReport, _doctor_fit, long=True
)
FRAMES: Final = Verb("frames", "The frames there are, with their weights.", Page, list[FrameSeen], _frames)
DOCTOR_RECALIBRATE: Final = Verb(
    "doctor_recalibrate",
    "Weigh ratings by later outcomes.",
    DoctorRecalibrate,
    CalibrationReport,
    _doctor_recalibrate,
    long=True,
)
DOCTOR_REEMBED: Final = Verb(
    "doctor_reembed", "Change to the settings' embedder.", Nothing, Reembedded, _doctor_reembed, long=True
)
FORGET: Final = Verb("forget", "Remove a block from this home.", OneBlock, Forgotten, _forget)
EXPORT_PAGE: Final = Verb(
    "export_page",
    "A page of own events, as lines of a file.",
    ExportPage,
    ExportedPage,
    _export_page,
)
IMPORT_PAGE: Final = Verb(
    "import_page", "Take in a page of lines of a file.", ImportPage, ImportedPage, _import_page
)
PEERS: Final = Verb("peers", "The peers known here.", Page, list[PeerSeen], _peers)
TRUST_SET: Final = Verb("trust_set", "Set a peer's trust.", TrustSet, TrustChange, _trust_set)
TRUST_REVOKE: Final = Verb(
    "trust_revoke", "Take a peer's influence out.", TrustRevoke, TrustChange, _trust_revoke
)
TRUST_LOG: Final = Verb("trust_log", "Who was trusted when and why.", Page, list[TrustChange], _trust_log)
SPACE_CREATE: Final = Verb("space_create", "Make a space.", SpaceCreate, Invited, _space_create)
SPACE_INVITE: Final = Verb("space_invite", "Another token for a space.", SpaceInvite, Invited, _space_invite)
SPACE_JOIN: Final = Verb("space_join", "Join a space by its token.", SpaceJoin, SpaceSeen, _space_join)
SPACE_LIST: Final = Verb("space_list", "The spaces this node is in.", Page, list[SpaceSeen], _space_list)
STATUS: Final = Verb("status", "The node at a glance.", Nothing, Status, _status)

VERBS: Final[Mapping[str, Verb[Any, Any]]] = {
    verb.name: verb
    for verb in (
        LEARN,
        LEARN_MANY,
        RECALL,
        OUTCOME,
        CONFIRM,
        CONSOLIDATE,
        RESCORE,
        CONNECT,
        DUE,
        SUMMARISE,
        EXPLAIN,
        EVENTS,
        REPLAY,
        WORTH,
        DEPRECATE,
        ARCHIVE,
        REVISE,
        RESTORE,
        ATTRIBUTE,
        COMPACT,
        DOCTOR_FIT,
        FRAMES,
        DOCTOR_RECALIBRATE,
        DOCTOR_REEMBED,
        FORGET,
        EXPORT_PAGE,
        IMPORT_PAGE,
        PEERS,
        TRUST_SET,
        TRUST_REVOKE,
        TRUST_LOG,
        SPACE_CREATE,
        SPACE_INVITE,
        SPACE_JOIN,
        SPACE_LIST,
        STATUS,
    )
}


def _page(items: Sequence[R], page: Page) -> list[R]:
    return whole_items(items[page.skip : page.skip + page.limit], page.budget)
