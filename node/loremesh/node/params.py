"""What the verbs take: one Struct each, with its bounds, and how a value is held against them.

Bounds here are those that hold whatever a node's state; the node itself checks the rest.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeVar, get_args, get_type_hints

import msgspec

from loremesh.node.errors import UsageError

MAX_TEXT: Final = 64 * 1024
"""Characters of a text or a question; the bound in bytes is `sync.content`'s."""
MAX_WORD: Final = 1000
"""Characters of a name, id, tag, reason or label; most have a narrower bound of their own."""
MAX_TEXTS: Final = 1024
"""Texts of one `learn_many`: a transaction of a size that neither stalls other callers nor wastes syncs."""
MAX_HITS: Final = 256
"""Blocks that one recall hands out (an episode holds no more)."""
MAX_BUDGET: Final = 1_000_000
"""Tokens that one recall hands out: more than the context of any model."""
MAX_BLOCKS: Final = 256
"""Blocks named in one outcome or confirmation, as many as an episode can hold."""
MAX_MIXED: Final = 8
"""Frames in one mixture."""
MAX_ASKED: Final = 256
"""Spaces, and tags, that one recall can be limited to."""
MAX_PAGE: Final = 1000
"""Items of a listed answer; the next page is asked for."""
MAX_PAGE_TOKENS: Final = 1_000_000
PAGE_TOKENS: Final = 250_000
"""A page's budget where none is given, a megabyte of JSON (`paging`): a thousand of any items but long texts.
Who reads with a language model gives what its context has room for."""
MAX_WEIGHT: Final = float(1 << 20)
"""The most evidence a register holds (`sync.fixed.MAX_MASS`)."""

SHOWN: Final = 80
"""Characters of a refused value that its error repeats."""

Text = Annotated[str, msgspec.Meta(max_length=MAX_TEXT, description="a text of at most 64 KiB")]
Word = Annotated[str, msgspec.Meta(max_length=MAX_WORD, description="a text of at most 1000 characters")]
Tags = Annotated[list[Word], msgspec.Meta(max_length=32, description="at most 32 tags")]
Spaces = Annotated[
    list[Word], msgspec.Meta(max_length=256, description="names or ids of spaces, at most 256")
]
Frame = Annotated[
    Word | Annotated[dict[Word, float], msgspec.Meta(min_length=1, max_length=MAX_MIXED)],
    msgspec.Meta(
        description="a frame's name, a mixture like task=0.7,self=0.3, or an object of names and shares"
    ),
]
TagsAsked = Annotated[
    list[Word], msgspec.Meta(max_length=MAX_ASKED, description="at most 256 tags, or null for no limit")
]
SpacesAsked = Annotated[
    list[Word],
    msgspec.Meta(
        max_length=MAX_ASKED, description="names or ids of at most 256 spaces, or null for no limit"
    ),
]
Blocks = Annotated[list[Word], msgspec.Meta(max_length=MAX_BLOCKS, description="ids of at most 256 blocks")]
SomeBlocks = Annotated[
    list[Word],
    msgspec.Meta(
        min_length=1, max_length=MAX_BLOCKS, description="ids of at least one and at most 256 blocks"
    ),
]
Unit = Annotated[float, msgspec.Meta(ge=0.0, le=1.0, description="a number from 0 to 1")]
Weight = Annotated[float, msgspec.Meta(ge=0.0, le=MAX_WEIGHT, description="a number from 0 to 1048576")]
Uses = Annotated[int, msgspec.Meta(ge=1, le=10_000, description="a whole number from 1 to 10000")]
Limit = Annotated[int, msgspec.Meta(ge=1, le=MAX_PAGE, description="a whole number from 1 to 1000")]
Hits = Annotated[int, msgspec.Meta(ge=1, le=MAX_HITS, description="a whole number from 1 to 256")]
PageBudget = Annotated[
    int, msgspec.Meta(ge=1, le=MAX_PAGE_TOKENS, description="a whole number from 1 to 1000000")
]
Budget = Annotated[int, msgspec.Meta(ge=1, le=MAX_BUDGET, description="a whole number from 1 to 1000000")]
Number = Annotated[int, msgspec.Meta(ge=0, le=2**53, description="a whole number from 0 on")]
Some = Annotated[int, msgspec.Meta(ge=1, le=2**53, description="a whole number from 1 on")]
Hours = Annotated[float, msgspec.Meta(ge=0.0, le=1e9, description="a number of active hours, 0 or more")]
Texts = Annotated[
    list[Text],
    msgspec.Meta(min_length=1, max_length=MAX_TEXTS, description="1 to 1024 texts of at most 64 KiB"),
]
Token = Annotated[
    str, msgspec.Meta(min_length=1, max_length=16_384, description="a token as `space create` printed it")
]


