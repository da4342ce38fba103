"""Pages about errors, alerts, states, events and dirty reasons, by the names in messages."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.types.dirty_pages import PAGES

_FILE = Path(__file__).with_name("messages.toml")
_LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")
_UP = re.compile(r"^(?:\.\./)+")


@dataclass(frozen=True, slots=True)
class MessagePage:
    """What one message means.

    Attributes:
        kind: `errors`, `alerts`, `states`, `events` or `reasons`.
        names: Names in messages: an error code, alert, state or dirty reason; events.
        title: Its heading.
        text: Meaning and next step, as Markdown whose links lead from `docs/reference/`.
        level: Level of an event's log line; empty for other kinds.
        fields: Fields of an event's log line, without those of all events; empty for other kinds.
    """

    kind: str
    names: tuple[str, ...]
    title: str
    text: str
    level: str = ""
    fields: tuple[str, ...] = ()

    @property
    def plain_text(self) -> str:
        """The text for a terminal: a link to another page becomes its name."""
        return _LINK.sub(lambda m: _plain_link(m[1], m[2]), self.text)


def read_messages(path: Path = _FILE) -> tuple[MessagePage, ...]:
    """All pages in the order of the file, then dirty reasons. Needs no network.

    Raises:
        UnhealthyEnvironmentError: The installation is incomplete.
    """
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise UnhealthyEnvironmentError(
            "the texts of `explain` are missing from the installation",
            hint="install sluiceway again",
        ) from error
    pages = [_page(kind, entry) for kind, entries in data.items() for entry in entries]
    return (*pages, *_reasons())


def pages_by_name(pages: tuple[MessagePage, ...]) -> Mapping[str, MessagePage]:
    """Pages by each of their names.

    A name of several kinds, such as `late`, a state and a reason, has one page for all of them.
    """
    found: dict[str, MessagePage] = {}
    for page in pages:
        for name in page.names:
            found[name] = _joined(name, found[name], page) if name in found else page
    return found


def _page(kind: str, entry: Mapping[str, Any]) -> MessagePage:
    text = entry["text"].strip()
    if kind == "errors":
        code = entry["code"]
        return MessagePage(kind, (code,), f"{code}: {entry['title']}", text)
    if kind == "alerts":
        return MessagePage(kind, (entry["name"],), entry["name"], text)
    names = tuple(entry["names"])
    of = f" of {entry['of']}" if "of" in entry else ""
    title = f"{', '.join(names)}{of}"
    if kind == "states":
        return MessagePage(kind, names, title, text)
    level = entry.get("level", "info" if entry.get("quiet") else "warning")
    return MessagePage(kind, names, title, text, level, tuple(entry.get("fields", ())))


def _reasons() -> Iterator[MessagePage]:
    for reason, page in PAGES.items():
        text = (
            f"Found in: {page.stages}. Meaning: {page.meaning}.\n\n"
            f"Example: {page.example}.\n\nWhat to do: {page.todo}."
        )
        yield MessagePage("reasons", (reason.value,), f"{reason.value} of dirty rows", text)


def _joined(name: str, one: MessagePage, other: MessagePage) -> MessagePage:
    text = f"{one.text}\n\n{other.title}\n\n{other.text}"
    return MessagePage(one.kind, (name,), one.title, text, one.level, one.fields)


def _plain_link(text: str, target: str) -> str:
    # A terminal cannot follow a link. An event or error is found by `explain` under its name.
    if not target.startswith("../"):
        return text
    return f"{text} (docs/{_UP.sub('', target)})"
