"""Events in words and back: exact for every kind there is, and closed to what is none."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loremesh.node.events import (
    Compacted,
    Event,
    Fitted,
    Forgot,
    FrameName,
    HomeEvent,
    Import,
    Imported,
    ImportedTrust,
    ImportSource,
    Incarnation,
    Learn,
    OwnEvent,
    Recalibrated,
    RecallHit,
    Summarise,
)
from loremesh.node.exchange import telling
from loremesh.node.exchange.telling import Told, hear, tell
from loremesh.sync.content import normalise
from loremesh.sync.errors import InvalidInput
from loremesh.sync.fixed import MAX_FX, ONE

NOT_TOLD: set[type[Event]] = {
    Imported,
    ImportedTrust,
    ImportSource,
    Import,
    Incarnation,
    Forgot,
    Fitted,
    Recalibrated,
    Summarise,
    Compacted,
}
"""Wrappers, whose inside is told; what stands in the lines themselves; what is this home's alone; and
summaries, which a home makes again from the blocks."""


def test_every_kind_of_event_is_told_or_left_out_on_purpose() -> None:
    """A new kind of event: say in `telling` how it stands in a file, or here why it does not."""
    kinds = {*get_args(OwnEvent), *get_args(HomeEvent)}
    assert kinds - NOT_TOLD == set(telling.KINDS.values())


ids = st.binary(min_size=32, max_size=32)
fx = st.integers(0, MAX_FX // 2)
unit_fx = st.integers(0, ONE)
unit = st.floats(0, 1)
hours = st.floats(-1e6, 1e6)
walls = st.integers(-(10**12), 10**13)
lines = st.text(st.characters(codec="utf-8", categories=["L", "N", "P"]), max_size=20)
labels = lines.map(normalise)
tags = st.lists(labels.filter(bool), max_size=5, unique=True).map(tuple)
episodes = st.binary(min_size=16, max_size=16)

FIELDS: dict[str, dict[str, st.SearchStrategy[object]]] = {
    "learn": {"prior_fx": fx, "tags": tags},
    "share": {"spaces": st.lists(ids, max_size=3).map(tuple), "tags": tags},
    "consolidate": {"rating": unit, "weight_fx": fx, "alpha_fx": fx, "beta_fx": fx, "rater": lines},
    "rescore": {"rating": unit, "weight_fx": fx, "alpha_fx": fx, "beta_fx": fx, "rater": lines},
    "outcome": {
        "signal": unit,
        "weight_fx": fx,
        "retrieval_fx": unit_fx,
        "alpha_fx": fx,
        "beta_fx": fx,
        "version": st.integers(0, 2**53),
        "context": labels,
        "episode": st.one_of(st.just(b""), episodes),
        "implicit": st.booleans(),
    },
    "recall_hit": {
        "episode": episodes,
        "retrieval_fx": unit_fx,
        "score": st.floats(-10, 10),
        "frame": st.sampled_from([FrameName.SELF, FrameName.ATTENTION, FrameName.TASK, FrameName.SIMULATE]),
        "context": labels,
        "frame_name": lines,
    },
    "archive": {"why": lines, "who": lines},
    "revise": {"other": st.integers(0, 9), "alpha_fx": fx, "beta_fx": fx, "why": lines, "who": lines},
    "deprecate": {"why": lines, "who": lines},
    "restore": {"why": lines, "who": lines},
    "connect": {"other": st.integers(0, 9), "weight_fx": unit_fx},
    "linked": {
        "others": st.lists(st.integers(0, 9), unique=True, min_size=3, max_size=3).map(tuple),
        "weights_fx": st.tuples(unit_fx, unit_fx, unit_fx),
        "looked": st.booleans(),
    },
    "aggregate": {
        "outcomes": st.integers(0, 2**32 - 1),
        "recalls": st.integers(0, 2**32 - 1),
        "first_hour": hours,
        "first_ms": walls,
        "positives": st.integers(0, 2**32 - 1),
        "negatives": st.integers(0, 2**32 - 1),
        "stability_h": st.floats(0, 1e5),
        "difficulty": st.floats(1, 10),
        "published_stability_h": st.floats(0, 1e5),
        "published_difficulty": st.floats(1, 10),
        "t_last_h": hours,
        "forgetting": lines,
        "utility": lines,
        "history": st.lists(hours, max_size=11).map(tuple),
        "incarnations": st.tuples(episodes, episodes, episodes),
        "contexts": st.just(("", "deploy", "deploy")),
        "alpha_fx": st.tuples(fx, fx, fx),
        "beta_fx": st.tuples(fx, fx, fx),
        "register_stability_h": st.tuples(*[st.floats(0, 1e5)] * 3),
        "versions": st.tuples(*[st.integers(0, 2**53)] * 3),
        "stamps_h": st.tuples(hours, hours, hours),
        "labels": st.just(("", "deploy")),
        "recent": st.tuples(hours, hours, hours, hours),
        "tally": st.one_of(st.just(()), st.tuples(hours, hours)),
    },
    "counted": {
        "prior_a_fx": fx,
        "prior_b_fx": fx,
        "alpha_fx": fx,
        "beta_fx": fx,
        "stability_h": st.floats(-1, 1e6),
        "rating": st.one_of(st.just(-1.0), unit),
        "exact": st.booleans(),
    },
    "trust": {
        "peer": ids,
        "value_fx": unit_fx,
        "revoked": st.booleans(),
        "why": lines,
        "who": lines,
    },
}


def test_every_kind_is_drawn() -> None:
    """So that the property below is about all of them."""
    assert set(FIELDS) == set(telling.KINDS)


@pytest.mark.parametrize("kind", FIELDS)
def test_what_was_told_is_heard_exactly(kind: str) -> None:
    """To the bit, for any values an event can hold."""

    @given(st.builds(telling.KINDS[kind], hour=hours, wall_ms=walls, **FIELDS[kind]))
    def heard(event: Told) -> None:
        if isinstance(event, RecallHit) and event.frame_name:
            event = msgspec.structs.replace(event, frame=FrameName.OTHER)
        told_as, detail = tell(event, lambda row: bytes([row]) * 32)
        assert told_as == kind
        assert hear(told_as, event.hour, event.wall_ms, detail, lambda id_: id_[0]) == event

    heard()


def test_what_has_a_default_may_be_left_out() -> None:
    """And what has none may not."""
    assert hear("learn", 0.0, 0, {"prior": 0.5}, lambda _: 0) == Learn(0.0, 0, 1 << 15)
    with pytest.raises(InvalidInput, match="prior is missing"):
        hear("learn", 0.0, 0, {"tags": []}, lambda _: 0)


@pytest.mark.parametrize(
    ("frame", "name"), [("other", ""), ("task", "mine"), ("other", "a\nb"), ("other", "x" * 385), ("x", "")]
)
def test_a_hit_names_its_frame_once(frame: str, name: str) -> None:
    """By number for the four, by name for any other, in one line that is not too long."""
    line: dict[str, object] = {"episode": "00" * 16, "retrieval": 1.0, "score": 0.5, "frame": frame}
    with pytest.raises(InvalidInput, match="frame"):
        hear("recall_hit", 0.0, 0, {**line, "frame_name": name}, lambda _: 0)  # type: ignore[dict-item]