class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a verb takes. `checked` holds a value against the bounds in its annotations."""


class Nothing(Params, frozen=True):
    """A verb without arguments."""


class Learn(Params, frozen=True):
    """A text, its tags, and the spaces (name or id) it is shared into."""

    text: Text
    tags: Tags = []
    share: Spaces = []


class LearnMany(Params, frozen=True):
    """Up to MAX_TEXTS texts that take the same tags and spaces."""

    texts: Texts
    tags: Tags = []
    share: Spaces = []


class Recall(Params, frozen=True):
    """A question, the frame that weighs the score, the context, how many hits at most, their limits, and what
    linked blocks lend counts (null: the frame's own weight).

    Of `spaces` and `tags` null is no limit, and an empty list one that nothing is within.

    With a `budget` of tokens, summaries and as many hits as fit: `k` at most, 256 when it is not given; 5
    without a budget.
    """

    query: Text
    frame: Frame = "attention"
    context: Word = ""
    k: Hits | None = None
    spaces: SpacesAsked | None = None
    tags: TagsAsked | None = None
    graph: Unit | None = None
    budget: Budget | None = None


class Outcome(Params, frozen=True):
    """How well it went, 0 to 1, for an episode or for blocks, one of the two.

    Without `context` an episode's own holds, and none for blocks.
    """

    signal: Unit
    episode: Word | None = None
    blocks: Blocks = []
    weight: Weight = 1.0
    context: Word | None = None


class Confirm(Params, frozen=True):
    """Blocks that were used, and what for."""

    blocks: SomeBlocks
    context: Word = ""


class Consolidate(Params, frozen=True):
    """At most `limit` blocks; all that wait when it is not given."""

    limit: Some | None = None


class Rescore(Params, frozen=True):
    """These blocks, or all whose last rating is older than so many active hours, one of the two."""

    blocks: Blocks = []
    all_older_than_h: Hours | None = None


class Connect(Params, frozen=True):
    """A link of two blocks; weight 0 takes it away."""

    block: Word
    other: Word
    weight: Unit = 1.0


class DueWithin(Params, frozen=True):
    """At most `limit` blocks, in one context or in all, within a horizon in active hours."""

    context: Word = ""
    limit: Limit = 20
    horizon_h: Hours = 24.0
    budget: PageBudget = PAGE_TOKENS


class Explain(Params, frozen=True):
    """A block, and a question, as `recall` takes it, that it is to be explained for; none with null."""

    block: Word
    query: Text | None = None
    frame: Frame = "attention"
    context: Word = ""
    k: Hits = 5
    spaces: SpacesAsked | None = None
    tags: TagsAsked | None = None
    graph: Unit | None = None


class Summarise(Params, frozen=True):
    """Everything that changed since the last run."""


class OneBlock(Params, frozen=True):
    """A block: 64 hex digits, or its first ones, at least 8."""

    block: Word


class Events(Params, frozen=True):
    """Rows of the log after number `after`, of one block or of all."""

    block: Word | None = None
    limit: Limit = 200
    after: Number = 0
    budget: PageBudget = PAGE_TOKENS


class Replay(Params, frozen=True):
    """`check` compares the log with the columns; `rules` names another rule set to rank under."""

    check: bool = False
    rules: Word | None = None


class Worth(Params, frozen=True):
    """In one context or in all; `block` tells one by context; `candidates` only what to decide about."""

    context: Word | None = None
    block: Word | None = None
    candidates: bool = False
    limit: Limit = MAX_PAGE
    skip: Number = 0
    budget: PageBudget = PAGE_TOKENS


class Deprecate(Params, frozen=True):
    """The block leaves recall."""

    block: Word
    why: Word


class Archive(Params, frozen=True):
    """The block is put away."""

    block: Word
    why: Word = ""


class Revise(Params, frozen=True):
    """The text takes the block's place. Tags and spaces are those of the old block unless given."""

    block: Word
    text: Text
    why: Word = ""
    tags: Tags | None = None
    share: Spaces | None = None


class Restore(Params, frozen=True):
    """The block comes back into recall."""

    block: Word
    why: Word = ""


class Attribute(Params, frozen=True):
    """Over the episodes of one context or of all; at most `limit` blocks."""

    context: Word | None = None
    limit: Limit = MAX_PAGE
    budget: PageBudget = PAGE_TOKENS


class Compact(Params, frozen=True):
    """All outcomes and recalls but the last `keep` of each block, older than `older_h` active hours."""

    older_h: Hours = 0.0
    keep: Number = 100
    dry_run: bool = False


class DoctorFit(Params, frozen=True):
    """`dry_run` only tells; `revert` goes back to the published weights."""

    dry_run: bool = False
    revert: bool = False


class DoctorRecalibrate(Params, frozen=True):
    """`dry_run` only tells; `revert` lets every rater count as stated again."""

    dry_run: bool = False
    revert: bool = False


class Page(Params, frozen=True):
    """`limit` items after the first `skip`, or as many whole ones as fit into `budget` tokens."""

    limit: Limit = MAX_PAGE
    skip: Number = 0
    budget: PageBudget = PAGE_TOKENS


class TrustSet(Params, frozen=True):
    """The trust, 0 to 1, that a peer's evidence counts with from now on."""

    peer: Word
    value: Unit
    why: Word = ""


class TrustRevoke(Params, frozen=True):
    """The peer counts for nothing from now on."""

    peer: Word
    why: Word = ""


class SpaceCreate(Params, frozen=True):
    """A new space; its first token admits `uses` keys."""

    name: Word
    member_trust: Unit = 0.5
    uses: Uses = 1


class SpaceInvite(Params, frozen=True):
    """Another token for a space that this node administers."""

    name: Word
    uses: Uses = 1


class SpaceJoin(Params, frozen=True):
    """A token, as `space create` or `space invite` printed it."""

    token: Token

    def __repr__(self) -> str:
        return "SpaceJoin(token=…)"


P = TypeVar("P", bound=Params)


def checked(params: P) -> P:
    """The same value, held against its bounds: a Struct made in code has not been.

    Raises UsageError naming the field, its value and what it takes.
    """
    try:
        msgspec.json.encode(params)
        return msgspec.convert(msgspec.to_builtins(params), type(params))
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{_field_with(params, error.object)} is not UTF-8: it has a lone surrogate or a stray byte at "
            f"position {error.start}",
            "give text in UTF-8",
        ) from None
    except msgspec.ValidationError as error:
        raise _refused(str(error), msgspec.structs.asdict(params), type(params)) from None


