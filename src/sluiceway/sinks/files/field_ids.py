"""Parquet files whose columns are found by ids instead of names, as in lake tables."""

import json
from collections.abc import Mapping

import pyarrow as pa

from sluiceway.types.schema import (
    DataType,
    Field,
    ListType,
    LocalTimestampType,
    MapType,
    Schema,
    StructType,
)

FIELD_IDS = "field_ids"
INSTANTS = "instants"
_KEY = b"PARQUET:field_id"


def ids_setting(ids: Mapping[str, int]) -> str:
    """Ids by path, as a setting of `FileChoice` that reaches the workers."""
    return json.dumps(dict(sorted(ids.items())), separators=(",", ":"))


def instants_setting(schema: Schema) -> str:
    """Paths of the timestamps that readers show in their own zone, likewise."""
    found: list[str] = []
    for field in schema.fields:
        _add_instants(found, field.name.lower(), field.type)
    return json.dumps(found, separators=(",", ":"))


def _add_instants(found: list[str], path: str, kind: DataType) -> None:
    match kind:
        case LocalTimestampType():
            found.append(path)
        case ListType(element):
            _add_instants(found, f"{path}.element", element)
        case MapType(key, value):
            _add_instants(found, f"{path}.key", key)
            _add_instants(found, f"{path}.value", value)
        case StructType(fields):
            _add_inner(found, path, fields)
        case _:
            return


def _add_inner(found: list[str], path: str, fields: tuple[Field, ...]) -> None:
    for field in fields:
        _add_instants(found, f"{path}.{field.name.lower()}", field.type)


def with_field_ids(schema: pa.Schema, ids_text: str, instants_text: str) -> pa.Schema:
    """The schema of a file: each column with its id, integers of 32 bits at least.

    Args:
        schema: Schema of the rows.
        ids_text: Setting as `ids_setting` makes it.
        instants_text: Setting as `instants_setting` makes it.

    Raises:
        ValueError: A column has no id.
    """
    ids, instants = json.loads(ids_text), frozenset(json.loads(instants_text))
    return pa.schema([_field(field.name.lower(), field, ids, instants) for field in schema])


def _field(
    path: str, field: pa.Field, ids: Mapping[str, int], instants: frozenset[str]
) -> pa.Field:
    if path not in ids:
        raise ValueError(f"the table has no column {path}")
    kind = _type(path, field.type, ids, instants)
    return pa.field(field.name, kind, field.nullable, {_KEY: str(ids[path]).encode()})


def _type(
    path: str, kind: pa.DataType, ids: Mapping[str, int], instants: frozenset[str]
) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct(
            [_field(f"{path}.{each.name.lower()}", each, ids, instants) for each in kind]
        )
    if pa.types.is_map(kind):
        return pa.map_(
            _field(f"{path}.key", kind.key_field.with_nullable(nullable=False), ids, instants),
            _field(f"{path}.value", kind.item_field, ids, instants),
        )
    if pa.types.is_list(kind):
        element = kind.value_field.with_name("element")
        return pa.list_(_field(f"{path}.element", element, ids, instants))
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC" if path in instants else None)
    if pa.types.is_int8(kind) or pa.types.is_int16(kind):
        return pa.int32()
    return kind
