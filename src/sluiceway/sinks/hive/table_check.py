"""Whether rows can be written into a Hive table as it is. Values only, no I/O."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from sluiceway.catalog.hive_table import HiveColumn, HiveLayout, MetastoreTable
from sluiceway.errors import TableMismatchError
from sluiceway.ledger.layout import SYSTEM_FOLDER
from sluiceway.sinks.added_columns import added_field
from sluiceway.sinks.files.contract import FileChoice, FileFormat
from sluiceway.sinks.hive.table_format import (
    files_of,
    format_of,
    has_tables_columns,
    layout_to_create,
    refused_format,
    unreadable_names,
)
from sluiceway.sinks.table_options import FOLDER, TableOptions
from sluiceway.storage.locations import is_absolute_location, normalise_location, same_location
from sluiceway.types.evolution import extended, is_wider
from sluiceway.types.hive_types import format_hive_type, parse_hive_type
from sluiceway.types.reader_names import is_hidden_folder, partition_name_problem
from sluiceway.types.schema import DataType, Field, Schema

_PROVIDER = "spark.sql.sources.provider"
_PARTITIONS_BY = "spark.sql.partitionprovider"
_SPARK_FORMATS = ("parquet", "orc")
_UNSET = "unset it, or name a new table"


def _is_set(value: str) -> bool:
    return value not in ("", "0")


def _is_true(value: str) -> bool:
    return value.lower() == "true"


# Sources: Spark `HiveExternalCatalog`, `FileSourceOptions`, `ParquetOptions`; Hive
# `TimestampParser`; Trino `PartitionProjectionProperties`.
_REFUSED: Mapping[str, tuple[Callable[[str], bool], str]] = {
    "spark.sql.sources.schema.numbuckets": (_is_set, "Spark would take its files for buckets"),
    "spark.sql.sources.schema.numbucketcols": (_is_set, "Spark would take its files for buckets"),
    "spark.sql.sources.schema.numsortcols": (_is_set, "Spark would take its files as sorted"),
    "projection.enabled": (
        _is_true,
        "Trino and Athena would make up its partitions' folders and not ask the metastore",
    ),
    "parquet.mr.int96.write.zone": (
        lambda value: value.upper() not in ("", "UTC", "Z", "ETC/UTC"),
        "readers would shift its timestamps, which are UTC",
    ),
    "timestamp.formats": (bool, "readers would read its timestamps by another pattern"),
    "pathglobfilter": (bool, "Spark would leave out files by their names"),
    "modifiedbefore": (bool, "Spark would leave out files by their age"),
    "modifiedafter": (bool, "Spark would leave out files by their age"),
    "recursivefilelookup": (_is_true, "Spark would read folders that are no partitions"),
    "datetimerebasemode": (
        lambda value: value.upper() not in ("", "CORRECTED"),
        "Spark would shift days before 1582",
    ),
    "int96rebasemode": (
        lambda value: value.upper() not in ("", "CORRECTED"),
        "Spark would shift moments before 1582",
    ),
}


def refused_property(
    table: MetastoreTable, file_format: FileFormat | None
) -> tuple[str, str] | None:
    """Which property of a table changes what readers make of its files, and what to do.

    Args:
        table: The table as the metastore has it.
        file_format: Format of its files.

    Returns:
        None when there is no such property.
    """
    layout = table.layout
    said = {
        name.lower(): (name, value)
        for held in (table.parameters, layout.storage_parameters, layout.serde_parameters)
        for name, value in held.items()
    }
    for name, (is_refused, why) in _REFUSED.items():
        if name in said and is_refused(said[name][1]):
            return f"it has {said[name][0]}={said[name][1]}: {why}", _UNSET
    return _refused_by_spark(table, file_format, {key: value for key, (_, value) in said.items()})


def _refused_by_spark(
    table: MetastoreTable, file_format: FileFormat | None, said: Mapping[str, str]
) -> tuple[str, str] | None:
    """What Spark's own tables say in addition to their columns."""
    provider = said.get(_PROVIDER, "").lower()
    if provider not in _SPARK_FORMATS:
        return None
    if provider != file_format:
        return f"Spark reads its files as {provider}, and they are {file_format}", _UNSET
    path = said.get("path")
    if path and not same_location(path, table.layout.location):
        return (
            f"Spark reads it at {path}, its property path, and it lies at {table.layout.location}",
            "make both the same",
        )
    if table.partition_columns and said.get(_PARTITIONS_BY, "").lower() != "catalog":
        return (
            "Spark looks for its partitions in folders and not in the metastore",
            "run MSCK REPAIR TABLE on it in Spark, which sets spark.sql.partitionProvider=catalog",
        )
    return None


