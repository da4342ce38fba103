"""`sluiceway version`: what is installed."""

import json
import platform
import sys
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from sluiceway import __version__

app = typer.Typer()

_SHOWN = ("pyspark", "pyarrow", "confluent-kafka", "pydantic")


class VersionFormat(StrEnum):
    """How `version` answers."""

    TABLE = "table"
    JSON = "json"


@app.command(name="version")
def show_version(
    output: Annotated[
        VersionFormat, typer.Option("-o", "--output", help="How to answer.")
    ] = VersionFormat.TABLE,
) -> None:
    """Show the versions of Sluiceway and of what decides how it behaves."""
    versions = {"sluiceway": __version__, "python": platform.python_version()}
    versions |= {name: _installed(name) for name in _SHOWN}
    if output is VersionFormat.JSON:
        sys.stdout.write(json.dumps(versions, indent=2) + "\n")
    else:
        sys.stdout.writelines(f"{name:<16}{found}\n" for name, found in versions.items())


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
