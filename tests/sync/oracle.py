"""Combine and freshness in plain Python, slow and obvious: what the fast columns are tested against."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

Share = tuple[int, int]


class Statement(NamedTuple):
    """One register as one space states it; masses in 2⁻¹⁶, stability in hours."""

    origin: bytes
    incarnation: bytes
    space: bytes
    row: int
    context: int
    alpha: int
    beta: int
    stability_h: float
    version: int


class Terms(NamedTuple):
    """Everything a lens says, as functions; trust, multipliers and caps in 2⁻¹⁶."""

    tau: Callable[[bytes, bytes], int]  # (origin, space)
    principal: Callable[[bytes], object]
    multiplier: Callable[[int], int]
    cap: Callable[[bytes], int]  # (space)


def shares(statements: Iterable[Statement], terms: Terms) -> dict[tuple[int, int, bytes], Share]:
    """(row, context, origin) → (α, β), without the zeros."""
    newest: dict[tuple[int, bytes, int, bytes], tuple[int, int, int]] = {}
    trust: dict[tuple[int, bytes, int, bytes], int] = {}
    caps: dict[tuple[int, bytes], int] = {}
    for s in statements:
        tau, key = terms.tau(s.origin, s.space), (s.row, s.origin, s.context, s.incarnation)
        if tau > 0:
            newest[key] = max(newest.get(key, (0, 0, 0)), (s.version, s.alpha, s.beta))
            trust[key] = max(trust.get(key, 0), tau)
            caps[s.row, s.origin] = min(caps.get((s.row, s.origin), 1 << 99), terms.cap(s.space))
    said: dict[tuple[int, bytes, int, int], Share] = defaultdict(lambda: (0, 0))
    mass: dict[tuple[int, bytes], int] = defaultdict(int)
    for (row, origin, context, incarnation), (_, alpha, beta) in newest.items():
        tau = trust[row, origin, context, incarnation]
        a, b = said[row, origin, context, tau]
        said[row, origin, context, tau] = a + alpha, b + beta
        mass[row, origin] += alpha + beta
    found: dict[tuple[int, int, bytes], Share] = defaultdict(lambda: (0, 0))
    limit: dict[tuple[int, object], int] = defaultdict(int)
    for (row, origin, context, tau), (a, b) in said.items():
        cap = caps[row, origin]
        if mass[row, origin] > cap:
            a, b = (x * cap // mass[row, origin] for x in (a, b))
        weight = tau * terms.multiplier(context) // 65536
        a, b = a * weight // 65536, b * weight // 65536
        if a or b:
            had = found[row, context, origin]
            found[row, context, origin] = had[0] + a, had[1] + b
            owner = (row, terms.principal(origin))
            limit[owner] = max(limit[owner], tau * cap // 65536)
    together: dict[tuple[int, object], int] = defaultdict(int)
    for (row, _, origin), (a, b) in found.items():
        together[row, terms.principal(origin)] += a + b
    for (row, context, origin), (a, b) in found.items():
        most, sum_ = limit[row, terms.principal(origin)], together[row, terms.principal(origin)]
        if sum_ > most:
            found[row, context, origin] = a * most // sum_, b * most // sum_
    return {key: share for key, share in found.items() if share != (0, 0)}


def stability_h(statements: Iterable[Statement], terms: Terms) -> dict[int, float]:
    """Row → the stability peers vouch for: the largest τ·min(S, ten years) where the mass is at least 1."""
    newest: dict[tuple[int, bytes, int, bytes], Statement] = {}
    trust: dict[tuple[int, bytes, int, bytes], int] = {}
    for s in statements:
        tau, key = terms.tau(s.origin, s.space), (s.row, s.origin, s.context, s.incarnation)
        if tau > 0:
            newest[key] = max(
                newest.get(key, s), s, key=lambda s: (s.version, s.alpha, s.beta, s.stability_h)
            )
            trust[key] = max(trust.get(key, 0), tau)
    found: dict[int, float] = defaultdict(float)
    for key, s in newest.items():
        if s.alpha + s.beta >= 65536 and trust[key] * terms.multiplier(s.context) >= 65536:
            found[s.row] = max(found[s.row], trust[key] * min(s.stability_h, 87600.0) / 65536)
    return dict(found)
