"""Columns that others add to a lake table while a route fills it, as publishing sees them.

A column is identified by its id. So what is taken up are columns with new ids, when all old ones
are still there, each of its name and type. A column that goes, gets another name or a wider type is
left for the next start. Committed files stay right, since readers go by ids.
"""

import threading

from pyiceberg.table.metadata import TableMetadata

from sluiceway.observe.log import Log
from sluiceway.sinks.iceberg.publish.added_columns import columns_of
from sluiceway.types.evolution import Columns


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

    def update(self, metadata: TableMetadata, events: Log) -> None:
        """Take in the table as a look found it.

        Args:
            metadata: Metadata as it was loaded, perhaps before a change that is known already.
            events: Gets each schema that is not taken up, once.
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
        events.warning("schema_not_followed", reason=reason)

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
