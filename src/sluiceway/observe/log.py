"""Structured log: an event name and fields, one JSON object a line, on stderr."""

import logging
import sys
from collections.abc import Callable
from typing import TextIO, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

Log = FilteringBoundLogger
"""Writes `log.info("event_name", field=value)`; `log.bind(...)` adds fields to every line."""


def stderr_log(
    *, level: str = "info", stream: TextIO | None = None, before: Callable[[], None] | None = None
) -> Log:
    """The log of a command. Made once, at its start.

    Args:
        level: Least level that is written: debug, info, warning or error.
        stream: Where lines go; stderr when left out.
        before: Called before each line (a progress line clears itself).
    """

    def clear(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        del logger, method
        if before is not None:
            before()
        return event

    log = structlog.wrap_logger(
        structlog.PrintLogger(stream or sys.stderr),
        processors=[
            clear,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
            structlog.processors.JSONRenderer(default=str, ensure_ascii=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
    )
    return cast("Log", log)
