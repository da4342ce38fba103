"""Statements of Spark SQL that say what a route does to a lake table. For people: none is run.

Source: Iceberg's documentation, "Spark DDL".
"""

import re
from collections.abc import Mapping, Sequence

from pyiceberg.schema import Schema
from pyiceberg.types import (
    IcebergType,
    ListType,
    LongType,
    MapType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from sluiceway.sinks.lake_options import IDENTITY, LakeField

_NAMED = {LongType(): "bigint", TimestampType(): "timestamp_ntz", TimestamptzType(): "timestamp"}


def create_lake_statement(
    name: str,
    schema: Schema,
    fields: Sequence[LakeField],
    *,
    location: str | None,
    properties: Mapping[str, str],
) -> str:
    """`CREATE TABLE`, as it would make the same table.

    Args:
        name: `namespace.table`.
        schema: Schema of the table.
        fields: Fields of its partition spec.
        location: None where the catalog chooses it.
        properties: Properties of the table.
    """
    columns = ",\n".join(f"  {_name(f.name)} {_type(f.field_type)}" for f in schema.fields)
    quoted = ".".join(map(_name, name.split(".")))
    lines = [f"CREATE TABLE {quoted} (", columns, ")", "USING iceberg"]
    if fields:
        lines.append(f"PARTITIONED BY ({', '.join(map(_transform, fields))})")
    if location is not None:
        lines.append(f"LOCATION {_text(location)}")
    pairs = ", ".join(f"{_text(key)}={_text(text)}" for key, text in sorted(properties.items()))
    return "\n".join([*lines, f"TBLPROPERTIES ({pairs})"])


def _transform(field: LakeField) -> str:
    column = _name(field.column)
    if field.transform == IDENTITY:
        return column
    if found := re.fullmatch(r"(bucket|truncate)\[(\d+)\]", field.transform):
        return f"{found[1]}({found[2]}, {column})"
    return f"{field.transform}s({column})"


def _type(kind: IcebergType) -> str:
    match kind:
        case ListType():
            return f"array<{_type(kind.element_type)}>"
        case MapType():
            return f"map<{_type(kind.key_type)},{_type(kind.value_type)}>"
        case StructType():
            inner = (f"{_name(f.name)}:{_type(f.field_type)}" for f in kind.fields)
            return f"struct<{','.join(inner)}>"
        case _:
            return _NAMED.get(kind, str(kind))


def _name(name: str) -> str:
    return f"`{name}`"


def _text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
