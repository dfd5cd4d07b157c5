"""The functions that the demonstration's agents may call: families of namesakes in the standard library.

Kin are functions of one name and nearly one description that live in different places: `str.upper`,
`bytes.upper`, `bytearray.upper`. Words alone cannot tell them apart; only which one works on the data at hand
does. Everything here is pure: no file, no process, no network, whatever the arguments.
"""

from __future__ import annotations

import copy
import importlib
import inspect
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import msgspec

Call = tuple[Any, ...]
"""The arguments of one call, the object that a method is called on first. Any value of the language."""

TEXTS: Final = (
    "alpha, beta, gamma",
    "  Mixed Case Words\t",
    "pre-body-suf",
    "12345",
    "lower",
    "UPPER",
    "Title Case",
    "a\tb\nc",
    "-42",
    " \t ",
)
TEXT_ARGUMENTS: Final[tuple[Call, ...]] = (
    (), ("a",), (", ",), ("pre-",), ("-suf",), ("a", "o"), (24,), (9, "*"), ("e", 2), (["x", "y"],), ("r",),
)  # fmt: skip
NUMBERS: Final = ((0.25,), (0.5,), (0.75,), (1.5,), (2.0,), (3.25,), (7.0,), (2.0, 2.0), (1.0, 1.0000000001))
SETS: Final[tuple[list[int], ...]] = ([1, 2, 3], [2, 3], [7], [], [1, 2, 3, 4, 5])
LISTS: Final = ([3, 1, 2], [5, 5, 9], [1], [4, 3, 2, 1], [8, 8, 8, 1])
LIST_ARGUMENTS: Final[tuple[Call, ...]] = ((), (1,), (3,), (5,), (0,), (1, 7), (0, 9), ([1, 2],))
PLAIN: Final = ({"a": 1}, [1, 2, "three"], {"deep": [True, False]}, "text", [0.5], {"k": "v", "n": 7})
MARKED: Final = ("a<b & c", "x*y?[z]", 'it\'s a "test"', "1 + 1 = 2", "<i>q</i>", "[ab]*", "a&b")


class Place(msgspec.Struct, frozen=True):
    """One home of a family: where its functions are found, the context its data goes by, and calls to try."""

    owner: str
    """`module` or `module:Class`."""
    context: str
    calls: tuple[Call, ...]
    shown: str
    """What the functions are called by: `str` gives `str.upper`."""


class Kin(msgspec.Struct, frozen=True):
    """Places that share names. `names` limits them; empty takes every public name that two places share."""

    label: str
    places: tuple[Place, ...]
    names: tuple[str, ...] = ()


class Member(msgspec.Struct, frozen=True):
    """One function: as it is called (`bytes.upper`), its family, its context, the callable, calls that
    work."""

    name: str
    family: tuple[str, str]
    """Kin and plain name."""
    context: str
    call: Callable[..., Any]
    calls: tuple[Call, ...]


class Result(msgspec.Struct, frozen=True):
    """What a call gave: the value, and the arguments as it left them."""

    value: Any
    after: Call


