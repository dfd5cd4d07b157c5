"""Real text found on any machine that runs this: docstrings and comments of what is installed.

The standard library's and then the installed packages' sources are read, in the order of their paths; every
docstring and every run of comment lines is cut into pieces of 25 words, a last piece kept when it has 8 or
more. A piece that came before is left out. That gives some 119,000 distinct pieces.
"""

import re
import sysconfig
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

WORDS: Final = 25
MIN_WORDS: Final = 8

_PROSE: Final = re.compile(r'"""(.*?)"""|\'\'\'(.*?)\'\'\'|((?:^[ \t]*#[^\n]*\n)+)', re.DOTALL | re.MULTILINE)
_HASHES: Final = re.compile(r"^[ \t]*#+", re.MULTILINE)


def passages(count: int) -> list[str]:
    """That many distinct pieces of text. Raises ValueError when less is installed."""
    found = list(islice(_distinct(), count))
    if len(found) < count:
        raise ValueError(f"only {len(found)} pieces of text are installed, {count} are needed")
    return found


def _distinct() -> Iterator[str]:
    seen: set[str] = set()
    for path in _sources():
        for docstring, other, comment in _PROSE.findall(path.read_text(encoding="utf-8", errors="replace")):
            words = (docstring or other or _HASHES.sub("", comment)).split()
            for start in range(0, len(words) - MIN_WORDS + 1, WORDS):
                piece = " ".join(words[start : start + WORDS])
                if piece.isprintable() and piece not in seen:
                    seen.add(piece)
                    yield piece


def _sources() -> Iterator[Path]:
    library, packages = Path(sysconfig.get_path("stdlib")), Path(sysconfig.get_path("purelib"))
    yield from (path for path in sorted(library.rglob("*.py")) if "site-packages" not in path.parts)
    yield from sorted(packages.rglob("*.py"))
