"""What the memory's verbs answer: frozen values that every door renders as they are.

Block and space ids are hex, peers are peer ids, evidence is in plain numbers (not fixed point), times are
active hours unless the name ends in `_ms` (milliseconds since 1970, UTC).
"""

from __future__ import annotations

import msgspec

from loremesh.node.tier_results import Above, SummarySeen
from loremesh.node.weighed import Standing


class Learned(msgspec.Struct, frozen=True):
    """`created` is false when the block was already held: nothing but tags and spaces was added.

    `withdrawn`: how it is out of recall (deprecated, archived, superseded), '' when it is in.
    `superseded_by`: the block that stands in its place, '' when none does.
    """

    block: str
    created: bool
    withdrawn: str = ""
    superseded_by: str = ""


class Hit(msgspec.Struct, frozen=True):
    """One block handed out by a recall; `parts` are the unweighted terms of the score, each in [0, 1].

    `tokens`: what it was counted with against a budget, 0 without one.
    """

    block: str
    text: str
    score: float
    parts: dict[str, float]
    provenance: list[Provenance]
    tags: list[str] = []
    tokens: int = 0


class Provenance(msgspec.Struct, frozen=True):
    """Who stands behind a block: `source` is "self" or a peer id, `trust` in [0, 1] counts today."""

    source: str
    name: str
    trust: float
    space: str = ""


class Recalled(msgspec.Struct, frozen=True):
    """One episode: the hits, best first, and the weights their terms were summed with.

    `held_back`: a block that would be among them but was left out this time, because it always comes with
    one of them and outcomes are to tell the two apart. `spaces` (name by id) and `tags`: what the recall was
    limited to, null where it was not; an empty limit has no hits.
    `above`: with a `budget` of tokens, summaries and abstracts, those that stand for most first; `tokens` is
    what all comes to.
    """

    episode: str
    hits: list[Hit]
    frame: str
    context: str
    weights: dict[str, float]
    held_back: str = ""
    spaces: dict[str, str] | None = None
    tags: list[str] | None = None
    above: list[Above] = []
    tokens: int = 0
    budget: int | None = None


class OutcomeTaken(msgspec.Struct, frozen=True):
    """`recorded` is false when the episode already had this very outcome.

    `full`: blocks of the episode whose register holds no more (64 contexts, 2²⁰ outcomes), left out.
    """

    recorded: bool
    blocks: list[str]
    full: list[str] = []


class Consolidated(msgspec.Struct, frozen=True):
    """How many blocks were embedded, rated, and left unrated because the rater gave no answer: `why` not.

    `linked`: links that were proposed between blocks.
    """

    embedded: int
    rated: int
    unrated: int
    waiting: int
    why: str = ""
    linked: int = 0


class Neighbour(msgspec.Struct, frozen=True):
    """A block that another is linked to: `weight` today, `base` as the link was made, both in [0, 1].

    `kind`: "by hand", or "similar" where similarity proposed it. `similarity`: cosine, None where an end has
    no vector. `text` is its beginning.
    """

    block: str
    weight: float
    base: float
    kind: str
    similarity: float | None
    text: str


class SourceClaim(msgspec.Struct, frozen=True):
    """Evidence by source: raw claim in alpha and beta, what of it counts today in counted_*.

    Of ratings `name` is the rater, and `trust` its weight, which may be above 1 (`doctor recalibrate`).
    """

    source: str
    name: str
    trust: float
    alpha: float
    beta: float
    stability_h: float
    counted_alpha: float
    counted_beta: float


class Explanation(msgspec.Struct, frozen=True):
    """A block's effective numbers and where they come from. `alpha` and `beta` are effective.

    `utility` lies between `utility_low` and `utility_high` with the probability `credible`, and so does worth
    in each context by `context_intervals`. `to_90_h`, `to_50_h`: active hours until retrievability falls to
    0.9 and to 0.5 if nothing happens (0: it is there already; null: not within a hundred years); `curve`:
    (hours ahead, retrievability) by the rules in use. `episodes`: the last ones, newest first.
    `decision`: the last one about it that holds. `superseded_by` stands in its place; of those in
    `supersedes` it stands in the place itself.
    `neighbours`: blocks it is linked to that can be recalled, strongest first, 16 at most.
    `standing`: where it stands for a question, if one was given.
    `summed`: what gave way to a sum; null for none.
    """

    block: str
    text: str
    status: str
    held: bool
    tags: list[str]
    spaces: list[str]
    alpha: float
    beta: float
    utility: float
    stability_h: float
    difficulty: float
    importance: float
    retrievability: float
    last_event_h: float
    hour: float
    sources: list[SourceClaim]
    contexts: dict[str, tuple[float, float]]
    decision: DecisionSeen | None = None
    superseded_by: str = ""
    supersedes: list[str] = []
    utility_low: float = 0.0
    utility_high: float = 1.0
    credible: float = 0.0
    context_intervals: dict[str, tuple[float, float]] = {}
    to_90_h: float | None = None
    to_50_h: float | None = None
    curve: list[tuple[float, float]] = []
    episodes: list[EpisodeSeen] = []
    neighbours: list[Neighbour] = []
    standing: Standing | None = None
    summaries: list[SummarySeen] = []
    summed: Summed | None = None


