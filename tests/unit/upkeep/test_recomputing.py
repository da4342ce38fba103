"""Units are computed once they are announced, again when their input changed, and only then."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluiceway.audit import sql_preview
from sluiceway.catalog.hive_table import NewPartition
from sluiceway.chains.unit_tables import LedgerUnits
from sluiceway.chains.units import UnitRule, UnitWhen
from sluiceway.cli.app import run_command
from sluiceway.errors import (
    FileLostError,
    OffsetsLostError,
    TableMismatchError,
    TopicNotFoundError,
)
from sluiceway.ledger.partition_records import ReadyCause
from sluiceway.ledger.records import DataRecord, RecordType
from sluiceway.ledger.row_places import RowBook
from sluiceway.observe.log import stderr_log
from sluiceway.operate.short_driver import short_driver
from sluiceway.route.route_planner import RoutePlanner
from sluiceway.sinks.hive.folder_catalog import FolderCatalog
from sluiceway.storage.access import NO_STORES
from sluiceway.upkeep.recomputing import Recomputer
from tools.duck_units import DuckUnits
from tools.lake_jobs import LakeJob
from tools.ledger_records import LEDGER
from tools.route_faults import live
from tools.rows_on_disk import rows_on_disk
from tools.units_on_disk import SQL, UnitsOnDisk, add_table, unit_job, units_on_disk

EIGHT, NINE = "dt=20261120/hr=08", "dt=20261120/hr=09"


@pytest.fixture
def disk(tmp_path: Path) -> UnitsOnDisk:
    return units_on_disk(tmp_path)


def test_unit_is_computed_once_it_is_announced(disk: UnitsOnDisk) -> None:
    disk.above.add(EIGHT, NINE)
    disk.run.catch_up()
    assert (disk.swaps(), disk.rows()) == ([], [])
    disk.announce(EIGHT)
    disk.run.catch_up()
    assert disk.rows() == [("08", 4, 0 + 1 + 2 + 3)]
    (swap,) = disk.swaps()
    (read,) = swap.inputs
    assert (read.ledger, read.prefix, read.version) == (LEDGER, EIGHT, 1)
    assert (int(swap.counts.read), int(swap.counts.written)) == (4, 1)
    (ready,) = disk.ready()
    assert (ready.prefix, ready.version, ready.because) == (
        EIGHT,
        1,
        ReadyCause(LEDGER, EIGHT, 1),
    )
    disk.run.catch_up()
    assert len(disk.swaps()) == 1
    disk.run.assert_verified()


def test_late_rows_make_a_unit_due_once_they_are_announced(disk: UnitsOnDisk) -> None:
    disk.fill(EIGHT)
    disk.run.catch_up()
    disk.above.add(EIGHT, rows=2)
    disk.run.catch_up()
    assert len(disk.swaps()) == 1
    disk.above.announce(EIGHT)
    disk.run.catch_up()
    assert disk.rows() == [("08", 6, sum(range(6)))]
    assert [each.inputs[0].version for each in disk.swaps()] == [1, 2]
    assert [(each.version, each.because) for each in disk.ready()] == [
        (1, ReadyCause(LEDGER, EIGHT, 1)),
        (2, ReadyCause(LEDGER, EIGHT, 2)),
    ]
    disk.run.assert_verified()


def test_moved_files_make_no_unit_due(disk: UnitsOnDisk) -> None:
    disk.above.add(EIGHT)
    disk.fill(EIGHT)
    disk.run.catch_up()
    disk.above.merge(EIGHT)
    disk.run.catch_up()
    assert len(disk.swaps()) == 1


def test_changed_query_computes_all_units_again(disk: UnitsOnDisk, tmp_path: Path) -> None:
    disk.fill(EIGHT, NINE)
    disk.run.catch_up()
    unit_job(tmp_path, SQL.replace("sum(ts)", "max(ts)"))
    disk.run.catch_up()
    assert disk.rows() == [("08", 4, 3), ("09", 4, 7)]
    reasons = [each.reason.partition(":")[0] for each in disk.swaps()]
    assert reasons == ["new", "new", "SQL changed", "SQL changed"]
    disk.run.assert_verified()


def test_state_of_a_joined_table_is_in_the_record_and_makes_no_unit_due(tmp_path: Path) -> None:
    (tmp_path / "users").mkdir()
    users = rows_on_disk(tmp_path / "users")
    add_table(tmp_path, users.root, "dim.users")
    users.add(NINE, rows=1)
    sql = SQL.replace("FROM input", "FROM input, (SELECT max(ts) AS most FROM users)")
    joined = "\n  tables: {users: {table: dim.users, refresh: 1s}}"
    disk = units_on_disk(tmp_path, sql.replace("sum(ts)", "sum(ts + most)") + joined)
    disk.fill(EIGHT)
    disk.run.catch_up()
    assert disk.rows() == [("08", 4, 6)]
    users.add(NINE, rows=2)
    disk.run.catch_up()
    assert len(disk.swaps()) == 1
    disk.fill(NINE)
    disk.run.catch_up()
    assert disk.rows() == [("08", 4, 6), ("09", 4, 22 + 4 * 2)]
    pins = [each.pins["users"].rpartition("@")[2] for each in disk.swaps()]
    assert pins == ["2", "3"]
    disk.run.assert_verified()


def test_command_computes_nothing_and_needs_no_spark(disk: UnitsOnDisk) -> None:
    disk.fill(EIGHT)
    disk.run.catch_up()
    disk.fill(NINE)
    with short_driver(disk.run.config(), stderr_log()) as session:
        assert [each.prefix for each in disk.swaps()] == [EIGHT]
        assert session.lanes.trouble is None
    disk.run.catch_up()
    assert [each.prefix for each in disk.swaps()] == [EIGHT, NINE]
    disk.run.assert_verified()


def test_backfill_without_a_driver_computes_the_unit_alone_that_it_names(
    disk: UnitsOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.fill(EIGHT)
    disk.run.catch_up()
    disk.fill(NINE)
    monkeypatch.setattr(sql_preview, "unit_engine", DuckUnits)
    command = ["backfill", str(disk.run.job.path), EIGHT, "--from", "inputs"]
    assert run_command(command) == 0
    assert [each.prefix for each in disk.swaps()] == [EIGHT, EIGHT]
    disk.run.catch_up()
    assert [each.prefix for each in disk.swaps()] == [EIGHT, EIGHT, NINE]
    announced = {(each.prefix, each.version) for each in disk.ready()}
    assert announced == {(EIGHT, 1), (EIGHT, 2), (NINE, 1)}
    disk.run.assert_verified()


def test_plan_names_units_and_no_offsets(
    disk: UnitsOnDisk, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_preview, "unit_engine", DuckUnits)
    disk.fill(EIGHT)
    capsys.readouterr()
    assert run_command(["plan", str(disk.run.job.path), "--records", "0"]) == 0
    shown = capsys.readouterr().out
    assert "reads whole units of ods.orders" in shown
    assert "0 to 0" not in shown


def test_partitions_are_walked_once_for_all_units_of_a_round(
    disk: UnitsOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.fill(EIGHT, NINE)
    walks: list[RowBook] = []
    live = RowBook.live

    def counted(book: RowBook) -> Any:
        walks.append(book)
        return live(book)

    monkeypatch.setattr(RowBook, "live", counted)
    rule = UnitRule(("dt", "hr"), UnitWhen.READY, 0, "")
    none: Any = None
    table = LedgerUnits(str(disk.above.root), NO_STORES, rule, none, "ods.orders")
    table.read_on()
    assert [table.files(each).rows for each in (EIGHT, NINE)] == [4, 4]
    assert len(walks) == 1
    disk.above.add(EIGHT, rows=2)
    table.read_on()
    assert table.files(EIGHT).rows == 6


def test_partition_that_a_query_returns_nothing_for_is_empty(
    disk: UnitsOnDisk, tmp_path: Path
) -> None:
    disk.fill(EIGHT)
    disk.run.catch_up()
    unit_job(tmp_path, SQL.replace("GROUP", "WHERE ts < 0 GROUP"))
    disk.run.catch_up()
    assert disk.rows() == []
    assert [each.rows for each in disk.ready()] == [1, 0]
    disk.run.assert_verified()


def test_hour_without_a_row_is_computed_and_announced(disk: UnitsOnDisk) -> None:
    disk.fill(EIGHT)
    disk.announce(NINE)
    disk.run.catch_up()
    assert disk.rows() == [("08", 4, 6)]
    assert {each.prefix for each in disk.ready()} == {EIGHT, NINE}


def test_unit_that_upstream_let_go_of_stays(disk: UnitsOnDisk) -> None:
    disk.fill(EIGHT)
    disk.run.catch_up()
    disk.above.expire(EIGHT)
    disk.fill(EIGHT, rows=1)
    disk.run.catch_up()
    assert disk.rows() == [("08", 4, 6)]


def test_rows_that_were_read_twice_have_the_query_run_again(disk: UnitsOnDisk) -> None:
    disk.fill(EIGHT)
    units = DuckUnits()
    more = iter([3, 1])
    units.read = lambda rows: rows + next(more, 0)
    disk.run.catch_up(units=units)
    assert units.runs == [("20261120", "08")] * 3
    assert disk.rows() == [("08", 4, 6)]
    disk.run.assert_verified()


def test_rows_that_are_missing_halt_the_route(
    disk: UnitsOnDisk, capsys: pytest.CaptureFixture[str]
) -> None:
    disk.fill(EIGHT)
    units = DuckUnits()
    units.read = lambda rows: rows - 1
    with pytest.raises(FileLostError, match="has read 3 rows of the unit, its ledger has 4"):
        disk.run.catch_up(units=units)
    kinds = [each.type for each in disk.run.records()]
    assert (RecordType.SWAP in kinds, kinds.count(RecordType.ABANDON)) == (False, 1)
    capsys.readouterr()
    why = ["partitions", "why", str(disk.run.job.path), EIGHT]
    assert run_command(why) == 0
    assert "The route has halted with SW456" in capsys.readouterr().out
    # Nothing is known of a driver that came later and has written no status.
    with short_driver(disk.run.config(), stderr_log()):
        pass
    assert run_command(why) == 0
    assert "No driver works for it now" in capsys.readouterr().out
    disk.run.catch_up()
    assert disk.rows() == [("08", 4, 6)]


def test_rows_that_come_while_a_unit_is_computed_are_not_in_it(disk: UnitsOnDisk) -> None:
    disk.fill(EIGHT)
    units = DuckUnits()

    def late(values: tuple[str | None, ...]) -> None:
        if len(units.runs) == 1:
            disk.above.add(EIGHT, rows=2)
            disk.above.announce(EIGHT)

    units.before = late
    disk.run.catch_up(units=units)
    assert [int(each.counts.read) for each in disk.swaps()] == [4, 6]
    assert disk.rows() == [("08", 6, sum(range(6)))]
    assert [each.version for each in disk.ready()] == [1, 2]


def test_announcement_that_a_driver_has_left_out_follows(
    disk: UnitsOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk.fill(EIGHT)
    with monkeypatch.context() as patch:
        patch.setattr("sluiceway.upkeep.recomputing.Recomputer._announce", _fail)
        with pytest.raises(Exception, match="died"):
            disk.run.catch_up()
    assert (len(disk.swaps()), disk.ready()) == (1, [])
    units = DuckUnits()
    disk.run.catch_up(units=units)
    assert (units.runs, [each.version for each in disk.ready()]) == ([], [1])
    assert disk.ready()[0].because == ReadyCause(LEDGER, EIGHT, 1)


def _fail(*_: object) -> None:
    raise TableMismatchError("died")


def test_table_with_other_units_is_refused(tmp_path: Path) -> None:
    disk = units_on_disk(tmp_path)
    text = disk.run.job.path.read_text().replace("unit: [dt, hr]", "unit: [dt, region]")
    disk.run.job.path.write_text(text)
    disk.fill(EIGHT)
    with pytest.raises(TableMismatchError, match="is partitioned by dt, hr"):
        disk.run.catch_up()


def test_settled_hours_of_a_table_with_a_ledger_need_no_announcement(tmp_path: Path) -> None:
    disk = units_on_disk(tmp_path, source='when: settled, settle: "0s"')
    disk.above.add(EIGHT)
    disk.run.catch_up()
    assert disk.rows() == [("08", 4, 6)]
    (ready,) = disk.ready()
    assert (ready.version, ready.because) == (1, None)


def test_units_of_a_lake_table_are_replaced_in_one_snapshot(tmp_path: Path) -> None:
    disk = units_on_disk(tmp_path)
    lake = LakeJob(unit_job(tmp_path, lake=True).job.path, tmp_path, "dm.hourly")
    disk.fill(EIGHT, NINE)
    disk.run.catch_up()
    assert lake.rows("dt", "hr", "n", "total") == [
        ("20261120", "08", 4, 6),
        ("20261120", "09", 4, 22),
    ]
    disk.above.add(EIGHT, rows=2)
    disk.above.announce(EIGHT)
    disk.run.catch_up()
    assert lake.rows("hr", "n") == [("08", 6), ("09", 4)]
    swapped = [
        (each.summary.operation.value, each.summary.get("sluiceway.inputs"))
        for each in lake.load().snapshots()
        if each.summary is not None and each.summary.get("sluiceway.inputs") is not None
    ]
    assert [operation for operation, _ in swapped] == ["append", "append", "overwrite"]
    assert f'"prefix":"{EIGHT}"' in str(swapped[-1][1])
    assert [each.version for each in disk.ready()] == [1, 1, 2]
    assert lake.verified().problems == []


def test_hours_of_a_table_without_a_ledger_are_found_by_listing(tmp_path: Path) -> None:
    root = tmp_path / "foreign"
    add_table(tmp_path, root, "ods.orders")
    run = unit_job(tmp_path, source='when: settled, settle: "0s"')
    disk = UnitsOnDisk(rows_on_disk(tmp_path), run)
    write_hour(tmp_path, root, "08", 0, 1, 2)
    run.catch_up()
    assert disk.rows() == [("08", 3, 3)]
    run.catch_up()
    assert len(disk.swaps()) == 1
    write_hour(tmp_path, root, "08", 3)
    write_hour(tmp_path, root, "09", 7)
    run.catch_up()
    assert disk.rows() == [("08", 4, 6), ("09", 1, 7)]
    assert [each.because for each in disk.ready()] == [None] * 3
    run.assert_verified()


def test_hour_of_a_table_without_a_ledger_waits_for_its_success_file(tmp_path: Path) -> None:
    root = tmp_path / "foreign"
    add_table(tmp_path, root, "ods.orders")
    run = unit_job(tmp_path, source="when: success")
    disk = UnitsOnDisk(rows_on_disk(tmp_path), run)
    folder = write_hour(tmp_path, root, "08", 0, 1, 2)
    (folder / ".half.parquet").write_bytes(b"")
    run.catch_up()
    assert disk.swaps() == []
    (folder / "_SUCCESS").touch()
    run.catch_up()
    assert disk.rows() == [("08", 3, 3)]


def write_hour(catalog: Path, root: Path, hour: str, *numbers: int) -> Path:
    """One more file of an hour that no route of ours has written; its folder."""
    folder = root / f"dt=20261120/hr={hour}"
    folder.mkdir(parents=True, exist_ok=True)
    columns = {"ts": pa.array(numbers, pa.int64()), "app": pa.array([f"x{hour}"] * len(numbers))}
    pq.write_table(pa.table(columns), folder / f"{len(list(folder.iterdir()))}.parquet")
    place = NewPartition(("20261120", hour), str(folder))
    FolderCatalog(str(catalog), NO_STORES).add_partitions("ods", "orders", [place])
    return folder


def test_lineage_names_the_states_of_both_tables(disk: UnitsOnDisk, tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    path = disk.run.job.path
    block = f"lineage: {{namespace: prod, file: {{path: {events}}}}}\n"
    path.write_text(path.read_text() + block)
    disk.fill(EIGHT)
    disk.run.catch_up()
    last = json.loads(events.read_text().splitlines()[-1])
    (read,), (made,) = last["inputs"], last["outputs"]
    (swap,) = disk.swaps()
    (slot,) = [each.seq for each in disk.run.records() if each.body == swap]
    assert (last["eventType"], read["name"]) == ("COMPLETE", "ods.orders")
    assert read["inputFacets"]["inputStatistics"]["rowCount"] == 4
    assert read["facets"]["version"]["datasetVersion"] == f"slot:{swap.inputs[0].slot}"
    assert made["facets"]["version"]["datasetVersion"] == f"slot:{slot}"
    assert made["outputFacets"]["outputStatistics"]["rowCount"] == 1


def test_commands_say_what_a_unit_waits_for(
    disk: UnitsOnDisk, capsys: pytest.CaptureFixture[str]
) -> None:
    disk.above.add(EIGHT)
    disk.run.catch_up()
    job = str(disk.run.job.path)
    capsys.readouterr()
    assert run_command(["partitions", "why", job, EIGHT]) == 0
    told = capsys.readouterr().out
    assert "it waits for ods.orders, which has not announced it: it has no watermark yet" in told
    run_command(["status", job])
    head, row, *more = capsys.readouterr().out.splitlines()
    assert row[head.index("DIRTY") - 3] == "-", "0 rows read would be wrong"
    assert any("0 units computed, 0 due, 1 not complete yet" in line for line in more)
    disk.announce(EIGHT)
    run_command(["partitions", "why", job, f"{EIGHT}/x=1"])
    assert "ods.orders has announced it" in capsys.readouterr().out
    run_command(["partitions", "why", job, "dt=20261120"])
    assert "is no unit of this table; units are written dt=.../hr=..." in capsys.readouterr().err
    disk.run.catch_up()
    run_command(["partitions", "why", job, EIGHT])
    assert "it was announced" in capsys.readouterr().out
    run_command(["status", job, "-o", "json"])
    (route,) = json.loads(capsys.readouterr().out)["routes"]
    assert route["upstream"]["units"] == {"computed": 1, "due": 0, "open": 0}
    assert route["upstream"]["table"] == "ods.orders"


def test_unit_is_computed_again_when_an_operator_asks_for_it(
    disk: UnitsOnDisk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[DuckUnits] = []

    def engine() -> DuckUnits:
        started.append(DuckUnits())
        return started[-1]

    monkeypatch.setattr("sluiceway.audit.sql_preview.unit_engine", engine)
    disk.fill(EIGHT)
    disk.above.add(NINE)
    disk.run.catch_up()
    command = ["backfill", str(disk.run.job.path), EIGHT, "--from"]
    assert run_command([*command, "inputs", "--why", "wrong mask"]) == 0
    first, again = disk.swaps()
    assert (again.inputs, again.sql, again.reason) == (first.inputs, first.sql, "wrong mask")
    disk.run.catch_up()
    assert [(each.prefix, each.version) for each in disk.ready()] == [(EIGHT, 1), (EIGHT, 2)]
    assert disk.rows() == [("08", 4, 6)]
    assert len(disk.swaps()) == 2
    for prefix, origin, told in (
        (EIGHT, "ledger", "have the SQL run again: `--from inputs`"),
        (NINE, "inputs", "it is not complete yet"),
        ("dt=20261120/hr=10", "inputs", "the table that is read has no such unit"),
        ("dt=20261120", "inputs", "expected a whole unit, `dt=.../hr=...`"),
        (f"{EIGHT}/city=x", "inputs", "expected a whole unit, `dt=.../hr=...`"),
    ):
        started.clear()
        assert run_command(["backfill", str(disk.run.job.path), prefix, "--from", origin]) != 0
        assert told in capsys.readouterr().err
        assert bool(started) is (origin == "inputs")
    assert len(disk.swaps()) == 2
    disk.run.assert_verified()


def test_another_number_of_rows_of_a_unit_is_shown_before_it_is_replaced(
    disk: UnitsOnDisk,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    disk.fill(EIGHT)
    disk.run.catch_up()
    # The driver computes it again by itself, and with the same query.
    monkeypatch.setattr(Recomputer, "_round", lambda _: False)
    unit_job(tmp_path, SQL.replace("GROUP BY app", "GROUP BY app, ts"))
    for name in ("audit.sql_preview.unit_engine", "audit.unit_preview.unit_engine"):
        monkeypatch.setattr(f"sluiceway.{name}", DuckUnits)
    command = ["backfill", str(disk.run.job.path), EIGHT, "--from", "inputs"]
    assert run_command([*command, "--dry-run"]) == 0
    assert "it would be done with --accept-rows 4" in capsys.readouterr().out
    assert run_command(command) != 0
    assert "it has 1 rows, and would have 4" in capsys.readouterr().err
    assert len(disk.swaps()) == 1
    assert run_command([*command, "--accept-rows", "4"]) == 0
    assert len(disk.rows()) == 4


def test_driver_that_goes_on_reads_no_single_rows(disk: UnitsOnDisk) -> None:
    with live(disk.run) as driver:
        for hour, prefix in enumerate((EIGHT, NINE), 1):
            disk.fill(prefix)
            driver.wait_for(lambda wanted=hour: len(disk.ready()) == wanted)  # type: ignore[misc]
        driver.stop()
    bodies = [each.body for each in disk.run.records()]
    assert not any(each.ranges for each in bodies if isinstance(each, DataRecord))
    assert disk.rows() == [("08", 4, 6), ("09", 4, 22)]
    disk.run.assert_verified()


def test_table_that_was_dropped_halts_the_route_at_its_next_start(
    disk: UnitsOnDisk, tmp_path: Path
) -> None:
    disk.fill(EIGHT)
    disk.run.catch_up()
    FolderCatalog(str(tmp_path), NO_STORES).drop_table("ods", "orders")
    with pytest.raises(TopicNotFoundError, match="the table that this route reads was dropped"):
        disk.run.catch_up()


def test_table_that_was_made_again_halts_the_route(disk: UnitsOnDisk, tmp_path: Path) -> None:
    disk.fill(EIGHT)
    disk.run.catch_up()
    owner = disk.above.root / "_sluiceway" / "OWNER"
    owner.write_text(owner.read_text().replace(LEDGER, "e" * 32))
    with pytest.raises(OffsetsLostError, match="the ledger of the table is not the same"):
        disk.run.catch_up()
    assert len(disk.swaps()) == 1


def test_unit_is_shown_before_there_is_a_table(
    disk: UnitsOnDisk, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("sql_preview", "unit_preview"):
        monkeypatch.setattr(f"sluiceway.audit.{place}.unit_engine", DuckUnits)
    job = str(disk.run.job.path)
    assert run_command(["preview", job]) == 0
    assert "there is no record to look at" in capsys.readouterr().out
    disk.above.add(EIGHT, NINE)
    assert run_command(["preview", job, "--from", "oldest"]) == 0
    heads, row, _, *told = capsys.readouterr().out.splitlines()
    assert (heads.split(), row.split()) == (["app", "n", "total"], [EIGHT, "4", "6"])
    assert told[0] == f"{EIGHT}: 4 rows read, 1 row computed; nothing was written"
    run_command(["preview", job, "-n", "1", "-o", "json"])
    found = json.loads(capsys.readouterr().out)
    assert [row["values"]["total"] for row in found["rows"]] == [22]
    assert run_command(["plan", job]) == 0
    assert "`total` bigint" in capsys.readouterr().out
    assert disk.swaps() == []


@pytest.mark.parametrize("command", ["plan", "preview"])
def test_commands_name_the_table_that_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    job = str(unit_job(tmp_path).job.path)
    assert run_command([command, job]) == 5
    printed = capsys.readouterr().err
    assert "table:ods.orders: the table that is read does not exist" in printed
    assert "hint: run the job that fills it" in printed


def test_run_is_not_over_before_another_look_after_the_table_above_is_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Recomputer, "_run", lambda _: None)
    nothing: Any = None
    units = Recomputer(nothing, nothing, nothing)
    units._found_nothing = True
    background = SimpleNamespace(units=units)
    planner: Any = SimpleNamespace(
        _context=SimpleNamespace(held=SimpleNamespace(background=background))
    )
    RoutePlanner.aim_again(planner)
    assert units.idle
    RoutePlanner.aim_again(planner, at_end=True)
    assert not units.idle
    units.close()
