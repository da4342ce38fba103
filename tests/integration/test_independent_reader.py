"""The independent reader catches every corruption of a table that the product did not make."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tools import independent_reader as reader

START_MS = 1_795_161_600_000
HOUR_MS = 3_600_000
COLUMNS = {
    "order_id": "bigint",
    "ts": "bigint",
    "status": "string",
    "amount": "decimal(18,2)",
    "paid": "boolean",
    "items": "array<struct<sku:string,qty:int,price:decimal(18,2)>>",
    "geo": "struct<city:string,lat:double,lon:double>",
    "tags": "array<string>",
    "_topic": "string",
    "_partition": "int",
    "_offset": "bigint",
    "_timestamp": "timestamp",
}
ITEM = pa.struct([("sku", pa.string()), ("qty", pa.int32()), ("price", pa.decimal128(18, 2))])
GEO = pa.struct([("city", pa.string()), ("lat", pa.float64()), ("lon", pa.float64())])
SCHEMA = pa.schema(
    [
        ("order_id", pa.int64()),
        ("ts", pa.int64()),
        ("status", pa.string()),
        ("amount", pa.decimal128(18, 2)),
        ("paid", pa.bool_()),
        ("items", pa.list_(ITEM)),
        ("geo", GEO),
        ("tags", pa.list_(pa.string())),
        ("_topic", pa.string()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("_timestamp", pa.timestamp("us")),
    ]
)
BROKEN = (
    b'{"order_id": 1, "ts": ',
    b'{"order_id": 1, "ts": 1795161600000, "amount": "abc"}',
    b'{"order_id": 1, "order_id": 1, "ts": 1795161600000}',
    b'{"order_id": 1, "ts": 1795161600000, "status": "\xff"}',
)


@dataclass
class Fixture:
    """A table on disk and what the broker has."""

    records: list[reader.BrokerRecord]
    folders: dict[tuple[str, ...], Path]
    dirty: Path

    def check(self, expectation: reader.Expectation | None = None) -> reader.Report:
        files = [
            reader.TableFile(str(path), values)
            for values, folder in self.folders.items()
            for path in sorted(folder.glob("*.parquet"))
        ]
        dirty = [str(path) for path in self.dirty.glob("*.parquet")]
        view = reader.TableView(COLUMNS, ("dt", "hr"), tuple(files), tuple(dirty))
        return reader.check(self.records, view, expectation)


def _order(index: int) -> dict[str, Any]:
    return {
        "order_id": 2**53 + 1 + index,
        "ts": START_MS + index % 3 * HOUR_MS + index,
        "status": ["paid", "新订单", "shipped 📦", None][index % 4],
        "amount": Decimal(index * 101).scaleb(-2),
        "paid": [True, False, None][index % 3],
        "items": None
        if index % 7 == 6
        else [{"sku": f"s{n}", "qty": n, "price": Decimal("0.10")} for n in range(index % 3)],
        "geo": None if index % 5 == 4 else {"city": "北京", "lat": index / 7, "lon": None},
        "tags": [[], ["a", None, "b"], ["a\nb"]][index % 3],
    }


def _payload(order: dict[str, Any]) -> bytes:
    """JSON with decimals as numbers; some texts raw, some escaped."""
    marks: dict[str, str] = {}

    def mark(value: Decimal) -> str:
        marks[f'"#{len(marks)}#"'] = str(value)
        return f"#{len(marks) - 1}#"

    text = json.dumps(order, default=mark, ensure_ascii=order["order_id"] % 2 == 0)
    for key, value in marks.items():
        text = text.replace(key, value)
    return text.encode()


def _write(rows: list[dict[str, Any]], path: Path, schema: pa.Schema = SCHEMA) -> None:
    table = pa.Table.from_pylist(rows, schema)
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)


@pytest.fixture
def table(tmp_path: Path) -> Fixture:
    records, rows = [], []
    for index in range(60):
        order = _order(index)
        record = reader.BrokerRecord(
            "orders", index % 2, index // 2, START_MS + index, b"k", _payload(order)
        )
        records.append(record)
        moment = datetime.fromtimestamp((START_MS + index) / 1000, UTC).replace(tzinfo=None)
        meta = {"_topic": "orders", "_partition": record.partition, "_offset": record.offset}
        rows.append(order | meta | {"_timestamp": moment})
    dirty = []
    for index, payload in enumerate(BROKEN):
        headers = (("h", b"1"), ("n", None)) if index == 0 else ()
        record = reader.BrokerRecord("orders", 2, index, START_MS, None, payload, headers)
        records.append(record)
        dirty.append(_dirty_row(record))
    folders: dict[tuple[str, ...], Path] = {}
    for hour in range(3):
        moment = datetime.fromtimestamp((START_MS + hour * HOUR_MS) / 1000, UTC)
        values = (moment.strftime("%Y%m%d"), moment.strftime("%H"))
        folders[values] = folder = tmp_path / f"dt={values[0]}" / f"hr={values[1]}"
        folder.mkdir(parents=True)
        members = rows[hour::3]
        _write(members[:5], folder / "a.parquet")
        _write(members[5:], folder / "b.parquet")
    (tmp_path / "dirty").mkdir()
    _write(dirty, tmp_path / "dirty" / "d.parquet", pa.schema(list(reader.DIRTY_TYPES.items())))
    return Fixture(records, folders, tmp_path / "dirty")


def _dirty_row(record: reader.BrokerRecord) -> dict[str, Any]:
    row: dict[str, Any] = record._asdict()
    row["headers"] = [{"name": name, "value": value} for name, value in record.headers]
    return row | {
        "stage": "decode",
        "reason": "broken",
        "path": "",
        "message": "",
        "schema_version": "1",
    }


def _edit(path: Path, change: Callable[[list[dict[str, Any]]], object]) -> None:
    """Rewrite a file with changed rows."""
    table = pq.read_table(path, partitioning=None)
    rows = table.to_pylist()
    change(rows)
    _write(rows, path, table.schema)


def _set(column: str, value: Callable[[Any], Any], index: int = 1) -> Callable[[Fixture], None]:
    def corrupt(table: Fixture) -> None:
        def change(rows: list[dict[str, Any]]) -> None:
            before = rows[index][column]
            rows[index][column] = value(before)
            assert rows[index][column] != before

        _edit(_file(table), change)

    return corrupt


def _file(table: Fixture, hour: int = 1, name: str = "a.parquet") -> Path:
    return list(table.folders.values())[hour] / name


def _drop_row(table: Fixture) -> None:
    _edit(_file(table), lambda rows: rows.pop())


def _double_row(table: Fixture) -> None:
    _edit(_file(table), lambda rows: rows.append(rows[0]))


def _double_file(table: Fixture) -> None:
    shutil.copy(_file(table), _file(table).with_name("c.parquet"))


def _remove_file(table: Fixture) -> None:
    _file(table).unlink()


def _swap_hours(table: Fixture) -> None:
    (first, one), (second, two) = list(table.folders.items())[:2]
    table.folders.update({first: two, second: one})


def _move_file(table: Fixture) -> None:
    _file(table).rename(_file(table, 2).with_name("moved.parquet"))


def _forget_partition(table: Fixture) -> None:
    table.folders.popitem()


def _drop_dirty(table: Fixture) -> None:
    _edit(table.dirty / "d.parquet", lambda rows: rows.pop())


def _double_dirty(table: Fixture) -> None:
    shutil.copy(table.dirty / "d.parquet", table.dirty / "e.parquet")


def _fine_row_is_dirty(table: Fixture) -> None:
    moved = next(record for record in table.records if record[1:3] == (0, 0))
    _edit(table.dirty / "d.parquet", lambda rows: rows.append(_dirty_row(moved)))
    _edit(_file(table, 0), lambda rows: rows.pop(0))


def _broken_row_is_written(table: Fixture) -> None:
    _drop_dirty(table)
    changed = {"_partition": 2, "_offset": 3}
    _edit(_file(table), lambda rows: rows.append(rows[0] | changed))


def _row_of_nowhere(table: Fixture) -> None:
    _edit(_file(table), lambda rows: rows.append(rows[0] | {"_offset": 1000}))


def _set_dirty(column: str, value: Any) -> Callable[[Fixture], None]:
    def corrupt(table: Fixture) -> None:
        _edit(table.dirty / "d.parquet", lambda rows: rows[0].update({column: value}))

    return corrupt


def _as_type(column: str, kind: pa.DataType) -> Callable[[Fixture], None]:
    def corrupt(table: Fixture) -> None:
        found = pq.read_table(_file(table), partitioning=None)
        index = found.schema.get_field_index(column)
        values = found.column(column).cast(kind)
        pq.write_table(found.set_column(index, column, values), _file(table))

    return corrupt


def _without_column(table: Fixture) -> None:
    found = pq.read_table(_file(table), partitioning=None)
    pq.write_table(found.drop_columns(["tags"]), _file(table))


def _first_item(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda items: [change(items[0]), *items[1:]]


CORRUPTIONS: dict[str, tuple[Callable[[Fixture], None], dict[str, int]]] = {
    "row dropped": (_drop_row, {"lost": 1}),
    "row doubled": (_double_row, {"doubled": 1}),
    "file doubled": (_double_file, {"doubled": 5}),
    "file removed": (_remove_file, {"lost": 5}),
    "hours swapped": (_swap_hours, {"wrong_partition": 40}),
    "file in another hour": (_move_file, {"wrong_partition": 5}),
    "partition not listed": (_forget_partition, {"lost": 20}),
    "integer plus one": (_set("order_id", lambda v: v + 1), {"altered": 1}),
    "integer through a double": (
        _set("order_id", lambda v: int(float(v))),
        {"altered": 1},
    ),
    "text nulled": (_set("status", lambda _: None, 0), {"altered": 1}),
    "text cut": (_set("status", lambda v: v[:-1]), {"altered": 1}),
    "decimal changed": (_set("amount", lambda v: v + Decimal("0.01")), {"altered": 1}),
    "boolean flipped": (_set("paid", lambda v: not v), {"altered": 1}),
    "null became false": (_set("geo", lambda _: {}, 1), {"altered": 1}),
    "nested field nulled": (_set("geo", lambda v: v | {"city": None}, 0), {"altered": 1}),
    "double off by one ulp": (
        _set("geo", lambda v: v | {"lat": v["lat"] * (1 + 2**-52)}, 0),
        {"altered": 1},
    ),
    "list element dropped": (_set("tags", lambda v: v[:-1], 0), {"altered": 1}),
    "list elements swapped": (_set("tags", lambda v: v[::-1], 0), {"altered": 1}),
    "null list became empty": (_set("items", lambda _: [], 4), {"altered": 1}),
    "empty list became null": (_set("items", lambda _: None, 2), {"altered": 1}),
    "nested number changed": (
        _set("items", _first_item(lambda item: item | {"qty": 9})),
        {"altered": 1},
    ),
    "nested decimal changed": (
        _set("items", _first_item(lambda item: item | {"price": Decimal("0.1") * 10})),
        {"altered": 1},
    ),
    "record time changed": (
        _set("_timestamp", lambda v: v.replace(microsecond=0)),
        {"altered": 1},
    ),
    "offset changed": (_set("_offset", lambda v: v + 1000), {"lost": 1, "unknown": 1}),
    "offset of a neighbour": (
        _set("_partition", lambda v: 1 - v),
        {"lost": 1, "doubled": 1, "altered": 1, "wrong_partition": 1},
    ),
    "topic nulled": (_set("_topic", lambda _: None), {"lost": 1, "unknown": 1}),
    "row of nowhere": (_row_of_nowhere, {"unknown": 1}),
    "decimal scale changed": (_as_type("amount", pa.decimal128(18, 3)), {"schema_errors": 1}),
    "bigint became double": (_as_type("_offset", pa.float64()), {"schema_errors": 1}),
    "column missing": (_without_column, {"schema_errors": 1, "altered": 5}),
    "dirty row missing": (_drop_dirty, {"lost": 1}),
    "dirty rows doubled": (_double_dirty, {"doubled": 4}),
    "dirty row is fine": (_fine_row_is_dirty, {"uncovered_dirty": 1}),
    "broken row written": (_broken_row_is_written, {"broken_written": 1}),
    "dirty value cut": (_set_dirty("value", b"{"), {"altered": 1}),
    "dirty key invented": (_set_dirty("key", b""), {"altered": 1}),
    "dirty header lost": (_set_dirty("headers", []), {"altered": 1}),
    "dirty time lost": (_set_dirty("timestamp_ms", None), {"altered": 1}),
    "dirty reason lost": (_set_dirty("reason", None), {"altered": 1}),
}


def test_check_right_table_is_ok(table: Fixture) -> None:
    report = table.check()
    assert report.details == ()
    assert report.ok
    assert (report.read, report.written, report.dirty) == (64, 60, 4)


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_check_corrupted_table_names_the_fault(table: Fixture, name: str) -> None:
    corrupt, faults = CORRUPTIONS[name]
    corrupt(table)
    report = table.check()
    found = json.loads(report.line())
    counts = {k: v for k, v in found.items() if v and k not in ("read", "written", "dirty")}
    assert not report.ok
    assert counts == faults


def test_check_tombstone_is_dirty_or_nowhere_as_the_job_says(table: Fixture) -> None:
    table.records.append(reader.BrokerRecord("orders", 0, 999, START_MS, b"k", None))
    skipped = table.check(reader.Expectation(tombstones="skip"))
    assert skipped.ok
    assert (skipped.read, skipped.tombstones) == (65, 1)
    assert table.check().lost == 1
    dirty = _dirty_row(table.records[-1])
    _edit(table.dirty / "d.parquet", lambda rows: rows.append(dirty))
    assert table.check().ok


def test_check_empty_table_loses_every_record(table: Fixture) -> None:
    table.folders.clear()
    shutil.rmtree(table.dirty)
    report = table.check()
    assert (report.lost, report.written, report.dirty) == (64, 0, 0)
