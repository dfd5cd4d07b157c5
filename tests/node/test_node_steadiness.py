"""What is in use is what the log says, also when something comes late, twice at once, or fails half-way."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
import structlog

from loremesh.node.journal import NodeJournal
from loremesh.node.node import Node
from loremesh.node.ports import Ratings
from loremesh.node.records import BUS_KEY, BusRecord, decode_record
from loremesh.node.store import log, records
from loremesh.node.store.errors import DiskFull
from loremesh.node.store.ledger import Ledger
from loremesh.node.store.store import Store
from loremesh.node.store.values import Kind as LogKind
from loremesh.node.store.values import LogRow
from loremesh.sync import spacestate
from loremesh.sync.bodies import encode_blocks
from loremesh.sync.content import block_id
from loremesh.sync.errors import InvalidInput
from loremesh.sync.opening import Carried
from loremesh.sync.outcomes import Applied, Buffered, Passed, Reason, Rejected
from loremesh.sync.ports import Placement
from loremesh.sync.wire import Kind, SignedFrame
from tests.node.guests import Guest, take
from tests.node.homes import Homes, LevelRater, effective, faultless
from tests.sync.world import Row, evidence_body

INDEXER = "Restart the indexer"


async def guest_in(node: Node, name: str = "guest") -> Guest:
    """A peer that the node has admitted to its space `team`."""
    founded = [space.name for space in await node.spaces()] == ["team"]
    invited = await (node.space_invite("team") if founded else node.space_create("team"))
    guest = Guest(name, invited.token)
    await take(node, guest.admitted())
    return guest


def carried(frame: SignedFrame, *, bare: bool = False) -> Carried:
    """The frame as somebody else hands it on; `bare`: after having pruned its body."""
    return Carried(frame.header.space, frame.header_bytes, frame.signature, None if bare else frame.body)


@pytest.mark.parametrize("kind", [Kind.EVIDENCE, Kind.BLOCKS])
async def test_a_body_that_comes_hours_after_its_header_counts_from_its_own_hour(
    tmp_path: Path, kind: Kind
) -> None:
    homes = Homes(tmp_path)
    async with homes.create("home") as node:
        guest, other = await guest_in(node), await guest_in(node, "other")
        await take(node, other.blocks(INDEXER))
        rows = [Row(INDEXER, 2, 0), Row("Drain the queue", 0.25, 0)]
        evidence = evidence_body(rows, guest.peer.incarnation)
        body = evidence if kind is Kind.EVIDENCE else encode_blocks(["Drain the queue"])
        frame = guest.peer.signed(kind, body)
        await node.sharing.admit(carried(frame, bare=True))
        for _ in range(20):
            homes.pass_minutes(10)
            await node.recall("indexer")
        (outcome,) = await node.sharing.admit(carried(frame))
        assert isinstance(outcome, Applied)
        await faultless(node)
        live = await effective(node)
    async with homes.open("home") as node:
        assert await effective(node) == live
        await faultless(node)


async def test_a_frame_counts_though_one_that_waited_for_it_could_not_be_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Homes(tmp_path).create("home") as node:
        guest = await guest_in(node)
        await take(node, guest.blocks(INDEXER))
        before = await effective(node)
        first, second = guest.evidence(Row(INDEXER, 2, 0)), guest.evidence(Row(INDEXER, 3, 0, 2))
        assert isinstance((await take(node, second))[0], Buffered)
        stored = 0
        store_frame = NodeJournal.store_frame

        async def full_after_one(journal: NodeJournal, passed: Passed, placement: Placement) -> int:
            nonlocal stored
            stored += 1
            if stored > 1:
                raise DiskFull(tmp_path)
            return await store_frame(journal, passed, placement)

        monkeypatch.setattr(NodeJournal, "store_frame", full_after_one)
        with pytest.raises(DiskFull):
            await take(node, first)
        monkeypatch.undo()
        assert await effective(node) != before
        await faultless(node)


async def test_a_block_whose_content_could_not_be_destroyed_yet_is_forgotten_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    homes = Homes(tmp_path)
    async with homes.create("home") as node:
        block = (await node.learn(INDEXER)).block
        await node.recall("indexer")

        async def full(*_: object, **__: object) -> int:
            raise DiskFull(tmp_path)

        monkeypatch.setattr(Store, "forget", full)
        with pytest.raises(DiskFull):
            await node.forget(block)
        monkeypatch.undo()
        assert (await node.recall("indexer")).hits == []
        await faultless(node)
    async with homes.open("home") as node:
        assert (await node.status()).blocks == 0
        await faultless(node)


async def test_the_numbers_of_a_fresh_start_leave_out_what_a_forked_peer_said(tmp_path: Path) -> None:
    async with Homes(tmp_path).create("home") as node:
        guest, other = await guest_in(node), await guest_in(node, "other")
        await take(node, other.blocks(INDEXER), guest.evidence(Row(INDEXER, 2, 0)))
        twice = guest.peer.signed(
            Kind.EVIDENCE, evidence_body([Row(INDEXER, 0, 2)], guest.peer.incarnation), number=1
        )
        (outcome,) = await node.sharing.admit(carried(twice))
        assert isinstance(outcome, Rejected)
        assert outcome.reason is Reason.FORK
        await faultless(node)


async def test_tokens_made_at_once_are_all_let_in(tmp_path: Path) -> None:
    async with Homes(tmp_path).create("home") as node:
        await node.space_create("team")
        await asyncio.gather(*(node.space_invite("team") for _ in range(5)))
        kept = await node.ground.store.record(BUS_KEY)
        assert kept is not None
        assert len({grant.public for grant in decode_record(kept, BusRecord).grants}) == 6


async def test_a_space_joined_twice_at_once_is_joined_once(tmp_path: Path) -> None:
    homes = Homes(tmp_path)
    async with homes.create("alice") as alice, homes.create("bob") as bob:
        token = (await alice.space_create("team")).token
        joined = await asyncio.gather(*(bob.space_join(token) for _ in range(3)))
        assert [space.name for space in joined] == ["team"] * 3
        assert len(await bob.spaces()) == 1


async def test_a_space_too_many_is_refused_and_the_home_opens_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    homes = Homes(tmp_path)
    monkeypatch.setattr(spacestate, "MAX_SPACES", 1)
    async with homes.create("home") as node:
        await node.space_create("team")
        with pytest.raises(InvalidInput, match="one more than 1"):
            await node.space_create("another")
    async with homes.open("home") as node:
        assert [space.name for space in await node.spaces()] == ["team"]


async def test_texts_that_cannot_be_rated_hold_up_none_that_can_be_embedded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def none(_: LevelRater, texts: Sequence[str]) -> Ratings:
        return Ratings([None] * len(texts))

    monkeypatch.setattr(LevelRater, "rate", none)
    async with Homes(tmp_path).create("home") as node:
        await node.learn_many(["!", "?", "!?"])
        assert (await node.consolidate(limit=3)).embedded == 3
        await node.learn(INDEXER)
        assert (await node.consolidate(limit=3)).embedded == 1


@pytest.mark.parametrize("fall", ["revoked", "forked"])
async def test_a_text_reads_as_those_who_count_say_it_once_its_first_teller_does_not(
    tmp_path: Path, fall: str
) -> None:
    async with Homes(tmp_path).create("home") as node:
        first, honest = await guest_in(node), await guest_in(node, "honest")
        odd = "Restart \n\n the   indexer"
        await take(node, first.blocks(odd), honest.blocks(INDEXER))
        assert [hit.text for hit in (await node.recall("indexer")).hits] == [odd]
        if fall == "revoked":
            await node.trust_revoke(first.id)
        else:
            again = first.peer.signed(Kind.BLOCKS, encode_blocks(["Another first frame"]), number=1)
            await node.sharing.admit(carried(again))
        assert [hit.text for hit in (await node.recall("indexer")).hits] == [INDEXER]


async def test_a_forgotten_block_leaves_the_index_and_the_counts_of_its_peer(tmp_path: Path) -> None:
    async with Homes(tmp_path).create("home") as node:
        guest = await guest_in(node)
        await take(node, guest.blocks(INDEXER, "Drain the queue"), guest.evidence(Row(INDEXER, 1, 0)))
        await node.recall("indexer")
        await node.forget(block_id(INDEXER).hex())
        (peer,) = await node.peers()
        assert (len(node.ground.memory.lexical), peer.blocks, peer.registers) == (1, 1, 0)


async def test_what_was_revoked_just_before_a_crash_is_out_of_the_index_afterwards(tmp_path: Path) -> None:
    homes = Homes(tmp_path)
    async with homes.create("home") as node:
        guest = await guest_in(node)
        await take(node, guest.blocks(INDEXER))
        await node.learn("Drain the queue")
        await node.recall("indexer")
        assert await node.ground.checkpoint()
        await node.trust_revoke(guest.id)
        shutil.copytree(homes.path("home"), homes.path("crashed"))
        assert len(node.ground.memory.lexical) == 1
    async with homes.open("crashed") as node:
        assert len(node.ground.memory.lexical) == 1


async def test_a_peer_that_forks_again_and_again_is_found_out_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One proof is two frames of up to 256 KiB: together they would not fit a record."""
    monkeypatch.setattr(records, "VALUE_BYTES_MAX", 100_000)
    homes = Homes(tmp_path)
    async with homes.create("home") as node:
        guest = await guest_in(node)
        for number in range(5):
            guest.peer.incarnation, guest.peer.at = number.to_bytes(16, "big"), {}
            await take(node, guest.blocks("one " * 5_000))
            again = guest.peer.signed(Kind.BLOCKS, encode_blocks(["two " * 5_000]), number=1)
            (outcome,) = await node.sharing.admit(carried(again))
            assert isinstance(outcome, Rejected)
            assert outcome.reason is Reason.FORK
    async with homes.open("home") as node:
        assert len(node.ground.memory.sync.set_aside) == 5


