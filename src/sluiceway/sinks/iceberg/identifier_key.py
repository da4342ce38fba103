"""The key that a table has said itself: its identifier fields."""

from collections.abc import Mapping

from pyiceberg.table.metadata import TableMetadata

from sluiceway.sinks.iceberg.catalog.open_catalog import open_catalog
from sluiceway.sinks.table_options import TableOptions


def identifier_key(table: TableOptions, options: Mapping[str, str]) -> tuple[str, ...]:
    """Identifier fields of a table, by name; none where it does not exist, or has none.

    Args:
        table: The table as the job file says.
        options: Options of the catalog's connection.

    Raises:
        MetastoreUnavailableError: The catalog does not answer.
    """
    catalog = open_catalog(dict(options), table.timeout_s)
    try:
        found = catalog.load((table.database, table.table))
        return () if found is None else identifier_names(found.metadata)
    finally:
        catalog.close()


def identifier_names(metadata: TableMetadata) -> tuple[str, ...]:
    """Names of a table's identifier fields, in the order of its columns."""
    schema = metadata.schema()
    ids = set(schema.identifier_field_ids)
    return tuple(of.name for of in schema.fields if of.field_id in ids)
