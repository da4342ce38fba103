"""`sluiceway explain`: what a message means and what to do, from the runbook; offline."""

import sys
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Annotated

import typer

from sluiceway.cli.answers import print_document
from sluiceway.cli.options import Output, OutputFormat
from sluiceway.cli.runbook import RunbookPage, read_runbook
from sluiceway.cli.tables import print_table
from sluiceway.errors import WrongUsageError

app = typer.Typer()

_MOST = 80


@app.command()
def explain(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[CODE_OR_EVENT]",
            help="As in a message: SW455, route_waits.",
            show_default=False,
        ),
    ] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Say what an error code or an event of the log means and what to do; lists all without a name.

    The text is the runbook's, and comes with the program: no network, no job file.

    $ sluiceway explain SW455
    $ sluiceway explain route_waits
    """
    if name is None:
        _list(read_runbook().values(), output)
        return
    page = explained(name)
    if output.is_document:
        print_document({**_fields(page), "text": page.text}, output)
    else:
        sys.stdout.write(f"{page.title}\n\n{page.plain_text}\n")


def explained(name: str) -> RunbookPage:
    """The runbook's page of a code or an event.

    Raises:
        WrongUsageError: There is none.
    """
    pages = read_runbook()
    wanted = name.strip().strip("[]:")
    page = pages.get(wanted.upper()) or pages.get(wanted.lower())
    if page is None:
        close = get_close_matches(wanted.upper(), pages, n=1) or get_close_matches(
            wanted.lower(), pages, n=1
        )
        todo = f"did you mean `{close[0]}`? " if close else ""
        raise WrongUsageError(
            f"no message is called `{wanted[:60]}`", hint=f"{todo}`sluiceway explain` lists all"
        )
    return page


def _fields(page: RunbookPage) -> dict[str, object]:
    return {"names": list(page.names), "title": page.title}


def _list(pages: Iterable[RunbookPage], output: OutputFormat) -> None:
    each = list(dict.fromkeys(pages))
    if output.is_document:
        print_document({"pages": [_fields(page) for page in each]}, output)
        return
    print_table([(", ".join(page.names), _in_short(page)) for page in each])


def _in_short(page: RunbookPage) -> str:
    """What an error is called; of an event, the first sentence."""
    named = page.title.partition(": ")[2]
    sentence = " ".join(page.plain_text.split()).partition(". ")[0].rstrip(".")
    return named or (sentence if len(sentence) <= _MOST else f"{sentence[: _MOST - 3]}...")
