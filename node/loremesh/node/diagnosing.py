"""Naming the damage of a home that cannot be opened: everything that can still be read is read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from loremesh.crypto.keystores import KeySource, open_vault
from loremesh.node.results import Replayed
from loremesh.node.settings import read_settings
from loremesh.node.store.store import Store


async def diagnose(
    home: Path, source: KeySource | None = None, environ: Mapping[str, str] = os.environ
) -> Replayed:
    """What is wrong with a home whose opening raised Damaged, row by row. Writes nothing.

    The log is not folded: `own_events` counts rows that are no frames as far as they can be told. Raises what
    opening raises for anything but damage (InUse, KeyUnavailable …).
    """
    settings = read_settings(home)
    store = await Store.open(home, open_vault(home, source, environ=environ), salvage=True)
    try:
        verified = await store.verify()
        frames = sum(feed.count for feed in await store.feeds())
    finally:
        await store.close()
    faults = [f"{fault.where}: {fault.what}" for fault in verified.faults]
    if verified.more_faults:
        faults.append(f"and {verified.more_faults} more like these")
    return Replayed(
        ok=not faults,
        rows=verified.rows,
        own_events=max(verified.rows - frames, 0),
        frames=frames,
        pruned=verified.pruned,
        forgotten=verified.forgotten,
        faults=faults,
        rules=settings.memory.rules,
        moved=[],
        digest="",
    )
