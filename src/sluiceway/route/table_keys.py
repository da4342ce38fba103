"""Keys that a registry or the topic says: put into a route each time it starts.

A table that exists has said its key: its identifier fields. Later records decide nothing then. So a
route goes on although its topic is empty by now, or its registry is down.
"""

from collections.abc import Iterable
from dataclasses import replace

from sluiceway.errors import (
    JobFileError,
    KeyNotToldError,
    SchemaRegistryRefusedError,
    TableMismatchError,
)
from sluiceway.formats.record_keys import MAXWELL_PREFIX, key_fields, schema_fields
from sluiceway.formats.schema_registry.client import RegistryClient
from sluiceway.jobfile.blocks.models import RouteSpec
from sluiceway.jobfile.blocks.table import FROM_REGISTRY
from sluiceway.jobfile.checks.key_checks import key_column_problems
from sluiceway.jobfile.compile.compile import compile_route
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.compile.schema_formats import key_registry, registry_settings
from sluiceway.sources.topic_sample import sample_keys
from sluiceway.types.key_path import path_keys

_SAMPLE = 200
_HINT = "list the columns: `key: [id]`"


def with_table_key(config: RouteConfig) -> RouteConfig:
    """A route with the columns of its key, where the job file does not list them.

    Raises:
        KeyNotToldError: No record of its topics has a key yet.
        SchemaRegistryUnavailableError: The registry does not answer.
        SchemaRegistryRefusedError: It refuses, or does not know the keys' subject.
        SourceUnavailableError: The brokers do not answer.
        JobFileError: What the keys hold cannot be the table's key.
        TableMismatchError: The table exists and has another key.
    """
    spec = config.awaits_key
    if spec is None or (config.key is not None and config.key.columns):
        return config
    held = _held_key(config)
    by_registry = spec.table.key_origin == FROM_REGISTRY
    key = held
    if by_registry or not held:
        fields = _registered(spec, config.topics) if by_registry else _sampled(spec, config)
        key = _columns(spec, fields)
        if held and sorted(map(str.lower, held)) != sorted(map(str.lower, key)):
            raise TableMismatchError(
                f"the source's key is {', '.join(key)}, the table's is {', '.join(held)}",
                where=f"{config.table.database}.{config.table.table}",
                hint="fill a new table, under another route name",
            )
    compiled = compile_route(spec.model_copy(update={"table": spec.table.with_key(key)}))
    return _with_key_of(config, compiled)


def _with_key_of(config: RouteConfig, compiled: RouteConfig) -> RouteConfig:
    return replace(
        config,
        key=compiled.key,
        format=compiled.format,
        table=replace(config.table, lake=compiled.table.lake),
    )


def _held_key(config: RouteConfig) -> tuple[str, ...]:
    """Identifier fields of the table; none where it is not there, or has none."""
    # Clients of lake catalogs take a second to import, and most routes need none.
    from sluiceway.sinks.iceberg.identifier_key import identifier_key  # noqa: PLC0415

    return identifier_key(config.table, dict(config.catalog.options))


def _registered(spec: RouteSpec, topics: tuple[str, ...]) -> tuple[str, ...]:
    """Fields of the newest key schema, which all topics have alike."""
    registry = key_registry(spec)
    if registry is None:
        raise JobFileError("the format names no schema registry", where="format", hint=_HINT)
    settings = registry_settings(spec, registry)
    client = RegistryClient(settings)
    told: dict[str, tuple[str, ...]] = {}
    for topic in topics:
        subject = f"{topic}-key"
        found = client.of_subject(subject)
        if found is None:
            raise SchemaRegistryRefusedError(
                f"the schema registry does not know the subject {subject}",
                where=settings.url,
                hint=f"have the connector write a record first, or {_HINT}",
            )
        told[subject] = schema_fields(found.schema)
    return _alike(told.items())


def _sampled(spec: RouteSpec, config: RouteConfig) -> tuple[str, ...]:
    """Fields of the keys of some records, which all have alike."""
    registry = key_registry(spec)
    client = None if registry is None else RegistryClient(registry_settings(spec, registry))
    prefix = "" if spec.format.maxwell is None else MAXWELL_PREFIX
    told: dict[bytes, tuple[str, ...]] = {}
    for key in sample_keys(config.source, config.topics, _SAMPLE):
        if key:
            schema_of = None if client is None else client.schema_of_id
            # Keys of one schema begin alike; each is asked of the registry once.
            mark = key if client is None else key[: 17 if key.startswith(b"\1") else 5]
            if mark not in told:
                told[mark] = key_fields(key, prefix=prefix, schema_of=schema_of)
    if not told:
        raise KeyNotToldError(
            "no record has a key yet that says the table's",
            where=", ".join(config.topics),
            hint=f"waits for the first record; or {_HINT}",
        )
    return _alike((f"the key {mark[:60]!r}", fields) for mark, fields in told.items())


def _alike(told: Iterable[tuple[str, tuple[str, ...]]]) -> tuple[str, ...]:
    first: tuple[str, tuple[str, ...]] | None = None
    for who, fields in told:
        if not fields:
            raise _refused(f"{who} has no fields")
        if first is not None and set(fields) != set(first[1]):
            shown = f"{who} has {', '.join(fields)}, {first[0]} has {', '.join(first[1])}"
            raise _refused(f"not all have the same fields: {shown}")
        first = first or (who, fields)
    return () if first is None else first[1]


def _columns(spec: RouteSpec, fields: tuple[str, ...]) -> tuple[str, ...]:
    """The columns that read the fields of the key, as the job file calls them."""
    if spec.table.columns is None:
        return fields
    by_field = {path_keys(column.path or column.name)[-1]: column for column in spec.table.columns}
    key = []
    for field in fields:
        column = by_field.get(field)
        if column is None:
            raise _refused(f"no column reads its field {field}")
        written = column.model_dump(exclude_none=True, exclude_unset=True)
        for text, _ in key_column_problems(column.name, written):
            raise _refused(text)
        key.append(column.name)
    return tuple(key)


def _refused(why: str) -> JobFileError:
    return JobFileError(
        f"the key of the records cannot be the table's: {why}", where="table.key", hint=_HINT
    )
