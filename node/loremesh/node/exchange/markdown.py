"""A memory as Markdown, for reading. It cannot be imported: numbers are rounded, events left out."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from loremesh.node.exchange import lines
from loremesh.node.results import Explanation

Write = Callable[[bytes], object]

TITLE_CHARACTERS: Final = 60
_MARKS: Final = re.compile(r"([\\`*_{}\[\]<>#|!~])")


def heading(hour: float, blocks: int, made_ms: int) -> bytes:
    """The document's beginning."""
    return (
        f"# Memory\n\n{blocks} block{'' if blocks == 1 else 's'} at active hour {hour:.2f}, "
        f"written {_time(made_ms)}. "
        "Times are UTC, hours are hours of use.\n"
    ).encode()


def section(seen: Explanation, learned_ms: int | None) -> bytes:
    """One block: its text as it is, then what is known about it."""
    title = " ".join(seen.text.split())
    short = title if len(title) <= TITLE_CHARACTERS else title[: TITLE_CHARACTERS - 1] + "…"
    facts = {
        "learned": _time(learned_ms) if learned_ms else "",
        "tags": ", ".join(f"`{tag}`" for tag in map(_coded, seen.tags)),
        "worked": f"{seen.utility:.0%} of {seen.alpha + seen.beta:.2f} (prior included)",
        "in contexts": ", ".join(
            f"{_escaped(label) or 'none given'} {a / (a + b):.0%} of {a + b:.2f}"
            for label, (a, b) in seen.contexts.items()
            if a + b
        ),
        "remembered": f"{seen.retrievability:.0%} now; stability {seen.stability_h:.1f} h",
        "importance": f"{seen.importance:.2f}",
        "shared in": ", ".join(map(_escaped, seen.spaces)),
        "block": f"`{seen.block}`",
    }
    listed = "\n".join(f"- {name}: {value}" for name, value in facts.items() if value)
    return f"\n## {_escaped(short)}\n\n{_fenced(seen.text)}\n\n{listed}\n".encode()


def learned_at(events: list[lines.Event], known: dict[str, int]) -> None:
    """Note when blocks were learned: the wall time of their first event, by block."""
    for event in events:
        if event.kind == "learn":
            known.setdefault(event.block, event.wall_ms)


def _fenced(text: str) -> str:
    """The text between fences that it cannot close: what it says is shown, not carried out."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def _escaped(text: str) -> str:
    return _MARKS.sub(r"\\\1", text)


def _coded(text: str) -> str:
    return text.replace("`", "'")


def _time(wall_ms: int) -> str:
    return datetime.fromtimestamp(wall_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")
