"""Export and import: a round trip is the identity, and what is here already adds nothing."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loremesh.node.errors import UsageError
from loremesh.node.exchange.files import Took, export_to, import_from
from loremesh.node.node import Node
from loremesh.node.replaying import effective_by_id, rebuild
from loremesh.node.rulebook import get_rules
from tests.node.exchange.homes_with_files import exported, live, put_together, taken_apart
from tests.node.homes import Homes, effective, fact, faultless


@pytest.fixture
def homes(tmp_path: Path) -> Homes:
    return Homes(tmp_path / "homes")


@pytest.fixture
async def alice(homes: Homes) -> AsyncIterator[Node]:
    async with homes.create("alice") as node:
        yield node


@pytest.fixture
async def empty(homes: Homes) -> AsyncIterator[Node]:
    async with homes.create("empty") as node:
        yield node
        await faultless(node)


def rows(node: Node) -> int:
    return node.ground.store.position.n


def shape(node: Node) -> dict[str, tuple[object, ...]]:
    """What a home has by block: tags, links, counters, numbers without their source."""
    own, memory = node.ground.memory.own, node.ground.memory
    seen = own.columns
    return {
        memory.block_hex(row): (
            own.tags.get(row, ()),
            {memory.block_hex(edge.other): (edge.weight_fx, edge.by_hand) for edge in own.links.of(row)},
            seen.prior_a[row],
            seen.rated_b[row],
            seen.self_a[row] + seen.imported_a[row],
            seen.self_b[row] + seen.imported_b[row],
            seen.status[row],
            seen.held[row],
            seen.positives[row],
            seen.negatives[row],
        )
        for row in range(seen.length)
    }


# identity


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000))
async def test_a_round_trip_through_an_empty_home_is_the_identity(tmp_path: Path, seed: int) -> None:
    """The same bytes come out again; numbers, tags and links are the same; nothing is turned into now."""
    root = tmp_path / str(len(list(tmp_path.iterdir())))
    homes = Homes(root)
    async with homes.create("alice") as alice, homes.create("bob") as bob:
        await live(alice, homes, seed)
        first = await exported(alice, root / "a.jsonl")
        homes.pass_minutes(60 * 24 * 30)
        await import_from(bob, root / "a.jsonl")
        assert await exported(bob, root / "b.jsonl") == first
        assert await effective(bob) == await effective(alice)
        assert shape(bob) == shape(alice)
        await faultless(bob)


async def test_times_and_contexts_of_events_stay(
    alice: Node, empty: Node, homes: Homes, tmp_path: Path
) -> None:
    """An outcome of last month is one of last month in the home that took it in (FAULTS 30, 32)."""
    block = (await alice.learn("Quota is checked at night")).block
    homes.pass_minutes(20)
    await alice.outcome(0.75, blocks=[block], context="deploy")
    happened = [(event.kind, event.wall_ms, event.hour) for event in await alice.events(block)]
    await export_to(alice, tmp_path / "a.jsonl")
    homes.pass_minutes(60 * 24 * 30)
    await import_from(empty, tmp_path / "a.jsonl")
    seen = await empty.events(block)
    assert [(event.kind, event.wall_ms, event.hour) for event in seen] == happened
    assert (await empty.explain(block)).contexts == {"deploy": (0.75, 0.25)}


async def test_other_rules_say_the_same_of_both_homes(
    alice: Node, empty: Node, homes: Homes, tmp_path: Path
) -> None:
    """The file holds the history, so what another forgetting model makes of it is the same."""
    await live(alice, homes, 3)
    await export_to(alice, tmp_path / "a.jsonl")
    await import_from(empty, tmp_path / "a.jsonl")
    for name in ("survey", "exponential", "fsrs6", "sm2", "hlr", "actr"):
        there, here = [
            effective_by_id(await rebuild(node.ground.store, node.ground.identity.public, get_rules(name)))
            for node in (alice, empty)
        ]
        assert here == there, name


async def test_an_imported_home_opens_as_it_was_closed(alice: Node, homes: Homes, tmp_path: Path) -> None:
    """From its checkpoint and without it, with the clock where the file's stood."""
    await live(alice, homes, 4)
    await export_to(alice, tmp_path / "a.jsonl")
    async with homes.create("bob") as bob:
        await import_from(bob, tmp_path / "a.jsonl")
        numbers, hour = await effective(bob), bob.ground.hour()
    for checkpoint in (True, False):
        if not checkpoint:
            bob.ground.store.paths.checkpoint.unlink()
        async with homes.open("bob") as bob:
            assert await effective(bob) == numbers
            assert bob.ground.hour() == hour == alice.ground.hour()
            await faultless(bob)


