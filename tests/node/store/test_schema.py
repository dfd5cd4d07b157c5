"""The exact bytes on disk, as the README gives them: a second implementation must get the same."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loremesh.crypto.atrest import open_block
from loremesh.node.store import Cut, Store
from loremesh.node.store.schema import (
    ABSENT,
    Head,
    decode_content,
    digest_of,
    encode_content,
    gone_place,
    next_running,
    place,
    summed,
    tally,
    tally_block,
)
from tests.node.store.doubles import (
    FEED,
    event_of,
    filled_home,
    frame_of,
    home_keys,
    id_of,
    opened_file,
    text_of,
)

sums = st.lists(st.integers(0, 2**256 - 1), max_size=8)


def test_the_digest_and_the_running_hash_are_these_bytes() -> None:
    """Golden: computed by hand from the README's formulas."""
    assert digest_of(None, b"body") == hashlib.sha256(b"\0\0\0\0body").digest()
    assert digest_of(b"head", b"body") == hashlib.sha256(b"\0\0\0\x04headbody").digest()
    assert digest_of(b"headbo", b"dy") != digest_of(b"head", b"body")
    running = next_running(bytes(32), 1, 3, 7, 258, b"d" * 32)
    by_hand = bytes(32) + bytes.fromhex("0000000000000001 03 0000000000000007 0000000000000102") + b"d" * 32
    assert running == hashlib.sha256(by_hand).digest()
    absent = bytes(32) + bytes.fromhex("0000000000000001 02" + "ff" * 16) + b"d" * 32
    assert next_running(bytes(32), 1, 2, None, None, b"d" * 32) == hashlib.sha256(absent).digest()


def test_places_and_tallies_are_these_bytes() -> None:
    """Golden: what is bound in, and what is summed."""
    assert place(1, 258) == bytes.fromhex("0000000000000001 0000000000000102")
    assert gone_place(5, 1, 2, None, 3, b"d" * 32) == place(5, 1, 2, ABSENT, 3) + b"d" * 32
    message = b"block\0" + b"\0\0\0\x10" + place(2, 9) + b"\0\0\0\x03kid" + b"\0\0\0\x01w" + b"\0\0\0\x02cc"
    expected = int.from_bytes(hmac.digest(b"k" * 32, message, "sha256"), "big")
    assert tally_block(b"k" * 32, 2, 9, b"kid", b"w", b"cc") == expected
    assert tally(b"k" * 32, b"t", b"ab", b"c") != tally(b"k" * 32, b"t", b"a", b"bc")


@given(sums, sums)
def test_a_sum_forgets_the_order_and_what_was_taken_away(here: list[int], gone: list[int]) -> None:
    """Added in any order, taken away in any order: what is left is the sum of what is left."""
    total = bytes(32)
    for number in [*gone, *here]:
        total = summed(total, number)
    for number in reversed(gone):
        total = summed(total, -number)
    assert int.from_bytes(total, "big") == sum(here) % 2**256


@given(st.binary(min_size=32, max_size=32), st.one_of(st.none(), st.text(min_size=1)))
def test_content_comes_back(block_id: bytes, text: str | None) -> None:
    """Id and text, or the id alone."""
    assert decode_content(encode_content(block_id, text)) == (block_id, text)


