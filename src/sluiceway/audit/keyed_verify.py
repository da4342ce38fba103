"""Rows of a keyed lake table against the ledger: each key once, each row from what was read."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluiceway.audit.verify import VerifyReport
from sluiceway.config.config import RouteConfig
from sluiceway.ledger.records import RangeRecord
from sluiceway.sinks.iceberg.held_key import identifier_names

_KIND = "keys"


def check_keyed_rows(
    table: Any, config: RouteConfig, ranges: Iterable[RangeRecord], report: VerifyReport
) -> None:
    """Read the keys of a table, and which records its rows are from.

    Args:
        table: As its catalog has it.
        config: Of a route with a key.
        ranges: That the slots in the table have read.
        report: Takes what is wrong.
    """
    if config.key is None:
        return
    # What a route is told at its start, the table has said since.
    key = list(config.key.columns or identifier_names(table.metadata))
    names = {column.part: column.column for column in config.meta}
    wanted = [*key, names["offset"], *(names[k] for k in ("topic", "partition") if k in names)]
    rows = table.scan(selected_fields=tuple(dict.fromkeys(wanted)), case_sensitive=False).to_arrow()
    distinct = rows.group_by(key).aggregate([]).num_rows
    if distinct != rows.num_rows:
        twice = rows.num_rows - distinct
        report.add(_KIND, "table", f"{twice} rows have a key that another row has")
    if report.foreign:
        report.unchecked.append("offsets of the table's rows: it has foreign snapshots")
        return
    unread = _not_read(rows, names, ranges)
    if unread:
        report.add(_KIND, "table", f"{unread} rows are from offsets that no record has read")


def _not_read(rows: pa.Table, names: dict[str, str], ranges: Iterable[RangeRecord]) -> int:
    """Rows whose offset is in no range."""
    known = np.zeros(rows.num_rows, bool)
    offsets = rows[names["offset"]].to_numpy()
    spans: dict[tuple[str, object], list[tuple[int, int]]] = {}
    for each in ranges:
        spans.setdefault((each.topic, each.partition), []).append((int(each.start), int(each.end)))
    for (topic, partition), found in spans.items():
        of = pc.equal(rows[names["partition"]], partition)
        if "topic" in names:
            of = pc.and_(of, pc.equal(rows[names["topic"]], topic))
        mine = np.asarray(of)
        begin, end = min(start for start, _ in found), max(end for _, end in found)
        known |= mine & (offsets >= begin) & (offsets < end)
    return int((~known).sum())
