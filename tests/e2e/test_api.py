"""`sluiceway.run` in the caller's process, with the caller's SparkSession. One Spark start."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from ruamel.yaml import YAML

import sluiceway
from sluiceway.driver.spark.session import start_session
from sluiceway.errors import JobFileError, TableMismatchError
from sluiceway.host.java import find_java
from sluiceway.lab.lab import LabEndpoints
from sluiceway.route.status import RouteState
from tools.job_files import JobFile, event, write_job
from tools.lab_fixture import TopicFactory
from tools.raw_metastore import raw_client
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

# Py4J leaves the connections of threads that have ended to the collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    conf = {"spark.sql.shuffle.partitions": "3"}
    session, _ = start_session("callers-own", "local[2]", conf, find_java())
    yield session
    session.stop()
    gc.collect()


@pytest.fixture
def job(lab_endpoints: LabEndpoints, new_topic: TopicFactory, tmp_path: Path) -> JobFile:
    return write_job(
        tmp_path,
        bootstrap_servers=lab_endpoints.bootstrap_servers,
        metastore_uri=lab_endpoints.metastore_uri,
        topic=new_topic(2),
    )


def topic_of(job: JobFile) -> str:
    return job.spec.routes[0].source.names[0]


def assert_left_as_it_was(session: SparkSession) -> None:
    assert SparkSession.getActiveSession() is not None
    assert session.conf.get("spark.sql.shuffle.partitions") == "3"
    assert session.range(5).count() == 5


def test_import_of_the_package_loads_nothing_heavy() -> None:
    heavy = "{'pyspark', 'pyarrow', 'pandas', 'confluent_kafka', 'pydantic', 'structlog'}"
    script = (
        f"import sys, sluiceway; assert 'run' in dir(sluiceway); "
        f"print(sorted({heavy} & set(sys.modules)), hasattr(sluiceway, 'none'))"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert found.stdout.strip() == b"[] False"


def test_session_that_speculates_is_refused_before_anything_is_done(
    job: JobFile, tmp_path: Path
) -> None:
    # In a process of its own: whether a session speculates is settled when its JVM starts.
    script = (
        "import sluiceway\n"
        "from pyspark.sql import SparkSession\n"
        "from sluiceway.errors import UnhealthyEnvironmentError\n"
        "from sluiceway.host.java import find_java\n"
        "from sluiceway.driver.spark.session import start_session\n"
        "conf = {'spark.speculation': 'true'}\n"
        "session, _ = start_session('own', 'local[1]', conf, find_java())\n"
        "try:\n"
        f"    sluiceway.run({str(job.path)!r}, until_caught_up=True)\n"
        "except UnhealthyEnvironmentError as error:\n"
        "    print(error.code, error.message)\n"
        "print(session.range(5).count())\n"
        "session.stop()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.stdout.splitlines() == [
        "SW403 the active SparkSession starts copies of slow tasks (spark.speculation)",
        "5",
    ], done.stderr


def test_run_of_a_file_and_of_a_mapping_commit_and_leave_the_session_running(
    session: SparkSession, job: JobFile, lab_endpoints: LabEndpoints
) -> None:
    writer = TopicWriter(lab_endpoints.bootstrap_servers)
    writer.write(topic_of(job), [event(n) for n in range(20)], partition=0)
    writer.write(topic_of(job), [event(0), b"{broken", None], partition=1)
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    summary = sluiceway.run(job.path, until_caught_up=True)
    assert (summary.rows_read, summary.rows_written, summary.rows_dirty) == (23, 21, 1)
    assert summary.commits >= 1
    (route,) = summary.routes
    assert (route.table, route.state, route.error) == (job.table, RouteState.CAUGHT_UP, None)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert_left_as_it_was(session)
    writer.write(topic_of(job), [event(n) for n in range(5)], partition=1)
    mapping = YAML(typ="safe", pure=True).load(job.path.read_text())
    assert sluiceway.run(mapping, until_caught_up=True).rows_written == 5
    assert sluiceway.run(str(job.path), until_caught_up=True).commits == 0
    assert_left_as_it_was(session)
    RouteRun(job).assert_verified()


def test_run_in_a_thread_ends_after_its_time_and_touches_no_signals(
    session: SparkSession, job: JobFile, lab_endpoints: LabEndpoints
) -> None:
    TopicWriter(lab_endpoints.bootstrap_servers).write(topic_of(job), [event(0)])
    handler = signal.getsignal(signal.SIGTERM)
    seen, rows = [], 0
    with ThreadPoolExecutor(1) as pool:
        # What waits for the row is the commit, however long it takes; the time only ends a run.
        for until in ({"until_caught_up": True}, {"for_": "1s"}):
            future = pool.submit(sluiceway.run, job.path, **until)
            while not future.done():
                seen.append(signal.getsignal(signal.SIGTERM))
                threading.Event().wait(0.5)
            rows += future.result().rows_written
    assert rows == 1
    assert set(seen) == {handler}
    assert_left_as_it_was(session)


def test_sigterm_ends_a_run_in_the_main_thread_gracefully(
    session: SparkSession, job: JobFile, lab_endpoints: LabEndpoints
) -> None:
    TopicWriter(lab_endpoints.bootstrap_servers).write(topic_of(job), [event(0)])
    before = signal.getsignal(signal.SIGTERM)

    database, _, table = job.table.partition(".")
    stage = lab_endpoints.warehouse / f"{database}.db" / table / "_sluiceway"

    def send_when_it_reads() -> None:
        while not list(stage.glob("*/stage/*/*.parquet*")):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    sender = threading.Thread(target=send_when_it_reads, daemon=True)
    sender.start()
    summary = sluiceway.run(job.path)
    sender.join()
    assert summary.rows_written == 1
    assert signal.getsignal(signal.SIGTERM) is before
    assert_left_as_it_was(session)


def test_run_that_cannot_go_on_raises_our_error_and_leaves_the_session_running(
    session: SparkSession, job: JobFile, lab_endpoints: LabEndpoints
) -> None:
    TopicWriter(lab_endpoints.bootstrap_servers).write(topic_of(job), [event(0)])
    sluiceway.run(job.path, until_caught_up=True)
    database, _, name = job.table.partition(".")
    with raw_client(lab_endpoints.metastore_uri) as client:
        table = client.get_table(database, name)
        table.sd.inputFormat = "org.apache.hadoop.mapred.TextInputFormat"
        client.alter_table(database, name, table)
    with pytest.raises(TableMismatchError):
        sluiceway.run(job.path, until_caught_up=True)
    assert_left_as_it_was(session)


@pytest.mark.usefixtures("session")
def test_wrong_arguments_are_refused_before_anything_runs(job: JobFile) -> None:
    with pytest.raises(JobFileError, match="expected the key `name`"):
        sluiceway.run({"version": 1})
    with pytest.raises(ValueError, match="texts, numbers, lists and mappings"):
        sluiceway.run({"version": {1, 2}})
    with pytest.raises(ValueError, match="a duration"):
        sluiceway.run(job.path, for_="soon")
    with pytest.raises(ValueError, match="greater than 0"):
        sluiceway.run(job.path, for_=0)
