"""The example plug-in, installed by pip beside this package, proves itself with our suite."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools.plugin_packages import EXAMPLE, environment_with, install_example

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
    install_example(target)
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


def test_example_passes_its_own_tests_and_the_suite(installed: Path) -> None:
    options = ("-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    done = _run(installed, "pytest", *options, "tests", folder=EXAMPLE)
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
