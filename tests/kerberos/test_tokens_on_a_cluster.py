"""Compaction and replays on executors that have no ticket and no keytab: by the driver's tokens."""

import json
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

from sluiceway.lab.kafka import create_topic
from sluiceway.lab.lab import LabEndpoints
from tools.driver_process import DriverProcess
from tools.job_files import JobFile
from tools.secured_job import secured_job
from tools.spark_cluster import lonely_cluster
from tools.topic_writer import TopicWriter

TOPIC = "tokens"
BATCH = 40
BATCHES = 3
DIRTY = 4
START_MS = 1_795_161_600_000
# The machine's own name may lead elsewhere; executors look for the driver by it.
LOOPBACK = {"SPARK_LOCAL_IP": "127.0.0.1"}
_STATUS = "{name: status, type: string}"
_STRICT = "{name: status, type: string, required: true}"


def _rows(batch: int) -> list[bytes]:
    """Of one hour; each tenth has no status."""
    numbers = range(batch * BATCH, (batch + 1) * BATCH)
    return [
        json.dumps(
            {"order_id": n, "ts": START_MS + n, "status": "paid" if n % 10 else None}
        ).encode()
        for n in numbers
    ]


def _command(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "sluiceway", *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def _stop(driver: DriverProcess) -> None:
    driver.send(signal.SIGTERM)
    ended = driver.wait()
    assert ended.exit_code == 0, ended.stderr[-3000:]
    # Each JVM that gave tokens has ended, and nobody asks it for anything.
    assert "py4j" not in ended.stderr


def _has_read(driver: DriverProcess, count: int) -> bool:
    return _read(driver) == count


def _fill(driver: DriverProcess, writer: TopicWriter) -> None:
    for batch in range(BATCHES):
        rows = _rows(batch)
        for partition in (0, 1):
            writer.write(TOPIC, rows[partition::2], partition=partition)
        driver.wait_until(partial(_has_read, driver, (batch + 1) * BATCH), "the rows")


def test_compaction_and_replays_on_executors_go_by_the_drivers_tokens(
    endpoints: LabEndpoints, tmp_path: Path
) -> None:
    workers = tmp_path / "workers-tmp"
    workers.mkdir()
    create_topic(endpoints.bootstrap_servers, TOPIC, 2)
    job = JobFile(tmp_path / "job.yaml", f"ods.{TOPIC}")
    with lonely_cluster(tmp_path / "cluster", workers) as cluster:
        master = f'master: "{cluster.url}", spark_conf: {{spark.executor.memory: 512m}}'
        text = secured_job(endpoints, TOPIC, interval="1s").replace('master: "local[1]"', master)
        job.path.write_text(text.replace(_STATUS, _STRICT))
        with DriverProcess(job, tmp_path, environment=LOOPBACK) as driver:
            _fill(driver, TopicWriter(endpoints.bootstrap_servers))
            _stop(driver)
        job.path.write_text(text)
        with DriverProcess(job, tmp_path, environment=LOOPBACK) as driver:
            driver.wait_for_event("fenced")
            driver.wait_until(lambda: len(cluster.executors()) == 2, "two executors")
            _command("dirty", "replay", str(job.path))
            lanes = driver.events("lane_committed")
            told = [(line["written"], line["on_executor"]) for line in lanes]
            assert told == [(BATCHES * DIRTY, True)]
            _command("compact", str(job.path), "dt=20261120")
            assert driver.events("compaction_failed") == []
            _stop(driver)
            assert driver.events("hdfs_tokens_not_renewed") == []
    assert list(workers.glob("sluiceway-*/hdfs-tokens-*")) != []
    assert list(workers.glob("sluiceway-*/krb5cc-*")) == []
    assert f"{BATCHES * BATCH}" in _command("verify", str(job.path), "--deep")
    files = _command("files", str(job.path), "-o", "json")
    assert files.count(".parquet") == 1, files


def _read(driver: DriverProcess) -> int:
    return sum(line["read"] for line in driver.events("committed"))
