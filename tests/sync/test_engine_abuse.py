"""Engines against members who flood, claim, garble and raise: bounded, shown, and the others go on."""

import asyncio

import pytest

from loremesh.sync import outbox, session
from loremesh.sync.busport import FrameSubject, Stored
from loremesh.sync.engine import SpacePhase
from loremesh.sync.feed import FeedKey, Want
from loremesh.sync.limits import Budgets
from loremesh.sync.messages import open_message, seal_message
from loremesh.sync.outcomes import Outcome, Rejected
from loremesh.sync.repair import HeadBody, Known, ReplyBody, RequestBody
from loremesh.sync.status import MAX_FRAMES_SHOWN, UNSEEN
from loremesh.sync.wire import Chain
from tests.sync.engines import Member
from tests.sync.nats_server import until
from tests.sync.teams import ALONE, TEXT, Team, converged, subject_of
from tests.sync.world import TIME_MS, masses


async def test_anothers_bytes_on_our_subject_do_not_stop_us(team: Team) -> None:
    """Publishing goes on after them, neither repeating nor leaving out a frame."""
    ann, ben = await team.joined("ann", "ben")
    await ann.learn(TEXT, 1.0, 0.0, 1)
    await converged(ann, ben)
    last = team.hub.streams[team.space.id].last(subject_of(ann))
    assert last is not None
    await ben.bus.publish(subject_of(ann), b"not a frame", last.seq)
    await ann.learn(TEXT, 2.0, 0.0, 2)
    await converged(ann, ben)
    assert masses(ben.node.state, TEXT) == {ann.peer.public: (2.0, 0.0)}
    frames = [s for where, s in team.hub.streams[team.space.id].frames if where == subject_of(ann)]
    assert len(frames) == 3


