"""Rows that give way to an aggregate: number and digest stay, and whatever is done to them is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from loremesh.node.store import HomeEvent, Store
from loremesh.node.store.errors import UnknownRow
from loremesh.node.store.values import Replaced, State
from tests.node.store.doubles import (
    event_of,
    files_of,
    filled_home,
    found_in,
    home_keys,
    opened_file,
    rows_of,
    tamper,
    verified,
)

SUM = b"what the events of row 2 came to"


async def compacted_home(home: Path) -> Path:
    """`filled_home` in which an aggregate in row 13 stands for row 3 (block 2), one in row 14 for row 4."""
    await filled_home(home)
    async with await Store.open(home, home_keys()) as store:
        await store.compact([Replaced(13, SUM), Replaced(14, b"another sum")], [3, 4])
    return home


async def test_an_aggregate_stands_where_an_event_was(tmp_path: Path) -> None:
    """Others keep number and digest alone; the block's events are what is left; the chain holds."""
    await filled_home(tmp_path)
    async with await Store.open(tmp_path, home_keys()) as store:
        before = await rows_of(store)
        position = store.position
        done = await store.compact([Replaced(13, SUM)], [3], [HomeEvent(b"compacted")])
        assert done.events == 1
        assert done.freed_bytes > 0
        after = await rows_of(store)
        assert [row.n for row in after] == list(range(1, 18))
        assert (after[2].state, after[2].payload) == (State.AGGREGATED, None)
        assert (after[12].state, after[12].payload) == (State.AGGREGATE, SUM)
        assert [row for row in after[:16] if row.n not in (3, 13)] == [
            row for row in before if row.n not in (3, 13)
        ]
        assert after[16].payload == b"compacted"
        assert await store.follows(position), "a checkpoint from before is as good as it was"
        assert [(row.n, row.payload) for row in await store.events(2)] == [(13, SUM)]
        assert await store.aggregate(2) == SUM
        assert await store.aggregate(1) is None
        assert await store.event_counts() == [(0, 2), (1, 2), (2, 1), (3, 2), (4, 2), (5, 2)]
        assert await store.event_counts(1) == [(0, 2), (1, 2), (3, 2), (4, 2), (5, 2)]
        assert [row.payload for row in await store.home_events(7)] == [b"compacted"]
        found = await store.verify()
        assert (found.whole, found.aggregates, found.aggregated, found.faults) == (15, 1, 1, [])


async def test_an_aggregate_gives_way_to_a_later_one(tmp_path: Path) -> None:
    """And is not counted twice in the sums of the head; what is gone stays gone."""
    await compacted_home(tmp_path)
    async with await Store.open(tmp_path, home_keys()) as store:
        first = await store.append([event_of(2, 2)])
        done = await store.compact([Replaced(first, b"a later sum")], [3, 13])
        assert done.events == 1
        assert [row.payload for row in await store.events(2)] == [b"a later sum"]
        found = await store.verify()
        assert (found.aggregates, found.aggregated, found.faults) == (2, 3, [])
        await store.compact([Replaced(first, b"a sum in its own place")])
        assert await store.aggregate(2) == b"a sum in its own place"
        assert (await store.verify()).faults == []


async def test_only_own_events_that_are_there_give_way(tmp_path: Path) -> None:
    """A frame, a home event, a row that is none: refused, and nothing has changed."""
    await filled_home(tmp_path)
    async with await Store.open(tmp_path, home_keys()) as store:
        before = await rows_of(store)
        for wrong in ([7], [8], [3, 9]):
            with pytest.raises(ValueError, match="no event about a block"):
                await store.compact([Replaced(13, SUM)], wrong)
        with pytest.raises(UnknownRow, match="no row 99"):
            await store.compact([Replaced(13, SUM)], [3, 99])
        assert await rows_of(store) == before
        assert (await store.verify()).faults == []


async def test_forgetting_takes_aggregates_as_it_takes_events(tmp_path: Path) -> None:
    """The sums of the head hold, the rest of the log too, and rows given way to sums before stay so."""
    await compacted_home(tmp_path)
    async with await Store.open(tmp_path, home_keys()) as store:
        assert await store.forget(2) == 1
        rows = await rows_of(store)
        assert (rows[2].state, rows[12].state) == (State.AGGREGATED, State.FORGOTTEN)
        assert await store.compact((), [3, 13]) == (await store.compact((), []))
        assert (await store.verify()).faults == []
    found = await verified(tmp_path)
    assert (found.forgotten, found.aggregates, found.aggregated, found.faults) == (1, 1, 2, [])


