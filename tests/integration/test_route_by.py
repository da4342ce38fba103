"""Tables that a value names, on a real broker and metastore: made on the way, each row once."""

import json
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest

from sluiceway.audit.pick_route import job_routes
from sluiceway.observe.log import stderr_log
from tools.job_files import JobFile
from tools.lab_fixture import TopicFactory
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter


def payload(number: int, kind: object) -> bytes:
    return json.dumps({"id": number, "type": kind}).encode()


class Job:
    """A job that routes one topic by `type`.

    Attributes:
        prefix: Begins the names of its tables.
    """

    def __init__(self, folder: Path, topic: str, servers: str, metastore: str) -> None:
        self.prefix = f"v{uuid.uuid4().hex[:8]}"
        self._folder, self._topic, self._servers, self._metastore = (
            folder,
            topic,
            servers,
            metastore,
        )
        self._writer = TopicWriter(servers)

    def write(self, kinds: Sequence[object], first: int, *, partition: int = 0) -> None:
        rows = [payload(first + n, kind) for n, kind in enumerate(kinds)]
        self._writer.write(self._topic, rows, partition=partition)

    def run(self, max_tables: int = 10) -> RouteRun:
        path = self._folder / "events.yaml"
        path.write_text(f"""\
version: 1
name: events
connections:
  main: {{kafka: {{bootstrap_servers: "{self._servers}"}}}}
  hms: {{metastore: {{uri: "{self._metastore}"}}}}
source: {{connection: main, topics: [{self._topic}], start: earliest}}
format: {{json: {{}}}}
route_by: $.type
max_tables: {max_tables}
table:
  hive: {{connection: hms, name: "ods.{self.prefix}_{{value}}"}}
  columns:
    - {{name: id, type: bigint, required: true}}
  partition_by: []
  meta: [partition, offset]
run: {{interval: 0.5s, discover_interval: 0.5s, master: "local[2]"}}
""")
        return RouteRun(JobFile(path, ""), self.route("unrouted"))

    def route(self, value: str) -> str:
        return f"ods-{self.prefix}_{value}"

    def ids(self, run: RouteRun, value: str) -> list[int]:
        return sorted(int(str(found)) for (found,) in run.of(self.route(value)).rows("id"))


@pytest.fixture
def job(tmp_path: Path, new_topic: TopicFactory, bootstrap_servers: str, metastore_uri: str) -> Job:
    return Job(tmp_path, new_topic(2), bootstrap_servers, metastore_uri)


def test_each_value_has_a_table_and_each_row_is_there_once(job: Job) -> None:
    kinds = ["created", "order-paid", "Created", None, "no/name", 7] * 50
    job.write(kinds, 0)
    job.write(kinds, 1000, partition=1)
    run = job.run()
    run.catch_up()
    both = [n + first for first in (0, 1000) for n in range(300)]
    # Values that give one name have one table.
    assert job.ids(run, "created") == [n for n in both if n % 1000 % 6 in (0, 2)]
    assert job.ids(run, "order_paid") == [n for n in both if n % 1000 % 6 == 1]
    assert job.ids(run, "unrouted") == []
    assert len(run.dirty()) == 300
    assert {reason for (reason,) in run.dirty("reason")} == {
        "null",
        "bad_partition_value",
        "wrong_type",
    }
    # Another driver knows the tables, and finds one more that comes later.
    job.write(["created", "refunded"] * 20, 2000)
    run.catch_up()
    assert job.ids(run, "refunded") == list(range(2001, 2040, 2))
    assert job.ids(run, "created")[-20:] == list(range(2000, 2040, 2))
    names = [config.route for config in job_routes(run.job.spec, stderr_log())]
    assert names == [
        job.route(value) for value in ("unrouted", "created", "order_paid", "refunded")
    ]
    for name in names:
        run.of(name).assert_verified()


def test_value_beyond_the_most_tables_is_dirty_and_ends_nothing(job: Job) -> None:
    job.write(["a", "b", "c", "a"] * 30, 0)
    run = job.run(max_tables=2)
    run.catch_up()
    routes = [config.route for config in job_routes(run.job.spec, stderr_log())]
    tables = {route.rpartition("_")[2] for route in routes} - {"unrouted"}
    assert len(tables) == 2
    kinds = {"a": (0, 3), "b": (1,), "c": (2,)}
    for kind in tables:
        assert job.ids(run, kind) == [n for n in range(120) if n % 4 in kinds[kind]]
    (beyond,) = kinds.keys() - tables
    assert len(run.dirty()) == 30 * len(kinds[beyond])
    run.assert_verified()