_PLAIN_KINDS = ("EXTERNAL_TABLE", "MANAGED_TABLE")
_MISSPELT = re.compile(r"`|struct\s*<(\s|.*([<,:]\s|\s[,:<>]))", re.IGNORECASE | re.DOTALL)
_SPARK_PROVIDERS = ("", "hive", "parquet", "orc")


def table_to_create(options: TableOptions, schema: Schema) -> MetastoreTable:
    """The EXTERNAL table that a route asks for, so that DROP leaves files and ledger."""
    columns = tuple(
        HiveColumn(field.name.lower(), format_hive_type(field.type)) for field in schema.fields
    )
    layout, properties = layout_to_create(
        options, HiveLayout(options.location or "", "", "", "", columns)
    )
    return MetastoreTable(
        database=options.database,
        name=options.table,
        kind="EXTERNAL_TABLE",
        layout=layout,
        partition_columns=tuple(
            HiveColumn(column.name.lower(), column.hive_type)
            for column in options.partition_columns
        ),
        parameters={"EXTERNAL": "TRUE", **properties},
    )


def check_writable(table: MetastoreTable) -> None:
    """Refuse a table whose readers need more than files in partition folders.

    Raises:
        TableMismatchError: Says which property and what to do.
    """
    refusal = _refused_kind(table) or _refused_layout(table)
    if refusal:
        message, hint = refusal
        raise TableMismatchError(message, where=str(table), hint=hint)


def check_readable(table: MetastoreTable) -> None:
    """Refuse a table whose rows are not those of its files.

    Raises:
        TableMismatchError: Says why, and what to do.
    """
    refusal = _refused_kind(table)
    if refusal is not None:
        raise TableMismatchError(
            f"a route cannot read it: {refusal[0]}",
            where=str(table),
            hint="read the topic that fills it; Spark streams an append-only Iceberg table by its "
            "own source",
        )


def _refused_kind(table: MetastoreTable) -> tuple[str, str] | None:
    parameters = {key.lower(): value for key, value in table.parameters.items()}
    other_table = "name a plain table, or a new one"
    if table.kind not in _PLAIN_KINDS:
        return f"it is a {table.kind}, not a table with files", other_table
    if parameters.get("transactional", "").lower() == "true":
        return "it is transactional: Hive would not see the files", other_table
    if handler := parameters.get("storage_handler"):
        return f"its rows are kept by the storage handler {handler}", other_table
    if parameters.get("table_type", "").upper() == "ICEBERG":
        return "it is an Iceberg table: files alone do not become rows", other_table
    provider = parameters.get("spark.sql.sources.provider", "")
    if provider.lower() not in _SPARK_PROVIDERS:
        return f"it is a Spark table of the provider {provider}", other_table
    return None


def _refused_layout(table: MetastoreTable) -> tuple[str, str] | None:
    layout = table.layout
    for column in table.partition_columns:
        if problem := partition_name_problem(column.name):
            return (
                f"its partition column {column.name!r} has a name that readers cannot use: "
                f"{problem}",
                "name a table that is partitioned by another name",
            )
    if refusal := refused_format(table):
        return refusal
    if promise := layout.promise():
        return promise, "create it without CLUSTERED BY, SORTED BY and SKEWED BY"
    if refusal := refused_property(table, format_of(layout)):
        return refusal
    if not table.partition_columns and is_hidden_folder(layout.location):
        return (
            f"its location {layout.location} is a folder that readers hide",
            "give it a location whose last name does not begin with `_` or `.`",
        )
    if not is_absolute_location(normalise_location(layout.location)):
        return (
            f"its location {layout.location!r} is not absolute",
            "give it a location from the root, as file:///warehouse/t",
        )
    return None


