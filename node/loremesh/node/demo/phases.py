"""The story's first four phases: alone, sharing, attacked, revoked with its proof. The fifth: `crash`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final

import msgspec

from loremesh.node.demo import hostile
from loremesh.node.demo.agents import Answer
from loremesh.node.demo.figures import moved
from loremesh.node.demo.plan import HONEST, HOSTILE, SPACE
from loremesh.node.demo.processes import together, wait_until
from loremesh.node.demo.proof import compare_with_twin
from loremesh.node.demo.results import Hostile, Influence, Phase, Twin
from loremesh.node.demo.team import ARRIVE_S, Team
from loremesh.sync.outcomes import Reason
from loremesh.sync.trust import DEFAULT_CAP

WHY: Final = "its blocks and evidence were inverted"
STILL_S: Final = 1.0
"""The flood has arrived when nothing new was counted for this long."""
UNSIGNED: Final = tuple(f"rejected: {reason.value}" for reason in (Reason.SEAL_BROKEN, Reason.BAD_SIGNATURE))
"""What becomes of frames that nobody is proven to have signed."""
ROUNDING: Final = 1e-9


class Attack(msgspec.Struct, frozen=True):
    """What came of the attack: how the agents did, what was sent and taken, how far means moved."""

    phase: Phase
    hostile: Hostile
    influence: Influence
    made_up: frozenset[str]


def alone(team: Team) -> Phase:
    """Each agent learns its own third, works on what comes, and is examined."""
    team.learn()
    team.digest()
    team.work("alone")
    return team.examine("alone", "each alone")[0]


def sharing(team: Team) -> Phase:
    """All share what they hold, work on, and are examined."""
    team.learn(SPACE)
    team.wait_for_blocks(sum(len(hand) for hand in team.plan.hands))
    team.digest()
    team.wait_for_agreement()
    team.work("shared")
    team.wait_for_agreement()
    return team.examine("shared", "sharing")[0]


def attacked(team: Team, keys: hostile.Keys) -> Attack:
    """The hostile member, trusted like any other, reads, makes up, inverts and floods; all are examined, then
    work on under attack.
    """
    size, tasks = team.plan.size, team.plan.exercises.work
    door = team.nodes.door(HOSTILE)
    claims = hostile.spy(door, tasks)
    made_up = hostile.make_up(tasks, team.plan.facts)
    praised = hostile.praise(door, SPACE, made_up)
    blocks = frozenset(block for block, *_ in praised)
    team.wait_for_blocks(sum(len(hand) for hand in team.plan.hands) + len(blocks))
    sent = asyncio.run(hostile.flood(keys, [*claims, *praised], size.flood_rounds))
    _wait_for_flood(team, sent)
    team.say(
        f"the hostile peer made up {len(blocks)} blocks and sent {sent.frames} frames of inverted evidence"
    )
    team.digest()
    phase, _ = team.examine("attacked", "hostile peer trusted", blocks)
    influence = _influence(team, keys, [block for block, *_ in (*praised, *claims)])
    seen = {agent.name: agent.peers()[HOSTILE] for agent in team.agents}
    counters = {agent.name: agent.status().counters for agent in team.agents}
    team.work("attacked")
    team.wait_for_agreement()
    return Attack(
        phase,
        Hostile(
            peer=keys.identity.peer_id,
            trust=max(peer.trust for peer in seen.values()),
            blocks_made_up=len(blocks),
            frames_sent=sent.frames + sent.forged + sent.broken + sent.over_bound,
            registers_claimed=sent.registers,
            largest_claim=sent.largest,
            outcomes={name: dict(sorted(peer.outcomes.items())) for name, peer in seen.items()},
            unsigned={
                name: {label: counts.get(label, 0) for label in UNSIGNED} for name, counts in counters.items()
            },
        ),
        influence,
        blocks,
    )


def revoked(team: Team, keys: hostile.Keys, made_up: frozenset[str]) -> tuple[Phase, list[list[Answer]]]:
    """Every honest agent's administrator revokes the hostile peer; all are examined."""
    together(lambda agent: agent.revoke(keys.identity.peer_id, WHY), team.agents)
    return team.examine("revoked", "after its revocation", made_up)


def prove(team: Team, keys: hostile.Keys, answers: Sequence[Sequence[Answer]]) -> list[Twin]:
    """End the honest nodes and compare each home, and every answer it gave last, with its twin."""
    together(team.nodes.stop, HONEST[1:])
    team.nodes.stop(HONEST[0])  # last, since it runs the bus

    async def work() -> list[Twin]:
        return [
            await compare_with_twin(
                name, team.nodes.home(name), team.nodes.environ, keys.identity.public, mine
            )
            for name, mine in zip(HONEST, answers, strict=True)
        ]

    twins = asyncio.run(work())
    for twin in twins:
        team.say(
            f"{twin.agent} and its twin: {twin.numbers} numbers, {twin.numbers_different} different; "
            f"{twin.answers} answers, {twin.answers_different} different"
        )
    return twins


def _wait_for_flood(team: Team, sent: hostile.Sent) -> None:
    """Until every honest node has looked at every signed frame of the flood, and nothing new comes."""
    signed = sent.frames + sent.over_bound
    seen: list[int] = []
    since_s = time.monotonic()

    def arrived() -> bool:
        nonlocal seen, since_s
        now = [sum(agent.peers()[HOSTILE].outcomes.values()) for agent in team.agents]
        if now != seen:
            seen, since_s = now, time.monotonic()
        return min(seen) >= signed and time.monotonic() - since_s > STILL_S

    wait_until(arrived, "the flood to arrive", ARRIVE_S)


def _influence(team: Team, keys: hostile.Keys, blocks: Sequence[str]) -> Influence:
    """How far the hostile peer moves the means of these blocks, at every honest node, against the bound."""
    looked_at = list(dict.fromkeys(blocks))
    chosen = looked_at[:: max(1, len(looked_at) // team.plan.size.explained)]
    peer = keys.identity.peer_id
    explained = together(lambda agent: [agent.explain(block) for block in chosen], team.agents)
    found = [moved(one, peer, DEFAULT_CAP) for mine in explained for one in mine]
    points = [point for point in found if point is not None]
    trust = team.agents[0].peers()[HOSTILE].trust
    return Influence(
        trust=trust,
        cap=DEFAULT_CAP,
        blocks=points,
        over=sum(point.moved > point.bound + ROUNDING for point in points),
        nearest=max((point.moved / point.bound for point in points), default=0.0),
    )
