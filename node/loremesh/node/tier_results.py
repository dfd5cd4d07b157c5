"""What is answered about summaries and abstracts (see `results` for how ids and times are given)."""

from __future__ import annotations

import msgspec


class Above(msgspec.Struct, frozen=True):
    """A text that stands for several blocks: `level` is summary or abstract, `sources` their ids.

    `trust` is the least that counts for any of the sources, `score` the best score of one. It is in no
    episode and takes no outcome.
    """

    block: str
    level: str
    text: str
    sources: list[str]
    trust: float
    score: float
    tokens: int
    summariser: str


class SummarySeen(msgspec.Struct, frozen=True):
    """A summary or abstract (`level`) that a block is below, or is. `shown` is false while it is out of view:
    one of its sources is, or it is to be made again.
    """

    block: str
    level: str
    text: str
    sources: list[str]
    trust: float
    summariser: str
    shown: bool


class Summarised(msgspec.Struct, frozen=True):
    """What a run of `summarise` did: blocks looked at for the first time, summaries and abstracts written.

    `failed` groups have no summary, or an older one, because the summariser gave no answer; `trouble` says
    why, '' for none. `summaries` and `abstracts` are those there are now.
    """

    examined: int
    written: int
    failed: int
    summaries: int
    abstracts: int
    summariser: str
    trouble: str = ""
