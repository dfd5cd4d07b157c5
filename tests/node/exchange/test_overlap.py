"""Evidence that comes out of a file and from the peer itself counts once, by today's trust."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from loremesh.node.exchange.files import export_to, import_from
from loremesh.node.results import Explanation
from tests.node.homes import Homes, Team, effective, eventually, faultless

TEXT = "Drain the queue before the upgrade"


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    async with Team(Homes(tmp_path / "homes")) as team:
        await team.found("alice", "bob")
        yield team
        await faultless(team["alice"])


async def both_ways(team: Team, tmp_path: Path) -> str:
    """Bob's four good outcomes reach Alice in a file and over the bus; the block."""
    bob, alice = team["bob"], team["alice"]
    block = (await bob.learn(TEXT, share=["team"])).block
    await bob.outcome(1.0, blocks=[block], weight=4.0, context="deploy")
    await export_to(bob, tmp_path / "bob.jsonl")
    await import_from(alice, tmp_path / "bob.jsonl")
    await team.alike()
    return block


def claims(about: Explanation) -> dict[str, tuple[float, float]]:
    """What is claimed and what counts of it, α only, by source."""
    return {
        "imported" if one.source == "imported" else one.name or one.source: (one.alpha, one.counted_alpha)
        for one in about.sources
    }


async def test_what_a_trusted_peer_states_itself_counts_in_the_place_of_its_file(
    team: Team, tmp_path: Path
) -> None:
    """Half of four, not four and a half of four; in sum and in the context."""
    block = await both_ways(team, tmp_path)
    about = await team["alice"].explain(block)
    assert claims(about) == {"prior": (0.5, 0.5), "imported": (4.0, 0.0), "bob": (4.0, 2.0)}
    assert (about.alpha, about.contexts) == (2.5, {"deploy": (2.0, 0.0)})


async def test_a_file_counts_while_its_home_is_trusted_with_nothing(team: Team, tmp_path: Path) -> None:
    """Whoever imports it vouches for it; a change of trust is exact in both directions."""
    block = await both_ways(team, tmp_path)
    alice = team["alice"]
    await alice.recall("queue upgrade", context="deploy")
    before = await effective(alice)
    (bob,) = [peer.peer for peer in await alice.peers()]
    await alice.trust_set(bob, 0.0)
    about = await alice.explain(block)
    assert (about.alpha, about.contexts) == (4.5, {"deploy": (4.0, 0.0)})
    await faultless(alice)
    await alice.trust_set(bob, 0.5)
    assert await effective(alice) == before


async def test_a_revoked_peer_counts_for_nothing_through_a_file_either(team: Team, tmp_path: Path) -> None:
    """Revoking takes its influence out, whichever way it came."""
    block = await both_ways(team, tmp_path)
    alice = team["alice"]
    (bob,) = [peer.peer for peer in await alice.peers()]
    await alice.trust_revoke(bob, why="it lies")
    about = await alice.explain(block)
    assert (about.alpha, about.beta, about.contexts) == (0.5, 0.5, {})


async def test_a_file_of_a_peer_that_was_revoked_before_counts_for_nothing(
    team: Team, tmp_path: Path
) -> None:
    """Even where the peer never stated any of it."""
    bob, alice = team["bob"], team["alice"]
    block = (await bob.learn(TEXT)).block
    await bob.outcome(1.0, blocks=[block], weight=4.0)

    async def met() -> bool:
        return bool(await alice.peers())

    await eventually(met, "alice knows bob")
    (peer,) = [one.peer for one in await alice.peers()]
    await export_to(bob, tmp_path / "bob.jsonl")
    await import_from(alice, tmp_path / "bob.jsonl")
    assert (await alice.explain(block)).alpha == 4.5
    await alice.trust_revoke(peer)
    assert (await alice.explain(block)).alpha == 0.5
