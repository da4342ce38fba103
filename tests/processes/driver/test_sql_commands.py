"""Commands on a route with SQL while no driver lives: no Spark is needed but for replays."""

from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.audit.dirty_rows import DirtyFilter, DirtyRows
from sluiceway.cli.app import run_command
from sluiceway.cli.views.dirty_lanes import choose
from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.jobfile.compile.sql_rule import SqlRule
from sluiceway.ledger.partition_records import ReplaceRecord
from sluiceway.observe.log import stderr_log
from sluiceway.operate.replay import carry_out
from sluiceway.schedule.sql_engine import JoinedTable
from sluiceway.types.schema import Schema
from tools.job_files import JobFile
from tools.rows_on_disk import RowsOnDisk, rows_on_disk
from tools.sql_in_memory import PythonSql, Row
from tools.sql_runs import SqlRouteRun
from tools.units_on_disk import UPSTREAM, add_table

HOUR = "dt=20261120/hr=08"
JOB = """\
version: 1
name: refined
connections: {{disk: {{folder: {{path: {folder}}}}}}}
source: {{connection: disk, table: {upstream}, on_correction: ignore}}
transform:
  columns: [{{name: ts, type: bigint}}, {{name: app, type: string}}]
  sql: SELECT ts, 7 AS part FROM input
table:
  hive: {{connection: disk, name: dm.refined}}
  columns: from_sql
  partition_by: [{{name: part, column: part}}]
run: {{interval: 0.5s, master: "local[2]"}}
"""


class Refined(PythonSql):
    """Stands for the query."""

    def columns(
        self, rule: SqlRule, decoded: Schema, tables: tuple[JoinedTable, ...] = ()
    ) -> tuple[tuple[str, str], ...]:
        del rule, decoded, tables
        return (("ts", "bigint"), ("part", "int"))


def strict(row: Row) -> list[Row]:
    if row["ts"] == 1:
        raise ValueError("one")
    return lenient(row)


def lenient(row: Row) -> list[Row]:
    return [{"ts": row["ts"], "part": 7}]


@pytest.fixture
def above(tmp_path: Path) -> RowsOnDisk:
    above = rows_on_disk(tmp_path)
    add_table(tmp_path, above.root, UPSTREAM)
    return above


@pytest.fixture
def run(tmp_path: Path, above: RowsOnDisk) -> SqlRouteRun:
    """A job whose table has three files, and a dirty row of the SQL."""
    path = tmp_path / "refined.yaml"
    path.write_text(JOB.format(folder=tmp_path, upstream=UPSTREAM))
    run = SqlRouteRun(JobFile(path, "dm.refined"), engine=Refined(strict))
    for _ in range(3):
        above.add(HOUR, rows=2)
        run.catch_up()
    assert run.rows("ts") == [(0,), (2,), (3,), (4,), (5,)]
    return run


def test_files_are_merged(run: SqlRouteRun) -> None:
    assert run_command(["compact", str(run.job.path), "part=7"]) == 0
    assert [each for each in run.records() if isinstance(each.body, ReplaceRecord)]
    assert run.rows("ts") == [(0,), (2,), (3,), (4,), (5,)]
    run.assert_verified()


def test_replay_waits_for_the_job_which_runs_its_sql(run: SqlRouteRun) -> None:
    rows = DirtyRows.read(run.log())
    request = choose(rows, DirtyFilter()).request(rows, "replay", "me", "")
    with pytest.raises(UnhealthyEnvironmentError, match="only its job has a Spark") as caught:
        carry_out(run.config(), rows.log, request, lambda *_: None, stderr_log())
    assert "sluiceway run JOB" in caught.value.hint
    replace(run, engine=Refined(lenient)).catch_up()
    assert run.rows("ts") == [(n,) for n in range(6)]
    run.assert_verified()
