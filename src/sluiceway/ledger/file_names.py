"""Data files as records name them: a name says which epoch of which term wrote the file.

`<prefix><route>-<term>-<epoch>-<task>-<uuid><suffix>.parquet`. The job file may change prefix and
suffix between two runs, so readers of a folder accept any.
"""

import re
from dataclasses import dataclass
from functools import cache
from uuid import uuid4

from sluiceway.types.strict_json import BigInt

PREFIX = re.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,31}")
"""Readers of Hive's family leave out files whose names begin with `_` or `.`."""
SUFFIX = re.compile("[A-Za-z0-9._-]{1,32}")


@dataclass(frozen=True, slots=True)
class FileOrigin:
    """Who wrote a file.

    Attributes:
        term: Term of the driver.
        epoch: Number of its epoch.
    """

    term: int
    epoch: int


def new_file_name(
    route: str, origin: FileOrigin, task: int, *, prefix: str = "", suffix: str = ""
) -> str:
    """A name that no other file has, without the format's ending. Called once a file.

    Args:
        route: The route's name.
        origin: Term and epoch that write the file.
        task: Number of the task within the epoch.
        prefix: `PREFIX`, or empty.
        suffix: `SUFFIX`, or empty.
    """
    return f"{prefix}{route}-{origin.term}-{origin.epoch}-{task}-{uuid4().hex}{suffix}"


def file_origin(route: str, name: str) -> FileOrigin | None:
    """Who wrote the file of this name; None when it is none of the route's.

    Args:
        route: The route's name.
        name: The file's name, without its folder.
    """
    found = _pattern(route).fullmatch(name)
    return None if found is None else FileOrigin(int(found[1]), int(found[2]))


def renamed_file(route: str, name: str, origin: FileOrigin) -> str:
    """A name that no other file has for a copy of a file of the route. Called once a copy.

    Args:
        route: The route's name.
        name: The file's name, without its folder; prefix, suffix and ending are kept.
        origin: Term and epoch that copy the file.

    Raises:
        ValueError: It is no name of the route's.
    """
    found = _pattern(route).fullmatch(name)
    if found is None:
        raise ValueError(f"{name!r} is no file of the route {route}")
    middle = f"{origin.term}-{origin.epoch}-0-{uuid4().hex}"
    return f"{name[: found.start(1)]}{middle}{name[found.start(3) :]}"


@cache
def _pattern(route: str) -> re.Pattern[str]:
    return re.compile(
        rf"(?:{PREFIX.pattern})?{re.escape(route)}-(\d+)-(\d+)-\d+-[0-9a-f]{{32}}"
        rf"((?:{SUFFIX.pattern})?\..+)"
    )


@dataclass(frozen=True, slots=True)
class FileRecord:
    """One committed file.

    Attributes:
        staged: `<attempt folder>/<name>`, relative to stage/.
        final: Relative to the table's folder.
        values: Raw partition values, None for the default partition; empty for dirty files.
        rows: Rows in it.
        size_bytes: Size of the file, bytes.
        crc32c: CRC32C of the whole file, 8 hex digits.
        bounds: Column -> (least, greatest) as text, for simple types only.
    """

    staged: str
    final: str
    values: tuple[str | None, ...]
    rows: BigInt
    size_bytes: BigInt
    crc32c: str
    bounds: dict[str, tuple[str, ...]]
