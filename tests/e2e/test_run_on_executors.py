"""`sluiceway run` on a standalone Spark cluster: executors that die, while they read or compact."""

import json
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sluiceway.host.process import is_alive
from sluiceway.lab.lab import LabEndpoints
from sluiceway.observe.failpoints import HIT, VARIABLE, Action, FailpointSpec, Role
from tools.driver_process import DriverProcess, kill_quietly
from tools.job_files import COLUMNS, JobFile, event, write_job
from tools.lab_fixture import TopicFactory
from tools.route_runs import RouteRun
from tools.spark_cluster import SparkCluster, spark_cluster
from tools.table_proofs import assert_verified, read_independently
from tools.topic_writer import TopicWriter

BATCH = 40
START_MS = 1_795_161_600_000
# The machine's own name may lead elsewhere; executors look for the driver by it.
LOOPBACK = {"SPARK_LOCAL_IP": "127.0.0.1"}
_STRICT = COLUMNS.replace("name: city, type: string", "name: city, type: string, required: true")


def test_rows_are_there_once_though_an_executor_dies(
    lab_endpoints: LabEndpoints, new_topic: TopicFactory, tmp_path: Path
) -> None:
    topic, writer = new_topic(4), TopicWriter(lab_endpoints.bootstrap_servers)
    job = _job(tmp_path, lab_endpoints, topic)

    def produce(first: int) -> None:
        for partition in range(4):
            numbers = range(first + partition, first + BATCH, 4)
            rows = [b'{"id": %d, "ts": %d}' % (number, START_MS + number) for number in numbers]
            writer.write(topic, rows, partition=partition)

    with spark_cluster(tmp_path / "cluster") as cluster:
        job.path.write_text(job.path.read_text().replace("local[2]", cluster.url))
        produce(0)
        with DriverProcess(job, tmp_path, environment=LOOPBACK) as driver:
            driver.wait_until(lambda: _read(driver) == BATCH, "the first rows")
            driver.wait_until(lambda: len(cluster.executors()) == 2, "two executors")
            kill_quietly(cluster.executors()[0].pid)
            produce(BATCH)
            driver.wait_until(lambda: _read(driver) == 2 * BATCH, "rows behind the kill")
            driver.wait_until(lambda: len(cluster.executors()) == 2, "another executor")
            executors = cluster.executors()
            produce(2 * BATCH)
            driver.wait_until(lambda: _read(driver) == 3 * BATCH, "rows of the new executor")
            driver.send(signal.SIGTERM)
            assert driver.wait().exit_code == 0
    assert [one for one in executors if is_alive(one)] == []
    found = _judged(lab_endpoints, job)
    assert found["read"] == found["written"] == 3 * BATCH
    assert_verified(job)


@pytest.mark.slow
def test_replay_whose_worker_dies_is_done_on_an_executor_by_the_next_attempt(
    lab_endpoints: LabEndpoints, new_topic: TopicFactory, tmp_path: Path
) -> None:
    topic, writer = new_topic(2), TopicWriter(lab_endpoints.bootstrap_servers)
    job = _job(tmp_path, lab_endpoints, topic, columns=_STRICT)
    rows = [_event(number, with_city=number % 10 != 0) for number in range(10 * BATCH)]
    for partition in (0, 1):
        writer.write(topic, rows[partition::2], partition=partition)
    run = RouteRun(job)
    run.catch_up()
    assert (len(run.rows()), len(run.dirty())) == (9 * BATCH, BATCH)
    marks = tmp_path / "marks"
    marks.mkdir()
    # All rows are read and the files are closed: they are those of an attempt that died.
    fault = FailpointSpec("lane.close", Action.KILL_WORKER, str(marks), by=Role.WORKER)
    with spark_cluster(tmp_path / "cluster") as cluster:
        job.path.write_text(job.path.read_text().replace(_STRICT, COLUMNS))
        _run_on(cluster, job, fault)
        with DriverProcess(job, tmp_path, environment=LOOPBACK) as driver:
            driver.wait_for_event("fenced")
            driver.wait_until(lambda: len(cluster.executors()) == 2, "two executors")
            done = _command("dirty", "replay", str(job.path))
            assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{driver.stderr()[-4000:]}"
            assert (marks / HIT).read_text().startswith("worker ")
            lanes = driver.events("lane_committed")
            assert [(line["written"], line["on_executor"]) for line in lanes] == [(BATCH, True)]
            assert driver.events("lane_waits") == []
            driver.send(signal.SIGTERM)
            assert driver.wait().exit_code == 0
    found = _judged(lab_endpoints, job)
    assert (found["written"], found["dirty"]) == (10 * BATCH, 0)
    assert (found["lost"], found["doubled"], found["altered"]) == (0, 0, 0)
    assert_verified(job)


