"""The store as its users see it: what goes in comes out, whole transactions or nothing."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from loremesh.node.store import (
    AlreadyAHome,
    Damaged,
    Feed,
    FeedPosition,
    FrameExists,
    FrameRow,
    HomeEvent,
    Kind,
    NewBlock,
    NotAHome,
    OwnEvent,
    ReadOnlyHome,
    State,
    Store,
    StoreError,
    UnknownRow,
    WrongSchema,
)
from loremesh.node.store.blocks import CONTENT
from loremesh.node.store.ledger import BLOCK_KEYS_MAX
from loremesh.node.store.log import APPEND_ROWS_MAX
from tests.node.store.doubles import (
    DIMENSION,
    FEED,
    MODEL,
    block_of,
    event_of,
    fill,
    filled_home,
    frame_of,
    home_keys,
    id_of,
    rows_of,
    tamper,
    text_of,
    vectors_of,
)


async def test_what_was_appended_is_there_after_closing_and_opening(tmp_path: Path) -> None:
    """Rows come back in order, with kind, block, feed, number, header and payload."""
    await filled_home(tmp_path)
    async with await Store.open(tmp_path, home_keys()) as store:
        rows = await rows_of(store)
    kinds = [Kind.OWN] * 6 + [Kind.HOME] + [Kind.FRAME] * 3 + [Kind.OWN] * 6
    assert [(row.n, row.kind, row.state) for row in rows] == [
        (n, kind, State.WHOLE) for n, kind in enumerate(kinds, 1)
    ]
    assert [(row.row, row.payload) for row in rows[:6]] == [(n, event_of(n).payload) for n in range(6)]
    assert (rows[6].payload, rows[6].row) == (b"an event about no block at all", -1)
    frame = frame_of(2)
    assert (rows[8].feed, rows[8].number) == (FEED, 2)
    assert (rows[8].header, rows[8].payload) == (frame.header, frame.payload)


async def test_blocks_come_back_with_ids_texts_and_the_vectors_of_the_model_asked_for(tmp_path: Path) -> None:
    """A vector of another model, or none asked for, is not handed out as one of this."""
    await filled_home(tmp_path)
    async with await Store.open(tmp_path, home_keys()) as store:
        (batch,) = [batch async for batch in store.scan_blocks(MODEL, DIMENSION)]
        assert batch.rows.tolist() == batch.vector_rows.tolist() == list(range(6))
        assert batch.ids == [id_of(row) for row in range(6)]
        assert batch.texts == [text_of(row) for row in range(6)]
        assert np.array_equal(batch.vectors, vectors_of(range(6)))
        for asked in ((MODEL, 7), ("another", DIMENSION), ("", 0)):
            (other,) = [batch async for batch in store.scan_blocks(*asked)]
            assert len(other.rows) == 6
            assert len(other.vector_rows) == len(other.vectors) == 0
        assert await store.models() == [(MODEL, DIMENSION, 6)]


async def test_a_vector_of_another_model_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    """A block has one vector; its model says which."""
    await filled_home(tmp_path)
    async with await Store.open(tmp_path, home_keys()) as store:
        await store.set_embeddings([3, 1], np.array([[3, 3], [1, 1]], np.float32), "other")
        assert sorted(await store.models()) == [(MODEL, DIMENSION, 4), ("other", 2, 2)]
        (batch,) = [batch async for batch in store.scan_blocks("other", 2)]
        assert batch.vector_rows.tolist() == [1, 3]
        assert batch.vectors.tolist() == [[1, 1], [3, 3]]
        with pytest.raises(ValueError, match="2 rows need as many vectors"):
            await store.set_embeddings([1, 2], np.zeros((1, 2), np.float32), "other")
        with pytest.raises(UnknownRow, match="row 77"):
            await store.set_embeddings([77], np.zeros((1, 2), np.float32), "third")
        assert ("third", 2) not in {model[:2] for model in await store.models()}


async def test_texts_are_read_by_row(tmp_path: Path) -> None:
    """Rows without a text, or not there, are left out."""
    await filled_home(tmp_path)
    async with await Store.open(tmp_path, home_keys()) as store:
        await store.append([], [NewBlock(9, b"n" * 32, None)])
        assert await store.texts([4, 2, 9, 1000]) == {4: text_of(4), 2: text_of(2)}
        assert await store.texts([]) == {}


async def test_a_text_can_come_after_its_id(tmp_path: Path) -> None:
    """A block known by its id alone gets its text later, keeps it, and its events stay readable."""
    async with await Store.create(tmp_path, home_keys()) as store:
        await store.append([OwnEvent(0, b"before")], [NewBlock(0, id_of(0), None)])
        await store.append([OwnEvent(0, b"after")], [block_of(0)])
        assert await store.texts([0]) == {0: text_of(0)}
        await store.append([], [NewBlock(0, id_of(0), "a second text is not taken")])
        assert await store.texts([0]) == {0: text_of(0)}
        assert [row.payload for row in await rows_of(store)] == [b"before", b"after"]
        assert (await store.verify()).faults == []
        with pytest.raises(ValueError, match="another id"):
            await store.append([], [block_of(0), NewBlock(0, id_of(1), "x")][1:])


async def test_a_frame_its_blocks_and_a_record_are_one_transaction(tmp_path: Path) -> None:
    """Where one part cannot be stored, none is: memory and disk stay as they were; the next append works."""
    async with await Store.create(tmp_path, home_keys()) as store:
        await store.append([frame_of(1)], [block_of(0)], records={"cursor": b"1"})
        before = (store.position, store.next_row)
        with pytest.raises(FrameExists):
            await store.append([frame_of(2), frame_of(1)], [block_of(1)], records={"cursor": b"2"})
        with pytest.raises(UnknownRow, match="row 99"):
            await store.append([frame_of(2), event_of(99)], [block_of(1)], records={"cursor": b"2"})
        with pytest.raises(ValueError, match="name has 1 to"):
            await store.append([frame_of(2)], [block_of(1)], records={"": b"2"})
        assert (store.position, store.next_row) == before
        assert await store.record("cursor") == b"1"
        assert await store.texts([1]) == {}
        assert await store.append([frame_of(2), event_of(1)], [block_of(1)], records={"cursor": b"2"}) == 2
    async with await Store.open(tmp_path, home_keys()) as store:
        assert store.position.n == 3
        assert (await store.verify()).faults == []
        assert await store.record("cursor") == b"2"


async def test_a_row_or_id_is_not_given_twice(tmp_path: Path) -> None:
    """Two blocks of one id, or one row for two blocks, are refused whole."""
    async with await Store.create(tmp_path, home_keys()) as store:
        await store.append([], [block_of(0)])
        with pytest.raises(ValueError, match="stored already, under another row"):
            await store.append([], [NewBlock(1, id_of(0), text_of(0))])
        with pytest.raises(ValueError, match="twice"):
            await store.append([], [block_of(1), NewBlock(1, id_of(2), text_of(2))])
        assert store.next_row == 1
        assert (await store.verify()).faults == []


async def test_rows_may_be_stored_in_any_order(tmp_path: Path) -> None:
    """A row below the highest one can be filled later."""
    async with await Store.create(tmp_path, home_keys()) as store:
        await store.append([event_of(7)], [block_of(7), block_of(5)])
        await store.append([event_of(2)], [block_of(2)])
        assert store.next_row == 8
        assert await store.texts([2, 5, 7]) == {row: text_of(row) for row in (2, 5, 7)}


async def test_events_of_one_block_come_in_pages(tmp_path: Path) -> None:
    """Ascending, behind a row, as many as asked for."""
    await filled_home(tmp_path)
    async with await Store.open(tmp_path, home_keys()) as store:
        assert [row.n for row in await store.events(2)] == [3, 13]
        assert [row.n for row in await store.events(2, after=3)] == [13]
        assert [row.n for row in await store.events(2, limit=1)] == [3]
        assert await store.events(1000) == []
        assert [row.payload for row in await store.read([13, 8])] == [
            frame_of(1).payload,
            event_of(2, 1).payload,
        ]
        with pytest.raises(UnknownRow, match="no row 17"):
            await store.read([17])


async def test_frames_are_found_by_feed_and_number(tmp_path: Path) -> None:
    """In order, within a budget but at least one; positions tell what is held."""
    other = Feed(b"S" * 32, b"P" * 32, b"J" * 16, 1)
    await filled_home(tmp_path)
    async with await Store.open(tmp_path, home_keys()) as store:
        await store.append([frame_of(9, other), frame_of(5), FrameRow(other, 8, b"late")])
        assert [frame.number for frame in await store.frames(FEED, 2, 9)] == [2, 3, 5]
        assert [frame.number for frame in await store.frames(FEED, 1, 9, budget_bytes=900)] == [1, 2]
        assert [frame.number for frame in await store.frames(FEED, 1, 9, budget_bytes=1)] == [1]
        assert await store.frames(Feed(b"T" * 32, b"P" * 32, b"J" * 16, 1), 1, 9) == []
        assert (await store.frames(other, 8, 8))[0].payload == b"late"
        assert await store.feeds() == [FeedPosition(FEED, 1, 5, 4), FeedPosition(other, 8, 9, 2)]


async def test_records_are_set_replaced_and_removed(tmp_path: Path) -> None:
    """By exact name, or all that begin alike."""
    await filled_home(tmp_path)
    async with await Store.open(tmp_path, home_keys()) as store:
        await store.append(
            records={"space/two": b"\0" * 5, "space/one": None, "note": b"other", "gone": None}
        )
        assert await store.records() == {"note": b"other", "space/two": b"\0" * 5}
        assert await store.records("space/") == {"space/two": b"\0" * 5}
        assert await store.record("space/one") is None
        assert await store.record("space/") is None
        assert (await store.verify()).faults == []


async def test_a_closed_store_says_so(tmp_path: Path) -> None:
    """Closing it twice does nothing; using it is an error of the store."""
    store = await Store.create(tmp_path, home_keys())
    await store.close()
    await store.close()
    with pytest.raises(StoreError, match="was closed"):
        await store.append([HomeEvent(b"x")])
    with pytest.raises(StoreError, match="was closed"):
        await store.texts([1])


async def test_a_database_that_turns_read_only_while_open_refuses_and_goes_on_later(tmp_path: Path) -> None:
    """As when its file system is remounted: nothing changes, and once it can be written it is."""
    async with await Store.create(tmp_path, home_keys()) as store:
        await store.append([HomeEvent(b"before")])
        at = store.position
        await store._database.run(lambda connection: connection.execute("PRAGMA query_only = ON").close())
        with pytest.raises(ReadOnlyHome, match="cannot be written") as refused:
            await store.append([HomeEvent(b"meanwhile")])
        assert "mount" in refused.value.hint
        assert store.position == at
        await store._database.run(lambda connection: connection.execute("PRAGMA query_only = OFF").close())
        await store.append([HomeEvent(b"after")])
        assert [row.payload for row in await rows_of(store)] == [b"before", b"after"]


async def test_appending_nothing_changes_nothing(tmp_path: Path) -> None:
    """An empty append names the row that the next one will have."""
    async with await Store.create(tmp_path, home_keys()) as store:
        assert await store.append([]) == 1
        await store.append([HomeEvent(b"")])
        assert await store.append([]) == 2
        assert (await rows_of(store))[0].payload == b""


async def test_an_append_beyond_its_bound_is_refused(tmp_path: Path) -> None:
    """A transaction is held in memory, so it has a bound."""
    async with await Store.create(tmp_path, home_keys()) as store:
        with pytest.raises(ValueError, match="at most"):
            await store.append([HomeEvent(b"")] * (APPEND_ROWS_MAX + 1))
        assert store.position.n == 0


async def test_many_appends_at_once_keep_one_unbroken_log(tmp_path: Path) -> None:
    """Concurrent callers take turns; every transaction's rows lie together."""
    async with await Store.create(tmp_path, home_keys()) as store:
        firsts = await asyncio.gather(
            *(store.append([HomeEvent(b"%d" % i)] * 3, durable=i % 5 == 0) for i in range(40))
        )
        assert sorted(firsts) == list(range(1, 121, 3))
        rows = await rows_of(store)
        for i, first in enumerate(firsts):
            assert [row.payload for row in rows[first - 1 : first + 2]] == [b"%d" % i] * 3


