"""Clients on the page of chains that need further packages: dbt-spark, Declarative Pipelines."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from uuid import uuid4

import pyarrow.parquet as pq
import pytest

from sluiceway.cli.app import run_command
from tools.chain_guide import PAGE, code
from tools.lab_fixture import TopicFactory
from tools.lake_jobs import write_lake_job
from tools.lake_orders import order
from tools.page_commands import blocks_of
from tools.rows_on_disk import rows_on_disk
from tools.spark_query import lake_conf
from tools.topic_writer import TopicWriter

DBT, PIPELINES = os.environ.get("SLUICEWAY_DBT", ""), os.environ.get("SLUICEWAY_PIPELINES", "")
pytestmark = pytest.mark.slow
SEVEN, EIGHT, NINE = (f"dt=20261120/hr={hour:02}" for hour in (7, 8, 9))
_PROJECT = "name: shop\nversion: '1.0.0'\nconfig-version: 2\nprofile: shop\n"
_PROFILE = (
    "shop: {{target: dev, outputs: {{dev: "
    "{{type: spark, method: session, host: none, schema: {schema}, threads: 1}}}}}}\n"
)


def spark_conf(folder: Path, settings: Mapping[str, str]) -> None:
    """Settings of the session that a client starts."""
    settings = {**settings, "spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"}
    lines = [f"{key} {value}\n" for key, value in settings.items()]
    (folder / "spark-defaults.conf").write_text("".join(lines))


_RUNS = """
import json, sys
from dbt.cli.main import dbtRunner
for hour in sys.argv[1:]:
    asked = ["--quiet", "run", "--profiles-dir", ".", "--vars", json.dumps({"hour": hour})]
    done = dbtRunner().invoke(asked)
    found = [] if done.result is None else [each.message for each in done.result]
    print("RAN", json.dumps([done.success, *found]), flush=True)
"""


def in_project(project: Path, packages: str, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder that has Spark's settings, with packages besides the lock's."""
    return subprocess.run(
        command,
        env={
            **os.environ,
            "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(path for path in (*sys.path, packages) if path),
            "SPARK_CONF_DIR": str(project),
        },
        cwd=project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def dbt_runs(project: Path, *hours: str) -> list[list[object]]:
    """Whether each run has succeeded, and what its model says."""
    done = in_project(project, DBT, sys.executable, "-c", _RUNS, *hours)
    lines = [line[4:] for line in done.stdout.splitlines() if line.startswith("RAN ")]
    assert len(lines) == len(hours), done.stdout[-3000:] + done.stderr[-3000:]
    return [json.loads(line) for line in lines]


@pytest.mark.skipif(
    not DBT and find_spec("dbt") is None,
    reason="not installed: dbt-spark; `make proofs NAME=test-dbt` installs it",
)
def test_model_over_an_announced_hour_replaces_that_hour_alone(
    metastore_uri: str, warehouse: Path, tmp_path: Path
) -> None:
    schema = f"dm_{uuid4().hex[:8]}"
    table = rows_on_disk(tmp_path)
    table.add(SEVEN, EIGHT)
    table.table.rows(closed=(SEVEN, EIGHT))
    for hour in (SEVEN, EIGHT):
        table.announce(hour)
    # Late rows of the hour: no announcement has them.
    table.add(EIGHT, rows=5)

    project = tmp_path / "project"
    (project / "models").mkdir(parents=True)
    (model,) = [each for each in blocks_of(PAGE, "sql") if "insert_overwrite" in each]
    model = model.replace("orders.yaml", str(table.table.job)).replace("city", "app")
    (project / "models/hourly.sql").write_text(model)
    (project / "dbt_project.yml").write_text(_PROJECT)
    (project / "profiles.yml").write_text(_PROFILE.format(schema=schema))
    hive = {
        "spark.hadoop.hive.metastore.uris": metastore_uri,
        "spark.sql.warehouse.dir": warehouse.as_uri(),
    }
    spark_conf(project, {"spark.master": "local[2]", **hive})
    *runs, refused = dbt_runs(project, SEVEN, EIGHT, EIGHT, NINE)
    assert [succeeded for succeeded, *_ in runs] == [True] * 3, runs
    assert not refused[0]
    assert f"`sluiceway partitions why JOB {NINE}` says what it waits for" in str(refused)
    paths = sorted(warehouse.rglob(f"{schema}.db/**/*.parquet"))
    found = [(row["app"], row["orders"]) for path in paths for row in rows_of(path)]
    assert found == [(SEVEN, 4), (EIGHT, 4)]


_SPEC = """\
name: shop
storage: file://{folder}/storage
catalog: lake
database: ods
libraries:
- glob: {{include: chain.py}}
"""


def pipeline_runs(project: Path) -> None:
    """Run the pipeline of a folder, to its end."""
    program = str(Path(sys.executable).with_name("spark-pipelines"))
    done = in_project(project, PIPELINES, program, "run")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.skipif(
    not PIPELINES and find_spec("grpc_status") is None,
    reason="not installed: grpcio-status; `make proofs NAME=test-dbt` installs it",
)
def test_pipeline_over_an_iceberg_table_appends_each_row_once_through_a_compaction(
    bootstrap_servers: str, metastore_uri: str, new_topic: TopicFactory, tmp_path: Path
) -> None:
    topic, writer, name = new_topic(1), TopicWriter(bootstrap_servers), f"refined_{uuid4().hex[:8]}"
    job = write_lake_job(
        tmp_path,
        bootstrap_servers=bootstrap_servers,
        metastore=metastore_uri,
        topic=topic,
        partition_by="[]",
        # Spark's source of Iceberg keeps the name `_partition` for itself.
        meta="[offset]",
    )
    project = tmp_path / "project"
    project.mkdir()
    page = code("pipelines").replace("ods.orders", job.table).replace("refined", name)
    (project / "chain.py").write_text(page)
    (project / "spark-pipeline.yml").write_text(_SPEC.format(folder=project))
    warehouse = f"file://{tmp_path}/lake"
    catalog = lake_conf(type="hive", uri=metastore_uri, warehouse=warehouse)
    locks = {"spark.hadoop.iceberg.engine.hive.lock-enabled": "false"}
    spark_conf(project, {**catalog, **locks})
    for numbers in (range(4), range(4, 9)):
        for number in numbers:
            writer.write(topic, [order(number)], partition=0)
            job.catch_up()
        pipeline_runs(project)
        assert run_command(["compact", str(job.path), "--all-closed"]) == 0
    found = replace(job, table=f"ods.{name}").rows("id")
    assert found == [(number,) for number in range(1, 9)]


def rows_of(path: Path) -> list[dict[str, object]]:
    return list(pq.ParquetFile(path).read().to_pylist())
