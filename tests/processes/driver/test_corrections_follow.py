"""A driver follows corrections of the table that it reads: no server, and every row once."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from sluiceway.audit.open_table import open_ledger
from sluiceway.catalog.hive_table import (
    PARQUET_INPUT_FORMAT,
    PARQUET_OUTPUT_FORMAT,
    PARQUET_SERDE,
    HiveColumn,
    HiveLayout,
    MetastoreTable,
)
from sluiceway.cli.app import run_command
from sluiceway.ledger.partition_records import SwapRecord
from sluiceway.ledger.records import DataRecord, RecordType
from sluiceway.sinks.hive.folder_catalog import FolderCatalog
from sluiceway.storage.access import NO_STORES
from sluiceway.upkeep import backfiller
from tools.chain_proof import RawTable, hour_name
from tools.job_files import JobFile
from tools.route_faults import live
from tools.route_runs import RouteRun
from tools.rows_on_disk import RowsOnDisk, rows_on_disk
from tools.table_on_disk import table_on_disk
from tools.units_on_disk import add_table

SEVEN, EIGHT = "dt=20261120/hr=07", "dt=20261120/hr=08"


@dataclass
class Chain:
    """A table, and the job that refines it.

    Attributes:
        lake: Folder of the refined table's own catalog, where that is an Iceberg table.
    """

    raw: RowsOnDisk
    refined: RouteRun
    lake: Path | None = None

    def numbers(self) -> list[int]:
        """Rows of the refined table."""
        if self.lake is not None:
            uri, warehouse = f"sqlite:///{self.lake}/c.db", f"file://{self.lake}/wh"
            table = SqlCatalog("lake", uri=uri, warehouse=warehouse).load_table("ods.refined")
            found: list[int] = table.scan().to_arrow()["n"].to_pylist()
            return sorted(found)
        return [int(str(row[0])) for row in self.refined.rows("n")]

    def swaps(self) -> list[SwapRecord]:
        records = (each for each, _ in open_ledger(self.refined.config()).log.records())
        return [each.body for each in records if isinstance(each.body, SwapRecord)]

    def corrected(self) -> int:
        """Rows that were replaced before they were read."""
        bodies = (each.body for each in self.refined.records())
        return sum(
            int(span.corrected)
            for body in bodies
            if isinstance(body, DataRecord)
            for span in body.ranges
        )


@pytest.fixture
def chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chain:
    monkeypatch.setattr(backfiller, "_LOOK_EVERY_S", 0.2)
    raw = rows_on_disk(tmp_path)
    columns = (HiveColumn("ts", "bigint"), HiveColumn("app", "string"))
    classes = (PARQUET_SERDE, PARQUET_INPUT_FORMAT, PARQUET_OUTPUT_FORMAT)
    layout = HiveLayout(f"file://{raw.root}", *classes, columns)
    parts = (HiveColumn("dt", "string"), HiveColumn("hr", "string"))
    catalog = FolderCatalog(str(tmp_path / "lake"), NO_STORES)
    catalog.create_table(MetastoreTable("ods", "orders", "EXTERNAL_TABLE", layout, parts, {}))
    path = tmp_path / "refined.yaml"
    path.write_text(f"""\
version: 1
name: refined
connections: {{lake: {{folder: {{path: "{tmp_path}/lake"}}}}}}
source: {{table: ods.orders}}
table:
  hive: {{connection: lake, name: ods.refined}}
  columns:
    - {{name: n, type: bigint, path: ts, required: true}}
    - {{name: dt, type: string}}
    - {{name: hr, type: string}}
  partition_by: [{{name: dt, column: dt}}, {{name: hr, column: hr}}]
