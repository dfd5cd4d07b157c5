"""The node: one agent's memory, open. The async API that every door goes through (DESIGN §6)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final

from loremesh.crypto.keystores import KeySource
from loremesh.node import (
    connecting,
    fits,
    forgetting,
    judging,
    learning,
    recalibrating,
    reembedding,
    rehearsing,
    replaying,
    rescoring,
    revising,
    using,
)
from loremesh.node.administering import Administration
from loremesh.node.asking import Asked, items, question, question_or_none
from loremesh.node.columns import Withdrawn
from loremesh.node.compacting import KEEP, GrowthLimit, compact
from loremesh.node.consolidating import consolidate
from loremesh.node.doctoring import CalibrationReport, Reembedded
from loremesh.node.errors import NodeError, UsageError
from loremesh.node.exchange import giving, taking
from loremesh.node.exchange.lines import ExportedPage, ImportedPage, ImportPage
from loremesh.node.founding import key_source, make_home, open_home
from loremesh.node.frames import FrameAsked
from loremesh.node.ground import Ground
from loremesh.node.inspecting import inspect
from loremesh.node.narrating import events_seen
from loremesh.node.overview import checked_budget
from loremesh.node.ownstate import MAX_EPISODE_BLOCKS
from loremesh.node.parts import Parts, Progress
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
from loremesh.node.sharing import Sharing
from loremesh.node.summarising import Summarising
from loremesh.node.tended import Connected, Due, Rescored, Revised
from loremesh.node.tier_results import Summarised
from loremesh.node.upkeep import keep_up
from loremesh.node.weighed import FrameSeen
from loremesh.sync.content import context_label
from loremesh.sync.tasks import end_tasks

MAX_NAME_CHARACTERS: Final = 64
DEFAULT_HITS: Final = 5

NodeContext = AbstractAsyncContextManager["Node"]


class Node:
    """An open home. `Node.create` and `Node.open` give one: `async with Node.open(home) as node`."""

    def __init__(self, ground: Ground, sharing: Sharing) -> None:
        self._ground = ground
        self._sharing = sharing
        self._administration = Administration(ground, sharing)
        self._limit = using.OutcomeLimit(ground.settings.memory.outcomes_per_hour)
        self._summarising = Summarising(ground)
        self._growth = GrowthLimit(ground)
        self._consolidator: asyncio.Task[None] | None = None

    @classmethod
    def create(
        cls,
        home: Path | str,
        *,
        name: str = "",
        source: KeySource | None = None,
        passphrase: str | None = None,
        environ: Mapping[str, str] | None = None,
        parts: Parts | None = None,
    ) -> NodeContext:
        """Make a home in a directory that is empty or not there yet, and open it.

        `source` or `passphrase` gives the master key that seals it; one of them is needed. Raises UsageError,
        StoreError, KeyUnavailable.
        """
        chosen = key_source(source, passphrase)
        if chosen is None:
            raise UsageError("a home needs a key to be sealed with", "give a passphrase or a key source")
        if len(name) > MAX_NAME_CHARACTERS or not name.isprintable() or name != name.strip():
            raise UsageError(
                f"name {name[:80]!a} cannot be used",
                f"give at most {MAX_NAME_CHARACTERS} printable characters without blanks at the ends",
            )
        return _created(Path(home), name, chosen, os.environ if environ is None else environ, parts)

    @classmethod
    def open(
        cls,
        home: Path | str,
        *,
        passphrase: str | None = None,
        source: KeySource | None = None,
        environ: Mapping[str, str] | None = None,
        parts: Parts | None = None,
    ) -> NodeContext:
        """Open a home that is there. Without `source` or `passphrase` the key is where its vault says.

        Raises StoreError (InUse, NotAHome, Damaged …), KeyUnavailable, SettingsError.
        """
        chosen = key_source(source, passphrase)
        return _opened(Path(home), chosen, os.environ if environ is None else environ, parts)

    @property
    def peer_id(self) -> str:
        """This node's id, as peers see it."""
        return self._ground.identity.peer_id

    @property
    def name(self) -> str:
        """What people call this node; '' when they do not."""
        return self._ground.name

    @property
    def home(self) -> Path:
        """The directory it lives in."""
        return self._ground.store.paths.root

    @property
    def ground(self) -> Ground:
        """What the use cases stand on: for tools and tests that look inside."""
        return self._ground

    @property
    def sharing(self) -> Sharing:
        """The node's part in its spaces: for tools and tests that look inside."""
        return self._sharing

    async def learn(self, text: str, *, tags: Sequence[str] = (), share: Sequence[str] = ()) -> Learned:
        """Hold a text. Of a block that is held already only new tags and spaces are added.

        Raises InvalidInput for a text or tag that cannot be, UnknownThing for a space.
        """
        spaces = [self._sharing.space_named(space).space for space in items(share, "share")]
        lessons = [learning.lesson(text)]
        return (await learning.learn(self._ground, lessons, items(tags, "tags"), spaces))[0]

    async def learn_many(
        self,
        texts: Sequence[str],
        *,
        tags: Sequence[str] = (),
        share: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> list[Learned]:
        """Hold many texts, some at a time. All are checked before the first is learned."""
        spaces = [self._sharing.space_named(space).space for space in items(share, "share")]
        given = items(texts, "texts")
        return await learning.learn_many(self._ground, given, items(tags, "tags"), spaces, progress)

    async def recall(
        self,
        query: str,
        *,
        frame: FrameAsked = "attention",
        context: str = "",
        k: int | None = None,
        spaces: Sequence[str] | None = None,
        tags: Sequence[str] | None = None,
        graph: float | None = None,
        budget_tokens: int | None = None,
    ) -> Recalled:
        """The k best blocks for a query, 5 unless given, as one episode. Reading is not evidence: nothing
        moves.

        `frame`: a name that `frames` lists, or a mixture, {"task": 0.7, "self": 0.3} or "task=0.7,self=0.3".
        `spaces` (names or ids) and `tags` limit what is handed out to blocks in any of these spaces, with any
        of these tags; an empty list means none. Raises UnknownThing for a space that this node is not in.
        `graph`: weight of what the best blocks lend to those linked to them; the frame's own unless given.
        With `budget_tokens`, abstracts and summaries of what does not fit, and blocks, `k` at most, that fit
        into it together (`extract.tokens`). Only the blocks are in the episode.
        """
        if budget_tokens is not None:
            checked_budget(budget_tokens)
        if k is None:
            k = DEFAULT_HITS if budget_tokens is None else MAX_EPISODE_BLOCKS
        asked = Asked(frame, context, k, spaces, tags, graph)
        put = question(self._ground, self._sharing.spaces_named, query, asked)
        return await using.recall(self._ground, put, self._administration.name_of, budget_tokens)

    async def frames(self) -> list[FrameSeen]:
        """The frames that recall can be asked in: the four, the preset, and own ones of `config.toml`."""
        return self._ground.frames.seen()

    async def outcome(
        self,
        signal: float,
        *,
        episode: str | None = None,
        blocks: Sequence[str] = (),
        weight: float = 1.0,
        context: str | None = None,
    ) -> OutcomeTaken:
        """How well it worked, from 0 to 1: of an episode, or of blocks by id.

        `context` is the episode's own unless given. The same outcome of an episode again is a no-op, another
        one raises Conflict.
        """
        if (episode is None) == (not blocks):
            raise UsageError(
                "an outcome is of an episode or of blocks", "give --episode or --block, one of them"
            )
        if episode is not None:
            return await using.outcome_of_episode(self._ground, self._limit, episode, signal, weight, context)
        label = context_label(context or "")
        named = items(blocks, "blocks")
        return await using.outcome_of_blocks(self._ground, self._limit, named, signal, weight, label)

    async def confirm(self, blocks: Sequence[str], *, context: str = "") -> OutcomeTaken:
        """These blocks were of use, though nobody judged: a good outcome of small weight."""
        weight, label = self._ground.settings.memory.confirm_weight, context_label(context)
        named = items(blocks, "blocks")
        return await using.outcome_of_blocks(
            self._ground, self._limit, named, 1.0, weight, label, implicit=True
        )

    async def consolidate(self, progress: Progress | None = None, limit: int | None = None) -> Consolidated:
        """Embed and rate what was learned since. Resumable; what is done stays. Raises EmbedderError."""
        done = await consolidate(self._ground, progress, limit)
        await self._ground.checkpoint_if_due()
        return done

    async def summarise(self, progress: Progress | None = None) -> Summarised:
        """Bring summaries and abstracts up to date. Resumable; what is done stays."""
        done = await self._summarising.run(progress)
        await self._ground.checkpoint_if_due()
        return done

    async def rescore(
        self,
        blocks: Sequence[str] = (),
        *,
        all_older_than_h: float | None = None,
        progress: Progress | None = None,
    ) -> Rescored:
        """Ask the rater again about these blocks, or about all whose last rating is older than so many active
        hours. Added to what is there, never overwritten.
        """
        return await rescoring.rescore(self._ground, items(blocks, "blocks"), all_older_than_h, progress)

    async def connect(self, block: str, other: str, *, weight: float = 1.0) -> Connected:
        """Link two blocks by hand; weight 0 takes the link away and keeps them apart."""
        return await connecting.connect(self._ground, block, other, weight)

    async def due(
        self, *, context: str = "", limit: int = 20, horizon_h: float = rehearsing.HORIZON_H
    ) -> Due:
        """What is worth keeping and about to fade within so many active hours; reading it moves nothing."""
        return await rehearsing.due(self._ground, rehearsing.Asked(context, limit, horizon_h))

    async def explain(
        self,
        block: str,
        *,
        query: str | None = None,
        frame: FrameAsked = "attention",
        context: str = "",
        k: int = 5,
        spaces: Sequence[str] | None = None,
        tags: Sequence[str] | None = None,
        graph: float | None = None,
    ) -> Explanation:
        """Why a block stands where it stands, by source; with a `query`, where it stands for that one.

        The query is asked as `recall` would ask it, but opens no episode and nothing is logged. With one, a
        block may be named that is here and that nobody who counts stands behind.
        """
        asked = Asked(frame, context, k, spaces, tags, graph)
        put = question_or_none(self._ground, self._sharing.spaces_named, query, asked)
        return await inspect(self._ground, block, self._administration.name_of, put)

    async def events(self, block: str | None = None, *, limit: int = 200, after: int = 0) -> list[EventSeen]:
        """The log as people read it, of one block or all of it: at most `limit` rows behind row `after`."""
        return await events_seen(self._ground, block, limit, after)

    async def replay(self, *, check: bool = False, rules: str | None = None) -> Replayed:
        """Fold the log again: prove that it is what is in use, or see what other rules would say."""
        return await replaying.replay(self._ground, check=check, rules=rules)

    async def worth(
        self,
        *,
        context: str | None = None,
        block: str | None = None,
        candidates: bool = False,
        limit: int = 1_000,
        skip: int = 0,
    ) -> list[WorthSeen]:
        """What first-hand outcomes say of the blocks: in one context or in all, or of one block by context.

        `candidates`: only those that deprecating or restoring is proposed for. Best first.
        """
        return await judging.worth(self._ground, judging.Asked(context, block, candidates, limit, skip))

    async def deprecate(self, block: str, *, why: str) -> DecisionTaken:
        """Take a block out of recall; its log and its evidence stay, and `restore` brings it back."""
        return await judging.decide(self._ground, block, Withdrawn.DEPRECATED, why)

    async def archive(self, block: str, *, why: str = "") -> DecisionTaken:
        """Put a block away: as `deprecate`, but nothing is said against it."""
        return await judging.decide(self._ground, block, Withdrawn.ARCHIVED, why)

    async def restore(self, block: str, *, why: str = "") -> DecisionTaken:
        """Put a block back into recall that was deprecated, archived or revised."""
        return await judging.decide(self._ground, block, Withdrawn.NO, why)

    async def revise(
        self,
        block: str,
        text: str,
        *,
        why: str = "",
        tags: Sequence[str] | None = None,
        share: Sequence[str] | None = None,
    ) -> Revised:
        """Put a text in the place of a block, which leaves recall and keeps its log and evidence.

        The new block starts from the old one's mean at a small mass, and has its tags and spaces unless
        others are given. Raises UsageError for the same text, Conflict for a block that was revised already.
        """
        spaces = None
        if share is not None:
            spaces = [self._sharing.space_named(space).space for space in items(share, "share")]
        given = None if tags is None else items(tags, "tags")
        return await revising.revise(self._ground, block, text, why, given, spaces)

    async def attribute(
        self, *, context: str | None = None, limit: int = 1_000, progress: Progress | None = None
    ) -> Attributed:
        """Which blocks make episodes go well: regression of outcomes on who was present and the context."""
        return await judging.attributed(self._ground, context, limit, progress)

    async def compact(
        self,
        *,
        older_h: float = 0.0,
        keep: int = KEEP,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Compaction:
        """Let outcomes and recalls give way to sums that keep every number; the last `keep` of each block
        stay, and those of the last `older_h` active hours.
        """
        return await compact(self._ground, older_h=older_h, keep=keep, dry_run=dry_run, progress=progress)

    async def fit(self, *, keep: bool = True, progress: Progress | None = None) -> FitReport:
        """Fit the forgetting model's weights to this home's log; used if later events bear them out."""
        return await fits.fit_rules(self._ground, keep=keep, progress=progress)

    async def revert_fit(self) -> FitReport:
        """Go back to the published weights, as if none had ever been fitted. Raises UsageError for none."""
        return await fits.revert_fit(self._ground)

    async def recalibrate(self, *, keep: bool = True, progress: Progress | None = None) -> CalibrationReport:
        """Weigh each rater's ratings by what came of the blocks it rated, if later outcomes bear it out."""
        return await recalibrating.recalibrate(self._ground, keep=keep, progress=progress)

    async def revert_calibration(self) -> CalibrationReport:
        """Let every rater's ratings count as stated again. Raises UsageError when they do."""
        return await recalibrating.revert_calibration(self._ground)

    async def reembed(self, progress: Progress | None = None) -> Reembedded:
        """Make all vectors anew with the embedder that the settings name now. Resumable; until it is done
        recall goes on with the old ones. Raises EmbedderError, Conflict.
        """
        done = await reembedding.reembed(self._ground, progress)
        await self._ground.checkpoint_if_due()
        return done

    async def forget(self, block: str) -> Forgotten:
        """Destroy a block here: key, text, vector, events, and its rows in frames."""
        return await forgetting.forget(self._ground, block)

    async def export_page(self, cursor: str = "") -> ExportedPage:
        """A page of what this home's own events made; `exchange.files.export_to` writes a file of them."""
        return await giving.export_page(self._ground, cursor)

    async def import_page(self, page: ImportPage) -> ImportedPage:
        """Take in a page of a file; `exchange.files.import_from` reads one. What is here adds nothing."""
        return await taking.import_page(self._ground, page)

    async def peers(self) -> list[PeerSeen]:
        """Every peer seen, trusted or not."""
        return await self._administration.peers()

    async def trust_set(self, peer: str, value: float, *, why: str = "") -> TrustChange:
        """Trust a peer, from 0 to 1. Afterwards every number is what it would be had it always been so."""
        return await self._administration.set_trust(peer, value, why)

    async def trust_revoke(self, peer: str, *, why: str = "") -> TrustChange:
        """Take a peer's influence back out, exactly."""
        return await self._administration.revoke(peer, why)

    async def trust_log(self) -> list[TrustChange]:
        """Every change of trust, oldest first."""
        return await self._administration.trust_log()

    async def space_create(self, name: str, *, member_trust: float = 0.5, uses: int = 1) -> Invited:
        """Found a space and make its first token."""
        return await self._sharing.create(name, member_trust, uses)

    async def space_invite(self, name: str, *, uses: int = 1) -> Invited:
        """Another token for a space that this node administers."""
        return await self._sharing.invite(name, uses)

    async def space_join(self, token: str) -> SpaceSeen:
        """Enter the space of a token."""
        return await self._sharing.join(token)

    async def spaces(self) -> list[SpaceSeen]:
        """The spaces this node is in."""
        return self._sharing.spaces()

    async def status(self) -> Status:
        """The node at a glance."""
        return await self._administration.status(self._consolidator is not None)

    async def start(self, *, nats: str | None = None, embedded: bool | None = None) -> None:
        """Be up: connect to the buses (starting this home's own, where it has one), publish, take in what
        comes, consolidate. Raises BusUnconfigured, ServerError.
        """
        if self._consolidator is not None:
            raise NodeError("the node is up already", "stop it first")
        try:
            await self._sharing.start(nats, embedded)
        except BaseException:
            await self._sharing.stop()
            raise
        summarise, trouble = self._summarising.run_if_due, self._administration.note_trouble
        upkeep = keep_up(self._ground, self._growth.keep, summarise, trouble)
        self._consolidator = asyncio.create_task(upkeep, name="consolidator")

    async def stop(self) -> None:
        """End what `start` began. The home stays open."""
        consolidator, self._consolidator = self._consolidator, None
        if consolidator is not None:
            await end_tasks([consolidator])
        await self._sharing.stop()

    async def settle(self) -> None:
        """Publish what is pending and wait until the buses have it. Raises Unavailable."""
        await self._sharing.settle()

    async def close(self) -> None:
        """Stop, write the checkpoint, and give the home up."""
        try:
            await self.stop()
            await self._growth.keep_quietly()
        finally:
            await self._ground.close()


@asynccontextmanager
async def _created(
    home: Path, name: str, source: KeySource, environ: Mapping[str, str], parts: Parts | None
) -> AsyncIterator[Node]:
    await make_home(home, name, source, environ, parts)
    async with _opened(home, source, environ, parts) as node:
        yield node


@asynccontextmanager
async def _opened(
    home: Path, source: KeySource | None, environ: Mapping[str, str], parts: Parts | None
) -> AsyncIterator[Node]:
    node = Node(*await open_home(home, source, environ, parts))
    try:
        yield node
    finally:
        await node.close()
