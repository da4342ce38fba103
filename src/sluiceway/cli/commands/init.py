"""`sluiceway init`: write a commented job file from a topic and a table."""

import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluiceway.cli.own_command import from_here
from sluiceway.cli.views.init_checks import (
    check_text,
    check_typed,
    fitting,
    inner_times,
    mixed_times,
    why_no_time,
)
from sluiceway.cli.views.init_text import (
    RECORD_TIME,
    EventTime,
    JobText,
    TablePlace,
    column_lines,
    hive_place,
    time_columns,
    time_pattern,
)
from sluiceway.cli.views.proposed_columns import propose
from sluiceway.cli.views.typed_commands import typed
from sluiceway.cli.views.waiting import printed_while_waiting
from sluiceway.errors import UnhealthyEnvironmentError, WrongUsageError
from sluiceway.formats.recognise import TopicContents
from sluiceway.sources.kafka.source import BOOTSTRAP_SERVERS
from sluiceway.sources.registry import SourceAccess
from sluiceway.sources.topic_sample import sample_keys, sample_payloads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluiceway.cli.views.proposed_columns import Proposal
    from sluiceway.formats.json.survey import ProposedColumn
    from sluiceway.sinks.hive.found_table import FoundTable


app = typer.Typer()

_MOST_RECORDS = 100_000
_HOURLY = ("{name: dt, event_time: yyyyMMdd}", "{name: hr, event_time: HH}")
_BY_RECORD = "no field looks like a time: hours are by the queue's own time of a record"
_BY_QUEUE = (
    "note: hours are by the queue's own time of a record ($record_time), not by a field of the "
    "rows; `--event-time FIELD` names one"
)

_Metastore = Annotated[
    str | None,
    typer.Option(
        "--metastore",
        envvar="SLUICEWAY_METASTORE",
        help="thrift://host:port.",
        show_default=False,
    ),
]
_Catalog = Annotated[
    str | None,
    typer.Option(
        "--iceberg",
        metavar="CATALOG",
        help="For a lake table: sqlite:////PATH, http://HOST of a REST catalog, or "
        "thrift://HOST:PORT of a metastore.",
        show_default=False,
    ),
]
_Warehouse = Annotated[
    str | None,
    typer.Option(
        "--warehouse",
        metavar="URI",
        help="Where the catalog's tables are: file:///DIR, s3a://, hdfs://.",
        show_default=False,
    ),
]
_Key = Annotated[
    str | None,
    typer.Option(
        "--key",
        metavar="COLUMNS",
        help="Of a lake table, by comma: each row replaces the older one of its key. "
        "from_topic_key: what the records' own keys name.",
        show_default=False,
    ),
]


@app.command()
def init(  # noqa: PLR0913, PLR0917 - the command's options
    topic: Annotated[str | None, typer.Argument(help="A Kafka topic.", show_default=False)] = None,
    bootstrap_servers: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-servers",
            envvar="SLUICEWAY_KAFKA",
            help="Brokers, host:port.",
            show_default=False,
        ),
    ] = None,
    metastore: _Metastore = None,
    iceberg: _Catalog = None,
    warehouse: _Warehouse = None,
    key: _Key = None,
    table: Annotated[
        str | None,
        typer.Option("--table", help="database.table; may exist already.", show_default=False),
    ] = None,
    event_time: Annotated[
        str | None,
        typer.Option(
            "--event-time", help="The field that says when a row happened.", show_default=False
        ),
    ] = None,
    registry: Annotated[
        str | None,
        typer.Option("--registry", metavar="URL", help="Of schemas.", show_default=False),
    ] = None,
    ready: Annotated[
        bool, typer.Option("--ready", help="Show an hour to readers when it is complete.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="The file; the topic's name otherwise.", show_default=False),
    ] = None,
    records: Annotated[
        int, typer.Option("--records", min=1, max=_MOST_RECORDS, help="How many to look at.")
    ] = 1_000,
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing.")] = False,
) -> None:
    """Read a topic and a table, and write a job file that is valid and can be run.

    Asks on a terminal for what is not given. Columns are proposed from records, as `infer` does, or
    come from a table that exists. Decisions for a person stand in comments. Nothing but the file is
    written, and no existing file is replaced.

    $ sluiceway init
    $ sluiceway init orders --bootstrap-servers k1:9092 --metastore thrift://hms:9083 \
--table ods.orders
    $ sluiceway init cdc.shop.orders --bootstrap-servers k1:9092 --iceberg http://catalog:8181 \
--key id
    """
    ask = _Asker(may_ask=not yes and sys.stdin.isatty() and sys.stderr.isatty())
    brokers = ask.text("--bootstrap-servers", "Kafka brokers, host:port", bootstrap_servers)
    name = ask.text("TOPIC", "topic", topic)
    place, uri = _table_place(ask, metastore, iceberg, warehouse, key)
    file = _target(out, name)
    asked = _RequestedJob(
        brokers, name, place, uri, table, event_time, registry or "", ready, key or ""
    )
    job = _job_text(asked, records, ask)
    _write(file, job.text())
    shown = from_here(file.absolute())
    lines = [_BY_QUEUE] if job.time == RECORD_TIME else []
    lines += [f"wrote {shown}; next:"]
    lines += [f"  {typed(f'sluiceway {verb} JOB', shown)}" for verb in ("plan", "preview", "run")]
    sys.stdout.write("\n".join([*lines, ""]))


