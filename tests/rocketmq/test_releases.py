"""Real servers of releases 4 and 5 with logins, TLS and a replica."""

import json
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sluiceway.conformance.sources import SourceConformance, SourceUnderTest, read_to_stop
from sluiceway.errors import SourceUnavailableError, UnhealthyEnvironmentError
from sluiceway.lab.lab import Lab
from sluiceway.sources.contract import LogBounds, SourcePartition, Split
from sluiceway.sources.registry import SourceAccess, open_client, open_reader
from sluiceway.sources.rocketmq.codes import Ask
from sluiceway.sources.rocketmq.connection import Connection
from tools.driver_process import DriverProcess
from tools.job_files import JobFile
from tools.rocketmq_release import BROKER, RELEASES, RocketMqRelease
from tools.rocketmq_under_test import RocketMqUnderTest
from tools.rocketmq_writer import RocketMqWriter
from tools.table_proofs import assert_verified

TOPIC = "orders"
QUEUE = SourcePartition(TOPIC, f"{BROKER}/0")
ROWS = 100


def filled(release: RocketMqRelease) -> list[bytes]:
    """Messages of the one queue of a new topic."""
    writer = release.writer()
    writer.create_topic(TOPIC, {release.address(): 1})
    bodies = [b"row-%d" % number for number in range(ROWS)]
    writer.send_many(release.address(), TOPIC, 0, bodies)
    writer.close()
    return bodies


def read(options: dict[str, str], rows: int = ROWS) -> list[bytes | None]:
    access = SourceAccess("rocketmq", tuple(options.items()))
    reader = open_reader(access, [Split(QUEUE, 0, stop_offset=rows)], owner="test")
    try:
        return read_to_stop(reader).values()
    finally:
        reader.close(reusable=False)


@pytest.fixture(scope="module", params=RELEASES)
def guarded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RocketMqRelease]:
    """A release that demands signed requests."""
    folder = tmp_path_factory.mktemp("guarded")
    with RocketMqRelease(request.param, folder, logins=True) as found:
        yield found


