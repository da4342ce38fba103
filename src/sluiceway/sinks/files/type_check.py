"""Which columns a file format can hold at all. Values only; asked before any file is written."""

from sluiceway.sinks.files.contract import FileChoice, FileFormat
from sluiceway.sinks.files.hive_text import levels_of, text_rules
from sluiceway.sinks.files.registry import open_format
from sluiceway.types.arrow_types import arrow_schema
from sluiceway.types.hive_types import format_hive_type
from sluiceway.types.schema import (
    BinaryType,
    DataType,
    Field,
    ListType,
    LocalTimestampType,
    MapType,
    Schema,
    StringType,
    StructType,
)

_LOCAL = "timestamp with local time zone is written in Parquet only"


def format_problem(choice: FileChoice, columns: Schema) -> str | None:
    """Why no file of the format can hold the columns, or None.

    Called by `validate` for tables that are created, and when a table is opened.

    Args:
        choice: The format with its settings.
        columns: The columns that are written.
    """
    for field in columns.fields:
        problem = _type_problem(choice.format, field)
        if problem is not None:
            return f"column {field.name}: {problem}"
    try:
        open_format(arrow_schema(columns), choice)
    except ValueError as error:
        return str(error)
    return _text_problem(choice, columns) if choice.format is FileFormat.TEXT else None


def _text_problem(choice: FileChoice, columns: Schema) -> str | None:
    levels = len(text_rules(dict(choice.settings)).separators)
    for field in columns.fields:
        needed = levels_of(field.type)
        if needed > levels:
            return f"column {field.name}: it needs {needed} delimiters, the SerDe has {levels}"
    return None


def _type_problem(file_format: FileFormat, field: Field) -> str | None:
    if file_format is FileFormat.CSV and field.type != StringType():
        found = format_hive_type(field.type)
        return f"it is {found}, and readers of Hive's CSV take every column as string"
    return _inner_problem(file_format, field.type)


def _inner_problem(file_format: FileFormat, data_type: DataType) -> str | None:
    match data_type:
        case LocalTimestampType() if file_format is not FileFormat.PARQUET:
            return _LOCAL
        case BinaryType() if file_format is FileFormat.JSON:
            return "Hive's JSON has no form for binary that all its readers share"
        case MapType(key, _) if file_format is FileFormat.AVRO and key != StringType():
            return f"keys of Avro's maps are string, not {format_hive_type(key)}"
        case ListType(element):
            return _inner_problem(file_format, element)
        case MapType(key, value):
            return _inner_problem(file_format, key) or _inner_problem(file_format, value)
        case StructType(fields):
            problems = (_inner_problem(file_format, field.type) for field in fields)
            return next((problem for problem in problems if problem), None)
        case _:
            return None