async def test_work_that_fails_after_its_caller_left_is_told(tmp_path: Path) -> None:
    """Nobody waits for it any more, so the log has to say that it was not done."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        await go_on.wait()
        raise OSError("no room")

    async with Homes(tmp_path).create("home") as node:
        with structlog.testing.capture_logs() as told:
            asking = asyncio.create_task(node.ground.exclusive(work))
            await begun.wait()
            asking.cancel()
            await asyncio.wait([asking])
            go_on.set()
            await node.ground.exclusive(node.ground.refresh)
            await asyncio.sleep(0)
    assert [one["error"] for one in told if one["event"] == "work_failed_after_its_caller_left"] == [
        "OSError"
    ]


async def test_forgetting_opens_frames_and_the_events_of_the_block_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of all the other events: what one forgetting costs does not grow with them."""
    async with Homes(tmp_path).create("home") as node:
        guest = await guest_in(node)
        await take(node, guest.blocks(INDEXER, "Drain the queue"))
        await take(node, guest.evidence(Row(INDEXER, 2, 0)))
        block = (await node.learn(INDEXER)).block
        other = (await node.learn("Drain the queue")).block
        for _ in range(50):
            await node.outcome(1.0, blocks=[other])
        opened: list[int] = []
        open_row = log.open_row

        def noted(ledger: Ledger, raw: log.RawRow) -> LogRow:
            opened.append(raw.kind)
            return open_row(ledger, raw)

        monkeypatch.setattr(log, "open_row", noted)
        forgotten = await node.forget(block)
        monkeypatch.undo()
        assert forgotten.frames_cut == 2
        assert opened
        assert {*opened} == {LogKind.FRAME}
        await faultless(node)
