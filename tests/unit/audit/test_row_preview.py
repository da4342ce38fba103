"""Rows that `preview` shows: of a table with a key, and of one that gets columns."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from sluiceway.audit import row_preview
from sluiceway.audit.given_records import GivenRecord, preview_given
from sluiceway.audit.planned_route import PlannedRoute
from sluiceway.audit.row_preview import Preview, _rows, preview_batches, preview_rows
from sluiceway.jobfile.compile.compile import compile_route, compile_routes
from sluiceway.jobfile.loader import inspect_job
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.value_tables import ValueTableLog
from sluiceway.sinks.contract import PlannedTable, TableIdentity, TableState
from sluiceway.sinks.files.contract import PARQUET_FILES
from sluiceway.sources.contract import SourcePartition, Split
from sluiceway.storage.registry import open_storage
from sluiceway.types.row_kinds import KIND_COLUMN, RowKind
from sluiceway.types.schema import Field, IntegerType, Schema
from tools.evolution_jobs import evolution_route
from tools.small_task import made_batch


def batch(kinds: list[int] | None) -> pa.RecordBatch:
    count = 1 if kinds is None else len(kinds)
    columns: dict[str, list[object]] = {
        "id": list(range(count)),
        "_sluiceway_topic": ["orders"] * count,
        "_sluiceway_partition": [0] * count,
        "_sluiceway_offset": list(range(count)),
    }
    if kinds is not None:
        columns[KIND_COLUMN] = list(kinds)
    return pa.RecordBatch.from_pydict(columns)


def test_change_of_each_row_is_a_word_and_no_column() -> None:
    found = list(_rows([((), batch([RowKind.IMAGE, RowKind.DELETE, RowKind.TRUNCATE]))], ()))
    assert [each.change for each in found] == ["row", "delete", "truncate"]
    assert [dict(each.values) for each in found] == [{"id": 0}, {"id": 1}, {"id": 2}]
    # Each kind has its word.
    assert all(each.change for each in _rows([((), batch(list(RowKind)))], ()))


def test_row_of_a_table_without_a_key_is_no_change() -> None:
    (found,) = _rows([((), batch(None))], ())
    assert found.change is None


def preview(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *rows: dict[str, object]) -> Preview:
    """Of a route that adds columns, with a table of one column."""
    storage, root = open_storage(str(tmp_path))
    identity = TableIdentity("hms", "ods", "small", 1, root)
    schema = Schema((Field("id", IntegerType(64)),))
    state = TableState(identity, schema, (), None, PARQUET_FILES, columns=(("id", "bigint"),))
    config = compile_route(evolution_route("evolution: add_columns"))
    table = PlannedTable("ods.small", root, state, exists=True, statement="")
    route = PlannedRoute(config, table, storage, LedgerLayout(root, "small"), Fold())
    read = made_batch(0, rows)
    monkeypatch.setattr(row_preview, "read_splits", lambda *_: iter([read]))
    return preview_rows(route, [Split(SourcePartition("orders", 0), 0, len(rows))])


def test_rows_are_those_of_the_columns_that_the_run_would_add(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = preview(
        monkeypatch, tmp_path, {"id": 1}, {"id": 2, "cityId": 7}, {"id": 3, "geo": {"lat": 1.5}}
    )
    assert (found.counts.written, found.counts.dirty) == (3, 0)
    assert found.added == ("cityid bigint", "geo struct<lat:double>")
    assert dict(found.rows[1].values) == {"id": 2, "cityid": 7, "geo": None}
    assert dict(found.refused) == {}


def test_field_that_gets_no_column_is_told_and_spoils_no_other_row(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows: list[dict[str, object]] = [
        {"id": 1, "x": 1},
        {"id": 2, "x": 1, "a-b": 1},
        {"id": 3, "x": 2},
    ]
    found = preview(monkeypatch, tmp_path, *rows)
    assert (found.counts.written, found.counts.dirty) == (2, 1)
    assert found.added == ("x bigint",)
    assert dict(found.refused) == {"a-b": "its key is no name of a column"}
    assert found.unread == ("a-b",)


TYPED = """\
version: 1
name: events
connections:
  main: {kafka: {bootstrap_servers: "localhost:9092"}}
  hms: {metastore: {uri: "thrift://localhost:9083"}}
source: {connection: main, topics: [events]}
format: {json: {}}
route_by: $.type
max_tables: 3
table:
  hive: {connection: hms, name: "ods.{value}"}
  columns: [{name: id, type: bigint}]
  partition_by: []
"""
VALUES = ("a", "b", "b", "c", None)


def test_tables_of_values_are_those_that_the_run_would_make(tmp_path: Path) -> None:
    job = inspect_job(TYPED.encode(), Path("job.yaml"), {}).job
    assert job is not None
    (config,) = compile_routes(job.spec).routes
    records = [GivenRecord(json.dumps({"id": 1, "type": each}).encode()) for each in (*VALUES, "d")]
    # Three fit; the fourth is dirty, as is the row without a value.
    found = preview_given(config, records)
    assert found.tables == ("ods.a", "ods.b", "ods.c")
    assert (found.counts.filtered, found.counts.dirty, found.shared) == (4, 2, True)
    assert "'d' would be a table beyond max_tables" in found.dirty[1].message
    # With one table of before there is room for two.
    storage, root = open_storage(str(tmp_path))
    layout = LedgerLayout(root, "ods-unrouted")
    Path(layout.stage).mkdir(parents=True)
    ValueTableLog(storage, layout).add(["ods.d"], {("events", 0): 0}, 3)
    identity = TableIdentity("hms", "ods", "unrouted", 1, root)
    schema = Schema((Field("id", IntegerType(64)),))
    state = TableState(identity, schema, (), None, PARQUET_FILES, columns=(("id", "bigint"),))
    table = PlannedTable("ods.unrouted", root, state, exists=True, statement="")
    read = made_batch(0, [{"id": 1, "type": each} for each in ("d", "a", "b", "c", "c")])
    split = Split(SourcePartition("events", 0), 0, 5)
    found = preview_batches(PlannedRoute(config, table, storage, layout, Fold()), [split], [read])
    assert (found.tables, found.counts.dirty) == (("ods.a", "ods.b"), 2)
