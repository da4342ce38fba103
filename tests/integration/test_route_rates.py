"""`run.max_rate` and `source.max_rate` on a real broker: epochs are small, nobody is forgotten."""

from pathlib import Path

import pytest

from sluiceway.errors import TableNotFoundError
from sluiceway.ledger.records import DataRecord
from tools.job_files import JobFile, event, write_routes
from tools.lab_fixture import TopicFactory
from tools.route_faults import live
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

# With epochs of half a second: ten records each.
JOB_RATE, EPOCH_RECORDS = "20/s", 10


@pytest.fixture
def writer(bootstrap_servers: str) -> TopicWriter:
    return TopicWriter(bootstrap_servers)


class Rates:
    """A job with two routes and a rate."""

    def __init__(self, job: JobFile, topics: list[str]) -> None:
        self.run = RouteRun(job)
        self.topics = topics
        self.hot, self.small = (self.run.of(f"ods-{topic}") for topic in topics)


@pytest.fixture
def rates(
    new_topic: TopicFactory, bootstrap_servers: str, metastore_uri: str, tmp_path: Path
) -> Rates:
    topics = [new_topic(2, prefix=f"rate_{name}") for name in ("hot", "small")]
    job = write_routes(
        tmp_path,
        "\n".join(
            f"  - {{topics: [{topic}], table: ods.{topic}, name: ods-{topic}}}" for topic in topics
        ),
        bootstrap_servers=bootstrap_servers,
        metastore_uri=metastore_uri,
    )
    text = job.path.read_text()
    job.path.write_text(text.replace("run: {", f"run: {{max_rate: {JOB_RATE}, "))
    return Rates(job, topics)


def reads(run: RouteRun) -> list[int]:
    """Records that each epoch with rows has read; none before there is a table."""
    try:
        records = run.records()
    except TableNotFoundError:
        return []
    return [int(each.body.counts.read) for each in records if isinstance(each.body, DataRecord)]


def test_backlog_is_read_in_bounded_epochs_and_small_ones_first(
    rates: Rates, writer: TopicWriter
) -> None:
    hot, small = rates.topics
    for partition in (0, 1):
        writer.write(hot, [event(n) for n in range(30)], partition=partition)
        writer.write(small, [event(n) for n in range(2)], partition=partition)
    rates.run.catch_up()
    assert rates.hot.rows() == [(part, n) for part in (0, 1) for n in range(30)]
    assert max(reads(rates.hot)) <= EPOCH_RECORDS
    # All that it had, in the first epoch that it was in.
    assert reads(rates.small) == [4]
    for run in (rates.hot, rates.small):
        run.assert_verified()


def test_rows_that_come_while_it_runs_are_bounded_too_and_all_arrive(
    rates: Rates, writer: TopicWriter
) -> None:
    hot, small = rates.topics
    with live(rates.run) as running:
        for turn in range(3):
            span = range(turn * 20, turn * 20 + 20)
            writer.write(hot, [event(n) for n in span], partition=turn % 2)
        running.wait_for(lambda: sum(reads(rates.hot)) == 60)
        # The source is idle now; what comes is not kept waiting by what had come.
        writer.write(small, [event(n) for n in range(3)])
        running.wait_for(lambda: sum(reads(rates.small)) == 3)
        running.stop()
    assert max(reads(rates.hot)) <= EPOCH_RECORDS
    assert len(rates.hot.rows()) == len(set(rates.hot.rows())) == 60


def test_route_with_a_rate_of_its_own_leaves_the_others_theirs(
    rates: Rates, writer: TopicWriter
) -> None:
    hot = rates.topics[0]
    path = rates.run.job.path
    text = path.read_text().replace(f"max_rate: {JOB_RATE}, ", "")
    slow = f"name: ods-{hot}, source: {{max_rate: 8/s}}"
    path.write_text(text.replace(f"name: ods-{hot}", slow))
    for topic in rates.topics:
        writer.write(topic, [event(n) for n in range(25)])
    rates.run.catch_up()
    assert max(reads(rates.hot)) <= 4
    assert sum(reads(rates.hot)) == 25
    assert reads(rates.small) == [25]