async def test_a_cancelled_append_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    """Whoever is cancelled learns nothing, but memory and disk agree afterwards."""
    async with await Store.create(tmp_path, home_keys()) as store:
        waiting = [asyncio.ensure_future(store.append([HomeEvent(b"x")] * 2)) for _ in range(20)]
        await waiting[0]
        for task in waiting[1:]:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await store.append([HomeEvent(b"last")])
        rows = await rows_of(store)
        assert len(rows) == store.position.n
        assert len(rows) % 2 == 1
        assert (await store.verify()).faults == []


async def test_a_scan_ends_where_the_log_ended_when_it_began(tmp_path: Path) -> None:
    """Rows appended meanwhile are for the next scan."""
    async with await Store.create(tmp_path, home_keys()) as store:
        await store.append([HomeEvent(bytes(1 << 16))] * 100)
        read = []
        async for rows in store.scan():
            read += rows
            await store.append([HomeEvent(b"meanwhile")])
        assert [row.n for row in read] == list(range(1, 101))
        assert store.position.n > 101
        assert [row.n for row in await rows_of(store, after=100)] == list(range(101, store.position.n + 1))


async def test_a_scan_from_within_checks_the_chain_from_the_hash_it_is_given(tmp_path: Path) -> None:
    """With the right hash it ends well, with another it says that the log is another one."""
    async with await Store.create(tmp_path, home_keys()) as store:
        await store.append([HomeEvent(b"x")] * 3)
        at = store.position
        await store.append([HomeEvent(b"y")] * 3)
        read = [row.n async for rows in store.scan(at.n, running=at.running) for row in rows]
        assert read == [4, 5, 6]
        assert await store.follows(at)
        with pytest.raises(Damaged, match="running hash"):
            [rows async for rows in store.scan(at.n, running=bytes(32))]


