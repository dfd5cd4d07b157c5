"""Ending background tasks for certain."""

import asyncio
from collections.abc import Iterable
from typing import Any

__all__ = ["end_tasks"]

CANCEL_AGAIN_S = 1.0
"""A library may swallow a cancellation (nats-py does while it flushes): ask again after this long."""


async def end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel the tasks and wait until every one has ended; what they raised is theirs and was reported
    there."""
    waiting = {task for task in tasks if not task.done()}
    while waiting:
        for task in waiting:
            task.cancel()
        done, waiting = await asyncio.wait(waiting, timeout=CANCEL_AGAIN_S)
        for task in done:
            if not task.cancelled():
                task.exception()
