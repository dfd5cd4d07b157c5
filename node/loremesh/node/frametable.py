"""A table `[frames.NAME]` of `config.toml`, as it is read; `frames` makes a frame of it.

It stands by itself so that the settings can be read without numpy, as most commands do.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

MAX_WEIGHT: Final = 1e6
"""Of a term in a frame, or of a frame in a mixture: both are proportions, and what is larger is a slip."""

Proportion = Annotated[float, msgspec.Meta(ge=0.0, le=MAX_WEIGHT)]


class FrameSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Proportions of the terms, which are divided by their sum.

    `own_only`: blocks known only from peers stay out. `min_max`: each term is scaled to [0, 1] over what can
    be handed out. `hourly_decay`: in place of retrievability, this to the active hours since the block's last
    event. `graph`: weight of what linked blocks lend, added as it is and no proportion.
    """

    sim: Proportion = 0.0
    utility: Proportion = 0.0
    retrievability: Proportion = 0.0
    importance: Proportion = 0.0
    explore: Proportion = 0.0
    graph: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = 0.0
    own_only: bool = False
    min_max: bool = False
    hourly_decay: Annotated[float, msgspec.Meta(gt=0.0, lt=1.0)] | None = None
