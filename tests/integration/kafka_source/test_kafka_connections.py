"""Names, logins, brokers that are down or die, and the report for lag tools."""

import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from sluiceway.conformance.sources import (
    log_of,
    range_of,
    read_for,
    read_rows,
    read_to_end,
    row_values,
)
from sluiceway.errors import (
    JobFileError,
    SourceUnavailableError,
    TopicNotFoundError,
    UnhealthyEnvironmentError,
)
from sluiceway.lab.lab import Lab
from sluiceway.lab.support import pick_free_ports
from sluiceway.sources.contract import Split
from sluiceway.sources.kafka.client import KafkaSourceClient
from sluiceway.sources.kafka.consumer_cache import ConsumerCache
from sluiceway.sources.kafka.reader import KafkaSplitReader
from tools.kafka_consumers import report_until_taken
from tools.lab_fixture import TopicFactory
from tools.topic_writer import TopicWriter

TIMEOUT_S = 20.0
# Only a refusal ends a call that may take so long.
LONG_S = 3600.0

MakeReader = Callable[..., KafkaSplitReader]


def test_unknown_topic_is_named_with_near_matches_and_not_created(
    client: KafkaSourceClient, new_topic: TopicFactory, admin: AdminClient
) -> None:
    topic = new_topic(prefix="orders")
    wrong = topic[:-1]
    with pytest.raises(TopicNotFoundError, match=rf"no topic {wrong} .*did you mean {topic}"):
        client.discover([topic, wrong])
    assert wrong not in admin.list_topics(timeout=TIMEOUT_S).topics


def test_broker_down_client_reports_it() -> None:
    client = KafkaSourceClient(f"127.0.0.1:{pick_free_ports(1)[0]}", {}, 1.0)
    calls: list[Callable[[], object]] = [
        lambda: client.discover(["t"]),
        lambda: client.bounds([log_of("t")]),
        lambda: client.offsets_at([log_of("t")], 0),
        lambda: client.report("g", {log_of("t"): 1}),
    ]
    for call in calls:
        with pytest.raises(SourceUnavailableError, match="refused"):
            call()
    client.close()


def test_broker_down_reader_returns_nothing(make_reader: MakeReader) -> None:
    reader = make_reader(Split(log_of("t"), 7), servers=f"127.0.0.1:{pick_free_ports(1)[0]}")
    assert reader.read(0.5) == []
    assert range_of(reader) == (7, 0, 0)


def test_library_is_silent_on_standard_error() -> None:
    port = pick_free_ports(1)[0]
    script = f"""
from sluiceway.errors import SourceUnavailableError
from sluiceway.sources.contract import SourcePartition, Split
from sluiceway.sources.kafka.client import KafkaSourceClient
from sluiceway.sources.kafka.reader import KafkaSplitReader
reader = KafkaSplitReader([Split(SourcePartition("t", 0), 0)],
    bootstrap_servers="127.0.0.1:{port}", properties={{}}, owner="o")
assert reader.read(1.0) == []
try:
    KafkaSourceClient("127.0.0.1:{port}", {{}}, 1.0).discover(["t"])
except SourceUnavailableError:
    print("unavailable")
reader.close(reusable=True)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=600
    )
    assert (done.stdout, done.stderr) == ("unavailable\n", "")


def test_refused_login_is_told_before_the_time_out(bootstrap_servers: str) -> None:
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "user",
        "sasl.password": "wrong-password",
    }
    client = KafkaSourceClient(bootstrap_servers, properties, LONG_S)
    with pytest.raises(UnhealthyEnvironmentError, match="authentication failed") as failure:
        client.discover(["t"])
    assert "wrong-password" not in str(failure.value)
    reader = KafkaSplitReader(
        [Split(log_of("t"), 0)],
        bootstrap_servers=bootstrap_servers,
        properties=properties,
        owner="o",
        cache=ConsumerCache(),
    )
    with pytest.raises(SourceUnavailableError, match="authentication failed"):
        read_for(reader, 5.0)
    reader.close(reusable=False)
    client.close()


def test_unknown_property_is_reported_as_the_job_files_fault(bootstrap_servers: str) -> None:
    with pytest.raises(JobFileError, match=r"no\.such\.thing"):
        KafkaSourceClient(bootstrap_servers, {"no.such.thing": "1"}, 1.0)
    with pytest.raises(JobFileError, match=r"no\.such\.thing"):
        KafkaSplitReader(
            [Split(log_of("t"), 0)],
            bootstrap_servers=bootstrap_servers,
            properties={"no.such.thing": "1"},
            owner="o",
            cache=ConsumerCache(),
        )


def test_broker_killed_in_mid_read_every_row_comes_once(
    lab: Lab, new_topic: TopicFactory, writer: TopicWriter, make_reader: MakeReader
) -> None:
    topic = new_topic(partitions=2)
    for partition in (0, 1):
        writer.write(topic, row_values(20_000), partition=partition)
    reader = make_reader(
        Split(log_of(topic, 0), 0), Split(log_of(topic, 1), 0), queued_max_messages_kbytes="64"
    )
    rows = read_rows(reader, 3_000)
    lab.kill_server("kafka")
    restart = threading.Timer(0.5, lab.start_server, ["kafka"])
    restart.start()
    try:
        rows.add(read_to_end(reader, [20_000, 20_000]).batches)
    finally:
        restart.join()
    for index in (0, 1):
        assert rows.offsets(index) == list(range(20_000))
        assert range_of(reader, index) == (20_000, 20_000, 0)


def _group_offset(bootstrap_servers: str, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group, "log_level": 0})
    (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=TIMEOUT_S)
    consumer.close()
    return int(found.offset)


def test_report_sets_group_offsets_that_only_rise(
    bootstrap_servers: str, client: KafkaSourceClient, new_topic: TopicFactory, writer: TopicWriter
) -> None:
    topic, group = new_topic(), "lag-of-route"
    writer.write(topic, row_values(9))
    client.report(group, {})
    report_until_taken(client, group, {log_of(topic): 5})
    assert _group_offset(bootstrap_servers, group, topic) == 5
    client.report(group, {log_of(topic): 3})
    assert _group_offset(bootstrap_servers, group, topic) == 5
    client.report(group, {log_of(topic): 9})
    assert _group_offset(bootstrap_servers, group, topic) == 9
