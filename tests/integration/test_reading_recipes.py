"""The recipe of docs/guides/hive-tables.md for Spark, on a table that has seen all changes.

An added column, a compacted hour, times of the years 1 and 9999, and timestamps of both kinds. The
other recipes run in `unit/cli/test_files_cli.py`, with no server.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sluiceway.cli.app import run_command
from tools.job_files import write_job
from tools.lab_fixture import TopicFactory
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

_TS = 1_795_161_600_000
_HOUR_MS = 3_600_000
_FAR = ("9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00Z")
_MORE = 2**53 + 1
_COLUMNS = """\
    - {name: order_id, type: bigint}
    - {name: ts, type: bigint, required: true}
    - {name: amount, type: timestamp}
"""
_PRINTED = """
import json, sys
rows = spark.sql(sys.argv[1]).collect()
print(json.dumps([list(row) for row in rows], default=str))
"""


def _row(number: int, **more: object) -> bytes:
    ts = _TS + (_HOUR_MS if more else 0)
    row = {"order_id": number, "ts": ts, "amount": _FAR[number % 2], **more}
    return json.dumps(row).encode()


@pytest.mark.slow
def test_spark_reads_all_that_has_become_of_a_table(
    bootstrap_servers: str, metastore_uri: str, new_topic: TopicFactory, tmp_path: Path
) -> None:
    topic, writer = new_topic(1), TopicWriter(bootstrap_servers)

    def run_of(hive: str) -> RouteRun:
        job = write_job(
            tmp_path,
            bootstrap_servers=bootstrap_servers,
            metastore_uri=metastore_uri,
            topic=topic,
            columns=_COLUMNS,
            evolution="add_columns",
            hive=hive,
        )
        return RouteRun(job)

    run = run_of("")
    for number in range(4):
        writer.write(topic, [_row(number)])
        run.catch_up()
    (hour,) = [f"dt={value.replace('/', '/hr=')}" for value in run.partitions()]
    assert run_command(["compact", str(run.job.path), hour]) == 0
    run = run_of(", parquet_timestamps: micros")
    writer.write(topic, [_row(4, more=_MORE), _row(5, more=None)])
    run.catch_up()

    page = (Path(__file__).parents[2] / "docs" / "guides" / "hive-tables.md").read_text("utf-8")
    code = page.split("\n### Spark SQL\n")[1].split("```python\n")[1].split("```")[0]
    code = code.replace("thrift://127.0.0.1:9083", metastore_uri).replace(
        "ods.orders", run.job.table
    )
    query = (
        "SELECT order_id, date_format(amount, 'yyyy-MM-dd HH:mm:ss.SSSSSS'), more "  # noqa: S608
        f"FROM {run.job.table} ORDER BY order_id"
    )
    command = [sys.executable, "-c", code + _PRINTED, query]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    texts = [each.replace("T", " ").removesuffix("Z") for each in _FAR]
    texts[1] += ".000000"
    assert json.loads(done.stdout.splitlines()[-1]) == [
        [number, texts[number % 2], _MORE if number == 4 else None] for number in range(6)
    ]
