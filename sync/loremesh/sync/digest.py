"""An order-free digest of registers: two nodes compare live rows without sending them (DESIGN §4).

A sum of mixed words, so registers may be visited in any order, and it can be kept up by adding and taking
away. It is no authenticator: whoever wants a collision can make one, and only deceives with his own signature
under it, since the head that carries a digest is signed by the origin whose rows it covers.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from loremesh.sync.slots import Floats, Ints

Words = NDArray[np.uint64]

DIGEST_BYTES = 16
LANES = (0x6C6F72656D657368, 0x7265676973746572)
"""Where each of the two 64-bit lanes starts: "loremesh" and "register" in ASCII."""

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)


def label_word(label: str) -> int:
    """The 64-bit word for a context: the first 8 bytes, little-endian, of the SHA-256 of its UTF-8."""
    return int.from_bytes(hashlib.sha256(label.encode()).digest()[:8], "little")


def register_digest(
    ids: Sequence[bytes],
    contexts: Words,
    incarnations: Sequence[bytes],
    version: Ints,
    alpha: Ints,
    beta: Ints,
    stability_h: Floats,
) -> bytes:
    """16 bytes for a set of registers, given column by column; zeros for none.

    `ids` are block ids, `contexts` their `label_word`s, `incarnations` 16 bytes each. Every register becomes
    eleven 64-bit words; each lane absorbs them in turn with SplitMix64's finalizer (Steele, Lea, Flood 2014)
    and the lanes are summed over the registers mod 2⁶⁴.
    """
    count = len(ids)
    if not count:
        return bytes(DIGEST_BYTES)
    blocks = np.frombuffer(b"".join(ids), "<u8").reshape(count, 4)
    instances = np.frombuffer(b"".join(incarnations), "<u8").reshape(count, 2)
    words: list[Words] = [
        *(blocks[:, i].astype(np.uint64) for i in range(4)),
        contexts,
        *(instances[:, i].astype(np.uint64) for i in range(2)),
        version.view(np.uint64),
        alpha.view(np.uint64),
        beta.view(np.uint64),
        stability_h.view(np.uint64),
    ]
    return b"".join(_lane(start, words, count).to_bytes(8, "little") for start in LANES)


def _lane(start: int, words: Sequence[Words], count: int) -> int:
    state = np.full(count, start, np.uint64)
    for word in words:
        state ^= word
        state += _GAMMA
        state ^= state >> np.uint64(30)
        state *= _M1
        state ^= state >> np.uint64(27)
        state *= _M2
        state ^= state >> np.uint64(31)
    return int(np.add.reduce(state))  # numpy's unsigned sum wraps at 2⁶⁴, which is what is meant
