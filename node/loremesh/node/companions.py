"""Blocks that always come together, and the recall now and then that parts them.

Of two blocks that were in the same episodes no outcome tells which one helped: a useless block that travels
with a good one is credited like it. So in a set share of recalls one block of such a pair is held back, and
the next best takes its place; from then on outcomes differ between the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Final

from loremesh.node.ownstate import Episode

MIN_TOGETHER: Final = 8
"""Judged episodes with both before a pair is a habit: as many outcomes as worth needs to say anything."""

HABIT: Final = 0.5
"""A pair is a habit while at least this part of the episodes with either has both."""

ENOUGH_APART: Final = 256
"""Judged episodes with only one of the two after which the pair is left alone: a difference of 0.14 in
success, an anchor's at five blocks an episode, shows with 95 % confidence after about 150."""

MAX_WATCHED: Final = 16
"""Hits looked at, the best ones: 120 pairs, and a long list of hits is no habit."""


def habits(episodes: Iterable[Episode], rows: Sequence[int]) -> list[tuple[int, int]]:
    """The pairs among these rows that judged episodes mostly had together, in the order of `rows`."""
    watched = {row: at for at, row in enumerate(rows[:MAX_WATCHED])}
    seen = [0] * len(watched)
    together: dict[tuple[int, int], int] = {}
    for episode in episodes:
        if episode.outcome is None:
            continue
        here = sorted(watched[row] for row in watched.keys() & episode.rows)
        for at in here:
            seen[at] += 1
        for pair in combinations(here, 2):
            together[pair] = together.get(pair, 0) + 1
    return [
        (rows[a], rows[b])
        for (a, b), both in sorted(together.items())
        if both >= MIN_TOGETHER
        and both >= HABIT * (seen[a] + seen[b] - both)
        and seen[a] + seen[b] - 2 * both < ENOUGH_APART
    ]


def held_back(episodes: Iterable[Episode], rows: Sequence[int], episode: bytes, share: float) -> int | None:
    """The row that this recall is to do without, None for most recalls.

    `rows`: what it would hand out, best first. `share`: part of the recalls, in [0, 1], that part a habitual
    pair when they would hand out one. `episode`: the recall's random id[16], which decides everything, so
    that a recall with the same id and past parts the same pair.
    """
    if int.from_bytes(episode[:8], "big") >= share * 2.0**64 or len(rows) < 2:
        return None
    pairs = habits(episodes, rows)
    if not pairs:
        return None
    return pairs[int.from_bytes(episode[8:12], "big") % len(pairs)][episode[12] & 1]