class Summed(msgspec.Struct, frozen=True):
    """Outcomes and recalls of a block up to `to_ms`, most of which are there in sum only."""

    outcomes: int
    recalls: int
    from_ms: int
    to_ms: int


class EpisodeSeen(msgspec.Struct, frozen=True):
    """One use of a block: a recall that handed it out, or an outcome that named it (`frame` '' then).

    `signal` is null while nobody has judged it; `implicit`: a confirm. `companions`: other blocks of the same
    episode that are still here.
    """

    episode: str
    hour: float
    wall_ms: int
    context: str
    frame: str
    signal: float | None
    weight: float
    implicit: bool
    companions: int


class DecisionSeen(msgspec.Struct, frozen=True):
    """The decision about a block that holds: how it is out of recall ('': it was brought back), why, by
    whom, when.
    """

    withdrawn: str
    why: str
    who: str
    hour: float
    wall_ms: int


class PeerSeen(msgspec.Struct, frozen=True):
    """A peer as seen from here. `behind` counts frames known to exist that are not held yet."""

    peer: str
    name: str
    trust: float
    state: str
    behind: int
    spaces: list[str]
    principal: str
    registers: int
    blocks: int
    outcomes: dict[str, int]


class TrustChange(msgspec.Struct, frozen=True):
    """One line of the trust log: who set what for whom, when and why."""

    peer: str
    trust: float
    revoked: bool
    why: str
    who: str
    wall_ms: int
    hour: float


class SpaceSeen(msgspec.Struct, frozen=True):
    """A space this node is in."""

    space: str
    name: str
    member_trust: float
    members: int
    administrator: bool
    server: str
    state: str


class Invited(msgspec.Struct, frozen=True):
    """A token admits one principal to the space; it is a secret: whoever has it can join."""

    space: str
    token: str


class EventSeen(msgspec.Struct, frozen=True):
    """One row of the log as a person reads it; `block` is empty for events that concern none."""

    n: int
    kind: str
    block: str
    hour: float
    wall_ms: int
    detail: dict[str, str | int | float | bool | list[str | float] | None]


class Moved(msgspec.Struct, frozen=True):
    """A block whose rank by value (utility × retrievability) is not the same under other rules."""

    block: str
    text: str
    rank: int
    rank_under_rules: int
    stability_h: float
    stability_h_under_rules: float
    utility: float = 0.5
    utility_under_rules: float = 0.5
    retrievability: float = 0.0
    retrievability_under_rules: float = 0.0


class Replayed(msgspec.Struct, frozen=True):
    """What `replay` found. `faults` is empty when the log, the columns and the registers agree.

    `ranked`: blocks ranked under both rule sets; `elsewhere` of them have another rank, and `moved` lists
    those that moved furthest. `rank_correlation` is Spearman's, over all. `aggregates`: blocks whose earlier
    outcomes are there in sum only, `aggregated`: how many events these sums stand for; under other rules such
    a block goes on from the S and D in its sum.
    """

    ok: bool
    rows: int
    own_events: int
    frames: int
    pruned: int
    forgotten: int
    faults: list[str]
    rules: str
    moved: list[Moved]
    digest: str
    ranked: int = 0
    elsewhere: int = 0
    rank_correlation: float = 1.0
    aggregates: int = 0
    aggregated: int = 0


class FitReport(msgspec.Struct, frozen=True):
    """What a fit of the forgetting model's weights found, and whether it is in use now.

    Losses are log losses in nats per held-out outcome, `loss_of_mean` that of always forecasting the mean.
    `gain_at_least`: lower 95 % bound of what is won. `why` says it in words. `aggregates`: blocks that begin
    with a sum of earlier outcomes, at the S and D of it.
    """

    rules: str
    kept: bool
    reverted: bool
    why: str
    weights: list[float]
    weights_before: list[float] = []
    trained: int = 0
    held_out: int = 0
    blocks: int = 0
    loss_before: float = 0.0
    loss_after: float = 0.0
    loss_of_mean: float = 0.0
    gain: float = 0.0
    gain_at_least: float = 0.0
    aggregates: int = 0


