"""Columns and keys that a schema registry or key states: put into a route at each START."""

from dataclasses import replace

from sluiceway.errors import JobFileError, SchemaRegistryRefusedError
from sluiceway.formats.record_keys import KINDS, subject_columns
from sluiceway.formats.schema_columns import NoColumnsError
from sluiceway.formats.schema_registry.client import RegistryClient, SubjectVersion
from sluiceway.jobfile.blocks.models import RouteSpec
from sluiceway.jobfile.blocks.table import SubjectSpec, is_nested
from sluiceway.jobfile.blocks.written_columns import COLUMNS
from sluiceway.jobfile.checks.key_checks import key_column_problems
from sluiceway.jobfile.compile.choices import choice_problems
from sluiceway.jobfile.compile.compile import compile_route
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.compile.schema_formats import named_registry, registry_settings
from sluiceway.jobfile.compile.subject_changes import (
    MadeColumns,
    Misfit,
    gone_names,
    made_columns,
    where_written,
)
from sluiceway.jobfile.positions import Path
from sluiceway.route.route_context import RouteParts
from sluiceway.route.table_keys import with_table_key
from sluiceway.sinks.registry import open_sink
from sluiceway.types.evolution import Evolution

_SHOWN = 10


def with_registry_columns(config: RouteConfig, parts: RouteParts) -> tuple[RouteConfig, RouteParts]:
    """A route as it starts: with the columns of its subject now, and the key that was found.

    Called at each START. A route whose job file lists both stays as it is.

    Raises:
        SchemaRegistryUnavailableError: The registry does not answer.
        SchemaRegistryRefusedError: It refuses, or does not know the subject.
        JobFileError: The schema's fields cannot be the columns of the table.
        SluicewayError: As `with_table_key`.
    """
    keyed = with_table_key(config)
    completed = keyed
    log = parts.log.bind(job=config.job, route=config.route)
    if config.awaits_columns is not None:
        found = read_subject(config.awaits_columns, config.topics)
        completed = _completed(keyed, config.awaits_columns, found)
    if completed == config:
        return config, parts
    if config.awaits_columns is not None:
        log.info("columns_from_registry", subject=found.subject, version=found.version)
    elif completed.key is not None:
        log.info("key_columns_found", key=", ".join(completed.key.columns))
    sink = open_sink(completed.catalog, completed.table)
    parts.sink.close()
    return completed, replace(parts, sink=sink)


def registry_columns(config: RouteConfig) -> RouteConfig:
    """As `with_registry_columns`, for commands that read rows before a route starts.

    A route that has started keeps the columns that it has.
    """
    config = with_table_key(config)
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
    named = named_registry(spec)
    if named is None:
        raise JobFileError(
            "the format names no schema registry",
            where="format",
            hint="write `registry: NAME`, of a schema_registry connection",
        )
    kind, settings = KINDS[named.format], registry_settings(spec, named.connection)
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


def _completed(config: RouteConfig, spec: RouteSpec, found: SubjectVersion) -> RouteConfig:
    message = None if spec.table.subject is None else spec.table.subject.message
    try:
        fields = subject_columns(found.schema, message)
    except NoColumnsError as error:
        todo = "name another subject, or list the columns"
        raise _refused(found, spec, str(error), todo) from error
    # A schema of JSON says what may be there, and payloads are not held against it.
    made = made_columns(fields, spec.table.changes, is_open=found.schema.kind == KINDS["json"])
    _check_fields(found, spec, made)
    _check_places(found, spec, made)
    _check_key(found, spec, () if config.key is None else config.key.columns, made)
    whole = spec.model_copy(update={"table": spec.table.with_columns(tuple(made.columns))})
    _check_choices(found, whole, made)
    compiled = compile_route(whole)
    table = replace(
        config.table,
        schema=compiled.table.schema,
        partition_columns=compiled.table.partition_columns,
        adds=config.evolution is Evolution.ADD_COLUMNS,
    )
    return replace(
        config,
        columns=compiled.columns,
        choices=compiled.choices,
        table=table,
        left_out=gone_names(spec.table.changes),
    )