def kin() -> tuple[Kin, ...]:
    """Every family there is to be, before looking which of their functions this Python has."""
    return (
        _of_types("text", TEXTS, TEXT_ARGUMENTS, (str, "text", str), (bytes, "bytes", _bytes),
                  (bytearray, "buffer", lambda value: bytearray(_bytes(value)))),
        _of_types("set", SETS, ((), *((other,) for other in SETS)), (set, "set", set),
                  (frozenset, "frozenset", frozenset)),
        _of_types("sequence", LISTS, LIST_ARGUMENTS, (list, "list", list), (deque, "deque", deque),
                  (array, "array", lambda value: array("i", value)),
                  (bytearray, "buffer", bytearray), (tuple, "tuple", tuple)),
        _numbers(),
        _of_types("ratio", (1, 2, 3, 8, 4, 5), ((),), (int, "integer", int),
                  (float, "float", lambda value: value + 0.5),
                  (Fraction, "fraction", lambda value: Fraction(value, 3)),
                  (Decimal, "decimal", lambda value: Decimal(value) / 4)),
        _dates(),
        _functions("codec", "dumps", ("json", "pickle", "marshal", "plistlib"), _each(PLAIN)),
        _encoded("codec", "loads", "dumps", ("json", "pickle", "marshal", "plistlib"), PLAIN),
        _encoded("archive", "decompress", "compress", ("zlib", "gzip", "bz2", "lzma"),
                 tuple(_bytes(text) * 3 for text in TEXTS)),
        _functions("escape", "escape", ("html", "re", "glob", "xml.sax.saxutils"), _each(MARKED)),
        _functions("quote", "quote", ("shlex", "urllib.parse", "email.utils"), _each(MARKED)),
        _paths(),
    )  # fmt: skip


def members() -> list[Member]:
    """Every function of every family that this Python has and that works on some of its calls.

    A family of which fewer than two are here is left out.
    """
    found: list[Member] = []
    for one in kin():
        by_name: dict[str, list[Member]] = {}
        for place in one.places:
            for name, function in _public(place, one.names):
                shown = f"{place.shown}.{name}"
                working = tuple(call for call in place.calls if _works(function, call))
                if working and inspect.getdoc(function):
                    member = Member(shown, (one.label, name), place.context, function, working)
                    by_name.setdefault(name, []).append(member)
        for _, family in sorted(by_name.items()):
            if len(family) > 1:
                found += family
    return found


def outcome(function: Callable[..., Any], call: Call) -> Result | None:
    """What calling gives, None when it raises. The arguments given stay as they are."""
    arguments = copy.deepcopy(call)
    try:
        value = function(*arguments)
    except Exception:
        return None
    return Result(value, arguments)


def same(one: Result | None, other: Result | None) -> bool:
    """Whether two results are the same value of the same type, with the same effect on the arguments."""
    if one is None or other is None:
        return False
    return (
        type(one.value) is type(other.value) and bool(one.value == other.value) and one.after == other.after
    )


def _works(function: Callable[..., Any], call: Call) -> bool:
    """Whether a call gives something that can be compared: the same twice, and not an iterator, say."""
    first = outcome(function, call)
    return first is not None and _plain(first.value) and same(first, outcome(function, call))


def _plain(value: object) -> bool:
    """Whether equality of the value is about what it holds, not about which object it is."""
    return value is None or "__eq__" in vars(type(value)) or bool(value == copy.copy(value))


def _public(place: Place, names: Sequence[str]) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Names and functions of a place; none when this Python does not have it."""
    module, _, attribute = place.owner.partition(":")
    try:
        owner = importlib.import_module(module)
    except ImportError:
        return
    held: Mapping[str, object] = vars(getattr(owner, attribute)) if attribute else vars(owner)
    for name in sorted(names or held):
        if name in held and not name.startswith("_"):
            function = getattr(getattr(owner, attribute) if attribute else owner, name)
            if callable(function) and not inspect.isclass(function):
                yield name, function


def _of_types(
    label: str,
    receivers: Sequence[Any],
    arguments: Sequence[Call],
    *types: tuple[type, str, Callable[[Any], Any]],
) -> Kin:
    """Kin that are methods: each type's receivers and arguments are made from the same plain values."""
    places = []
    for kind, context, convert in types:
        calls = tuple(
            (convert(receiver), *(_converted(value, convert, type(receiver)) for value in more))
            for receiver in receivers
            for more in arguments
        )
        places.append(Place(f"{kind.__module__}:{kind.__name__}", context, calls, _shown(kind)))
    return Kin(label, tuple(places))


