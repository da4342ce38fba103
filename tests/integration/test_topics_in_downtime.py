"""Topics that come, or go and come again, while no driver runs."""

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from sluiceway.cli.app import run_command
from sluiceway.errors import OffsetsLostError
from tools.job_files import event, write_routes
from tools.route_faults import wait_until
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

_TIMEOUT_S = 180.0

Create = Callable[[str], None]


@pytest.fixture
def create(bootstrap_servers: str) -> Create:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})

    def led(topic: str) -> bool:
        found = admin.list_topics(timeout=_TIMEOUT_S).topics.get(topic)
        return found is not None and [p.leader >= 0 for p in found.partitions.values()] == [True]

    def make(topic: str) -> None:
        admin.create_topics([NewTopic(topic, 1)])[topic].result(_TIMEOUT_S)
        wait_until(lambda: led(topic))

    return make


@pytest.mark.parametrize("table", ["ods.{prefix}_all", "ods.{prefix}_{{1}}"])
def test_topic_of_a_pattern_that_came_in_a_downtime_is_read_from_its_first_row_on(
    bootstrap_servers: str, metastore_uri: str, tmp_path: Path, create: Create, table: str
) -> None:
    prefix = f"w{uuid.uuid4().hex[:8]}"
    writer = TopicWriter(bootstrap_servers)
    route = f'  - {{topics: "{prefix}_(.*)", table: "{table.format(prefix=prefix)}"}}'
    job = RouteRun(
        write_routes(
            tmp_path,
            route,
            bootstrap_servers=bootstrap_servers,
            metastore_uri=metastore_uri,
            start="latest",
        )
    )
    create(f"{prefix}_old")
    writer.write(f"{prefix}_old", [event(0)])
    job.catch_up()
    # No driver runs.
    create(f"{prefix}_new")
    writer.write(f"{prefix}_new", [event(n) for n in range(3)])
    writer.write(f"{prefix}_old", [event(1)])
    job.catch_up()
    routes = ["all"] if table.endswith("_all") else ["old", "new"]
    rows = [row for one in routes for row in job.of(f"ods-{prefix}_{one}").rows("_topic, _offset")]
    assert sorted(rows) == [
        *((f"{prefix}_new", n) for n in range(3)),
        (f"{prefix}_old", 1),
    ]
    for one in routes:
        job.of(f"ods-{prefix}_{one}").assert_verified()


def test_topic_of_a_pattern_that_went_and_came_again_is_read_once_it_is_accepted(
    bootstrap_servers: str, metastore_uri: str, tmp_path: Path, create: Create
) -> None:
    prefix = f"w{uuid.uuid4().hex[:8]}"
    stays, comes_again = f"{prefix}_a", f"{prefix}_b"
    writer = TopicWriter(bootstrap_servers)
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    run = RouteRun(
        write_routes(
            tmp_path,
            f'  - {{topics: "{prefix}_(.*)", table: "ods.{prefix}_all"}}',
            bootstrap_servers=bootstrap_servers,
            metastore_uri=metastore_uri,
        )
    )
    for topic in (stays, comes_again):
        create(topic)
        writer.write(topic, [event(n) for n in range(3)])
    run.catch_up()
    admin.delete_topics([comes_again], operation_timeout=_TIMEOUT_S)[comes_again].result(_TIMEOUT_S)
    wait_until(lambda: comes_again not in admin.list_topics(timeout=_TIMEOUT_S).topics)
    run.catch_up()
    create(comes_again)
    writer.write(comes_again, [event(n) for n in range(10, 12)])
    with pytest.raises(OffsetsLostError, match="is not the log that was read") as halted:
        run.catch_up()
    command = halted.value.commands[2].split()
    assert run_command([str(run.job.path) if it == "JOB" else it for it in command[1:]]) == 0
    run.catch_up()
    rows = run.rows("_topic, id")
    assert sorted(rows) == [
        *((stays, n) for n in range(3)),
        *((comes_again, n) for n in (0, 1, 2, 10, 11)),
    ]
    run.assert_verified()
