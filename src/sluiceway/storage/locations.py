"""Locations as catalogs write them: compared, and completed with a scheme."""

import re

# Hadoop's clients of one store, by age.
_SAME_SCHEME = {"s3": "s3a", "s3n": "s3a"}
_NAME_NODE_PORT = ":8020"
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
    """True when both name the same place, also by another name of its store's scheme."""
    return _place(one) == _place(other)


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