def _event(number: int, *, with_city: bool) -> bytes:
    body = json.loads(event(number))
    return json.dumps(body if with_city else {**body, "city": None}).encode()


@pytest.mark.slow
def test_partition_whose_worker_dies_is_merged_by_the_next_attempt(
    lab_endpoints: LabEndpoints, new_topic: TopicFactory, tmp_path: Path
) -> None:
    topic, writer = new_topic(2), TopicWriter(lab_endpoints.bootstrap_servers)
    job = _job(tmp_path, lab_endpoints, topic)
    marks = tmp_path / "marks"
    marks.mkdir()
    # At the second file: the first attempt has begun a file by then.
    fault = FailpointSpec("rewrite.file", Action.KILL_WORKER, str(marks), hit=2, by=Role.WORKER)
    with spark_cluster(tmp_path / "cluster") as cluster:
        _run_on(cluster, job, fault)
        with DriverProcess(job, tmp_path, environment=LOOPBACK) as driver:
            for commits in (1, 2, 3):
                rows = [b'{"id": %d, "ts": %d}' % (n, START_MS + n) for n in range(BATCH)]
                for partition in (0, 1):
                    writer.write(topic, rows[partition::2], partition=partition)
                driver.wait_until(partial(_has_read, driver, commits * BATCH), "the rows")
            driver.wait_until(lambda: len(cluster.executors()) == 2, "two executors")
            done = _command("compact", str(job.path), "dt=20261120")
            assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{driver.stderr()[-4000:]}"
            assert (marks / HIT).read_text().startswith("worker ")
            assert driver.events("compaction_failed") == []
            driver.send(signal.SIGTERM)
            assert driver.wait().exit_code == 0
    found = _judged(lab_endpoints, job)
    assert found["read"] == found["written"] == 3 * BATCH
    assert_verified(job)


def _job(folder: Path, endpoints: LabEndpoints, topic: str, *, columns: str = COLUMNS) -> JobFile:
    return write_job(
        folder,
        bootstrap_servers=endpoints.bootstrap_servers,
        metastore_uri=endpoints.metastore_uri,
        topic=topic,
        interval="1s",
        columns=columns,
    )


def _run_on(cluster: SparkCluster, job: JobFile, fault: FailpointSpec) -> None:
    """Have a job's executors be those of a cluster, with a fault in each worker."""
    conf = f"spark_conf: {{spark.executorEnv.{VARIABLE}: '{fault.text()}'}}"
    text = job.path.read_text()
    job.path.write_text(text.replace('master: "local[2]"', f'master: "{cluster.url}", {conf}'))


def _command(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "sluiceway", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def _judged(endpoints: LabEndpoints, job: JobFile) -> dict[str, Any]:
    expectation = job.path.with_name("expectation.json")
    expectation.write_text('{"required": ["id", "ts"]}')
    return read_independently(endpoints, job, expectation=expectation)


def _has_read(driver: DriverProcess, rows: int) -> bool:
    return _read(driver) == rows


def _read(driver: DriverProcess) -> int:
    return sum(line["read"] for line in driver.events("committed"))
