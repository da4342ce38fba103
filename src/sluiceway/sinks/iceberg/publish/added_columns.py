"""Columns that a lake table gets while it is filled, each under an id that nothing ever had."""

import threading
from collections.abc import Collection, Sequence
from itertools import count

from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AssertCurrentSchemaId,
    AssertLastAssignedFieldId,
    AssertTableUUID,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    TableUpdate,
)
from pyiceberg.types import NestedField

from sluiceway.observe.log import Log
from sluiceway.sinks.added_columns import added_field, added_properties
from sluiceway.sinks.contract import ColumnToHave
from sluiceway.sinks.iceberg.column_types import from_iceberg, to_iceberg
from sluiceway.sinks.iceberg.commit_request import CommitRequest
from sluiceway.types.evolution import Columns, is_extension
from sluiceway.types.hive_types import format_hive_type, parse_hive_type
from sluiceway.types.reader_names import RESERVED_COLUMNS
from sluiceway.types.schema import Field


def columns_of(metadata: TableMetadata) -> Columns:
    """Name and type of each column; of a column that is not written here Iceberg's own word."""
    return tuple((field.name, _text(field)) for field in metadata.schema().fields)


def _text(field: NestedField) -> str:
    try:
        return format_hive_type(from_iceberg(field.field_type))
    except ValueError:
        return str(field.field_type)


def further_fields(metadata: TableMetadata, declared: Collection[str]) -> tuple[Field, ...]:
    """Columns that a route takes up which follows its table.

    Args:
        metadata: Metadata of the table.
        declared: Names in lower case that the job file has, or the route makes itself.
    """
    found = []
    for held in metadata.schema().fields:
        name = held.name.lower()
        if name in declared or name in RESERVED_COLUMNS:
            continue
        try:
            kind = from_iceberg(held.field_type)
        except ValueError:
            # It stays null.
            continue
        found.append(added_field(held.name, kind, metadata.location, metadata.properties))
    return tuple(found)


def missing_columns(
    metadata: TableMetadata, wanted: Sequence[ColumnToHave]
) -> tuple[list[ColumnToHave], str]:
    """Columns that the table lacks; and why it cannot have one of them, else empty."""
    held = {name.lower(): kind for name, kind in columns_of(metadata)}
    missing = []
    for each in wanted:
        if each.name in RESERVED_COLUMNS:
            return [], f"Iceberg keeps the name {each.name} for itself"
        kind = held.get(each.name)
        if kind is None:
            missing.append(each)
        elif is_extension(kind, each.type) and not is_extension(each.type, kind):
            return [], f"column {each.name} is there; lake tables get no fields inside of columns"
        elif not is_extension(each.type, kind):
            return [], f"column {each.name} is {kind} and cannot become {each.type}"
    return missing, ""


def add_columns_request(metadata: TableMetadata, missing: Sequence[ColumnToHave]) -> CommitRequest:
    """The request that gives a table columns; it asserts that no id was given out since.

    Args:
        metadata: Metadata as it was loaded.
        missing: Columns that it does not have.
    """
    schema, ids = metadata.schema(), count(metadata.last_column_id + 1)
    added = [
        NestedField(
            next(ids), each.name, to_iceberg(parse_hive_type(each.type), ids), required=False
        )
        for each in missing
    ]
    whole = IcebergSchema(
        *schema.fields,
        *added,
        schema_id=max(each.schema_id for each in metadata.schemas) + 1,
        identifier_field_ids=schema.identifier_field_ids,
    )
    properties = added_properties(missing)
    updates: list[TableUpdate] = [
        AddSchemaUpdate(schema=whole),
        SetCurrentSchemaUpdate(schema_id=-1),
    ]
    if properties:
        updates.append(SetPropertiesUpdate(updates=properties))
    asserted = (
        AssertTableUUID(uuid=metadata.table_uuid),
        AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),
        AssertLastAssignedFieldId(last_assigned_field_id=metadata.last_column_id),
    )
    return CommitRequest(tuple(updates), asserted)


class FollowedColumns:
    """What was last seen of a table's columns. Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: TableMetadata | None = None
        self._told: frozenset[int] = frozenset()

    def begin(self, metadata: TableMetadata) -> None:
        """The table as a route takes it up, or as it has just changed it itself."""
        with self._lock:
            self._held = metadata

    def update(self, metadata: TableMetadata, log: Log) -> None:
        """Take in the table as a look found it.

        Args:
            metadata: Metadata as it was loaded, perhaps before a change that is known already.
            log: Gets each schema that is not taken up, once.
        """
        with self._lock:
            held, schema_id = self._held, metadata.current_schema_id
            if held is None or schema_id == held.current_schema_id or schema_id in self._told:
                return
            if metadata.last_column_id < held.last_column_id:
                return
            reason = _not_only_added(held, metadata)
            if not reason:
                self._held = metadata
                return
            self._told |= {schema_id}
        log.warning("schema_not_followed", reason=reason)

    @property
    def metadata(self) -> TableMetadata | None:
        """Metadata of the newest look whose columns are taken up; None before `begin`."""
        with self._lock:
            return self._held

    @property
    def columns(self) -> Columns | None:
        """Columns of that metadata; None before `begin`."""
        held = self.metadata
        return None if held is None else columns_of(held)


def _not_only_added(held: TableMetadata, now: TableMetadata) -> str:
    """Why the columns are not the old ones and further ones; empty when they are."""
    found = {field.field_id: field for field in now.schema().fields}
    for field in held.schema().fields:
        same = found.get(field.field_id)
        if same is None:
            return f"column {field.name} is gone"
        if same.name != field.name:
            return f"column {field.name} is called {same.name} now"
        if same.field_type != field.field_type:
            return f"column {field.name} is {same.field_type} now"
    return ""
