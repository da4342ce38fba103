"""Columns of a registry's schema, in any schema language."""

from sluiceway.formats.avro.columns import avro_columns
from sluiceway.formats.json.schema_columns import json_schema_columns
from sluiceway.formats.protobuf.columns import proto_columns
from sluiceway.formats.schema_columns import NoColumnsError, SchemaColumn
from sluiceway.formats.schema_registry.client import RegisteredSchema

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
