"""`sluiceway infer`: propose a `columns` block from records of a topic, or from a schema."""

import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluiceway.cli.views.proposed_columns import CHANGE_LOGS, READS, contents_block
from sluiceway.errors import WrongUsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluiceway.sources.registry import SourceAccess

app = typer.Typer()

_MOST_RECORDS = 100_000
_RECORD_SUFFIXES = (".jsonl", ".ndjson")


@app.command()
def infer(  # noqa: PLR0913, PLR0917 - the command's options
    what: Annotated[
        str,
        typer.Argument(
            metavar="JOB_OR_TOPIC_OR_SCHEMA",
            help="A job file; a topic; a registry's subject; a file .avsc, .proto, .desc, "
            ".schema.json; records in a file .jsonl, one a line.",
        ),
    ],
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
    registry: Annotated[
        str | None,
        typer.Option("--registry", metavar="URL", help="Of a subject.", show_default=False),
    ] = None,
    version: Annotated[
        int | None,
        typer.Option("--version", min=1, help="Of a subject; the newest.", show_default=False),
    ] = None,
    message: Annotated[
        str | None,
        typer.Option("--message", help="Of a Protobuf schema with several.", show_default=False),
    ] = None,
) -> None:
    """Print a `columns` block for a job file, from records of JSON or from a schema.

    For a topic of JSON or of a change log it reads records of each source partition: half the
    oldest, half the newest. For Avro and Protobuf, and JSON with a registry, it reads the schema.
    Decisions for a person stand in comments. Nothing is committed, joined or written.

    $ sluiceway infer orders --bootstrap-servers k1:9092
    $ sluiceway infer job.yaml --route ods-orders
    $ sluiceway infer orders.jsonl
    """
    from sluiceway.cli.views.infer_schema import (  # noqa: PLC0415
        SCHEMA_SUFFIXES,
        file_block,
        subject_block,
    )

    if registry is not None:
        sys.stdout.write(subject_block(registry, what, version, message))
    elif bootstrap_servers is None and what.endswith(SCHEMA_SUFFIXES):
        sys.stdout.write(file_block(Path(what), message))
    elif bootstrap_servers is None and what.endswith(_RECORD_SUFFIXES):
        sys.stdout.write(_of_lines(Path(what), records))
    else:
        sys.stdout.write(_of_records(what, route, bootstrap_servers, records, message))


def _of_lines(path: Path, records: int) -> str:
    """The block of the first records in a file, one a line.

    Raises:
        WrongUsageError: It cannot be read, or holds no record of JSON.
    """
    from sluiceway.formats.recognise import TopicContents  # noqa: PLC0415

    contents = TopicContents()
    try:
        with path.open("rb") as lines:
            for line in islice(filter(None, map(bytes.strip, lines)), records):
                contents.add(line)
    except OSError as error:
        raise WrongUsageError(f"{path} cannot be read: {error.strerror}") from error
    return contents_block(contents, [path.name])


def _of_records(
    what: str, route: str | None, bootstrap_servers: str | None, records: int, message: str | None
) -> str:
    """The block of a topic, or of the schema of a job file's route."""
    from sluiceway.formats.recognise import TopicContents  # noqa: PLC0415
    from sluiceway.sources.kafka.source import BOOTSTRAP_SERVERS  # noqa: PLC0415
    from sluiceway.sources.registry import SourceAccess  # noqa: PLC0415
    from sluiceway.sources.topic_sample import sample_payloads  # noqa: PLC0415

    if bootstrap_servers is None:
        found = _of_job(what, route, message)
        if isinstance(found, str):
            return found
        access, topics = found
    else:
        access = SourceAccess("kafka", ((BOOTSTRAP_SERVERS, bootstrap_servers),))
        topics = [what]
    contents = TopicContents()
    for payload in sample_payloads(access, topics, records):
        contents.add(payload)
    return contents_block(contents, topics)


def _of_job(
    what: str, route: str | None, message: str | None
) -> "str | tuple[SourceAccess, Sequence[str]]":
    """The block of a route's schema, or where its records of JSON are."""
    from sluiceway.audit.pick_route import job_routes, pick_route  # noqa: PLC0415
    from sluiceway.cli.job_file import load_checked_job  # noqa: PLC0415
    from sluiceway.cli.views.infer_schema import route_block  # noqa: PLC0415
    from sluiceway.observe.log import WarningsOnDemand  # noqa: PLC0415

    path = Path(what)
    if not path.suffix and not path.exists():
        raise WrongUsageError(
            f"{what} is no file; for a topic or a subject say where it is",
            hint=f"`sluiceway infer {what} --bootstrap-servers HOST:PORT`, or `--registry URL`",
        )
    spec = load_checked_job(path).spec
    config = pick_route(job_routes(spec, WarningsOnDemand()), route)
    of = next(
        each
        for each in spec.routes
        if each.route == config.route
        or (each.source.pattern and each.source.pattern == config.pattern)
    )
    block = route_block(of, config, message)
    if block is not None:
        return block
    if config.format.name not in ("json", *CHANGE_LOGS):
        raise WrongUsageError(f"route {config.route} reads {config.format.name}", hint=READS)
    return config.source, config.topics