def decoded(body: bytes, params: type[P]) -> P:
    """The parameters that a JSON body states; an empty body states none.

    Raises UsageError naming the field, its value and what it takes.
    """
    try:
        return msgspec.json.decode(body or b"{}", type=params)
    except msgspec.ValidationError as error:
        try:
            stated = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            stated = None  # too deep, or a number beyond all bounds: the message says so
        raise _refused(str(error), stated if isinstance(stated, dict) else {}, params) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"the request's body is no JSON: {error}", "send one JSON object in UTF-8") from None


def _refused(said: str, stated: dict[str, Any], params: type[Params]) -> UsageError:
    what, _, path = said.replace("`", "").partition(" - at $.")
    if not path:
        return UsageError(f"the arguments cannot be used: {_lower(what)}", "see the verb's description")
    name = path.partition("[")[0].partition(".")[0]
    value = f" is {_short(stated[name])}" if name in stated else ""
    return UsageError(f"{path}{value}: {_lower(what)}", f"give {name} as {_described(params, name)}")


def _described(params: type[Params], field: str) -> str:
    """What a field takes, in words."""
    kind: object = get_type_hints(params, include_extras=True).get(field)
    for part in (kind, *get_args(kind)):
        for meta in getattr(part, "__metadata__", ()):
            if isinstance(meta, msgspec.Meta) and meta.description:
                return meta.description
    return "described"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _field_with(params: Params, text: str) -> str:
    for name, value in msgspec.structs.asdict(params).items():
        if value == text or (isinstance(value, list) and text in value):
            return name
    return "an argument"
