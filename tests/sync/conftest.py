"""A bus and a team that nobody has joined yet."""

from collections.abc import AsyncIterator

import pytest

from loremesh.sync.memory_bus import MemoryHub
from tests.sync.teams import Team


@pytest.fixture
def hub() -> MemoryHub:
    """A bus without faults."""
    return MemoryHub()


@pytest.fixture
async def team(hub: MemoryHub) -> AsyncIterator[Team]:
    """Nobody yet."""
    team = Team(hub)
    yield team
    for member in team.all:
        await member.engine.stop()
