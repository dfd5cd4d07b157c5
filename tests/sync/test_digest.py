"""The digest of live rows: as written down, whatever the order."""

import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from loremesh.sync.digest import LANES, label_word
from loremesh.sync.registers import Registers
from loremesh.sync.rows import BlockIndex, Contexts
from tests.sync.evidence import ROWS, honest, say, state, stated
from tests.sync.oracle import Statement

MASK = (1 << 64) - 1
LABELS = Contexts.load(["", "deploy"])
IDS = [bytes([row + 1]) * 32 for row in range(ROWS)]
INDEX = BlockIndex()
INDEX.ensure(IDS)


def mixed(start: int, words: tuple[int, ...]) -> int:
    state = start
    for word in words:
        state = ((state ^ word) + 0x9E3779B97F4A7C15) & MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK
        state ^= state >> 31
    return state


def plain_digest(statements: list[Statement]) -> bytes:
    """The digest as `sync/ARITHMETIC.md` writes it down, one register at a time."""
    sums = [0, 0]
    for s in statements:
        packed = (
            IDS[s.row]
            + struct.pack("<Q", label_word(LABELS.label(s.context)))
            + s.incarnation
            + struct.pack("<QQQd", s.version, s.alpha, s.beta, s.stability_h)
        )
        words = struct.unpack("<11Q", packed)
        sums = [(total + mixed(lane, words)) & MASK for total, lane in zip(sums, LANES, strict=True)]
    return struct.pack("<QQ", *sums)


def digest(registers: Registers) -> bytes:
    return registers.live_digest(registers.live(), INDEX, LABELS)


def newest(statements: list[Statement]) -> list[Statement]:
    held: dict[object, Statement] = {}
    for s in sorted(statements, key=lambda s: s.version):
        held[s.origin, s.incarnation, s.space, s.row, s.context] = s
    return list(held.values())


@settings(max_examples=40)
@given(honest(), st.randoms(use_true_random=False))
def test_the_digest_is_of_the_live_rows_as_written_down_in_any_order(
    statements: list[Statement], rng: object
) -> None:
    rng.shuffle(statements)  # type: ignore[attr-defined]
    assert digest(stated(statements)) == plain_digest(newest(statements))


def test_golden_digest() -> None:
    registers = stated(
        [say(b"A" * 32, 3, 1.5, stability_h=48.25, version=7), say(b"A" * 32, 1, row=2, context=1)]
    )
    assert digest(registers).hex() == "29f802d65275598a23ed1c51e88d4e90"
    assert digest(Registers()) == bytes(16)


def test_every_part_of_a_register_changes_the_digest() -> None:
    one = say(b"A" * 32, 3, 1)
    variants = [
        one,
        one._replace(row=1),
        one._replace(context=1),
        one._replace(incarnation=b"2" * 16),
        one._replace(version=2),
        one._replace(alpha=one.beta, beta=one.alpha),
        one._replace(stability_h=25.0),
    ]
    assert len({digest(stated([s])) for s in variants}) == len(variants)


def test_a_digest_of_one_source_leaves_the_others_out() -> None:
    registers = Registers()
    state(registers, [say(b"A" * 32, 3), say(b"B" * 32, 4)])
    mine = registers.live(registers.sources[0])
    assert registers.live_digest(mine, INDEX, LABELS) == plain_digest([say(b"A" * 32, 3)])
