"""Real servers of releases 4 and 5 with logins, TLS and a replica."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluiceway.conformance.reading import read_to_stop
from sluiceway.conformance.sources import SourceConformance, SourceUnderTest
from sluiceway.errors import SourceUnavailableError, UnhealthyEnvironmentError
from sluiceway.sources.contract import SourcePartition, Split
from sluiceway.sources.registry import SourceAccess, open_client, open_reader
from sluiceway.sources.rocketmq.codes import Ask
from sluiceway.sources.rocketmq.connection import Connection
from tools.rocketmq_release import BROKER, RELEASES, RocketMqRelease
from tools.rocketmq_under_test import RocketMqUnderTest

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


def read(options: dict[str, str]) -> list[bytes | None]:
    access = SourceAccess("rocketmq", tuple(options.items()))
    reader = open_reader(access, [Split(QUEUE, 0, stop_offset=ROWS)], owner="test")
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


def wait_for_replica(address: str) -> None:
    """Until it has the topic and all rows: it copies settings of topics every ten seconds."""
    until_s = time.monotonic() + 120
    fields = {"topic": TOPIC, "queueId": 0, "queueOffset": ROWS - 1, "maxMsgNums": 1}
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
