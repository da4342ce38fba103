"""Arguments and options that several commands share, spelled once."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class OutputFormat(StrEnum):
    """Form of a command's answer: words, or one document of JSON or YAML."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"

    @property
    def is_document(self) -> bool:
        """Whether a program reads the answer."""
        return self is not OutputFormat.TABLE


# The reader of the file reports whether it can be read, like any job file: with 3, not with 2.
JobFile = Annotated[
    Path, typer.Argument(help="The job file.", metavar="JOB", exists=False, readable=False)
]
JobFiles = Annotated[
    Path,
    typer.Argument(
        help="The job file, or a folder of job files.",
        metavar="JOB",
        exists=False,
        readable=False,
    ),
]
Output = Annotated[
    OutputFormat, typer.Option("-o", "--output", metavar="table|json|yaml", help="How to answer.")
]
OnlyRoute = Annotated[
    str | None, typer.Option("--route", help="Only this route.", show_default=False)
]
OneRoute = Annotated[
    str | None,
    typer.Option("--route", help="Which route, when there are several.", show_default=False),
]


def this_operator() -> str:
    """Who runs the command, as the ledger keeps it: `user@host`."""
    import getpass  # noqa: PLC0415 - commands that only read do without it
    import socket  # noqa: PLC0415

    return f"{getpass.getuser()}@{socket.gethostname()}"
