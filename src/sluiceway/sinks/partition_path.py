"""Partition folders as Hive and Spark name them, and proof that they stay inside a root.

Source: Hive `FileUtils.escapePathName` and `makePartName`, Spark `ExternalCatalogUtils`.
"""

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"

# A file system allows 255 bytes a name; the metastore's columns hold 256 characters a value and
# 767 a whole name. Beyond these it answers, after 20 s of retries, that its database failed.
MAX_COMPONENT_BYTES = 255
MAX_VALUE_CHARS = 256
MAX_NAME_CHARS = 767
_REMEMBERED = 4_096

_CONTROL = [chr(code) for code in range(0x01, 0x20)]
_ESCAPED = frozenset([*_CONTROL, "\x7f", *"\"#%'*/:=?\\{[]^"])
_ESCAPES = str.maketrans({char: f"%{ord(char):02X}" for char in _ESCAPED})
_ESCAPE = re.compile("%([0-9A-Fa-f]{2})")
# Only lake tables have these. No other text has such a folder: neither letter is escaped elsewhere.
_NO_NULL = "%5F" + DEFAULT_PARTITION[1:]
_SHORTENED = "%7E"
_OWN_ESCAPES = re.compile(f"(%5F(?=_HIVE_DEFAULT_PARTITION__$)|{_SHORTENED}(?=[0-9a-f]{{64}}$))")
_CUT_ESCAPE = re.compile("%[0-9A-F]?$")


def escape(text: str) -> str:
    """`text` as part of a folder's name; empty stays empty."""
    return text.translate(_ESCAPES)


def unescape(text: str) -> str:
    """The text that `escape` was given. A `%` without two hex digits stands for itself."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)


def partition_component(name: str, value: str | None) -> str:
    """One folder's name, `hr=08`.

    Null has Hive's name for it. Three texts occur in lake tables alone. An empty text is `hr=`, as
    Iceberg writes it. A text may spell the name for null, and a text that is too long for a folder
    ends with a digest of it.

    Args:
        name: Name of the partition column; in lower case, as Hive does.
        value: Raw.
    """
    if value is None:
        return f"{escape(name.lower())}={DEFAULT_PARTITION}"
    plain = _plain_component(name, _NO_NULL if is_reserved_value(value) else escape(value))
    if len(plain) <= MAX_COMPONENT_BYTES:
        return plain.decode("utf-8", "surrogatepass")
    end = _SHORTENED + hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
    kept = plain[: MAX_COMPONENT_BYTES - len(end)].decode("utf-8", "ignore")
    return _CUT_ESCAPE.sub("", kept) + end


def partition_folder(names: Sequence[str], values: Sequence[str | None]) -> str:
    """Relative folder of a partition, `dt=20261120/hr=08`; empty without partition columns.

    Called once per partition of an epoch, in tasks and on the driver.

    Args:
        names: Partition columns, in path order.
        values: Raw values, one for each.

    Raises:
        ValueError: Not as many values as names.
    """
    pairs = zip(names, values, strict=True)
    return "/".join(partition_component(name, value) for name, value in pairs)


def parse_partition_folder(folder: str) -> tuple[tuple[str, str], ...]:
    """Names and raw values of `dt=20261120/hr=08`; Hive's default partition as it is written.

    Raises:
        ValueError: A component is not `name=value`.
    """
    found = []
    for component in folder.split("/") if folder else ():
        name, equals, value = component.partition("=")
        if not (name and equals):
            raise ValueError(f"{component!r} is not name=value")
        found.append((unescape(name), unescape(value)))
    return tuple(found)


def requested_folder(text: str) -> str:
    """The folder that a person means, whose values may be written as they are: `pc=%` too."""
    parts = (part.partition("=") for part in text.strip("/").split("/"))
    return "/".join(f"{name}{equals}{_requested_value(value)}" for name, equals, value in parts)


def _requested_value(text: str) -> str:
    """A folder's own escapes stay; what `escape` would write is written so, once."""
    parts = _OWN_ESCAPES.split(text)
    return "".join(part if at % 2 else escape(unescape(part)) for at, part in enumerate(parts))


def catalog_folder(names: Sequence[str], values: Sequence[str]) -> str:
    """`partition_folder` of values as the metastore holds them, null by Hive's name."""
    return partition_folder(names, [None if is_reserved_value(each) else each for each in values])


def catalog_values(values: Sequence[str | None]) -> tuple[str, ...]:
    """Values as the metastore holds them: null and empty by Hive's name for both."""
    return tuple(value or DEFAULT_PARTITION for value in values)


def escaped_component_bytes(name: str, value: str | None) -> int:
    """Length of the folder's name in UTF-8."""
    return len(_plain_component(name, DEFAULT_PARTITION if value is None else escape(value)))


def _plain_component(name: str, escaped: str) -> bytes:
    return f"{escape(name.lower())}={escaped}".encode("utf-8", "surrogatepass")


def is_reserved_value(value: str | None) -> bool:
    """True for text that spells Hive's name for null: such a row would read back as null."""
    return value == DEFAULT_PARTITION


@lru_cache(_REMEMBERED)
def partition_value_problem(name: str, value: str | None) -> str | None:
    """Why a row with this partition value is dirty, or None when it is not.

    Called once per distinct value of a batch; the next batch has the same values.

    Args:
        name: Name of the partition column.
        value: Raw; None and empty are Hive's default partition and no problem.
    """
    if value is None:
        return None
    if is_reserved_value(value):
        return f"{DEFAULT_PARTITION} stands for null and cannot be a value"
    if "\x00" in value:
        return "a value with a NUL character has no folder"
    if any("\ud800" <= char <= "\udfff" for char in value):
        return "a value with half a surrogate pair has no folder"
    if escaped_component_bytes(name, value) > MAX_COMPONENT_BYTES:
        return f"its folder's name would be longer than {MAX_COMPONENT_BYTES} bytes"
    if len(value) > MAX_VALUE_CHARS:
        return f"it is longer than the metastore's {MAX_VALUE_CHARS} characters"
    return None


def partition_name_problem(names: Sequence[str], values: Sequence[str | None]) -> str | None:
    """Why the metastore cannot hold this partition, or None when it can."""
    for name, value in zip(names, catalog_values(values), strict=True):
        # The default partition itself comes in by its name as well as by null.
        problem = None if is_reserved_value(value) else partition_value_problem(name, value)
        if problem:
            return f"{name}: {problem}"
    if len(partition_folder(names, values)) > MAX_NAME_CHARS:
        return f"its name is longer than the metastore's {MAX_NAME_CHARS} characters"
    return None


def resolve_within(root: str, relative: str) -> str:
    """`relative` below `root`; nothing but a place strictly below it comes back.

    Called for every path that is made from data. Works on names only; it follows no link.

    Args:
        root: Absolute path or URI of a folder.
        relative: Components joined by `/`.

    Raises:
        ValueError: A component is empty, `.`, `..` or has a NUL character.
    """
    for component in relative.split("/"):
        if component in ("", ".", "..") or "\x00" in component:
            raise ValueError(f"{relative!r} does not stay below {root}")
    return f"{root.rstrip('/')}/{relative}"
