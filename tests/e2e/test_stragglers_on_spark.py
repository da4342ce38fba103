"""A worker that stands still: its epoch goes on without it, and its rows come once, later."""

import os
import signal
from pathlib import Path

import pytest

from sluiceway.lab.lab import LabEndpoints
from sluiceway.ledger.records import DataRecord
from tools.driver_process import DriverProcess
from tools.job_files import JobFile, event, write_job
from tools.lab_fixture import TopicFactory
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

ROWS = 30


@pytest.fixture
def job(lab_endpoints: LabEndpoints, new_topic: TopicFactory, tmp_path: Path) -> JobFile:
    made = write_job(
        tmp_path,
        bootstrap_servers=lab_endpoints.bootstrap_servers,
        metastore_uri=lab_endpoints.metastore_uri,
        topic=new_topic(2, prefix="slow"),
        interval="4s",
        partition_by="[]",
        event_time="",
    )
    text = made.path.read_text().replace("run: {", "run: {straggler_timeout: 20s, ")
    made.path.write_text(text)
    return made


def _produce(endpoints: LabEndpoints, job: JobFile, span: range) -> None:
    writer = TopicWriter(endpoints.bootstrap_servers)
    for partition in (0, 1):
        rows = [event(number) for number in span]
        writer.write(job.route.topics[0], rows, partition=partition)


def _ranges(run: RouteRun) -> list[list[tuple[int, int, int]]]:
    return [
        [(int(each.partition), int(each.start), int(each.end)) for each in record.body.ranges]
        for record in run.records()
        if isinstance(record.body, DataRecord)
    ]


def _writing(driver: DriverProcess) -> list[int]:
    """Workers that have a staged file open."""
    found = []
    for pid in driver.workers():
        try:
            links = [str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()]
        except OSError:
            continue
        if any(link.endswith(".inprogress") for link in links):
            found.append(pid)
    return found


@pytest.mark.slow
def test_worker_that_stands_still_costs_the_others_no_epoch(
    lab_endpoints: LabEndpoints, job: JobFile, tmp_path: Path
) -> None:
    run = RouteRun(job)

    def read() -> int:
        return sum(each["read"] for each in driver.events("committed"))

    with DriverProcess(job, tmp_path) as driver:
        # The first epoch pays for the start of the workers.
        _produce(lab_endpoints, job, range(ROWS))
        driver.wait_until(lambda: read() == 2 * ROWS, "first rows")
        before = len(_ranges(run))
        _produce(lab_endpoints, job, range(ROWS, 2 * ROWS))
        driver.wait_until(lambda: len(_writing(driver)) == 2, "two open files")
        stopped = _writing(driver)[0]
        os.kill(stopped, signal.SIGSTOP)
        told = driver.wait_for_event("stragglers")
        driver.wait_until(lambda: read() == 4 * ROWS, "all rows")
        # Were it to wake up now, what it writes would be of an epoch that is over.
        if stopped in driver.workers():
            os.kill(stopped, signal.SIGCONT)
        driver.send(signal.SIGTERM)
        assert driver.wait().exit_code == 0
    assert (told["answers"], told["tasks"]) == (1, 2)
    first, *others = _ranges(run)[before:]
    # The finished task's range was committed; the other's kept its end and came later, whole.
    ((done, start, end),) = first
    assert (start, end) == (ROWS, 2 * ROWS)
    assert (1 - done, ROWS, 2 * ROWS) in [each for ranges in others for each in ranges]
    assert run.rows() == [(partition, n) for partition in (0, 1) for n in range(2 * ROWS)]
    run.assert_verified()
