"""An embedder without a model: hashed words and letter trigrams, for tests and for machines without the
model.

It knows spelling, not meaning: texts with the same words are near, synonyms are not.
"""

import hashlib
import math
import re
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loremesh.node.ports import Fingerprint

DEFAULT_DIMENSION: Final = 512
MIN_DIMENSION: Final = 8
MAX_DIMENSION: Final = 8_192

TRIGRAM_WEIGHT: Final = 0.4
"""Against 1 for the whole word: a common word has about five trigrams, so that neither drowns the other."""

_WORD: Final = re.compile(r"\w+")


class HashingEmbedder:
    """Deterministic on every machine; needs no file and no network."""

    def __init__(self, dimension: int = DEFAULT_DIMENSION) -> None:
        if not MIN_DIMENSION <= dimension <= MAX_DIMENSION:
            raise ValueError(f"dimension {dimension} is not in {MIN_DIMENSION} … {MAX_DIMENSION}")
        self._fingerprint = Fingerprint("hashing", "1", dimension)

    @property
    def fingerprint(self) -> Fingerprint:
        """See `ports.Embedder`."""
        return self._fingerprint

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
        """See `ports.Embedder`; questions and stored texts are treated alike."""
        vectors = np.zeros((len(texts), self._fingerprint.dimension), dtype=np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            _fill(vector, text)
        return vectors

    async def close(self) -> None:
        """Nothing to let go of."""


def _fill(vector: NDArray[np.float32], text: str) -> None:
    """Signed feature hashing, to unit length; a feature seen n times counts 1 + ln n times.

    Sums are taken in the order of first appearance, so that the result is the same everywhere.
    """
    counts: dict[str, int] = {}
    for word in _WORD.findall(text.casefold()):
        padded = f"<{word}>"
        for feature in (padded, *(padded[at : at + 3] for at in range(len(padded) - 2))):
            counts[feature] = counts.get(feature, 0) + 1
    sums = [0.0] * len(vector)
    for feature, count in counts.items():
        weight = TRIGRAM_WEIGHT if len(feature) == 3 else 1.0
        _add(sums, feature, weight * (1.0 + math.log(count)))
    length = math.hypot(*sums)
    if length < 1e-9:
        # No words, or features that cancel: the text as a whole is then the only feature.
        sums = [0.0] * len(vector)
        _add(sums, f" {text}", 1.0)
        length = 1.0
    vector[:] = np.array(sums, dtype=np.float64) / length


def _add(sums: list[float], feature: str, weight: float) -> None:
    digest = int.from_bytes(hashlib.blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=8).digest())
    sums[(digest >> 1) % len(sums)] += weight if digest & 1 else -weight
