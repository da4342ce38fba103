"""Engines that read a lake table beside ours: Spark, DuckDB and pyiceberg, each by its own code.

DuckDB and its extensions are no dependencies of the project: they go into an environment of
their own below `.sluiceway/`, by version and hash. Iceberg's runtime for Spark is a pinned jar.
"""

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any, Self

from pyiceberg.catalog import Catalog

from sluiceway.host.java import find_java
from sluiceway.lab.jars import (
    PinnedJar,
    default_cache_folder,
    ensure_jars,
    jars_folder,
)
from sluiceway.lab.support import ignore_progress

ROOT = Path(__file__).parents[1]
ANSWER_S = 900.0
_REQUIREMENTS = Path(__file__).with_name("lake-readers-requirements.txt")
_JARS = Path(__file__).with_name("iceberg_spark_jars.json")
_DUCKDB = Path(__file__).with_name("lake_duckdb.py")


class ReaderFailedError(Exception):
    """A reader gave no answer."""


def spark_runtime() -> Path:
    """Iceberg's jar for Spark, from the cache of the labs.

    Raises:
        UnhealthyEnvironmentError: It cannot be downloaded, or is not what was pinned.
    """
    pins = tuple(PinnedJar(**pin) for pin in json.loads(_JARS.read_text())["jars"])
    folder = jars_folder(default_cache_folder(os.environ), "iceberg-spark-1.12.0", pins)
    ensure_jars(folder, pins, java=find_java(), on_progress=ignore_progress)
    return folder / pins[0].file_name


def duckdb_python() -> Path:
    """The interpreter of DuckDB's environment, which is made where it is missing.

    Raises:
        subprocess.CalledProcessError: It cannot be installed.
    """
    folder = ROOT / ".sluiceway" / "lake-readers"
    done = folder / "installed"
    wanted = _REQUIREMENTS.read_text()
    if not done.exists() or done.read_text() != wanted:
        venv.create(folder, with_pip=True, clear=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        pip += ["--disable-pip-version-check", "--require-hashes", "-r", str(_REQUIREMENTS)]
        subprocess.run(pip, check=True)
        done.write_text(wanted)
    return folder / "bin" / "python"


def ask_duckdb(metadata_file: str, sql: str) -> list[list[int]]:
    """Rows of whole numbers; the table is called `lake` in the query.

    Raises:
        ReaderFailedError: It failed; holds what it said.
    """
    path = metadata_file.removeprefix("file://")
    command = [str(duckdb_python()), str(_DUCKDB), path, sql]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=ANSWER_S)
    if done.returncode != 0:
        raise ReaderFailedError(f"DuckDB: {done.stderr[-2000:]}")
    rows: list[list[int]] = json.loads(done.stdout)
    return rows


class SparkBeside:
    """A Spark of its own in a process of its own, until it is closed.

    Args:
        catalog: Settings of Iceberg's catalog in Spark: `type`, `uri`, and so on.
    """

    def __init__(self, catalog: dict[str, str]) -> None:
        command = [sys.executable, "-m", "bench.lake_spark", str(spark_runtime())]
        self._errors = tempfile.NamedTemporaryFile(mode="w+", suffix=".log")  # noqa: SIM115
        self._process = subprocess.Popen(
            [*command, json.dumps(catalog)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self.version = str(self._answer()["version"])

    def ask(self, sql: str, metadata_file: str = "") -> list[list[int]]:
        """Rows of whole numbers.

        Args:
            sql: Of tables in the catalog `lake`; or of the view `rows`.
            metadata_file: What that view is, where the table is read without a catalog.

        Raises:
            ReaderFailedError: Spark failed; holds what it said.
        """
        told = self._do({"sql": sql, **({"metadata": metadata_file} if metadata_file else {})})
        if "error" in told:
            raise ReaderFailedError(f"Spark: {told['error']}")
        rows: list[list[int]] = told["rows"]
        return rows

    def maintain(self, table: str) -> dict[str, Any]:
        """Rewrite small files and expire snapshots; the figures, or the `error`."""
        return self._do({"maintain": table})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._process.communicate(timeout=60.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        self._errors.close()

    def _do(self, asked: dict[str, str]) -> dict[str, Any]:
        if self._process.stdin is None:
            raise ReaderFailedError("Spark has no standard input")
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        line = self._process.stdout.readline() if self._process.stdout is not None else ""
        if not line:
            self._errors.seek(0)
            raise ReaderFailedError(f"Spark ended: {self._errors.read()[-2000:]}")
        told: dict[str, Any] = json.loads(line)
        return told


def metadata_file(catalog: Catalog, table: str) -> str:
    """The newest metadata file of a table."""
    return str(catalog.load_table(table).metadata_location)
