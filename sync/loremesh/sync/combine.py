"""What registers come to under a lens: shares, totals, freshness (DESIGN §4 "Combine").

Pure functions of the columns and the lens. All masses are integers in 2⁻¹⁶; every division rounds down. The
same arithmetic in plain words is `sync/ARITHMETIC.md`; `tests/sync/oracle.py` is it in plain Python.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.sync.fixed import ONE
from loremesh.sync.providers import Providers
from loremesh.sync.registers import NO_STAMP, Registers
from loremesh.sync.slots import Flags, Floats, Ints, Smalls
from loremesh.sync.trust import NOBODY, Lens

SHIFT = 16
"""Dividing by ONE."""

MAX_PEER_STABILITY_H = 10 * 365 * 24.0
"""Ten years: no peer can promise that a memory is kept for longer (DESIGN §4)."""

INT64_LIMIT = 1 << 63


class Counted(msgspec.Struct, frozen=True, eq=False):
    """The registers that a lens counts, each once whatever spaces it came through.

    Sorted by row, principal, peer, context, trust.
    """

    row: Ints
    peer: Smalls
    context: Smalls
    alpha: Ints
    beta: Ints
    stability_h: Floats
    stamp_h: Floats
    tau_fx: Ints
    cap_fx: Ints


class Shares(msgspec.Struct, frozen=True, eq=False):
    """What each peer brings to each (row, context): fixed-point masses, none of them (0, 0).

    Sorted by row, principal, peer, context; `peer` and `principal` index the lens's lists.
    """

    row: Ints
    context: Smalls
    peer: Smalls
    principal: Smalls
    alpha: Ints
    beta: Ints


class Freshness(msgspec.Struct, frozen=True, eq=False):
    """Per row: the stability peers vouch for (hours, 0: none), the latest stamp (active hours, -inf)."""

    stability_h: Floats
    stamp_h: Floats


class Standing(msgspec.Struct, frozen=True, eq=False):
    """Per row, as far as its content goes."""

    visible: Flags
    """Somebody who counts gave the content."""
    sole_principal: Smalls
    """The one principal all of those belong to; NOBODY when there is none or several."""
    arrival_h: Floats
    """The active hour at which the first of them gave it, inf for none. When a block has no other time (own
    t_last, counted stamp), this is its t_last; it refreshes nothing that has one."""


class Effective(msgspec.Struct, frozen=True, eq=False):
    """Everything peers bring to some rows, worked out in one pass."""

    shares: Shares
    alpha: Ints
    beta: Ints
    freshness: Freshness
    standing: Standing


def counted(registers: Registers, rows: Ints, lens: Lens) -> Counted:
    """The registers of these distinct rows that count: of trusted sources only, and an echo only once.

    Of the statements of one register that came through several spaces the highest version is taken (then the
    largest α, β, S and the earliest stamp), with the largest trust and the smallest cap of those spaces.
    """
    slots = registers.select(rows)
    slots = slots[lens.tau_fx[registers.source_at(slots)] > 0]
    held = registers.held(slots)
    peer, instance = lens.peer[held.source], lens.instance[held.source]
    tau, cap = lens.tau_fx[held.source], lens.cap_fx[held.source]
    keys: list[NDArray[np.generic]] = [held.context, peer, held.row]
    if lens.echoes:
        keys = [held.stamp_h, -held.stability_h, -held.beta, -held.alpha, -held.version, instance, *keys]
    elif lens.uneven:
        keys = [tau, *keys]
    order = np.lexsort(keys)
    found = Counted(
        row=held.row[order].astype(np.int64),
        peer=peer[order],
        context=held.context[order],
        alpha=held.alpha[order],
        beta=held.beta[order],
        stability_h=held.stability_h[order],
        stamp_h=held.stamp_h[order],
        tau_fx=tau[order],
        cap_fx=cap[order],
    )
    return _once(found, instance[order]) if lens.echoes and len(order) else found


def shares(registers: Registers, rows: Ints, lens: Lens) -> Shares:
    """The shares in these distinct rows, as `shares_of`."""
    return shares_of(counted(registers, rows, lens), lens)


def shares_of(found: Counted, lens: Lens) -> Shares:
    """For each block and peer, with M its mass there over all contexts and C its cap: a sum `a` over
    incarnations counts as ⌊a·C/M⌋ where M > C, and brings ⌊⌊τ·m⌋·a⌋. Where the shares of a principal have a
    mass T above L = ⌊τ·C⌋, the largest among its peers with a share, each becomes ⌊share·L/T⌋.
    """
    if not len(found.row):
        return _no_shares()
    # A class is what one peer says in one context at one trust; incarnations are summed inside it.
    pair = _edges(found.row, found.peer)
    classes = (pair | _edges(found.context, found.tau_fx)).nonzero()[0]
    row, peer, context = found.row[classes], found.peer[classes], found.context[classes]
    tau = found.tau_fx[classes]
    alpha = np.add.reduceat(found.alpha, classes)
    beta = np.add.reduceat(found.beta, classes)
    pair = pair[classes]
    pairs, of = pair.nonzero()[0], pair.cumsum() - 1
    mass = np.add.reduceat(alpha + beta, pairs)[of]
    cap = np.minimum.reduceat(np.minimum.reduceat(found.cap_fx, classes), pairs)[of]
    alpha, beta = _scaled_where(mass > cap, alpha, beta, cap, mass)
    weight = tau * lens.multiplier_fx[context] >> SHIFT
    alpha, beta = alpha * weight >> SHIFT, beta * weight >> SHIFT
    kept = (alpha | beta) > 0
    if not kept.any():
        return _no_shares()
    row, peer, context, alpha, beta = row[kept], peer[kept], context[kept], alpha[kept], beta[kept]
    limit = tau[kept] * cap[kept] >> SHIFT
    if lens.uneven:
        merged = np.flatnonzero(_edges(row, peer) | _edges(context))
        row, peer, context = row[merged], peer[merged], context[merged]
        alpha, beta = np.add.reduceat(alpha, merged), np.add.reduceat(beta, merged)
        limit = np.maximum.reduceat(limit, merged)
    principal = lens.principal[peer]
    owner = _edges(row, principal)
    owners, of = owner.nonzero()[0], owner.cumsum() - 1
    mass = np.add.reduceat(alpha + beta, owners)[of]
    limit = np.maximum.reduceat(limit, owners)[of]
    alpha, beta = _scaled_where(mass > limit, alpha, beta, limit, mass)
    kept = (alpha | beta) > 0
    return Shares(
        row=row[kept],
        context=context[kept],
        peer=peer[kept],
        principal=principal[kept],
        alpha=alpha[kept],
        beta=beta[kept],
    )


def totals(found: Shares, rows: Ints) -> tuple[Ints, Ints]:
    """(α, β) that all peers bring to each of `rows` (ascending, the rows the shares were taken of)."""
    alpha, beta = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    if len(found.row):
        starts = np.flatnonzero(_edges(found.row))
        at = np.searchsorted(rows, found.row[starts])
        alpha[at] = np.add.reduceat(found.alpha, starts)
        beta[at] = np.add.reduceat(found.beta, starts)
    return alpha, beta


def freshness(registers: Registers, rows: Ints, lens: Lens) -> Freshness:
    """The freshness of these rows (ascending, distinct), as `freshness_of`."""
    return freshness_of(counted(registers, rows, lens), rows, lens)


def freshness_of(found: Counted, rows: Ints, lens: Lens) -> Freshness:
    """Per row the largest τ·min(S, ten years) over counted registers of mass ≥ 1, and the latest stamp over
    counted registers. A register whose context has multiplier 0 does not count here either.
    """
    stability, stamp = np.zeros(len(rows)), np.full(len(rows), NO_STAMP)
    counts = found.tau_fx * lens.multiplier_fx[found.context] >> SHIFT > 0
    row = found.row[counts]
    if len(row):
        solid = found.alpha[counts] + found.beta[counts] >= ONE
        vouched = found.tau_fx[counts] * np.minimum(found.stability_h[counts], MAX_PEER_STABILITY_H) / ONE
        starts = np.flatnonzero(_edges(row))
        at = np.searchsorted(rows, row[starts])
        stability[at] = np.maximum.reduceat(np.where(solid, vouched, 0.0), starts)
        stamp[at] = np.maximum.reduceat(found.stamp_h[counts], starts)
    return Freshness(stability_h=stability, stamp_h=stamp)


def standing(providers: Providers, rows: Ints, lens: Lens) -> Standing:
    """Who that counts gave the content of these rows (ascending, distinct)."""
    visible = np.zeros(len(rows), np.bool_)
    sole = np.full(len(rows), NOBODY, np.int32)
    arrival = np.full(len(rows), np.inf)
    held = providers.held(providers.select(rows))
    trusted = lens.tau_fx[held.source] > 0
    row, hour = held.row[trusted], held.hour[trusted]
    principal = lens.principal[lens.peer[held.source[trusted]]]
    order = np.lexsort((principal, row))
    row, hour, principal = row[order], hour[order], principal[order]
    if len(row):
        starts = np.flatnonzero(_edges(row))
        at = np.searchsorted(rows, row[starts])
        visible[at] = True
        lowest, highest = np.minimum.reduceat(principal, starts), np.maximum.reduceat(principal, starts)
        sole[at] = np.where(lowest == highest, lowest, NOBODY)
        arrival[at] = np.minimum.reduceat(hour, starts)
    return Standing(visible=visible, sole_principal=sole, arrival_h=arrival)


def effective(registers: Registers, providers: Providers, rows: Ints, lens: Lens) -> Effective:
    """Shares, totals, freshness and standing of these rows (ascending, distinct)."""
    found = counted(registers, rows, lens)
    brought = shares_of(found, lens)
    alpha, beta = totals(brought, rows)
    return Effective(
        shares=brought,
        alpha=alpha,
        beta=beta,
        freshness=freshness_of(found, rows, lens),
        standing=standing(providers, rows, lens),
    )


def effective_t_last(own_h: Floats, fresh: Freshness, content: Standing) -> Floats:
    """Per row the later of own t_last (-inf for a block not held) and counted stamps; failing both, the hour
    the content came. -inf where nothing is known. Content alone refreshes nothing: only evidence does.
    """
    latest = np.maximum(own_h, fresh.stamp_h)
    unknown = np.isneginf(latest) & content.visible
    return np.where(unknown, content.arrival_h, latest)


def _once(found: Counted, instance: Smalls) -> Counted:
    """One register per (row, peer, context, instance): the first of each run, at its run's best terms."""
    starts = np.flatnonzero(_edges(found.row, found.peer) | _edges(found.context, instance))
    once = {name: column[starts] for name, column in msgspec.structs.asdict(found).items()}
    once["tau_fx"] = np.maximum.reduceat(found.tau_fx, starts)
    once["cap_fx"] = np.minimum.reduceat(found.cap_fx, starts)
    order = np.lexsort((once["tau_fx"], once["context"], once["peer"], once["row"]))
    return Counted(**{name: column[order] for name, column in once.items()})