@dataclass(frozen=True, slots=True)
class _RequestedJob:
    """What the options give; None is still to be found.

    Attributes:
        metastore: URI of a Hive table's metastore, whose columns are read; empty for a lake table.
        key: The text of the option; empty without one.
    """

    brokers: str
    topic: str
    place: TablePlace
    metastore: str
    table: str | None
    event_time: str | None
    registry: str
    ready: bool
    key: str


def _table_place(
    ask: "_Asker",
    metastore: str | None,
    iceberg: str | None,
    warehouse: str | None,
    key: str | None,
) -> tuple[TablePlace, str]:
    """The place of the table, and the metastore of a Hive table."""
    if iceberg is None:
        for option, given in (("--warehouse", warehouse), ("--key", key)):
            if given is not None:
                raise WrongUsageError(
                    f"{option} is about a lake table", hint="say its catalog: --iceberg CATALOG"
                )
        uri = ask.text("--metastore", "Hive Metastore, thrift://host:port", metastore)
        return hive_place(uri), uri
    from sluiceway.cli.views.init_lake import lake_place  # noqa: PLC0415

    return lake_place(iceberg, warehouse), ""


def _job_text(asked: _RequestedJob, records: int, ask: "_Asker") -> JobText:
    """The job file for the topic and the table as they are now."""
    from sluiceway.cli.commands.init import read_topic  # noqa: PLC0415
    from sluiceway.sinks.hive.found_table import read_table  # noqa: PLC0415

    if asked.key and (asked.ready or asked.event_time is not None):
        raise WrongUsageError(
            "a table with a key has no hours that are complete: its rows are replaced",
            hint="leave out --ready and --event-time, or --key",
        )
    usual = f"ods.{_identifier(asked.topic)}"
    job = _named(asked, asked.table or usual)
    check_typed(job)
    with printed_while_waiting(f"brokers {asked.brokers}"):
        contents = read_topic(asked.brokers, asked.topic, records)
    target = ask.text("--table", "table, database.table", asked.table, default=usual)
    if target != job.table:
        job = replace(job, table=target)
        check_typed(job)
    found = None
    if asked.metastore:
        with printed_while_waiting(f"metastore {asked.metastore}"):
            found = read_table(asked.metastore, target)
    if asked.key:
        return _keyed(job, contents, asked.key)
    job = _of_contents(job, contents, found, asked.event_time, ask)
    if asked.metastore or asked.ready:
        return job
    from sluiceway.cli.views.init_lake import by_transform  # noqa: PLC0415

    return by_transform(job)


def _named(asked: _RequestedJob, table: str) -> JobText:
    """The job from the options alone, with defaults for format, columns and times."""
    return JobText(
        name=_identifier(asked.topic)[:64],
        bootstrap_servers=asked.brokers,
        place=asked.place,
        topic=asked.topic,
        table=table,
        format_line="format: {json: {unknown_fields: ignore}}",
        columns=(),
        partitions=_HOURLY,
        time=RECORD_TIME,
        registry=asked.registry,
        announce=asked.ready,
    )


def _keyed(job: JobText, contents: "TopicContents", key: str) -> JobText:
    """The job of a lake table with a key, whose rows are replaced."""
    from sluiceway.cli.commands.init import read_topic_keys  # noqa: PLC0415
    from sluiceway.cli.views.init_lake import keyed_by_registry, keyed_rows  # noqa: PLC0415

    if contents.is_binary:
        return keyed_by_registry(_of_registry(job, contents), key)
    job, proposal = _of_records(job, contents)
    with printed_while_waiting(f"brokers {job.bootstrap_servers}"):
        keys = read_topic_keys(job.bootstrap_servers, job.topic)
    return keyed_rows(job, contents.change_log, proposal, key, keys)