def check_definition(table: MetastoreTable, options: TableOptions) -> None:
    """Refuse a table that is not the one of the job file.

    Raises:
        TableMismatchError: Other partition columns or another location, or it is a table over
            another one's late rows.
    """
    if SYSTEM_FOLDER in normalise_location(table.layout.location).split("/"):
        raise TableMismatchError(
            f"it lies in {table.layout.location}, where a ledger keeps its own",
            where=str(table),
            hint="name another table: this one shows the late rows of a route",
        )
    ours = [(item.name.lower(), item.hive_type) for item in options.partition_columns]
    theirs = [(item.name.lower(), item.type) for item in table.partition_columns]
    if options.columns_of_sql and options.schema is None:
        # A command does not know what the SQL returns.
        types = dict(theirs)
        ours = [(name, types.get(name, kind)) for name, kind in ours]
    if [(name, _folded(kind)) for name, kind in ours] != [
        (name, _folded(kind)) for name, kind in theirs
    ]:
        raise TableMismatchError(
            f"partition columns are ({_listed(theirs)}), the job file says ({_listed(ours)})",
            where=str(table),
            hint="change table.partition_by in the job file, or name another table",
        )
    if options.location and not same_location(options.location, table.layout.location):
        hint = "leave the location out to take the table's"
        if options.copied:
            hint = (
                "each room needs a metastore of its own: name it in the room's `connections`; of a "
                "folder, copy no `_catalog` of the other room"
            )
        raise TableMismatchError(
            f"its location is {table.layout.location}, the job file says {options.location}",
            where=str(table),
            hint=hint,
        )


def schema_of(table: MetastoreTable) -> Schema:
    """Columns of the table as our types.

    Raises:
        TableMismatchError: A column of a type that this version does not write.
    """
    fields = (_field_of(table, column) for column in table.layout.columns)
    return Schema(tuple(fields))


@dataclass(frozen=True, slots=True)
class FilledColumns:
    """Columns of a table, by what a route does about them.

    Attributes:
        schema: Columns of the job file, or all when it takes them from the table.
        further: Columns that it takes up in addition.
        null: Names of the others.
    """

    schema: Schema
    further: tuple[Field, ...]
    null: tuple[str, ...]

    @property
    def written(self) -> Schema:
        """Columns that rows have."""
        return Schema((*self.schema.fields, *self.further))


def filled_columns(table: MetastoreTable, options: TableOptions) -> FilledColumns:
    """What a route fills of a table. Called after `check_writable` and `check_definition`.

    Raises:
        TableMismatchError: Columns are missing or of other types.
    """
    if options.schema is None:
        _refuse_misspelt(table, options, [column.name for column in table.layout.columns])
        return FilledColumns(schema_of(table), (), ())
    schema, others = match_schema(table, options.schema, follows=options.follows)
    _refuse_misspelt(table, options, [field.name for field in schema.fields])
    further = _writable(table, others, options) if options.follows else ()
    taken = {field.name for field in further}
    return FilledColumns(schema, further, tuple(name for name in others if name not in taken))


def _refuse_misspelt(table: MetastoreTable, options: TableOptions, names: Sequence[str]) -> None:
    """Refuse a column whose type's text Hive and Spark read otherwise than it is meant."""
    wanted = {*names} if not options.metastore.startswith(FOLDER) else set[str]()
    for column in table.layout.columns:
        if column.name in wanted and _MISSPELT.search(column.type):
            raise TableMismatchError(
                f"column {column.name} has the type {column.type}, in which readers take "
                "backticks and outer blanks for parts of the fields' names",
                where=str(table),
                hint="write it as Hive does, with ALTER TABLE ... CHANGE: struct<a b:int,c:int>",
            )


def _writable(
    table: MetastoreTable, names: Sequence[str], options: TableOptions
) -> tuple[Field, ...]:
    """Columns of these names that can be written; the others stay null."""
    wanted = {*names}
    file_format = format_of(table.layout) or FileFormat.PARQUET
    fields = []
    for column in table.layout.columns:
        if column.name in wanted:
            with suppress(TableMismatchError):
                _refuse_misspelt(table, options, [column.name])
                field = _field_of(table, column)
                if unreadable_names(options, file_format, Schema((field,))) is None:
                    fields.append(field)
    return tuple(fields)