async def test_a_home_can_be_read_by_the_formulas_of_the_readme_alone(tmp_path: Path) -> None:
    """Head, chain, block, event, frame, embedding, feed: opened with keys and SQL, no code of the store."""
    await filled_home(tmp_path)
    async with await Store.open(tmp_path, home_keys()) as store:
        await store.rewrite_frames([Cut(9, b"less")])
        await store.forget(5)
    keys = home_keys()
    with opened_file(tmp_path) as file:
        (sealed,) = file.execute("SELECT body FROM head WHERE id = 1").fetchone()
        head = msgspec.msgpack.decode(keys.open_home("head", sealed))
        assert (len(head), head[0], head[6]) == (7, 16, 2)
        running = bytes(32)
        for n, kind, ref, number, digest in file.execute(
            "SELECT n, kind, ref, number, digest FROM log ORDER BY n"
        ):
            numbers = [2**64 - 1 if value is None else value for value in (ref, number)]
            chained = n.to_bytes(8, "big") + bytes([kind]) + b"".join(x.to_bytes(8, "big") for x in numbers)
            running = hashlib.sha256(running + chained + digest).digest()
        assert running == head[1]

        row, slot, kid, content = file.execute("SELECT * FROM block WHERE row = 2").fetchone()
        (wrapped,) = file.execute("SELECT wrapped FROM erasable WHERE slot = ?", (slot,)).fetchone()
        key = keys.unwrap_block_key(slot, wrapped)
        assert kid == keys.keyed_id(id_of(2))
        assert open_block(key, "content", row, content) == id_of(2) + text_of(2).encode()
        model, vector = file.execute("SELECT model, body FROM embedding WHERE row = 2").fetchone()
        assert len(open_block(key, "embedding", row, vector, model)) == 4 * 8
        (event,) = file.execute("SELECT body FROM log WHERE n = 3").fetchone()
        assert open_block(key, "event", 2, event, 3) == event_of(2).payload
        (event,) = file.execute("SELECT body FROM log WHERE n = 7").fetchone()
        assert keys.open_home("event", event, place(7)) == b"an event about no block at all"

        (feed,) = file.execute("SELECT body FROM feed WHERE no = 1").fetchone()
        assert msgspec.msgpack.decode(keys.open_home("feed", feed, place(1))) == [
            FEED.space,
            FEED.origin,
            FEED.incarnation,
            FEED.chain,
        ]
        frames = (
            "SELECT log.slot, header, body, digest, wrapped FROM log JOIN erasable USING (slot) WHERE n = ?"
        )
        slot, header, body, _, wrapped = file.execute(frames, (8,)).fetchone()
        assert keys.open_home("frame-header", header, place(8, 1, 1)) == frame_of(1).header
        key = keys.unwrap_block_key(slot, wrapped)
        assert open_block(key, "frame-body", 8, body, 1, 1) == frame_of(1).payload
        slot, _, body, digest, wrapped = file.execute(frames, (9,)).fetchone()
        key = keys.unwrap_block_key(slot, wrapped)
        assert open_block(key, "cut-body", 9, body, 1, 2) == digest + b"less"
        token, digest = file.execute("SELECT body, digest FROM log WHERE n = 6").fetchone()
        assert keys.open_home("gone", token, gone_place(6, 1, 5, None, 3, digest)) == b""
        name = keys.keyed_id(b"record/note")
        (record,) = file.execute("SELECT body FROM record WHERE kid = ?", (name,)).fetchone()
        assert msgspec.msgpack.decode(keys.open_home("record", record, name)) == ["note", b"second"]
        kid, mark = file.execute("SELECT kid, mark FROM forgotten WHERE row = 5").fetchone()
        assert kid == keys.keyed_id(id_of(5))
        assert keys.open_home("forgotten", mark, place(5) + kid) == b""
        settings = {
            name: file.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("application_id", "user_version", "page_size")
        }
        assert settings == {"application_id": 0x4C4D4831, "user_version": 1, "page_size": 8192}


def test_the_head_is_an_array_of_seven() -> None:
    """Golden: fields in this order, msgpack."""
    head = Head(1, b"r" * 32, b"k" * 32, b"c" * 32, b"b" * 32, b"m" * 32, 4)
    assert (
        msgspec.msgpack.encode(head)
        == b"\x97\x01"
        + b"".join(b"\xc4\x20" + letter * 32 for letter in (b"r", b"k", b"c", b"b", b"m"))
        + b"\x04"
    )
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode([1]), type=Head)
