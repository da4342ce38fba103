"""Where tables of files are written down: in a Hive Metastore, or in a folder."""

from typing import TYPE_CHECKING, TypeAlias

from sluiceway.catalog.hive_table import MetastoreTable
from sluiceway.catalog.metastore import MetastoreClient
from sluiceway.sinks.contract import TableIdentity
from sluiceway.sinks.table_options import FOLDER, TableOptions, table_not_found
from sluiceway.storage.access import NO_STORES, Stores

if TYPE_CHECKING:
    from sluiceway.sinks.hive.folder_catalog import FolderCatalog

Options = tuple[tuple[str, str], ...]
TableCatalog: TypeAlias = "MetastoreClient | FolderCatalog"


def open_catalog(
    uris: str,
    timeout_s: float = 60.0,
    stores: Stores = NO_STORES,
    options: Options = (),
) -> TableCatalog:
    """A client of the catalog at an address. Called on the driver; it connects when it is asked.

    Args:
        uris: `thrift://host:port`, several separated by commas; or `folder:` and a place.
        timeout_s: Longest wait for an answer of a metastore.
        stores: How the stores of tables are reached.
        options: How a metastore is reached, in addition to its address.

    Raises:
        JobFileError: It is no such address.
    """
    if uris.startswith(FOLDER):
        # Few have one, and each command would load it.
        from sluiceway.sinks.hive.folder_catalog import FolderCatalog  # noqa: PLC0415

        return FolderCatalog(uris.removeprefix(FOLDER), stores)
    return MetastoreClient(uris, timeout_s, dict(options), stores)


def find_hive_table(options: TableOptions) -> TableIdentity:
    """See `TableSink.find`; needs nothing of what reads or writes files.

    Raises:
        TableNotFoundError: It does not exist.
        MetastoreUnavailableError: The metastore does not answer.
    """
    return identity_of(*described_table(options))


def hive_columns(options: TableOptions) -> tuple[str, ...]:
    """Columns of a table that is read, its partition columns last, as its catalog spells them.

    Raises:
        TableMismatchError: Its rows are not those of its files.
        TableNotFoundError: It does not exist.
        MetastoreUnavailableError: The metastore does not answer.
    """
    # Imported here: light commands open a catalog, and never check a table.
    from sluiceway.sinks.hive.table_check import check_readable  # noqa: PLC0415

    _, found = described_table(options)
    check_readable(found)
    return tuple(each.name for each in (*found.layout.columns, *found.partition_columns))


def described_table(options: TableOptions) -> tuple[str, MetastoreTable]:
    """Address of the catalog, and the table as it has it.

    Raises:
        TableNotFoundError: It does not exist.
        MetastoreUnavailableError: The metastore does not answer.
    """
    client = open_catalog(
        options.metastore, options.timeout_s, options.stores, options.metastore_options
    )
    try:
        table = client.get_table(options.database, options.table)
    finally:
        client.close()
    if table is None:
        raise table_not_found(options)
    return client.uris, table


def identity_of(uris: str, table: MetastoreTable) -> TableIdentity:
    """Which table it is.

    Args:
        uris: Address of its catalog.
        table: The table as the catalog has it.
    """
    return TableIdentity(
        catalog=uris,
        database=table.database,
        name=table.name,
        created_at_s=table.created_at_s,
        location=table.layout.location,
    )
