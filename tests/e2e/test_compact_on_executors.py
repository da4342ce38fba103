"""Compaction on a standalone Spark cluster, while whoever does it dies: every row once."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sluiceway.host.proc_stat import PPID, read_stat
from sluiceway.lab.lab import LabEndpoints
from sluiceway.observe.failpoints import VARIABLE, Action, FailpointSpec
from tools.driver_process import DriverProcess
from tools.job_files import JobFile, event, write_job
from tools.lab_fixture import TopicFactory
from tools.spark_cluster import SparkCluster, spark_cluster
from tools.table_proofs import assert_verified, read_independently
from tools.topic_writer import TopicWriter

PATIENCE_S = 240.0
EPOCHS, ROWS = 4, 10
# The machine's own name may lead elsewhere; executors look for the driver by it.
LOOPBACK = {"SPARK_LOCAL_IP": "127.0.0.1"}


def compact(job: JobFile) -> "subprocess.Popen[str]":
    """The command, which asks the running driver."""
    command = [sys.executable, "-m", "sluiceway", "compact", str(job.path), "dt=*/hr=*"]
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_for(holds: Callable[[], object], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, f"no {what}"
        time.sleep(0.1)


def executor_above(cluster: SparkCluster, pid: int) -> int:
    """The executor's JVM that a Python worker works for."""
    known = {one.pid for one in cluster.executors()}
    while pid not in known:
        stat = read_stat(pid)
        assert stat is not None
        pid = int(stat[1][PPID])
        assert pid > 1
    return pid


def read_in(driver: DriverProcess) -> int:
    return sum(line["read"] for line in driver.events("committed"))


@pytest.mark.parametrize("dies", ["worker", "executor", "driver"])
def test_executors_compact_and_their_deaths_lose_nothing(
    dies: str,
    lab_endpoints: LabEndpoints,
    new_topic: TopicFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic, writer = new_topic(1), TopicWriter(lab_endpoints.bootstrap_servers)
    job = write_job(
        tmp_path,
        bootstrap_servers=lab_endpoints.bootstrap_servers,
        metastore_uri=lab_endpoints.metastore_uri,
        topic=topic,
    )
    points = tmp_path / "points"
    points.mkdir()
    action = Action.KILL_WORKER if dies == "worker" else Action.DELAY
    spec = FailpointSpec("rewrite.file", action, str(points), hit=2, delay_s=2 * PATIENCE_S)
    # Executors alone know of it: the driver's own process would not die of it.
    monkeypatch.setenv(VARIABLE, spec.text())
    with spark_cluster(tmp_path / "cluster") as cluster:
        monkeypatch.delenv(VARIABLE)
        job.path.write_text(job.path.read_text().replace("local[2]", cluster.url))
        with DriverProcess(job, tmp_path, environment=LOOPBACK) as driver:
            for epoch in range(EPOCHS):
                first = epoch * ROWS
                writer.write(topic, [event(n) for n in range(first, first + ROWS)], partition=0)
                driver.wait_for_event("committed", epoch + 1)
            driver.wait_until(lambda: len(cluster.executors()) == 2, "two executors")
            asked = compact(job)
            wait_for((points / "hit").exists, "rewriting on an executor")
            wait_for((points / "hit").read_text, "its pid")
            worker = int((points / "hit").read_text().split()[1])
            if dies == "executor":
                os.kill(executor_above(cluster, worker), 9)
            if dies == "driver":
                driver.kill_group()
            else:
                driver.wait_for_event("compacted")
                writer.write(topic, [event(EPOCHS * ROWS)], partition=0)
                driver.wait_until(lambda: read_in(driver) == EPOCHS * ROWS + 1, "a row behind it")
        if dies == "driver":
            with DriverProcess(job, tmp_path, environment=LOOPBACK) as successor:
                successor.wait_for_event("compacted")
                writer.write(topic, [event(EPOCHS * ROWS)], partition=0)
                successor.wait_until(lambda: read_in(successor) == 1, "a row behind it")
        said, _ = asked.communicate(timeout=PATIENCE_S)
        assert asked.returncode == 0, said
    found = read_independently(lab_endpoints, job)
    assert found["read"] == found["written"] == EPOCHS * ROWS + 1
    assert_verified(job)