async def test_what_was_imported_is_found_at_once(
    alice: Node, empty: Node, homes: Homes, tmp_path: Path
) -> None:
    """Before anything is embedded here; and it takes outcomes like any block."""
    block = (await alice.learn("The pelican crossing needs a permit")).block
    await export_to(alice, tmp_path / "a.jsonl")
    await import_from(empty, tmp_path / "a.jsonl")
    found = await empty.recall("pelican permit")
    assert [hit.block for hit in found.hits] == [block]
    await empty.outcome(1.0, episode=found.episode)
    claims = {claim.source: (claim.alpha, claim.beta) for claim in (await empty.explain(block)).sources}
    assert claims == {"prior": (0.5, 0.5), "self": (1.0, 0.0)}


# nothing twice


async def test_importing_twice_changes_nothing(
    alice: Node, empty: Node, homes: Homes, tmp_path: Path
) -> None:
    """Not a row is written the second time, not even after other use in between."""
    await live(alice, homes)
    await export_to(alice, tmp_path / "a.jsonl")
    first = await import_from(empty, tmp_path / "a.jsonl")
    await empty.outcome(1.0, blocks=[(await empty.learn(fact(1))).block])
    homes.pass_minutes(90)
    numbers, before = await effective(empty), rows(empty)
    second = await import_from(empty, tmp_path / "a.jsonl")
    assert (rows(empty), await effective(empty)) == (before, numbers)
    assert second.counts.events_known == first.counts.events_new
    assert (second.counts.events_new, second.counts.blocks_new) == (0, 0)


async def test_an_own_export_adds_nothing_to_the_home_it_is_of(
    alice: Node, homes: Homes, tmp_path: Path
) -> None:
    """Its own log is where it is already."""
    await live(alice, homes)
    await export_to(alice, tmp_path / "a.jsonl")
    before = rows(alice)
    took = await import_from(alice, tmp_path / "a.jsonl")
    assert rows(alice) == before
    assert took.counts.events_new == took.counts.blocks_new == 0
    assert "own log" in took.remarks[0]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_files_that_overlap_add_up_to_the_same_in_any_order(
    alice: Node, empty: Node, homes: Homes, tmp_path: Path, order: tuple[int, int]
) -> None:
    """An early and a late export of one home: every event counts once."""
    files = [tmp_path / "early.jsonl", tmp_path / "late.jsonl"]
    for seed, path in enumerate(files):
        await live(alice, homes, seed)
        await export_to(alice, path)
    for at in order:
        await import_from(empty, files[at])
    mine, theirs = shape(empty), shape(alice)
    assert {block: about[2:] for block, about in mine.items()} == {
        block: about[2:] for block, about in theirs.items()
    }


async def test_evidence_that_came_back_through_another_home_is_known(
    alice: Node, homes: Homes, tmp_path: Path
) -> None:
    """Alice's file into Bob's home, Bob's into Carol's, Alice's into Carol's: her outcomes count once."""
    block = (await alice.learn("Certificates expire in March")).block
    await alice.outcome(1.0, blocks=[block], weight=3.0)
    async with homes.create("bob") as bob, homes.create("carol") as carol:
        await export_to(alice, tmp_path / "a.jsonl")
        await import_from(bob, tmp_path / "a.jsonl")
        await bob.outcome(0.0, blocks=[block])
        await export_to(bob, tmp_path / "b.jsonl")
        await import_from(carol, tmp_path / "b.jsonl")
        await import_from(carol, tmp_path / "a.jsonl")
        claims = [claim for claim in (await carol.explain(block)).sources if claim.source == "imported"]
        assert [(claim.name, claim.alpha, claim.beta) for claim in claims] == [
            ("alice", 3.0, 0.0),
            ("bob", 0.0, 1.0),
        ]
        await export_to(carol, tmp_path / "c.jsonl")
        took = await import_from(alice, tmp_path / "c.jsonl")
        assert took.counts.events_new == 1, "Bob's outcome is all that is new to Alice"
        claims = [claim for claim in (await alice.explain(block)).sources if claim.source == "imported"]
        assert [(claim.name, claim.alpha, claim.beta) for claim in claims] == [("bob", 0.0, 1.0)]


