"""Ending background tasks for certain, and telling what went wrong in them."""

import asyncio
import traceback
from collections.abc import Iterable
from typing import Any

__all__ = ["end_tasks", "trace"]

CANCEL_AGAIN_S = 1.0
"""A library may swallow a cancellation (nats-py does while it flushes): ask again after this long."""

TRACE_CALLS = 6
"""Of an unforeseen error's calls, the innermost."""


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


def trace(error: BaseException) -> str:
    """Where an unforeseen error came from, for the log: the innermost calls and the messages only.

    Not `log.exception`: some renderers print every local variable, and keys and texts are among them.
    """
    return "".join(traceback.format_exception(error, limit=-TRACE_CALLS))
