"""What the tests of the Kafka source share: a client, a writer, readers that are closed."""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient

from sluiceway.sources.contract import Split
from sluiceway.sources.kafka.client import KafkaSourceClient
from sluiceway.sources.kafka.consumer_cache import ConsumerCache
from sluiceway.sources.kafka.reader import KafkaSplitReader
from tools.kafka_consumers import USUAL_CONSUMER, choose_consumer
from tools.topic_writer import TopicWriter

TIMEOUT_S = 120.0

MakeReader = Callable[..., KafkaSplitReader]


@pytest.fixture(autouse=True, params=USUAL_CONSUMER)
def consumer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every test of the folder runs with each consumer; with the rarer one in `make test-all`."""
    choose_consumer(monkeypatch, request.param)
    return str(request.param)


@pytest.fixture
def client(bootstrap_servers: str) -> Iterator[KafkaSourceClient]:
    client = KafkaSourceClient(bootstrap_servers, {}, TIMEOUT_S)
    yield client
    client.close()


@pytest.fixture
def writer(bootstrap_servers: str) -> TopicWriter:
    return TopicWriter(bootstrap_servers)


@pytest.fixture
def admin(bootstrap_servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})


@pytest.fixture
def make_reader(bootstrap_servers: str) -> Iterator[MakeReader]:
    cache = ConsumerCache()
    readers: list[KafkaSplitReader] = []

    def make(
        *splits: Split, servers: str = bootstrap_servers, **properties: str
    ) -> KafkaSplitReader:
        reader = KafkaSplitReader(
            splits,
            bootstrap_servers=servers,
            properties={name.replace("_", "."): value for name, value in properties.items()},
            owner="test",
            cache=cache,
        )
        readers.append(reader)
        return reader

    yield make
    for reader in readers:
        reader.close(reusable=False)
    cache.close()