class Compaction(msgspec.Struct, frozen=True):
    """What compaction did, or with `dry_run` would do.

    `aggregated` outcomes and recalls of `blocks` blocks gave way to aggregates. Rows are own events about
    blocks that are left to read, `most_*` those of the block that has the most; bytes are those of the
    database on disk (of a dry run: about, by the rows alone). `uneven`: blocks left alone because the log
    says something else than what is in use. `note`: what is lost with the rows.
    """

    dry_run: bool
    blocks: int
    aggregated: int
    rows_before: int
    rows_after: int
    most_before: int
    most_after: int
    bytes_before: int
    bytes_after: int
    uneven: int = 0
    note: str = ""


class WorthSeen(msgspec.Struct, frozen=True):
    """A block's worth: what its own first-hand outcomes say, in one context or in all (`context` null).

    `alpha` and `beta` are outcomes for and against; every pair of low and high holds with 90 %. `recent*` is
    the recent window, and `trend` says whether it is apart from the rest: falling, rising, steady. `expected`
    is what others come to where the block was used, `corrected` worth less that; `compared` is false where
    hardly anything else was used there. `kind`: high-value, uncertain, mixed, low-value. `proposal`:
    deprecate, restore, or nothing. `withdrawn`: how it is out of recall, '' when it is in.
    """

    block: str
    text: str
    context: str | None
    alpha: float = 0.0
    beta: float = 0.0
    worth: float = 0.5
    low: float = 0.0
    high: float = 1.0
    recent: float = 0.5
    recent_low: float = 0.0
    recent_high: float = 1.0
    trend: str = "steady"
    expected: float = 0.5
    corrected: float = 0.0
    corrected_low: float = -0.5
    corrected_high: float = 0.5
    compared: bool = False
    kind: str = "uncertain"
    withdrawn: str = ""
    proposal: str = ""


class DecisionTaken(msgspec.Struct, frozen=True):
    """How the block is out of recall now (archived, deprecated; '': it is not), and whether that is news."""

    block: str
    withdrawn: str
    changed: bool


class BlockAttributed(msgspec.Struct, frozen=True):
    """What a block is to the outcomes of its episodes: differences in success, each with its 90 % interval
    (value, low, high).

    `association`: episodes with it against those without; `in_context`: the same within contexts; `effect`:
    with context and company held equal, against a usual block. `role`: anchor, specialist, burden,
    hitchhiker, easy rider, bystander, unclear. `without_cause`: the association is not the block's doing;
    `explained_by` says whose.
    """

    block: str
    text: str
    episodes: int
    association: tuple[float, float, float]
    in_context: tuple[float, float, float]
    effect: tuple[float, float, float]
    role: str
    without_cause: bool
    explained_by: str


class Attributed(msgspec.Struct, frozen=True):
    """Attribution over `episodes` judged ones, which went well in the share `success`.

    `left_out`: blocks in too few episodes, or beyond the number that have effects of their own.
    """

    episodes: int
    contexts: int
    blocks: int
    left_out: int
    success: float
    found: list[BlockAttributed]


class Forgotten(msgspec.Struct, frozen=True):
    """What `forget` removed here, and in plain words what it could not promise."""

    block: str
    events_removed: int
    frames_cut: int
    note: str


class Feed(msgspec.Struct, frozen=True):
    """Position of one feed as held here: number of the last frame and the hash of its header, hex."""

    space: str
    peer: str
    incarnation: str
    chain: str
    number: int
    hash: str


class Status(msgspec.Struct, frozen=True):
    """The node at a glance. `registers_digest` is order-free: equal on two nodes, equal registers.

    `vectors_by`: the model of the vectors in use, '' for none. `reembedding`: how far `doctor reembed` is, ''
    when none was begun.
    """

    peer: str
    name: str
    home: str
    hour: float
    blocks: int
    held: int
    waiting: int
    embedded: int
    embedder: str
    log_rows: int
    size_bytes: int
    spaces: list[SpaceSeen]
    feeds: list[Feed]
    registers: int
    registers_digest: str
    counters: dict[str, int]
    deferred: list[str]
    running: bool
    pid: int
    trouble: list[str]
    vectors_by: str = ""
    reembedding: str = ""
    summaries: int = 0
    abstracts: int = 0