def match_schema(
    table: MetastoreTable, expected: Schema, *, follows: bool = False
) -> tuple[Schema, tuple[str, ...]]:
    """The expected columns under the table's spelling of their names.

    Names are compared without case, as Hive does; columns are found by name, so their order
    and further columns of the table do not matter.

    Args:
        table: The table as the metastore has it.
        expected: Columns of the job file.
        follows: Structs of the table may have further fields, which the columns then get too.

    Returns:
        The columns in the order of `expected`, and names of further columns of the table.

    Raises:
        TableMismatchError: Columns are missing or of other types; names all of them.
    """
    held = {column.name.lower(): column for column in table.layout.columns}
    problems, fields, widened, added = [], [], [], []
    for field in expected.fields:
        column = held.pop(field.name.lower(), None)
        wanted = format_hive_type(field.type)
        if column is None:
            problems.append(f"column {field.name} {wanted} is missing")
            added.append(f"{field.name} {wanted}")
        elif follows and (longer := _extended(field.type, column.type)) is not None:
            fields.append(replace(_renamed(field, column.name), type=longer))
        elif _folded(column.type) != _folded(wanted):
            problems.append(f"column {column.name} is {column.type}, expected {wanted}")
            if is_wider(column.type, wanted):
                widened.append(f"CHANGE {column.name} {column.name} {wanted}")
        else:
            fields.append(_renamed(field, column.name))
    if problems:
        hint = "change the table or the columns in the job file"
        if len(widened) == len(problems):
            statements = (f"ALTER TABLE {table} {change} CASCADE" for change in widened)
            hint = (
                f"widen the table, docs/guides/hive-tables.md#a-wider-type: {'; '.join(statements)}"
            )
        elif len(added) == len(problems):
            statement = f"ALTER TABLE {table} ADD COLUMNS ({', '.join(added)}) CASCADE"
            hint = f"add to the table: {statement}; or remove from the job file or its SQL"
        raise TableMismatchError("; ".join(problems), where=str(table), hint=hint)
    return Schema(tuple(fields)), tuple(column.name for column in held.values())


def warnings_of(table: MetastoreTable, unfilled: Sequence[str]) -> tuple[str, ...]:
    """What the user should know of a table that is accepted."""
    found = []
    external = table.parameters.get("EXTERNAL", "").upper() == "TRUE"
    if table.kind == "MANAGED_TABLE" and not external:
        found.append(
            f"{table} is a managed table: DROP TABLE removes its files and its ledger; "
            "ALTER TABLE ... SET TBLPROPERTIES ('EXTERNAL'='TRUE') keeps them"
        )
    if unfilled:
        found.append(f"columns of {table} that stay null: {', '.join(unfilled)}")
    return tuple(found)


def file_choice(table: MetastoreTable, options: TableOptions, written: Schema) -> FileChoice:
    """How new files of a table are written; see `files_of`.

    Raises:
        TableMismatchError: Not as the job file says, or not so that rows are read back.
    """
    by_place = has_tables_columns(format_of(table.layout))
    return files_of(table, options, written, schema_of(table) if by_place else written)


def _field_of(table: MetastoreTable, column: HiveColumn) -> Field:
    return added_field(column.name, _type_of(table, column), str(table), table.parameters)


def _extended(declared: DataType, hive_type: str) -> DataType | None:
    try:
        return extended(declared, parse_hive_type(hive_type))
    except ValueError:
        return None


def _type_of(table: MetastoreTable, column: HiveColumn) -> DataType:
    try:
        return parse_hive_type(column.type)
    except ValueError as error:
        raise TableMismatchError(
            f"column {column.name} has the type {column.type}, which is not written: {error}",
            where=str(table),
            hint="leave it to other writers and declare the columns in the job file",
        ) from error


def _renamed(field: Field, name: str) -> Field:
    # A payload's key keeps its own case.
    return replace(field, name=name, path=field.path or (field.name,))


def _folded(hive_type: str) -> str:
    """One spelling of a type; a type that we cannot read is compared as text."""
    try:
        return format_hive_type(parse_hive_type(hive_type)).lower()
    except ValueError:
        return "".join(hive_type.lower().split())


def _listed(columns: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns) or "none"
