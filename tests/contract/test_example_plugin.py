"""The example plug-ins, installed by pip beside this package, prove themselves with our suites."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tools.driver_process import DriverProcess
from tools.job_files import JobFile
from tools.lake_jobs import LakeJob, write_lake_job
from tools.lake_orders import order
from tools.plugin_packages import EXAMPLE, SOURCE_EXAMPLE, environment_with, install_example

JOB = """\
version: 1
name: small
connections: {main: {kafka: {bootstrap_servers: "k:1"}}, hms: {metastore: {uri: "thrift://h:1"}}}
source: {connection: main, topics: [t], start: earliest}
format: {delimited: {delimiter: ";"}}
table:
  hive: {connection: hms, name: ods.t}
  columns: [{name: id, type: bigint}]
  partition_by: []
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("installed")
    for example in (EXAMPLE, SOURCE_EXAMPLE):
        install_example(target, example)
    return target


def _run(target: Path, *command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *command],
        env=environment_with(target),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("example", [EXAMPLE, SOURCE_EXAMPLE], ids=lambda path: path.name)
def test_example_passes_its_own_tests_and_the_suite(installed: Path, example: Path) -> None:
    options = ("-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    done = _run(installed, "pytest", *options, "tests", folder=example)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
    assert "skipped" not in done.stdout


def test_job_file_is_valid_where_the_plugin_is_installed_only(
    installed: Path, tmp_path: Path
) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(JOB)
    assert _run(installed, "sluiceway", "validate", str(job), folder=tmp_path).returncode == 0
    without = _run(tmp_path, "sluiceway", "validate", str(job), folder=tmp_path)
    assert without.returncode == 3
    assert "unknown key `delimited`" in without.stderr
    job.write_text(JOB.replace('";"', '";;"'))
    wrong = _run(installed, "sluiceway", "validate", str(job), folder=tmp_path)
    assert wrong.returncode == 3
    assert "job.yaml:5:" in wrong.stderr
    assert "the delimiter is one character" in wrong.stderr


SHARDS = ("eu-west", "us/1")


def _append(installed: Path, path: Path, shard: str, numbers: range) -> None:
    """As a producer does it that knows the plug-in's package only."""
    code = (
        "import sys, json; from pathlib import Path; "
        "from sluiceway_sqlite_log.log_file import LogFile; "
        "log = LogFile(Path(sys.argv[1])); log.create_topic('orders', [sys.argv[2]]); "
        "log.append('orders', sys.argv[2], [each.encode() for each in json.load(sys.stdin)])"
    )
    bodies = [order(number).decode() for number in numbers]
    subprocess.run(
        [sys.executable, "-c", code, str(path), shard],
        env=environment_with(installed),
        input=json.dumps([*bodies, "no order"]),
        text=True,
        check=True,
    )


def _drive_and_kill(job: LakeJob, committed: int) -> None:
    driver = DriverProcess(JobFile(job.path, job.table), job.folder, module="tools.inline_driver")
    with driver:
        driver.wait_for_event("committed", committed)
        driver.kill_group()
        driver.wait()


@pytest.mark.slow
def test_whole_job_from_a_source_that_is_no_queue_has_every_row_once_after_kills(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(installed))
    log = tmp_path / "log.db"
    _append(installed, log, SHARDS[0], range(40))
    job = write_lake_job(tmp_path, main=f"sqlite_log: {{path: {log}}}", topic="orders")
    _drive_and_kill(job, 1)
    _append(installed, log, SHARDS[1], range(40, 70))
    _append(installed, log, SHARDS[0], range(70, 75))
    with DriverProcess(
        JobFile(job.path, job.table), tmp_path, "--until-caught-up", module="tools.inline_driver"
    ) as driver:
        assert driver.wait().exit_code == 0
    assert job.rows("_source_partition", "_offset", "id") == [
        *((SHARDS[0], n, n) for n in range(40)),
        *((SHARDS[0], 41 + n, 70 + n) for n in range(5)),
        *((SHARDS[1], n, 40 + n) for n in range(30)),
    ]
    done = _run(installed, "sluiceway", "verify", str(job.path), "--deep", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    shown = _run(installed, "sluiceway", "dirty", "show", str(job.path), folder=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert [f"orders[{SHARDS[0]}]" in shown.stdout, f"orders[{SHARDS[1]}]" in shown.stdout] == [
        True,
        True,
    ], shown.stdout