# into a home with a life of its own


async def test_a_block_that_was_held_gains_evidence_and_tags_and_keeps_its_own_history(
    alice: Node, empty: Node, homes: Homes, tmp_path: Path
) -> None:
    """Prior, rating, stability and importance stay; evidence is added beside first-hand."""
    text = "Backups run at four"
    block = (await alice.learn(text, tags=["theirs"])).block
    await alice.consolidate()
    await alice.outcome(1.0, blocks=[block], weight=2.0, context="deploy")
    await export_to(alice, tmp_path / "a.jsonl")
    await empty.learn(text, tags=["mine"])
    before = await empty.explain(block)
    await import_from(empty, tmp_path / "a.jsonl")
    after = await empty.explain(block)
    assert (after.alpha, after.beta) == (before.alpha + 2.0, before.beta)
    assert after.tags == ["mine", "theirs"]
    assert (after.stability_h, after.importance, after.last_event_h) == (
        before.stability_h,
        before.importance,
        before.last_event_h,
    )
    assert after.contexts == {"deploy": (2.0, 0.0)}


async def test_ages_stay_where_clocks_differ(alice: Node, empty: Node, homes: Homes, tmp_path: Path) -> None:
    """A block untouched for two active hours there is that here, whatever hour this home's clock shows."""
    block = (await alice.learn("Old news")).block
    for _ in range(5):
        homes.pass_minutes(24)
        await alice.recall("nothing like it")
    await export_to(alice, tmp_path / "a.jsonl")
    await empty.learn("Something of its own")
    await import_from(empty, tmp_path / "a.jsonl")
    seen = await empty.explain(block)
    assert seen.hour - seen.last_event_h == pytest.approx(2.0)
    assert seen.retrievability == pytest.approx((await alice.explain(block)).retrievability)


async def test_what_was_forgotten_here_stays_out(
    alice: Node, empty: Node, homes: Homes, tmp_path: Path
) -> None:
    """An old file is an echo; learning the text again is not (FAULTS 26)."""
    kept, gone = [(await alice.learn(text)).block for text in ("Keep this one", "Drop that one")]
    await alice.outcome(1.0, blocks=[kept, gone])
    await export_to(alice, tmp_path / "a.jsonl")
    await import_from(empty, tmp_path / "a.jsonl")
    await empty.forget(gone)
    took = await import_from(empty, tmp_path / "a.jsonl")
    assert took.counts.blocks_forgotten == 1
    assert "forgotten here" in took.remarks[0]
    assert [hit.block for hit in (await empty.recall("Drop that one")).hits] == [kept]
    assert (await empty.learn("Drop that one")).created


async def test_forgetting_takes_what_came_from_files_along(
    alice: Node, empty: Node, homes: Homes, tmp_path: Path
) -> None:
    """Every file of the home is searched for the text and the id."""
    block = (await alice.learn("xylophone quarantine", tags=["zither"])).block
    await alice.outcome(1.0, blocks=[block])
    await export_to(alice, tmp_path / "a.jsonl")
    await import_from(empty, tmp_path / "a.jsonl")
    await empty.forget(block)
    imported = empty.ground.memory.own.imported
    assert not imported.evidence
    assert not imported.known
    assert (await empty.recall("xylophone")).hits == []


# trust and spaces are for the home they were made in


