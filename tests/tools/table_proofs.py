"""Proof that a table has every row once: `sluiceway verify` and the independent reader."""

import atexit
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from sluiceway.lab.lab import LabEndpoints
from tools.job_files import JobFile

_TESTS = Path(__file__).resolve().parents[1]
_TIMEOUT_S = 600.0
_END_S = 60.0
# One request a line: statements for a session of their own, which keeps nothing of another's.
_SPARK_SQL = """
import json, sys
from sluiceway.driver.spark.query import open_hive_session
session, _ = open_hive_session(sys.argv[1], json.loads(sys.argv[2]))
for line in sys.stdin:
    fresh = session.newSession()
    try:
        found = [[tuple(row) for row in fresh.sql(text).collect()] for text in json.loads(line)]
        answer = json.dumps({"rows": found}, default=str)
    except Exception as error:
        answer = json.dumps({"error": str(error)})
    print(answer, flush=True)
session.stop()
"""


def assert_verified(
    job: JobFile,
    *,
    timeout_s: float = _TIMEOUT_S,
    environment: Mapping[str, str] | None = None,
) -> None:
    """`sluiceway verify --deep` exits 0."""
    command = ("-m", "sluiceway", "verify", str(job.path), "--deep")
    done = _run(*command, timeout_s=timeout_s, environment=environment)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def read_independently(
    endpoints: LabEndpoints,
    job: JobFile,
    *,
    expectation: Path | None = None,
    at: tuple[str, Path] | None = None,
    timeout_s: float = _TIMEOUT_S,
) -> dict[str, int]:
    """What the independent reader counts; it must find nothing wrong.

    Args:
        at: Of a table elsewhere: its location, and a folder here that holds its files.
    """
    topics = [part for topic in job.route.topics for part in ("--topic", topic)]
    done = _run(
        *("-m", "tools.independent_reader", "--table", job.table, *topics),
        *("--bootstrap-servers", endpoints.bootstrap_servers),
        *("--metastore", endpoints.metastore_uri),
        *(("--spec", str(expectation)) if expectation else ()),
        *(("--at", at[0], str(at[1])) if at else ()),
        timeout_s=timeout_s,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


def spark_sql(
    metastore_uri: str,
    *statements: str,
    timeout_s: float = _TIMEOUT_S,
    settings: Mapping[str, str] | None = None,
) -> list[list[list[Any]]]:
    """Rows of each statement, by the run's one Spark that reads with these settings.

    Each call has a session of its own: `SET` holds for it, and no file list is kept.
    """
    reader = _spark_reader(metastore_uri, json.dumps(dict(settings or {}), sort_keys=True))
    assert reader.stdin is not None
    assert reader.stdout is not None
    reader.stdin.write(json.dumps(statements) + "\n")
    reader.stdin.flush()
    # A reader that hangs must not hang the run.
    watch = threading.Timer(timeout_s, reader.kill)
    watch.start()
    try:
        line = reader.stdout.readline()
    finally:
        watch.cancel()
    assert line, f"the reader ended with {reader.wait()}"
    answer = json.loads(line)
    assert "error" not in answer, answer["error"]
    found: list[list[list[Any]]] = answer["rows"]
    return found


@cache
def _spark_reader(metastore_uri: str, settings: str) -> subprocess.Popen[str]:
    reader = subprocess.Popen(
        [sys.executable, "-c", _SPARK_SQL, metastore_uri, settings],
        cwd=_TESTS,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(_end, reader)
    return reader


def _end(reader: subprocess.Popen[str]) -> None:
    """Its input ends, so it stops Spark; whoever kills this process ends its input too."""
    assert reader.stdin is not None
    reader.stdin.close()
    try:
        reader.wait(_END_S)
    except subprocess.TimeoutExpired:
        reader.kill()
        reader.wait()


def _run(
    *command: str,
    timeout_s: float = _TIMEOUT_S,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=_TESTS,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
