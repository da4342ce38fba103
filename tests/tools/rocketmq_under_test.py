"""RocketMQ, as the suite for all sources wants it: all queues on one broker."""

import uuid
from collections.abc import Sequence

from sluiceway.conformance.sources import REQUEST_TIMEOUT_S, SourceUnderTest
from sluiceway.sources.contract import SourcePartition, Split, SplitReader
from sluiceway.sources.registry import SourceAccess, open_client, open_reader
from tools.rocketmq_writer import RocketMqWriter


class RocketMqUnderTest(SourceUnderTest):
    """Topics on one broker of the lab.

    Args:
        name_server: `host:port`.
        broker: Name and `host:port` of the broker.
    """

    has_nulls = has_empty = False
    own_headers = frozenset({"MSG_REGION", "TRACE_ON", "CLUSTER", "UNIQ_KEY"})

    def __init__(self, name_server: str, broker: tuple[str, str]) -> None:
        self._access = SourceAccess("rocketmq", (("name_servers", name_server),))
        self._broker, self._address = broker
        self.writer = RocketMqWriter(name_server)
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
