"""Engines over a bus that loses, repeats, delays and forgets: the nodes end alike and say what happened."""

import asyncio
from functools import partial
from pathlib import Path

import nats
import pytest
from msgspec import structs

from loremesh.sync.busport import BusUnconfigured, FrameSubject, Stored
from loremesh.sync.engine import FeedStatus, SpacePhase
from loremesh.sync.memory_bus import Faults, MemoryBus
from loremesh.sync.nats_bus import NatsBus, NatsOptions
from loremesh.sync.outcomes import Outcome, Reason, Rejected
from loremesh.sync.subjects import stream_name
from loremesh.sync.wire import Chain, Kind
from tests.sync.engines import QUICK, Member, alike
from tests.sync.nats_server import NatsServer, until
from tests.sync.teams import ALONE, TEXT, Team, converged, subject_of
from tests.sync.world import Space, masses

UNASKED = structs.replace(QUICK, check_s=1000.0, quiet_head_s=1000.0)
"""Without anything that would be done once in a while, whatever happened."""


@pytest.mark.parametrize("seed", range(6))
async def test_three_nodes_converge_whatever_the_bus_does(team: Team, seed: int) -> None:
    """Frames, heads and replies dropped, repeated, late and unacknowledged: the same registers everywhere."""
    team.hub.random.seed(seed)
    team.hub.faults = Faults(drop=0.25, duplicate=0.25, reorder=0.25, unsure=0.15)
    members = await team.joined("ann", "ben", "cat")
    for version in range(1, 16):
        for number, member in enumerate(members):
            await member.learn(f"{TEXT} {version % 4}", float(version), float(number), version)
    await converged(*members)
    for member in members:
        sums = masses(member.node.state, f"{TEXT} {15 % 4}")
        assert sums == {other.peer.public: (15.0, float(n)) for n, other in enumerate(members)}


async def test_a_late_comer_catches_up(team: Team) -> None:
    """What was published before it came is there, and its own reaches the others."""
    early = await team.joined("ann", "ben")
    for version in range(1, 30):
        await early[0].learn(TEXT, float(version), 1.0, version)
    await converged(*early)
    (late,) = await team.joined("cat")
    await late.learn(TEXT, 1.0, 0.0, 1)
    await converged(*early, late)
    assert masses(late.node.state, TEXT)[early[0].peer.public] == (29.0, 1.0)


async def test_the_admission_goes_out_first(team: Team) -> None:
    """What was recorded before the start is published control first, as others can take nothing before it."""
    ann = team.member("ann")
    await ann.learn(TEXT, 1.0, 0.0, 1)
    await ann.join()
    await until(lambda: ann.status.phase is SpacePhase.CURRENT, "all is published")
    chains = [where.chain for where, _ in team.hub.streams[team.space.id].frames]
    assert chains == [Chain.CONTROL, Chain.DATA]


async def test_a_body_that_a_holder_left_out_is_fetched_from_the_origin(team: Team) -> None:
    """A header alone holds its place in the chain; the origin's head shows that rows are missing."""
    ann, ben = await team.joined("ann", "ben")
    await ann.learn(TEXT, 1.0, 0.0, 1)
    await ann.learn("another", 2.0, 0.0, 2)
    await converged(ann, ben)
    await ann.engine.stop()
    team.hub.purge(team.space.id)
    log = ben.node.journal.log
    (at,) = [n for n, (p, _) in enumerate(log) if p.header.kind is Kind.EVIDENCE and p.header.number == 1]
    log[at] = (structs.replace(log[at][0], body=None), log[at][1])
    (cat,) = await team.joined("cat")
    await until(lambda: cat.node.space.position(ann.peer.key()).number == 2, "cat holds both numbers")
    assert masses(cat.node.state, TEXT) == {}
    await ann.engine.start()
    await converged(ann, ben, cat)
    assert masses(cat.node.state, TEXT) == {ann.peer.public: (1.0, 0.0)}


async def test_frames_come_from_any_holder_when_origin_and_stream_are_gone(team: Team) -> None:
    """A frame proves itself whoever carries it."""
    ann, ben = await team.joined("ann", "ben")
    for version in range(1, 10):
        await ann.learn(TEXT, float(version), 1.0, version)
    await converged(ann, ben)
    await ann.engine.stop()
    team.hub.purge(team.space.id)
    (cat,) = await team.joined("cat")
    await converged(ben, cat)
    assert masses(cat.node.state, TEXT) == {ann.peer.public: (9.0, 1.0)}


async def test_a_frame_that_comes_too_early_is_enough_to_fetch_what_is_before_it(team: Team) -> None:
    """Without a head, the gap is asked of the origin."""
    ann, ben = team.member("ann", options=ALONE), team.member("ben", options=ALONE)
    await ann.join()
    await ben.join()
    await until(lambda: ann.peer.public in ben.node.space.members, "ben knows ann")
    team.hub.faults = Faults(drop=1.0)
    for version in range(1, 5):
        await ann.learn(TEXT, float(version), 0.0, version)
    await passed_over(team, ben)
    team.hub.faults = Faults()
    await ann.learn(TEXT, 5.0, 0.0, 5)
    await until(lambda: masses(ben.node.state, TEXT) == {ann.peer.public: (5.0, 0.0)}, "all is here")


