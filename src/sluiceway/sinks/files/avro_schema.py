"""Avro schemas of Hive tables: as AvroSerDe makes them from columns, or as the table names one.

Source: Hive `TypeInfoToSchema`, `SchemaToTypeInfo`.
"""

import json
from collections.abc import Callable
from typing import Any

from sluiceway.types.hive_types import format_hive_type
from sluiceway.types.schema import (
    BinaryType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    Field,
    FloatType,
    IntegerType,
    ListType,
    MapType,
    Schema,
    StringType,
    StructType,
    TimestampType,
    VarcharType,
)

SCHEMA_LITERAL = "avro.schema.literal"
SCHEMA_URL = "avro.schema.url"
TABLE_NAME = "name"

_WORDS: dict[DataType, Any] = {
    BooleanType(): "boolean",
    IntegerType(8): "int",
    IntegerType(16): "int",
    IntegerType(32): "int",
    IntegerType(64): "long",
    FloatType(32): "float",
    FloatType(64): "double",
    StringType(): "string",
    BinaryType(): "bytes",
    DateType(): {"type": "int", "logicalType": "date"},
    TimestampType(): {"type": "long", "logicalType": "timestamp-millis"},
}


def schema_from_columns(columns: Schema, table: str) -> dict[str, Any]:
    """The schema that readers make of a table's columns; names of records matter to them.

    Args:
        columns: Columns of the table.
        table: `database.table`.
    """
    database, _, name = table.rpartition(".")
    counter = iter(range(1 << 30))
    fields = [
        {"name": field.name, "type": _nullable(field.type, counter.__next__), "default": None}
        for field in columns.fields
    ]
    return {"type": "record", "name": name or "table", "namespace": database, "fields": fields}


def _nullable(data_type: DataType, number: Callable[[], int]) -> list[Any]:
    return ["null", _avro_type(data_type, number)]


def _avro_type(data_type: DataType, number: Callable[[], int]) -> Any:
    match data_type:
        case DecimalType(precision, scale):
            return _decimal(precision, scale)
        case VarcharType(length):
            return {"type": "string", "logicalType": "varchar", "maxLength": length}
        case CharType(length):
            return {"type": "string", "logicalType": "char", "maxLength": length}
        case ListType(element):
            return {"type": "array", "items": _nullable(element, number)}
        case MapType(_, value):
            return {"type": "map", "values": _nullable(value, number)}
        case StructType(fields):
            # Inner records are numbered before the one that holds them.
            # So are their fields' names in lower case: readers give null for others.
            inner = [
                {"name": field.name.lower(), "type": _nullable(field.type, number), "default": None}
                for field in fields
            ]
            name = f"record_{number()}"
            return {"type": "record", "name": name, "namespace": "", "fields": inner}
        case _:
            return _WORDS[data_type]


def _decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def schema_from_literal(text: str, columns: Schema) -> dict[str, Any]:
    """A schema that the table names, when its columns are written by it.

    Raises:
        ValueError: It is no record, or a field is not as its column; says which.
    """
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{SCHEMA_LITERAL} is no JSON: {error}") from error
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise ValueError(f"{SCHEMA_LITERAL} is no record")
    named = {field["name"].lower(): field for field in schema.get("fields", ())}
    for column in columns.fields:
        field = named.pop(column.name.lower(), None)
        if field is None:
            raise ValueError(f"{SCHEMA_LITERAL} has no field {column.name}")
        _compare(column, field["type"], column.name)
    if named:
        raise ValueError(f"{SCHEMA_LITERAL} has fields that are no columns: {', '.join(named)}")
    return schema


def takes_null(field_type: Any) -> bool:
    """Whether a field of an Avro schema may be null."""
    return field_type == "null" or (isinstance(field_type, list) and "null" in field_type)


def not_null(field_type: Any) -> Any:
    """A field's type without the null in its union."""
    if isinstance(field_type, list):
        others = [one for one in field_type if one != "null"]
        return others[0] if len(others) == 1 else field_type
    return field_type


def _compare(column: Field, found: Any, path: str) -> None:
    kind = not_null(found)
    word = kind.get("type") if isinstance(kind, dict) else kind
    match column.type:
        case ListType(element) if word == "array":
            _compare(Field(column.name, element), kind["items"], f"{path}[]")
        case MapType(_, value) if word == "map":
            _compare(Field(column.name, value), kind["values"], f"{path}{{}}")
        case StructType(fields) if word == "record":
            inner = {field["name"].lower(): field["type"] for field in kind["fields"]}
            for field in fields:
                if field.name.lower() not in inner or len(inner) != len(fields):
                    raise ValueError(f"{SCHEMA_LITERAL}: {path} has other fields than its column")
                _compare(field, inner[field.name.lower()], f"{path}.{field.name}")
        case _:
            if not _is_same(column.type, kind):
                wanted = format_hive_type(column.type)
                raise ValueError(
                    f"{SCHEMA_LITERAL}: {path} is {json.dumps(kind)}, the column is {wanted}"
                )


def _is_same(data_type: DataType, kind: Any) -> bool:
    if isinstance(data_type, ListType | MapType | StructType):
        return False
    wanted = _avro_type(data_type, lambda: 0)
    if isinstance(kind, dict):
        plain = {key: kind[key] for key in kind if key in _TYPE_KEYS}
        kind = plain["type"] if set(plain) == {"type"} else plain
        if isinstance(kind, dict) and kind.get("logicalType") == "decimal":
            kind.setdefault("scale", 0)
    return bool(kind == wanted)


_TYPE_KEYS = ("type", "logicalType", "precision", "scale", "maxLength")
