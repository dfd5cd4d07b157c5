"""What the use cases are given from outside: clocks, randomness, an embedder, a rater, a summariser (see
`compose`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from loremesh.node.extract import Extractive
from loremesh.node.ports import Embedder, Fingerprint, Rater, Summariser
from loremesh.node.providers.budget import Budget
from loremesh.sync.busport import Bus

Progress = Callable[[int, int], None]
"""(done, total) of long work, called now and then."""


class Parts(msgspec.Struct, frozen=True):
    """The outside world of one node.

    `open_embedder` takes the dimension of the vectors already stored, or None; it is called when first
    needed, since a model takes a moment to load. `now_ms` is wall time (ms since 1970, UTC), `monotonic_s` a
    steady clock, `random_bytes` a source of unpredictable bytes. `open_bus` takes a server's URL, the secret
    nkey seed to show it ('' for none) and what the connection is to be called there; it is not connected yet.
    `open_former` opens the embedder of vectors that are here already, where the settings name another by now.
    `rater` is None where nothing is to be rated. `budget`: of the language models that are asked, if any.
    """

    open_embedder: Callable[[int | None], Awaitable[Embedder]]
    rater: Rater | None
    now_ms: Callable[[], int]
    monotonic_s: Callable[[], float]
    random_bytes: Callable[[int], bytes]
    open_bus: Callable[[str, str, str], Bus]
    budget: Budget | None = None
    open_former: Callable[[Fingerprint], Awaitable[Embedder]] | None = None
    summariser: Summariser = msgspec.field(default_factory=Extractive)
