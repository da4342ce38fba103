"""Tables of the cases, as tasks write them: by each way to columns and each format."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table import Table
from pyiceberg.typedef import Record
from pyiceberg.types import NestedField

from logical_types.cases import Case
from logical_types.encodings import (
    avro_row,
    avro_schema,
    change,
    column_names,
    proto_row,
    proto_schema,
)
from sluiceway.cli.views.proposed_columns import propose
from sluiceway.formats.recognise import TopicContents
from sluiceway.formats.record_keys import subject_columns
from sluiceway.formats.registry import FormatChoice, open_decoder
from sluiceway.formats.schema_registry.client import RegisteredSchema
from sluiceway.jobfile.compile.compile import compile_route
from sluiceway.route.columns_to_add import ColumnsToAdd, merged_fields, state_with
from sluiceway.sinks.contract import TableIdentity, TableState
from sluiceway.sinks.files.contract import PARQUET_FILES, FileChoice
from sluiceway.sinks.files.field_ids import FIELD_IDS, INSTANTS, ids_setting, instants_setting
from sluiceway.sinks.iceberg.column_types import field_ids, to_iceberg
from sluiceway.sinks.iceberg.data_files import PlacedFile, data_file, read_footer
from sluiceway.sources.contract import SourcePartition, Split
from sluiceway.storage.registry import open_storage
from sluiceway.types.hive_types import format_hive_type, parse_hive_type
from sluiceway.types.policy import Policy
from sluiceway.types.schema import Field, IntegerType, Schema
from sluiceway.worker.pipeline import RowPipeline, Written
from sluiceway.worker.plan import RoutePlan, TaskPlan
from sluiceway.worker.write_behind import WriteBehind
from tools.evolution_jobs import evolution_route
from tools.registry_server import registry_server
from tools.small_task import MadeBatch, route_plan

WAYS = ("add_columns", "infer", "declared")
FORMATS = ("JSON", "Avro", "Protobuf")
ID = Field("id", IntegerType(64))


@dataclass(frozen=True, slots=True)
class Source:
    """The cases in one format.

    Attributes:
        format: One of `FORMATS`.
        choice: How a route reads it.
        payloads: One a case.
        schema: Of the payloads in a registry; None of JSON, which has it inside.
    """

    format: str
    choice: FormatChoice
    payloads: tuple[bytes, ...]
    schema: RegisteredSchema | None


@dataclass(slots=True)
class WrittenTable:
    """A table of one way and one format.

    Attributes:
        name: Of the table.
        columns: That it has, after `id`.
        dirty: Row -> why it was put aside.
        refused: Row -> why it has no column.
        hive: Folder of its Parquet files.
        lake: The same rows in Iceberg.
    """

    name: str
    columns: tuple[Field, ...]
    dirty: dict[int, str]
    refused: dict[int, str]
    hive: Path
    lake: Table


@dataclass(slots=True)
class _Columns:
    fields: list[Field] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)


@contextmanager
def sources(cases: Sequence[Case]) -> Iterator[list[Source]]:
    """The cases in each format."""
    names = column_names(cases)
    both = list(zip(cases, names, strict=True))
    avro, proto = avro_schema(cases), proto_schema(cases)
    with ExitStack() as stack:
        registry = stack.enter_context(registry_server())
        head = b"\0" + registry.add("rows-value", proto, kind="PROTOBUF").to_bytes(4, "big") + b"\0"
        options = (("registry.url", registry.url), ("registry.unknown_wait_ms", "0"))
        yield [
            Source("JSON", FormatChoice("debezium"), tuple(change(*of) for of in both), None),
            Source(
                "Avro",
                FormatChoice("avro", (("schema", avro),)),
                tuple(avro_row(avro, *of) for of in both),
                RegisteredSchema("AVRO", avro),
            ),
            Source(
                "Protobuf",
                FormatChoice("protobuf", options),
                tuple(head + proto_row(*of) for of in both),
                RegisteredSchema("PROTOBUF", proto),
            ),
        ]


def write_table(
    way: str, source: Source, cases: Sequence[Case], folder: Path, catalog: SqlCatalog
) -> WrittenTable:
    """Write the rows that can be, into a folder for Hive and into a table of Iceberg."""
    name = f"{way}_{source.format.lower()}"
    if way == "declared":
        found = _declared(source, cases)
    elif source.schema is None:
        found = _added(source, cases, folder) if way == "add_columns" else _inferred(source, cases)
    else:
        found = _of_schema(source.schema, cases, as_text=way == "infer")
    fields = tuple(found.fields)
    schema = Schema((ID, *fields))
    decoded = open_decoder(source.choice, schema).decode(list(source.payloads))
    dirty = {row.index: row.reason.value for row in decoded.dirty}
    hive = folder / name
    hive.mkdir(parents=True)
    for file in _write(folder, source, schema, PARQUET_FILES)[1]:
        shutil.copy(file, hive)
    lake = _lake_table(name, source, schema, folder, catalog)
    left = {row: why for row, why in found.refused.items() if row not in dirty}
    return WrittenTable(name, fields, dirty, left, hive, lake)


def _declared(source: Source, cases: Sequence[Case]) -> _Columns:
    found = _Columns()
    for name, case in zip(column_names(cases), cases, strict=True):
        # Text of JSON has to say how it holds bytes.
        form = "base64" if source.format == "JSON" and "binary" in case.column else None
        policy = Policy(timezone=case.settings.get("timezone"), format=form)
        found.fields.append(Field(name, parse_hive_type(case.column), policy=policy))
    return found


def _inferred(source: Source, cases: Sequence[Case]) -> _Columns:
    """What `infer` proposes for a topic that holds these."""
    contents = TopicContents()
    for payload in source.payloads:
        contents.add(payload)
    proposed = {each.name: each for each in propose(contents, ["rows"]).columns}
    found = _Columns()
    for row, name in enumerate(column_names(cases)):
        each = proposed[name]
        if not each.type:
            found.refused[row] = "; ".join(each.doubts)
            continue
        try:
            kind = parse_hive_type(each.type)
        except ValueError as error:
            found.refused[row] = str(error)
            continue
        policy = Policy(
            on_lossy="text" if each.as_text else "dirty", timezone="UTC" if each.zoned else None
        )
        found.fields.append(Field(name, kind, policy=policy))
    return found


def _of_schema(schema: RegisteredSchema, cases: Sequence[Case], *, as_text: bool) -> _Columns:
    """What `columns: from_registry` takes, or `infer` prints."""
    message = "Row" if schema.kind == "PROTOBUF" else None
    columns = {each.name: each for each in subject_columns(schema, message, meant=as_text)}
    found = _Columns()
    for row, name in enumerate(column_names(cases)):
        each = columns[name]
        if each.type is not None:
            policy = Policy(timezone="UTC" if each.is_clock else None)
            found.fields.append(Field(name, each.type, policy=policy))
        elif as_text and each.as_text:
            text = Policy(on_lossy="text")
            found.fields.append(Field(name, parse_hive_type("string"), policy=text))
        else:
            found.refused[row] = each.refused
    return found


def _added(source: Source, cases: Sequence[Case], folder: Path) -> _Columns:
    """What a route adds that begins with a table of one column."""
    config = compile_route(evolution_route("evolution: add_columns", "{debezium: {}}"))
    source = replace(source, choice=config.format)
    identity = TableIdentity("hms", "ods", "small", 1, "/t")
    state = TableState(
        identity, Schema((ID,)), (), None, PARQUET_FILES, columns=(("id", "bigint"),)
    )
    refused: dict[tuple[str, tuple[str, ...]], str] = {}
    for _ in range(2):
        schema = Schema((*state.schema.fields, *state.further))
        plan, _, written = _run(folder, source, schema, PARQUET_FILES, samples="dirty")
        wanted = ColumnsToAdd(config, plan, state)
        wanted.add(merged_fields(written.unknown_fields), ())
        refused = {**wanted.refused, **wanted.unfit}
        columns = [each.column for each in wanted.desired.values()]
        state = state_with(state, columns, declared=True)
    told = {path[-1]: why for (_, path), why in refused.items()}
    rows = {row: told[name] for row, name in enumerate(column_names(cases)) if name in told}
    return _Columns(list(state.further), rows)


_NUMBERS = count(1)


def _run(
    folder: Path, source: Source, schema: Schema, files: FileChoice, **more: object
) -> tuple[RoutePlan, Path, Written]:
    """A task over the payloads."""
    root = folder / f"run-{next(_NUMBERS)}"
    plan = route_plan(
        str(root),
        event_time=None,
        partitions=(),
        format=source.choice,
        schema=schema,
        files=files,
        **more,
    )
    storage, _ = open_storage(str(root))
    storage.make_folders(plan.layout.stage)
    writes = WriteBehind()
    offsets = list(range(len(source.payloads)))
    batch = MadeBatch(0, list(source.payloads), offsets)
    splits = (Split(SourcePartition("orders", 0), 0, None),)
    pipeline = RowPipeline(TaskPlan(plan, 1, 0, splits, 600.0), storage, writes.lane())
    try:
        pipeline.write([batch])
        written = pipeline.close()
    finally:
        writes.close()
    return plan, Path(plan.layout.stage), written


def _write(
    folder: Path, source: Source, schema: Schema, files: FileChoice
) -> tuple[Written, list[Path]]:
    _, stage, written = _run(folder, source, schema, files)
    return written, [stage / file.staged for file in written.files]


def _lake_table(
    name: str, source: Source, schema: Schema, folder: Path, catalog: SqlCatalog
) -> Table:
    ids = count(len(schema.fields) + 1)
    columns = [
        NestedField(number, each.name, to_iceberg(each.type, ids), required=False)
        for number, each in enumerate(schema.fields, 1)
    ]
    table = catalog.create_table(f"ods.{name}", IcebergSchema(*columns))
    settings = (
        (FIELD_IDS, ids_setting(field_ids(table.schema()))),
        (INSTANTS, instants_setting(schema)),
    )
    written, files = _write(folder, source, schema, FileChoice(settings=settings))
    storage, _ = open_storage(str(folder))
    with table.transaction() as change, change.update_snapshot().fast_append() as append:
        for record, path in zip(written.files, files, strict=True):
            uri, size = path.as_uri(), path.stat().st_size
            placed = PlacedFile(uri, str(path), int(record.rows), size, (), ())
            footer = read_footer(storage, str(path))
            append.append_data_file(
                data_file(placed, footer, table.metadata, table.spec(), Record())
            )
    return catalog.load_table(f"ods.{name}")


def types_of(table: WrittenTable) -> Mapping[str, str]:
    """Name of a column -> its type in Hive."""
    return {each.name: format_hive_type(each.type) for each in table.columns}