async def test_what_nobody_answers_for_is_found_in_the_stream(team: Team) -> None:
    """The origin is silent and nobody else has it, but the bus does."""
    ann, ben = team.member("ann", options=ALONE), team.member("ben", options=ALONE)
    await ann.join()
    await ben.join()
    await until(lambda: ann.peer.public in ben.node.space.members, "ben knows ann")
    team.hub.handlers.clear()
    team.hub.faults = Faults(drop=1.0)
    for version in range(1, 5):
        await ann.learn(TEXT, float(version), 0.0, version)
    await passed_over(team, ben)
    team.hub.faults = Faults()
    await ann.learn(TEXT, 5.0, 0.0, 5)
    await until(lambda: masses(ben.node.state, TEXT) == {ann.peer.public: (5.0, 0.0)}, "all is here")


async def passed_over(team: Team, member: Member) -> None:
    """Until a member has read the stream to its end, four data frames included, whatever was dropped."""

    def read() -> bool:
        stream = team.hub.streams[team.space.id]
        data = [where for where, _ in stream.frames if where.chain == Chain.DATA]
        assert isinstance(member.bus, MemoryBus)
        return len(data) == 4 and member.bus.cursor_seq >= stream.seq

    await until(read, "the frames are published, and dropped")


async def test_who_comes_back_behind_finds_out(team: Team) -> None:
    """Nothing changes any more, stream and origin are gone: a head is sent because another differs."""
    ann, ben, cat = (team.member(name, options=UNASKED) for name in ("ann", "ben", "cat"))
    for member in (ann, ben, cat):
        await member.join()
    await converged(ann, ben, cat)
    await cat.engine.stop()
    await ann.learn(TEXT, 5.0, 0.0, 1)
    await converged(ann, ben)
    await ann.engine.stop()
    team.hub.purge(team.space.id)
    await cat.engine.start()
    await converged(ben, cat)
    assert masses(cat.node.state, TEXT) == {ann.peer.public: (5.0, 0.0)}


async def test_a_head_that_came_before_its_senders_admission_is_made_up_for(team: Team) -> None:
    """Nothing changes any more and nobody compares again: who was not heard is asked once it is a member."""
    options = structs.replace(UNASKED, vector_s=1000.0)
    ann, ben = team.member("ann", options=options), team.member("ben", options=options)
    await ann.join()
    await ann.learn(TEXT, 1.0, 0.0, 1)
    await until(lambda: ann.status.phase is SpacePhase.CURRENT, "all is published")
    stream = team.hub.streams[team.space.id]
    admission = stream.frames[0]
    team.hub.faults = Faults(drop=1.0)
    await ben.join()
    await until(lambda: len(stream.frames) == 3, "ben's admission is published, and all of it passed over")
    assert isinstance(ben.bus, MemoryBus)
    assert isinstance(ann.bus, MemoryBus)
    buses = ann.bus, ben.bus
    await until(lambda: all(bus.cursor_seq >= stream.seq for bus in buses), "nobody heard of the other")
    team.hub.faults = Faults()

    def refused(member: Member) -> int:
        return member.status.counters.get("heads refused", 0)

    def heard(member: Member) -> int:
        return member.status.counters.get("heads heard", 0)

    def again(frame: tuple[FrameSubject, Stored]) -> None:
        stream.seq += 1
        stream.frames.append((frame[0], Stored(stream.seq, frame[1].frame)))
        team.hub.wake()

    again(stream.frames[2])
    await until(lambda: ben.peer.public in ann.node.space.members, "ann knows ben")
    for version in (1, 2, 3):
        before = refused(ben)
        await ben.learn("another", float(version), 0.0, version)
        await until(partial(lambda least: heard(ann) >= least, version), "ann heard ben, and compared once")
        await until(partial(lambda least: refused(ben) > least, before), "ben refused what ann said")
    again(admission)
    await until(lambda: masses(ben.node.state, TEXT) == {ann.peer.public: (1.0, 0.0)}, "all is here")


async def test_what_the_stream_lost_is_published_again(team: Team) -> None:
    """A recreated stream is filled by the origins, from the start, without being told."""
    ann = team.member("ann", options=UNASKED)
    await ann.join()
    for version in range(1, 6):
        await ann.learn(TEXT, float(version), 1.0, version)
    await until(lambda: ann.status.phase is SpacePhase.CURRENT, "all is published")
    team.hub.recreate(team.space.id)

    def back() -> bool:
        stream = team.hub.streams[team.space.id]
        return [where for where, _ in stream.frames].count(subject_of(ann)) == 5

    await until(back, "the frames are back")
    assert ann.status.counters["bus reset"] >= 1


