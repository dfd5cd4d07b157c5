"""What a home's owner writes down about itself: JSON lines in the home's `log` directory, within a bound.

Only what the program itself says goes in: verbs, counts, states and errors in its own words. Nothing learned,
no question, no key and no token; of an exception that nobody foresaw, its type and place. Standard output and
standard error stay free for the program's answer.
"""

from __future__ import annotations

import logging
import logging.handlers
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import structlog
from structlog.stdlib import BoundLogger, LoggerFactory, ProcessorFormatter
from structlog.typing import EventDict, Processor, WrappedLogger

from loremesh.node.home import HomePaths

LOG_NAME: Final = "node.log"
LOG_BYTES: Final = 1 << 20
LOG_FILES: Final = 4
"""Older files kept besides the one being written: 5 MiB in all."""
PLACES: Final = 20
"""Frames of a traceback that are named."""
OURS: Final = "loremesh"

_SHARED: Final[tuple[Processor, ...]] = (
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)


@contextmanager
def open_log(home: Path) -> Iterator[BoundLogger]:
    """The log of whoever owns `home`, and in it what libraries have to say from WARNING up.

    The file is made with the first line. Where none can be written (no home yet, a read-only one) nothing is
    logged: opening the home says why.
    """
    handler = _handler(HomePaths(home).logs)
    root, ours = logging.getLogger(), logging.getLogger(OURS)
    levels, config = (root.level, ours.level), structlog.get_config()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    ours.setLevel(logging.INFO)
    structlog.configure(
        processors=[*_SHARED, ProcessorFormatter.wrap_for_formatter],
        wrapper_class=BoundLogger,
        logger_factory=LoggerFactory(),
        cache_logger_on_first_use=False,  # the modules' loggers must follow a later change
    )
    try:
        log: BoundLogger = structlog.get_logger(OURS)
        yield log
    finally:
        structlog.configure(**config)
        root.removeHandler(handler)
        root.setLevel(levels[0])
        ours.setLevel(levels[1])
        with suppress(OSError):  # lines that a full disk did not take must not undo what the command did
            handler.close()


def _handler(directory: Path) -> logging.Handler:
    if not directory.parent.is_dir():
        return logging.NullHandler()
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        return logging.NullHandler()
    handler = logging.handlers.RotatingFileHandler(
        directory / LOG_NAME,
        maxBytes=LOG_BYTES,
        backupCount=LOG_FILES,
        encoding="utf-8",
        errors="backslashreplace",
        delay=True,
    )
    handler.handleError = _pass_over  # type: ignore[assignment]  # a full disk must not end the node
    finish: list[Processor] = [
        ProcessorFormatter.remove_processors_meta,
        _exception_by_place,
        structlog.processors.JSONRenderer(ensure_ascii=False),
    ]
    handler.setFormatter(ProcessorFormatter(foreign_pre_chain=_SHARED, processors=finish))
    return handler


def _pass_over(_: logging.LogRecord) -> None:
    """A line that could not be written is lost; by default its traceback would go to standard error."""


def _exception_by_place(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """An exception as its type and the places it passed; its text may hold anything, so it stays out."""
    given = event.pop("exc_info", None)
    error = given[1] if isinstance(given, tuple) else given
    if isinstance(error, BaseException):
        places: list[str] = []
        trace = error.__traceback__
        while trace is not None and len(places) < PLACES:
            places.append(f"{trace.tb_frame.f_globals.get('__name__', '?')}:{trace.tb_lineno}")
            trace = trace.tb_next
        event["exception"] = type(error).__name__
        event["places"] = places
    return event
