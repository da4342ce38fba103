"""Structured log on stderr: JSON, one object a line; words for a person at a terminal."""

import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, TextIO, cast

if TYPE_CHECKING:
    from structlog.typing import EventDict, WrappedLogger


_COLOURS: Mapping[str, str] = {"warning": "33", "error": "31", "critical": "31"}
# Fields that say why; one of them is what a person wants to read.
_REASONS = ("error", "reason", "warning", "cause")
_SAID_APART = frozenset(
    {"event", "level", "job", "route", "code", "hint", "retry_in_s", "commands", *_REASONS}
)
_NOTHING: tuple[object, ...] = ({}, (), [], None, "")


class TextLine:
    """Renders events; the last processor of a log.

    Args:
        colours: Whether the level is painted.
        sentences: Whether further fields become words instead of `name=value`.
    """

    def __init__(self, *, colours: bool, sentences: bool = False) -> None:
        self._colours = colours
        self._sentences = sentences

    def __call__(self, logger: "WrappedLogger", method: str, event: "EventDict") -> str:
        """The line of one event, without its end."""
        del logger, method
        level = str(event["level"])
        name = f"{level:<7}"
        if self._colours and level in _COLOURS:
            name = f"\033[{_COLOURS[level]}m{name}\033[0m"
        at = datetime.now().astimezone().strftime("%H:%M:%S")
        route = _printable(event["route"]) if "route" in event else ""
        words = _sentence(event) if self._sentences else _words(event)
        return " ".join(part for part in (at, name, route and f"{route}:", words) if part)


def _words(event: Mapping[str, Any]) -> str:
    rest = [f"{name}={value}" for name, value in _rest(event)]
    return " ".join([_said(event), *rest]) + _next(event)


def _sentence(event: Mapping[str, Any]) -> str:
    """The same to be read, not searched: `Rows dirty: broken 6 (rows 8, read 1,000)`."""
    said = _said(event)
    rest = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in _rest(event))
    return said[:1].upper() + said[1:] + (f" ({rest})" if rest else "") + _next(event)


def _said(event: Mapping[str, Any]) -> str:
    code = f" [{event['code']}]" if event.get("code") else ""
    said = str(event["event"]).replace("_", " ") + code
    return ": ".join([said, *(_printable(event[name]) for name in _REASONS if event.get(name))])


def _rest(event: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Fields that are not said otherwise, as text."""
    return [
        (name, _printable(_plain(value)))
        for name, value in event.items()
        if name not in _SAID_APART and value not in _NOTHING
    ]


def _plain(value: object) -> object:
    """Several values in a row, without the marks of a program."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {one}" for name, one in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _next(event: Mapping[str, Any]) -> str:
    if event.get("hint"):
        return f"; {_printable(event['hint'])}"
    look = "".join(f"; `{_printable(command)}`" for command in event.get("commands") or ())
    if event.get("retry_in_s") is not None:
        return f"; tries again in {event['retry_in_s']:g} s{look}"
    if look:
        return look
    # The rest explain themselves, or `explain` does.
    return f"; `sluiceway explain {event['event']}`" if event["level"] != "info" else ""


def _printable(value: object) -> str:
    """One line without control characters: parts of it may be names that others chose."""
    return " ".join("".join(c if c.isprintable() else " " for c in str(value)).split())


class Log(Protocol):
    """Writes `log.info("event_name", field=value)`; `log.bind(...)` adds fields to every line.

    structlog's own type would be imported with all of it, by every command that writes no log.
    """

    def bind(self, **new_values: Any) -> "Log":
        """The same log with these fields in every line."""

    def debug(self, event: str, *args: Any, **fields: Any) -> Any:
        """Write one line, as the next three."""

    def info(self, event: str, *args: Any, **fields: Any) -> Any:
        """What happened as it should."""

    def warning(self, event: str, *args: Any, **fields: Any) -> Any:
        """What a person should know."""

    def error(self, event: str, *args: Any, **fields: Any) -> Any:
        """What a person has to act on."""


class LogLevel(StrEnum):
    """Least level that is written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How a line is written: for a person, or for a log collector."""

    TEXT = "text"
    JSON = "json"


class _Lines:
    """Writes lines; a reader that went away or a full disk costs the lines, never the work."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def msg(self, message: str) -> None:
        """Write one line, if it can be written."""
        try:
            with self._lock:
                self._stream.write(f"{message}\n")
                self._stream.flush()
        except OSError:
            # Standard error is closed, and a driver must not halt for want of a listener.
            return

    log = debug = info = warn = warning = msg
    fatal = failure = err = error = critical = exception = msg


def stderr_log(
    *,
    level: str = "info",
    log_format: LogFormat | None = None,
    stream: TextIO | None = None,
    before: Callable[[], None] | None = None,
    fill: Callable[["EventDict"], dict[str, Any]] | None = None,
    sentences: bool = False,
) -> Log:
    """The log of a command. Made once, at its start.

    Args:
        level: Least level that is written: debug, info, warning or error.
        log_format: None takes text on a terminal and JSON elsewhere.
        stream: Where lines go; stderr when left out.
        before: Called before each line (a progress line clears itself).
        fill: Makes of a line's fields what is written (commands with the job's path).
        sentences: Text is to be read by a person who watches, not searched.

    Raises:
        ValueError: There is no such level.
    """
    import structlog  # noqa: PLC0415 - a fifth of the time that a short command takes

    if level not in [*LogLevel]:
        raise ValueError(f"expected a level of {', '.join(LogLevel)}, got {level!r}")
    out = stream or sys.stderr
    on_terminal = out.isatty()
    chosen = log_format or (LogFormat.TEXT if on_terminal else LogFormat.JSON)

    def clear(logger: "WrappedLogger", method: str, event: "EventDict") -> "EventDict":
        del logger, method
        if before is not None:
            before()
        return event if fill is None else fill(event)

    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True, key="at")
    as_json = structlog.processors.JSONRenderer(default=str, ensure_ascii=False)
    as_text = TextLine(colours=on_terminal and not os.environ.get("NO_COLOR"), sentences=sentences)
    log = structlog.wrap_logger(
        _Lines(out),
        processors=[
            clear,
            structlog.processors.add_log_level,
            *([as_text] if chosen is LogFormat.TEXT else [stamp, as_json]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
    )
    return cast("Log", log)


class WarningsOnDemand:
    """A log of warnings and errors that is made with its first line: most commands write none."""

    def __init__(self) -> None:
        self._log: Log | None = None

    def bind(self, **new_values: Any) -> Log:
        """See `Log`."""
        return self._made().bind(**new_values)

    def debug(self, event: str, *args: Any, **fields: Any) -> None:
        """Write nothing, as the next one."""

    def info(self, event: str, *args: Any, **fields: Any) -> None:
        """See `Log`."""

    def warning(self, event: str, *args: Any, **fields: Any) -> None:
        """See `Log`."""
        self._made().warning(event, *args, **fields)

    def error(self, event: str, *args: Any, **fields: Any) -> None:
        """See `Log`."""
        self._made().error(event, *args, **fields)

    def _made(self) -> Log:
        if self._log is None:
            self._log = stderr_log(level="warning")
        return self._log
