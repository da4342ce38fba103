"""Writes that go into a black hole: the others commit, the slow ones keep their ends."""

import re
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from sluiceway.errors import TableNotFoundError
from sluiceway.ledger.records import DataRecord
from sluiceway.storage.contract import StagedWriter
from sluiceway.storage.local import LocalStorage
from tools.job_files import event, write_routes
from tools.lab_fixture import TopicFactory
from tools.route_faults import live
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

PATIENCE_S = 240.0
NOTHING = re.compile("(?!)")


class BlackHole:
    """Staged files whose path matches `swallows` are not begun before `gate` is open."""

    def __init__(self) -> None:
        self.swallows = NOTHING
        self.gate = threading.Event()
        self.held = 0

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        create = LocalStorage.create_staged

        def slowly(storage: LocalStorage, path: str) -> StagedWriter:
            if self.swallows.search(path):
                self.held += 1
                assert self.gate.wait(PATIENCE_S)
            return create(storage, path)

        monkeypatch.setattr(LocalStorage, "create_staged", slowly)


@pytest.fixture
def hole(monkeypatch: pytest.MonkeyPatch) -> Iterator[BlackHole]:
    made = BlackHole()
    made.patch(monkeypatch)
    yield made
    # Threads that are held have to end with the test.
    made.gate.set()


@pytest.fixture
def topics(new_topic: TopicFactory) -> list[str]:
    return [new_topic(2, prefix=f"hole_{name}") for name in ("bad", "good")]


@pytest.fixture
def run(topics: list[str], bootstrap_servers: str, metastore_uri: str, tmp_path: Path) -> RouteRun:
    routes = (f"  - {{topics: [{t}], table: ods.{t}, name: ods-{t}}}" for t in topics)
    job = write_routes(
        tmp_path,
        "\n".join(routes),
        bootstrap_servers=bootstrap_servers,
        metastore_uri=metastore_uri,
    )
    text = job.path.read_text().replace("run: {", "run: {straggler_timeout: 1s, ")
    job.path.write_text(text)
    return RouteRun(job)


def ends(run: RouteRun) -> dict[int, int]:
    """Committed end of each partition; none before there is a table."""
    try:
        records = run.records()
    except TableNotFoundError:
        return {}
    return {
        int(each.partition): int(each.end)
        for record in records
        if isinstance(record.body, DataRecord)
        for each in record.body.ranges
    }


def has_end(run: RouteRun, end: int) -> bool:
    return ends(run).get(0) == end


def test_route_whose_writes_hang_holds_no_other_route_up(
    run: RouteRun, topics: list[str], hole: BlackHole, bootstrap_servers: str
) -> None:
    writer = TopicWriter(bootstrap_servers)
    bad, good = (run.of(f"ods-{topic}") for topic in topics)
    hole.swallows = re.compile(rf"{topics[0]}/.*\.parquet$")
    with live(run) as running:
        running.wait_for(lambda: ends(good) == ends(bad) == {})
        writer.write(topics[0], [event(n) for n in range(5)])
        running.wait_for(lambda: hole.held > 0)
        for turn in range(3):
            span = range(turn * 5, turn * 5 + 5)
            writer.write(topics[1], [event(n) for n in span])
            running.wait_for(partial(has_end, good, turn * 5 + 5))
        assert ends(bad) == {}
        hole.swallows = NOTHING
        hole.gate.set()
        running.wait_for(lambda: ends(bad) == {0: 5})
        running.stop()
    assert bad.rows() == [(0, n) for n in range(5)]
    assert good.rows() == [(0, n) for n in range(15)]
    for each in (bad, good):
        each.assert_verified()


def test_task_that_hangs_costs_its_route_only_its_own_partitions(
    topics: list[str],
    hole: BlackHole,
    bootstrap_servers: str,
    metastore_uri: str,
    tmp_path: Path,
) -> None:
    topic = topics[0]
    job = write_routes(
        tmp_path,
        f"  - {{topics: [{topic}], table: ods.{topic}, name: alone}}",
        bootstrap_servers=bootstrap_servers,
        metastore_uri=metastore_uri,
    )
    text = job.path.read_text().replace("run: {", "run: {straggler_timeout: 1s, ")
    job.path.write_text(text)
    run, writer = RouteRun(job), TopicWriter(bootstrap_servers)
    for partition in (0, 1):
        writer.write(topic, [event(n) for n in range(5)], partition=partition)
    # A file's name says of which task it is.
    hole.swallows = re.compile(r"-1-[0-9a-f]{32}\.parquet$")
    with live(run) as running:
        running.wait_for(lambda: hole.held > 0)
        running.wait_for(lambda: len(ends(run)) == 1)
        (slow,) = {0, 1} - ends(run).keys()
        # The other partition goes on, epoch after epoch.
        writer.write(topic, [event(n) for n in range(5, 8)], partition=1 - slow)
        running.wait_for(lambda: ends(run) == {1 - slow: 8})
        hole.swallows = NOTHING
        hole.gate.set()
        running.wait_for(lambda: ends(run) == {slow: 5, 1 - slow: 8})
        running.stop()
    assert run.rows() == sorted(
        [*((slow, n) for n in range(5)), *((1 - slow, n) for n in range(8))]
    )
    run.assert_verified()
