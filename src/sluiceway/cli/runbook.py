"""The runbook's pages by the names that messages have: codes, alerts, states, events, reasons."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.types.dirty_pages import PAGES

_PACKED = Path(__file__).parent / "packed" / "runbook.md"
_CHECKOUT = Path(__file__).resolve().parents[3] / "docs" / "runbook.md"
_PAGE = re.compile(r"^### (?P<title>.+)\n(?P<text>(?:(?!^##? |^### ).*\n)*)", re.MULTILINE)
_CODE = re.compile(r"(SW\d{3}): ")
_EVENTS = re.compile(r"Events? (?=`)")
_ALERT = re.compile(r"[A-Z][A-Za-z]+")
_TABLE = re.compile(r"^## (?:States|Further events)\n(?P<rows>(?:(?!^##).*\n)*)", re.MULTILINE)
_ROW = re.compile(
    r"^\| (?P<names>`\w+`(?:, `\w+`)*) \| (?P<of>.+?) \| (?P<text>.+) \|$", re.MULTILINE
)
_LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")


@dataclass(frozen=True, slots=True)
class RunbookPage:
    """One page.

    Attributes:
        names: What messages call it: one error code, alert, state or dirty reason; events.
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
    """All pages by each of their names: the runbook's, then dirty reasons. Needs no network.

    Raises:
        UnhealthyEnvironmentError: The installation is incomplete.
    """
    for path in (_CHECKOUT, _PACKED):
        if path.is_file():
            return _by_name([*_written(path.read_text("utf-8")), *_reasons()])
    raise UnhealthyEnvironmentError(
        "the runbook is missing from the installation", hint="install sluiceway again"
    )


def pages_of(runbook: str) -> dict[str, RunbookPage]:
    """The pages of a runbook's Markdown by their names.

    A name of several, such as `late`, which is a state and a reason, has one page of all of them.
    """
    return _by_name(_written(runbook))


def _written(runbook: str) -> list[RunbookPage]:
    pages = [
        RunbookPage(_names(match["title"]), match["title"].replace("`", ""), match["text"].strip())
        for match in _PAGE.finditer(runbook)
    ]
    for table in _TABLE.finditer(runbook):
        for row in _ROW.finditer(table["rows"]):
            names = tuple(re.findall(r"\w+", row["names"]))
            title = f"{row['names'].replace('`', '')} of {row['of']}"
            pages.append(RunbookPage(names, title, row["text"]))
    return pages


def _by_name(pages: Iterable[RunbookPage]) -> dict[str, RunbookPage]:
    found: dict[str, RunbookPage] = {}
    for page in pages:
        for name in page.names:
            found[name] = _joined(name, found[name], page) if name in found else page
    return found


def _names(title: str) -> tuple[str, ...]:
    """What a page is asked for by; none of one that is only read."""
    code = _CODE.match(title)
    if code:
        return (code[1],)
    if _EVENTS.match(title):
        return tuple(re.findall(r"`(\w+)`", title))
    return (title,) if _ALERT.fullmatch(title) else ()


def _reasons() -> Iterator[RunbookPage]:
    for reason, page in PAGES.items():
        text = (
            f"Found in: {page.stages}. Meaning: {page.meaning}.\n\n"
            f"Example: {page.example}.\n\nWhat to do: {page.todo}."
        )
        yield RunbookPage((reason.value,), f"{reason.value} of dirty rows", text)


def _joined(name: str, one: RunbookPage, other: RunbookPage) -> RunbookPage:
    text = f"{one.text}\n\n{other.title}\n\n{other.text}"
    return RunbookPage((name,), one.title, text)


def _plain_link(text: str, target: str) -> str:
    # What a terminal cannot follow is named, unless it is another place of the runbook.
    return text if target.startswith("#") else f"{text} (docs/{target.removeprefix('../')})"
