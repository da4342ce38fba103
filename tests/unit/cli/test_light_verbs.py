"""Verbs that need no server load no client of one: they answer before those are imported."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = str(Path(__file__).parents[3] / "examples" / "orders.yaml")
CLIENTS = {
    *("pyspark", "py4j", "pandas", "confluent_kafka", "botocore", "hdfs_native", "thrift"),
    *("pymetastore", "fastavro", "duckdb", "prometheus_client", "starlette", "uvicorn"),
    "structlog",
}
ARROW = {"pyarrow", "numpy"}
# Whole modules: what reads a ledger, and what writes Parquet.
PARTS = {"sluiceway.ledger.log", "sluiceway.ledger.fold", "sluiceway.ledger.snapshot"} | {
    *("sluiceway.sinks.files.parquet_file", "pyarrow.parquet", "sluiceway.observe.log"),
}
SCRIPT = """\
import sys
from sluiceway.cli.app import run_command
code = run_command(sys.argv[1:])
print(sorted({name.partition(".")[0] for name in sys.modules} | {*sys.modules}), file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.parametrize(
    ("args", "heavy"),
    [
        (("validate", EXAMPLE), CLIENTS | PARTS),
        (("schema",), CLIENTS | ARROW),
        (("explain", "SW455"), CLIENTS | ARROW),
        (("completion", "bash"), CLIENTS | ARROW),
        (("run", "--help"), CLIENTS | ARROW | {"pydantic"}),
    ],
    ids=lambda value: " ".join(value)[:20] if isinstance(value, tuple) else "",
)
def test_verb_imports_nothing_that_it_does_not_need(
    args: tuple[str, ...], heavy: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICEWAY_KAFKA", "k1:9092")
    monkeypatch.setenv("SLUICEWAY_METASTORE", "thrift://hms:9083")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *args], capture_output=True, text=True, check=True
    )
    loaded = set(done.stderr.splitlines()[-1].strip("[]").replace("'", "").split(", "))
    assert "sluiceway" in loaded
    assert sorted(heavy & loaded) == []