class TestReleasesWithLogins(SourceConformance):
    @pytest.fixture
    def opened(self, guarded: RocketMqRelease) -> Iterator[SourceUnderTest]:
        broker = (BROKER, guarded.address())
        found = RocketMqUnderTest(guarded.options(), broker, guarded.writer())
        # A broker of release 4 answers 0 for a group that it does not know.
        found.knows_silent_groups = not guarded.version.startswith("4")
        yield found
        found.writer.close()

    def test_wrong_secret_is_told_and_none_too(self, guarded: RocketMqRelease) -> None:
        writer = guarded.writer()
        topic = f"guarded_{time.time_ns()}"
        writer.create_topic(topic, {guarded.address(): 1})
        writer.close()
        log = SourcePartition(topic, f"{BROKER}/0")
        right = guarded.options()
        without = {"name_servers": guarded.name_server}
        for options in ({**right, "secret_key": "wrong"}, without):
            client = open_client(SourceAccess("rocketmq", tuple(options.items())), 10.0)
            with pytest.raises(UnhealthyEnvironmentError) as failure:
                client.bounds([log])
            assert failure.value.code == "SW403"
            assert "wrong" not in str(failure.value)
            client.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate that nobody but itself has signed, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    found = (folder / "cert.pem", folder / "key.pem")
    command = [
        *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=broker"),
        *("-days", "2", "-out", str(found[0]), "-keyout", str(found[1])),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return found


@pytest.mark.parametrize("version", RELEASES)
def test_broker_that_takes_tls_alone_is_read_by_who_trusts_it(
    version: str, tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    with RocketMqRelease(version, tmp_path, certificate=certificate) as release:
        bodies = filled(release)
        assert read(release.options()) == bodies
        plain = {"name_servers": release.name_server}
        client = open_client(SourceAccess("rocketmq", tuple(plain.items())), 5.0)
        with pytest.raises(SourceUnavailableError):
            client.offsets_at([QUEUE], 0)
        client.close()
        strange = open_client(SourceAccess("rocketmq", (*plain.items(), ("tls", "true"))), 5.0)
        with pytest.raises(UnhealthyEnvironmentError, match="certificate is not trusted"):
            strange.discover([TOPIC])
        strange.close()


def test_replica_is_read_while_its_master_is_gone(tmp_path: Path) -> None:
    with RocketMqRelease(RELEASES[1], tmp_path, replica=True) as release:
        bodies = filled(release)
        wait_for_replica(release.address(1))
        release.kill_master()
        assert read(release.options()) == bodies


@pytest.mark.parametrize("version", RELEASES)
def test_half_messages_are_in_no_topic_that_is_listed_and_in_no_queue_that_is_read(
    version: str, tmp_path: Path
) -> None:
    with RocketMqRelease(version, tmp_path) as release:
        writer, address = release.writer(), release.address()
        writer.create_topic(TOPIC, {address: 1})
        halves = [writer.send_half(address, TOPIC, 0, b"half-%d" % n) for n in range(3)]
        writer.send(address, TOPIC, 0, [b"whole"])
        writer.end(halves[0], commit=False)
        writer.end(halves[1], commit=True)
        writer.close()
        client = open_client(SourceAccess("rocketmq", tuple(release.options().items())), 10.0)
        assert client.list_topics() == (TOPIC,)
        assert client.bounds([QUEUE]) == {QUEUE: LogBounds(0, 2, 2)}
        client.close()
        assert read(release.options(), rows=2) == [b"whole", b"half-1"]


@pytest.mark.parametrize("version", RELEASES)
def test_job_reads_a_replica_to_its_end_and_goes_on_with_the_master(
    version: str, rocketmq_lab: Lab, tmp_path: Path
) -> None:
    with RocketMqRelease(version, tmp_path / "mq", replica=True) as release:
        folder, metastore = tmp_path / "job", rocketmq_lab.endpoints().metastore_uri
        folder.mkdir()
        mq = ReplicatedOrders(release, folder, metastore, rocketmq_lab.endpoints().warehouse)
        mq.writer.create_topic(mq.topic, {release.address(): 1})
        mq.write(range(50))
        with mq.driver("--until-caught-up") as driver:
            assert driver.wait().exit_code == 0
        mq.write(range(50, 100))
        wait_for_replica(release.address(1), mq.topic, 100)
        release.kill_master()
        mq.writer.drop(release.address())
        with mq.driver() as driver:
            driver.wait_until(lambda: mq.ids() == list(range(100)), "rows of the replica")
            assert driver.events("partitions_left_out")
            release.start_master()
            mq.write(range(100, 110))
            driver.wait_until(lambda: mq.ids() == list(range(110)), "rows of the master")
            driver.wait_for_event("partitions_back")
            assert driver.events("route_halted") == []
        mq.writer.close()
        assert_verified(mq.job)


@dataclass(frozen=True, slots=True)
class ReplicatedOrders:
    """A topic of a release of its own, and the job that reads it into a table of the lab."""

    release: RocketMqRelease
    folder: Path
    metastore: str
    warehouse: Path
    topic: str = field(default_factory=lambda: f"mq_{time.time_ns()}")
    writer: RocketMqWriter = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "writer", self.release.writer())

    @property
    def job(self) -> JobFile:
        path = self.folder / "job.yaml"
        path.write_text(
            _JOB.format(
                topic=self.topic, name_server=self.release.name_server, metastore=self.metastore
            )
        )
        return JobFile(path, f"ods.{self.topic}")

    def driver(self, *options: str) -> DriverProcess:
        return DriverProcess(self.job, self.folder, *options, module="tools.inline_driver")

    def write(self, ids: range) -> None:
        bodies = [json.dumps({"id": number}).encode() for number in ids]
        self.writer.send(self.release.address(), self.topic, 0, bodies)

    def ids(self) -> list[int]:
        """Of all rows, as the files have them."""
        found: list[int] = []
        for path in (self.warehouse / "ods.db" / self.topic).rglob("*.parquet"):
            if "_sluiceway" not in path.parts:
                found += pq.ParquetFile(path).read(columns=["id"]).column(0).to_pylist()
        return sorted(found)


_JOB = """\
version: 1
name: {topic}
connections:
  mq: {{rocketmq: {{name_servers: ["{name_server}"]}}}}
  hms: {{metastore: {{uri: "{metastore}"}}}}
source: {{connection: mq, topics: [{topic}], start: earliest}}
format: {{json: {{}}}}
table:
  hive: {{connection: hms, name: ods.{topic}, create: if_missing}}
  columns: [{{name: id, type: bigint, required: true}}]
  partition_by: []
run: {{interval: 1s}}
"""


def wait_for_replica(address: str, topic: str = TOPIC, rows: int = ROWS) -> None:
    """Until it has the topic and all rows: it copies settings of topics every ten seconds."""
    until_s = time.monotonic() + 120
    fields = {"topic": topic, "queueId": 0, "queueOffset": rows - 1, "maxMsgNums": 1}
    more = {
        "consumerGroup": "TEST",
        "sysFlag": 4,
        "commitOffset": 0,
        "suspendTimeoutMillis": 0,
        "subscription": "*",
        "subVersion": 0,
        "expressionType": "TAG",
    }
    while True:
        connection = Connection(address, timeout_s=10.0)
        reply = connection.call(Ask.PULL, {**fields, **more}, 10.0)
        connection.close()
        if reply.code == 0:
            return
        assert time.monotonic() < until_s, reply
        time.sleep(0.5)
