"""Register columns: what is newer is kept, once, whoever it is from and however often it comes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loremesh.sync.errors import InvalidInput
from loremesh.sync.fixed import MAX_FX, MAX_MASS, ONE
from loremesh.sync.registers import (
    COUNTED_CHANGE_FX,
    NO_FRAME,
    NO_STAMP,
    Batch,
    Change,
    Registers,
    Source,
)
from tests.sync.evidence import PEERS, SPACES, batch_of, honest, say, state, stated
from tests.sync.oracle import Statement

A, B = PEERS[:2]
HERE = Source(A, b"1" * 16, SPACES[0])
THERE = Source(A, b"1" * 16, SPACES[1])


def apply(registers: Registers, *statements: Statement, frame: int = 1, hour: float = 1.0) -> Change:
    """All of one source, in one frame."""
    source = Source(statements[0].origin, statements[0].incarnation, statements[0].space)
    return registers.apply(source, batch_of(statements), frame, hour)


def contents(registers: Registers) -> set[tuple[object, ...]]:
    """Every register by names, without local numbers, stamps and frames."""
    held = registers.held(registers.live())
    columns = (held.row, held.context, held.alpha, held.beta, held.stability_h, held.version)
    sources = [registers.sources[number] for number in held.source.tolist()]
    rows = list(zip(sources, *(column.tolist() for column in columns), strict=True))
    assert len(set(rows)) == len(rows) == len(registers)
    return set(rows)


@settings(max_examples=40)
@given(honest(), st.data())
def test_the_same_registers_whatever_the_order_and_however_often(
    statements: list[Statement], data: st.DataObject
) -> None:
    again = [s for s in statements if data.draw(st.booleans())]
    delivered = data.draw(st.permutations(statements + again))
    assert contents(stated(delivered)) == contents(stated(statements))


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 2)), max_size=6), st.data())
def test_even_two_values_of_one_version_leave_the_same_registers(
    values: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    statements = [say(A, a, b, version=version, stability_h=24.0 + a) for a, b, version in values]
    assert contents(stated(data.draw(st.permutations(statements)))) == contents(stated(statements))


def test_a_copy_a_million_versions_later_changes_nothing() -> None:
    registers = Registers()
    apply(registers, say(A, 1, version=1))
    apply(registers, say(A, 9, version=10**6))
    change = apply(registers, say(A, 1, version=1), frame=3, hour=8.0)
    assert change.rows.tolist() == []
    assert registers.held(registers.live()).alpha.tolist() == [9 * ONE]


def test_a_change_names_each_row_once_in_order() -> None:
    registers = Registers()
    apply(registers, say(A, 1, row=1), frame=1)
    change = apply(
        registers, say(A, 1, row=2), say(A, 1, row=0, context=1), say(A, 1), say(A, 1, row=1), frame=2
    )
    assert change.rows.tolist() == [0, 2]


def test_contexts_and_incarnations_and_spaces_are_registers_of_their_own() -> None:
    registers = stated(
        [
            say(A, 1),
            say(A, 2, context=1),
            say(A, 3, incarnation=b"2" * 16),
            say(A, 4, space=SPACES[1]),
            say(B, 5),
        ]
    )
    assert sorted(registers.held(registers.select(np.array([0]))).alpha.tolist()) == [
        n * ONE for n in range(1, 6)
    ]
    assert (registers.count(HERE), registers.count(Source(B, b"2" * 16, SPACES[0]))) == (2, 0)


class TestPreview:
    def test_it_tells_what_is_new_and_what_mass_would_change(self) -> None:
        registers = Registers()
        apply(registers, say(A, 5, 3, version=4), say(A, 1, row=1, version=2))
        batch = batch_of([say(A, 4, 6, version=5), say(A, 1, row=1, version=2), say(A, 2, 1, row=2)])
        preview = registers.preview(HERE, batch)
        assert preview.mass_change_fx.tolist() == [4 * ONE, 0, 3 * ONE]
        assert preview.new.tolist() == [False, False, True]
        assert preview.stale.tolist() == [False, True, False]
        assert (preview.raw_mass_change_fx, preview.new_registers) == (7 * ONE, 1)

    def test_one_register_counts_a_thousand_at_most(self) -> None:
        preview = Registers().preview(HERE, batch_of([say(A, 5000), say(A, 7, row=1)]))
        assert preview.mass_change_fx.tolist() == [COUNTED_CHANGE_FX, 7 * ONE]

    def test_unknown_rows_and_contexts_are_new(self) -> None:
        registers = stated([say(A, 1)])
        registers.drop(0)  # a free slot is not a register of row -1
        preview = registers.preview(HERE, batch_of([say(A, 1, row=-1), say(A, 1, context=-1)]))
        assert preview.new.all()

    def test_one_version_with_two_values_is_a_conflict_here_and_across_spaces(self) -> None:
        registers = stated([say(A, 5, version=3)])
        for space in SPACES:
            source = Source(A, b"1" * 16, space)
            for lie in (say(A, 6, version=3), say(A, 5, 1, version=3), say(A, 5, version=3, stability_h=9.0)):
                assert registers.preview(source, batch_of([lie])).conflicts.tolist() == [True]
            for honest_one in (say(A, 5, version=3), say(A, 6, version=4), say(A, 2, version=2)):
                assert registers.preview(source, batch_of([honest_one])).conflicts.tolist() == [False]

    def test_a_conflict_in_one_space_is_not_hidden_by_another(self) -> None:
        registers = stated([say(A, 5, version=3), say(A, 7, version=4, space=SPACES[1])])
        for lie in (say(A, 6, version=3), say(A, 6, version=4)):
            assert registers.preview(HERE, batch_of([lie])).conflicts.tolist() == [True]

    def test_another_incarnation_or_origin_is_no_conflict(self) -> None:
        registers = stated([say(A, 5, version=3)])
        for source in (Source(A, b"2" * 16, SPACES[0]), Source(B, b"1" * 16, SPACES[0])):
            assert not registers.preview(source, batch_of([say(A, 6, version=3)])).conflicts.any()

    @settings(max_examples=40)
    @given(honest(), honest(peers=(A,), least=1))
    def test_it_changes_nothing_and_apply_does_what_it_said(
        self, before: list[Statement], coming: list[Statement]
    ) -> None:
        registers = stated(before)
        there = contents(registers)
        coming = [s for s in coming if s.space == SPACES[0] and s.incarnation == b"1" * 16]
        batch = batch_of(list({(s.row, s.context): s for s in coming}.values()))
        preview = registers.preview(HERE, batch)
        assert contents(registers) == there
        change = registers.apply(HERE, batch, 99, 1.0)
        assert len(registers) == len(there) + preview.new_registers
        assert set(batch.rows[~preview.stale].tolist()) <= set(change.rows.tolist())


class TestStamps:
    def masses(self, *outcomes: float) -> list[float]:
        """The stamps of one register that reaches these masses at hours 1, 2, 3, …"""
        registers = Registers()
        return [
            float(apply(registers, say(A, mass, version=n), frame=n, hour=float(n)).stamps[0])
            for n, mass in enumerate(outcomes, 1)
        ]

    def test_a_stamp_moves_with_each_new_half_unit_of_mass(self) -> None:
        assert self.masses(0.4, 0.5, 0.9, 1.0, 1.4) == [NO_STAMP, 2.0, 2.0, 4.0, 4.0]

    def test_mass_beyond_128_refreshes_nothing(self) -> None:
        assert self.masses(127.9, 128.0, 500.0) == [1.0, 2.0, 2.0]

    def test_less_mass_than_before_refreshes_nothing(self) -> None:
        assert self.masses(3.0, 1.0) == [1.0, 1.0]

    def test_stamps_kept_with_a_log_row_are_taken_as_they_are(self) -> None:
        registers = Registers()
        change = registers.apply(
            HERE, batch_of([say(A, 4), say(A, 0.1, row=1)]), 1, 50.0, np.array([7.0, NO_STAMP])
        )
        assert change.stamps.tolist() == [7.0, NO_STAMP]

    def test_replaying_frames_with_their_stamps_gives_the_same_columns(self) -> None:
        live, kept = Registers(), []
        for n, mass in enumerate([2.0, 2.2, 9.0, 9.1], 1):
            statements = [say(A, mass, version=n), say(A, 1, row=1, version=1)]
            kept.append((batch_of(statements), n, apply(live, *statements, frame=n, hour=float(n)).stamps))
        replayed = Registers()
        for batch, frame, stamps in kept:
            replayed.apply(HERE, batch, frame, 1000.0, stamps)
        assert _exported(replayed) == _exported(live)

    def test_a_stale_row_reports_the_stamp_of_what_is_held(self) -> None:
        registers = Registers()
        apply(registers, say(A, 5, version=5), hour=3.0)
        assert apply(registers, say(A, 1, version=1), frame=2, hour=9.0).stamps.tolist() == [3.0]


class TestFrames:
    def test_a_frame_is_dead_when_all_its_rows_were_stated_anew(self) -> None:
        registers = Registers()
        assert apply(registers, say(A, 1), say(A, 1, row=1), frame=1).frames_dead == []
        assert apply(registers, say(A, 2, version=2), frame=2).frames_dead == []
        assert (registers.live_count(1), registers.live_count(2)) == (1, 1)
        assert apply(registers, say(A, 2, row=1, version=3), frame=3).frames_dead == [1]
        assert registers.live_count(1) == 0

    def test_a_frame_that_brings_nothing_is_dead_on_arrival(self) -> None:
        registers = Registers()
        apply(registers, say(A, 2, version=2), frame=1)
        assert apply(registers, say(A, 1, version=1), frame=2).frames_dead == [2]
        assert registers.live_count(2) == 0

    def test_an_equal_statement_moves_a_row_to_the_later_frame_and_nothing_else(self) -> None:
        registers = Registers()
        apply(registers, say(A, 2), frame=5, hour=1.0)
        change = apply(registers, say(A, 2), frame=9, hour=4.0)
        assert (change.rows.tolist(), change.stamps.tolist(), change.frames_dead) == ([], [1.0], [5])
        assert apply(registers, say(A, 2), frame=7).frames_dead == [7]

    def test_own_registers_belong_to_no_frame(self) -> None:
        registers = Registers()
        assert apply(registers, say(A, 1), frame=NO_FRAME).frames_dead == []
        assert apply(registers, say(A, 2, version=2), frame=NO_FRAME).frames_dead == []
        assert registers.live_count(NO_FRAME) == 0

    @settings(max_examples=40)
    @given(honest(least=1))
    def test_live_counts_add_up_to_the_registers(self, statements: list[Statement]) -> None:
        registers = Registers()
        changes = state(registers, statements)
        live = [registers.live_count(frame) for frame in range(1, len(changes) + 1)]
        assert sum(live) == len(registers)
        dead = {frame for change in changes for frame in change.frames_dead}
        assert dead == {frame for frame, count in enumerate(live, 1) if not count}


class TestDrop:
    def test_a_forgotten_row_leaves_nothing_and_names_the_dead_frames(self) -> None:
        registers = Registers()
        apply(registers, say(A, 1), say(A, 1, context=1), frame=1)
        apply(registers, say(B, 1), say(B, 1, row=1), frame=2)
        assert registers.drop(0) == [1]
        assert (len(registers), len(registers.select(np.array([0]))), registers.count(HERE)) == (1, 0, 0)
        assert registers.drop(0) == []

    def test_what_comes_after_forgetting_starts_anew(self) -> None:
        registers = Registers()
        apply(registers, say(A, 9, version=9), hour=1.0)
        registers.drop(0)
        change = apply(registers, say(A, 1, version=2), frame=2, hour=6.0)
        assert (change.rows.tolist(), change.stamps.tolist()) == ([0], [6.0])


class TestCheckpoint:
    @settings(max_examples=40)
    @given(honest(), st.booleans())
    def test_an_export_is_the_same_again(self, statements: list[Statement], forget: bool) -> None:
        registers = stated(statements)
        if forget:
            registers.drop(1)
        again = Registers.load(registers.export())
        assert _exported(again) == _exported(registers)
        assert contents(again) == contents(registers)
        state(registers, statements, frame=100, hour=9.0)
        state(again, statements, frame=100, hour=9.0)
        assert _exported(again) == _exported(registers)
        assert [again.count(source) for source in again.sources] == [
            registers.count(source) for source in registers.sources
        ]

    @pytest.mark.parametrize("column", ["source", "row", "alpha"])
    def test_a_damaged_export_is_refused(self, column: str) -> None:
        exported = stated([say(A, 1), say(A, 1, row=1)]).export()
        damage = {"source": np.array([0, 7]), "row": np.array([1, 0]), "alpha": np.array([1])}
        with pytest.raises(ValueError, match="exported"):
            Registers.load({**exported, column: damage[column]})


class TestBadBatches:
    @pytest.mark.parametrize(
        ("field", "bad"),
        [
            ("alpha", say(A, 1)._replace(alpha=-1)),
            ("beta", say(A, 1)._replace(beta=MAX_FX + 1)),
            ("mass", say(A, MAX_MASS, 1)),
            ("version", say(A, 1, version=-1)),
            ("row", say(A, 1, row=-1)),
            ("context", say(A, 1, context=-1)),
            ("stability_h", say(A, 1, stability_h=float("nan"))),
            ("stability_h", say(A, 1, stability_h=-1.0)),
        ],
    )
    def test_a_value_out_of_bounds_is_refused_by_name_and_changes_nothing(
        self, field: str, bad: Statement
    ) -> None:
        registers = stated([say(A, 1)])
        there = contents(registers)
        with pytest.raises(InvalidInput, match=field):
            apply(registers, say(A, 2, row=2), bad, frame=2)
        assert contents(registers) == there

    def test_one_register_twice_in_a_batch_is_refused(self) -> None:
        with pytest.raises(ValueError, match="twice"):
            apply(Registers(), say(A, 1), say(A, 2, version=2))

    def test_columns_of_different_length_are_refused(self) -> None:
        whole = batch_of([say(A, 1), say(A, 1, row=1)])
        short = Batch(
            whole.rows, whole.contexts, whole.alpha[:1], whole.beta, whole.stability_h, whole.version
        )
        with pytest.raises(ValueError, match="length"):
            Registers().apply(HERE, short, 1, 1.0)


def _exported(registers: Registers) -> dict[str, object]:
    return {
        name: value if isinstance(value, bytes) else value.tolist()
        for name, value in registers.export().items()
    }


def test_a_source_that_nobody_heard_of_has_no_registers() -> None:
    registers = stated([])
    assert registers.live(Source(b"o" * 32, b"i" * 16, b"s" * 32)).tolist() == []
