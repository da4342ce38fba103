"""What a metastore says of itself and of a table, for a job file that is not written yet."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from sluiceway.catalog.metastore import MetastoreClient
from sluiceway.sinks.hive.table_check import check_writable
from sluiceway.sinks.table_options import FOLDER, TableOptions

_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table that exists.

    Attributes:
        columns: Its data columns, with Hive's type texts.
        partition_columns: Names, in path order.
        values: Values of one of its partitions, by the partition column; empty when it has none.
    """

    columns: Mapping[str, str]
    partition_columns: tuple[str, ...]
    values: Mapping[str, str]


def read_table(metastore: str, name: str) -> FoundTable | None:
    """Look at a table; None when there is none. Called by `init`.

    Args:
        metastore: `thrift://host:port`.
        name: `database.table`.

    Raises:
        TableMismatchError: It cannot be filled, whatever a job file says.
        MetastoreUnavailableError: The metastore does not answer.
    """
    database, _, table = name.lower().partition(".")
    client = MetastoreClient(metastore, _TIMEOUT_S)
    try:
        found = client.get_table(database, table)
        if found is None:
            return None
        check_writable(found)
        names = client.list_partition_names(database, table, limit=1)
    finally:
        client.close()
    pairs = (part.partition("=") for part in names[0].split("/")) if names else ()
    return FoundTable(
        {column.name: column.type for column in found.layout.columns},
        tuple(column.name for column in found.partition_columns),
        {key: unquote(value) for key, _, value in pairs},
    )


@dataclass(frozen=True, slots=True)
class ObservedMetastore:
    """A metastore that answers.

    Attributes:
        version: Major version; 0 when it reports none.
        default_location: Where new tables lie; None when it has no database `default`.
    """

    version: int
    default_location: str | None


def read_metastore(table: TableOptions) -> ObservedMetastore | None:
    """Ask the metastore of a table. Called by `doctor`; None where a folder stands for it.

    Raises:
        MetastoreUnavailableError: It does not answer.
    """
    if table.metastore.startswith(FOLDER):
        return None
    client = MetastoreClient(table.metastore, _TIMEOUT_S, dict(table.metastore_options))
    try:
        return ObservedMetastore(client.major_version(), client.database_location("default"))
    finally:
        client.close()
