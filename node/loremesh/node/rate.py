"""The built-in rater: how specific and usable a text looks. Offline, deterministic, and no more than a first
guess.

It counts what makes a note worth keeping (figures and identifiers, names, an instruction, a condition or a
cause, enough words to say something) and what makes it worthless (hedging, small talk, a bare question). The
cues are English; of other languages it sees figures, identifiers and length, so its ratings there stay near
the middle.
"""

import re
from collections.abc import Sequence
from typing import Final

from loremesh.node.ports import Ratings

BASE: Final = 0.35
"""A text without any cue: below the middle, as most of what an agent notes is never used again."""

FIGURES: Final = 0.15
NAMES: Final = 0.10
INSTRUCTION: Final = 0.15
REASON: Final = 0.12
LENGTH: Final = 0.13
VAGUE: Final = 0.15
CHATTER: Final = 0.20
"""What each cue adds (the last two: takes away) when it is there in full. All positive ones together reach
1."""

LOWEST: Final = 0.05
HIGHEST: Final = 0.95
"""No wording is certain to be useful or useless."""

FULL_WORDS: Final = 12
LONG_WORDS: Final = 120
"""From 12 words on a text has said something; beyond 120 it is a document, and what matters in it is
diluted."""

RATED_CHARACTERS: Final = 4_000
"""What is read of a text; its beginning says enough, and a text may have 65,536."""

_DUTIES: Final = (
    "must|should|always|never|don['’]t|do not|avoid|prefer|ensure|make sure|remember to|instead of|only"
)
_VERBS: Final = (
    "add|ask|build|call|check|clear|close|commit|configure|copy|create|delete|deploy|disable|enable|export|find"
    "|fix|give|install|keep|log|look|merge|move|open|pass|pin|put|read|rebuild|reload|remove|rename|replace|reset"
    "|restart|retry|roll|run|save|send|set|start|stop|take|test|try|turn|update|upgrade|use|verify|wait|write"
)
_REASONS: Final = (
    "because|since|so that|therefore|when|whenever|if|unless|until|before|after|while|causes?|caused|due to"
    "|leads? to|otherwise|requires?|depends? on|fails?|means"
)
_HEDGES: Final = (
    "maybe|perhaps|somehow|something|stuff|things?|whatever|kind of|sort of|i guess|probably|might|some|etc"
)
_GREETINGS: Final = (
    "hi|hello|hey|thanks?|thank you|ok(?:ay)?|sure|great|cool|yes|no|bye|good (?:morning|night|evening)|lol"
)

# A word, or one character of kana, Han or Thai, which are written without spaces.
_UNSPACED: Final = r"\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff"
_WORD: Final = re.compile(rf"[^\W\d_{_UNSPACED}]+|[{_UNSPACED}]")
# Digits, `code`, --flags, a/path, a.name, call(), camelCase, ABBREVIATIONS, addresses.
_FIGURE: Final = re.compile(r"\d+|`[^`]+`|(?<!\w)--?[a-z][\w-]*|\w[/\\.:_]\w|\w\(\)|[a-z][A-Z]|\b[A-Z]{2,}\b")
# A capitalised word that does not begin a sentence or line.
_NAME: Final = re.compile(r"(?<=[^.!?:\s]\s)[A-Z][^\W\d_]+\b")
_INSTRUCTION: Final = re.compile(rf"\b(?:{_DUTIES})\b|^[^\w\n]*(?:{_VERBS})\b", re.IGNORECASE | re.MULTILINE)
_REASON: Final = re.compile(rf"\b(?:{_REASONS})\b", re.IGNORECASE)
_VAGUE: Final = re.compile(rf"\b(?:{_HEDGES})\b", re.IGNORECASE)
_CHATTER: Final = re.compile(rf"^\W*(?:{_GREETINGS})\b", re.IGNORECASE)


class SpecificityRater:
    """The default of `ports.Rater`."""

    @property
    def name(self) -> str:
        """Stated in the event that a rating leaves behind."""
        return "specificity-1"

    async def rate(self, texts: Sequence[str]) -> Ratings:
        """A rating in [LOWEST, HIGHEST] per text; None for a text without letters or digits."""
        found = [specificity(text) for text in texts]
        return Ratings(found, "a text without letters or digits has no rating" if None in found else "")

    async def close(self) -> None:
        """Nothing to let go of."""


def specificity(text: str) -> float | None:
    """BASE plus each cue's weight times how far it is there; see the module. None without letters or
    digits.
    """
    text = text[:RATED_CHARACTERS]
    words = _WORD.findall(text)
    if not any(character.isalnum() for character in text):
        return None
    count = max(len(words), 1)
    rating = BASE
    rating += FIGURES * min(len(_FIGURE.findall(text)) / 2.0, 1.0)
    rating += NAMES * min(len(_NAME.findall(text)) / 2.0, 1.0)
    rating += INSTRUCTION * min(len(_INSTRUCTION.findall(text)), 1)
    rating += REASON * min(len(_REASON.findall(text)) / 2.0, 1.0)
    rating += LENGTH * min(count / FULL_WORDS, 1.0) * min(LONG_WORDS / count, 1.0)
    rating -= VAGUE * min(len(_VAGUE.findall(text)) / 2.0, 1.0)
    if _CHATTER.search(text) or (text.rstrip().endswith(("?", "？")) and count < FULL_WORDS):
        rating -= CHATTER
    return min(max(rating, LOWEST), HIGHEST)
