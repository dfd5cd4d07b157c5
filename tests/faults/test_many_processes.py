"""Fault 27: many processes on one home. Right: one owner, and everybody's write is done, through its door.

That twenty commands without a running node lose nothing is in `tests/node/doors`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.node.doors.program import TIMEOUT_S, made

LEARNS = 12
TEXTS = 6
"""Fewer than learns: each text comes from two processes at once."""


@pytest.mark.slow
def test_fault_27_commands_at_once_while_a_node_runs_lose_nothing(tmp_path: Path) -> None:
    program = made(tmp_path)
    with program.up():
        texts = [f"Text {n % TEXTS} of many processes" for n in range(LEARNS)]
        running = [program.start("--json", "learn", text) for text in texts]
        said = [process.communicate(timeout=TIMEOUT_S) for process in running]
        assert [process.returncode for process in running] == [0] * LEARNS, [err for _, err in said]
        learned = [json.loads(out) for out, _ in said]
        assert len({one["block"] for one in learned}) == TEXTS
        assert sum(one["created"] for one in learned) == TEXTS
        assert program.ask("status")["blocks"] == TEXTS
        assert program.ask("replay", "--check")["ok"]
