"""What a metastore says of itself and of a table, for a job file that is not written yet."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from sluiceway.catalog.metastore import MetastoreClient
from sluiceway.sinks.hive.catalogs import described_table, open_catalog
from sluiceway.sinks.hive.table_check import check_writable
from sluiceway.sinks.hive.table_format import format_of
from sluiceway.sinks.partition_path import parse_partition_folder
from sluiceway.sinks.table_options import (
    FOLDER,
    ReadableTable,
    TableOptions,
)

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


def readable_table(options: TableOptions) -> ReadableTable:
    """A table that is read, as its catalog has it now.

    Raises:
        TableNotFoundError: It does not exist.
        MetastoreUnavailableError: The metastore does not answer.
    """
    _, found = described_table(options)
    return ReadableTable(
        tuple((each.name, each.type) for each in found.layout.columns),
        tuple((each.name, each.type) for each in found.partition_columns),
        format_of(found.layout),
        found.layout.location,
        found.created_at_s,
    )


def partition_places(options: TableOptions) -> dict[str, str]:
    """Partition name -> location of all partitions of a table that is read.

    Raises:
        MetastoreUnavailableError: The metastore does not answer.
    """
    client = open_catalog(
        options.metastore, options.timeout_s, options.stores, options.metastore_options
    )
    try:
        names = client.list_partition_names(options.database, options.table)
        found = client.get_partitions(options.database, options.table, names)
    finally:
        client.close()
    places = {}
    for name in names:
        shown = found.get(tuple(value for _, value in parse_partition_folder(name)))
        if shown is not None:
            places[name] = shown.layout.location
    return places
