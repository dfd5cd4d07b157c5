"""What is answered about how recall weighs: the frames there are, and where a block stands for a question."""

from __future__ import annotations

import msgspec


class FrameSeen(msgspec.Struct, frozen=True):
    """A frame that recall can be asked in. `weights` sum to 1, but for that of the links, which is added.

    `own_only`: blocks known only from peers stay out. `min_max`: terms are scaled to [0, 1] over what can be
    handed out. `hourly_decay`: in place of retrievability, this to the active hours since the last event.
    `source`: built in, a preset, or config.toml.
    """

    name: str
    weights: dict[str, float]
    own_only: bool
    min_max: bool
    hourly_decay: float | None
    source: str


class TermSeen(msgspec.Struct, frozen=True):
    """One term of a block's score: `product` is weight · value. `last_*`: the same of the last hit, 0 where
    there are fewer than k.
    """

    term: str
    weight: float
    value: float
    product: float
    last_value: float
    last_product: float


class SimSeen(msgspec.Struct, frozen=True):
    """What a block's `sim` came from; the four sum to it, before it is scaled where the frame scales.

    `vector`: likeness to the query's. `words`: the query's words in its text. `carried`: more than that from
    the block learned just before it (`carried_from`). `label`: the query names its label. `embedded`: whether
    it has a vector yet.
    """

    vector: float
    words: float
    carried: float
    carried_from: str
    label: float
    embedded: bool


class Standing(msgspec.Struct, frozen=True):
    """Where a block stands for a question, as recall would rank it now.

    `surfaces`: it is among the k hits. `rank`: its place by score among the `eligible` blocks, 0 when it is
    none of them. `terms` and `sim` say what its score is made of. `last` is the k-th hit ('' where there are
    fewer), and `margin` the score less that one's. `why` says in words how it comes. `barred` names what
    keeps it out whatever its score: no_text, nobody, deprecated, archived, superseded, own_only, scope,
    quota; `short_in` the term in which it falls short most, '' where the scores are equal and ids decide.
    """

    query: str
    frame: str
    context: str
    k: int
    surfaces: bool
    eligible: int
    rank: int = 0
    score: float = 0.0
    terms: list[TermSeen] = []
    sim: SimSeen | None = None
    last: str = ""
    last_score: float = 0.0
    margin: float = 0.0
    barred: str = ""
    short_in: str = ""
    why: str = ""
