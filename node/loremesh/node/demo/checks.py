"""What must hold at the end of the demonstration, whatever its figures: each as one line, held or not."""

from __future__ import annotations

from collections.abc import Sequence

from loremesh.node.demo.results import Check, Crash, Hostile, Influence, Twin


def checks(twins: Sequence[Twin], crash: Crash, influence: Influence, hostile: Hostile) -> list[Check]:
    """All of them, in the order of the story."""
    return [
        Check(
            "the hostile peer moved no mean further than the stated bound",
            influence.over == 0 and bool(influence.blocks),
            f"{len(influence.blocks)} means looked at, {influence.over} over it, "
            f"the largest reached {influence.nearest:.1%} of it",
        ),
        Check(
            "forged, broken and over-bound frames were refused by every node",
            all(_refused(hostile, agent) for agent in hostile.outcomes),
            "; ".join(f"{agent}: {_refusals(hostile, agent)} refused" for agent in hostile.outcomes),
        ),
        *(
            Check(
                f"after the revocation every number of {twin.agent} equals its twin's",
                twin.equal,
                f"{twin.numbers:,} numbers, {twin.numbers_different} different "
                f"({twin.numbers_while_trusted} while it was trusted); "
                f"{twin.registers:,} registers, {twin.registers_different} different; "
                f"{twin.answers} answers, {twin.answers_different} different; "
                f"{twin.log_faults} faults in {twin.log_rows:,} log rows",
            )
            for twin in twins
        ),
        Check(
            f"{crash.agent} lost nothing that it had acknowledged when it was killed",
            crash.lost == 0 and crash.acknowledged > 0,
            f"{crash.acknowledged} texts with their outcomes, {crash.lost} lost",
        ),
        Check(
            "afterwards all hold the same feed positions and chain hashes of one another",
            crash.feeds > 0 and crash.feeds_different == 0,
            f"{crash.feeds} chains, {crash.feeds_different} different",
        ),
        Check(
            "and the same registers",
            len(set(crash.digests.values())) == 1 and len(crash.digests) > 1,
            "; ".join(f"{agent}: {digest[:12]}" for agent, digest in crash.digests.items()),
        ),
        Check(
            "and every log folds again into what is in use",
            crash.faults == 0,
            f"{crash.faults} faults found by replay --check",
        ),
    ]


def _refused(hostile: Hostile, agent: str) -> bool:
    return bool(_signed_refusals(hostile, agent)) and all(hostile.unsigned[agent].values())


def _refusals(hostile: Hostile, agent: str) -> int:
    return _signed_refusals(hostile, agent) + sum(hostile.unsigned[agent].values())


def _signed_refusals(hostile: Hostile, agent: str) -> int:
    return sum(n for label, n in hostile.outcomes[agent].items() if label.startswith("rejected"))
