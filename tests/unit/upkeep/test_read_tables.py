"""Backfills read what another table has, and what the table that the route reads had."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq
import pytest

from sluiceway.chains.client import TableClient
from sluiceway.chains.options import ROOT, UpstreamOptions
from sluiceway.errors import RequestRefusedError
from sluiceway.formats.registry import FormatChoice
from sluiceway.ledger.partition_records import SwapInput
from sluiceway.sinks.files.contract import FileFormat
from sluiceway.sinks.table_options import ReadableTable, TableOptions
from sluiceway.sources.contract import SourcePartition
from sluiceway.sources.registry import SourceAccess
from sluiceway.storage.local import LocalStorage
from sluiceway.types.schema import Field, IntegerType, Schema, StringType
from sluiceway.upkeep import rereading
from sluiceway.upkeep.rereading import ReadSoFar, Rereading
from sluiceway.worker.backfill_task import BackfillFiles, BackfillPlan, run_backfill
from tools.ledger_records import LEDGER
from tools.rows_on_disk import RowsOnDisk, rows_on_disk
from tools.small_task import NOW_US, route_plan
from tools.worked_route import WorkedRoute

NOON, ONE = "dt=20261120/hr=12", "dt=20261120/hr=13"
OWN = "e" * 32
COLUMNS = (("ts", "bigint"), ("app", "string"))
FOLDERS = (("dt", "string"), ("hr", "string"))
SCHEMA = Schema((Field("ts", IntegerType(64)), Field("app", StringType())))
ACCESS = UpstreamOptions("ods.other", "thrift://127.0.0.1:9")


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RowsOnDisk:
    """A table with times of noon in all its rows, in a catalog that is not asked."""
    (tmp_path / "other").mkdir()
    table = rows_on_disk(tmp_path / "other")
    table.written = NOW_US

    def run_here(_: Rereading, plan: BackfillPlan) -> BackfillFiles:
        return run_backfill(plan)

    monkeypatch.setattr(Rereading, "_run", run_here)
    monkeypatch.setattr(UpstreamOptions, "found_root", lambda _: str(table.root))
    catalogued(monkeypatch)
    return table


def catalogued(
    monkeypatch: pytest.MonkeyPatch,
    columns: tuple[tuple[str, str], ...] = COLUMNS,
    folders: tuple[tuple[str, str], ...] = FOLDERS,
) -> None:
    found = ReadableTable(columns, folders, FileFormat.PARQUET, "", 0)
    monkeypatch.setattr(rereading, "readable_table", lambda _: found)


def reading(root: Path, client: object = None, ledger: str = OWN, **plan: Any) -> Rereading:
    made = route_plan(str(root), schema=SCHEMA, **plan)
    table = TableOptions(ACCESS.metastore, "ods", "orders", SCHEMA, ())
    return Rereading(cast("Any", client), lambda: made, ledger, table=table)


def staged(root: Path) -> str:
    folder = route_plan(str(root)).layout.attempt("i7-" + "a" * 32)
    LocalStorage().make_folders(folder)
    return folder


def times(root: Path, made: BackfillFiles) -> list[int]:
    stage = Path(route_plan(str(root)).layout.stage)
    tables = [pq.read_table(stage / file.staged) for file in made.files]
    return sorted(value - NOW_US for table in tables for value in table["ts"].to_pylist())


def test_rows_of_another_table_are_those_of_its_newest_slot(
    other: RowsOnDisk, tmp_path: Path
) -> None:
    other.add(NOON, ONE)
    other.merge(NOON, 3)
    last = other.add(NOON)
    again = reading(tmp_path)
    made, read = again.read_table("ODS.other", NOON, staged(tmp_path))
    assert times(tmp_path, made) == [0, 1, 2, 3, 8, 9, 10, 11]
    assert (made.counts.read, made.counts.written, made.counts.outside) == (8, 8, 0)
    assert read == SwapInput(LEDGER, NOON, 0, last)
    counted, _ = again.read_table("ods.other", "dt=20261120", "")
    assert (counted.files, counted.counts.written) == ((), 12)


def test_table_that_does_not_fit_is_refused(
    other: RowsOnDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other.add(NOON)
    with pytest.raises(RequestRefusedError, match="the table itself"):
        reading(tmp_path, ledger=LEDGER).read_table("ods.other", NOON, "")
    catalogued(monkeypatch, folders=(("hr", "string"),))
    with pytest.raises(RequestRefusedError, match="its partition columns are hr"):
        reading(tmp_path).read_table("ods.other", NOON, "")
    catalogued(monkeypatch, columns=COLUMNS[:1])
    with pytest.raises(RequestRefusedError, match="it has no column app"):
        reading(tmp_path).read_table("ods.other", NOON, "")


def test_inputs_end_where_the_route_has_read_to(other: RowsOnDisk, tmp_path: Path) -> None:
    first = other.add(NOON, ONE)
    other.add(NOON)
    route = WorkedRoute(tmp_path / "own")
    client = TableClient(replace(ACCESS, root=str(other.root)))
    source = SourceAccess("table", (*ACCESS.texts(), (ROOT, str(other.root))))
    again = reading(tmp_path, client, source=source, format=FormatChoice("table"))
    try:
        far = ReadSoFar.of(route.writer.fold)
        ends = {SourcePartition(ACCESS.topic, 0): 8}
        read = again.inputs(route.log, replace(far, ends=ends), NOON)
        assert read == SwapInput(LEDGER, NOON, 0, first)
        made = again.read_inputs(read, staged(tmp_path))
    finally:
        client.close()
    assert times(tmp_path, made) == [0, 1, 2, 3]
