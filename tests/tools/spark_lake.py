"""Spark as another client of Iceberg tables in a metastore, in a process of its own.

Started as `python -m tools.spark_lake METASTORE WAREHOUSE`. It runs the SQL of each line of its
input, a text as JSON, and answers each with a line: nothing, or what went wrong.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sluiceway.driver.spark.session import start_session
from sluiceway.host.java import find_java
from tools.spark_query import lake_conf

_PROCEDURES = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


class SparkLake:
    """The client.

    Args:
        process: Where it runs.
    """

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def sql(self, *statements: str) -> None:
        """Run them, one after the other."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        for statement in statements:
            self._process.stdin.write(json.dumps(statement) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
            assert answer, f"Spark has ended at: {statement}"
            assert json.loads(answer) == "", (statement, answer)


@contextmanager
def spark_lake(metastore: str, warehouse: Path) -> Iterator[SparkLake]:
    """Its catalog is `lake`, with the tables of a metastore."""
    with subprocess.Popen(
        [sys.executable, "-m", "tools.spark_lake", metastore, f"file://{warehouse}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        text=True,
    ) as process:
        try:
            yield SparkLake(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()


def main() -> None:
    """Run statements until there are no more."""
    metastore, warehouse = sys.argv[1:]
    # Spark's own words do not go where answers do.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    conf = {
        **lake_conf(type="hive", uri=metastore, warehouse=warehouse),
        "spark.sql.extensions": _PROCEDURES,
        # The metastore compares and sets, and needs no table of locks.
        "spark.hadoop.iceberg.engine.hive.lock-enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    spark, _ = start_session("lake", "local[2]", conf, find_java())
    for line in sys.stdin:
        answer = ""
        try:
            spark.sql(json.loads(line)).collect()
        except Exception as error:  # noqa: BLE001 - the test says so
            answer = str(error)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    spark.stop()


if __name__ == "__main__":
    main()
