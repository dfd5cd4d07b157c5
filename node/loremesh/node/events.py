"""The node's own events as they stand in the log: tagged arrays in MessagePack, one per log row.

An event is made once, from checked input (`evidence`), and never changed; the fold reads it and nothing
else. Whatever was rounded is stored rounded (names ending in `_fx`: fixed point, units of 2^-16), so that
folding twice gives the same integers. `hour` is the node's active clock, `wall_ms` is shown and orders
nothing.

New fields go to the end with a default: an older log then still decodes. A tag is never given twice.
Tags 9-29 are kept for events about a block (archive, deprecate, restore, revise …).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import msgspec

EPISODE_BYTES: Final = 16
INCARNATION_BYTES: Final = 16
PEER_BYTES: Final = 32
SPACE_BYTES: Final = 32


class EventError(Exception):
    """Bytes that are not an event of a kind this version knows."""


class FrameName(IntEnum):
    """The frame a recall was made in (DESIGN §3, Score); OTHER for one that is named beside it."""

    SELF = 1
    ATTENTION = 2
    TASK = 3
    SIMULATE = 4
    OTHER = 5


class Learn(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=1):
    """The block was learned here. `prior_fx` is what α and β each gain: w_init·0.5, rounded once."""

    hour: float
    wall_ms: int
    prior_fx: int
    tags: tuple[str, ...] = ()


class Share(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=2):
    """The block is shared into `spaces` (ids) and gains `tags`; no evidence."""

    hour: float
    wall_ms: int
    spaces: tuple[bytes, ...] = ()
    tags: tuple[str, ...] = ()


class Consolidate(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=3):
    """First rating r of the block by `rater`: evidence r·w and (1-r)·w, each rounded once."""

    hour: float
    wall_ms: int
    rating: float
    weight_fx: int
    alpha_fx: int
    beta_fx: int
    rater: str = ""


class Rescore(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=4):
    """A later rating: the same arithmetic as `Consolidate`, added to what is there."""

    hour: float
    wall_ms: int
    rating: float
    weight_fx: int
    alpha_fx: int
    beta_fx: int
    rater: str = ""


class Outcome(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=5):
    """How well the block worked: signal s in [0,1], weight w, retrieval weight v.

    `alpha_fx` and `beta_fx` are s·w·v and (1-s)·w·v, each rounded once. `version` is the incarnation's
    evidence counter after this event, stored so that a log from which rows were forgotten still states the
    same registers; it is 0 when the evidence rounds to nothing. `episode` is the recall's, or a fresh id for
    blocks that were named in one outcome, or b"". `implicit` marks a confirm.
    """

    hour: float
    wall_ms: int
    signal: float
    weight_fx: int
    retrieval_fx: int
    alpha_fx: int
    beta_fx: int
    version: int
    context: str = ""
    episode: bytes = b""
    implicit: bool = False


class RecallHit(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=6):
    """The block was handed out in `episode` with retrieval weight v. Nothing moves.

    `frame_name`: what frame OTHER was called, an own one, a preset or a mixture; '' for the four.
    """

    hour: float
    wall_ms: int
    episode: bytes
    retrieval_fx: int
    score: float
    frame: FrameName
    context: str = ""
    frame_name: str = ""


class Connect(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=7):
    """A link to the block in row `other`, weight in fixed point; the last one stated holds, 0 unlinks."""

    hour: float
    wall_ms: int
    other: int
    weight_fx: int


class Linked(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=17):
    """Links that similarity proposes from the block to rows `others`, with `weights_fx`, one for each.

    Weight 0 takes a proposed link back, where an end has room for stronger ones only. `looked`: the block's
    neighbours have been looked for, whether it has any or not, and are not looked for again.
    """

    hour: float
    wall_ms: int
    others: tuple[int, ...]
    weights_fx: tuple[int, ...]
    looked: bool = True


class Archive(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=9):
    """The block is put away: it leaves recall until it is restored; nothing is said of its worth."""

    hour: float
    wall_ms: int
    why: str
    who: str


class Revise(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=10):
    """The block takes the place of the one in row `other`, which leaves recall.

    `alpha_fx` and `beta_fx` are its head start: a prior at the mean that the other one had here. Where
    `other` is the block's own row, what it took the place of was forgotten.
    """

    hour: float
    wall_ms: int
    other: int
    alpha_fx: int
    beta_fx: int
    why: str
    who: str


class Deprecate(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=12):
    """The block leaves recall until it is restored; its log, its evidence and what it shares stay."""

    hour: float
    wall_ms: int
    why: str
    who: str


class Restore(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=13):
    """A block that was taken out of recall comes back, with all it had."""

    hour: float
    wall_ms: int
    why: str
    who: str


class Summarise(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=15):
    """The block is a summary (level 1) or an abstract (2) of the blocks in `sources`, by `summariser`.

    The last one holds. `summary`: of an abstract, the row of the summary it is a shorter form of, else -1.
    """

    hour: float
    wall_ms: int
    level: int
    sources: tuple[int, ...]
    summariser: str
    summary: int = -1


class Aggregate(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=16):
    """What the outcomes of the block had made by here: stands in the place of one, for those before it too.

    The only event that is not appended: compaction puts it where the last outcome or recall was that it
    stands for, under that row's number and digest. It sets what outcomes move, and leaves alone what they do
    not; rows before it that are still there (ratings, say) fold as ever.

    `outcomes` and `recalls`: how many there had been, the first at `first_hour` and `first_ms`. S and D are
    by `forgetting` (a model, with its weights), the published ones by fsrs5; `history` is what that model
    remembered. Registers one by one: `incarnations`, `contexts`, `alpha_fx`, `beta_fx`,
    `register_stability_h`, `versions`, `stamps_h`. Of each context in `labels` the recent window (two
    numbers) and what the model `utility` remembered, one after the other. `decided_*`: the evidence when it
    was decided about the block, by the decision's `wall_ms` and the row of the block that took this one's
    place (-1 for none).
    """

    hour: float
    wall_ms: int
    outcomes: int
    recalls: int
    first_hour: float
    first_ms: int
    positives: int
    negatives: int
    stability_h: float
    difficulty: float
    published_stability_h: float
    published_difficulty: float
    t_last_h: float
    forgetting: str
    utility: str
    history: tuple[float, ...]
    incarnations: tuple[bytes, ...]
    contexts: tuple[str, ...]
    alpha_fx: tuple[int, ...]
    beta_fx: tuple[int, ...]
    register_stability_h: tuple[float, ...]
    versions: tuple[int, ...]
    stamps_h: tuple[float, ...]
    labels: tuple[str, ...]
    recent: tuple[float, ...]
    tally: tuple[float, ...]
    decided_ms: tuple[int, ...] = ()
    decided_by: tuple[int, ...] = ()
    decided_a_fx: tuple[int, ...] = ()
    decided_b_fx: tuple[int, ...] = ()


class Counted(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=30):
    """What another system had counted about the block, in all; only ever inside an `Imported`.

    A later statement of the same source replaces an earlier one. `prior_*_fx` is what stands for no outcome
    (a starting guess, a rating folded in), `alpha_fx` and `beta_fx` are outcomes. `stability_h` and `rating`
    (importance) are negative where that system knows none. `exact` is false where the split between prior
    and outcomes had to be estimated.
    """

    hour: float
    wall_ms: int
    prior_a_fx: int
    prior_b_fx: int
    alpha_fx: int
    beta_fx: int
    stability_h: float
    rating: float
    exact: bool = True


class Imported(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=31):
    """An event from another log, taken in from a file. What it proves counts here and never travels.

    `source`: number of an `ImportSource` before it. `n`: the event's place in the source's log; of a block
    and source, only ascending ones come. `event`: encoded, about this block, its rows and its hour those of
    this home. `hour`: what its hour is on this home's clock; `wall_ms`: when it happened, there.
    """

    hour: float
    wall_ms: int
    source: int
    n: int
    event: bytes


class Incarnation(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=32):
    """From here on evidence counts under this fresh random id; `why`: created, restored, copied."""

    hour: float
    wall_ms: int
    id: bytes
    why: str = "created"


class Trust(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=33):
    """The administrator set the trust in a peer (its public key), or revoked it."""

    hour: float
    wall_ms: int
    peer: bytes
    value_fx: int
    revoked: bool
    why: str
    who: str


class Forgot(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=34):
    """The block in `row` was forgotten; row numbers are never given twice.

    Keeps what the block's own rows took with them: the clock and the evidence counter. Without it a replay
    of what is left could give a version a second time, and a later re-learn of the block would look older
    than its retraction. `used_ms` is where the clock goes on, -1 in logs from before it was noted.
    """

    hour: float
    wall_ms: int
    row: int
    version: int
    used_ms: int = -1


class ImportSource(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=40):
    """From here on `Imported` events may name `number` (ascending from 0): a home's log, or another system.

    `origin`: the home's public key, or 32 bytes that stand for another system. `incarnation`: 16 bytes.
    """

    hour: float
    wall_ms: int
    number: int
    origin: bytes
    incarnation: bytes
    name: str


class Import(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=41):
    """A file was taken in. Its hours plus `shift_h` are hours of this home.

    `file`: SHA-256 of its content. `hour` may be ahead of the clock: a home without blocks goes on where the
    file's clock stood.
    """

    hour: float
    wall_ms: int
    file: bytes
    shift_h: float


class ImportedTrust(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=42):
    """A change of trust in another log, taken in from a file; in force here only where that was asked for."""

    hour: float
    wall_ms: int
    source: int
    n: int
    event: bytes
    in_force: bool


class Fitted(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=50):
    """The forgetting model `rules` has these weights in this home from now on, for all of its log.

    None: the published ones again. `trained` and `held_out` count the outcomes that the fit saw and that
    judged it; `loss_*` are the log losses of the latter per outcome, `gain_at_least` the lower 95 % bound of
    what was won.
    """

    hour: float
    wall_ms: int
    rules: str
    weights: tuple[float, ...]
    trained: int
    held_out: int
    loss_before: float
    loss_after: float
    gain_at_least: float
    who: str


class Recalibrated(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=51):
    """From now on the ratings of `rater`, those before and those to come, count `multiplier_fx` times.

    One: as stated, again. The rest is what spoke for it: blocks and outcomes seen, what one rating is worth
    in outcomes with its 90 % interval, log losses per held-out outcome, the lower 95 % bound of the gain.
    """

    hour: float
    wall_ms: int
    rater: str
    multiplier_fx: int
    blocks: int = 0
    outcomes: int = 0
    worth: float = 0.0
    low: float = 0.0
    high: float = 0.0
    loss_before: float = 0.0
    loss_after: float = 0.0
    gain_at_least: float = 0.0
    who: str = ""


class Compacted(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=52):
    """From here on outcomes and recalls before this became aggregates, but for what is kept.

    Kept were the last `keep` of each block and those of the last `older_h` active hours. `episodes`: how many
    could take their outcome; older ones, of which some rows may be left, never can.
    """

    hour: float
    wall_ms: int
    keep: int
    older_h: float
    episodes: int
    who: str


OwnEvent = (
    Learn
    | Share
    | Consolidate
    | Rescore
    | Outcome
    | RecallHit
    | Connect
    | Linked
    | Archive
    | Revise
    | Deprecate
    | Restore
    | Aggregate
    | Summarise
    | Counted
    | Imported
)
HomeEvent = (
    Incarnation | Trust | Forgot | ImportSource | Import | ImportedTrust | Fitted | Recalibrated | Compacted
)
Event = OwnEvent | HomeEvent

_encoder: Final = msgspec.msgpack.Encoder()
_own: Final = msgspec.msgpack.Decoder(OwnEvent)
_home: Final = msgspec.msgpack.Decoder(HomeEvent)


def encode(event: Event) -> bytes:
    """The event's bytes, as sealed into a log row."""
    return _encoder.encode(event)


def decode_own(payload: bytes) -> OwnEvent:
    """The event about a block in `payload`. Raises EventError for anything else."""
    try:
        return _own.decode(payload)
    except msgspec.DecodeError as error:
        raise EventError(
            f"not an event about a block: {error}; was it written by a later version?"
        ) from error


def decode_home(payload: bytes) -> HomeEvent:
    """The event about the home in `payload`. Raises EventError for anything else."""
    try:
        return _home.decode(payload)
    except msgspec.DecodeError as error:
        raise EventError(
            f"not an event about the home: {error}; was it written by a later version?"
        ) from error


def kind_of(event: Event) -> str:
    """The event's name as people read it: `recall_hit`, `outcome`, …; an implicit outcome is `confirm`."""
    match event:
        case Outcome(implicit=True):
            return "confirm"
        case RecallHit():
            return "recall_hit"
        case ImportSource():
            return "import_source"
        case ImportedTrust():
            return "imported_trust"
        case _:
            return type(event).__name__.lower()
