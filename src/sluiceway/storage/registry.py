"""Which storage serves a location: this package's own, or a plug-in's by the URI's scheme."""

import re
from collections.abc import Callable, Mapping
from functools import cache

from sluiceway.errors import JobFileError, UnhealthyEnvironmentError
from sluiceway.plugins import PluginGroup, find_implementation, opened, plugin_names
from sluiceway.storage.access import HDFS, LOCAL, NO_STORES, S3, StoreAccess, Stores, store_kind
from sluiceway.storage.contract import Storage
from sluiceway.storage.local import LocalStorage, local_path
from sluiceway.storage.locations import normalise_location

OpenStorage = Callable[[str, Mapping[str, str]], tuple[Storage, str]]
"""What an entry point of `sluiceway.storage` names: a callable. It takes a location and the options
of the job file's connection of that kind, which may be none. It returns the storage, and the
location as that storage names it: a URI of its scheme, without a trailing slash. Paths below it are
made by adding `/name`; the name opened again gives itself, because tasks open what the driver
opened. Called once per driver, task or tool; raises `UnhealthyEnvironmentError` for a wrong
location or wrong options."""

# Scheme and colon; a plain path has none. Nothing else of a location is read here.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_BUILT_IN = (LOCAL, S3, HDFS)


def open_storage(location: str, stores: Stores = NO_STORES) -> tuple[Storage, str]:
    """Storage for a table's location, and the location as that storage names it.

    Called once per driver, task or tool.

    Args:
        location: Path or URI as the metastore holds it.
        stores: How stores are reached.

    Raises:
        UnhealthyEnvironmentError: Nothing installed here serves the scheme.
        JobFileError: The store's connection has options that cannot be.
    """
    match = _SCHEME.match(location)
    kind = store_kind(match[1].lower() if match else LOCAL)
    if kind in stores.unclear:
        raise JobFileError(
            f"the job file has several connections of the kind {kind}, for {location}",
            hint="name one of them with table.hive.storage",
        )
    plugins = plugin_names(PluginGroup.STORAGE)
    if kind in _BUILT_IN and kind not in plugins:
        return _open_built_in(kind, location, stores)
    if kind not in plugins:
        served = ", ".join(sorted({*_BUILT_IN, *plugins}))
        raise UnhealthyEnvironmentError(
            f"expected a location whose scheme is one of {served}, got {location}",
            hint="give the table a location that begins with file:/ or s3a://, or install the "
            "storage plug-in for its scheme on the driver and on every worker",
        )
    built_in = dict.fromkeys(_BUILT_IN)
    open_it: OpenStorage = find_implementation(PluginGroup.STORAGE, kind, built_in)
    options = dict(stores.access(kind).options)
    storage, named = opened(PluginGroup.STORAGE, kind, tuple, lambda: open_it(location, options))
    if not named.startswith(f"{kind}:"):
        # A task would take a plain path for one of its own machine.
        raise UnhealthyEnvironmentError(
            f"the storage plug-in {kind!r} names {location} as {named}, which is not its scheme",
            hint="a fault of the plug-in; tell its author",
        )
    return storage, named


def ensure_folder(location: str, stores: Stores = NO_STORES) -> None:
    """Make a folder that is missing, so that a metastore does not. Safe to repeat.

    Args:
        location: Path or URI as a metastore holds it.
        stores: How stores are reached.

    Raises:
        StorageUnavailableError: The store failed, or refuses.
        UnhealthyEnvironmentError: Nothing installed here serves the scheme.
        JobFileError: The store's connection has options that cannot be.
    """
    # Normalised, a file: URI is a plain path, in which a % is part of a name.
    storage, path = open_storage(normalise_location(location), stores)
    if storage.status(path) is None:
        storage.make_folders(path)


def _open_built_in(kind: str, location: str, stores: Stores) -> tuple[Storage, str]:
    if kind == LOCAL:
        return LocalStorage(), str(local_path(location))
    # Their clients are imported where a table lies there, and nowhere else.
    if kind == HDFS:
        from sluiceway.storage.hdfs.storage import hdfs_location  # noqa: PLC0415

        service, named = hdfs_location(location)
        return _hdfs_storage(stores.access(kind), service), named
    from sluiceway.storage.s3.storage import s3_location  # noqa: PLC0415

    named = s3_location(location)
    return _s3_storage(stores.access(kind)), named


@cache
def _s3_storage(access: StoreAccess) -> Storage:
    """One for all routes and tasks of a process: its connections are shared."""
    from sluiceway.storage.s3.storage import S3Storage  # noqa: PLC0415

    return S3Storage(access)


@cache
def _hdfs_storage(access: StoreAccess, service: str) -> Storage:
    """As `_s3_storage`, for each name service."""
    from sluiceway.storage.hdfs.storage import HdfsStorage  # noqa: PLC0415

    return HdfsStorage(access, service)
