"""A home and a node for the tests of this folder that need one and no more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from loremesh.node.node import Node
from tests.node.homes import Homes, faultless


@pytest.fixture
def homes(tmp_path: Path) -> Homes:
    """Homes below the test's own directory."""
    return Homes(tmp_path)


@pytest.fixture
async def node(homes: Homes) -> AsyncIterator[Node]:
    """An open node; afterwards its log must say what is in use."""
    async with homes.create("alice") as node:
        yield node
        await faultless(node)
