"""One lab for the whole test session, started when the first test asks for it."""

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from sluiceway.lab.lab import Lab, LabEndpoints, StoreServer

_TOPIC_TIMEOUT_S = 120.0
# Its standard input ends when the test run ends, however that happens: also by SIGKILL.
_GUARD = """\
import sys
from pathlib import Path
from sluiceway.lab.lab import Lab
sys.stdin.read()
Lab(Path(sys.argv[1])).down()
"""


SHARED_LAB = "SLUICEWAY_TEST_LAB"
"""Folder of a lab that is up, for tests that stop none of its servers (`tools.shared_lab`)."""

LabStarter = Callable[[Path], AbstractContextManager[Lab]]


class TopicFactory(Protocol):
    """Creates topics with names of their own."""

    def __call__(
        self, partitions: int = 1, *, prefix: str = "t", config: Mapping[str, str] | None = None
    ) -> str:
        """Create a topic that is ready for use, and return its name."""
        ...


@contextmanager
def running_lab(
    folder: Path, *, stores: Sequence[StoreServer] = (), metastore: bool = True
) -> Iterator[Lab]:
    """A lab that is up in the block and down after it, even if the test run is killed."""
    lab = Lab(folder, stores=stores, metastore=metastore)
    guard = [sys.executable, "-c", _GUARD, str(folder)]
    with subprocess.Popen(guard, stdin=subprocess.PIPE, start_new_session=True):
        try:
            lab.up()
            yield lab
        finally:
            lab.down()


@pytest.fixture(scope="session")
def lab_in() -> LabStarter:
    """Starts labs of a test's own: `with lab_in(folder) as lab`."""
    return running_lab


@contextmanager
def shared_lab(folder: Path) -> Iterator[Lab]:
    """The lab that is up for several runs; one of this run's own where there is none."""
    shared = os.environ.get(SHARED_LAB)
    if shared:
        yield Lab(Path(shared))
        return
    with running_lab(folder) as lab:
        yield lab


@pytest.fixture(scope="session")
def _session_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with shared_lab(tmp_path_factory.mktemp("lab") / "lab") as lab:
        yield lab


@pytest.fixture(scope="session")
def lab(_session_lab: Lab) -> Lab:
    """The session's lab. A test that stops one of its servers starts it again."""
    assert not os.environ.get(SHARED_LAB), "tests that stop servers need a lab of their own"
    return _session_lab


@pytest.fixture(scope="session")
def lab_endpoints(_session_lab: Lab) -> LabEndpoints:
    """All endpoints of the session's lab."""
    return _session_lab.endpoints()


@pytest.fixture(scope="session")
def bootstrap_servers(lab_endpoints: LabEndpoints) -> str:
    """The broker's `host:port`."""
    return lab_endpoints.bootstrap_servers


@pytest.fixture(scope="session")
def metastore_uri(lab_endpoints: LabEndpoints) -> str:
    """The metastore's `thrift://host:port`."""
    return lab_endpoints.metastore_uri


@pytest.fixture(scope="session")
def warehouse(lab_endpoints: LabEndpoints) -> Path:
    """The folder under which the metastore puts tables."""
    return lab_endpoints.warehouse


@pytest.fixture(scope="session")
def new_topic(bootstrap_servers: str) -> TopicFactory:
    """Creates topics with unique names in the session's broker."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})

    def create(
        partitions: int = 1, *, prefix: str = "t", config: Mapping[str, str] | None = None
    ) -> str:
        name = f"{prefix}_{uuid.uuid4().hex[:10]}"
        topic = NewTopic(
            name, num_partitions=partitions, replication_factor=1, config=dict(config or {})
        )
        admin.create_topics([topic])[name].result(_TOPIC_TIMEOUT_S)
        _wait_for_leaders(admin, name, partitions)
        return name

    return create


def _wait_for_leaders(admin: AdminClient, name: str, partitions: int) -> None:
    """A leader is known before it answers: it may say for a moment that it leads nothing."""
    every = {TopicPartition(name, number): OffsetSpec.earliest() for number in range(partitions)}
    deadline = time.monotonic() + _TOPIC_TIMEOUT_S
    while time.monotonic() < deadline:
        found = admin.list_topics(name, timeout=_TOPIC_TIMEOUT_S).topics[name].partitions
        if len(found) == partitions and all(one.leader >= 0 for one in found.values()):
            answers = admin.list_offsets(every, request_timeout=_TOPIC_TIMEOUT_S).values()
            if not any(answer.exception(_TOPIC_TIMEOUT_S) for answer in answers):
                return
        time.sleep(0.02)
    raise TimeoutError(f"topic {name} has no leaders after {_TOPIC_TIMEOUT_S:.0f} s")
