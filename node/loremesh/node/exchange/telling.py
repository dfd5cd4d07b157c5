"""Events in words and back: what stands in a file about one event, checked like any other input.

Field by field: fixed point becomes plain numbers (exact: they are multiples of 2^-16), ids become hex, a row
becomes its block's id. So an event of a new kind needs an entry in `KINDS` and a bound in `_check`, no more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, get_type_hints

import msgspec

from loremesh.node import evidence
from loremesh.node.events import (
    EPISODE_BYTES,
    PEER_BYTES,
    SPACE_BYTES,
    Aggregate,
    Archive,
    Connect,
    Consolidate,
    Counted,
    Deprecate,
    FrameName,
    Learn,
    Linked,
    Outcome,
    RecallHit,
    Rescore,
    Restore,
    Revise,
    Share,
    Trust,
)
from loremesh.node.exchange.lines import Detail
from loremesh.node.exchange.sums import MAX_VERSION, check_aggregate
from loremesh.node.frames import MAX_FRAME_NAME
from loremesh.node.params import MAX_HITS
from loremesh.sync.content import context_label
from loremesh.sync.errors import InvalidInput
from loremesh.sync.fixed import MAX_FX, ONE, to_fx

Told = (
    Learn
    | Share
    | Consolidate
    | Rescore
    | Outcome
    | RecallHit
    | Connect
    | Linked
    | Archive
    | Revise
    | Deprecate
    | Restore
    | Aggregate
    | Counted
    | Trust
)

KINDS: Final[dict[str, type[Told]]] = {
    "learn": Learn,
    "share": Share,
    "consolidate": Consolidate,
    "rescore": Rescore,
    "outcome": Outcome,
    "recall_hit": RecallHit,
    "connect": Connect,
    "linked": Linked,
    "archive": Archive,
    "revise": Revise,
    "deprecate": Deprecate,
    "restore": Restore,
    "aggregate": Aggregate,
    "counted": Counted,
    "trust": Trust,
}
NAMES: Final = {kind: name for name, kind in KINDS.items()}
TIME: Final = ("hour", "wall_ms")
HERE: Final = frozenset(("decided_ms", "decided_by", "decided_a_fx", "decided_b_fx"))
"""Fields that matter where the event was made only: first-hand evidence at decisions of that home."""
ROW: Final = "other"
"""The one field that holds a row."""
ROWS: Final = "others"
"""The one field that holds rows."""
MAX_SPACES: Final = MAX_HITS
MISSING: Final = object()
Read = Callable[[str, object], object]
"""(name, value in the line) → value of the field; raises InvalidInput."""


class _Field(msgspec.Struct, frozen=True):
    """One field of an event: its name there and in a line, how it is read, and what it is when left out."""

    name: str
    said: str
    read: Read | None
    default: object


def tell(event: Told, id_of: Callable[[int], bytes]) -> tuple[str, Detail]:
    """The event's kind and what it holds besides its time."""
    detail: Detail = {}
    for name in type(event).__struct_fields__:
        if name in TIME or name in HERE:
            continue
        value = getattr(event, name)
        if name.endswith("_fx"):
            said = name.removesuffix("_fx")
            detail[said] = [one / ONE for one in value] if isinstance(value, tuple) else value / ONE
        elif name == ROWS:
            detail[name] = [id_of(row).hex() for row in value]
        elif name == ROW:
            detail[name] = id_of(value).hex()
        else:
            detail[name] = _plain(value)
    return NAMES[type(event)], detail


def hear(kind: str, hour: float, wall_ms: int, detail: Detail, row_of: Callable[[bytes], int]) -> Told:
    """The event that `tell` told. Raises InvalidInput naming what is wrong with it."""
    fields = _FIELDS.get(kind)
    if fields is None:
        raise InvalidInput("kind", f"{kind[:80]!r} is none this release knows: {', '.join(KINDS)}")
    values: dict[str, object] = {"hour": hour, "wall_ms": wall_ms}
    used = 0
    for field in fields:
        value = detail.get(field.said, MISSING)
        if value is MISSING:
            if field.default is msgspec.NODEFAULT:
                raise InvalidInput(field.said, f"is missing from {kind!r}")
            values[field.name] = field.default
            continue
        used += 1
        if field.read is not None:
            values[field.name] = field.read(field.said, value)
        elif field.name == ROWS:
            values[field.name] = tuple(row_of(id_) for id_ in _distinct(ROWS, value))
        else:
            values[field.name] = row_of(_bytes(ROW, value, 32))
    if used < len(detail):
        unknown = detail.keys() - {field.said for field in fields}
        raise InvalidInput(min(unknown)[:80], f"is not known in {kind!r}")
    event = KINDS[kind](**values)  # type: ignore[arg-type]  # each was read as its field's type asks
    _check(event)
    return event


