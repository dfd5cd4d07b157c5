"""What a running node writes down about itself: JSON lines in the home's `log` directory, within a bound.

Only what the program itself says goes in: verbs, counts, states and errors in its own words. Nothing learned,
no question, no key and no token; of an exception that nobody foresaw, its type and place.
"""

from __future__ import annotations

import logging
import logging.handlers
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import structlog
from structlog.stdlib import BoundLogger, ProcessorFormatter
from structlog.typing import EventDict, Processor, WrappedLogger

from loremesh.node.home import HomePaths

LOG_NAME: Final = "node.log"
LOG_BYTES: Final = 1 << 20
LOG_FILES: Final = 4
"""Older files kept besides the one being written: 5 MiB in all."""


@contextmanager
def open_log(home: Path) -> Iterator[BoundLogger]:
    """The node's log, and in it what libraries have to say from WARNING up. Raises OSError."""
    directory = HomePaths(home).logs
    directory.mkdir(mode=0o700, exist_ok=True)
    handler = logging.handlers.RotatingFileHandler(
        directory / LOG_NAME,
        maxBytes=LOG_BYTES,
        backupCount=LOG_FILES,
        encoding="utf-8",
        errors="backslashreplace",
    )
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    finish: list[Processor] = [
        ProcessorFormatter.remove_processors_meta,
        _exception_by_place,
        structlog.processors.JSONRenderer(ensure_ascii=False),
    ]
    handler.setFormatter(ProcessorFormatter(foreign_pre_chain=shared, processors=finish))
    ours = logging.getLogger("loremesh")
    root = logging.getLogger()
    before = (ours.level, root.level)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    ours.setLevel(logging.INFO)
    try:
        log: BoundLogger = structlog.wrap_logger(
            ours,
            processors=[*shared, ProcessorFormatter.wrap_for_formatter],
            wrapper_class=BoundLogger,
            cache_logger_on_first_use=True,
        )
        yield log
    finally:
        root.removeHandler(handler)
        ours.setLevel(before[0])
        root.setLevel(before[1])
        handler.close()


def _exception_by_place(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """An exception as its type and the places it passed; its text may hold anything, so it stays out."""
    given = event.pop("exc_info", None)
    error = given[1] if isinstance(given, tuple) else given
    if isinstance(error, BaseException):
        places: list[str] = []
        trace = error.__traceback__
        while trace is not None and len(places) < 20:
            places.append(f"{trace.tb_frame.f_globals.get('__name__', '?')}:{trace.tb_lineno}")
            trace = trace.tb_next
        event["exception"] = type(error).__name__
        event["places"] = places
    return event
