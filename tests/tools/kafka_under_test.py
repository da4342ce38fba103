"""The session's broker as a source under test."""

from collections.abc import Sequence

from sluiceway.conformance.sources import REQUEST_TIMEOUT_S, SourceUnderTest
from sluiceway.sources.contract import Split, SplitReader
from sluiceway.sources.kafka.source import BOOTSTRAP_SERVERS
from sluiceway.sources.registry import SourceAccess, open_client, open_reader
from tools.lab_fixture import TopicFactory
from tools.topic_writer import TopicWriter


class KafkaUnderTest(SourceUnderTest):
    def __init__(self, bootstrap_servers: str, new_topic: TopicFactory) -> None:
        self._access = SourceAccess("kafka", ((BOOTSTRAP_SERVERS, bootstrap_servers),))
        self._new_topic = new_topic
        self._writer = TopicWriter(bootstrap_servers)
        self.client = open_client(self._access, REQUEST_TIMEOUT_S)

    def new_topic(self, partitions: int) -> str:
        return self._new_topic(partitions)

    def write(self, topic: str, values: Sequence[bytes | None], partition: int = 0) -> None:
        self._writer.write(topic, values, partition=partition)

    def reader(self, splits: Sequence[Split]) -> SplitReader:
        return open_reader(self._access, list(splits), owner="conformance")
