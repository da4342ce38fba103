"""Dirty rows replayed by a live driver on Spark that is killed in the middle of it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sluiceway.lab.lab import LabEndpoints
from sluiceway.ledger.lane_records import LaneDataRecord, LaneRecord
from sluiceway.observe.failpoints import VARIABLE, Action, FailpointSpec
from tools.driver_process import DriverProcess
from tools.job_files import COLUMNS, event, write_job
from tools.lab_fixture import TopicFactory
from tools.route_runs import RouteRun
from tools.table_proofs import assert_verified, read_independently
from tools.topic_writer import TopicWriter

_STRICT = COLUMNS.replace("name: city, type: string", "name: city, type: string, required: true")


def _payloads(count: int) -> list[bytes]:
    """One event in ten has no city, one in a hundred is cut."""
    made = []
    for number in range(count):
        body = json.loads(event(number))
        if number % 10 == 0:
            del body["city"]
        made.append(b"{" if number % 100 == 50 else json.dumps(body).encode())
    return made


@pytest.mark.slow
def test_replay_by_a_driver_that_is_killed_has_every_row_once(
    lab_endpoints: LabEndpoints,
    bootstrap_servers: str,
    metastore_uri: str,
    new_topic: TopicFactory,
    tmp_path: Path,
) -> None:
    topic = new_topic(2)
    writer, rows = TopicWriter(bootstrap_servers), _payloads(2000)
    for partition in (0, 1):
        writer.write(topic, rows[partition::2], partition=partition)
    servers = {"bootstrap_servers": bootstrap_servers, "metastore_uri": metastore_uri}
    job = write_job(tmp_path, topic=topic, columns=_STRICT, **servers)
    run = RouteRun(job)
    run.catch_up()
    assert (len(run.rows()), len(run.dirty())) == (1800, 200)
    job.path.write_text(job.path.read_text().replace(_STRICT, COLUMNS))

    folder = tmp_path / "failpoint"
    folder.mkdir()
    spec = FailpointSpec("step.prepared", Action.KILL, str(folder))
    environment = {VARIABLE: spec.text()}
    with DriverProcess(job, tmp_path, environment=environment) as driver:
        driver.wait_for_event("fenced")
        command = [sys.executable, "-m", "sluiceway", "dirty", "replay", str(job.path)]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, env=os.environ) as asking:
            # The first epoch that this driver prepares is that of the lane: nothing else is new.
            assert driver.wait().exit_code == -signal.SIGKILL
            # Nobody runs the route any more: the command that waits does it.
            assert asking.wait(240) == 0
    bodies = [each.body for each in run.records()]
    assert sum(isinstance(body, LaneRecord) for body in bodies) == 1
    epochs = [body for body in bodies if isinstance(body, LaneDataRecord)]
    assert sum(int(body.counts.read) for body in epochs) == 200

    run.catch_up()
    assert_verified(job)
    expectation = tmp_path / "expectation.json"
    expectation.write_text('{"required": ["id", "ts"]}')
    found = read_independently(lab_endpoints, job, expectation=expectation)
    assert (found["written"], found["dirty"]) == (1980, 20)
    assert (found["lost"], found["doubled"], found["altered"]) == (0, 0, 0)
