"""The lab itself, against the real servers that it starts."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pymetastore.hive_metastore import ThriftHiveMetastore
from pymetastore.hive_metastore.ttypes import Database
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.lab.lab import Lab, PortTakenError, ServerState

# One server of its own for all of them.
pytestmark = pytest.mark.slow

LabStarter = Callable[[Path], AbstractContextManager[Lab]]
_BOTH_RUN = {"kafka": ServerState.RUNNING, "metastore": ServerState.RUNNING}


@pytest.fixture(scope="module")
def own_lab(lab_in: LabStarter, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab whose servers these tests may end; its folder has a blank in its name."""
    with lab_in(tmp_path_factory.mktemp("own lab") / "the lab") as own_lab:
        yield own_lab


@pytest.fixture(autouse=True)
def _whole_again(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that fails half-way does not take the next ones with it."""
    yield
    if "own_lab" in request.fixturenames:
        request.getfixturevalue("own_lab").up()


@contextmanager
def _metastore(uri: str) -> Iterator[ThriftHiveMetastore.Client]:
    host, _, port = uri.removeprefix("thrift://").partition(":")
    transport = TBufferedTransport(TSocket(host, int(port)))
    transport.open()
    try:
        yield ThriftHiveMetastore.Client(TBinaryProtocol(transport))
    finally:
        transport.close()


def _states(lab: Lab) -> dict[str, ServerState]:
    return {one.name: one.state for one in lab.status()}


def _pids(lab: Lab) -> dict[str, int | None]:
    return {one.name: one.pid for one in lab.status()}


def _create_topic(bootstrap_servers: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(20)


def _produce(bootstrap_servers: str, topic: str, value: bytes, *, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    producer.produce(topic, value, partition=partition)
    assert producer.flush(20) == 0


def _first_value(bootstrap_servers: str, topic: str, *, partition: int = 0) -> bytes | None:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "lab-test", "log_level": 0}
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    try:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                return bytes(message.value())
        return None
    finally:
        consumer.close()


def _processes_of(folder: Path) -> list[int]:
    """Processes that have `folder` in their command line or as their working folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().decode(errors="replace")
            working_folder = str((entry / "cwd").readlink())
        except OSError:
            continue
        if "java" in command and (str(folder) in command or working_folder.startswith(str(folder))):
            found.append(int(entry.name))
    return found


def _wait_for_no_process(folder: Path) -> None:
    deadline = time.monotonic() + 30
    while _processes_of(folder):
        assert time.monotonic() < deadline, f"still there: {_processes_of(folder)}"
        time.sleep(0.1)


def test_status_of_running_lab_is_running(lab: Lab) -> None:
    assert _states(lab) == _BOTH_RUN


def test_message_produced_is_consumed(
    bootstrap_servers: str, new_topic: Callable[[int], str]
) -> None:
    topic = new_topic(3)
    _produce(bootstrap_servers, topic, b"hello", partition=2)
    assert _first_value(bootstrap_servers, topic, partition=2) == b"hello"


def test_unknown_topic_is_not_made_by_asking_for_it(bootstrap_servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.list_topics("never_created", timeout=20)
    assert "never_created" not in admin.list_topics(timeout=20).topics


def test_metastore_puts_its_default_database_into_the_warehouse(
    metastore_uri: str, warehouse: Path
) -> None:
    with _metastore(metastore_uri) as client:
        location = client.get_database("default").locationUri
    assert location == f"file:{warehouse}"
    assert warehouse.is_dir()


def test_up_of_running_lab_changes_nothing(own_lab: Lab) -> None:
    pids, endpoints = _pids(own_lab), own_lab.endpoints()
    assert own_lab.up() == endpoints
    assert _pids(own_lab) == pids


def test_two_labs_have_ports_of_their_own(lab: Lab, own_lab: Lab) -> None:
    ports = [one.port for one in (*lab.status(), *own_lab.status())]
    assert len(set(ports)) == 4
    assert _states(lab) == _states(own_lab) == _BOTH_RUN


@pytest.mark.parametrize("end", ["kill_server", "stop_server"])
def test_kafka_that_comes_back_has_its_port_and_its_messages(own_lab: Lab, end: str) -> None:
    bootstrap_servers, topic = own_lab.endpoints().bootstrap_servers, f"kept-{end}"
    _create_topic(bootstrap_servers, topic)
    _produce(bootstrap_servers, topic, b"kept")
    getattr(own_lab, end)("kafka")
    assert _states(own_lab)["kafka"] is not ServerState.RUNNING
    own_lab.start_server("kafka")
    assert own_lab.endpoints().bootstrap_servers == bootstrap_servers
    assert _first_value(bootstrap_servers, topic) == b"kept"


@pytest.mark.parametrize("end", ["kill_server", "stop_server"])
def test_metastore_that_comes_back_has_its_databases(own_lab: Lab, end: str) -> None:
    endpoints, name = own_lab.endpoints(), end
    with _metastore(endpoints.metastore_uri) as client:
        client.create_database(
            Database(name=name, locationUri=f"file://{endpoints.warehouse}/{name}")
        )
    getattr(own_lab, end)("metastore")
    own_lab.start_server("metastore")
    with _metastore(endpoints.metastore_uri) as client:
        assert name in client.get_all_databases()


def test_killed_server_is_reported_dead_with_the_end_of_its_log(own_lab: Lab) -> None:
    own_lab.kill_server("kafka")
    kafka = next(one for one in own_lab.status() if one.name == "kafka")
    assert kafka.state is ServerState.DEAD
    assert kafka.log_end
    assert kafka.log_file.read_text().rstrip().endswith(kafka.log_end)
    assert _states(own_lab)["metastore"] is ServerState.RUNNING


def test_stopped_process_is_reported_silent(own_lab: Lab) -> None:
    pid = _pids(own_lab)["kafka"]
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        assert _states(own_lab)["kafka"] is ServerState.SILENT
    finally:
        os.kill(pid, signal.SIGCONT)


def test_start_server_port_taken_is_refused(own_lab: Lab) -> None:
    port = int(own_lab.endpoints().bootstrap_servers.rpartition(":")[2])
    own_lab.stop_server("kafka")
    with socket.create_server(("127.0.0.1", port)), pytest.raises(PortTakenError, match=str(port)):
        own_lab.start_server("kafka")
    assert _states(own_lab)["kafka"] is ServerState.STOPPED


def test_up_port_taken_meanwhile_moves_to_another(own_lab: Lab) -> None:
    before = own_lab.endpoints()
    own_lab.stop_server("metastore")
    port = int(before.metastore_uri.rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)):
        after = own_lab.up()
    assert after.metastore_uri != before.metastore_uri
    assert after.bootstrap_servers == before.bootstrap_servers
    assert _states(own_lab) == _BOTH_RUN


def test_up_server_that_dies_is_reported_and_nothing_it_started_stays(own_lab: Lab) -> None:
    own_lab.down()
    properties = own_lab.folder / "kafka" / "data" / "meta.properties"
    whole = properties.read_text()
    properties.write_text(whole.replace("node.id=1", "node.id=7"))
    try:
        with pytest.raises(
            UnhealthyEnvironmentError, match=r"(?s)ended before it answered.*node"
        ) as failed:
            own_lab.up()
    finally:
        properties.write_text(whole)
    assert failed.value.where == str(own_lab.log_file("kafka"))
    assert _processes_of(own_lab.folder) == []


def test_down_leaves_no_process_and_the_other_lab_alone(lab: Lab, own_lab: Lab) -> None:
    assert len(_processes_of(own_lab.folder)) == 2
    own_lab.down()
    assert _processes_of(own_lab.folder) == []
    assert set(_states(own_lab).values()) == {ServerState.STOPPED}
    assert _states(lab) == _BOTH_RUN


@pytest.mark.slow
def test_down_remove_data_leaves_no_file(lab_in: LabStarter, tmp_path: Path) -> None:
    with lab_in(tmp_path / "lab") as lab:
        assert (lab.folder / "state.json").exists()
        lab.down(remove_data=True)
        assert not lab.folder.exists()


@pytest.mark.slow
def test_lab_of_a_killed_test_run_goes_down_by_itself(tmp_path: Path) -> None:
    folder, tests = tmp_path / "lab", Path(__file__).parents[1]
    script = (
        "import sys, time; from pathlib import Path; from tools.lab_fixture import running_lab\n"
        "with running_lab(Path(sys.argv[1])): print('up', flush=True); time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(folder)], cwd=tests, stdout=subprocess.PIPE
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"up\n"
        assert len(_processes_of(folder)) == 2
        run.kill()
    _wait_for_no_process(folder)


@pytest.mark.slow
def test_up_interrupted_leaves_no_process(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    script = (
        "import sys; from pathlib import Path; from sluiceway.lab.lab import Lab\n"
        "Lab(Path(sys.argv[1])).up(lambda step: print(step.text, flush=True))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as run:
        assert run.stdout is not None
        while b"starting Kafka" not in run.stdout.readline():
            assert run.poll() is None
        run.send_signal(signal.SIGINT)
    assert run.returncode != 0
    _wait_for_no_process(folder)
    assert set(_states(Lab(folder)).values()) == {ServerState.STOPPED}
