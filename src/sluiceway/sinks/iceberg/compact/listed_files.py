"""Files that lie in a lake table's own folders, except files of other tables."""

import gzip
import re
from dataclasses import dataclass

from sluiceway.errors import SluicewayError
from sluiceway.storage.contract import FileStatus, Storage

FOLDERS = ("data", "metadata")
_OTHERS = ("_sluiceway", "_delta_log", ".hoodie")
_METADATA = "metadata"
_HINT = "version-hint.text"
_UUID = re.compile(rb'"table-uuid"\s*:\s*"([0-9a-fA-F-]{36})"')
_HEAD_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file as the store lists it.

    Attributes:
        inside: Its name below the table's location.
        changed_ms: Since 1970, by the store's clock; None where the store has none.
    """

    inside: str
    size_bytes: int
    changed_ms: int | None


@dataclass(slots=True)
class Listing:
    """What was found.

    Attributes:
        files: Below `data` and `metadata`.
        others: Folders that were left alone: of another table, or links to elsewhere.
    """

    files: list[ListedFile]
    others: list[str]


def list_files(storage: Storage, root: str) -> Listing:
    """List the folders of a table whole. Engines' hidden files are left out, as engines do.

    Args:
        storage: The table's storage.
        root: Its location, as the storage names it.

    Raises:
        StorageUnavailableError: The store failed.
    """
    found = Listing([], [])
    waiting = list(FOLDERS)
    while waiting:
        folder = waiting.pop()
        entries = [(each, _last(each)) for each in storage.list(f"{root}/{folder}")]
        if _is_anothers(storage, [name for each, name in entries if each.is_dir], root, folder):
            found.others.append(folder)
            continue
        for each, name in entries:
            inside = f"{folder}/{name}"
            if not name or _is_hidden(name):
                continue
            if each.is_link:
                found.others.append(inside)
            elif each.is_dir:
                waiting.append(inside)
            else:
                found.files.append(ListedFile(inside, each.size_bytes, each.changed_ms))
    return found


def _last(status: FileStatus) -> str:
    return status.path.rpartition("/")[2]


def _is_hidden(name: str) -> bool:
    """As engines have it; a partition's folder may begin with an underscore too."""
    return name.startswith((".", "_")) and "=" not in name


def _is_anothers(storage: Storage, names: list[str], root: str, folder: str) -> bool:
    """Whether a folder is the location of another table."""
    if any(name in _OTHERS for name in names):
        return True
    if _METADATA not in names:
        return False
    below = (_last(each) for each in storage.list(f"{root}/{folder}/{_METADATA}"))
    return any(name == _HINT or is_table_metadata(name) for name in below)


def is_table_metadata(name: str) -> bool:
    """Whether a file's name is that of a table's metadata."""
    return ".metadata.json" in name


def is_hint(inside: str) -> bool:
    """Whether it is the file by which catalogs of folders find the newest metadata."""
    return inside == f"{_METADATA}/{_HINT}"


def uuid_in(storage: Storage, path: str) -> str | None:
    """The table that a metadata file is of; None when it does not say, or cannot be read."""
    try:
        with storage.open_read(path) as handle:
            raw = handle.read(_HEAD_BYTES)
            if raw[:2] == b"\x1f\x8b":
                raw = gzip.decompress(raw + handle.read())
    except (SluicewayError, OSError, EOFError):
        return None
    found = _UUID.search(raw)
    return None if found is None else found[1].decode().lower()