def _edges(first: NDArray[np.generic], *others: NDArray[np.generic]) -> Flags:
    """Where a run of equal values begins, in a column or in several side by side."""
    edges = np.empty(len(first), np.bool_)
    edges[:1] = True
    np.not_equal(first[1:], first[:-1], out=edges[1:])
    for column in others:
        edges[1:] |= column[1:] != column[:-1]
    return edges


def _scaled_where(
    where: Flags, alpha: Ints, beta: Ints, numerator: Ints, denominator: Ints
) -> tuple[Ints, Ints]:
    """⌊x·numerator/denominator⌋ in both columns at the places given."""
    at = where.nonzero()[0]
    if len(at):
        up, down = numerator[at], denominator[at]
        alpha[at], beta[at] = scaled(alpha[at], up, down), scaled(beta[at], up, down)
    return alpha, beta


def scaled(values: Ints, numerator: Ints, denominator: Ints) -> Ints:
    """⌊value·numerator/denominator⌋, exactly, for non-negative values and positive denominators.

    The product is taken in int64 where all of them fit and in Python's integers otherwise, with the same
    results (which fit, since numerator ≤ denominator wherever this is used).
    """
    if not len(values) or int(values.max()) * int(numerator.max()) < INT64_LIMIT:
        return values * numerator // denominator
    return np.fromiter(
        (
            v * n // d
            for v, n, d in zip(values.tolist(), numerator.tolist(), denominator.tolist(), strict=True)
        ),
        np.int64,
        len(values),
    )


def _no_shares() -> Shares:
    none, small = np.empty(0, np.int64), np.empty(0, np.int32)
    return Shares(row=none, context=small, peer=small, principal=small, alpha=none, beta=none)
