"""Proof that a table has every row once: `sluiceway verify` and the independent reader."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sluiceway.lab.lab import LabEndpoints
from tools.job_files import JobFile

_TESTS = Path(__file__).resolve().parents[1]
_TIMEOUT_S = 600.0
_SPARK_SQL = """
import json, sys
from sluiceway.job.query import query_through_metastore
found = query_through_metastore(sys.argv[1], sys.argv[3:], json.loads(sys.argv[2]))
print(json.dumps(found, default=str))
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
    """Rows of each statement, by Spark in a process of its own."""
    command = ("-c", _SPARK_SQL, metastore_uri, json.dumps(dict(settings or {})))
    done = _run(*command, *statements, timeout_s=timeout_s)
    assert done.returncode == 0, done.stderr
    found: list[list[list[Any]]] = json.loads(done.stdout.splitlines()[-1])
    return found


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
