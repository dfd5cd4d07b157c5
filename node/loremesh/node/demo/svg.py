"""Pictures by hand: inline SVG that reads at phone width, in light and dark, with and without colour.

A picture is 360 units wide, the width of a phone, and is scaled up where there is room. Colours come from the
page's style by class, so that one picture serves both schemes; what colour tells, a letter or a label tells
too.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

import msgspec

WIDTH: Final = 360.0
LEFT: Final = 34.0
RIGHT: Final = 8.0
TOP: Final = 12.0


class Bar(msgspec.Struct, frozen=True):
    """One bar: the letter under it, its class, its height and the bounds of its whisker, shares in [0, 1]."""

    letter: str
    kind: str
    share: float
    low: float
    high: float


class Band(msgspec.Struct, frozen=True):
    """A stretch of the horizontal axis that has a name."""

    label: str
    first: float
    last: float


def figure(height: float, title: str, description: str, *parts: str) -> str:
    """The picture: `title` and `description` are what a screen reader says."""
    return (
        f'<svg viewBox="0 0 {WIDTH:g} {height:g}" role="img">'
        f"<title>{escape(title)}</title><desc>{escape(description)}</desc>{''.join(parts)}</svg>"
    )


def bars(groups: Sequence[tuple[str, Sequence[Bar]]], title: str, description: str) -> str:
    """Bars in groups over an axis of shares, each with its interval; group labels wrap at a line break."""
    height, base = 214.0, 160.0
    parts = [_share_grid(base)]
    span = (WIDTH - LEFT - RIGHT) / max(len(groups), 1)
    for place, (label, group) in enumerate(groups):
        left = LEFT + place * span
        width = min((span - 10) / max(len(group), 1), 24.0)
        start = left + (span - width * len(group)) / 2
        for at, bar in enumerate(group):
            x = start + at * width
            y, middle = _share_y(bar.share, base), x + width / 2
            low, high = _share_y(bar.low, base), _share_y(bar.high, base)
            parts.append(_box(x + 1.5, y, width - 3, base - y, f"fill {bar.kind}"))
            whisker = f"M{middle - 3:.1f} {high:.1f}h6m-3 0V{low:.1f}m-3 0h6"
            parts += [f'<path d="{whisker}" class="{kind}"/>' for kind in ("halo", "whisker")]
            parts.append(_text(middle, base + 11, bar.letter, "small middle"))
        for at, line in enumerate(label.split("\n")):
            parts.append(_text(left + span / 2, base + 27 + 12 * at, line, "label middle"))
    return figure(height, title, description, *parts)


def curve(points: Sequence[tuple[float, float]], bands: Sequence[Band], title: str, description: str) -> str:
    """A line of shares over tasks done, on named bands, with a dot at every point."""
    height, base = 206.0, 160.0
    last = max((band.last for band in bands), default=1.0)
    parts = []
    for place, band in enumerate(bands):
        left, right = _along(band.first, last), _along(band.last, last)
        if place % 2:
            parts.append(_box(left, TOP, right - left, base - TOP, "band"))
        for at, line in enumerate(band.label.split("\n")):
            parts.append(_text((left + right) / 2, base + 27 + 11 * at, line, "small middle"))
    parts.append(_share_grid(base))
    for tick in _ticks(last):
        parts.append(_text(_along(tick, last), base + 12, f"{tick:g}", "small middle"))
    placed = [(_along(x, last), _share_y(y, base)) for x, y in points]
    path = " ".join(f"{'L' if at else 'M'}{x:.1f} {y:.1f}" for at, (x, y) in enumerate(placed))
    parts.append(f'<path d="{path}" class="line"/>')
    parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" class="fill all"/>' for x, y in placed]
    return figure(height, title, description, *parts)


def lengths(rows: Sequence[tuple[str, str, float]], title: str, description: str) -> str:
    """Horizontal bars: (label, class, value), the label above each bar and the value behind it."""
    most = max((value for *_, value in rows), default=1.0) or 1.0
    step, room = 34.0, WIDTH - 60
    parts = []
    for place, (label, kind, value) in enumerate(rows):
        y = 14 + place * step
        width = max(value / most * room, 1.5 if value else 0.0)
        parts.append(_text(2, y, label, "label"))
        parts.append(_box(2, y + 5, width, 13, f"fill {kind}"))
        parts.append(_text(width + 8, y + 16, f"{value:,g}", "label"))
    return figure(14 + step * len(rows), title, description, *parts)


def scatter(
    points: Sequence[tuple[float, float]],
    limit: Sequence[tuple[float, float]],
    axes: tuple[str, str],
    title: str,
    description: str,
) -> str:
    """Points (x ≥ 0, share) under a curve that none may pass; `axes` are the names of x and of the curve."""
    height, base = 206.0, 160.0
    last = max((x for x, _ in (*points, *limit)), default=1.0) or 1.0
    parts = [_share_grid(base)]
    for tick in _ticks(last):
        parts.append(_text(_along(tick, last), base + 12, f"{tick:g}", "small middle"))
    placed = [(_along(x, last), _share_y(y, base)) for x, y in limit]
    path = " ".join(f"{'L' if at else 'M'}{x:.1f} {y:.1f}" for at, (x, y) in enumerate(placed))
    parts.append(f'<path d="{path}" class="limit"/>')
    for x, y in points:
        parts.append(
            f'<circle cx="{_along(x, last):.1f}" cy="{_share_y(y, base):.1f}" r="2.6" class="dot hostile"/>'
        )
    parts.append(_text(WIDTH - RIGHT, base + 30, axes[0], "label end"))
    if placed:
        x, y = placed[len(placed) // 4]
        parts.append(_text(x + 8, y - 8, axes[1], "label"))
    return figure(height, title, description, *parts)


def _share_y(share: float, base: float) -> float:
    return base - min(max(share, 0.0), 1.0) * (base - TOP)


def _along(value: float, last: float) -> float:
    return LEFT + value / last * (WIDTH - LEFT - RIGHT)


def _share_grid(base: float) -> str:
    """Lines and labels at every quarter."""
    parts = []
    for quarter in range(5):
        y = _share_y(quarter / 4, base)
        parts.append(_line(LEFT, y, WIDTH - RIGHT, y, "axis" if quarter == 0 else "grid"))
        parts.append(_text(LEFT - 4, y + 3.5, f"{quarter * 25} %", "small end"))
    return "".join(parts)


def _ticks(last: float) -> list[float]:
    """Round numbers from 0 to `last`, at most seven."""
    step = 1.0
    for factor in (2, 2.5, 2) * 12:
        if last / step <= 6:
            break
        step *= factor
    return [step * place for place in range(int(last / step) + 1)]


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{escape(text)}</text>'


def _box(x: float, y: float, width: float, height: float, kind: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{max(height, 0.0):.1f}" class="{kind}"/>'
    )


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'
