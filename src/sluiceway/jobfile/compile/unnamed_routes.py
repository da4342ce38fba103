"""Routes that need no further check: JSON in plain columns, with plain dates and partitions.

Most job files are such. For them `validate` and `status` answer without loading Arrow, decoders and
expressions. For all others the code that would read the rows decides (`why_no_rows`).
"""

from sluiceway.jobfile.blocks.formats import JsonFormat
from sluiceway.jobfile.blocks.models import RouteSpec
from sluiceway.jobfile.blocks.table import PartitionSpec
from sluiceway.jobfile.compile.choices import row_columns
from sluiceway.types.file_formats import PARQUET
from sluiceway.types.policy import NO_POLICY
from sluiceway.types.schema import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
    ListType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)
from sluiceway.worker.row_rules import RowColumn

_JSON_CARRIES = (
    BooleanType,
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
    StringType,
    TimestampType,
)
_FOLDERS_CARRY = (BooleanType, DateType, DecimalType, IntegerType, StringType)
_OF_RECORDS = frozenset({"$record_time", "$processing_time"})
_OF_NUMBERS = frozenset({"s", "ms", "us", "ns"})
_OF_TEXTS = frozenset({None, "iso8601"})


def surely_fits(spec: RouteSpec) -> bool:
    """Whether decoder, rows, times, partitions and files of a route certainly fit together.

    Called when a job file is checked, for routes that passed the earlier checks.

    Returns:
        False is no answer: `why_no_rows` and its neighbours have to decide.
    """
    table, hive = spec.table, spec.table.hive
    if hive is not None and hive.file_format not in (None, PARQUET):
        return False
    if spec.where is not None or spec.transform is not None:
        return False
    if table.keyed or table.evolution != "fail":
        return False
    if spec.format.json_ is None or not _is_plain_json(spec.format.json_):
        return False
    columns = row_columns(spec)
    if not columns or not all(map(_is_plain, columns)):
        return False
    types = {column.field.name.lower(): column.field.type for column in columns}
    return (
        len(types) == len(columns)
        and _dates(spec, types)
        and all(_places(part, types) for part in table.partition_by)
    )


def _is_plain_json(told: JsonFormat) -> bool:
    if told.unknown_fields == "keep" or told.extra_column is not None:
        return False
    return told.engine != "native" and told.registry is None


def _is_plain(column: RowColumn) -> bool:
    field = column.field
    return (
        column == RowColumn(field, written=column.written)
        and field.policy == NO_POLICY
        and _is_carried(field.type)
        and (field.time_unit is None or isinstance(field.type, TimestampType))
    )


def _is_carried(kind: DataType) -> bool:
    """Whether JSON has a form for each value of the type."""
    match kind:
        case ListType(element):
            return _is_carried(element)
        case MapType(key, value):
            return isinstance(key, StringType) and _is_carried(value)
        case StructType(fields):
            names = {field.name.lower() for field in fields}
            # Every reader of every table can read such names.
            plain = all(name.isascii() and name.isidentifier() for name in names)
            carried = all(_is_carried(field.type) for field in fields)
            return plain and carried and len(names) == len(fields)
        case _:
            return isinstance(kind, _JSON_CARRIES)


def _dates(spec: RouteSpec, types: dict[str, DataType]) -> bool:
    rule = spec.event_time
    if rule is None or rule.field in _OF_RECORDS:
        return True
    if rule.format is not None:
        return False
    match types.get(rule.field.lower()):
        case IntegerType():
            return rule.unit in _OF_NUMBERS
        case StringType():
            return rule.unit in _OF_TEXTS
        case TimestampType():
            return True
        case _:
            return False


def _places(part: PartitionSpec, types: dict[str, DataType]) -> bool:
    if part.event_time or part.processing_time or part.record_time:
        return True
    if part.column is None or part.transform is not None:
        return False
    return isinstance(types.get(part.column.lower()), _FOLDERS_CARRY)