async def test_more_blocks_than_keys_are_kept_for(tmp_path: Path) -> None:
    """A key that is no longer in memory is read again."""
    async with await Store.create(tmp_path, home_keys()) as store:
        count = BLOCK_KEYS_MAX + 10
        for start in range(0, count, 4096):
            rows = range(start, min(start + 4096, count))
            await store.append(
                [], [NewBlock(row, row.to_bytes(32, "big"), "t") for row in rows], durable=False
            )
        await store.append([OwnEvent(0, b"first"), OwnEvent(count - 1, b"last")])
        assert [row.payload for row in await rows_of(store)] == [b"first", b"last"]
        assert len(store._ledger.block_keys) <= BLOCK_KEYS_MAX


async def test_a_home_is_created_once_and_opened_where_there_is_one(tmp_path: Path) -> None:
    """Each wrong directory is refused with what to do; nothing is made on the way."""
    with pytest.raises(NotAHome, match=r"no memory\.db") as missing:
        await Store.open(tmp_path, home_keys())
    assert "loremesh init" in missing.value.hint
    with pytest.raises(NotAHome, match="not a directory"):
        await Store.open(tmp_path / "nowhere", home_keys())
    with pytest.raises(NotAHome, match="not a directory"):
        await Store.create(tmp_path / "nowhere", home_keys())
    await filled_home(tmp_path)
    with pytest.raises(AlreadyAHome):
        await Store.create(tmp_path, home_keys())
    async with await Store.open(tmp_path, home_keys()) as store:
        assert store.position.n == 16
        assert (tmp_path / "memory.db").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("schema", "said"), [(2, "a newer release"), (-1, "an older release")])
