"""Units of an Iceberg table that a route of ours fills: by its ledger and its newest snapshot."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.types import LongType

from sluiceway.chains.open_units import open_unit_table, unit_upstream
from sluiceway.cli.app import run_command
from sluiceway.errors import (
    NotInThisVersionError,
    SourceUnavailableError,
    TableMismatchError,
    TopicNotFoundError,
)
from sluiceway.ledger.partition_records import ReadyCause
from tools.duck_units import DuckUnits
from tools.job_files import JobFile
from tools.lake_chain import merge_files_of
from tools.lake_jobs import LakeJob
from tools.route_runs import RouteRun
from tools.units_on_disk import UnitsOnDisk, unit_job, units_on_disk

EIGHT, NINE = "dt=20261120/hr=08", "dt=20261120/hr=09"
ABOVE = "dm.hourly"
JOB = """\
source: {connection: lake, table: dm.hourly, mode: recompute, unit: [dt, hr]}
transform:
  sql: SELECT hr AS app, sum(n)::BIGINT AS n, sum(total)::BIGINT AS total FROM input GROUP BY hr
table: {hive: {connection: disk, name: dm.totals}}
run: {interval: 0.5s, master: "local[2]"}
"""


@pytest.fixture
def hourly(tmp_path: Path) -> UnitsOnDisk:
    """A table of hours, and the Iceberg table that is computed from it."""
    disk = units_on_disk(tmp_path)
    unit_job(tmp_path, lake=True)
    disk.fill(EIGHT, NINE)
    disk.run.catch_up()
    return disk


@pytest.fixture
def lake(hourly: UnitsOnDisk, tmp_path: Path) -> LakeJob:
    return LakeJob(hourly.run.job.path, tmp_path, ABOVE)


@pytest.fixture
def totals(hourly: UnitsOnDisk, tmp_path: Path) -> UnitsOnDisk:
    """What is computed from the Iceberg table, into a Hive table."""
    path = tmp_path / "totals.yaml"
    text = hourly.run.job.path.read_text()
    connections = text[text.index("connections:") : text.index("source:")]
    path.write_text(f"version: 1\nname: totals\n{connections}{JOB}")
    return UnitsOnDisk(hourly.above, RouteRun(JobFile(path, "dm.totals")))


def more(hourly: UnitsOnDisk) -> None:
    """Late rows of the first hour go through the first job."""
    hourly.above.add(EIGHT, rows=2)
    hourly.above.announce(EIGHT)
    hourly.run.catch_up()


def test_hours_of_an_iceberg_table_are_computed_again_when_they_are_announced_again(
    hourly: UnitsOnDisk, totals: UnitsOnDisk, lake: LakeJob
) -> None:
    totals.run.catch_up()
    assert totals.rows() == [("08", 4, 6), ("09", 4, 22)]
    ledger, _, _ = lake.load().properties["sluiceway.ledger"].partition("@")
    assert sorted((each.because for each in totals.ready()), key=str) == [
        ReadyCause(ledger, EIGHT, 1),
        ReadyCause(ledger, NINE, 1),
    ]
    more(hourly)
    merge_files_of(lake.load())
    totals.run.catch_up()
    assert totals.rows() == [("08", 6, 6 + 8 + 9), ("09", 4, 22)]
    read = [(each.prefix, each.inputs[0].version) for each in totals.swaps()]
    assert sorted(read) == [(EIGHT, 1), (EIGHT, 2), (NINE, 1)]
    totals.run.catch_up()
    assert len(totals.swaps()) == len(read)
    totals.run.assert_verified()


def test_hour_that_its_owner_has_deleted_stays_and_other_rows_of_others_halt(
    hourly: UnitsOnDisk, totals: UnitsOnDisk, lake: LakeJob
) -> None:
    totals.run.catch_up()
    lake.load().delete(EqualTo("hr", "08"))
    totals.run.job.path.write_text(totals.run.job.path.read_text().replace("sum(n)", "max(n)"))
    totals.run.catch_up()
    assert [each.prefix for each in totals.swaps()].count(EIGHT) == 1
    assert len(totals.swaps()) == 3
    lake.load().append(lake.load().scan().to_arrow())
    totals.run.job.path.write_text(totals.run.job.path.read_text().replace("max(n)", "sum(n)"))
    with pytest.raises(TableMismatchError, match="its files have 2 rows, and its ledger counts 1"):
        totals.run.catch_up()


def test_hour_that_its_owner_has_deleted_is_not_shown(
    totals: UnitsOnDisk,
    lake: LakeJob,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for place in ("sql_preview", "unit_preview"):
        monkeypatch.setattr(f"sluiceway.audit.{place}.unit_engine", DuckUnits)
    lake.load().delete(EqualTo("hr", "08"))
    assert run_command(["preview", str(totals.run.job.path), "--from", "oldest"]) == 0
    assert f"{NINE}: 1 row read, 1 row computed" in capsys.readouterr().out


def test_store_that_does_not_give_a_manifest_is_asked_again(
    totals: UnitsOnDisk, lake: LakeJob
) -> None:
    config = totals.run.config()
    assert config.units is not None
    options = unit_upstream(dict(config.source.options), config.source.kind)
    table = open_unit_table(options, config.units)
    lists = [*lake.folder.rglob("snap-*.avro")]
    for path in lists:
        path.rename(path.with_suffix(".away"))
    with pytest.raises(SourceUnavailableError, match="a file of the table cannot be read"):
        table.read_on()
    for path in lists:
        path.with_suffix(".away").rename(path)
    table.read_on()
    assert {each.prefix for each in table.states()} == {EIGHT, NINE}


def test_commands_know_the_units_of_an_iceberg_table(
    totals: UnitsOnDisk, capsys: pytest.CaptureFixture[str]
) -> None:
    job = str(totals.run.job.path)
    totals.run.catch_up()
    capsys.readouterr()
    run_command(["status", job, "-o", "json"])
    (route,) = json.loads(capsys.readouterr().out)["routes"]
    assert route["upstream"]["units"] == {"computed": 2, "due": 0, "open": 0}
    run_command(["partitions", "why", job, "dt=20261120/hr=10"])
    assert f"it waits for {ABOVE}, which has not announced it" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda table: table.rename_column("n", "rows"), "column n was renamed, or dropped and"),
        (lambda table: table.delete_column("n").add_column("n", LongType()), "column n was"),
    ],
)
def test_columns_that_older_files_have_under_other_names_are_not_read(
    totals: UnitsOnDisk, lake: LakeJob, change: Callable[..., object], told: str
) -> None:
    with lake.load().update_schema(allow_incompatible_changes=True) as columns:
        change(columns)
    with pytest.raises(NotInThisVersionError, match=told):
        totals.run.catch_up()


def test_table_with_other_partitions_a_dropped_table_and_a_far_ledger_are_named(
    totals: UnitsOnDisk, lake: LakeJob
) -> None:
    text = totals.run.job.path.read_text()
    other = text.replace("unit: [dt, hr]", "unit: [app]").replace("dm.totals", "dm.other")
    totals.run.job.path.write_text(other)
    with pytest.raises(TableMismatchError, match=r"partitioned by identity.dt., identity.hr."):
        totals.run.catch_up()
    totals.run.job.path.write_text(text)
    totals.run.catch_up()
    lake.ledger().rename(lake.folder / "away")
    with pytest.raises(NotInThisVersionError, match=r"the ledger .* is not next to it"):
        totals.run.catch_up()
    lake.catalog().drop_table(ABOVE)
    with pytest.raises(TopicNotFoundError, match="the table that this route reads was dropped"):
        totals.run.catch_up()
