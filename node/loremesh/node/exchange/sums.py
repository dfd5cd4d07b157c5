"""Bounds of an aggregate that comes from a file: those that hold for one made here."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from loremesh.node import evidence
from loremesh.node.aggregates import check
from loremesh.node.events import INCARNATION_BYTES, Aggregate
from loremesh.node.exchange.lines import MAX_HOUR, MAX_WALL_MS
from loremesh.node.firsthand import MAX_CONTEXTS_PER_BLOCK
from loremesh.node.ownstate import FoldError
from loremesh.node.rulebook import remembered_hours
from loremesh.node.rules import MAX_STABILITY_H
from loremesh.sync.content import context_label
from loremesh.sync.errors import InvalidInput
from loremesh.sync.fixed import MAX_FX

MAX_VERSION: Final = 2**53
MAX_COUNT: Final = 2**32 - 1
"""Outcomes that the counters hold."""
MAX_REMEMBERED: Final = 64
"""Numbers that a forgetting model remembers of a block; the most that one has is eleven."""


def check_aggregate(event: Aggregate) -> None:
    """Raises InvalidInput naming what cannot be."""
    for name, value in _numbers(event):
        if not math.isfinite(value):
            raise InvalidInput(name, f"is {value!r}; it must be a finite number")
    for name, value, low, high in _bounds(event):
        if not low <= value <= high:
            raise InvalidInput(name, f"is {value!r}; it must be from {low} to {high}")
    if len(event.labels) > MAX_CONTEXTS_PER_BLOCK or len(event.history) > MAX_REMEMBERED:
        raise InvalidInput("labels", f"are more than {MAX_CONTEXTS_PER_BLOCK}, or too much is remembered")
    for label in event.labels:
        if context_label(label) != label:
            raise InvalidInput("labels", f"{label!a} is not in normal form")
    if any(len(one) != INCARNATION_BYTES for one in event.incarnations):
        raise InvalidInput("incarnations", f"must be ids of {INCARNATION_BYTES} bytes")
    for name in ("forgetting", "utility"):
        said = getattr(event, name)
        if len(said) > evidence.MAX_NAME_CHARACTERS or not said.isprintable():
            raise InvalidInput(name, f"is {said[:80]!a}; it must be the name of a model")
    try:
        check(event)
    except FoldError as error:
        raise InvalidInput("aggregate", str(error)) from error


def _numbers(event: Aggregate) -> Iterator[tuple[str, float]]:
    """Every number with the name of its field."""
    for name in event.__struct_fields__:
        value = getattr(event, name)
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, int | float):
                yield name, one


def _bounds(event: Aggregate) -> Iterator[tuple[str, float, float, float]]:
    """(field, value, least, most) of what has bounds."""
    for name in ("outcomes", "recalls", "positives", "negatives"):
        yield name, getattr(event, name), 0, MAX_COUNT
    yield "first_ms", event.first_ms, -MAX_WALL_MS, MAX_WALL_MS
    for name in ("stability_h", "published_stability_h"):
        yield name, getattr(event, name), 0.0, MAX_STABILITY_H
    for stability_h in event.register_stability_h:
        yield "register_stability_h", stability_h, 0.0, MAX_STABILITY_H
    for name in ("difficulty", "published_difficulty"):
        yield name, getattr(event, name), 1.0, 10.0
    for hour in (event.first_hour, event.t_last_h, *event.stamps_h):
        yield "first_hour, t_last_h and stamps_h", hour, -MAX_HOUR, MAX_HOUR
    # What a model remembers goes into its formulas: out of any number could come one that is not finite.
    for value, is_hour in zip(event.history, remembered_hours(event.forgetting), strict=False):
        yield "history", value, -MAX_HOUR if is_hour else 0, MAX_HOUR if is_hour else MAX_COUNT
    for version in event.versions:
        yield "versions", version, 0, MAX_VERSION
    for alpha_fx, beta_fx in zip(event.alpha_fx, event.beta_fx, strict=False):
        yield "alpha and beta", alpha_fx + beta_fx, 0, MAX_FX