async def test_evidence_from_files_never_travels(alice: Node, homes: Homes, tmp_path: Path) -> None:
    """Shared blocks that came from a file: no frame of this home states their evidence (DESIGN §4)."""
    block = (await alice.learn("Ask the harbour master first")).block
    for _ in range(5):
        homes.pass_minutes(29)
        await alice.recall("nothing like it")
    await alice.outcome(1.0, blocks=[block], weight=5.0)
    await export_to(alice, tmp_path / "a.jsonl")
    async with homes.create("bob") as bob:
        await import_from(bob, tmp_path / "a.jsonl")
        own = bob.ground.memory.own
        assert len(own.registers) == 0
        await bob.outcome(1.0, blocks=[block])
        held = own.registers.held(own.registers.live())
        assert (held.alpha.tolist(), held.beta.tolist()) == ([1 << 16], [0])
        assert held.stability_h[0] < (await bob.explain(block)).stability_h, "S of the file is not published"


async def test_trust_comes_along_but_counts_only_where_asked(
    alice: Node, empty: Node, homes: Homes, tmp_path: Path
) -> None:
    """A file must not decide whom this home trusts, unless its administrator says so."""
    await alice.learn("Something to export")
    raw = await exported(alice, tmp_path / "a.jsonl")
    told = taken_apart(raw)
    peer = "7" * 64
    detail = {"peer": peer, "value": 0.5, "revoked": False, "why": "same team", "who": "ann"}
    trust = {"line": "event", "source": 0, "n": 900, "kind": "trust", "block": "", "hour": 0.0, "wall_ms": 5}
    path = put_together(tmp_path / "t.jsonl", [*told[:-1], {**trust, "detail": detail}])
    took = await import_from(empty, path)
    assert (took.counts.trust_new, empty.ground.memory.own.peers) == (1, {})
    assert "not in force" in took.remarks[0]
    assert await exported(empty, tmp_path / "again.jsonl") == path.read_bytes()
    async with homes.create("bob") as bob:
        await import_from(bob, path, trust=True)
        (setting,) = bob.ground.memory.own.peers.values()
        assert (setting.value_fx, setting.why, setting.at_ms) == (1 << 15, "same team", 5)
        assert bob.ground.memory.sync.policy.peers.keys() == {bytes.fromhex(peer)}
        await faultless(bob)


# looking before leaping, and the file itself


async def test_a_dry_run_says_what_would_happen_and_does_nothing(
    alice: Node, empty: Node, homes: Homes, tmp_path: Path
) -> None:
    """The same counts as the real thing."""
    await live(alice, homes)
    await export_to(alice, tmp_path / "a.jsonl")
    before = rows(empty)
    looked: Took = await import_from(empty, tmp_path / "a.jsonl", dry_run=True)
    assert (rows(empty), empty.ground.clock.hour) == (before, 0.0)
    took = await import_from(empty, tmp_path / "a.jsonl")
    assert took.counts == looked.counts


async def test_an_export_is_for_its_owner_only_and_takes_no_ones_place(alice: Node, tmp_path: Path) -> None:
    """Mode 0600 from its first byte; a name that is taken is refused; a failure leaves nothing."""
    await alice.learn("A secret of sorts")
    path = tmp_path / "a.jsonl"
    umask = os.umask(0)
    try:
        await export_to(alice, path)
    finally:
        os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(UsageError, match="there already"):
        await export_to(alice, path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.jsonl", "homes"]


async def test_progress_goes_up_to_the_whole(alice: Node, empty: Node, homes: Homes, tmp_path: Path) -> None:
    """Both ways, and never backwards."""
    await live(alice, homes)
    seen: list[tuple[int, int]] = []
    await export_to(alice, tmp_path / "a.jsonl", progress=lambda done, of: seen.append((done, of)))
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1]
    seen.clear()
    await import_from(empty, tmp_path / "a.jsonl", progress=lambda done, of: seen.append((done, of)))
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1]


async def test_an_export_is_of_one_moment(alice: Node, homes: Homes, tmp_path: Path) -> None:
    """What is learned while it is written is not in it, not even in part."""
    await alice.learn("Before")
    page = await alice.export_page()
    await alice.learn("After")
    page = await alice.export_page(page.cursor)
    assert [event.kind for event in page.events] == ["learn"]
    assert page.cursor == ""
