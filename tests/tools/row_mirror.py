"""A mirror of one topic between two clusters: each row once, in order, under other offsets."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

_TIMEOUT_S = 120.0
NOTHING: Mapping[int, int] = MappingProxyType({})


@dataclass
class RowMirror:
    """Copies committed rows with key, value and record time, as MirrorMaker 2 does exactly once.

    Args:
        source: Brokers of the topic.
        target: Brokers of the copy, which has as many partitions.
        topic: Its name.
        copy: Name of the copy.
        rows: Rows of a transaction: its marker takes an offset of the copy.
    """

    source: str
    target: str
    topic: str
    copy: str
    rows: int = 7
    _ends: dict[int, int] = field(default_factory=dict)
    _producer: Producer | None = None

    def run(self, without: Mapping[int, int] = NOTHING) -> int:
        """Copy what the topic has now; how many rows were copied.

        Args:
            without: Partition -> how many of its last rows are left out.
        """
        reader = Consumer({
            "bootstrap.servers": self.source, "group.id": "mirror", "enable.auto.commit": False,
            "isolation.level": "read_committed", "enable.partition.eof": True,
            "auto.offset.reset": "earliest", "log_level": 0,
        })  # fmt: skip
        found = reader.list_topics(self.topic, timeout=_TIMEOUT_S).topics[self.topic].partitions
        reader.assign([
            TopicPartition(self.topic, number, self._ends.get(number, 0)) for number in found
        ])  # fmt: skip
        open_now, rows = set(found), list[Message]()
        while open_now:
            message = reader.poll(_TIMEOUT_S)
            assert message is not None, f"{self.topic} does not answer"
            error = message.error()
            if error is None:
                rows.append(message)
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                open_now.discard(message.partition())
        reader.close()
        for number, count in without.items():
            own = [row for row in rows if row.partition() == number]
            left = {row.offset() for row in own[len(own) - count :]}
            rows = [row for row in rows if row.partition() != number or row.offset() not in left]
        for first in range(0, len(rows), self.rows):
            self._write(rows[first : first + self.rows])
        return len(rows)

    def _write(self, rows: list[Message]) -> None:
        if self._producer is None:
            settings = {"bootstrap.servers": self.target, "transactional.id": f"m-{self.copy}"}
            self._producer = Producer({**settings, "log_level": 0})
            self._producer.init_transactions(_TIMEOUT_S)
        producer = self._producer
        producer.begin_transaction()
        for row in rows:
            number, offset, (_, time_ms) = row.partition(), row.offset(), row.timestamp()
            assert number is not None
            assert offset is not None
            producer.produce(
                self.copy,
                row.value(),
                row.key(),
                number,
                timestamp=time_ms,
                headers=row.headers() or [],
            )
            producer.poll(0)
            self._ends[number] = offset + 1
        producer.commit_transaction(_TIMEOUT_S)
