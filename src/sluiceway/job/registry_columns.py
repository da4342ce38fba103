"""Columns that a schema registry says: put into a route each time it starts."""

from dataclasses import replace

from sluiceway.errors import JobFileError, SchemaRegistryRefusedError
from sluiceway.formats.schema_columns import NoColumnsError, SchemaColumn
from sluiceway.formats.schema_registry.client import RegistryClient, SubjectVersion
from sluiceway.formats.schema_registry.settings import RegistrySettings
from sluiceway.formats.subject_columns import KINDS, subject_columns
from sluiceway.job.compile import compile_route
from sluiceway.job.config import RouteConfig
from sluiceway.job.route_parts import RouteParts
from sluiceway.job.schema_formats import registry_settings
from sluiceway.sinks.registry import open_sink
from sluiceway.spec.columns import ColumnSpec
from sluiceway.spec.models import RouteSpec, SubjectSpec
from sluiceway.types.dirty import shown
from sluiceway.types.hive_types import MAX_TEXT_LENGTH, format_hive_type
from sluiceway.types.schema import ListType, MapType, StructType

_SHOWN = 10
_SHOWN_CHARS = 130


def with_registry_columns(config: RouteConfig, parts: RouteParts) -> tuple[RouteConfig, RouteParts]:
    """A route as it starts: with the columns that its subject has now.

    Called at each START. A route whose columns are not a registry's stays as it is.

    Raises:
        SchemaRegistryUnavailableError: The registry does not answer.
        SchemaRegistryRefusedError: It refuses, or does not know the subject.
        JobFileError: The schema's fields cannot be the columns of the table.
    """
    if config.awaits_columns is None:
        return config, parts
    found = read_subject(config.awaits_columns, config.topics)
    completed = _completed(config, config.awaits_columns, found)
    if completed == config:
        return config, parts
    log = parts.log.bind(job=config.job, route=config.route)
    log.info("columns_from_registry", subject=found.subject, version=found.version)
    sink = open_sink(completed.catalog, completed.hive)
    parts.sink.close()
    return completed, replace(parts, sink=sink)


def registry_columns(config: RouteConfig) -> RouteConfig:
    """As `with_registry_columns`, for those who look at rows before a route starts.

    A route that has started keeps the columns that it has.
    """
    if config.awaits_columns is None or config.columns is not None:
        return config
    found = read_subject(config.awaits_columns, config.topics)
    return _completed(config, config.awaits_columns, found)


def read_subject(spec: RouteSpec, topics: tuple[str, ...]) -> SubjectVersion:
    """The schema that says a route's columns, as the registry has it now.

    Args:
        spec: The route; its format names a registry.
        topics: What it reads.

    Raises:
        SchemaRegistryUnavailableError: The registry does not answer.
        SchemaRegistryRefusedError: It refuses, or does not know the subject.
        JobFileError: The job file does not say which subject.
    """
    kind, settings = _registry(spec)
    wanted = spec.table.subject or SubjectSpec()
    if wanted.name is None and len(topics) != 1:
        raise JobFileError(
            f"the route reads {len(topics)} topics, and no subject is named",
            where="table.subject",
            hint="write `subject: {name: NAME}`",
        )
    name = wanted.name or f"{topics[0]}-value"
    found = RegistryClient(settings).of_subject(name, wanted.version)
    if found is None:
        version = "" if wanted.version is None else f" version {wanted.version}"
        raise SchemaRegistryRefusedError(
            f"the schema registry does not know the subject {name}{version}",
            where=settings.url,
            hint="register it, or name another one: table.subject.name",
        )
    if found.schema.kind != kind:
        raise SchemaRegistryRefusedError(
            f"the subject {found} is {found.schema.kind}, and the format reads {kind}",
            where=settings.url,
            hint="name another one: table.subject.name",
        )
    return found


def _registry(spec: RouteSpec) -> tuple[str, RegistrySettings]:
    """What the registry calls the format's schemas, and the registry."""
    formats = {
        "avro": spec.format.avro,
        "protobuf": spec.format.protobuf,
        "json": spec.format.json_,
    }
    for name, block in formats.items():
        if block is not None and block.registry is not None:
            return KINDS[name], registry_settings(spec, block.registry)
    raise JobFileError(
        "the format names no schema registry",
        where="format",
        hint="write `registry: NAME`, of a schema_registry connection",
    )


def _completed(config: RouteConfig, spec: RouteSpec, found: SubjectVersion) -> RouteConfig:
    message = None if spec.table.subject is None else spec.table.subject.message
    try:
        columns = subject_columns(found.schema, message)
    except NoColumnsError as error:
        raise _refused(found, str(error), "name another subject, or list the columns") from error
    _check_types(found, columns)
    _check_places(found, columns, spec)
    declared = tuple(
        ColumnSpec(name=column.name, type=format_hive_type(column.type))
        for column in columns
        if column.type is not None
    )
    table = spec.table.model_copy(update={"columns": declared})
    made = compile_route(spec.model_copy(update={"table": table}))
    hive = replace(
        config.hive, schema=made.hive.schema, partition_columns=made.hive.partition_columns
    )
    return replace(config, columns=made.columns, choices=made.choices, hive=hive)


def _check_types(found: SubjectVersion, columns: tuple[SchemaColumn, ...]) -> None:
    refused = [
        f"{shown(column.name, _SHOWN_CHARS)[1:-1]}: {why}"
        for column in columns
        if (why := column.refused or _too_long(column))
    ]
    if refused:
        more = f"; and {len(refused) - _SHOWN} more" if len(refused) > _SHOWN else ""
        raise _refused(
            found,
            f"no column type holds {'; '.join(refused[:_SHOWN])}{more}",
            "list the columns in the job file; `sluiceway infer JOB` prints them",
        )


def _too_long(column: SchemaColumn) -> str:
    """Why the text of a type can be no column's; empty when it can."""
    length = 0 if column.type is None else len(format_hive_type(column.type))
    limit = f"has {length:,} characters, of {MAX_TEXT_LENGTH:,} that a type can have"
    return f"its type {limit}" if length > MAX_TEXT_LENGTH else ""


def _check_places(
    found: SubjectVersion, columns: tuple[SchemaColumn, ...], spec: RouteSpec
) -> None:
    """What the job file's own check sees of columns that are listed in it."""
    types = {column.name.lower(): column.type for column in columns}
    for part in spec.table.partition_by:
        source = None if part.column is None else part.column.lower()
        if source is not None and source not in types:
            text = f"the table is partitioned by {part.column}, which is no field"
            raise _refused(found, text, "correct partition_by")
        if source is not None and isinstance(types[source], ListType | MapType | StructType):
            text = f"the table is partitioned by {part.column}, which is no plain value"
            raise _refused(found, text, "correct partition_by")
        if part.name.lower() in types and source != part.name.lower():
            text = f"the table has a partition column {part.name}, and so is a field called"
            raise _refused(found, text, "rename the partition column")
    for meta in spec.table.meta:
        if meta.name.lower() in types:
            text = f"the table has a meta column {meta.name}, and so is a field called"
            raise _refused(found, text, f"name it otherwise: `meta: {{{meta.field}: NAME}}`")


def _refused(found: SubjectVersion, why: str, todo: str) -> JobFileError:
    return JobFileError(
        f"the columns of the subject {found} cannot be the table's: {why}",
        where="table.columns: from_registry",
        hint=todo,
    )
