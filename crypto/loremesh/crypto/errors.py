"""What can go wrong in `loremesh.crypto`: one root, one class per remedy.

No message, argument or chained exception holds a key, a passphrase or a plaintext. Misuse by the caller (a
key of the wrong length, a number out of range) is a `ValueError`, not one of these.
"""


class CryptoError(Exception):
    """Root of all errors that input, keys or files can cause."""


class BadSignature(CryptoError):
    """A signature does not verify under the public key, domain and message given."""


class SealBroken(CryptoError):
    """A ciphertext does not open: wrong key, wrong associated data or altered bytes; which cannot be told."""


class UnknownEpoch(CryptoError):
    """A frame names a space and epoch whose key is not held here."""


class MalformedFrame(CryptoError):
    """Bytes that are not a sealed frame of a known format, or whose parts contradict one another."""


class MistypedPeerId(CryptoError):
    """A text that is not a peer id; the message says where it goes wrong."""


class KeyUnavailable(CryptoError):
    """The master key cannot be had. The message names the source and the remedy."""


class WrongKey(KeyUnavailable):
    """A master key was found, but it is not the one this home was sealed with."""


class InsecureKeyFile(KeyUnavailable):
    """A key file that others can read or write is refused."""


class VaultDamaged(KeyUnavailable):
    """`vault.json` is not what was written: cut, corrupted or edited. The key may well be right."""


class VaultExists(CryptoError):
    """A home that already has a vault is not given a second one: what the first one seals would be lost."""
