"""Brokers that want a login: SCRAM, PLAIN, tokens and certificates over TLS."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from sluiceway.conformance.sources import log_of, read_for, read_to_end
from sluiceway.errors import SluicewayError, SourceUnavailableError, UnhealthyEnvironmentError
from sluiceway.sources.contract import SourcePartition, Split
from sluiceway.sources.kafka.client import KafkaSourceClient
from sluiceway.sources.kafka.consumer_cache import ConsumerCache
from sluiceway.sources.kafka.reader import KafkaSplitReader
from tools.guarded_broker import PASSWORD, GuardedBroker, guarded_broker
from tools.kafka_consumers import report_until_taken
from tools.route_faults import wait_until
from tools.topic_writer import TopicWriter

# One server of its own for all of them.
pytestmark = pytest.mark.slow

TIMEOUT_S = 20.0
TOPIC = "guarded"
ROWS = [b"a", b"b", b"c"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedBroker]:
    with guarded_broker(tmp_path_factory.mktemp("guarded") / "broker") as broker:
        admin = AdminClient({"bootstrap.servers": broker.plain, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(TIMEOUT_S)
        TopicWriter(broker.plain).write(TOPIC, ROWS)
        yield broker


@pytest.mark.parametrize("way", ["SCRAM-SHA-512", "PLAIN", "token", "certificate"])
def test_login_reads_as_any_other(broker: GuardedBroker, way: str) -> None:
    servers, properties = _way(broker, way)
    client = KafkaSourceClient(servers, properties, TIMEOUT_S)
    (found,) = client.discover([TOPIC])
    (bounds,) = client.bounds([found.partition]).values()
    assert bounds.end_offset == len(ROWS)
    report_until_taken(client, "lag-tools", {found.partition: 2})
    client.close()
    reader = _reader(servers, properties)
    assert read_to_end(reader, [len(ROWS)]).values() == ROWS
    reader.close(reusable=False)


def test_topic_that_the_login_may_see_no_more_is_not_taken_for_gone(broker: GuardedBroker) -> None:
    hidden = f"hidden-{time.time_ns()}"
    admin = AdminClient({"bootstrap.servers": broker.plain, "log_level": 0})
    admin.create_topics([NewTopic(hidden, 1, 1)])[hidden].result(TIMEOUT_S)
    client = KafkaSourceClient(broker.sasl, broker.login("SCRAM-SHA-512"), TIMEOUT_S)
    wait_until(lambda: hidden in client.list_topics())
    broker.hide(hidden)
    # The list says nothing of why.
    wait_until(lambda: hidden not in client.list_topics())
    one = SourcePartition(hidden, 0)
    for _ in range(8):
        assert client.gone([one]) == frozenset()
        time.sleep(1.0)
    with pytest.raises(UnhealthyEnvironmentError):
        client.discover([hidden])
    client.close()
    admin.delete_topics([hidden])[hidden].result(TIMEOUT_S)


def test_wrong_password_is_told_and_not_shown(broker: GuardedBroker) -> None:
    wrong = "not-the-password-91d2"
    told = _refusal(broker.sasl, broker.login("SCRAM-SHA-512", wrong))
    assert "authentication failed" in str(told).lower()
    assert wrong not in str(told)
    assert isinstance(told, UnhealthyEnvironmentError)


def test_unknown_authority_is_told(broker: GuardedBroker) -> None:
    trusting = {**broker.login("SCRAM-SHA-512"), "ssl.ca.location": str(_stranger(broker))}
    told = _refusal(broker.sasl, trusting)
    assert "certificate" in str(told).lower()
    assert PASSWORD not in str(told)


def test_certificate_that_the_broker_does_not_trust_is_told(broker: GuardedBroker) -> None:
    told = _refusal(broker.tls, broker.by_certificate(broker.foreign))
    assert "ssl" in str(told).lower()


def test_reader_without_login_gives_no_rows_and_says_why(broker: GuardedBroker) -> None:
    reader = _reader(broker.sasl, broker.login("SCRAM-SHA-512", "not-the-password-91d2"))
    with pytest.raises(SourceUnavailableError, match=r"(?i)authentication failed"):
        read_for(reader, 5.0)
    reader.close(reusable=False)


def _way(broker: GuardedBroker, way: str) -> tuple[str, Mapping[str, str]]:
    if way == "certificate":
        return broker.tls, broker.by_certificate()
    return broker.sasl, broker.token() if way == "token" else broker.login(way)


def _reader(servers: str, properties: Mapping[str, str]) -> KafkaSplitReader:
    return KafkaSplitReader(
        [Split(log_of(TOPIC), 0)],
        bootstrap_servers=servers,
        properties=properties,
        owner="test",
        cache=ConsumerCache(),
    )


def _refusal(servers: str, properties: Mapping[str, str]) -> SluicewayError:
    client = KafkaSourceClient(servers, properties, TIMEOUT_S)
    with pytest.raises(SluicewayError) as refused:
        client.discover([TOPIC])
    client.close()
    return refused.value


def _stranger(broker: GuardedBroker) -> Path:
    return broker.authority.with_name("stranger.pem")
