"""Forgetting, cutting and pruning: what is destroyed, what stays, and that no file keeps a copy."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from loremesh.crypto.atrest import HomeKeys
from loremesh.node.store import (
    Checkpoint,
    Cut,
    ErasureUnfinished,
    FrameRow,
    HomeEvent,
    Kind,
    NewBlock,
    OwnEvent,
    State,
    Store,
    UnknownRow,
    Unusable,
)
from loremesh.node.store import store as store_module
from loremesh.node.store.blocks import opened_content
from loremesh.node.store.schema import ERASED_KEY
from tests.node.store.doubles import (
    DIMENSION,
    FEED,
    MODEL,
    block_of,
    event_of,
    files_of,
    fill,
    filled_home,
    frame_of,
    home_keys,
    id_of,
    opened_file,
    rows_of,
    text_of,
    wrapped_keys,
)
from tests.node.store.killed import killed_home


def sealed_parts(home: Path, row: int, frames: tuple[int, ...] = ()) -> dict[str, bytes]:
    """Pieces of what must be gone once the block in `row` is: its key, the keys of frames, all it sealed."""
    with opened_file(home) as connection:
        parts = dict(
            connection.execute(
                "SELECT 'key', wrapped FROM erasable JOIN block USING (slot) WHERE row = ?1"
                " UNION ALL SELECT 'content', content FROM block WHERE row = ?1"
                " UNION ALL SELECT 'embedding', body FROM embedding WHERE row = ?1"
                " UNION ALL SELECT 'event ' || n, body FROM log WHERE kind = 1 AND ref = ?1",
                (row,),
            )
        )
        for n in frames:
            (parts[f"frame {n}"],) = connection.execute("SELECT body FROM log WHERE n = ?", (n,)).fetchone()
            (parts[f"frame key {n}"],) = connection.execute(
                "SELECT wrapped FROM erasable WHERE slot = (SELECT slot FROM log WHERE n = ?)", (n,)
            ).fetchone()
    return {f"{name} from {at}": part[at : at + 16] for name, part in parts.items() for at in (0, 12, 28)}


async def test_forgetting_leaves_no_trace_in_any_file(tmp_path: Path) -> None:
    """Key, content, vector, events, bodies of cut and emptied frames are gone, while the store is open."""
    await filled_home(tmp_path)
    gone = sealed_parts(tmp_path, 3, frames=(8, 9))
    assert len(gone) == 3 * (1 + 1 + 1 + 2 + 4)
    everything = b"".join(files_of(tmp_path).values())
    assert all(part in everything for part in gone.values()), "before, all of it is there"
    async with await Store.open(tmp_path, home_keys()) as store:
        await store.write_checkpoint(Checkpoint(store.position, "r", {"all": b"columns"}))
        assert await store.forget(3, [Cut(8, b"the rest of it")], emptied=[9], mark=b"why") == 2
        everything = b"".join(files_of(tmp_path).values())
        assert [name for name, part in gone.items() if part in everything] == []
        assert "checkpoint" not in files_of(tmp_path)
        assert files_of(tmp_path)["memory.db-wal"] == b""
        rows = await rows_of(store)
        assert [(row.n, row.payload, row.row) for row in rows if row.state is State.FORGOTTEN] == [
            (4, None, 3),
            (14, None, 3),
        ]
        assert (rows[7].state, rows[7].payload, rows[7].header) == (
            State.CUT,
            b"the rest of it",
            frame_of(1).header,
        )
        assert (rows[8].state, rows[8].payload, rows[8].header) == (State.PRUNED, None, frame_of(2).header)
        assert await store.texts(range(6)) == {row: text_of(row) for row in (0, 1, 2, 4, 5)}
        assert await store.models() == [(MODEL, DIMENSION, 5)]
        assert store.forgotten_mark(id_of(3)) == b"why"
        assert store.forgotten_mark(id_of(2)) is None
        assert (await store.verify()).faults == []
    async with await Store.open(tmp_path, home_keys()) as store:
        assert store.forgotten_mark(id_of(3)) == b"why"
        found = await store.verify()
        assert (found.whole, found.cut, found.pruned, found.forgotten, found.faults) == (12, 1, 1, 2, [])


async def test_no_key_that_was_ever_erased_is_left_in_any_page(tmp_path: Path) -> None:
    """Through hundreds of blocks that come, grow, get vectors and go, in any order, on split pages."""
    chance = random.Random(5)
    async with await Store.create(tmp_path, home_keys()) as store:
        held: list[int] = []
        frames: list[int] = []
        erased: list[bytes] = []
        for _ in range(25):
            rows = range(store.next_row, store.next_row + 12)
            blocks = [
                NewBlock(row, id_of(row), None if row % 3 else "x" * chance.randrange(1, 2000))
                for row in rows
            ]
            await store.append([event_of(row) for row in rows], blocks, durable=False)
            number = store.position.n
            frame = await store.append(
                [FrameRow(FEED, number, bytes(chance.randrange(50, 9000)), b"h" * 40)], durable=False
            )
            frames.append(frame)
            held += rows
            late = [row for row in rows if row % 3]
            await store.append([], [NewBlock(row, id_of(row), "y" * chance.randrange(900)) for row in late])
            await store.set_embeddings(rows, np.ones((12, DIMENSION), np.float32), MODEL)
            for _ in range(4):
                row = held.pop(chance.randrange(len(held)))
                cut = frames.pop(chance.randrange(len(frames))) if frames and chance.random() < 0.2 else 0
                erased += await _keys_of(store, row, cut)
                if cut and chance.random() < 0.5:
                    await store.forget(row, [Cut(cut, b"less")])
                else:
                    await store.forget(row, emptied=[cut] if cut else [])
        everything = b"".join(files_of(tmp_path).values())
        assert len(erased) > 100
        assert [
            key for key in erased if any(key[at : at + 12] in everything for at in (0, 12, 24, 36, 48))
        ] == []
        assert (await store.verify()).faults == []
        assert len(await store.texts(held)) == len(held)


async def _keys_of(store: Store, row: int, cut: int) -> list[bytes]:
    def read(connection: sqlite3.Connection) -> list[bytes]:
        found = connection.execute(
            "SELECT wrapped FROM erasable WHERE slot = (SELECT slot FROM block WHERE row = ?)"
            " OR slot = (SELECT slot FROM log WHERE n = ?)",
            (row, cut),
        )
        return [bytes(key) for (key,) in found]

    return await store._database.run(read)


async def test_with_its_key_kept_elsewhere_a_block_would_still_open(tmp_path: Path) -> None:
    """What makes forgetting final is the key: only who copied the database before can read on."""
    await filled_home(tmp_path)
    with opened_file(tmp_path) as connection:
        slot, content, wrapped = connection.execute(
            "SELECT block.slot, content, wrapped FROM block JOIN erasable USING (slot) WHERE row = 3"
        ).fetchone()
    async with await Store.open(tmp_path, home_keys()) as store:
        await store.forget(3)
    assert wrapped_keys(tmp_path)[slot] == ERASED_KEY
    key = HomeKeys(bytes(range(32))).unwrap_block_key(slot, wrapped)
    assert opened_content(key, 3, content) == (id_of(3), text_of(3))


async def test_a_forgotten_block_can_be_learned_again_in_a_new_row(tmp_path: Path) -> None:
    """Its row is not used again, its mark stays until it is forgotten anew."""
    await filled_home(tmp_path)
    async with await Store.open(tmp_path, home_keys()) as store:
        await store.append([event_of(5, 2)])
        await store.forget(5, mark=b"first")
        assert store.next_row == 6
        with pytest.raises(UnknownRow, match="row 5"):
            await store.append([event_of(5)])
        with pytest.raises(ValueError, match="not used again"):
            await store.append([], [NewBlock(5, id_of(5), text_of(5))])
        await store.append([OwnEvent(6, b"again")], [NewBlock(6, id_of(5), text_of(5))])
        assert await store.texts([6]) == {6: text_of(5)}
        assert store.forgotten_mark(id_of(5)) == b"first"
        await store.forget(6, mark=b"second")
        assert store.forgotten_mark(id_of(5)) == b"second"
    async with await Store.open(tmp_path, home_keys()) as store:
        assert (store.next_row, store.forgotten_mark(id_of(5))) == (7, b"second")
        assert (await store.verify()).faults == []


async def test_a_forgetting_that_cannot_be_done_changes_nothing(tmp_path: Path) -> None:
    """An unknown row, a cut of what is no frame: nothing is forgotten, all of it is still there."""
    await filled_home(tmp_path)
    async with await Store.open(tmp_path, home_keys()) as store:
        before = store.position
        for row, cuts, emptied, error in (
            (77, [], [], UnknownRow),
            (3, [Cut(7, b"")], [], ValueError),
            (3, [Cut(8, b""), Cut(8, b"")], [], ValueError),
            (3, [Cut(99, b"")], [], UnknownRow),
            (3, [], [1], ValueError),
        ):
            with pytest.raises(error):
                await store.forget(row, cuts, emptied=emptied)
        assert store.position == before
        assert (await store.texts([3]), len(await store.events(3))) == ({3: text_of(3)}, 2)
        assert store.forgotten_mark(id_of(3)) is None
        assert (await store.verify()).faults == []


async def test_a_frame_can_be_cut_again_and_then_pruned(tmp_path: Path) -> None:
    """Each time with a key of its own; pruned it keeps its header, and a second time nothing happens."""
    await filled_home(tmp_path)
    async with await Store.open(tmp_path, home_keys()) as store:
        await store.rewrite_frames([Cut(8, b"once"), Cut(9, b"")])
        await store.rewrite_frames([Cut(8, b"twice")])
        first, second = await store.read([8, 9])
        assert (first.payload, second.payload, second.state) == (b"twice", b"", State.CUT)
        assert await store.prune([8, 10]) == 2
        assert await store.prune([8, 9, 10]) == 1
        await store.rewrite_frames([Cut(8, b"too late")])
        frames = await store.frames(FEED, 1, 3)
        assert [(frame.header, frame.payload, frame.state) for frame in frames] == [
            (frame_of(number).header, None, State.PRUNED) for number in (1, 2, 3)
        ]
        with pytest.raises(ValueError, match="row 1 is no frame"):
            await store.prune([1])
        assert (await store.verify()).faults == []
    keys = wrapped_keys(tmp_path)
    assert [slot for slot, key in keys.items() if key == ERASED_KEY] == [6, 7, 8, 9, 10, 11]


async def test_a_checkpoint_from_before_an_erasure_is_not_used(tmp_path: Path) -> None:
    """Neither one that was being written meanwhile, nor one that was put back."""
    await filled_home(tmp_path)
    async with await Store.open(tmp_path, home_keys()) as store:
        old = Checkpoint(store.position, "r", {"x": b"of before"})
        await store.write_checkpoint(old)
        kept = (tmp_path / "checkpoint").read_bytes()
        await store.rewrite_frames([Cut(8, b"less")])
        assert await store.read_checkpoint("r") == Unusable("there is none")
        assert not await store.write_checkpoint(old)
        assert sorted(files_of(tmp_path)) == ["lock", "memory.db", "memory.db-wal"]
        (tmp_path / "checkpoint").write_bytes(kept)
        found = await store.read_checkpoint("r")
        assert isinstance(found, Unusable)
        assert "erased" in found.reason
        await store.prune([9])
        await store.append([HomeEvent(b"x")])
        now = Checkpoint(store.position, "r", {"x": b"of now"})
        assert await store.write_checkpoint(now)
        assert await store.read_checkpoint("r") == now


async def test_an_erasure_whose_log_cannot_be_emptied_says_so_and_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The block is forgotten; what may still lie in the write-ahead log goes at the next opening."""
    await filled_home(tmp_path)
    gone = sealed_parts(tmp_path, 2)

    def refuses(connection: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    async with await Store.open(tmp_path, home_keys()) as store:
        with monkeypatch.context() as patched:
            patched.setattr(store_module, "empty_wal", refuses)
            with pytest.raises(ErasureUnfinished, match="not emptied") as said:
                await store.forget(2)
        assert "close the home and open it" in said.value.hint
        assert await store.texts([2]) == {}
        await store.append([HomeEvent(b"goes on")])
    async with await Store.open(tmp_path, home_keys()) as store:
        everything = b"".join(files_of(tmp_path).values())
        assert [name for name, part in gone.items() if part in everything] == []
        assert (await store.verify()).faults == []


async def test_what_a_kill_left_in_the_write_ahead_log_is_gone_once_the_home_is_open(tmp_path: Path) -> None:
    """Killed between the transaction and the emptying of the log, the pages of before are still there."""
    await filled_home(tmp_path)
    gone = sealed_parts(tmp_path, 2)
    killed_home(tmp_path, "forget unfinished")
    assert any(part in b"".join(files_of(tmp_path).values()) for part in gone.values())
    async with await Store.open(tmp_path, home_keys()) as store:
        everything = b"".join(files_of(tmp_path).values())
        assert [name for name, part in gone.items() if part in everything] == []
        assert await store.texts([2]) == {}


async def test_pruning_what_nobody_needs_keeps_the_chain(tmp_path: Path) -> None:
    """Numbers and digests stay: the running hash is checked through pruned and forgotten rows."""
    async with await Store.create(tmp_path, home_keys()) as store:
        await fill(store)
        at = store.position
        await store.prune([8, 9, 10])
        await store.forget(0)
        assert (store.position.n, store.position.running) == (at.n, at.running)
        rows = await rows_of(store)
        assert [row.n for row in rows if row.kind is Kind.FRAME] == [8, 9, 10]
        await store.append([], [block_of(6)])
        assert (await store.verify()).faults == []
