"""`sluiceway dashboards`: boards for Grafana and alert rules for Prometheus."""

from pathlib import Path
from typing import Annotated

import typer

from sluiceway.cli.options import Output, OutputFormat
from sluiceway.cli.views.answers import print_document

app = typer.Typer()


@app.callback()
def dashboards() -> None:
    """Write boards and alert rules over the metrics of /metrics."""


@app.command()
def export(
    folder: Annotated[
        Path,
        typer.Option("--dir", metavar="FOLDER", help="Where to; made when it is missing."),
    ] = Path("dashboards"),
    page: Annotated[
        str, typer.Option("--page", metavar="URL", help="Where the page is served, for links.")
    ] = "http://127.0.0.1:8090/",
    output: Output = OutputFormat.TABLE,
) -> None:
    """Write Grafana's dashboards (fleet, one job, one route) and Prometheus' alert rules.

    Import the boards into Grafana as files, and name the rules in `rule_files` of prometheus.yml.
    What each alert means: `sluiceway explain ALERT`.
    """
    from sluiceway.service.board_files import export as write  # noqa: PLC0415 - quick `--help`

    if not page.startswith(("http://", "https://")):
        raise typer.BadParameter("expected an http or https URL", param_hint="--page")
    written = write(folder, f"{page.rstrip('/')}/")
    if output.is_document:
        print_document({"files": [str(path) for path in written]}, output)
        return
    for path in written:
        typer.echo(f"wrote {path}")
