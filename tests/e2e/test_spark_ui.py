"""What Spark's own pages show of a driver that runs, asked for by their REST API."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sluiceway.lab.lab import LabEndpoints
from tools.driver_process import DriverProcess
from tools.job_files import JobFile, event, write_job
from tools.lab_fixture import TopicFactory
from tools.topic_writer import TopicWriter

pytestmark = pytest.mark.slow


@pytest.fixture
def job(lab_endpoints: LabEndpoints, new_topic: TopicFactory, tmp_path: Path) -> JobFile:
    return write_job(
        tmp_path,
        bootstrap_servers=lab_endpoints.bootstrap_servers,
        metastore_uri=lab_endpoints.metastore_uri,
        topic=new_topic(2),
    )


def answer(url: str) -> Any:
    with urllib.request.urlopen(url) as found:  # noqa: S310 - of this machine
        return json.load(found)


def status(job: JobFile, *options: str) -> str:
    command = [sys.executable, "-m", "sluiceway", "status", str(job.path), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert done.stdout, done.stderr
    return done.stdout


def ui_in_status(job: JobFile) -> str | None:
    (route,) = json.loads(status(job, "-o", "json"))["routes"]
    found: str | None = route["spark_ui"]
    return found


def stages(application: str, holds: Callable[[dict[str, Any]], object]) -> list[dict[str, Any]]:
    return [each for each in answer(f"{application}/stages?details=true") if holds(each)]


def test_pages_of_a_driver_say_what_its_jobs_read(
    lab_endpoints: LabEndpoints, job: JobFile, tmp_path: Path
) -> None:
    writer = TopicWriter(lab_endpoints.bootstrap_servers)
    (topic,) = job.spec.routes[0].source.names
    writer.write(topic, [event(n) for n in range(20)], partition=0)
    writer.write(topic, [event(0), b"{broken"], partition=1)
    with DriverProcess(job, tmp_path) as driver:
        address = driver.wait_for_event("spark_started")["ui"]
        driver.wait_until(lambda: ui_in_status(job) == address, "address in status")
        assert f": {address}" in status(job).splitlines()[-1]
        (found,) = answer(f"{address}/api/v1/applications")
        application = f"{address}/api/v1/applications/{found['id']}"
        counted = lambda each: any(  # noqa: E731
            update["value"] == "22" for update in each["accumulatorUpdates"]
        )
        driver.wait_until(lambda: stages(application, counted), "a stage that has read all")
        (stage,) = stages(application, counted)
        group, route = f"sluiceway-{job.spec.name}-epochs", job.spec.name
        assert stage["name"] == group
        begins, _, waiting = stage["description"].partition(", ")
        assert begins.startswith(f"{route}: epoch ")
        assert waiting == "2 splits, 22 records waiting"
        sums = {each["name"]: each["value"] for each in stage["accumulatorUpdates"]}
        assert (sums["rows read"], sums["dirty rows"]) == ("22", "1")
        assert int(sums["bytes read"]) > 22
        tasks = stage["tasks"].values()
        assert all(each["accumulatorUpdates"] for each in tasks)
        groups = {each["jobGroup"] for each in answer(f"{application}/jobs")}
        assert groups == {group}
    # It was killed: its last word about the address is in the file that it left.
    assert ui_in_status(job) is None
    assert "Spark UI" not in status(job)