class _Asker:
    """Asks for what is not given, where a person can answer.

    Args:
        may_ask: Whether a person can answer.
    """

    def __init__(self, *, may_ask: bool) -> None:
        self.may_ask = may_ask

    def text(self, option: str, what: str, given: str | None, default: str = "") -> str:
        """A text; without a person to ask, the default.

        Raises:
            WrongUsageError: It is missing, has no default, and no person can be asked.
        """
        if given is not None:
            return given
        if self.may_ask:
            return str(typer.prompt(what, default=default or None, err=True))
        if default:
            return default
        raise WrongUsageError(
            f"{option} is missing, and no person can be asked here",
            hint="`sluiceway init --help` lists what it takes",
        )


def _of_contents(
    job: JobText,
    contents: "TopicContents",
    found: "FoundTable | None",
    event_time: str | None,
    ask: _Asker,
) -> JobText:
    """The job with format, columns, partitions and event time."""
    if contents.is_binary:
        job = _of_registry(job, contents).with_notes(_BY_RECORD)
    else:
        job, proposal = _of_records(job, contents)
        time = _event_time(proposal.columns, found, event_time, ask)
        if found is None and time == RECORD_TIME:
            job = job.with_notes(_by_record(proposal.columns))
        lines = column_lines(proposal, time)
        # A declared column gives its own unit; a field inside of one cannot.
        told = time if found is not None or time.is_inner else replace(time, unit="")
        job = replace(job, columns=("columns:", *lines), time=told)
    return job if found is None else _of_table(job, contents, found, job.time or RECORD_TIME)


def _by_record(columns: "Sequence[ProposedColumn]") -> str:
    inner = inner_times(columns)
    if time_columns(columns):
        return "hours are by the queue's own time of a record"
    if inner:
        return f"hours are by the queue's own time of a record, or --event-time {inner[0].field}"
    return _BY_RECORD


def _of_records(job: JobText, contents: "TopicContents") -> "tuple[JobText, Proposal]":
    """The job with the format that its records have, and the columns that they propose.

    Raises:
        WrongUsageError: As `propose`; or a registry is needed and not named.
    """
    proposal = propose(contents, [job.topic])
    job = replace(job, notes=proposal.heading)
    if proposal.format_options:
        options = _with_registry(job, proposal.format_options)
        job = replace(job, format_line=f"format: {{{options}}}")
    return job, proposal


def _of_registry(job: JobText, contents: "TopicContents") -> JobText:
    """Avro or Protobuf: the registry has their columns.

    Raises:
        WrongUsageError: The registry is not named.
    """
    if not job.registry:
        ids = ", ".join(map(str, sorted(contents.schema_ids)[:3])) or "GUIDs"
        raise WrongUsageError(
            f"the records of {job.topic} are Avro or Protobuf, schema {ids} of a registry",
            hint="say where it is: --registry http://HOST:PORT",
        )
    from sluiceway.formats.schema_registry.client import RegistryClient  # noqa: PLC0415
    from sluiceway.formats.schema_registry.settings import RegistrySettings  # noqa: PLC0415

    subject = RegistryClient(RegistrySettings(job.registry)).of_subject(f"{job.topic}-value")
    kind = "protobuf" if subject is not None and subject.schema.kind == "PROTOBUF" else "avro"
    return replace(
        job,
        format_line=f"format: {{{kind}: {{registry: registry}}}}",
        columns=("columns: from_registry # At each start, those of the newest schema.",),
    )


def _with_registry(job: JobText, options: str) -> str:
    """The format's options, with the name of the registry's connection."""
    if "REGISTRY" in options and not job.registry:
        raise WrongUsageError(
            f"the records of {job.topic} are JSON with the header of a schema registry",
            hint="say where it is: --registry http://HOST:PORT",
        )
    return options.replace("REGISTRY", "registry")


