"""What of many blocks and their summaries fits into a budget of tokens: abstracts first, then down to blocks.

Blocks come in the order of their scores, which tells where a question asks for detail, and all are scored: a
tree that is searched from the top down misses what its summaries leave out (RAPTOR, Sarthi et al. 2024, found
the flat search better too). So the descent is about room: the best blocks are given whole, and of what has no
room the groups that most of it belongs to are told by their abstracts, or by their summaries where there is
room for these. Every item is whole or left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

REACH = 3
"""How many times as many blocks as have room are looked at for groups: what stands further down is not what
the question asks for."""


class Item(msgspec.Struct, frozen=True):
    """A block: its row, its size in tokens, and the one foreign principal it is from, negative for none."""

    row: int
    tokens: int
    principal: int = -1


class Group(msgspec.Struct, frozen=True):
    """A group's rows, and its forms from the shortest (an abstract, where there is one) to its summary."""

    sources: tuple[int, ...]
    forms: tuple[Item, ...]


class Chosen(msgspec.Struct, frozen=True):
    """Rows of the blocks to hand out, best first, and of the summaries and abstracts, those that stand for
    most first; what all comes to in tokens.
    """

    blocks: list[int]
    above: list[int]
    tokens: int


class _Room:
    """Tokens left, and how many each foreign principal may still take."""

    def __init__(self, budget: int, foreign_share: float) -> None:
        self.left = budget
        self.used = 0
        self._foreign = int(budget * foreign_share)
        self._taken: dict[int, int] = {}

    def take(self, item: Item, instead_of: int = 0) -> bool:
        """Take room for the item, in place of `instead_of` tokens; False, and nothing, when there is none."""
        more = item.tokens - instead_of
        if more > self.left:
            return False
        if item.principal >= 0:
            taken = self._taken.get(item.principal, 0)
            if taken and taken + more > self._foreign:
                return False
            self._taken[item.principal] = taken + more
        self.left -= more
        self.used += more
        return True

    def give_back(self, item: Item) -> None:
        """The item is not taken after all."""
        self.left += item.tokens
        self.used -= item.tokens
        if item.principal >= 0:
            self._taken[item.principal] -= item.tokens


def choose(
    ranked: Sequence[Item],
    groups: Sequence[Group],
    budget: int,
    share: float,
    foreign_share: float,
    most: int | None = None,
) -> Chosen:
    """What to hand out within `budget` tokens. `ranked`: blocks, best first; `most` of them are handed out.
    `share` of the budget, at most, is for summaries as long as blocks would take it; `foreign_share` of it
    for any one foreign principal, but for its first item.
    """
    most = len(ranked) if most is None else most
    room = _Room(budget, foreign_share)
    alone = _fill(room, ranked, most)
    plain = Chosen([item.row for item in alone], [], room.used)
    with_room = _fill(_Room(budget, foreign_share), ranked, len(ranked))
    reach = ranked[: (REACH + 1) * max(len(with_room), 1)]
    standing = _standing(groups, [item.row for item in reach if item.row not in plain.blocks])
    if not standing:
        return plain
    room, above = _Room(budget, foreign_share), dict[int, Item]()
    spent = 0
    for at in standing:
        form = groups[at].forms[0]
        if spent + form.tokens <= budget * share and room.take(form):
            above[at] = form
            spent += form.tokens
    blocks: set[int] = set()
    while True:
        pending = [item for item in ranked if item.row not in blocks]
        blocks.update(item.row for item in _fill(room, pending, most - len(blocks)))
        said = [at for at in above if blocks.issuperset(groups[at].sources)]
        for at in said:  # its blocks are all here: it says nothing more
            room.give_back(above.pop(at))
        if not said:
            break
    if not above:
        return plain
    for at in above:
        for longer in groups[at].forms[1:]:
            if room.take(longer, above[at].tokens):
                above[at] = longer
    handed_out = [item.row for item in ranked if item.row in blocks]
    return Chosen(handed_out, [item.row for item in above.values()], room.used)


def _fill(room: _Room, items: Sequence[Item], most: int) -> list[Item]:
    """The first `most` of the items that there is room for, which they take."""
    taken: list[Item] = []
    for item in items:
        if len(taken) >= most:
            break
        if room.take(item):
            taken.append(item)
    return taken


def _standing(groups: Sequence[Group], missed: Sequence[int]) -> list[int]:
    """Groups that at least two of the missed blocks (rows, best first) belong to, those that stand for most
    first: a block further down counts less, as in discounted cumulative gain (Järvelin and Kekäläinen 2002).
    """
    worth = {row: 1.0 / math.log2(place + 2.0) for place, row in enumerate(missed)}
    of = [[worth[row] for row in group.sources if row in worth] for group in groups]
    return sorted((at for at in range(len(groups)) if len(of[at]) > 1), key=lambda at: (-sum(of[at]), at))
