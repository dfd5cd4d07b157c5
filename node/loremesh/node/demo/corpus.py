"""The texts that the agents hold: documentation out of the Python that runs the demonstration.

Nothing is bundled. One block is one documented function, or the beginning of one chapter of the language's
reference where this Python carries it.
"""

from __future__ import annotations

import importlib
import inspect
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from loremesh.node.demo.kin import Member
from loremesh.node.errors import Unavailable

MODULES: Final = (
    "base64", "binascii", "bisect", "calendar", "colorsys", "copy", "difflib", "fnmatch", "functools",
    "hashlib", "heapq", "hmac", "inspect", "ipaddress", "itertools", "keyword", "linecache", "locale",
    "mimetypes", "operator", "pprint", "random", "reprlib", "secrets", "shutil", "stat", "statistics",
    "string", "struct", "tempfile", "textwrap", "token", "tokenize", "traceback", "types", "unicodedata",
    "uuid", "warnings", "weakref", "zipfile",
)  # fmt: skip
"""Where texts that answer none of the questions come from: the rest of what an agent has read."""

MAX_WORDS: Final = 32
"""Of a block: a note, not a manual page, and quick to embed."""
MIN_WORDS: Final = 4


class Fact(msgspec.Struct, frozen=True):
    """One block: the name of what it describes, and its text, which begins with that name."""

    name: str
    text: str


def described(name: str, documentation: str) -> Fact:
    """The block for something documented: name, a colon, and the documentation's first words."""
    return Fact(name, f"{name}: {' '.join(documentation.split()[:MAX_WORDS])}")


def name_in(text: str) -> str:
    """What a block is about: the name before the first colon followed by a space."""
    return text.partition(": ")[0]


def read_facts(members: Iterable[Member]) -> dict[str, Fact]:
    """What this Python says of these functions, by name."""
    return {member.name: described(member.name, inspect.getdoc(member.call) or "") for member in members}


def read_others(facts: Mapping[str, Fact], count: int, rng: random.Random) -> list[Fact]:
    """As many texts on other things, drawn at random.

    Raises Unavailable when this Python has no documentation.
    """
    found = [fact for fact in (*_functions(), *_topics()) if fact.name not in facts]
    if not facts or len(found) < count:
        raise Unavailable(
            "this Python has no documentation inside (it runs with -OO, or its docstrings were stripped)",
            "run the demonstration with an ordinary Python 3.11 or later, without -OO",
        )
    distinct = list({fact.text: fact for fact in found}.values())
    return rng.sample(distinct, min(count, len(distinct)))


def deal(facts: Sequence[Fact], hands: int, rng: random.Random) -> list[tuple[Fact, ...]]:
    """The facts in `hands` random parts, equal to within one, each fact in one of them."""
    shuffled = rng.sample(list(facts), len(facts))
    return [tuple(shuffled[hand::hands]) for hand in range(hands)]


def _functions() -> list[Fact]:
    found = []
    for module in MODULES:
        try:
            held = vars(importlib.import_module(module))
        except ImportError:
            continue
        for name, thing in sorted(held.items()):
            if name.startswith("_") or not (inspect.isroutine(thing) or inspect.isclass(thing)):
                continue
            if getattr(thing, "__module__", None) in (module, f"_{module}"):
                documentation = inspect.getdoc(thing) or ""
                if len(documentation.split()) >= MIN_WORDS:
                    found.append(described(f"{module}.{name}", documentation))
    return found


def _topics() -> list[Fact]:
    """The chapters of the language reference that `help()` shows; a Python may come without them."""
    try:
        from pydoc_data.topics import topics
    except ImportError:
        return []
    chapters: Mapping[str, str] = topics
    return [
        described(f"topic {name}", text.replace("*", " "))
        for name, text in sorted(chapters.items())
        if len(text.split()) >= MIN_WORDS
    ]
