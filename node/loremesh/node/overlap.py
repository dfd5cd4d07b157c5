"""Evidence that came both ways: out of a file, and from the peer itself. It counts once (DESIGN §4).

What a peer states of a register, under today's trust, stands in the place of what a file says of it; and a
peer that is revoked counts for nothing through a file either. Nothing is remembered: it is a function of
what is here and of the lens, so that trust stays one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from loremesh.node.imported import FromFiles
from loremesh.sync.spacestate import SyncState

Ints = NDArray[np.int64]
Part = tuple[int, int, int]
"""Row, source (of `FromFiles`), context."""


def revoked_sources(files: FromFiles, sync: SyncState) -> frozenset[int]:
    """The sources whose origin is a peer that was revoked here."""
    peers = sync.policy.peers
    return frozenset(
        number
        for number, source in enumerate(files.sources)
        if source.origin in peers and peers[source.origin].revoked
    )


def set_aside(files: FromFiles, sync: SyncState, rows: Ints) -> set[Part]:
    """Of what files say of these rows, the parts that do not count now."""
    revoked = revoked_sources(files, sync)
    stating = _stating(files, sync)
    if not revoked and not stating:
        return set()
    here = [row for row in rows.tolist() if row in files.evidence]
    held = sync.registers.held(sync.registers.select(np.array(here, np.int64)))
    stated = {
        (row, stating[number], context)
        for row, number, context in zip(
            held.row.tolist(), held.source.tolist(), held.context.tolist(), strict=True
        )
        if number in stating
    }
    return {
        (row, source, context)
        for row in here
        for source, context, _, _ in files.of(row)
        if source in revoked or (row, source, context) in stated
    }


def _stating(files: FromFiles, sync: SyncState) -> dict[int, int]:
    """Register sources that count now and whose log files are of: their numbers, there → here."""
    of = {(source.origin, source.incarnation): number for number, source in enumerate(files.sources)}
    if not of:
        return {}
    tau_fx = sync.lens().tau_fx
    return {
        number: of[source.origin, source.incarnation]
        for number, source in enumerate(sync.registers.sources)
        if (source.origin, source.incarnation) in of and tau_fx[number] > 0
    }
