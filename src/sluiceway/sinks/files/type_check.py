"""Which columns a file format can hold at all. Values only; asked before any file is written."""

from collections.abc import Iterator
from unicodedata import category

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

_NOT_HIVE = (
    "Hive reads names of fields that have letters, digits, `_`, `.`, `$` and blanks inside only"
)
_NOT_AVRO = "names in Avro have letters, digits and `_` only, no digit first"
_PARQUET_ENDS = frozenset(" ;{}()\n\t=")
"""Characters that end a name in the text of a Parquet schema, which Hive's reader makes."""
_LOCAL = "timestamp with local time zone is written in Parquet only"


# Source: Hive `TypeInfoUtils.TypeInfoParser`, Avro `Schema.validateName`: what Java calls a letter
# or a digit, in one 16-bit unit.
_ALPHABETIC = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo"})
_DIGIT = "Nd"
_LAST_UNIT = "\uffff"


def name_problem(file_format: FileFormat, columns: Schema, *, in_metastore: bool) -> str | None:
    """Why Spark or Hive cannot read a name of a column or of a field inside, or None.

    Called where `format_problem` is.

    Args:
        file_format: Format of the files.
        columns: The columns that are written.
        in_metastore: The types are kept as text, which Hive's parser reads.
    """
    for field in columns.fields:
        if file_format is FileFormat.AVRO and not _is_avro_name(field.name):
            return f"column {field.name}: {_NOT_AVRO}"
        for path, name in _inner_names(field.type, field.name):
            if file_format is FileFormat.AVRO and not _is_avro_name(name):
                return f"field {path}: {_NOT_AVRO}"
            if in_metastore and not _is_hive_name(name):
                return f"field {path}: {_NOT_HIVE}"
    return None


def blank_names(columns: Schema) -> tuple[str, ...]:
    """Columns and fields inside whose names Hive's own reader of Parquet does not read."""
    names = [(field.name, field.name) for field in columns.fields]
    names += [each for field in columns.fields for each in _inner_names(field.type, field.name)]
    return tuple(path for path, name in names if set(name) & _PARQUET_ENDS)


def _inner_names(data_type: DataType, path: str) -> Iterator[tuple[str, str]]:
    """Path and name of each field of a struct inside, as `geo.tags[].k`."""
    match data_type:
        case ListType(element):
            yield from _inner_names(element, f"{path}[]")
        case MapType(_, value):
            yield from _inner_names(value, f"{path}{{}}")
        case StructType(fields):
            for field in fields:
                yield f"{path}.{field.name}", field.name
                yield from _inner_names(field.type, f"{path}.{field.name}")
        case _:
            return


def _is_hive_name(name: str) -> bool:
    known = all(each in "_.$ " or _is_alphanumeric(each) for each in name)
    return known and name == name.strip() != ""


def _is_avro_name(name: str) -> bool:
    begins = name[:1] == "_" or category(name[:1] or "0") in _ALPHABETIC
    return begins and all(each == "_" or _is_alphanumeric(each) for each in name)


def _is_alphanumeric(each: str) -> bool:
    kind = category(each)
    return each <= _LAST_UNIT and (kind in _ALPHABETIC or kind == _DIGIT)


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
