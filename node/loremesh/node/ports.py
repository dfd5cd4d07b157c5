"""What recall and consolidation need from outside: something that embeds texts, something that rates them.

The core names these protocols; the composition root chooses the adapters (`embed/`, `rate.py`).
"""

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from loremesh.node.errors import Unavailable

DEFAULT_KEY_ENV: Final = "OPENAI_API_KEY"
"""The variable that holds the key of a service over HTTP, unless the settings name another."""


class EmbedderError(Unavailable):
    """An embedder cannot do what was asked of it.

    The message says what failed and with which model or endpoint, `hint` what to do about it. Neither ever
    holds a credential or the text that was to be embedded.
    """


class Fingerprint(Struct, frozen=True):
    """Which model a vector came from. Vectors of different fingerprints are never compared.

    `version` names the exact weights, `dimension` is the length of a vector, `prefix` is what the embedder
    puts before a stored text (models such as E5 are trained with one); '' for none.
    """

    name: str
    version: str
    dimension: int
    prefix: str = ""


class Embedder(Protocol):
    """Turns texts into unit vectors."""

    @property
    def fingerprint(self) -> Fingerprint:
        """The model behind `embed`; constant for the life of the embedder."""
        ...

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
        """Unit vectors, float32[len(texts), dimension], in the order of `texts`.

        `query` says that the texts are questions, for models which treat these differently. The vector of a
        text does not depend on the other texts of the call. Raises EmbedderError; then nothing is returned
        of the whole call.
        """
        ...

    async def close(self) -> None:
        """Lets go of connections and memory. Closing twice does nothing."""
        ...


class Ratings(Struct, frozen=True):
    """A rating in [0, 1] per text, in order; None where the rater gave none, so that nothing moves.

    `why`: what went wrong with those, '' where there is nothing to say. `stopped`: it went wrong for all
    texts alike, and the rest were not looked at.
    """

    values: list[float | None]
    why: str = ""
    stopped: bool = False


class Rater(Protocol):
    """Judges how much a text is worth remembering."""

    @property
    def name(self) -> str:
        """Stated in the event that a rating leaves behind."""
        ...

    async def rate(self, texts: Sequence[str]) -> Ratings:
        """A rating per text. Raises nothing for a service that fails: its answer says so."""
        ...

    async def close(self) -> None:
        """Lets go of connections. Closing twice does nothing."""
        ...


class Summariser(Protocol):
    """Says in few words what several texts say."""

    @property
    def name(self) -> str:
        """Stated in the event that a summary leaves behind."""
        ...

    async def summarise(self, texts: Sequence[str], budget: int) -> str | None:
        """What the texts say, in at most `budget` tokens (`extract.tokens`); None where nothing can be said.

        None leaves the texts without a summary, as does an error: nothing is made up. Raises Refused when
        these texts are not taken, Unavailable when nothing is for now.
        """
        ...

    async def close(self) -> None:
        """Lets go of connections and memory. Closing twice does nothing."""
        ...
