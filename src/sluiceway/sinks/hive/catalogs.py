"""Where tables of files are written down: in a Hive Metastore, or in a folder."""

from sluiceway.catalog.metastore import MetastoreClient
from sluiceway.sinks.hive.folder_catalog import FOLDER, FolderCatalog
from sluiceway.storage.access import NO_STORES, Stores

Options = tuple[tuple[str, str], ...]
TableCatalog = MetastoreClient | FolderCatalog


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
        stores: How the store of a folder is reached.
        options: How a metastore is reached, besides its address.

    Raises:
        JobFileError: It is no such address.
    """
    if uris.startswith(FOLDER):
        return FolderCatalog(uris.removeprefix(FOLDER), stores)
    return MetastoreClient(uris, timeout_s, dict(options))