def _check_fields(found: SubjectVersion, spec: RouteSpec, made: MadeColumns) -> None:
    if made.misfits:
        raise _misfit(found, spec, made.misfits)
    if made.refused:
        more = f"; and {len(made.refused) - _SHOWN} more" if len(made.refused) > _SHOWN else ""
        text = f"no column holds {'; '.join(made.refused[:_SHOWN])}{more}"
        todo = (
            "leave them out or override their type or name: "
            "`columns: {from_registry: {except: [...], override: {...}}}`"
        )
        raise _refused(found, spec, text, todo)


def _check_choices(found: SubjectVersion, whole: RouteSpec, made: MadeColumns) -> None:
    """Check types, policies, values and expressions now that the fields are known."""
    problems = (where_written(problem, made.written) for problem in choice_problems(whole))
    misfits = [
        Misfit(problem.path, f"expected {problem.expected}", problem.todo) for problem in problems
    ]
    if misfits:
        raise _misfit(found, whole, misfits)


def _check_places(found: SubjectVersion, spec: RouteSpec, made: MadeColumns) -> None:
    """What the job file's own check sees of columns that are listed in it."""
    types = {column.name.lower(): column.type for column in made.columns}
    for index, part in enumerate(spec.table.partition_by):
        at = ("table", "partition_by", index)
        source = None if part.column is None else part.column.lower()
        if source is not None and source not in types:
            text = f"the table is partitioned by {part.column}, which is no field"
            raise _refused(found, spec, text, "correct partition_by", at)
        if source is not None and is_nested(types[source]):
            text = f"the table is partitioned by {part.column}, which is no plain value"
            raise _refused(found, spec, text, "correct partition_by", at)
        if part.name.lower() in types and source != part.name.lower():
            text = f"the table has a partition column {part.name}, and so is a field called"
            raise _refused(found, spec, text, "rename the partition column, or the field", at)
    for meta in spec.table.meta:
        if meta.name.lower() in types:
            text = f"the table has a meta column {meta.name}, and so is a field called"
            todo = f"name it otherwise: `meta: {{{meta.field}: NAME}}`"
            raise _refused(found, spec, text, todo, ("table", "meta"))


def _check_key(
    found: SubjectVersion, spec: RouteSpec, key: tuple[str, ...], made: MadeColumns
) -> None:
    """What the job file's own check sees of a key whose columns are listed in it."""
    columns = {column.name.lower(): column for column in made.columns}
    for name in key:
        column = columns.get(name.lower())
        if column is None:
            text = f"the key column {name} is no field"
            todo = "name another, or add it: `columns: {from_registry: {add: [...]}}`"
            raise _refused(found, spec, text, todo, ("table", "key"))
        written = column.model_dump(exclude_none=True, exclude_unset=True)
        for text, todo in key_column_problems(name, written):
            raise _refused(found, spec, text, todo, ("table", "key"))


def _misfit(found: SubjectVersion, spec: RouteSpec, misfits: list[Misfit]) -> JobFileError:
    first, *others = misfits
    if not others:
        return _refused(found, spec, first.text, first.todo, first.path)
    # Each problem is followed by what to do: as a hint at the end it would be the last one's.
    text = f"{first.text} ({first.todo})"
    for other in others[: _SHOWN - 1]:
        text += f"; {_place(spec, other.path)}: {other.text} ({other.todo})"
    if len(misfits) > _SHOWN:
        text += f"; and {len(misfits) - _SHOWN} more"
    return _refused(found, spec, text, "correct each of them", first.path)


def _refused(
    found: SubjectVersion, spec: RouteSpec, why: str, todo: str, at: Path = COLUMNS
) -> JobFileError:
    return JobFileError(
        f"the columns of the subject {found} cannot be the table's: {why}",
        where=_place(spec, at),
        hint=todo,
    )


def _place(spec: RouteSpec, at: Path) -> str:
    if spec.places is None:
        return ".".join(str(step) for step in at)
    return spec.places.place(at)
