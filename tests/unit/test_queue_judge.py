"""The judge of cells on RocketMQ: what it finds of each fault that is planted."""

import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from matrix.queues import Key, judge
from tools.independent_reader import TableFile, TableView
from tools.job_files import event

Row = dict[str, object]
MESSAGES: dict[Key, bytes] = {
    ("t", "broker-a/0", 0): event(1),
    ("t", "broker-a/0", 1): b"{",
    ("t", "broker-b/0", 0): event(2),
}


def rows() -> list[Row]:
    found = []
    for (topic, queue, offset), body in MESSAGES.items():
        if body != b"{":
            row = json.loads(body)
            place = {"_topic": topic, "_partition": queue, "_offset": offset}
            found.append({**row, "amount": Decimal(row["amount"]), **place})
    return found


def dirty() -> list[Row]:
    return [{"topic": "t", "partition": "broker-a/0", "offset": 1, "value": b"{"}]


def view(folder: Path, rows: Sequence[Row], dirty: Sequence[Row], hour: str = "08") -> TableView:
    pq.write_table(pa.Table.from_pylist(list(rows)), folder / "rows.parquet")
    if dirty:
        pq.write_table(pa.Table.from_pylist(list(dirty)), folder / "dirty.parquet")
    files = (TableFile(str(folder / "rows.parquet"), ("20261120", hour)),)
    return TableView({}, ("dt", "hr"), files, (str(folder / "dirty.parquet"),) if dirty else ())


def test_what_is_right_has_no_fault(tmp_path: Path) -> None:
    report = judge(view(tmp_path, rows(), dirty()), MESSAGES)
    assert report.ok
    assert (report.read, report.written, report.dirty) == (3, 2, 1)


def _other_city(found: list[Row]) -> list[Row]:
    return [found[0] | {"city": "Rome"}, *found[1:]]


def _unknown_row(found: list[Row]) -> list[Row]:
    return [*found, found[0] | {"_offset": 99}]


def _broken_row(found: list[Row]) -> list[Row]:
    return [*found, found[0] | {"_offset": 1}]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda found: found[1:], "lost"),
        (lambda found: [*found, found[0]], "doubled"),
        (_other_city, "altered"),
        (_unknown_row, "unknown"),
        (_broken_row, "broken_written"),
    ],
)
def test_fault_of_rows_is_found(
    tmp_path: Path, change: Callable[[list[Row]], list[Row]], fault: str
) -> None:
    report = judge(view(tmp_path, change(rows()), dirty()), MESSAGES)
    assert not report.ok
    assert getattr(report, fault) == 1


def test_row_in_another_hour_is_altered(tmp_path: Path) -> None:
    assert judge(view(tmp_path, rows(), dirty(), hour="09"), MESSAGES).altered == 2


def test_dirty_rows_are_compared_too(tmp_path: Path) -> None:
    assert judge(view(tmp_path, rows(), []), MESSAGES).lost == 1
    other = [dirty()[0] | {"value": b"}"}]
    assert judge(view(tmp_path, rows(), other), MESSAGES).altered == 1
    whole = [dirty()[0] | {"partition": "broker-b/0", "offset": 0, "value": event(2)}]
    report = judge(view(tmp_path, rows()[:1], [*dirty(), *whole]), MESSAGES)
    assert (report.uncovered_dirty, report.lost) == (1, 0)
