"""The partitions of a table that readers of the metastore see."""

from sluiceway.catalog.metastore import MetastoreClient


def shown_partitions(uri: str, table: str) -> dict[tuple[str, ...], str]:
    """Locations by values; none where there is no table.

    Args:
        uri: Of the metastore.
        table: `database.table`.
    """
    database, _, name = table.partition(".")
    client = MetastoreClient(uri)
    try:
        if client.get_table(database, name) is None:
            return {}
        names = client.list_partition_names(database, name)
        found = client.get_partitions(database, name, names)
    finally:
        client.close()
    return {values: each.layout.location for values, each in found.items()}
