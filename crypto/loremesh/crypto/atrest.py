"""Sealing at rest (DESIGN §5): a home's keys under one root key, and a key for each block.

    root key (32 random bytes, wrapped in vault.json)
    ├─ home key per label  = HKDF(root, "loremesh/1/home/" ‖ label)     frames, columns, meta, checkpoint …
    ├─ index key           = HKDF(root, "loremesh/1/index")             keyed block ids
    └─ wrapping key        = HKDF(root, "loremesh/1/wrap")              wraps the random key of each block
         └─ block key      → content, embedding, events of that block

Destroying a block's wrapped key, wherever it lies, makes all that was sealed under it unreadable for good.
"""

import hmac
import os
import re
from functools import lru_cache
from struct import pack
from typing import NoReturn

from loremesh.crypto.derivation import KEY_BYTES, derive, require_key
from loremesh.crypto.errors import SealBroken
from loremesh.crypto.seal import SEAL_OVERHEAD_BYTES, seal, seal_large, unseal, unseal_large

KEYED_ID_BYTES = 16
WRAPPED_KEY_BYTES = SEAL_OVERHEAD_BYTES + KEY_BYTES
NUMBER_MAX = 2**63 - 1
LABELS_KEPT = 64
"""Home keys kept at hand; a home uses about a dozen labels."""
_LABEL = re.compile(r"[a-z0-9-]{1,32}")


class HomeKeys:
    """The keys of one home, from its 32-byte root key. It does not show itself and is not pickled."""

    __slots__ = ("_by_label", "_index_key", "_root", "_wrapping_key")

    def __init__(self, root: bytes) -> None:
        """Of a 32-byte root key. Raises `ValueError` for another length."""
        require_key(root, "a root key")
        self._root = bytes(root)
        self._by_label: dict[str, bytes] = {}
        self._index_key = derive(self._root, "index")
        self._wrapping_key = derive(self._root, "wrap")

    def seal_home(self, label: str, plaintext: bytes, aad: bytes = b"") -> bytes:
        """Seal something of the home's own under the key of `label` (`[a-z0-9-]{1,32}`); 28 bytes longer.

        What must not be moved elsewhere under the same label (a row's number, a column's name) belongs in
        `aad`. Raises `ValueError` for a bad label.
        """
        return seal(self._home_key(label), plaintext, aad)

    def open_home(self, label: str, sealed: bytes, aad: bytes = b"") -> bytes:
        """What `seal_home` was given. Raises `SealBroken` for another home, label or `aad`, or if altered."""
        return unseal(self._home_key(label), sealed, aad)

    def seal_home_large(self, label: str, data: bytes | memoryview, aad: bytes = b"") -> bytes:
        """`seal_home` for data the size of a checkpoint, in the chunked form of `seal_large`."""
        return seal_large(self._home_key(label), data, aad)

    def open_home_large(self, label: str, sealed: bytes | memoryview, aad: bytes = b"") -> bytes:
        """What `seal_home_large` was given. Raises `SealBroken` as `open_home` does."""
        return unseal_large(self._home_key(label), sealed, aad)

    def keyed_id(self, block_id: bytes) -> bytes:
        """16 bytes that stand for a block id on disk: HMAC-SHA256 under the index key, truncated.

        Without the key nobody can tell whether a text they know is in this home, or in two of them.
        """
        return hmac.digest(self._index_key, block_id, "sha256")[:KEYED_ID_BYTES]

    def new_block_key(self, row: int) -> tuple[bytes, bytes]:
        """(a new random 32-byte key, the same wrapped for storage in 60 bytes) for the block in row `row`.

        The row number is bound in: wrapped keys cannot be exchanged between blocks. Raises `ValueError` for a
        number outside 0 … 2⁶³−1.
        """
        key = os.urandom(KEY_BYTES)
        return key, seal(self._wrapping_key, key, _numbered("block-key", row))

    def unwrap_block_key(self, row: int, wrapped: bytes) -> bytes:
        """The key `new_block_key(row)` wrapped. Raises `SealBroken` for another row, home, or if altered."""
        try:
            return unseal(self._wrapping_key, wrapped, _numbered("block-key", row))
        except SealBroken as broken:
            raise SealBroken(f"the key of block row {row}: {broken}") from None

    def _home_key(self, label: str) -> bytes:
        """Derived at the first use and kept: deriving takes longer than sealing what it seals."""
        key = self._by_label.get(label)
        if key is None:
            if not _LABEL.fullmatch(label):
                raise ValueError(f"a label is 1 to 32 of a-z, 0-9 and -, not {label!r}")
            key = derive(self._root, "home/" + label)
            if len(self._by_label) < LABELS_KEPT:
                self._by_label[label] = key
        return key

    def __repr__(self) -> str:
        return "HomeKeys()"

    def __reduce__(self) -> NoReturn:
        raise TypeError("HomeKeys are not pickled or copied: they are secret")


def seal_block(key: bytes, part: str, row: int, plaintext: bytes, *numbers: int) -> bytes:
    """Seal one part of a block (`content`, `embedding`, `event` …) under the block's key; 28 bytes longer.

    `part` (`[a-z0-9-]{1,32}`), the block's `row` and any further `numbers` (of the log row, say) are bound
    in: opening it as anything else fails. Raises `ValueError` for a bad part, or a number outside 0 … 2⁶³−1.
    """
    return seal(key, plaintext, _numbered(part, row, *numbers))


def open_block(key: bytes, part: str, row: int, sealed: bytes, *numbers: int) -> bytes:
    """What `seal_block` was given. Raises `SealBroken` for another key, part, row, number, or if altered."""
    try:
        return unseal(key, sealed, _numbered(part, row, *numbers))
    except SealBroken as broken:
        raise SealBroken(f"the {part} of block row {row}: {broken}") from None


def _numbered(part: str, *numbers: int) -> bytes:
    """Associated data: `loremesh/1/` ‖ part ‖ 0 ‖ each number (u64)."""
    if not 0 <= min(numbers) <= max(numbers) <= NUMBER_MAX:
        raise ValueError(f"numbers of rows are within 0 … 2⁶³−1, not {numbers}")
    return _part_prefix(part) + pack(f">{len(numbers)}Q", *numbers)


@lru_cache(maxsize=64)
def _part_prefix(part: str) -> bytes:
    if not _LABEL.fullmatch(part):
        raise ValueError(f"a part's name is 1 to 32 of a-z, 0-9 and -, not {part!r}")
    return b"loremesh/1/" + part.encode("ascii") + b"\0"
