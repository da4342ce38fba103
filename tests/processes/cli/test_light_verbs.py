"""Verbs that need no server load no client of one: they answer before those are imported."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = str(Path(__file__).parents[3] / "examples" / "orders.yaml")
CLIENTS = {
    *("pyspark", "py4j", "pandas", "confluent_kafka", "botocore", "hdfs_native", "thrift"),
    *("pymetastore", "fastavro", "duckdb", "prometheus_client", "starlette", "uvicorn"),
    *("structlog", "http.client"),
}
ARROW = {"pyarrow", "numpy"}
# Of a Hive table on this machine: neither engine, broker, other stores nor data files.
FOR_A_LEDGER = CLIENTS - {"thrift", "pymetastore"} | {"asyncio"} | ARROW
# Whole modules: what reads a ledger, and what writes Parquet.
PARTS = {"sluiceway.ledger.log", "sluiceway.ledger.folding.fold", "sluiceway.ledger.snapshot"} | {
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
        (("validate", EXAMPLE), CLIENTS | PARTS | ARROW | {"ssl"}),
        (
            ("status", EXAMPLE),
            ARROW | {"pyspark", "pandas", "botocore", "hdfs_native", "structlog", "http.client"},
        ),
        (("partitions", "why", EXAMPLE, "dt=20261120/hr=08"), FOR_A_LEDGER),
        (("ledger", "show", EXAMPLE), FOR_A_LEDGER),
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
    # No server there: what `status` loads to ask one, and no more.
    monkeypatch.setenv("SLUICEWAY_METASTORE", "thrift://127.0.0.1:9")
    loaded = _loaded(args)
    assert "sluiceway" in loaded
    assert sorted(heavy & loaded) == []


@pytest.mark.parametrize(
    ("args", "most"),
    [
        (("validate", EXAMPLE), 206),
        (("status", EXAMPLE), 368),
        (("explain", "SW455"), 110),
        (("run", "--help"), 210),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_verb_imports_few_modules_of_ours_and_others(
    args: tuple[str, ...], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without those of Python itself; time would differ from machine to machine."""
    monkeypatch.setenv("SLUICEWAY_KAFKA", "k1:9092")
    # No server there: what `status` loads to ask one, and no more.
    monkeypatch.setenv("SLUICEWAY_METASTORE", "thrift://127.0.0.1:9")
    loaded = _loaded(args)
    ours = {name for name in loaded if name.partition(".")[0] not in sys.stdlib_module_names}
    assert 0 < len(ours) <= most, len(ours)


BLOCKS = """\
import sys
from sluiceway.cli.app import run_command
code = run_command(["validate", sys.argv[1]])
from sluiceway.jobfile.blocks.block import Block
def below(kind):
    return {kind}.union(*map(below, kind.__subclasses__()))
print(code, *(kind.__name__ for kind in below(Block) if kind.__pydantic_complete__))
"""


def test_validate_builds_the_models_of_no_block_that_the_job_file_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLUICEWAY_KAFKA", "k1:9092")
    monkeypatch.setenv("SLUICEWAY_METASTORE", "thrift://127.0.0.1:9")
    command = [sys.executable, "-c", BLOCKS, EXAMPLE]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    code, *built = done.stdout.splitlines()[-1].split()
    assert (code, "RouteSpec" in built) == ("0", True)
    # They are parts of it, and were never asked to look at a value of their own.
    assert not {"JobFileBlocks", "RouteEntry", "LineageSpec", "RetentionSpec"} & set(built)


def _loaded(args: tuple[str, ...]) -> set[str]:
    """Modules that a verb has imported, and their topmost packages."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *args], capture_output=True, text=True, check=False
    )
    return set(done.stderr.splitlines()[-1].strip("[]").replace("'", "").split(", "))
