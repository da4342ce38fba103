"""The one owner of a SparkContext, and of a SparkSession where one is needed."""

import logging
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.accumulators import AccumulatorTCPServer, AccumulatorUnixServer
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from sluiceway.driver.spark.class_archive import QUICK_START, archive_options
from sluiceway.driver.spark.spark_errors import why_not_started
from sluiceway.driver.spark.spark_login import DRIVER_OPTIONS, EXECUTOR_OPTIONS, login_settings
from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.host.copied_files import is_carried
from sluiceway.host.java import JavaHome
from sluiceway.host.kerberos import KerberosLogin
from sluiceway.host.ticket_cache import private_folder
from sluiceway.jobfile.blocks.values import HIDDEN_KEYS, is_secret_key

_LOCAL_RETRIES = 4
_YARN = "yarn"
_DAEMON = "spark.python.daemon.module"


def spark_master(master: str) -> str:
    """Master URL for a job file's `run.master`; plain local masters get task retries."""
    if master == "local":
        return f"local[{os.cpu_count() or 1},{_LOCAL_RETRIES}]"
    match = re.fullmatch(r"local\[(\d+|\*)\]", master)
    return f"local[{match[1]},{_LOCAL_RETRIES}]" if match else master


def with_slot_for_sql(master: str) -> str:
    """A local master with one slot more, in which SQL runs while the next epoch is read."""
    match = re.fullmatch(r"local(?:\[(\d+)\])?", master)
    if match is None:
        return master
    return f"local[{int(match[1] or os.cpu_count() or 1) + 1}]"