run: {{interval: 0.5s, master: "local[2]"}}
""")
    return Chain(raw, RouteRun(JobFile(path, "ods.refined")))


@pytest.fixture
def into_lake(chain: Chain, tmp_path: Path) -> Chain:
    """The same, into an Iceberg table."""
    folder = tmp_path / "iceberg"
    (folder / "wh").mkdir(parents=True)
    sql = f'sql: {{uri: "sqlite:///{folder}/c.db", warehouse: "file://{folder}/wh"}}'
    path = chain.refined.job.path
    text = path.read_text()
    for old, new in (
        ("connections: {", f"connections: {{ice: {{iceberg: {{{sql}}}}}, "),
        ("source: {table", "source: {connection: lake, table"),
        (
            "hive: {connection: lake, name: ods.refined}",
            "iceberg: {connection: ice, name: ods.refined}",
        ),
        ("[{name: dt, column: dt}, {name: hr, column: hr}]", "[{column: dt}, {column: hr}]"),
    ):
        assert old in text
        text = text.replace(old, new, 1)
    path.write_text(text)
    return Chain(chain.raw, chain.refined, folder)


@pytest.mark.slow
def test_iceberg_table_follows_corrections_and_is_backfilled(into_lake: Chain) -> None:
    chain = into_lake
    raw, refined = chain.raw, chain.refined
    raw.add(SEVEN, EIGHT)
    refined.catch_up()
    assert chain.numbers() == list(range(8))
    raw.add(EIGHT)
    raw.swap(EIGHT, [104, 108])
    raw.add(SEVEN, EIGHT)
    wanted = [0, 1, 2, 3, *range(12, 20), 104, 108]
    with live(refined) as driver:
        driver.wait_for(lambda: chain.numbers() == wanted)
        raw.add(EIGHT)
        driver.wait_for(lambda: chain.numbers() == sorted([*wanted, 20, 21, 22, 23]))
    assert len(chain.swaps()) == 1
    refined.assert_verified()
    assert run_command(["backfill", str(refined.job.path), SEVEN, "--from", "ledger"]) == 0
    assert len(chain.swaps()) == 2
    assert chain.numbers() == sorted([*wanted, 20, 21, 22, 23])
    refined.assert_verified()


def test_what_is_corrected_before_and_after_it_is_read_is_right_after_it(chain: Chain) -> None:
    raw, refined = chain.raw, chain.refined
    raw.add(SEVEN, EIGHT)
    refined.catch_up()
    assert chain.numbers() == list(range(8))
    # Rows 8 to 11 are replaced before they are read, rows 4 to 7 after that.
    raw.add(EIGHT)
    at = raw.swap(EIGHT, [104, 105, 108])
    raw.add(SEVEN, EIGHT)
    wanted = [0, 1, 2, 3, *range(12, 20), 104, 105, 108]
    with live(refined) as driver:
        driver.wait_for(lambda: chain.numbers() == wanted)
        raw.add(EIGHT)
        driver.wait_for(lambda: chain.numbers() == sorted([*wanted, 20, 21, 22, 23]))
    (swap,) = chain.swaps()
    (source,) = swap.inputs
    assert (source.prefix, source.slot >= at) == (EIGHT, True)
    assert chain.corrected() == 4
    refined.assert_verified()
    # It is done: a driver that comes later finds nothing due.
    with live(refined) as driver:
        raw.add(SEVEN)
        driver.wait_for(lambda: 27 in chain.numbers())
    assert len(chain.swaps()) == 1


def test_prefix_of_a_route_that_reads_a_table_is_backfilled(
    chain: Chain, capsys: pytest.CaptureFixture[str]
) -> None:
    raw, refined = chain.raw, chain.refined
    raw.add(SEVEN, EIGHT)
    raw.add(EIGHT)
    refined.catch_up()
    before, places = chain.numbers(), refined.partitions()
    command = ["backfill", str(refined.job.path), "dt=20261120", "--from", "ledger"]
    assert run_command([*command, "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert "dt=20261120 has 12 rows, and would have 12" in told
    assert refined.partitions() == places
    assert run_command(command) == 0
    assert chain.numbers() == before
    after = refined.partitions()
    assert all(after[each] != places[each] for each in places)
    kinds = [each.type for each in refined.records()]
    assert kinds.count(RecordType.SWAP) == 1
    refined.assert_verified()
    raw.add(EIGHT)
    refined.catch_up()
    assert chain.numbers() == list(range(16))
    refined.assert_verified()


def test_another_number_of_rows_is_shown_and_done_only_when_it_is_accepted(
    chain: Chain, capsys: pytest.CaptureFixture[str]
) -> None:
    raw, refined = chain.raw, chain.refined
    raw.add(EIGHT)
    refined.catch_up()
    text = refined.job.path.read_text()
    refined.job.path.write_text(text.replace("run:", 'where: "n <> 3"\nrun:', 1))
    command = ["backfill", str(refined.job.path), EIGHT, "--from", "ledger"]
    assert run_command(command) == 7
    told = capsys.readouterr().err
    assert "SW471" in told
    assert "it has 4 rows, and would have 3" in told
    assert run_command([*command, "--accept-rows", "2"]) == 7
    assert chain.numbers() == [0, 1, 2, 3]
    assert run_command([*command, "--accept-rows", "3"]) == 0
    assert chain.numbers() == [0, 1, 2]
    refined.assert_verified()


def test_prefix_gets_the_rows_of_files_that_have_the_table_s_columns(
    chain: Chain, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw, refined = chain.raw, chain.refined
    raw.add(SEVEN, EIGHT)
    refined.catch_up()
    folder = tmp_path / "fixed"
    folder.mkdir()
    for number, rows in enumerate(([40, 50], [60], [70])):
        hours = ["07" if n == 70 else "08" for n in rows]
        columns = {"n": rows, "dt": ["20261120"] * len(rows), "hr": hours}
        pq.write_table(pa.table(columns), folder / f"f{number}.parquet")
    glob = f"{folder}/*.parquet"
    command = ["backfill", str(refined.job.path), EIGHT, "--from", "files", glob]
    assert run_command([*command, "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert f"{EIGHT} has 4 rows, and would have 3" in told
    assert run_command(command) == 7
    assert "outside" not in capsys.readouterr().out
    assert run_command([*command, "--accept-rows", "3"]) == 0
    assert chain.numbers() == [0, 1, 2, 3, 40, 50, 60]
    refined.assert_verified()
    assert run_command([*command[:-1], f"{folder}/*.orc"]) == 2
    assert "no such file" in capsys.readouterr().err
    assert run_command(command[:-1]) == 2


def test_bounded_run_follows_a_correction_and_status_says_that_one_is_due(
    chain: Chain, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(backfiller, "_LOOK_EVERY_S", 3600.0)
    raw, refined = chain.raw, chain.refined
    raw.add(SEVEN, EIGHT)
    refined.catch_up()
    raw.swap(EIGHT, [104, 105])
    run_command(["status", str(refined.job.path)])
    assert f"look: ods.orders has replaced {EIGHT}, and the route" in capsys.readouterr().out
    refined.catch_up()
    assert chain.numbers() == [0, 1, 2, 3, 104, 105]
    run_command(["status", str(refined.job.path)])
    assert "has replaced" not in capsys.readouterr().out
    refined.catch_up()
    assert len(chain.swaps()) == 1


def test_correction_waits_while_dirty_rows_are_open(
    chain: Chain, capsys: pytest.CaptureFixture[str]
) -> None:
    raw, refined = chain.raw, chain.refined
    text = refined.job.path.read_text()
    refined.job.path.write_text(text.replace("type: bigint", "type: tinyint", 1))
    raw.written = 126
    raw.add(EIGHT)
    refined.catch_up()
    assert chain.numbers() == [126, 127]
    raw.swap(EIGHT, [126, 127, 128, 129])
    refined.catch_up()
    assert (chain.swaps(), chain.numbers()) == ([], [126, 127])
    assert run_command(["status", str(refined.job.path)]) == 0
    assert f"look: ods.orders has replaced {EIGHT}, and the route" in capsys.readouterr().out
    dropped = ["dirty", "purge", str(refined.job.path), "--why", "too large", "--yes"]
    assert run_command(dropped) == 0
    refined.catch_up()
    assert len(chain.swaps()) == 1
    assert chain.numbers() == [126, 127]
    refined.assert_verified()


def test_correction_waits_while_late_rows_of_the_hour_are_aside(tmp_path: Path) -> None:
    raw = RawTable(table_on_disk(tmp_path))
    add_table(tmp_path, raw.root, "ods.orders", at="bigint")
    path = tmp_path / "refined.yaml"
    path.write_text(f"""\
