"""Integration tests talk to the servers of the session's lab; see `tools/lab_fixture.py`."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from sluiceway.host.native_module import SWITCH
from tools.job_files import write_job
from tools.lab_fixture import TopicFactory
from tools.route_faults import NewRun
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter


@pytest.fixture(autouse=True, scope="module")
def engine_of_route_tests(request: pytest.FixtureRequest) -> Iterator[None]:
    """Routes take the library's path in every run; jobs take the native module where it is."""
    with pytest.MonkeyPatch.context() as patch:
        if request.path.name.startswith("test_route"):
            patch.setenv(SWITCH, "0")
        yield


@pytest.fixture
def new_run(
    bootstrap_servers: str, metastore_uri: str, new_topic: TopicFactory, tmp_path: Path
) -> NewRun:
    """Makes a topic and the job that reads it; `changes` are those of `write_job`."""

    def make(
        partitions: int = 1, *, topic_config: dict[str, str] | None = None, **changes: str
    ) -> tuple[RouteRun, str]:
        topic = changes.pop("topic", "") or new_topic(partitions, config=topic_config)
        job = write_job(
            tmp_path,
            bootstrap_servers=changes.pop("bootstrap_servers", bootstrap_servers),
            metastore_uri=changes.pop("metastore_uri", metastore_uri),
            topic=topic,
            **changes,
        )
        return RouteRun(job), topic

    return make


@pytest.fixture
def writer(bootstrap_servers: str) -> TopicWriter:
    return TopicWriter(bootstrap_servers)


@pytest.fixture
def admin(bootstrap_servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
