"""Why a block stands where it stands: its effective numbers, taken apart by source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loremesh.crypto.peerid import peer_id
from loremesh.node.beta import quantile
from loremesh.node.columns import OwnViews, Status, withdrawal_name
from loremesh.node.fading import Fading
from loremesh.node.memory import Memory
from loremesh.node.overlap import set_aside
from loremesh.node.raters import counted
from loremesh.node.results import DecisionSeen, EpisodeSeen, Explanation, Provenance, SourceClaim
from loremesh.node.worth import CREDIBLE, interval
from loremesh.sync.combine import shares
from loremesh.sync.fixed import ONE
from loremesh.sync.registers import Held, Registers

CURVE_H: Final = (1.0, 8.0, 24.0, 72.0, 168.0, 720.0)
"""Active hours ahead at which the curve is told: an hour to a month."""

Floats = NDArray[np.float64]
NameOf = Callable[[bytes], str]
"""A peer's public key → what it calls itself, '' when it does not say."""


def explain(
    memory: Memory,
    row: int,
    text: str,
    hour: float,
    name_of: NameOf,
    episodes: Sequence[EpisodeSeen] = (),
) -> Explanation:
    """The block in `row`, which `memory.knows`. The memory has been refreshed."""
    own = memory.own.columns.views(max(memory.length, memory.own.columns.length))
    effective = memory.effective.rows
    alpha, beta = int(effective.alpha[row]), int(effective.beta[row])
    stability_h, last_h = float(effective.stability_h[row]), float(effective.t_last_h[row])
    contexts = _by_context(memory, row)
    mass = np.array([[alpha], [beta]]) / ONE
    low, high = (float(end[0]) for end in credible_utility(mass[0], mass[1]))
    fading = memory.fading(np.array([row], np.int64), hour)
    spaces = memory.own.shared.get(row, set()) | {
        memory.sync.registers.sources[source].space for source in memory.sync.providers.of(row)
    }
    return Explanation(
        block=memory.block_hex(row),
        text=text,
        status=_status(memory, own, row),
        held=bool(own.held[row]),
        tags=list(memory.own.tags.get(row, ())),
        spaces=sorted(
            memory.sync.spaces[space].genesis.name for space in spaces if space in memory.sync.spaces
        ),
        alpha=alpha / ONE,
        beta=beta / ONE,
        utility=alpha / (alpha + beta) if alpha + beta else 0.5,
        stability_h=stability_h,
        difficulty=float(own.difficulty[row]),
        importance=float(own.importance[row]),
        retrievability=float(fading.after(0.0)[0]),
        last_event_h=last_h if np.isfinite(last_h) else 0.0,
        hour=hour,
        sources=[*_own_claims(memory, row), *_peer_claims(memory, row, name_of)],
        contexts=contexts,
        decision=_decision(memory, row),
        superseded_by=_named(memory, memory.own.decisions.successor(row)),
        supersedes=[_named(memory, old) for old in memory.own.decisions.replaced_by(row)],
        utility_low=low,
        utility_high=high,
        credible=CREDIBLE,
        context_intervals=_intervals(contexts),
        to_90_h=_hours(fading, 0.9),
        to_50_h=_hours(fading, 0.5),
        curve=[(ahead_h, float(fading.after(ahead_h)[0])) for ahead_h in CURVE_H],
        episodes=list(episodes),
    )


def credible_utility(alpha: Floats, beta: Floats) -> tuple[Floats, Floats]:
    """Ends of the middle CREDIBLE of Beta(α, β), [n] each; α and β count as half an outcome at least, so that
    what was never seen is not held to be impossible.
    """
    pairs, at = np.unique(np.stack([alpha, beta]), axis=1, return_inverse=True)
    at = at.ravel()
    shapes = np.maximum(pairs, 0.5)
    tail = 0.5 * (1.0 - CREDIBLE)
    return quantile(tail, *shapes)[at], quantile(1.0 - tail, *shapes)[at]


