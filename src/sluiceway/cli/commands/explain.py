"""`sluiceway explain`: what a message means and what to do; offline."""

import sys
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated

import typer

from sluiceway.cli.options import Output, OutputFormat
from sluiceway.cli.views.answers import print_document
from sluiceway.cli.views.messages import MessagePage, pages_by_name, read_messages
from sluiceway.cli.views.tables import print_table
from sluiceway.errors import WrongUsageError

app = typer.Typer()

_MOST = 80
_NO_NEWS = ("Found in",)


@app.command()
def explain(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="As in a message: SW455, route_waits, overflow, halted, Lag.",
            show_default=False,
        ),
    ] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Say what a name in a message means and what to do; lists all names without one.

    Names are error codes, events of the log, alerts, reasons of dirty rows, and states of routes,
    hours and dirty rows.

    The texts come with the program: no network, no job file.

    $ sluiceway explain SW455
    $ sluiceway explain route_waits
    """
    if name is None:
        _list(pages_by_name(read_messages()), output)
        return
    page = explained(name)
    if output.is_document:
        print_document({**_fields(page), "text": page.text}, output)
    else:
        sys.stdout.write(f"{page.title}\n\n{page.plain_text}\n")


def explained(name: str) -> MessagePage:
    """What a code, an event, an alert, a state or a dirty reason means.

    Raises:
        WrongUsageError: There is none.
    """
    pages = pages_by_name(read_messages())
    folded = {known.lower(): page for known, page in pages.items()}
    wanted = name.strip().strip("[]:`").lower()
    page = folded.get(wanted)
    if page is None:
        close = get_close_matches(wanted, folded, n=1)
        todo = ""
        if close:
            meant = next(known for known in pages if known.lower() == close[0])
            todo = f"did you mean `{meant}`? "
        raise WrongUsageError(
            f"no message is called `{name.strip()[:60]}`",
            hint=f"{todo}`sluiceway explain` lists all",
        )
    return page


def _fields(page: MessagePage) -> dict[str, object]:
    return {"names": list(page.names), "title": page.title}


def _list(pages: Mapping[str, MessagePage], output: OutputFormat) -> None:
    named: dict[MessagePage, list[str]] = {}
    for name, page in pages.items():
        named.setdefault(page, []).append(name)
    if output.is_document:
        print_document({"pages": [{**_fields(p), "names": n} for p, n in named.items()]}, output)
        return
    print_table([(", ".join(names), _in_short(page)) for page, names in named.items()])


def _in_short(page: MessagePage) -> str:
    """The title of an error; for others, the first sentence of their text."""
    named = page.title.partition(": ")[2]
    sentences = " ".join(page.plain_text.split()).split(". ")
    first = next((each for each in sentences if not each.startswith(_NO_NEWS)), sentences[0])
    sentence = first.rstrip(".")
    return named or (sentence if len(sentence) <= _MOST else f"{sentence[: _MOST - 3]}...")