async def test_a_subject_full_of_anothers_bytes_is_not_read_to_its_end(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look for our own last frame is bounded, and what is published afterwards still arrives."""
    ann, ben = await team.joined("ann", "ben")
    await ann.learn(TEXT, 1.0, 0.0, 1)
    await converged(ann, ben)
    stream = team.hub.streams[team.space.id]
    for _ in range(40):
        last = stream.last(subject_of(ann))
        assert last is not None
        await ben.bus.publish(subject_of(ann), b"not a frame" * 100, last.seq)
    monkeypatch.setattr(outbox, "SCAN_BYTES", 2_000)
    monkeypatch.setattr(outbox, "SCAN_MOST_BYTES", 6_000)
    looks: list[int] = []
    read = ann.bus.read

    async def counted(subject: FrameSubject, seq: int, budget_bytes: int) -> list[Stored]:
        if subject == subject_of(ann):
            looks.append(seq)
        return await read(subject, seq, budget_bytes)

    monkeypatch.setattr(ann.bus, "read", counted)
    await ann.learn(TEXT, 2.0, 0.0, 2)
    await until(lambda: masses(ben.node.state, TEXT) == {ann.peer.public: (2.0, 0.0)}, "it arrived")
    assert looks, "the subject was looked through"
    assert max(looks) < 20, "not to the end of it"


async def test_a_claim_that_nobody_can_show_holds_nothing_up(team: Team) -> None:
    """What a member says to exist and never shows is told, and the space is current all the same."""
    ann, ben = await team.joined("ann", "ben")
    await converged(ann, ben)
    key = FeedKey(ben.peer.public, ben.peer.incarnation, Chain.DATA)
    fetcher = ann.engine._sessions[team.space.id]._fetcher

    def claim() -> None:
        fetcher.add(Want(key.origin, key.incarnation, key.chain, 1, 2**62), ben.peer.public, 0.0)

    claim()
    assert ann.status.phase.value == "syncing"
    await until(lambda: not ann.status.behind, "ben was asked and had nothing")
    claim()
    (behind,) = ann.status.behind
    assert (behind.waiting_for, behind.frames) == (UNSEEN, MAX_FRAMES_SHOWN)
    assert ann.status.phase is SpacePhase.CURRENT
    await ben.learn(TEXT, 1.0, 0.0, 1)
    await until(
        lambda: masses(ann.node.state, TEXT) == {ben.peer.public: (1.0, 0.0)}, "a true frame is taken"
    )


async def test_deferred_frames_are_fetched_when_the_budget_allows(team: Team) -> None:
    """A flood is taken as fast as its budget fills, in order and from the stream; nothing of it is lost."""
    ann = team.member("ann", options=ALONE)
    await ann.join()
    for version in range(1, 20):
        await ann.learn(TEXT, float(version), 0.0, version)
    slow = team.member("ben", budgets=Budgets(frames_per_s=40.0, frames_burst=3.0))
    await slow.join()
    await until(lambda: bool(slow.status.behind), "it shows what it is behind by")
    assert slow.status.behind[0].key == ann.peer.key()
    assert slow.status.behind[0].waiting_for == "frames per second"
    await converged(ann, slow)
    assert masses(slow.node.state, TEXT) == {ann.peer.public: (19.0, 0.0)}
    assert slow.status.outcomes["deferred: frames per second"] >= 1
    assert slow.status.counters["requests sent"] == 0


async def test_control_frames_pass_a_flood(team: Team) -> None:
    """An admission is taken while evidence of others waits for its budget."""
    ann, ben = team.member("ann", label="one", uses=2), team.member("ben", label="one", uses=2)
    await ann.join()
    for version in range(1, 20):
        await ann.learn(TEXT, float(version), 0.0, version)
    slow = team.member("cat", budgets=Budgets(frames_per_s=0.0, frames_burst=3.0))
    await slow.join()
    await until(lambda: bool(slow.status.behind), "the flood waits")
    await ben.join()
    await until(lambda: ben.peer.public in slow.node.space.members, "the newcomer is admitted")


async def test_a_funnel_that_raises_is_tried_again(team: Team) -> None:
    """A full disk at the receiver: nothing is passed over, and it goes on when there is room."""
    ann, ben = await team.joined("ann", "ben")
    await converged(ann, ben)
    ben.node.journal.fail = OSError("no space left")
    for version in range(1, 9):
        await ann.learn(TEXT, float(version), 0.0, version)
    await until(lambda: ben.status.counters.get("frames the funnel raised on", 0) >= 4, "it tried")
    assert any("no space left" in error for error in ben.status.last_errors)
    ben.node.journal.fail = None
    await converged(ann, ben)


async def test_claims_that_lead_to_nothing_are_dropped(team: Team) -> None:
    """A member that claims frames nobody has costs a few requests, and hides nothing real."""
    ann, ben = await team.joined("ann", "ben")
    await converged(ann, ben)
    liar = team.space.peer("liar")
    await ben.node.take(liar.admission_frame())
    lie = HeadBody(
        [],
        [Known(ann.peer.public, ann.peer.incarnation, Chain.DATA, 10**6, b"\1" * 32)],
        b"\2" * 32,
    )
    message = seal_message(liar.identity, ben.node.space, liar.incarnation, lie, TIME_MS)
    await ben.bus.broadcast(team.space.id, message)
    await until(lambda: bool(ben.status.behind), "the claim is heard")
    await until(lambda: not ben.status.behind, "the claim is dropped")
    await ann.learn(TEXT, 1.0, 0.0, 1)
    await until(lambda: masses(ben.node.state, TEXT) == {ann.peer.public: (1.0, 0.0)}, "what is real arrives")


async def test_only_members_are_answered(team: Team) -> None:
    """A request under the space's key, signed by a stranger, gets nothing; a member's gets its frames."""
    ann, ben = await team.joined("ann", "ben")
    await ann.learn(TEXT, 1.0, 0.0, 1)
    await converged(ann, ben)
    stranger = team.space.peer("stranger")
    body = RequestBody([], vector=True)
    for peer, answered in ((stranger, False), (ben.peer, True)):
        request = seal_message(peer.identity, ben.node.space, peer.incarnation, body, TIME_MS)
        replies = await ben.bus.ask(team.space.id, ann.peer.public, request, 1.0)
        assert bool(replies) == answered
    contents = [open_message(ben.node.state, reply) for reply in replies]
    kinds = [type(c.content) for c in contents if not isinstance(c, Rejected)]
    assert kinds == [ReplyBody, HeadBody]
    assert await ben.bus.ask(team.space.id, ann.peer.public, b"garbage", 1.0) == []


async def test_a_member_that_asks_without_end_is_answered_for_a_while_only(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each answer may read megabytes; others are answered all the same."""
    monkeypatch.setattr(session, "REQUESTS_PER_TURN", 0.0)
    ann, ben, eve = await team.joined("ann", "ben", "eve")
    await converged(ann, ben, eve)
    body = RequestBody([], vector=True)

    async def answered(asker: Member) -> bool:
        request = seal_message(asker.peer.identity, asker.node.space, asker.peer.incarnation, body, TIME_MS)
        return bool(await asker.bus.ask(team.space.id, ann.peer.public, request, 1.0))

    greedy = await asyncio.gather(*(answered(eve) for _ in range(200)))
    assert 32 <= sum(greedy) <= session.REQUESTS_BURST  # its engine may have asked as well
    assert await answered(ben)


async def test_heads_without_end_are_passed_over_and_others_are_heard(team: Team) -> None:
    ann, ben, eve = await team.joined("ann", "ben", "eve")
    await converged(ann, ben, eve)
    head = HeadBody([], [], b"\2" * 32)
    message = seal_message(eve.peer.identity, ann.node.space, eve.peer.incarnation, head, TIME_MS)
    for _ in range(2000):
        await eve.bus.broadcast(team.space.id, message)
    await until(lambda: ann.status.counters.get("heads passed over", 0) > 0, "heads are passed over")
    await ben.learn(TEXT, 1.0, 0.0, 1)
    await converged(ann, ben, eve)


async def test_a_callback_that_raises_harms_nothing(team: Team) -> None:
    """Who listens to outcomes cannot stop them."""

    def bad(space: bytes, outcome: Outcome) -> None:
        raise RuntimeError("listener")

    ann = team.member("ann", on_outcome=bad)
    await ann.join()
    (ben,) = await team.joined("ben")
    await ben.learn(TEXT, 1.0, 0.0, 1)
    await converged(ann, ben)
