"""What `status` and `plan` say of a route that reads a table: no server needed."""

import json
from pathlib import Path
from typing import Any

import pytest

from sluiceway.audit.job_status import ObservedRoute, _with_upstream
from sluiceway.cli.app import run_command
from sluiceway.cli.job_file import load_checked_job
from sluiceway.jobfile.compile.compile import compile_routes
from sluiceway.route.status import RouteState, RouteStatus
from tools.job_files import JobFile
from tools.route_runs import RouteRun
from tools.rows_on_disk import rows_on_disk
from tools.units_on_disk import UPSTREAM, add_table, units_on_disk

EIGHT = "dt=20261120/hr=08"


@pytest.fixture
def refined(tmp_path: Path) -> RouteRun:
    """A route that has read ten rows of a table."""
    above = rows_on_disk(tmp_path)
    add_table(tmp_path, above.root, UPSTREAM)
    above.add(EIGHT, rows=10)
    path = tmp_path / "refined.yaml"
    path.write_text(f"""\
version: 1
name: refined
connections: {{disk: {{folder: {{path: {tmp_path}}}}}}}
source: {{connection: disk, table: {UPSTREAM}}}
table:
  hive: {{connection: disk, name: ods.refined}}
  columns: [{{name: ts, type: bigint}}, {{name: app, type: string}}]
  partition_by: []
run: {{interval: 0.5s, master: "local[2]"}}
""")
    run = RouteRun(JobFile(path, "ods.refined"))
    run.catch_up()
    return run


def _renamed(path: Path, name: str) -> None:
    path.write_text(path.read_text().replace(f"table: {UPSTREAM}", f"table: {name}"))


def _status(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = run_command(["status", str(path), "-o", "json"])
    (route,) = json.loads(capsys.readouterr().out)["routes"]
    return code, route


def test_missing_table_is_named_and_the_route_is_not_well(
    refined: RouteRun, capsys: pytest.CaptureFixture[str]
) -> None:
    path = refined.job.path
    assert _status(path, capsys)[0] == 0
    _renamed(path, "ods.ordres")
    code, route = _status(path, capsys)
    assert (code, route["ok"], route["state"]) == (1, False, "stopped")
    assert (route["code"], route["lag_records"]) == ("SW407", None)
    assert "table:ods.ordres: the table that is read does not exist" in route["message"]
    assert run_command(["plan", str(path)]) == 1
    assert "table:ods.ordres: the table does not exist yet" in capsys.readouterr().err


def test_table_without_a_ledger_is_named_and_no_failure_before_the_first_run(
    refined: RouteRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    add_table(tmp_path, tmp_path / "empty", "ods.bare")
    _renamed(refined.job.path, "ods.bare")
    code, route = _status(refined.job.path, capsys)
    assert (code, route["code"], route["attention"]) == (1, "SW101", [])
    assert "no route of ours has ever filled the table" in route["message"]
    blank = RouteStatus(route="refined", table="ods.refined", state=RouteState.NOT_STARTED)
    (config,) = compile_routes(load_checked_job(refined.job.path).spec).routes
    seen = _with_upstream(ObservedRoute(config, blank))
    assert seen.is_well
    (look,) = seen.attention
    assert "no route of ours has ever filled the table" in look


def test_units_of_a_missing_table_are_not_known_and_said_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = units_on_disk(tmp_path)
    stage.fill(EIGHT)
    stage.run.catch_up()
    path = stage.run.job.path
    assert _status(path, capsys)[0] == 0
    _renamed(path, "ods.ordres")
    code, route = _status(path, capsys)
    assert (code, route["code"]) == (1, "SW407")
    assert "table:ods.ordres: the table that is read does not exist" in route["message"]


def test_last_commit_of_units_is_when_they_were_computed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = units_on_disk(tmp_path)
    stage.fill(EIGHT)
    stage.run.catch_up()
    path = stage.run.job.path
    _, route = _status(path, capsys)
    assert route["last_commit_ms"] is not None
    # Without the driver's own word, the ledger says when the hour was announced.
    (written,) = tmp_path.rglob("status.json")
    assert json.loads(written.read_text())["last_commit_ms"] is not None
    written.unlink()
    _, route = _status(path, capsys)
    assert route["last_commit_ms"] == int(stage.ready()[-1].at_us or 0) // 1000
