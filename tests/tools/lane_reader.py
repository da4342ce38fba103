"""Which rows of dirty files replays have read once more: they count as gone from there.

Reads the LANE and LANE_DATA records of a ledger as plain JSON, with no code of the product. Rows
that were purged stay: given up, they are where they were.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from .reset_reader import plain_records


class ReplayedRows(NamedTuple):
    """Rows `[start, end)` of a dirty file."""

    path: str
    start: int
    end: int


def replayed_rows(root: Path) -> tuple[ReplayedRows, ...]:
    """All that replays have committed, of the ledgers below a table."""
    replays: set[str] = set()
    folders = {path.name: path for path in root.glob("_sluiceway/*/dirty/*.parquet")}
    found: list[ReplayedRows] = []
    for record in plain_records(root):
        body: dict[str, Any] = record["body"]
        if record["type"] == "LANE" and body["kind"] == "replay":
            replays.add(body["lane"])
        if record["type"] == "LANE_DATA" and body["lane"] in replays:
            for span in body["ranges"]:
                path = folders.get(span["source"].rpartition("/")[2])
                if path is not None:
                    found.append(ReplayedRows(str(path), int(span["start"]), int(span["end"])))
    return tuple(found)


def replayed_table(found: Sequence[ReplayedRows]) -> pa.Table:
    """The rows for a join."""
    columns = list(zip(*found, strict=True)) or [(), (), ()]
    kinds = [pa.string(), pa.int64(), pa.int64()]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
    return pa.table(arrays, names=["path", "low", "high"])
