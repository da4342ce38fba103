"""Columns of a table as Spark has them."""

from collections.abc import Sequence

from pyspark_sluiceway.options import ReadOptions
from sluiceway.errors import WrongUsageError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.sinks.registry import open_sink
from sluiceway.types.hive_types import format_hive_type, parse_hive_type
from sluiceway.types.schema import (
    CharType,
    DataType,
    ListType,
    LocalTimestampType,
    MapType,
    Schema,
    StructType,
    TimestampType,
    VarcharType,
)

SLOT, PLACE = "_sw_slot", "_sw_place"
META = ((SLOT, "bigint"), (PLACE, "bigint"))
SPAN_COLUMNS = (
    ("path", "string"),
    ("first_row", "bigint"),
    ("rows", "bigint"),
    ("partition", "string"),
    ("slot", "bigint"),
)


def spark_schema(config: RouteConfig, options: ReadOptions) -> str:
    """Columns as Spark's DDL has them: the table's, its partition columns, `_sw_*`.

    Raises:
        WrongUsageError: A column that is asked for does not exist.
        SluicewayError: The table has to be asked for its columns, and cannot be.
    """
    if options.files:
        return _ddl(SPAN_COLUMNS)
    columns = [(each.name, _spark_type(each.type)) for each in _schema(config).fields]
    columns += [
        (each.name, _spark_type(parse_hive_type(each.hive_type)))
        for each in config.table.partition_columns
    ]
    if options.columns:
        by_name = {name.lower(): (name, kind) for name, kind in columns}
        unknown = [name for name in options.columns if name.lower() not in by_name]
        if unknown:
            raise WrongUsageError(
                f"the table has no column {', '.join(unknown)}",
                hint=f"its columns: {', '.join(name for name, _ in columns)}",
            )
        columns = [by_name[name.lower()] for name in options.columns]
    return _ddl([*columns, *(META if options.meta else ())])


def _schema(config: RouteConfig) -> Schema:
    """Data columns; the catalog is asked only where the job file does not say all of them."""
    if config.table.schema is not None and not config.table.follows:
        return config.table.schema
    sink = open_sink(config.catalog, config.table)
    try:
        return sink.inspect().state().schema
    finally:
        sink.close()


def _ddl(columns: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{_quoted(name)} {kind}" for name, kind in columns)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _spark_type(kind: DataType) -> str:
    match kind:
        case VarcharType() | CharType():
            return "string"
        case TimestampType() | LocalTimestampType():
            return "timestamp"
        case ListType(element):
            return f"array<{_spark_type(element)}>"
        case MapType(key, value):
            return f"map<{_spark_type(key)},{_spark_type(value)}>"
        case StructType(fields):
            inside = (f"{_quoted(each.name)}:{_spark_type(each.type)}" for each in fields)
            return f"struct<{','.join(inside)}>"
        case _:
            return format_hive_type(kind)
