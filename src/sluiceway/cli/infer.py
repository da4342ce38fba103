"""`sluiceway infer`: propose a `columns` block from records of a topic."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluiceway.formats.json.survey import JsonSurvey, ProposedColumn
    from sluiceway.sources.registry import SourceAccess

app = typer.Typer()

_MOST_RECORDS = 100_000
_MOST_NAMED = 3
_YAML_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


@app.command()
def infer(
    what: Annotated[str, typer.Argument(metavar="JOB_OR_TOPIC", help="A job file, or a topic.")],
    route: Annotated[
        str | None, typer.Option("--route", help="Of the job file.", show_default=False)
    ] = None,
    bootstrap_servers: Annotated[
        str | None,
        typer.Option("--bootstrap-servers", help="Of a topic: host:port.", show_default=False),
    ] = None,
    records: Annotated[
        int, typer.Option("--records", min=1, max=_MOST_RECORDS, help="How many to look at.")
    ] = 1_000,
) -> None:
    """Look at records of a topic and print a `columns` block for a job file; JSON only.

    Half of the records are the oldest and half the newest of each source partition. What has to
    be decided by a person stands in comments. Nothing is committed, joined or written.
    """
    from sluiceway.audit.topic_sample import sample_payloads  # noqa: PLC0415
    from sluiceway.errors import WrongUsageError  # noqa: PLC0415
    from sluiceway.formats.json.survey import JsonSurvey  # noqa: PLC0415

    access, topics = _source(what, route, bootstrap_servers)
    survey = JsonSurvey()
    for payload in sample_payloads(access, topics, records):
        survey.add(payload)
    if not survey.rows:
        raise WrongUsageError(
            f"no record holds a JSON object: {survey.empty} empty, {survey.broken} other",
            hint="infer reads JSON; columns of Avro and Protobuf stand in their schema",
        )
    sys.stdout.write(columns_block(survey, topics))


def _source(
    what: str, route: str | None, bootstrap_servers: str | None
) -> "tuple[SourceAccess, Sequence[str]]":
    """Where to read, and which topics."""
    from sluiceway.audit.pick_route import job_routes, pick_route  # noqa: PLC0415
    from sluiceway.cli.job_file import load_checked_job  # noqa: PLC0415
    from sluiceway.errors import WrongUsageError  # noqa: PLC0415
    from sluiceway.observe.log import stderr_log  # noqa: PLC0415
    from sluiceway.sources.kafka.source import BOOTSTRAP_SERVERS  # noqa: PLC0415
    from sluiceway.sources.registry import SourceAccess  # noqa: PLC0415

    if bootstrap_servers is not None:
        return SourceAccess("kafka", ((BOOTSTRAP_SERVERS, bootstrap_servers),)), [what]
    path = Path(what)
    if not path.suffix and not path.exists():
        raise WrongUsageError(
            f"{what} is no file; for a topic say where it is",
            hint=f"`sluiceway infer {what} --bootstrap-servers HOST:PORT`",
        )
    routes = job_routes(load_checked_job(path).spec, stderr_log(level="warning"))
    config = pick_route(routes, route)
    if config.format.name != "json":
        raise WrongUsageError(
            f"route {config.route} reads {config.format.name}",
            hint="infer reads JSON; columns of Avro and Protobuf stand in their schema",
        )
    return config.source, config.topics


def columns_block(survey: "JsonSurvey", topics: "Sequence[str]") -> str:
    """The block as text: one line a column, doubts as comments."""
    columns = survey.columns()
    named = ", ".join(topics[:_MOST_NAMED]) + (", ..." if len(topics) > _MOST_NAMED else "")
    lines = [f"# {survey.rows:,} JSON objects of {named}"]
    if survey.empty or survey.broken:
        lines.append(f"# DOUBT: {survey.empty:,} records were empty, {survey.broken:,} no object")
    if survey.keys_are_data:
        lines.append("# DOUBT: more keys than are told here; are they data?")
    lines.append("columns:")
    lines += [_line(column, survey.rows) for column in columns]
    if not any(column.type for column in columns):
        lines[-len(columns) - 1] = "# columns:"
    return "\n".join(lines) + "\n"


def _line(column: "ProposedColumn", rows: int) -> str:
    from sluiceway.types.dirty import shown  # noqa: PLC0415

    notes = []
    if column.rows < rows:
        missing = rows - column.rows - column.nulls
        notes.append(
            f"in {column.rows:,} of {rows:,}, null in {column.nulls:,}, not in {missing:,}"
        )
    notes += [f"DOUBT: {doubt}" for doubt in column.doubts]
    comment = f" # {'; '.join(notes)}" if notes else ""
    if not column.type:
        return f"  # - {{name: {shown(column.name, 100)}}}{comment}"
    more = ", on_lossy: text" if column.as_text else ""
    kind = f'"{column.type}"' if set(column.type) & set("(<,") else column.type
    name = f'"{column.name}"' if column.name.lower() in _YAML_WORDS else column.name
    return f"  - {{name: {name}, type: {kind}{more}}}{comment}"
