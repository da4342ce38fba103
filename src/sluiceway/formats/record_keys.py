"""Columns and keys from schemas: those of a registry, and the fields of keys in a change log."""

from collections.abc import Callable

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.convert.exact_rows import parse_object
from sluiceway.formats.avro.columns import avro_columns
from sluiceway.formats.json.schema_columns import json_schema_columns
from sluiceway.formats.protobuf.columns import proto_columns
from sluiceway.formats.schema_columns import NoColumnsError, SchemaColumn
from sluiceway.formats.schema_registry.client import RegisteredSchema
from sluiceway.formats.schema_registry.frame import confluent_frame

KINDS = {"avro": "AVRO", "protobuf": "PROTOBUF", "json": "JSON"}
"""The registry's names for the schemas of formats."""


def subject_columns(
    registered: RegisteredSchema, message: str | None = None, *, meant: bool = False
) -> tuple[SchemaColumn, ...]:
    """The columns of a schema. Called on the driver.

    Args:
        registered: The schema in the registry.
        message: Message of a Protobuf schema that declares several; None for the only one.
        meant: See `Walk`.

    Raises:
        NoColumnsError: It is no schema of rows.
    """
    match registered.kind:
        case "AVRO":
            return avro_columns(registered.text, list(registered.resolved.values()), meant=meant)
        case "PROTOBUF":
            return proto_columns(registered.text, message, registered.references, meant=meant)
        case "JSON":
            return json_schema_columns(registered.text, registered.resolved.items(), meant=meant)
        case kind:
            raise NoColumnsError(f"it is {kind}, which is not read")


SchemaOf = Callable[[int], RegisteredSchema | None]
MAXWELL_PREFIX = "pk."
_SCHEMA, _PAYLOAD, _FIELDS = "schema", "payload", "fields"


def schema_fields(schema: RegisteredSchema) -> tuple[str, ...]:
    """The fields of a key by its schema in a registry; empty for a schema of no record."""
    try:
        return tuple(column.name for column in subject_columns(schema))
    except NoColumnsError:
        return ()


def key_fields(
    key: bytes, *, prefix: str = "", schema_of: SchemaOf | None = None
) -> tuple[str, ...]:
    """The fields of a record's own key, by its schema if it has one.

    Args:
        key: Key of a record; not empty.
        prefix: Prefix of the fields that count; it is removed.
        schema_of: Returns a schema by its id in a registry, for keys with schemas; None where keys
            are JSON.

    Returns:
        The fields in the key's order; empty where it shows none.
    """
    if schema_of is not None:
        try:
            number, _ = confluent_frame(key)
        except DirtyValueError:
            return ()
        schema = schema_of(number)
        return () if schema is None else schema_fields(schema)
    try:
        found = parse_object(key, lenient=False)
    except DirtyValueError:
        return ()
    told_by = found.get(_SCHEMA)
    if _PAYLOAD in found and isinstance(told_by, dict):
        listed = told_by.get(_FIELDS)
        fields = listed if isinstance(listed, list) else []
        names = [each.get("field") for each in fields if isinstance(each, dict)]
        told = tuple(name for name in names if isinstance(name, str))
        payload = found[_PAYLOAD]
        return told or (tuple(payload) if isinstance(payload, dict) else ())
    return tuple(name.removeprefix(prefix) for name in found if name.startswith(prefix))
