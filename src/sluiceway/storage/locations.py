"""Locations as catalogs write them: compared, and completed with a scheme."""

import re

from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.storage.contract import Storage

# Hadoop's clients of one store, by age.
_SAME_SCHEME = {"s3": "s3a", "s3n": "s3a"}
_NAME_NODE_PORT = ":8020"
_DEFAULT_HDFS = "hdfs://"
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):(.*)$", re.DOTALL)


def _split(location: str) -> tuple[str, str, str]:
    """Scheme in lower case, authority and path; nothing is decoded, as in Hadoop's Path."""
    match = _SCHEME.match(location)
    scheme, rest = (match[1].lower(), match[2]) if match else ("", location)
    if not rest.startswith("//"):
        return scheme, "", rest
    authority, slash, path = rest[2:].partition("/")
    return scheme, authority, slash + path


def normalise_location(location: str) -> str:
    """One spelling for all spellings of a location.

    `file:/x`, `file:///x/`, `file://localhost/x` and `/x` become `/x`. Other schemes keep their
    authority as it is: a name service and a host of it are different places. A `%` in a path is
    a character of the name, never an escape.
    """
    scheme, authority, path = _split(location)
    path = re.sub(r"/{2,}", "/", path)
    path = path.rstrip("/") or path[:1]
    if scheme in ("", "file") and authority in ("", "localhost"):
        return path
    return f"{scheme}://{authority}{path}"


def same_location(one: str, other: str) -> bool:
    """True when both name the same place, also by another name of its store's scheme.

    `hdfs:///x` is on the default name node, which a location may name too.
    """
    (store, path), (other_store, other_path) = store_and_path(one), store_and_path(other)
    return path == other_path and same_store(store, other_store)


def same_store(one: str, other: str) -> bool:
    """True when two stores, as `store_and_path` has them, are one.

    Args:
        one: `s3a://bucket`, `hdfs://` for the default name node; empty for local files.
        other: The other store, in the same form.
    """
    pair = {one, other}
    hdfs = all(each.startswith(_DEFAULT_HDFS) for each in pair)
    return len(pair) == 1 or (hdfs and _DEFAULT_HDFS in pair)


def path_below(location: str, name: str) -> str | None:
    """A file relative to a folder, without a leading slash, however the two are spelt.

    Args:
        location: Location of the folder.
        name: Location of the file.

    Returns:
        None when it lies elsewhere.
    """
    whole = location.rstrip("/")
    if name.startswith(f"{whole}/"):
        return name[len(whole) + 1 :]
    (store, root), (found, path) = store_and_path(location), store_and_path(name)
    below = path.startswith(f"{root.rstrip('/')}/") and same_store(store, found)
    return path[len(root.rstrip("/")) + 1 :] if below else None


def _place(location: str) -> str:
    scheme, separator, rest = normalise_location(location).partition("://")
    if not separator:
        return scheme
    authority, slash, path = rest.partition("/")
    if scheme == "hdfs":
        authority = authority.removesuffix(_NAME_NODE_PORT)
    return f"{_SAME_SCHEME.get(scheme, scheme)}://{authority}{slash}{path}"


def store_and_path(location: str) -> tuple[str, str]:
    """The store of a location, one spelling for all of its names, and the path there.

    The store is empty for local files and for a bare path; the path begins with a slash.
    """
    store, separator, rest = _place(location).partition("://")
    if not separator:
        return "", store
    authority, slash, path = rest.partition("/")
    return f"{store}://{authority}", slash + path


def qualify_location(location: str, table_location: str) -> str:
    """Complete a bare path with the scheme and authority of the table it belongs to.

    A metastore resolves a bare path against its own default file system, which need not be the
    table's.
    """
    scheme, _, _ = _split(location)
    if scheme:
        return location
    table_scheme, authority, _ = _split(table_location)
    if not table_scheme:
        return location
    return f"{table_scheme}://{authority}{location}"


def is_absolute_location(location: str) -> bool:
    """True for a path from the root or a URI whose path is one."""
    _, _, path = _split(location)
    return path.startswith("/")


def refuse_missing_parent(storage: Storage, folder: str, *, create: bool) -> None:
    """Refuse a folder whose parent is not there. Called before anything is made in it.

    An unmounted disk appears as an empty path: the table would grow on the root disk.

    Args:
        storage: Storage of the folder.
        folder: Root of a table.
        create: Whether the job file wants missing parents to be made.

    Raises:
        UnhealthyEnvironmentError: The folder above does not exist.
        StorageUnavailableError: The store failed.
    """
    missing = storage.missing_parent(folder)
    if missing is not None and not create:
        raise UnhealthyEnvironmentError(
            f"the folder {missing} does not exist, so the table's folder is not made in it",
            where=folder,
            hint="mount its disk, or correct the location; `table.hive.create_location: true` in "
            "the job file makes all folders that are missing",
        )
