"""The one owner of a SparkSession."""

import logging
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.accumulators import AccumulatorTCPServer, AccumulatorUnixServer
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.host.java import find_java

_LOCAL_RETRIES = 4
_LOG_TAIL_LINES = 15


def spark_master(master: str) -> str:
    """Master URL of a job file's `run.master`; plain local masters get task retries."""
    if master == "local":
        return f"local[{os.cpu_count() or 1},{_LOCAL_RETRIES}]"
    match = re.fullmatch(r"local\[(\d+|\*)\]", master)
    return f"local[{match[1]},{_LOCAL_RETRIES}]" if match else master


def running_session() -> SparkSession | None:
    """The SparkSession that this process has already; None when there is none.

    Raises:
        UnhealthyEnvironmentError: It is a client of Spark Connect, which cannot run the tasks.
    """
    try:
        session = SparkSession.active()
    except PySparkException:
        return None
    if not isinstance(session, SparkSession):
        raise UnhealthyEnvironmentError(
            "the active SparkSession is a client of Spark Connect",
            hint="run in a process with a session of its own, or stop the client's first",
        )
    return session


def start_session(name: str, master: str, conf: Mapping[str, str]) -> tuple[SparkSession, Path]:
    """Start Spark quietly. Called once per process.

    Args:
        name: Application name.
        master: `run.master` of the job file.
        conf: `run.spark_conf`; wins over our defaults.

    Returns:
        The session, and the file that Spark's own log goes to.

    Raises:
        UnhealthyEnvironmentError: No fit Java, or Spark does not start; with the log's end.
    """
    os.environ["JAVA_HOME"] = str(find_java().path)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    url = spark_master(master)
    if url.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    descriptor, log_name = tempfile.mkstemp(prefix="sluiceway-spark-", suffix=".log")
    # py4j logs the JVM's end as an error with a traceback; the runner reports it in one line.
    logging.getLogger("py4j").addHandler(logging.NullHandler())
    for server in (AccumulatorTCPServer, AccumulatorUnixServer):
        server.handle_error = _leave_it_to_the_runner
    builder = SparkSession.builder.master(url).appName(name)
    for key, value in {**_defaults(), **conf}.items():
        builder = builder.config(key, value)
    try:
        with _stderr_into(descriptor):
            session = builder.getOrCreate()
    except Exception as error:
        tail = "\n".join(Path(log_name).read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:])
        raise UnhealthyEnvironmentError(
            f"Spark does not start: {error}\n{tail}", where=log_name
        ) from error
    finally:
        os.close(descriptor)
    return session, Path(log_name)


def _leave_it_to_the_runner(server: object, request: object, client_address: object) -> None:
    """Spark would print a traceback when the JVM dies; the runner says it in one line."""
    del server, request, client_address


def _defaults() -> dict[str, str]:
    log4j = Path(__file__).with_name("log4j2.properties").as_uri()
    # Java does not look at TMPDIR; a JVM that is killed leaves its folders where ours are.
    temporary = tempfile.gettempdir()
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": (
            f'-Dlog4j2.configurationFile={log4j} "-Djava.io.tmpdir={temporary}"'
        ),
        "spark.local.dir": temporary,
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.artifact.isolation.enabled": "false",
        "spark.python.worker.reuse": "true",
        # A slow task is cut off by run.straggler_timeout; a copy of it would only read again.
        "spark.speculation": "false",
        "spark.pyspark.python": sys.executable,
        "spark.sql.warehouse.dir": temporary,
    }


@contextmanager
def _stderr_into(descriptor: int) -> Iterator[None]:
    """The JVM inherits our standard error; for the moment of its start that is the log file."""
    sys.stderr.flush()
    saved = os.dup(2)
    os.dup2(descriptor, 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(saved, 2)
        os.close(saved)