async def test_a_server_away_for_a_while_costs_nothing(team: Team) -> None:
    """What is recorded meanwhile goes out when it is back; the phase shows it."""
    members = await team.joined("ann", "ben")
    await converged(*members)
    team.hub.stop()
    await until(lambda: members[0].status.phase is SpacePhase.OFFLINE, "it shows that it is offline")
    for member in members:
        await member.learn(TEXT, 3.0, 1.0, 1)
    assert members[0].status.own[members[0].peer.key()] is FeedStatus.PENDING
    team.hub.start()
    await converged(*members)
    assert members[0].status.own[members[0].peer.key()] is FeedStatus.PUBLISHED


async def test_a_copied_home_is_found_out_and_stops_publishing(team: Team) -> None:
    """A valid own frame that is not held here: reported, and nothing more goes out under that incarnation."""
    outcomes: list[Outcome] = []
    original = team.member("ann")
    copy = team.member("ann", on_outcome=lambda space, outcome: outcomes.append(outcome))
    await original.join()
    await original.learn(TEXT, 1.0, 0.0, 1)
    await until(lambda: original.status.phase is SpacePhase.CURRENT, "the original has published")
    copy.peer.at = {}
    await copy.join()
    await copy.learn("another thing", 5.0, 5.0, 1)
    await until(lambda: copy.status.own.get(copy.peer.key()) is FeedStatus.COPIED, "the copy is found out")
    await until(lambda: any(isinstance(o, Rejected) and o.reason is Reason.COPIED for o in outcomes), "told")
    held = [where for where, _ in team.hub.streams[team.space.id].frames]
    assert held.count(subject_of(original)) == 1


async def test_a_denied_node_says_so_and_goes_on_when_allowed(team: Team) -> None:
    """Publishing refused by the server is in the status, and no frame is lost by it."""
    team.hub.denied = lambda user, subject: user == "ann"
    ann, ben = await team.joined("ann", "ben")
    await ann.learn(TEXT, 1.0, 0.0, 1)
    await until(lambda: any("let this user" in error for error in ann.status.last_errors), "it is told")
    team.hub.denied = lambda user, subject: False
    await converged(ann, ben)


async def test_stopping_and_starting_again_goes_on(team: Team) -> None:
    """Stopped in the middle, nothing is running; started, it ends like the others."""
    ann, ben = await team.joined("ann", "ben")
    for version in range(1, 6):
        await ann.learn(TEXT, float(version), 0.0, version)
        await ben.engine.stop()
        assert not [t for t in asyncio.all_tasks() if t.get_name() == "memory bus ben"]
        assert ben.engine.status().spaces == ()
        await ben.engine.start()
    await converged(ann, ben)


async def test_a_space_added_and_removed_while_running(team: Team) -> None:
    """A second space on a bus of its own: followed, and left without touching the first."""
    ann, ben = await team.joined("ann", "ben")
    other = Space(name="other")
    for member in (ann, ben):
        member.node.enter(other)
        await member.engine.add_space(other.id, member.bus)
        with pytest.raises(ValueError, match="followed already"):
            await member.engine.add_space(other.id, member.bus)
    assert {s.space for s in ann.engine.status().spaces} == {team.space.id, other.id}
    admin = other.admin()
    frame = admin.admission_frame()
    where = FrameSubject(other.id, admin.public, admin.incarnation, Chain.CONTROL)
    await ann.bus.ensure_space(other.id)
    await ann.bus.publish(where, frame, 0)
    await until(
        lambda: all(admin.public in m.node.state.spaces[other.id].members for m in (ann, ben)), "both got it"
    )
    for member in (ann, ben):
        await member.engine.remove_space(other.id)
        await member.engine.remove_space(other.id)
    await ann.learn(TEXT, 1.0, 0.0, 1)
    await until(lambda: alike(ann, ben), "the first space goes on")


async def test_a_bus_that_can_never_work_is_refused_at_the_start(team: Team) -> None:
    """And leaves nothing running."""
    member = Member(team.space, "ann", NatsBus("nonsense"))
    before = asyncio.all_tasks()
    with pytest.raises(BusUnconfigured):
        await member.engine.start()
    assert asyncio.all_tasks() == before
    assert not member.engine.status().running


NATS = NatsOptions(
    request_timeout_s=2.0,
    probe_interval_s=0.5,
    probe_timeout_s=1.0,
    backoff_first_s=0.02,
    backoff_max_s=0.1,
    check_interval_s=0.3,
)


async def test_three_nodes_converge_over_nats_while_its_server_dies(tmp_path: Path) -> None:
    """Killed again and again in the middle of publishing, with its streams lost once: the same registers."""
    server = NatsServer(tmp_path)
    server.start()
    space = Space()
    members = [Member(space, name, NatsBus(server.url, options=NATS)) for name in ("ann", "ben", "cat")]
    try:
        for member in members:
            await member.join()
        for version in range(1, 13):
            for member in members:
                await member.learn(TEXT, float(version), 1.0, version)
            if version in (4, 8):
                server.kill()
                server.start()
            if version == 10:
                raw = await nats.connect(server.url)
                await raw.jetstream().delete_stream(stream_name(space.id))
                await raw.close()
        await converged(*members, timeout=40)
        assert masses(members[0].node.state, TEXT) == {m.peer.public: (12.0, 1.0) for m in members}
    finally:
        for member in members:
            await member.engine.stop()
        server.kill()
