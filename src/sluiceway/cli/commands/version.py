"""`sluiceway version`: what is installed."""

import platform
from importlib.metadata import PackageNotFoundError, version

import typer

from sluiceway import __version__
from sluiceway.cli.options import Output, OutputFormat
from sluiceway.cli.views.answers import print_document
from sluiceway.cli.views.tables import print_table
from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.host.java import find_java

app = typer.Typer()

_SHOWN = ("pyspark", "pyarrow", "confluent-kafka", "pydantic")


@app.command(name="version")
def show_version(
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show the versions of Sluiceway and of the software that it depends on."""
    versions = {"sluiceway": __version__, "python": platform.python_version()}
    versions |= {name: _installed(name) for name in _SHOWN}
    versions["java"] = _java()
    if output.is_document:
        print_document(versions, output)
    else:
        print_table(list(versions.items()))


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _java() -> str:
    """The Java that Spark would be started with now, or why there is none."""
    try:
        java = find_java()
    except UnhealthyEnvironmentError as error:
        return f"none: {error.message}"
    return f"{java}; {java.passed_over}" if java.passed_over else str(java)