async def test_space_is_given_back_and_nothing_old_is_left_in_it(tmp_path: Path) -> None:
    """Written anew: smaller, no free page, an empty write-ahead log, and no sealed body of what went."""
    await filled_home(tmp_path)
    async with await Store.open(tmp_path, home_keys()) as store:
        first = await store.append([event_of(1, number) for number in range(2, 3000)])
    with opened_file(tmp_path) as connection:
        bodies = connection.execute(
            "SELECT n, body FROM log WHERE n BETWEEN ? AND ?", (first, first + 2996)
        ).fetchall()
    async with await Store.open(tmp_path, home_keys()) as store:
        await store.compact([Replaced(first + 2997, b"sum")], range(first, first + 2997))
        size = sum(len(body) for name, body in files_of(tmp_path).items() if name.startswith("memory.db"))
        await store.return_space()
        assert (tmp_path / "memory.db").stat().st_size < 0.7 * size
        assert (tmp_path / "memory.db-wal").stat().st_size == 0
        assert found_in(tmp_path, {str(n): body for n, body in bodies[::50]}) == []
        assert (await store.verify()).faults == []
    with opened_file(tmp_path) as connection:
        assert connection.execute("PRAGMA freelist_count").fetchone() == (0,)


TAKEN_BACK = "UPDATE log SET state = 0, body = (SELECT body FROM aside WHERE aside.n = log.n) WHERE n = "
OTHER_PLACE = ("UPDATE log SET body = (SELECT body FROM copy WHERE copy.n = 27 - log.n) WHERE n IN (13, 14)",)


@pytest.mark.parametrize(
    ("statements", "where", "what"),
    [
        pytest.param(["DELETE FROM log WHERE n = 3"], "log row 3", "missing", id="a row dropped"),
        pytest.param(["DELETE FROM log WHERE n = 13"], "log row 13", "missing", id="an aggregate dropped"),
        pytest.param(OTHER_PLACE, "log row 13", "another place", id="aggregates swapped"),
        pytest.param(
            ["UPDATE log SET body = (SELECT body FROM copy WHERE copy.n = 7 - log.n) WHERE n IN (3, 4)"],
            "log row 3",
            "another place",
            id="tokens swapped",
        ),
        pytest.param(["UPDATE log SET state = 5 WHERE n = 12"], "log row 12", "altered", id="claimed away"),
        pytest.param(["UPDATE log SET state = 0 WHERE n = 13"], "log row 13", "altered", id="claimed whole"),
        pytest.param(
            ["UPDATE log SET state = 3 WHERE n = 3"], "log row 3", "altered", id="claimed forgotten"
        ),
        pytest.param([TAKEN_BACK + "3"], "log", "put back as it was before", id="an event put back"),
        pytest.param([TAKEN_BACK + "13"], "log", "put back as it was before", id="an aggregate undone"),
        pytest.param(
            ["UPDATE log SET digest = zeroblob(32) WHERE n = 3"],
            "log row 3",
            "altered",
            id="a digest altered",
        ),
        pytest.param(
            ["UPDATE log SET digest = zeroblob(32) WHERE n = 13"], "log row 13", "digest", id="a sum's digest"
        ),
    ],
)
async def test_damage_to_what_was_compacted_is_found(
    tmp_path: Path, statements: list[str], where: str, what: str
) -> None:
    """Rows dropped, swapped, claimed to be what they are not, or put back as they once were."""
    await filled_home(tmp_path)
    tamper(tmp_path, "CREATE TABLE aside AS SELECT * FROM log")
    async with await Store.open(tmp_path, home_keys()) as store:
        await store.compact([Replaced(13, SUM), Replaced(14, b"another sum")], [3, 4])
    assert (await verified(tmp_path)).faults == []
    tamper(tmp_path, "CREATE TABLE copy AS SELECT * FROM log", *statements)
    found = (await verified(tmp_path)).faults
    assert any(fault.where == where and what in fault.what for fault in found), found
