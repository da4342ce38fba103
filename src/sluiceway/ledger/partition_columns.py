"""Partitions of a side file, by columns: tens of thousands of them are written and read at once.

As one object each they take ten times as long to read, and five times the room.
"""

import base64
import json
import zlib
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from sluiceway.ledger.fold_state import PartitionState
from sluiceway.types.strict_json import StrictJsonError, loads

_KINDS: dict[str, type] = {
    "folder": str,
    "first_seq": int,
    "last_seq": int,
    "location": str,
    "moved_seq": int,
    "placed_seq": int,
    "rows": int,
    "files": int,
    "size_bytes": int,
    "file_sum": str,
    "version": int,
    "whole": bool,
    "expired": bool,
}
"""Columns beside `values`; a sum is in hexadecimal digits."""


def packed_states(states: Iterable[PartitionState]) -> str:
    """All that is known of partitions, as one text."""
    kept = list(states)
    columns: dict[str, Any] = {name: [getattr(each, name) for each in kept] for name in _KINDS}
    columns["file_sum"] = [f"{each.file_sum:x}" for each in kept]
    columns["values"] = [each.values for each in kept]
    text = json.dumps(columns, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    return base64.b64encode(zlib.compress(text.encode(), 3)).decode()


def unpacked_states(packed: str) -> list[PartitionState]:
    """The same again.

    Raises:
        StrictJsonError: It is no such text.
    """
    try:
        columns = loads(zlib.decompress(base64.b64decode(packed, validate=True)))
    except (ValueError, zlib.error) as error:
        raise StrictJsonError(f"no columns of partitions: {error}") from error
    names = [each.name for each in fields(PartitionState)]
    if not isinstance(columns, dict) or columns.keys() != set(names):
        raise StrictJsonError("columns of partitions have other names")
    for name, kind in {**_KINDS, "values": list}.items():
        column = columns[name]
        if not isinstance(column, list) or set(map(type, column)) - {kind}:
            raise StrictJsonError(f"column {name} of partitions holds something else")
    texts = {type(text) for values in columns["values"] for text in values}
    if len({len(column) for column in columns.values()}) > 1 or texts - {str, type(None)}:
        raise StrictJsonError("columns of partitions do not fit together")
    columns["values"] = map(tuple, columns["values"])
    columns["file_sum"] = map(_sum, columns["file_sum"])
    return [PartitionState(*row) for row in zip(*map(columns.get, names), strict=True)]


def _sum(digits: str) -> int:
    try:
        return int(digits, 16)
    except ValueError as error:
        raise StrictJsonError(f"no sum of files: {digits[:40]!r}") from error
