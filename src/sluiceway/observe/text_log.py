"""A log event as one line of words: time, level, route, what happened, what comes next."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

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
        sentences: Whether further fields are told in words and not as `name=value`.
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
