"""The runbook's pages by the names that messages have: error codes, events of the log."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sluiceway.errors import UnhealthyEnvironmentError

_PACKED = Path(__file__).parent / "packed" / "runbook.md"
_CHECKOUT = Path(__file__).resolve().parents[3] / "docs" / "runbook.md"
_PAGE = re.compile(r"^### (?P<title>.+)\n(?P<text>(?:(?!^##? |^### ).*\n)*)", re.MULTILINE)
_CODE = re.compile(r"(SW\d{3}): ")
_EVENTS = re.compile(r"Events? (?=`)")
_LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")


@dataclass(frozen=True, slots=True)
class RunbookPage:
    """One page.

    Attributes:
        names: What messages call it: one error code, or events of the log.
        title: Its heading.
        text: Below the heading, as Markdown.
    """

    names: tuple[str, ...]
    title: str
    text: str

    @property
    def plain_text(self) -> str:
        """The text for a terminal: links become what they lead to, where that is another page."""
        return _LINK.sub(lambda m: _plain_link(m[1], m[2]), self.text)


def read_runbook() -> Mapping[str, RunbookPage]:
    """All pages by each of their names, in the runbook's order. Needs no network.

    Raises:
        UnhealthyEnvironmentError: The installation is incomplete.
    """
    for path in (_CHECKOUT, _PACKED):
        if path.is_file():
            return pages_of(path.read_text("utf-8"))
    raise UnhealthyEnvironmentError(
        "the runbook is missing from the installation", hint="install sluiceway again"
    )


def pages_of(runbook: str) -> dict[str, RunbookPage]:
    """The pages of a runbook's Markdown by their names."""
    found = {}
    for match in _PAGE.finditer(runbook):
        title = match["title"]
        code = _CODE.match(title)
        names = [code[1]] if code else re.findall(r"`(\w+)`", title) if _EVENTS.match(title) else []
        page = RunbookPage(tuple(names), title.replace("`", ""), match["text"].strip())
        found.update(dict.fromkeys(names, page))
    return found


def _plain_link(text: str, target: str) -> str:
    # What a terminal cannot follow is named, unless it is another place of the runbook.
    return text if target.startswith("#") else f"{text} (docs/{target.removeprefix('../')})"