def _intervals(contexts: dict[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """Of worth by context, as `worth` has them: contexts have no prior."""
    if not contexts:
        return {}
    counts = np.array(list(contexts.values())).T
    low, high = interval(counts[0], counts[1])
    return dict(zip(contexts, zip(low.tolist(), high.tolist(), strict=True), strict=True))


def _hours(fading: Fading, level: float) -> float | None:
    found = float(fading.until(level)[0])
    return found if np.isfinite(found) else None


def _decision(memory: Memory, row: int) -> DecisionSeen | None:
    held = memory.own.decisions.of(row)
    if held is None:
        return None
    return DecisionSeen(withdrawal_name(held.withdrawn), held.why, held.who, held.hour, held.wall_ms)


def _named(memory: Memory, row: int | None) -> str:
    return "" if row is None else memory.block_hex(row)


def _status(memory: Memory, own: OwnViews, row: int) -> str:
    if memory.withdrawal(row):
        return withdrawal_name(memory.withdrawal(row))
    return Status(own.status[row]).name.lower() if own.held[row] else "peers"


def provenance(memory: Memory, row: int, name_of: NameOf) -> list[Provenance]:
    """Who stands behind the block's content: this node first, then peers by trust."""
    found = []
    if row < memory.own.columns.length and memory.own.columns.held[row]:
        found.append(Provenance("self", "", 1.0))
    lens = memory.sync.lens()
    peers = []
    for number in memory.sync.providers.of(row):
        source, tau = memory.sync.registers.sources[number], int(lens.tau_fx[number])
        if tau:
            space = memory.sync.spaces.get(source.space)
            name = space.genesis.name if space else ""
            peers.append(Provenance(peer_id(source.origin), name_of(source.origin), tau / ONE, name))
    distinct = {(one.source, one.space): one for one in peers}
    return found + sorted(distinct.values(), key=lambda one: (-one.trust, one.source, one.space))


def _own_claims(memory: Memory, row: int) -> list[SourceClaim]:
    own = memory.own.columns
    if row >= own.length:
        return []
    kinds = (
        ("prior", own.prior_a[row], own.prior_b[row], 0.0),
        ("self", own.self_a[row], own.self_b[row], own.stability_h[row]),
    )
    claims = [
        SourceClaim(name, "", 1.0, a / ONE, b / ONE, stability_h, a / ONE, b / ONE)
        for name, a, b, stability_h in kinds
        if a or b
    ]
    claims[1:1] = _rating_claims(memory, row)
    return claims + _file_claims(memory, row)


def _rating_claims(memory: Memory, row: int) -> list[SourceClaim]:
    """Ratings by rater: as stated, and what counts of them at the rater's weight."""
    raters = memory.own.raters
    claims = []
    for rater, alpha, beta in raters.of(row):
        weight = raters.multipliers.get(rater, ONE)
        a, b = counted(alpha, weight) / ONE, counted(beta, weight) / ONE
        if alpha or beta:
            claims.append(SourceClaim("ratings", rater, weight / ONE, alpha / ONE, beta / ONE, 0.0, a, b))
    return claims


def _file_claims(memory: Memory, row: int) -> list[SourceClaim]:
    """Evidence out of files, by the log it comes from; it counts unless the peer itself says it here."""
    files = memory.own.imported
    aside = set_aside(files, memory.sync, np.array([row], np.int64))
    sums: dict[int, tuple[int, int, int, int]] = {}
    for source, context, alpha, beta in files.of(row):
        a, b, counted_a, counted_b = sums.get(source, (0, 0, 0, 0))
        counts = (row, source, context) not in aside
        sums[source] = (a + alpha, b + beta, counted_a + alpha * counts, counted_b + beta * counts)
    return [
        SourceClaim("imported", files.sources[source].name, 1.0, a / ONE, b / ONE, 0.0, c / ONE, d / ONE)
        for source, (a, b, c, d) in sorted(sums.items())
        if a or b
    ]


def _peer_claims(memory: Memory, row: int, name_of: NameOf) -> list[SourceClaim]:
    """Every peer with registers of the row, trusted or not: what it claims, and what of that counts."""
    registers, lens = memory.sync.registers, memory.sync.lens()
    rows = np.array([row], np.int64)
    held = _newest(registers, registers.held(registers.select(rows)))
    counted = shares(registers, rows, lens)
    claims = []
    for origin in sorted({registers.sources[source].origin for source in held.source.tolist()}):
        if origin == memory.sync.own:
            continue
        numbers = [i for i, source in enumerate(registers.sources) if source.origin == origin]
        mine = np.isin(held.source, numbers)
        share = counted.peer == lens.peers.index(origin)
        claims.append(
            SourceClaim(
                source=peer_id(origin),
                name=name_of(origin),
                trust=int(lens.tau_fx[numbers].max()) / ONE,
                alpha=int(held.alpha[mine].sum()) / ONE,
                beta=int(held.beta[mine].sum()) / ONE,
                stability_h=float(held.stability_h[mine].max(initial=0.0)),
                counted_alpha=int(counted.alpha[share].sum()) / ONE,
                counted_beta=int(counted.beta[share].sum()) / ONE,
            )
        )
    return claims


def _newest(registers: Registers, held: Held) -> Held:
    """Of the statements of one register that came through several spaces, the newest."""
    best: dict[tuple[bytes, bytes, int], int] = {}
    for at, (number, context, version) in enumerate(
        zip(held.source.tolist(), held.context.tolist(), held.version.tolist(), strict=True)
    ):
        source = registers.sources[number]
        key = (source.origin, source.incarnation, context)
        if key not in best or version > int(held.version[best[key]]):
            best[key] = at
    at_ = np.array(sorted(best.values()), np.int64)
    return Held(**{name: getattr(held, name)[at_] for name in Held.__struct_fields__})


def _by_context(memory: Memory, row: int) -> dict[str, tuple[float, float]]:
    """Effective evidence by context: first-hand of this node and what counts of peers; priors have none."""
    rows = np.array([row], np.int64)
    found: dict[str, tuple[int, int]] = {}
    mine = memory.own.registers.held(memory.own.registers.select(rows))
    theirs = shares(memory.sync.registers, rows, memory.sync.lens())
    for part in (mine, theirs):
        for context, alpha, beta in zip(
            part.context.tolist(), part.alpha.tolist(), part.beta.tolist(), strict=True
        ):
            label = memory.own.contexts.label(context)
            a, b = found.get(label, (0, 0))
            found[label] = (a + alpha, b + beta)
    aside = set_aside(memory.own.imported, memory.sync, rows)
    for source, context, alpha, beta in memory.own.imported.of(row):
        if (row, source, context) in aside:
            continue
        a, b = found.get(memory.own.contexts.label(context), (0, 0))
        found[memory.own.contexts.label(context)] = (a + alpha, b + beta)
    return {label: (a / ONE, b / ONE) for label, (a, b) in sorted(found.items())}
