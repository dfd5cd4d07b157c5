"""Making a home, and opening one: vault, database, identity, memory, buses, in that order."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from loremesh.crypto.atrest import HomeKeys
from loremesh.crypto.identity import Identity
from loremesh.crypto.keystores import KeySource, Passphrase, Secret, create_vault, open_vault
from loremesh.node import evidence, fits, forgetting, rating
from loremesh.node.compose import real_parts
from loremesh.node.errors import NodeError, UsageError
from loremesh.node.ground import NO_ROW, Ground, stored_fingerprint
from loremesh.node.home import check_name
from loremesh.node.hosting import Hosting
from loremesh.node.opening import open_memory
from loremesh.node.parts import Parts
from loremesh.node.records import (
    BUS_KEY,
    IDENTITY_KEY,
    BusRecord,
    IdentityRecord,
    decode_record,
    encode_record,
)
from loremesh.node.rulebook import get_rules
from loremesh.node.settings import read_settings
from loremesh.node.sharing import Sharing
from loremesh.node.store.store import Store

BEFORE_BIRTH: Final = ("config.toml", "lock", "log")
"""What may be in a directory that becomes a home: settings, and what a program that makes it leaves there."""


def key_source(source: KeySource | None, passphrase: str | None) -> KeySource | None:
    """Where the master key comes from; None for where the vault says. Raises UsageError for both at once."""
    if source is not None and passphrase is not None:
        raise UsageError("a passphrase and another key source were given", "give one of them")
    return Passphrase(Secret(passphrase)) if passphrase is not None else source


async def make_home(
    home: Path, name: str, source: KeySource, environ: Mapping[str, str], parts: Parts | None
) -> None:
    """The home's directory, vault, database and first incarnation."""
    check_name(home)
    _make_directory(home)
    settings = read_settings(home)
    given = parts or real_parts(settings, environ)
    keys = create_vault(home, source, environ=environ)
    identity = Identity.from_seed(given.random_bytes(32))
    store = await Store.create(home, keys)
    try:
        record = IdentityRecord(identity.export_seed(), name)
        await store.append(records={IDENTITY_KEY: encode_record(record)})
        opened = await open_memory(store, identity.public, get_rules(settings.memory.rules), None)
        ground = Ground(store, opened.memory, identity, name, settings, given)
        first = evidence.incarnation(ground.stamp(), given.random_bytes(16), "created")
        await ground.record([(NO_ROW, first)])
    finally:
        await store.close()


def _make_directory(home: Path) -> None:
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        strangers = [entry.name for entry in home.iterdir() if entry.name not in BEFORE_BIRTH]
    except OSError as error:
        raise NodeError(
            f"{home} cannot be made a home: {error.strerror or error}", "name a directory that can be written"
        ) from error
    if strangers:
        raise NodeError(
            f"{home} is not empty: it has {', '.join(sorted(strangers)[:3])}",
            "open it if it is a home already, or name another directory for a new one",
        )


async def open_home(
    home: Path, source: KeySource | None, environ: Mapping[str, str], parts: Parts | None
) -> tuple[Ground, Sharing]:
    """What a node on `home` stands on; whoever asked closes the ground. Raises StoreError, KeyUnavailable,
    NodeError, SettingsError.
    """
    check_name(home)
    settings = read_settings(home)
    keys = await asyncio.to_thread(_unlock, home, source, environ)
    store = await Store.open(home, keys)
    try:
        sealed = await store.record(IDENTITY_KEY)
        if sealed is None:
            raise NodeError(
                f"{home} was never finished: it has no identity",
                "remove the directory and create the home again",
            )
        who = decode_record(sealed, IdentityRecord)
        identity = Identity.from_seed(who.seed)
        rules = await fits.rules_of(store, settings.memory.rules)
        opened = await open_memory(store, identity.public, rules, await stored_fingerprint(store))
        given = parts or real_parts(settings, environ)
        ground = Ground(store, opened.memory, identity, who.name, settings, given, opened.checkpointed)
        await rating.restore_spending(store, given.budget)
        await ground.bury(opened.dead)
        for row in opened.unfinished:
            await forgetting.finish(ground, row, opened.memory.sync.index.id(row))
        bus = await store.record(BUS_KEY)
        hosting = Hosting(ground, decode_record(bus, BusRecord) if bus else BusRecord())
        return ground, Sharing(ground, opened.spaces, hosting)
    except BaseException:
        await store.close()
        raise


def _unlock(home: Path, source: KeySource | None, environ: Mapping[str, str]) -> HomeKeys:
    """Opening a vault may stretch a passphrase, which takes a third of a second: not on the event loop."""
    return open_vault(home, source, environ=environ)
