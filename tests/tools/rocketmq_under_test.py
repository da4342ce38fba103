"""RocketMQ, as the suite for all sources wants it: all queues on one broker."""

import uuid
from collections.abc import Mapping, Sequence

from sluiceway.conformance.sources import REQUEST_TIMEOUT_S, SourceUnderTest
from sluiceway.sources.contract import SourcePartition, Split, SplitReader
from sluiceway.sources.registry import SourceAccess, open_client, open_reader
from tools.rocketmq_writer import RocketMqWriter


class RocketMqUnderTest(SourceUnderTest):
    """Topics on one broker of the lab.

    Args:
        options: Of a connection.
        broker: Name and `host:port` of the broker.
        writer: Writes to it.
    """

    has_nulls = has_empty = False
    own_headers = frozenset({"MSG_REGION", "TRACE_ON", "CLUSTER", "UNIQ_KEY"})

    def __init__(
        self, options: Mapping[str, str], broker: tuple[str, str], writer: RocketMqWriter
    ) -> None:
        self._access = SourceAccess("rocketmq", tuple(options.items()))
        self._broker, self._address = broker
        self.writer = writer
        self.client = open_client(self._access, REQUEST_TIMEOUT_S)

    def new_topic(self, partitions: int) -> str:
        topic = f"t_{uuid.uuid4().hex[:10]}"
        self.writer.create_topic(topic, {self._address: partitions})
        return topic

    def write(self, topic: str, values: Sequence[bytes | None], partition: int = 0) -> None:
        self.writer.send(self._address, topic, partition, [value or b"" for value in values])

    def log(self, topic: str, partition: int) -> SourcePartition:
        return SourcePartition(topic, f"{self._broker}/{partition}")

    def reader(self, splits: Sequence[Split]) -> SplitReader:
        return open_reader(self._access, list(splits), owner="suite")