async def test_a_home_of_another_schema_is_refused_untouched(tmp_path: Path, schema: int, said: str) -> None:
    """The error says which release wrote it and what can be done."""
    await filled_home(tmp_path)
    tamper(tmp_path, f"PRAGMA user_version = {schema}")
    before = (tmp_path / "memory.db").read_bytes()
    with pytest.raises(WrongSchema, match=said) as refused:
        await Store.open(tmp_path, home_keys())
    assert "Use that release" in refused.value.hint
    assert (tmp_path / "memory.db").read_bytes() == before


async def test_a_database_of_another_program_is_no_home(tmp_path: Path) -> None:
    """Nor is one whose creation was interrupted, nor a text file: each says so."""
    path = tmp_path / "memory.db"
    connection = sqlite3.connect(path)
    connection.executescript("PRAGMA application_id = 77; CREATE TABLE x (y)")
    connection.close()
    with pytest.raises(NotAHome, match="another program"):
        await Store.open(tmp_path, home_keys())
    path.write_bytes(b"")
    with pytest.raises(NotAHome, match="interrupted"):
        await Store.open(tmp_path, home_keys())
    path.write_text("A shopping list.\n" * 100)
    with pytest.raises(Damaged, match="SQLite cannot read it"):
        await Store.open(tmp_path, home_keys())


