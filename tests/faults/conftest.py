"""Homes for the faults that whole nodes meet."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.node.homes import Homes


@pytest.fixture
def homes(tmp_path: Path) -> Homes:
    """Homes below the test's own directory."""
    return Homes(tmp_path)