version: 1
name: refined
connections: {{disk: {{folder: {{path: "{tmp_path}"}}}}}}
source: {{table: ods.orders}}
table:
  hive: {{connection: disk, name: ods.refined}}
  columns: [{{name: ts, type: bigint}}, {{name: at, type: bigint}}]
  partition_by: [{{name: dt, event_time: yyyyMMdd}}, {{name: hr, event_time: HH}}]
event_time: {{field: at, unit: ms, out_of_orderness: 0s, late: side_output}}
ready: {{visible: on_commit}}
run: {{interval: 0.5s, master: "local[2]"}}
""")
    chain = Chain(raw, RouteRun(JobFile(path, "ods.refined")))
    hour = hour_name(1)

    def numbers() -> list[int]:
        return [int(str(row[0])) for row in chain.refined.rows("ts")]

    raw.add(hour)
    raw.table.rows(closed=(hour,))
    raw.announce(hour)
    chain.refined.catch_up()
    raw.add(hour, rows=2)
    chain.refined.catch_up()
    assert numbers() == [0, 1, 2, 3]
    raw.swap(hour, [0, 1, 2, 3, 4, 5])
    chain.refined.catch_up()
    assert (chain.swaps(), numbers()) == ([], [0, 1, 2, 3])
    assert run_command(["late", "replay", str(path), "--why", "they are of the hour"]) == 0
    chain.refined.catch_up()
    assert len(chain.swaps()) == 1
    assert numbers() == [0, 1, 2, 3, 4, 5]
    chain.refined.assert_verified()
