"""Space keys: one random key per epoch of a space, known to its members."""

import os
from typing import NoReturn

import msgspec

from loremesh.crypto.derivation import KEY_BYTES, require_key

EPOCH_MAX = 2**32 - 1


class EpochKey(msgspec.Struct, frozen=True):
    """The key that seals a space's frames during one epoch. It does not show itself and is not pickled."""

    epoch: int
    """0 … 2³²−1; a removal of a member begins the next one."""
    key: bytes
    """32 bytes, secret to the space's members."""

    def __post_init__(self) -> None:
        if not 0 <= self.epoch <= EPOCH_MAX:
            raise ValueError(f"an epoch is within 0 … 2³²−1, not {self.epoch}")
        require_key(self.key, "an epoch key")

    def __repr__(self) -> str:
        return f"EpochKey(epoch={self.epoch})"

    def __rich_repr__(self) -> list[tuple[str, int]]:
        return [("epoch", self.epoch)]

    def __reduce__(self) -> NoReturn:
        raise TypeError("an EpochKey is not pickled or copied: it is secret")


def new_epoch_key() -> bytes:
    """32 bytes from the operating system's randomness."""
    return os.urandom(KEY_BYTES)
