"""Opening and closing a home: settings, keys, owners, damage, and disks that refuse."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from loremesh.crypto.errors import KeyUnavailable, WrongKey
from loremesh.crypto.keystores import EnvironmentKey
from loremesh.node.errors import NodeError, Unavailable, UsageError
from loremesh.node.node import Node
from loremesh.node.settings import SettingsError
from loremesh.node.store.errors import InUse, NotAHome, StoreError
from tests.node.homes import ENVIRON, KEY, CountingEmbedder, Homes, effective, fact, faultless


async def test_everything_is_there_again_with_and_without_a_checkpoint(homes: Homes) -> None:
    async with homes.create("alice") as node:
        await node.learn_many([fact(n) for n in range(30)], tags=["ops"])
        await node.consolidate()
        await node.outcome(1.0, episode=(await node.recall("indexer", context="deploy")).episode)
        numbers, asked = await effective(node), (await node.recall("cache")).hits
    for checkpoint in (True, False):
        if not checkpoint:
            (homes.path("alice") / "checkpoint").unlink()
        async with homes.open("alice") as node:
            assert await effective(node) == numbers
            assert (await node.recall("cache")).hits == asked
            await faultless(node)


async def test_a_missing_checkpoint_is_written_anew_even_when_nothing_happened(homes: Homes) -> None:
    async with homes.create("alice") as node:
        await node.learn("Restart the indexer")
    checkpoint = homes.path("alice") / "checkpoint"
    checkpoint.unlink()
    async with homes.open("alice"):
        pass
    assert checkpoint.exists()
    written = checkpoint.stat().st_mtime_ns
    async with homes.open("alice"):
        pass
    assert checkpoint.stat().st_mtime_ns == written, "the checkpoint was written again for nothing"


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-9],
        lambda data: data[:40] + b"\0" + data[41:],
        lambda data: b"x" * 99,
    ],
)
async def test_a_damaged_checkpoint_costs_time_and_nothing_else(homes: Homes, damage: Any) -> None:
    async with homes.create("alice") as node:
        await node.learn("Restart the indexer")
        numbers = await effective(node)
    checkpoint = homes.path("alice") / "checkpoint"
    checkpoint.write_bytes(damage(checkpoint.read_bytes()))
    async with homes.open("alice") as node:
        assert await effective(node) == numbers
        await faultless(node)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("[memory]\nw_init = 0.01\n", "w_init"),
        ("[memory]\nclock = 'sundial'\n", "clock"),
        ("[memory]\nwinit = 1.0\n", "winit"),
        ("[sharing]\nhead_every_s = 'often'\n", "head_every_s"),
        ("[memory\n", "config.toml"),
        ("\xff", "config.toml"),
        ("a = " + "[" * 5_000, "nested too deeply"),
        ("# " + "x" * 70_000, "more than 65536 bytes"),
    ],
)
async def test_settings_that_cannot_be_are_refused_by_name(homes: Homes, config: str, said: str) -> None:
    async with homes.create("alice"):
        pass
    (homes.path("alice") / "config.toml").write_bytes(config.encode("latin-1"))
    with pytest.raises(SettingsError, match=said):
        async with homes.open("alice"):
            pass


@pytest.mark.parametrize("name", ["config.toml", "vault.json", "checkpoint"])
async def test_a_pipe_in_place_of_a_file_is_refused_by_name_and_nobody_waits_for_it(
    homes: Homes, name: str
) -> None:
    async with homes.create("alice"):
        pass
    path = homes.path("alice") / name
    path.unlink()
    os.mkfifo(path, 0o600)
    with pytest.raises((SettingsError, KeyUnavailable, StoreError), match=name):
        async with homes.open("alice"):
            pass


async def test_a_home_whose_name_is_not_utf8_is_refused_and_not_made(homes: Homes) -> None:
    with pytest.raises(UsageError, match="not UTF-8"):
        async with Node.create(homes.path("\udcff"), source=KEY, environ=ENVIRON):
            pass
    assert not homes.path("\udcff").exists()


async def test_a_database_cut_off_to_nothing_is_not_called_one_without_content(homes: Homes) -> None:
    async with homes.create("alice") as node:
        await node.learn("Restart the indexer")
    (homes.path("alice") / "memory.db").write_bytes(b"")
    with pytest.raises(NotAHome, match="cut off") as refused:
        async with homes.open("alice"):
            pass
    assert "backup" in refused.value.hint
    (homes.path("alice") / "memory.db").unlink()
    with pytest.raises(NotAHome, match=r"there is no memory\.db") as refused:
        async with homes.open("alice"):
            pass
    assert "backup" in refused.value.hint


async def test_rules_that_there_are_not_are_refused_with_those_there_are(homes: Homes) -> None:
    async with homes.create("alice"):
        pass
    (homes.path("alice") / "config.toml").write_text("[memory]\nrules = 'fsrs99'\n")
    with pytest.raises(NodeError, match="fsrs99") as refused:
        async with homes.open("alice"):
            pass
    assert "fsrs5" in refused.value.hint


async def test_other_rules_give_other_numbers_and_the_first_again_the_first(homes: Homes) -> None:
    async with homes.create("alice") as node:
        block = (await node.learn("Restart the indexer")).block
        homes.pass_minutes(25)
        await node.outcome(1.0, blocks=[block])
        numbers = await effective(node)
    config = homes.path("alice") / "config.toml"
    kept = config.read_text()
    config.write_text(kept + "[memory]\nrules = 'survey'\n")
    async with homes.open("alice") as node:
        assert await effective(node) != numbers
        await faultless(node)
    config.write_text(kept)
    async with homes.open("alice") as node:
        assert await effective(node) == numbers
        await faultless(node)


async def test_a_wrong_key_opens_nothing_and_changes_nothing(homes: Homes) -> None:
    async with homes.create("alice") as node:
        await node.learn("Restart the indexer")
    before = snapshot(homes.path("alice"))
    with pytest.raises(WrongKey):
        async with Node.open(
            homes.path("alice"), environ={"LOREMESH_TEST_KEY": "00" * 32}, parts=homes.parts("alice")
        ):
            pass
    with pytest.raises(KeyUnavailable):
        async with Node.open(homes.path("alice"), environ={}, parts=homes.parts("alice")):
            pass
    assert snapshot(homes.path("alice")) == before
    async with homes.open("alice") as node:
        await faultless(node)


async def test_a_wrong_passphrase_is_told_as_such(homes: Homes) -> None:
    async with Node.create(homes.path("alice"), passphrase="right", parts=homes.parts("alice")):
        pass
    with pytest.raises(WrongKey):
        async with Node.open(homes.path("alice"), passphrase="wrong", parts=homes.parts("alice")):
            pass
    with pytest.raises(UsageError, match="another key source"):
        Node.open(homes.path("alice"), passphrase="right", source=KEY)


async def test_two_owners_at_once_are_impossible_and_the_second_is_told_of_the_first(homes: Homes) -> None:
    async with homes.create("alice") as node:
        with pytest.raises(InUse, match=str(os.getpid())):
            async with homes.open("alice"):
                pass
        await node.learn("Restart the indexer")
    async with homes.open("alice") as node:
        assert (await node.status()).blocks == 1


async def test_what_is_no_home_is_not_opened_and_not_made_into_one(homes: Homes) -> None:
    with pytest.raises((NotAHome, KeyUnavailable)):
        async with homes.open("nobody"):
            pass
    assert not homes.path("nobody").exists()
    strangers = homes.path("downloads")
    strangers.mkdir(parents=True)
    (strangers / "letter.txt").write_text("dear reader")
    with pytest.raises(NodeError, match=r"letter\.txt"):
        async with Node.create(strangers, source=KEY, environ=ENVIRON):
            pass
    assert [path.name for path in strangers.iterdir()] == ["letter.txt"]


async def test_a_home_is_not_made_twice(homes: Homes) -> None:
    async with homes.create("alice") as node:
        peer = node.peer_id
    with pytest.raises(NodeError):
        async with Node.create(homes.path("alice"), source=KEY, environ=ENVIRON):
            pass
    async with homes.open("alice") as node:
        assert node.peer_id == peer


@pytest.mark.parametrize("name", ["x" * 65, "two\nlines", "bell\a", " alice", "alice ", "\ud800"])
async def test_a_name_that_peers_could_not_take_is_refused(homes: Homes, name: str) -> None:
    with pytest.raises(UsageError, match="name"):
        async with Node.create(homes.path("alice"), name=name, source=KEY, environ=ENVIRON):
            pass


async def test_a_home_needs_a_key(homes: Homes) -> None:
    with pytest.raises(UsageError, match="key"):
        Node.create(homes.path("alice"))
    with pytest.raises(KeyUnavailable, match="NOT_SET"):
        async with Node.create(homes.path("alice"), source=EnvironmentKey("NOT_SET"), environ={}):
            pass


async def test_another_embedding_model_is_refused_with_the_remedy_and_nothing_is_mixed(homes: Homes) -> None:
    """Without the model before, words find what there is, and new texts wait until one is named again."""
    async with homes.create("alice") as node:
        await node.learn("Restart the indexer")
        await node.consolidate()
    homes.embedder = CountingEmbedder(48)
    async with homes.open("alice") as node:
        await node.learn("Another text")
        assert (await node.recall("indexer")).hits[0].text == "Restart the indexer"
        with pytest.raises(Unavailable, match="48") as refused:
            await node.consolidate()
        assert "config.toml" in refused.value.hint
        await faultless(node)
    homes.embedder = CountingEmbedder()
    async with homes.open("alice") as node:
        assert (await node.consolidate()).embedded == 1
        assert len((await node.recall("indexer")).hits) == 2


async def test_a_cut_off_database_is_refused_naming_what_is_wrong(homes: Homes) -> None:
    async with homes.create("alice") as node:
        await node.learn_many([fact(n) for n in range(200)])
    (homes.path("alice") / "checkpoint").unlink()
    database = homes.path("alice") / "memory.db"
    database.write_bytes(database.read_bytes()[: database.stat().st_size // 2])
    with pytest.raises(StoreError) as refused:
        async with homes.open("alice"):
            pass
    assert refused.value.hint


async def test_a_row_that_was_changed_is_found_by_replay_and_named(homes: Homes) -> None:
    import sqlite3

    async with homes.create("alice") as node:
        await node.learn_many([fact(n) for n in range(5)])
    with sqlite3.connect(homes.path("alice") / "memory.db") as raw:
        raw.execute("UPDATE log SET body = zeroblob(length(body)) WHERE n = 3")
    raw.close()
    async with homes.open("alice") as node:
        replayed = await node.replay(check=True)
        assert not replayed.ok
        assert any("3" in fault for fault in replayed.faults)


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not hold for root")
async def test_a_read_only_home_is_refused_with_the_reason(homes: Homes) -> None:
    async with homes.create("alice") as node:
        await node.learn("Restart the indexer")
    path = homes.path("alice")
    for entry in (*path.iterdir(), path):
        entry.chmod(0o500 if entry.is_dir() else 0o400)
    try:
        with pytest.raises(StoreError, match="read-only"):
            async with homes.open("alice"):
                pass
    finally:
        for entry in (path, *path.iterdir()):
            entry.chmod(0o700)


def snapshot(home: Path) -> dict[str, bytes]:
    """Every file of a home but the lock, byte for byte."""
    return {
        str(path.relative_to(home)): path.read_bytes()
        for path in sorted(home.rglob("*"))
        if path.is_file() and path.name != "lock"
    }