def block_named(block: str) -> bytes:
    """The id in an event's line. Raises InvalidInput for anything else than 64 lower-case hex digits."""
    return _bytes("block", block, 32)


def _check(event: Told) -> None:
    """The bounds that hold for an event made here hold for one that comes from a file."""
    match event:
        case Learn():
            _tags(event.tags)
        case Share():
            _tags(event.tags)
            if len(event.spaces) > MAX_SPACES or any(len(space) != SPACE_BYTES for space in event.spaces):
                raise InvalidInput("spaces", f"must be at most {MAX_SPACES} ids of {SPACE_BYTES} bytes")
        case Consolidate() | Rescore():
            _unit("rating", event.rating)
            _mass(event.alpha_fx + event.beta_fx)
            check_line("rater", event.rater, evidence.MAX_NAME_CHARACTERS)
        case Outcome():
            _unit("signal", event.signal)
            _unit("retrieval", event.retrieval_fx / ONE)
            _mass(event.alpha_fx + event.beta_fx)
            _label(event.context)
            _episode(event.episode, empty=True)
            if not 0 <= event.version <= MAX_VERSION:
                raise InvalidInput("version", f"is {event.version}; it must be from 0 to 2^53")
        case RecallHit():
            _unit("retrieval", event.retrieval_fx / ONE)
            _label(event.context)
            _episode(event.episode, empty=False)
            _finite("score", event.score)
            _frame_name(event)
        case Connect() | Linked():
            _links(event)
        case Archive() | Deprecate() | Restore() | Revise():
            if isinstance(event, Revise):
                _mass(event.alpha_fx + event.beta_fx)
            check_line("why", event.why, evidence.MAX_WHY_CHARACTERS)
            check_line("who", event.who, evidence.MAX_NAME_CHARACTERS)
        case Counted() | Aggregate():
            _stated(event)
        case Trust():
            _unit("value", event.value_fx / ONE)
            check_line("why", event.why, evidence.MAX_WHY_CHARACTERS)
            check_line("who", event.who, evidence.MAX_NAME_CHARACTERS)
            if len(event.peer) != PEER_BYTES:
                raise InvalidInput("peer", f"has {len(event.peer)} bytes; it must have {PEER_BYTES}")


def _stated(event: Counted | Aggregate) -> None:
    if isinstance(event, Aggregate):
        check_aggregate(event)
        return
    _mass(event.alpha_fx + event.beta_fx)
    _mass(event.prior_a_fx + event.prior_b_fx)
    _finite("stability_h", event.stability_h)
    if event.rating >= 0.0:
        _unit("rating", event.rating)
    _finite("rating", event.rating)


def _plain(value: object) -> bool | int | float | str | list[str | int | float] | None:
    match value:
        case FrameName():
            return value.name.lower()
        case bool() | int() | float() | str() | None:
            return value
        case bytes():
            return value.hex()
        case tuple():
            return [one.hex() if isinstance(one, bytes) else one for one in value]
        case _:
            raise TypeError(f"an event holds a {type(value).__name__}, which no line can")


def _reader(name: str, hint: object) -> Read | None:
    """How a field of this name and type is read from a line; None for rows, which the caller finds."""
    if name in (ROW, ROWS):
        return None
    if name.endswith("_fx"):
        return _mass_fx if hint is int else _masses_fx
    for kind, read in (
        (bytes, _some_bytes),
        (float, _number),
        (FrameName, _frame),
        (str, _exactly(str)),
        (int, _exactly(int)),
        (bool, _exactly(bool)),
        (tuple[str, ...], _texts),
        (tuple[bytes, ...], _ids),
        (tuple[int, ...], _counts),
        (tuple[float, ...], _numbers),
    ):
        if hint == kind:
            return read
    raise TypeError(f"{name} is of a type that no line can hold: {hint}")


def _exactly(kind: type) -> Read:
    def read(name: str, value: object) -> object:
        if type(value) is not kind:
            raise InvalidInput(name, f"is {str(value)[:80]!r}, which is not of the type it must have")
        return value

    return read