async def test_scanning_reads_what_another_batch_holds(tmp_path: Path) -> None:
    """A log larger than a batch in rows and in bytes comes whole."""
    async with await Store.create(tmp_path, home_keys()) as store:
        await fill(store)
        await store.append([FrameRow(FEED, n, bytes(200_000)) for n in range(10, 60)], durable=False)
        await store.append([HomeEvent(b"s")] * 9000, durable=False)
        lists = [rows async for rows in store.scan()]
        assert [row.n for rows in lists for row in rows] == list(range(1, store.position.n + 1))
        assert len(lists) > 4
        assert max(sum(len(row.payload or b"") for row in rows) for rows in lists) < 5 << 20


async def test_the_database_has_the_settings_that_the_readme_gives(tmp_path: Path) -> None:
    """A setting that SQLite was built to ignore, or that is lost, would go unnoticed otherwise."""

    def settings(connection: sqlite3.Connection) -> dict[str, object]:
        names = (
            "journal_mode",
            "locking_mode",
            "secure_delete",
            "temp_store",
            "mmap_size",
            "cell_size_check",
        )
        more = ("trusted_schema", "fullfsync", "checkpoint_fullfsync", "wal_autocheckpoint", "synchronous")
        return {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names + more}

    await filled_home(tmp_path)
    async with await Store.open(tmp_path, home_keys()) as store:
        await store.append([HomeEvent(b"x")], durable=False)
        relaxed = await store._database.run(settings)
        await store.append([HomeEvent(b"x")])
        strict = await store._database.run(settings)
    assert strict == {
        "journal_mode": "wal",
        "locking_mode": "exclusive",
        "secure_delete": 1,
        "temp_store": 2,
        "mmap_size": 0,
        "cell_size_check": 1,
        "trusted_schema": 0,
        "fullfsync": 1,
        "checkpoint_fullfsync": 1,
        "wal_autocheckpoint": 1024,
        "synchronous": 2,
    }
    assert relaxed == strict | {"synchronous": 1}


def test_the_content_of_a_block_is_sealed_as_content() -> None:
    """The part's name is in the associated data of what is on disk: it may not change."""
    assert CONTENT == "content"