def _converted(value: Any, convert: Callable[[Any], Any], kind: type) -> Any:
    """An argument in the place's own kind of data, where it is of the receiver's plain kind."""
    if isinstance(value, kind) and not isinstance(value, int):
        return convert(value)
    if isinstance(value, list) and kind is str:
        return [convert(one) for one in value]
    return value


def _numbers() -> Kin:
    return Kin(
        "number",
        (
            Place("math", "real", NUMBERS, "math"),
            Place("cmath", "complex", _all_as(lambda x: complex(x, 0.5)), "cmath"),
            Place("decimal:Decimal", "decimal", _all_as(Decimal), "decimal.Decimal"),
        ),
    )


def _all_as(convert: Callable[[float], Any]) -> tuple[Call, ...]:
    return tuple(tuple(convert(x) for x in call) for call in NUMBERS)


def _each(values: Sequence[Any]) -> tuple[Call, ...]:
    return tuple((value,) for value in values)


def _dates() -> Kin:
    dates = (date(2024, 2, 29), date(1999, 12, 31), date(2030, 7, 4), date(2001, 1, 1))
    moments = tuple(datetime(d.year, d.month, d.day, 13, 5 + at, 9) for at, d in enumerate(dates))  # noqa: DTZ001
    times = (time(13, 5, 9), time(0, 0), time(23, 59, 59), time(6, 30))
    more: tuple[Call, ...] = ((), ("%H:%M %Y",), ("%d/%m",), (2020, 1, 1), (3, 4))
    return _with_receivers(
        "date",
        (
            ("datetime:date", "date", dates),
            ("datetime:datetime", "moment", moments),
            ("datetime:time", "clock", times),
        ),
        more,
        ("ctime", "isoformat", "replace", "strftime", "timetuple", "tzname", "utcoffset"),
    )


def _with_receivers(
    label: str,
    owners: Sequence[tuple[str, str, Sequence[Any]]],
    arguments: Sequence[Call],
    names: tuple[str, ...],
) -> Kin:
    places = []
    for owner, context, receivers in owners:
        calls = tuple((one, *more) for one in receivers for more in arguments)
        places.append(Place(owner, context, calls, owner.replace(":", ".")))
    return Kin(label, tuple(places), names)


def _functions(label: str, name: str, modules: Sequence[str], calls: tuple[Call, ...]) -> Kin:
    places = tuple(Place(module, _last(module), calls, module) for module in modules)
    return Kin(label, places, (name,))


def _encoded(label: str, name: str, inverse: str, modules: Sequence[str], values: Sequence[Any]) -> Kin:
    """Kin that undo what another function of their module does to some values."""
    places = []
    for module in modules:
        try:
            encode = getattr(importlib.import_module(module), inverse)
        except ImportError:
            continue
        made = (outcome(encode, (value,)) for value in values)
        calls = tuple((one.value,) for one in made if one is not None)
        places.append(Place(module, _last(module), calls, module))
    return Kin(label, tuple(places), (name,))


def _paths() -> Kin:
    posix = ("/usr/lib/a.tar.gz", "x/../y//z", "name", "/", "a\\b/c", "C:/Dir/File.TXT")
    windows = ("C:\\Dir\\File.TXT", "x\\..\\y\\\\z", "name", "\\\\host\\share\\f", "C:/mixed\\up", "c:rel")
    names = (
        "basename",
        "dirname",
        "isabs",
        "join",
        "normcase",
        "normpath",
        "split",
        "splitdrive",
        "splitext",
    )
    more: tuple[Call, ...] = ((), ("more",))
    return _with_receivers(
        "path", (("posixpath", "posix", posix), ("ntpath", "windows", windows)), more, names
    )


def _bytes(value: Any) -> bytes:
    return value.encode("ascii") if isinstance(value, str) else bytes(value)


def _shown(kind: type) -> str:
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _last(module: str) -> str:
    return {"plistlib": "plist", "xml.sax.saxutils": "xml", "urllib.parse": "url", "email.utils": "mail"}.get(
        module, module
    )