def running_session() -> SparkSession | None:
    """The SparkSession that this process has already; None when there is none.

    Raises:
        UnhealthyEnvironmentError: It is a client of Spark Connect, which cannot run the tasks, or
            it uses speculation.
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
    if session.sparkContext.getConf().get("spark.speculation", "false").lower() == "true":
        # A copy of a slow task looks like the retry of a dead one, and answers for it.
        raise UnhealthyEnvironmentError(
            "the active SparkSession starts copies of slow tasks (spark.speculation)",
            hint="make it with spark.speculation=false; `run.straggler_timeout` cuts off slow "
            "tasks. Or stop it: a session of its own is started then",
        )
    return session


def start_session(
    name: str,
    master: str,
    conf: Mapping[str, str],
    java: JavaHome,
    login: KerberosLogin | None = None,
) -> tuple[SparkSession, Path]:
    """Start Spark with its SQL, for who reads tables with it; else as `start_context`."""
    context, log = start_context(name, master, conf, java, login)
    return SparkSession(context), log


def start_context(
    name: str,
    master: str,
    conf: Mapping[str, str],
    java: JavaHome,
    login: KerberosLogin | None = None,
) -> tuple[SparkContext, Path]:
    """Start Spark quietly, without its SQL. Called once per process.

    Args:
        name: Application name.
        master: `run.master` of the job file.
        conf: `run.spark_conf`; wins over our defaults.
        java: Java of the JVM.
        login: Login of the job; None without one.

    Returns:
        The context, and the file that Spark's own log goes to.

    Raises:
        UnhealthyEnvironmentError: Another user owns the temporary folder, or Spark does not start;
            the message has the log's end.
    """
    os.environ["JAVA_HOME"] = str(java.path)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # For the JVM that only assembles the command of the next one.
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", QUICK_START)
    url = spark_master(master)
    if url.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    descriptor, log_name = tempfile.mkstemp(".log", "sluiceway-spark-", private_folder())
    leave_the_end_to_the_runner()
    for server in (AccumulatorTCPServer, AccumulatorUnixServer):
        server.handle_error = _leave_it_to_the_runner
    settings = session_settings(url, conf, java, login)
    try:
        _start_jvm(settings, descriptor)
        every = SparkConf().setMaster(url).setAppName(name).setAll(list(settings.items()))
        context = SparkContext.getOrCreate(every)
    except Exception as error:
        why = why_not_started(str(error), Path(log_name).read_text(errors="replace"))
        raise UnhealthyEnvironmentError(
            f"Spark does not start with the master {url}: {why}",
            where=log_name,
            hint="look at that log, `run.master` and `run.spark_conf`",
        ) from error
    finally:
        os.close(descriptor)
    return context, Path(log_name)


def _start_jvm(settings: Mapping[str, str], descriptor: int) -> None:
    """Start the JVM without the secrets: every user can read its command line.

    PySpark would put all settings there. The context sets those left out afterwards.

    Args:
        settings: All settings of the session.
        descriptor: Standard error of the JVM. Ours is left alone: other threads may write to it.
    """
    public = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        if not is_secret_key(key):
            public.set(key, value)
    if SparkContext._gateway is None:  # noqa: SLF001 - the only way to do it first
        gateway = launch_gateway(public, {"stderr": descriptor})
        SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001


def leave_the_end_to_the_runner() -> None:
    """Keep py4j from logging the JVM's end with a traceback; the runner logs it in one line.

    py4j uses its own logger and the root's functions, which add a handler to a root that has none.
    So a handler is added here first. Called before Spark is started.
    """
    logging.getLogger("py4j").addHandler(logging.NullHandler())
    root, stand_in = logging.getLogger(), logging.lastResort
    root.addFilter(_is_not_py4js)
    if stand_in is not None and not root.handlers:
        root.addHandler(stand_in)


def _is_not_py4js(record: logging.LogRecord) -> bool:
    return record.module != "java_gateway"


def _leave_it_to_the_runner(server: object, request: object, client_address: object) -> None:
    """Spark would print a traceback when the JVM dies; the runner logs it in one line."""
    del server, request, client_address


def default_settings() -> dict[str, str]:
    """Spark's settings unless the job file has others."""
    log4j = Path(__file__).with_name("log4j2.properties").as_uri()
    # Java ignores TMPDIR; a JVM that is killed leaves its folders with ours.
    temporary = private_folder()
    return {
        "spark.ui.enabled": "true",
        # Any free port: the drivers of one machine do not try ports one after the other.
        "spark.ui.port": "0",
        # Its pages have no login.
        "spark.ui.killEnabled": "false",
        # Drivers run for months. Even without a UI the JVM keeps the data of its pages.
        "spark.ui.retainedJobs": "20",
        "spark.ui.retainedStages": "20",
        "spark.ui.retainedTasks": "1000",
        "spark.ui.retainedDeadExecutors": "20",
        "spark.sql.ui.retainedExecutions": "20",
        "spark.ui.showConsoleProgress": "false",
        # On its pages and in its event log: Spark's own list of secrets is shorter.
        "spark.redaction.regex": f"{HIDDEN_KEYS}|access[.]?key",
        # Garbage of each epoch would be collected only once the heap is full.
        "spark.cleaner.periodicGC.interval": "5min",
        "spark.driver.memory": "512m",
        DRIVER_OPTIONS: (
            f'{QUICK_START} -Dlog4j2.configurationFile={log4j} "-Djava.io.tmpdir={temporary}"'
        ),
        EXECUTOR_OPTIONS: QUICK_START,
        "spark.local.dir": str(temporary),
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.artifact.isolation.enabled": "false",
        "spark.python.worker.reuse": "true",
        # A task prefers the executor of its slot, and soon takes another.
        "spark.locality.wait": "100ms",
        # run.straggler_timeout ends a slow task; a copy of it would only read the same again.
        "spark.speculation": "false",
        "spark.pyspark.python": sys.executable,
        "spark.sql.warehouse.dir": str(temporary),
    }


def session_settings(
    url: str, conf: Mapping[str, str], java: JavaHome, login: KerberosLogin | None
) -> dict[str, str]:
    """All settings of a session: ours, overridden by those of the job file.

    Args:
        url: Master URL.
        conf: `run.spark_conf`.
        java: Java of the JVM.
        login: Login of the job; None without one.
    """
    settings = {**default_settings(), **pools(url), **conf}
    if url.startswith("local"):
        settings.setdefault(_DAEMON, "sluiceway.driver.spark.worker_daemon")
    archived = archive_options(java)
    if archived and DRIVER_OPTIONS not in conf:
        settings[DRIVER_OPTIONS] += f" {archived}"
    if login is not None and url == _YARN and not is_carried():
        # In an ApplicationMaster Spark is logged in already, by its submission.
        settings |= login_settings(login, settings)
    return settings


def pools(url: str) -> dict[str, str]:
    """Scheduler pools for epochs and for upkeep, where there may be executors for both.

    Args:
        url: Master URL.
    """
    if url.startswith("local"):
        return {}
    file = Path(__file__).with_name("pools.xml").as_uri()
    return {"spark.scheduler.mode": "FAIR", "spark.scheduler.allocation.file": file}
