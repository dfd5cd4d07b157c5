"""Which links are proposed for a block: to its most similar ones, while these have room (DESIGN §3, "Links").

What is decided here is stored as it was decided; the fold has no choices, so that forgetting a block takes
back what its own events did and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from loremesh.node.evidence import MAX_LINKS
from loremesh.node.links import Links
from loremesh.sync.fixed import ONE

SHARE: Final = 0.5
"""Weight of a proposed link over its cosine: half, so that good outcomes at both ends, which at most double
it (`graph.strengths`), make a full link of it and bad ones next to none."""

DEGREE: Final = MAX_LINKS
"""Links that a block has by similarity. A block that resembles everything ("ok, thanks") would otherwise be
the neighbour of everything, and rise whenever anything is found. The weakest proposed link gives way to a
stronger one; those made by hand do not, and are not counted when somebody makes another."""

CANDIDATES: Final = 2
"""Times as many candidates as links, so that one finds its links also where some have no room."""


ROOM: Final = -1
NO_ROOM: Final = -2
"""No link has to give way; or none would."""


class Proposal(msgspec.Struct, frozen=True):
    """Links of one row: (other row, weight), weight 0 takes one back. `looked`: its neighbours are these."""

    row: int
    links: list[tuple[int, float]]
    looked: bool


class Proposing:
    """Proposals for some blocks, one after another, each in view of those before."""

    def __init__(self, links: Links, count: int) -> None:
        self._links = links
        self._count = count
        self._made: dict[int, dict[int, int]] = {}

    def propose(self, row: int, candidates: Sequence[tuple[int, float]]) -> list[Proposal]:
        """For `row`, of candidates (other row, cosine), best first; what gives way is taken back before.

        What is linked already, or was parted by hand, takes its place among the `count` without a proposal.
        """
        links: list[tuple[int, float]] = []
        back: list[Proposal] = []
        places = self._count
        for other, cosine in candidates:
            if not places:
                break
            made = self._made.get(row, {})
            if made[other] > 0 if other in made else self._links.known(row, other):
                places -= 1
                continue
            weight_fx = round(min(max(cosine, 0.0), 1.0) * SHARE * ONE)
            gives_way = [(end, self._weakest(end, weight_fx)) for end in (row, other)]
            if not weight_fx or any(weakest == NO_ROOM for _, weakest in gives_way):
                continue
            for end, weakest in gives_way:
                if weakest != ROOM:
                    back.append(Proposal(end, [(weakest, 0.0)], looked=False))
                    self._note(end, weakest, 0)
            links.append((other, weight_fx / ONE))
            self._note(row, other, weight_fx)
            places -= 1
        return [*back, Proposal(row, links, looked=True)]

    def _weakest(self, row: int, weight_fx: int) -> int:
        """The link that gives way to one of this weight: its other row, ROOM for none, NO_ROOM to have none.

        Of equally weak ones the one to the highest row: the latest.
        """
        made = self._made.get(row, {})
        if self._links.degree(row) + len(made) < DEGREE:
            return ROOM
        held = {edge.other: edge.weight_fx for edge in self._links.of(row)}
        by_hand = {edge.other for edge in self._links.of(row) if edge.by_hand}
        held.update(made)
        if sum(1 for weight in held.values() if weight) < DEGREE:
            return ROOM
        weakest = min(
            ((weight, -other) for other, weight in held.items() if weight and other not in by_hand),
            default=(weight_fx, 0),
        )
        return -weakest[1] if weakest[0] < weight_fx else NO_ROOM

    def _note(self, one: int, other: int, weight_fx: int) -> None:
        self._made.setdefault(one, {})[other] = weight_fx
        self._made.setdefault(other, {})[one] = weight_fx