def _event_time(
    columns: "Sequence[ProposedColumn]",
    found: "FoundTable | None",
    wanted: str | None,
    ask: _Asker,
) -> EventTime:
    held = None if found is None else found.columns
    proposed = [
        *fitting(time_columns(columns), columns, held),
        RECORD_TIME,
        *fitting(inner_times(columns), columns, held),
    ]
    known = {each.field: each for each in proposed}
    shown = ", ".join(known)
    mixed = fitting(mixed_times(columns), columns, held)
    if wanted is None and not ask.may_ask:
        _check_sure(proposed, mixed)
    chosen = ask.text(
        "--event-time",
        f"the field that says when a row happened ({shown})",
        wanted,
        default=next(iter(known)),
    )
    # A field with some values that are no times is used on request, and not proposed.
    asked = {each.field: each for each in mixed} | known
    if chosen not in asked:
        raise WrongUsageError(why_no_time(columns, chosen, held), hint=f"these can: {shown}")
    return asked[chosen]


def _check_sure(proposed: "Sequence[EventTime]", mixed: "Sequence[EventTime]") -> None:
    """Refuse to choose the queue's time where numbers of the rows look like times.

    Args:
        proposed: Possible event times, the best first.
        mixed: Fields of which some values are no times.

    Raises:
        WrongUsageError: Names the fields.
    """
    if proposed[0] != RECORD_TIME:
        return
    like = [each.field for each in (*proposed, *mixed) if each.unit]
    if like:
        raise WrongUsageError(
            f"what says when a row happened? {', '.join(like)} may be times, and the queue has "
            "its own time of a record; no person can be asked here",
            hint=f"say it: --event-time {like[0]}, or --event-time '{RECORD_TIME.field}'",
        )


def _of_table(
    job: JobText, contents: "TopicContents", found: "FoundTable", time: EventTime
) -> JobText:
    """The job for an existing table: with its columns and partition columns."""
    held = {name.lower(): kind for name, kind in found.columns.items()}
    keys = {column.name.lower() for column in contents.plain.columns()}
    partitions = []
    for column in found.partition_columns:
        pattern = time_pattern(column, found.values.get(column))
        if pattern is not None:
            partitions.append(f"{{name: {column}, event_time: {pattern}}}")
        elif column in keys | set(held):
            partitions.append(f"{{name: {column}, column: {column}}}")
        else:
            raise WrongUsageError(
                f"nothing shows how the partition column {column} of {job.table} is made",
                hint="write the job file by hand, docs/guides/job-file.md, or name another table",
            )
    meta = [name for name in ("_topic", "_partition", "_offset", "_timestamp") if name in held]
    by_time = any("event_time" in each for each in partitions)
    unfilled = sorted(set(held) - keys - set(meta))
    notes = [f"columns of {job.table} that records do not have: {', '.join(unfilled)}"]
    return replace(
        job,
        columns=("columns: from_table",),
        partitions=tuple(partitions),
        time=time if by_time else None,
        meta=tuple(name.removeprefix("_") for name in meta),
    ).with_notes(*(notes if unfilled else ()))


def _identifier(topic: str) -> str:
    """A topic's name as a table name."""
    text = re.sub(r"\W+", "_", topic, flags=re.ASCII).strip("_").lower() or "events"
    return text if not text[0].isdigit() else f"t_{text}"


def _target(out: Path | None, topic: str) -> Path:
    place = out or Path(f"{_identifier(topic)}.yaml")
    if place.exists():
        raise WrongUsageError(f"{place} is there already", hint="name another file: --out FILE")
    return place


def _write(place: Path, text: str) -> None:
    """Write the file, after a check that it is valid.

    Raises:
        WrongUsageError: A typed value fits in no job file.
        JobFileError: A value that was found fits in no job file.
        UnhealthyEnvironmentError: It cannot be written.
    """
    check_text(text, place)
    try:
        with place.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UnhealthyEnvironmentError(
            f"cannot be written: {error.strerror}",
            where=str(place),
            hint="name another: --out FILE",
        ) from error


_KEYS = 200


def read_topic(bootstrap_servers: str, topic: str, records: int) -> TopicContents:
    """Read some records of a topic; commits and joins nothing.

    Raises:
        TopicNotFoundError: There is no such topic.
        SourceUnavailableError: The brokers do not answer.
    """
    contents = TopicContents()
    for payload in sample_payloads(_access(bootstrap_servers), [topic], records):
        contents.add(payload)
    return contents


def read_topic_keys(bootstrap_servers: str, topic: str) -> list[bytes | None]:
    """Keys of some records of a topic; raises as `read_topic`."""
    return list(sample_keys(_access(bootstrap_servers), [topic], _KEYS))


def _access(bootstrap_servers: str) -> SourceAccess:
    return SourceAccess("kafka", ((BOOTSTRAP_SERVERS, bootstrap_servers),))