def _mass_fx(name: str, value: object) -> int:
    return to_fx(_number(name, value), name)


def _distinct(name: str, value: object) -> tuple[bytes, ...]:
    ids = tuple(_bytes(name, one, 32) for one in _texts(name, value))
    if len(set(ids)) < len(ids):
        raise InvalidInput(name, "names a block twice")
    return ids


def _list(name: str, value: object) -> list[object]:
    if not isinstance(value, list):
        raise InvalidInput(name, f"is {str(value)[:80]!r}; it must be a list of numbers")
    return value


def _masses_fx(name: str, value: object) -> tuple[int, ...]:
    return tuple(_mass_fx(name, one) for one in _list(name, value))


def _numbers(name: str, value: object) -> tuple[float, ...]:
    return tuple(_number(name, one) for one in _list(name, value))


def _counts(name: str, value: object) -> tuple[object, ...]:
    whole = _exactly(int)
    return tuple(whole(name, one) for one in _list(name, value))


def _frame(name: str, value: object) -> FrameName:
    try:
        return FrameName[str(value).upper()]
    except KeyError:
        raise InvalidInput(name, f"{str(value)[:80]!r} is no frame") from None


def _texts(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise InvalidInput(name, "must be a list of texts")
    return tuple(value)


def _ids(name: str, value: object) -> tuple[bytes, ...]:
    return tuple(_bytes(name, one, None) for one in _texts(name, value))


def _some_bytes(name: str, value: object) -> bytes:
    return _bytes(name, value, None)


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(name, f"is {str(value)[:80]!r}; it must be a number")
    return float(value)


def _bytes(name: str, value: object, length: int | None) -> bytes:
    try:
        found = bytes.fromhex(value) if isinstance(value, str) and value == value.lower() else None
    except ValueError:
        found = None
    if found is None or length not in (None, len(found)):
        raise InvalidInput(name, f"is {str(value)[:80]!r}; it must be an id in lower-case hex")
    return found


def _unit(name: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise InvalidInput(name, f"is {value!r}; it must be a number from 0 to 1")


def _finite(name: str, value: float) -> None:
    if not math.isfinite(value):
        raise InvalidInput(name, f"is {value!r}; it must be a finite number")


def _mass(mass_fx: int) -> None:
    if mass_fx > MAX_FX:
        raise InvalidInput("alpha and beta", f"come to {mass_fx / ONE}; a register holds {MAX_FX // ONE}")


def _links(event: Connect | Linked) -> None:
    if isinstance(event, Connect):
        _unit("weight", event.weight_fx / ONE)
        return
    if len(event.others) != len(event.weights_fx) or len(event.others) > evidence.MAX_LINKS:
        raise InvalidInput("others", f"must be at most {evidence.MAX_LINKS}, with a weight for each")
    for weight_fx in event.weights_fx:
        _unit("weights", weight_fx / ONE)


def _tags(tags: tuple[str, ...]) -> None:
    if evidence.check_tags(tags) != tags:
        raise InvalidInput("tags", "are not in normal form, or one is there twice")


def _label(context: str) -> None:
    if context_label(context) != context:
        raise InvalidInput("context", f"{context!a} is not in normal form")


def check_line(name: str, text: str, most: int) -> None:
    """One line that can be stored and shown. Raises InvalidInput naming the field."""
    if len(text) > most or not text.isprintable():
        raise InvalidInput(name, f"is {text[:80]!a}; it must be at most {most} printable characters")


def _frame_name(event: RecallHit) -> None:
    check_line("frame_name", event.frame_name, MAX_FRAME_NAME)
    if (event.frame is FrameName.OTHER) != bool(event.frame_name):
        raise InvalidInput("frame_name", "has to be given with frame other, and with no other one")


def _episode(episode: bytes, *, empty: bool) -> None:
    if len(episode) != EPISODE_BYTES and not (empty and not episode):
        raise InvalidInput("episode", f"has {len(episode)} bytes; it must have {EPISODE_BYTES}")


def _fields(kind: type[Told]) -> tuple[_Field, ...]:
    hints = get_type_hints(kind)
    return tuple(
        _Field(name, name.removesuffix("_fx"), _reader(name, hints[name]), field.default)
        for name, field in ((field.name, field) for field in msgspec.structs.fields(kind))
        if name not in TIME and name not in HERE
    )


_FIELDS: Final = {name: _fields(kind) for name, kind in KINDS.items()}
